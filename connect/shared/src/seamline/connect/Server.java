package seamline.connect;

import io.debezium.jdbc.JdbcConnection;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;

/** The server that the places are of, by its own word; stored beside each of them. */
record Server(String identity) {

    private static final String KEY = "seamline_server";

    /**
     * @param question to which a server answers otherwise once it is another one
     * @param stored the offset that Connect holds from before; null where nothing was ever stored
     */
    static Server requireSame(JdbcConnection source, String question, Map<String, ?> stored) throws SQLException {
        String now = source.queryAndMap(question, rows -> rows.next() ? rows.getString(1) : "");
        Object before = stored == null ? null : stored.get(KEY);
        if (before != null && !before.equals(now)) {
            throw new ConnectException(
                    "The place where the log topic ends is no longer available on the server: another server answers, which"
                            + " calls itself " + now + ", and the log is of " + before
                            + ": a replica was promoted, or the source was moved or restored");
        }
        return new Server(now);
    }

    Map<String, Object> beside(Map<String, Object> place) {
        Map<String, Object> both = new HashMap<>(place);
        both.put(KEY, identity);
        return both;
    }
}
