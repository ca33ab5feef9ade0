package seamline.connect;

import com.github.shyiko.mysql.binlog.event.QueryEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.QueryEventDataDeserializer;
import com.github.shyiko.mysql.binlog.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.IntFunction;
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

    /** None of these is in a binlog of rows. SELECT and DO: of a function that writes. */
    private static final Set<String> CHANGES =
            Set.of("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "SELECT", "DO", "CALL", "WITH");
    /** Comments that the server runs are reported as what stands in them. "…" is a name or a text, by the session's mode. */
    static final Pattern TOKEN = Pattern.compile(
            "/\\*M?!\\d*|/\\*.*?\\*/|(?:#|--(?=\\s|\\z))[^\\n]*|'(?:[^'\\\\]|\\\\.|'')*+'"
                    + "|\"(?<quoted>(?:[^\"\\\\]|\\\\.|\"\")*+)\"|`(?<ticked>(?:[^`]|``)*+)`|(?<plain>[\\p{L}\\p{N}_$]+)|(?<dot>\\.)",
            Pattern.DOTALL);
    private static final int FILE_AND_ITS_PLACE = 13;

    /** A session's variables that stand before the one with its character set, each by its code: how many bytes it has. */
    private static final Map<Integer, Integer> BEFORE_SET = Map.of(0, 4, 1, 8, 3, 4);
    private static final int CATALOG = 6;
    private static final int COLLATIONS = 131;
    private static final int COLLATION_BYTES = 4;
    private static final int SET = 4;

    private final Predicate<String> isCaptured;
    private final IntFunction<Letters.Reading> letters;

    /**
     * @param isCaptured whether a database has captured tables, by its name
     * @param letters how bytes of a collation's number are read; null if nobody knows
     */
    StatementsWithoutRows(Predicate<String> isCaptured, IntFunction<Letters.Reading> letters) {
        this.isCaptured = isCaptured;
        this.letters = letters;
    }

    /** Debezium's class takes every statement for one in UTF-8: names and labels would have other letters. */
    @Override
    public QueryEventData deserialize(ByteArrayInputStream event) throws IOException {
        QueryEventData statement = new QueryEventData();
        statement.setThreadId(event.readLong(4));
        statement.setExecutionTime(event.readLong(4));
        event.skip(1);
        statement.setErrorCode(event.readInteger(2));
        Letters.Reading reading = lettersOf(event.read(event.readInteger(2)));
        statement.setDatabase(event.readZeroTerminatedString());
        statement.setSql(StatementsAsRun.of(reading.text(event.read(event.available()))));
        if (CHANGES.contains(verb(statement.getSql()))) {
            refuse(statement);
        }
        return statement;
    }

    /** By the variables of the session, in the order in which the server writes them (log_event_server.cc). */
    private Letters.Reading lettersOf(byte[] variables) {
        Letters.Reading known = null;
        for (int at = 0; at < variables.length; ) {
            int code = variables[at++] & 0xFF;
            int next = variables[at] & 0xFF;
            if (code == SET) {
                known = letters.apply(next | (variables[at + 1] & 0xFF) << Byte.SIZE);
                break;
            }
            if (code == CATALOG) {
                at += 1 + next;
            } else if (code == COLLATIONS) {
                at += 1 + next * COLLATION_BYTES;
            } else if (BEFORE_SET.containsKey(code)) {
                at += BEFORE_SET.get(code);
            } else {
                break;
            }
        }
        return known != null ? known : text -> new String(text, StandardCharsets.UTF_8);
    }

    /** LOAD DATA, whose event has the place of its file between the lengths and the names. */
    QueryEventData deserializeLoad(ByteArrayInputStream event) throws IOException {
        QueryEventData load = new QueryEventData();
        load.setThreadId(event.readLong(4));
        load.setExecutionTime(event.readLong(4));
        int database = event.readInteger(1);
        load.setErrorCode(event.readInteger(2));
        int variables = event.readInteger(2);
        event.skip(FILE_AND_ITS_PLACE + variables);
        load.setDatabase(event.readString(database));
        event.skip(1);
        load.setSql(event.readString(event.available()));
        refuse(load);
        return load;
    }

    private void refuse(QueryEventData statement) {
        if (mayConcernCaptured(statement)) {
            throw new DataException("binlog_format was not ROW when a statement (" + verb(statement.getSql())
                    + ") was written in database " + statement.getDatabase() + ": nothing tells the rows that it changed");
        }
    }

    /** Whether it was written in a captured database, or names something in one. */
    boolean mayConcernCaptured(QueryEventData statement) {
        return isCaptured.test(statement.getDatabase()) || namesOne(statement.getSql());
    }

    /** The first word, in capitals; of SET STATEMENT … FOR the first behind it. */
    static String verb(String statement) {
        Matcher tokens = TOKEN.matcher(statement);
        String verb = "";
        for (int words = 0; tokens.find(); ) {
            String word = tokens.group("plain") == null ? "" : tokens.group("plain").toUpperCase(Locale.ROOT);
            if (word.isEmpty()) {
                continue;
            }
            boolean isOption = verb.equals("SET") && (words > 1 || word.equals("STATEMENT"));
            if (isOption && word.equals("FOR")) {
                verb = "";
                words = 0;
            } else if (words == 0) {
                verb = word;
                words = 1;
            } else if (isOption) {
                words++;
            } else {
                break;
            }
        }
        return verb;
    }

    /** Whether a table or a function of a captured database is named with it. */
    private boolean namesOne(String statement) {
        Matcher tokens = TOKEN.matcher(statement);
        String name = null;
        while (tokens.find()) {
            if (tokens.group("dot") != null && name != null && isCaptured.test(name)) {
                return true;
            }
            for (String group : new String[] {"quoted", "ticked", "plain"}) {
                name = tokens.group(group) == null ? name : tokens.group(group);
            }
        }
        return false;
    }
}
