package seamline.connect;

import com.github.shyiko.mysql.binlog.MariadbGtidSet;
import io.debezium.jdbc.JdbcConnection;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.errors.ConnectException;

/** Behind a set of GTIDs. File and offset are where its last transaction begins: with GTIDs nobody reads from there. */
final class MariaDbPlaces implements Places {

    private static final String GTIDS = "gtids";
    private static final String FILE = "file";
    private static final String OFFSET_IN_FILE = "pos";

    /**
     * A transaction's offset holds the GTIDs before it, and how many of its events and rows were told. Without those the
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
     * A server tells its log only what it has written. One whose log ends before the place was restored; later, when it has
     * written as far as that again, only the marker tells.
     *
     * @param stored the offset that Connect holds from before; null where nothing was ever stored
     */
    static void requireIn(JdbcConnection source, Map<String, ?> stored) throws SQLException {
        if (stored == null || !(stored.get(GTIDS) instanceof String told)) {
            return;
        }
        String written = source.queryAndMap("SELECT @@GLOBAL.gtid_binlog_pos", rows -> rows.next() ? rows.getString(1) : "");
        Map<String, Long> newest = sequences(written);
        sequences(told).forEach((domain, sequence) -> {
            // Of a domain that its owner has deleted (FLUSH BINARY LOGS DELETE_DOMAIN_ID) the server itself judges.
            Long own = newest.isEmpty() ? Long.valueOf(0) : newest.get(domain);
            if (own != null && own < sequence) {
                throw new ConnectException(
                        "The place " + told + ", where the log topic ends, is no longer available on the server: it has"
                                + " written its log only up to " + (written.isEmpty() ? "nothing" : written)
                                + " (restored, or another one)");
            }
        });
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
        MariadbGtidSet told = new MariadbGtidSet((String) place.get(GTIDS));
        told.add(transaction);
        return told;
    }
}
