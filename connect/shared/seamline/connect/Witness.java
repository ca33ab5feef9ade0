package seamline.connect;

import io.debezium.jdbc.JdbcConnection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;

/**
 * The newest marker that the log has told, stored with the place: a source that does not hold it was restored to an
 * earlier state, or is another one, whatever its positions say.
 */
record Witness(String marker, long committedMs) {

    private static final String MARKER = "seamline_marker";
    private static final String COMMITTED_MS = "seamline_marker_ms";

    /**
     * A source may show a commit later than it tells its log of it, as long as a standby that has to confirm it is away.
     */
    private static final Duration SHOWN = Duration.ofMinutes(10);

    /** @return null where the offset knows of none */
    static Witness in(Map<String, ?> offset) {
        return offset != null
                        && offset.get(MARKER) instanceof String marker
                        && offset.get(COMMITTED_MS) instanceof Number committedMs
                ? new Witness(marker, committedMs.longValue())
                : null;
    }

    Map<String, Object> beside(Map<String, Object> place) {
        Map<String, Object> both = new HashMap<>(place);
        both.put(MARKER, marker);
        both.put(COMMITTED_MS, committedMs);
        return both;
    }

    /** @param table as the source's SQL names it */
    void requireIn(JdbcConnection source, String table) throws SQLException {
        if (isIn(source, table)) {
            return;
        }
        if (System.currentTimeMillis() - committedMs < SHOWN.toMillis()) {
            throw new RetriableException("Marker " + marker + " stands in the log, and " + table + " does not show it yet");
        }
        throw new ConnectException(
                "The place where the log topic ends is no longer available on the server: it was restored to an earlier"
                        + " state, or is another one, for " + table + " does not hold marker " + marker);
    }

    private boolean isIn(JdbcConnection source, String table) throws SQLException {
        String asked = "SELECT id FROM " + table + " WHERE id = ?";
        return source.prepareQueryAndMap(asked, statement -> statement.setString(1, marker), ResultSet::next);
    }
}
