package seamline.connect;

import java.util.Map;

/** A place between two transactions, as a connector's offset: behind the commit that ends at this LSN. */
final class Place {

    static final String LSN = "lsn";
    private static final String COMMIT_LSN = "lsn_commit";
    private static final String PROCESSED_LSN = "lsn_proc";

    private Place() {}

    /**
     * What the connector needs to ask the server for everything that commits later. Without `lsn_proc` it takes all that
     * the server sends and searches for no place inside a transaction; without the transaction it counts from its BEGIN.
     *
     * @param offset of an END, or any that Debezium's own class has stored; null stays null
     */
    static Map<String, Object> before(Map<String, ?> offset) {
        if (offset == null) {
            return null;
        }
        Object commit = offset.containsKey(COMMIT_LSN) ? offset.get(COMMIT_LSN) : offset.get(PROCESSED_LSN);
        return commit == null ? Map.of(LSN, offset.get(LSN)) : Map.of(LSN, commit, COMMIT_LSN, commit);
    }
}
