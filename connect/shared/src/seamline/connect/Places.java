package seamline.connect;

import java.util.Map;

/** The offsets of one kind of source that lie between two transactions, the only ones that are ever stored. */
interface Places {

    /** The last one that is not behind `stored`, which Debezium's own class may have left; null stays null. */
    Map<String, Object> upTo(Map<String, ?> stored);

    /** At the BEGIN of this transaction, which has this offset; `last` was the place so far. */
    Map<String, Object> atBegin(String transaction, Map<String, ?> offset, Map<String, Object> last);

    /** Behind this transaction, whose END has this offset. */
    Map<String, Object> behind(String transaction, Map<String, ?> offset);
}
