package seamline.connect;

import java.util.Map;

/** Behind the commit that ends at an LSN. */
final class PostgresPlaces implements Places {

    static final String LSN = "lsn";
    private static final String COMMIT_LSN = "lsn_commit";
    private static final String PROCESSED_LSN = "lsn_proc";

    /**
     * What the connector needs to ask the server for everything that commits later. Without `lsn_proc` it takes all that
     * the server sends and searches for no place inside a transaction; without the transaction it counts from its BEGIN.
     */
    @Override
    public Map<String, Object> upTo(Map<String, ?> stored) {
        if (stored == null) {
            return null;
        }
        Object commit = stored.containsKey(COMMIT_LSN) ? stored.get(COMMIT_LSN) : stored.get(PROCESSED_LSN);
        return commit == null ? Map.of(LSN, stored.get(LSN)) : Map.of(LSN, commit, COMMIT_LSN, commit);
    }

    /** A BEGIN tells the LSN of its own commit, which has not been reported yet. */
    @Override
    public Map<String, Object> atBegin(String transaction, Map<String, ?> offset, Map<String, Object> last) {
        return last;
    }

    @Override
    public Map<String, Object> behind(String transaction, Map<String, ?> offset) {
        return upTo(offset);
    }
}
