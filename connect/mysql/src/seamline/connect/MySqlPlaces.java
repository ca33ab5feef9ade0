package seamline.connect;

import com.github.shyiko.mysql.binlog.GtidSet;
import io.debezium.jdbc.JdbcConnection;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * Behind a set of GTIDs, those of other servers and those with a tag among them. File and offset are where the last
 * transaction begins: with GTIDs nobody reads from there.
 */
final class MySqlPlaces implements Places {

    private static final String GTIDS = "gtids";

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
        place.keySet().retainAll(Set.of(GTIDS, "file", "pos"));
        return place;
    }

    @Override
    public Map<String, Object> atBegin(String transaction, Map<String, ?> offset, Map<String, Object> last) {
        Map<String, Object> place = upTo(offset);
        if (with(transaction, place).equals(reported(place))) {
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
     * A server whose transactions do not hold those of the place was restored, or is another one; one that has written as
     * many again is known by the marker. What it has purged of those behind the place, nobody has.
     *
     * @param stored the offset that Connect holds from before; null where nothing was ever stored
     */
    static void requireIn(JdbcConnection source, Map<String, ?> stored) throws SQLException {
        if (stored == null || !(stored.get(GTIDS) instanceof String reported)) {
            return;
        }
        require(source, reported, "SELECT GTID_SUBSET(?, @@GLOBAL.gtid_executed)",
                "the server has not written all of it (restored, or another one)");
        require(source, reported, "SELECT GTID_SUBSET(@@GLOBAL.gtid_purged, ?)",
                "the server has purged transactions that follow it");
    }

    private static void require(JdbcConnection source, String reported, String question, String orElse) throws SQLException {
        boolean isSo = source.prepareQueryAndMap(
                question, asked -> asked.setString(1, reported), rows -> rows.next() && rows.getBoolean(1));
        if (!isSo) {
            throw new ConnectException(
                    "The place " + reported + ", where the log topic ends, is no longer available on the server: " + orElse);
        }
    }

    private static GtidSet reported(Map<String, ?> place) {
        return new GtidSet((String) place.get(GTIDS));
    }

    private static GtidSet with(String transaction, Map<String, ?> place) {
        GtidSet all = reported(place);
        all.add(transaction);
        return all;
    }
}
