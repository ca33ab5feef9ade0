package seamline.connect;

import com.github.shyiko.mysql.binlog.MariadbGtidSet;
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

    private static MariadbGtidSet with(String transaction, Map<String, ?> place) {
        MariadbGtidSet told = new MariadbGtidSet((String) place.get(GTIDS));
        told.add(transaction);
        return told;
    }
}
