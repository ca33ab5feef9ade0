package seamline.connect;

import com.github.shyiko.mysql.binlog.event.QueryEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.QueryEventDataDeserializer;
import com.github.shyiko.mysql.binlog.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.connect.errors.DataException;

/**
 * Stops at a statement that changed rows and does not tell them: a session may write with another `binlog_format` than the
 * server's.
 *
 * Debezium passes over such a statement with a warning, and what it changed would be missing without a sign.
 */
final class StatementsWithoutRows extends QueryEventDataDeserializer {

    /** None of these verbs is in a binlog of rows. SELECT and DO: of a function that writes. */
    private static final Pattern CHANGE = Pattern.compile(
            "(?:\\s|/\\*.*?\\*/|(?:#|--\\s).*?\\R|SET\\s+STATEMENT\\s.*?\\sFOR\\s)*+"
                    + "(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|SELECT|DO|CALL|WITH)\\s",
            Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
    private static final Pattern TEXT_OR_NAME =
            Pattern.compile("'(?:[^'\\\\]|\\\\.|'')*+'|[`\"]?([\\p{L}\\p{N}_$]+)", Pattern.DOTALL);

    private final Predicate<String> isCaptured;

    /** @param isCaptured whether a database has captured tables, by its name */
    StatementsWithoutRows(Predicate<String> isCaptured) {
        this.isCaptured = isCaptured;
    }

    @Override
    public QueryEventData deserialize(ByteArrayInputStream event) throws IOException {
        return refused(super.deserialize(event));
    }

    /** LOAD DATA, whose event has the place of its file between the lengths and the names. */
    QueryEventData deserializeLoad(ByteArrayInputStream event) throws IOException {
        QueryEventData load = new QueryEventData();
        load.setThreadId(event.readLong(4));
        load.setExecutionTime(event.readLong(4));
        int database = event.readInteger(1);
        load.setErrorCode(event.readInteger(2));
        int variables = event.readInteger(2);
        int file = 13;
        event.skip(file + variables);
        load.setDatabase(event.readString(database));
        event.skip(1);
        load.setSql(event.readString(event.available()));
        return refused(load);
    }

    private QueryEventData refused(QueryEventData statement) {
        String text = statement.getSql();
        if (CHANGE.matcher(text).lookingAt() && (isCaptured.test(statement.getDatabase()) || namesOne(text))) {
            throw new DataException("binlog_format was not ROW when a statement was written in database "
                    + statement.getDatabase() + ": nothing tells the rows that it changed");
        }
        return statement;
    }

    private boolean namesOne(String text) {
        Matcher words = TEXT_OR_NAME.matcher(text);
        while (words.find()) {
            if (words.group(1) != null && isCaptured.test(words.group(1))) {
                return true;
            }
        }
        return false;
    }
}
