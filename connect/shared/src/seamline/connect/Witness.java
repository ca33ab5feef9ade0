package seamline.connect;

import io.debezium.jdbc.JdbcConnection;
import io.debezium.util.Clock;
import io.debezium.util.DelayStrategy;
import io.debezium.util.Threads;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * The newest marker that the log has reported, stored with the place: a source that does not hold it was restored to an
 * earlier state, or is another one, whatever its positions say.
 */
record Witness(String marker, long committedMs) {

    private static final String MARKER = "seamline_marker";
    private static final String COMMITTED_MS = "seamline_marker_ms";

    /**
     * Between a commit in the log and its row before all eyes lie a few steps in memory: PostgreSQL has flushed the record
     * and takes the transaction out of those that run (CommitTransaction, xact.c), MariaDB has written the group to its
     * binlog and commits it in the engine (trx_group_commit_leader, log.cc). A watch that found the capture silent has
     * started it again half a minute after a loss, and within a minute the loss must have its name.
     */
    private static final Duration SHOWN_WITHIN = Duration.ofSeconds(5);

    /** Unless the server waits in between for the word of a standby, which may be away for long. */
    private static final Duration CONFIRMED_WITHIN = Duration.ofMinutes(10);

    private static final Duration PAUSE = Duration.ofMillis(250);

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

    /**
     * @param table as the source's SQL names it
     * @param waits a question that brings a row where the server may hold a commit back after its log has it
     */
    void requireIn(JdbcConnection source, String table, String waits) throws SQLException {
        if (isShownIn(source, table)) {
            return;
        }
        boolean isYoung = System.currentTimeMillis() - committedMs < CONFIRMED_WITHIN.toMillis();
        if (isYoung && source.queryAndMap(waits, ResultSet::next)) {
            // Not to be retried by Debezium, which would tell nobody why it waits: the watch starts a failed task again.
            throw new ConnectException("Marker " + marker + " stands in the log, and " + table + " does not show it yet: a"
                    + " standby has yet to confirm it, or the source was restored to an earlier state");
        }
        throw new ConnectException(
                "The place where the log topic ends is no longer available on the server: it was restored to an earlier"
                        + " state, or is another one, for " + table + " does not hold marker " + marker);
    }

    private boolean isShownIn(JdbcConnection source, String table) throws SQLException {
        Threads.Timer patience = Threads.timer(Clock.SYSTEM, SHOWN_WITHIN);
        DelayStrategy pause = DelayStrategy.constant(PAUSE);
        while (!isIn(source, table)) {
            if (patience.expired()) {
                return false;
            }
            pause.sleepWhen(true);
        }
        return true;
    }

    private boolean isIn(JdbcConnection source, String table) throws SQLException {
        String asked = "SELECT id FROM " + table + " WHERE id = ?";
        return source.prepareQueryAndMap(asked, statement -> statement.setString(1, marker), ResultSet::next);
    }
}
