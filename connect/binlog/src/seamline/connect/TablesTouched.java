package seamline.connect;

import io.debezium.relational.TableId;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The tables of captured databases that a statement may touch which Debezium cannot read. What a statement touches it names:
 * where what it is about is not known, each table whose name stands anywhere in it may be touched.
 */
final class TablesTouched {

    private static final Set<String> VERBS_OF_NO_TABLE =
            Set.of("GRANT", "REVOKE", "SET", "FLUSH", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "INSTALL", "UNINSTALL");
    /** What these are made of may name tables, and changes none. */
    private static final Set<String> THINGS_OF_NO_TABLE =
            Set.of("VIEW", "PACKAGE", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "USER", "ROLE", "SERVER");
    private static final Set<String> WITH_A_TABLE = Set.of("TABLE", "SEQUENCE");
    private static final Set<String> OF_A_DATABASE = Set.of("DATABASE", "SCHEMA");
    private static final Set<String> OTHERS = Set.of("INDEX", "TABLES");
    private static final Set<String> VERBS_OF_THINGS = Set.of("CREATE", "ALTER", "DROP");
    private static final Set<String> BEFORE_A_NAME = Set.of("IF", "NOT", "EXISTS");
    /** An ALTER with one of these may take another table. */
    private static final Pattern OF_TWO = Pattern.compile("\\b(?:RENAME|EXCHANGE|CONVERT)\\b", Pattern.CASE_INSENSITIVE);
    /** Also in texts and comments: where these end depends on the session's modes. */
    private static final Pattern ANY_NAME = Pattern.compile(
            "`(?<ticked>(?:[^`]|``)+)`|\"(?<quoted>(?:[^\"]|\"\")+)\"|(?<plain>[0-9A-Za-z_$\\x{80}-\\x{10FFFF}]+)");

    private final Predicate<String> isOfCaptured;
    private final Predicate<TableId> isCaptured;
    private final Supplier<Set<TableId>> known;

    /**
     * @param isOfCaptured whether a database has captured tables, by its name
     * @param known all tables that are known now
     */
    TablesTouched(Predicate<String> isOfCaptured, Predicate<TableId> isCaptured, Supplier<Set<TableId>> known) {
        this.isOfCaptured = isOfCaptured;
        this.isCaptured = isCaptured;
        this.known = known;
    }

    private record Word(String text, boolean isName) {

        boolean is(String keyword) {
            return !isName && text.equalsIgnoreCase(keyword);
        }

        boolean isOneOf(Set<String> keywords) {
            return !isName && keywords.contains(text.toUpperCase(Locale.ROOT));
        }
    }

    /** @param database the one that the session had chosen */
    Set<TableId> of(String statement, String database) {
        List<Word> words = words(statement);
        int verb = verb(words);
        if (verb < words.size() && words.get(verb).isOneOf(VERBS_OF_NO_TABLE)) {
            return Set.of();
        }
        int thing = verb + 1;
        while (thing < words.size() && !isThing(words.get(thing))) {
            thing++;
        }
        if (thing >= words.size() || !words.get(verb).isOneOf(VERBS_OF_THINGS)) {
            return anyNamed(statement, database);
        }
        if (words.get(thing).isOneOf(THINGS_OF_NO_TABLE)) {
            return Set.of();
        }
        if (words.get(thing).isOneOf(OF_A_DATABASE)) {
            return words.get(0).is("DROP") ? allOf(named(words, thing + 1, "")) : Set.of();
        }
        boolean isOfOne = words.get(thing).isOneOf(WITH_A_TABLE)
                && (words.get(verb).is("CREATE") || words.get(verb).is("ALTER") && !OF_TWO.matcher(statement).find());
        return isOfOne ? touched(named(words, thing + 1, database)) : anyNamed(statement, database);
    }

    private static boolean isThing(Word word) {
        return word.isOneOf(WITH_A_TABLE)
                || word.isOneOf(THINGS_OF_NO_TABLE)
                || word.isOneOf(OF_A_DATABASE)
                || word.isOneOf(OTHERS);
    }

    /** Behind SET STATEMENT … FOR; and of a DROP and a CREATE, which {@link StatementsAsRun} makes of OR REPLACE, the CREATE. */
    private static int verb(List<Word> words) {
        int verb = 0;
        if (words.size() > 1 && words.get(0).is("SET") && words.get(1).is("STATEMENT")) {
            while (verb < words.size() && !words.get(verb).is("FOR")) {
                verb++;
            }
            verb++;
        }
        if (verb < words.size() && words.get(verb).is("DROP")) {
            for (int later = verb + 1; later < words.size(); later++) {
                if (words.get(later).is("CREATE")) {
                    return later;
                }
            }
        }
        return verb;
    }

    /** Without a database before it: in the one that is given. */
    private static TableId named(List<Word> words, int from, String database) {
        int at = from;
        while (at < words.size() && words.get(at).isOneOf(BEFORE_A_NAME)) {
            at++;
        }
        if (at >= words.size()) {
            return new TableId(database, null, "");
        }
        boolean hasDatabase = at + 2 < words.size() && words.get(at + 1).is(".");
        String first = words.get(at).text();
        return hasDatabase ? new TableId(first, null, words.get(at + 2).text()) : new TableId(database, null, first);
    }

    private Set<TableId> touched(TableId table) {
        return isOfCaptured.test(table.catalog()) ? Set.of(table) : Set.of();
    }

    private Set<TableId> allOf(TableId database) {
        Set<TableId> all = new TreeSet<>(known.get());
        all.removeIf(table -> !table.catalog().equalsIgnoreCase(database.table()) || !isCaptured.test(table));
        return all;
    }

    private Set<TableId> anyNamed(String statement, String database) {
        List<String> names = new ArrayList<>();
        for (Matcher found = ANY_NAME.matcher(statement); found.find(); ) {
            String quoted = found.group("ticked") != null ? found.group("ticked") : found.group("quoted");
            names.add(quoted == null ? found.group("plain") : quoted.replace("``", "`").replace("\"\"", "\""));
            if (quoted != null) {
                // What looks like one name may be a text with names in it, and the next text begin where it ends.
                found.region(found.start() + 1, statement.length());
            }
        }
        Set<TableId> touched = new TreeSet<>();
        for (String place : new TreeSet<>(names)) {
            addAll(touched, place, names);
        }
        addAll(touched, database, names);
        return touched;
    }

    private void addAll(Set<TableId> touched, String database, List<String> names) {
        if (isOfCaptured.test(database)) {
            names.stream().map(name -> new TableId(database, null, name)).filter(this::isOne).forEach(touched::add);
        }
    }

    /** Also one that nobody carries is forgotten: it may be added to a sync tomorrow. */
    private boolean isOne(TableId table) {
        return isCaptured.test(table) || known.get().stream().anyMatch(one -> one.compareToIgnoreCase(table) == 0);
    }

    private static List<Word> words(String statement) {
        List<Word> words = new ArrayList<>();
        for (Matcher tokens = StatementsWithoutRows.TOKEN.matcher(statement); tokens.find(); ) {
            String name = tokens.group("ticked") != null ? tokens.group("ticked") : tokens.group("quoted");
            if (name != null) {
                words.add(new Word(name.replace("``", "`").replace("\"\"", "\""), true));
            } else if (tokens.group("plain") != null || tokens.group("dot") != null) {
                words.add(new Word(tokens.group(), false));
            }
        }
        return words;
    }
}
