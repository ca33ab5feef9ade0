package seamline.connect;

import com.github.shyiko.mysql.binlog.MariadbGtidSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

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
    public Map<String, Object> atBegin(Map<String, ?> offset, Map<String, Object> last) {
        return upTo(offset);
    }

    @Override
    public Map<String, Object> behind(String transaction, Map<String, ?> offset) {
        Map<String, Object> place = upTo(offset);
        MariadbGtidSet told = new MariadbGtidSet((String) place.get(GTIDS));
        told.add(transaction);
        place.put(GTIDS, told.toString());
        return place;
    }
}
