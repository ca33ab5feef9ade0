package seamline.connect;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A statement as Debezium has to read it. It takes a comment that the server runs for one that nobody does, and OR REPLACE
 * for nothing where it knows the table: what such a statement changed would be missing, and rows behind it be reported under
 * other columns.
 */
final class StatementsAsRun {

    /** In a binlog each of them was run: in what it did not run the server writes a space for the `!` (sql_lex.cc). */
    private static final Pattern PIECE = Pattern.compile(
            "(?<open>/\\*M?!(?:\\d{5,6})?)|/\\*.*?\\*/|(?<close>\\*/)|(?:#|--(?=\\s|\\z))[^\\n]*"
                    + "|'(?:[^'\\\\]|\\\\.|'')*+'|\"(?:[^\"\\\\]|\\\\.|\"\")*+\"|`(?:[^`]|``)*+`",
            Pattern.DOTALL);

    private static final String GAP = "(?:\\s++|/\\*.*?\\*/|(?:#|--(?=\\s))[^\\n]*+)";
    private static final String NAME = "(?:`(?:[^`]|``)++`|\"(?:[^\"]|\"\")++\"|[\\p{L}\\p{N}_$]++)";
    private static final Pattern OR_REPLACE = Pattern.compile(
            "\\A(?<before>" + GAP + "*+(?:SET" + GAP + "++STATEMENT\\b.*?\\bFOR" + GAP + "++)?)CREATE" + GAP + "++OR" + GAP
                    + "++REPLACE(?<what>" + GAP + "++(?<kind>TABLE|DATABASE|SCHEMA)" + GAP + "++(?<name>" + NAME + "(?:" + GAP
                    + "*+\\." + GAP + "*+" + NAME + ")?))",
            Pattern.DOTALL | Pattern.CASE_INSENSITIVE);

    private StatementsAsRun() {}

    static String of(String statement) {
        String run = uncovered(statement);
        Matcher replacing = OR_REPLACE.matcher(run);
        return replacing.find()
                ? "DROP " + replacing.group("kind") + " IF EXISTS " + replacing.group("name") + "; "
                        + replacing.replaceFirst("${before}CREATE${what}")
                : run;
    }

    private static String uncovered(String statement) {
        if (!statement.contains("/*!") && !statement.contains("/*M!")) {
            return statement;
        }
        StringBuilder run = new StringBuilder();
        Matcher pieces = PIECE.matcher(statement);
        for (int open = 0; pieces.find(); ) {
            boolean begins = pieces.group("open") != null;
            boolean ends = pieces.group("close") != null && open > 0;
            open += begins ? 1 : ends ? -1 : 0;
            pieces.appendReplacement(run, begins || ends ? " " : Matcher.quoteReplacement(pieces.group()));
        }
        return pieces.appendTail(run).toString();
    }
}
