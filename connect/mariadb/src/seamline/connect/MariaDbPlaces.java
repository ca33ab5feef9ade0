package seamline.connect;

import com.github.shyiko.mysql.binlog.MariadbGtidSet;
import io.debezium.jdbc.JdbcConnection;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;

/**
 * Behind a set of GTIDs. File and offset are where its last transaction begins, or where the next one does: with GTIDs
 * nobody reads from there, but a binlog that began again does not hold the same at them.
 */
final class MariaDbPlaces implements Places {

    private static final String GTIDS = "gtids";
    private static final String FILE = "file";
    private static final String OFFSET_IN_FILE = "pos";

    private static final String ANOTHER = "its binlog is another one, begun again or restored: ";

    /** The first event of each binlog file. */
    private static final long FILE_BEGINS = 4;

    /** Events tell their offset in 32 bits: in a longer file it may be another. */
    private static final long OFFSETS_END = 1L << 32;

    /**
     * A transaction's offset holds the GTIDs before it, and how many of its events and rows were reported. Without those the
     * server is asked for all of it.
     */
    @Override
    public Map<String, Object> upTo(Map<String, ?> stored) {
        if (stored == null) {
            return null;
        }
        Map<String, Object> place = new HashMap<>(stored);
        place.keySet().retainAll(Set.of(GTIDS, FILE, OFFSET_IN_FILE));
        return place;
    }

    /** Also ends what has no END: statements that change no row. */
    @Override
    public Map<String, Object> atBegin(String transaction, Map<String, ?> offset, Map<String, Object> last) {
        Map<String, Object> place = upTo(offset);
        if (with(transaction, place).equals(new MariadbGtidSet((String) place.get(GTIDS)))) {
            // Debezium takes a transaction for done once the same task has begun it (ADR 16).
            throw new ConnectException("Transaction " + transaction + " begins at a place that already holds it: " + place);
        }
        return place;
    }

    @Override
    public Map<String, Object> behind(String transaction, Map<String, ?> offset) {
        Map<String, Object> place = upTo(offset);
        place.put(GTIDS, with(transaction, place).toString());
        return place;
    }

    /**
     * A server tells its log only what it has written. One whose log ends before the place was restored; one that has
     * written as far as that again holds other GTIDs at the place's file and offset. Where those are the same, only the
     * marker tells.
     *
     * @param stored the offset that Connect holds from before; null where nothing was ever stored
     */
    static void requireIn(JdbcConnection source, Map<String, ?> stored) throws SQLException {
        if (stored == null || !(stored.get(GTIDS) instanceof String reported)) {
            return;
        }
        String written = source.queryAndMap("SELECT @@GLOBAL.gtid_binlog_pos", rows -> rows.next() ? rows.getString(1) : "");
        Map<String, Long> newest = sequences(written);
        sequences(reported).forEach((domain, sequence) -> {
            // Of a domain that its owner has deleted (FLUSH BINARY LOGS DELETE_DOMAIN_ID) the server itself judges.
            Long own = newest.isEmpty() ? Long.valueOf(0) : newest.get(domain);
            if (own != null && own < sequence) {
                throw lost(reported, "it has written its log only up to " + (written.isEmpty() ? "nothing" : written)
                        + " (restored, or another one)");
            }
        });
        if (stored.get(FILE) instanceof String file && stored.get(OFFSET_IN_FILE) instanceof Number offset) {
            requireSameLog(source, reported, file, offset.longValue());
        }
    }

    private static void requireSameLog(JdbcConnection source, String reported, String file, long offset) throws SQLException {
        String before = writtenBefore(source, file, offset);
        if (before != null) {
            if (!isBehindAtMostOne(sequences(reported), sequences(before))) {
                throw lost(reported, ANOTHER + "at " + file + ":" + offset + " it holds " + before);
            }
            return;
        }
        Map<String, Long> sizes = sizes(source);
        if (sizes.getOrDefault(file, 0L) >= OFFSETS_END) {
            return;
        }
        if (sizes.containsKey(file)) {
            throw lost(reported, ANOTHER + "no event begins at " + file + ":" + offset);
        }
        // Purged: then what is left begins at the place or behind it. How much behind, the server itself judges.
        String oldest = sizes.keySet().iterator().next();
        String purged = writtenBefore(source, oldest, FILE_BEGINS);
        if (purged == null) {
            throw new RetriableException("The source let " + oldest + " go while it was asked for it");
        }
        if (!isBehind(sequences(purged), sequences(reported))) {
            throw lost(reported, ANOTHER + "it has no " + file + ", and " + oldest + " begins behind "
                    + (purged.isEmpty() ? "nothing" : purged));
        }
    }

    /** The GTIDs before this offset; null where no event begins at it, or the file is gone. */
    private static String writtenBefore(JdbcConnection source, String file, long offset) throws SQLException {
        return source.prepareQueryAndMap(
                "SELECT BINLOG_GTID_POS(?, ?)",
                statement -> {
                    statement.setString(1, file);
                    statement.setLong(2, offset);
                },
                rows -> rows.next() ? rows.getString(1) : null);
    }

    /** Of the server's binlog files, the oldest first. */
    private static Map<String, Long> sizes(JdbcConnection source) throws SQLException {
        return source.queryAndMap("SHOW BINARY LOGS", rows -> {
            Map<String, Long> found = new LinkedHashMap<>();
            while (rows.next()) {
                found.put(rows.getString(1), rows.getLong(2));
            }
            return found;
        });
    }

    /** A domain that is missing is a new one, or was deleted. */
    private static boolean isBehindAtMostOne(Map<String, Long> reported, Map<String, Long> before) {
        long ahead = 0;
        for (Map.Entry<String, Long> one : reported.entrySet()) {
            long more = one.getValue() - before.getOrDefault(one.getKey(), one.getValue());
            if (more < 0 || more > 1) {
                return false;
            }
            ahead += more;
        }
        return ahead <= 1;
    }

    private static boolean isBehind(Map<String, Long> purged, Map<String, Long> reported) {
        boolean knowsAny = reported.isEmpty() || reported.keySet().stream().anyMatch(purged::containsKey);
        return knowsAny
                && reported.entrySet().stream()
                        .allMatch(one -> purged.getOrDefault(one.getKey(), one.getValue()) >= one.getValue());
    }

    private static ConnectException lost(String reported, String why) {
        return new ConnectException(
                "The place " + reported + ", where the log topic ends, is no longer available on the server: " + why);
    }

    /** Of `0-7-123,1-7-9` by domain. */
    private static Map<String, Long> sequences(String gtids) {
        Map<String, Long> found = new HashMap<>();
        for (String gtid : gtids.split(",")) {
            String[] parts = gtid.strip().split("-");
            if (parts.length == 3) {
                found.put(parts[0], Long.valueOf(parts[2]));
            }
        }
        return found;
    }

    private static MariadbGtidSet with(String transaction, Map<String, ?> place) {
        MariadbGtidSet behind = new MariadbGtidSet((String) place.get(GTIDS));
        behind.add(transaction);
        return behind;
    }
}
