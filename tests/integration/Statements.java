import io.debezium.relational.TableId;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.IntFunction;
import java.util.function.Predicate;
import java.util.function.Supplier;

/**
 * Tells of each line, a statement, its verb and whether it names a table of database `bank`; or how Debezium reads it; or which
 * captured tables it may touch.
 */
class Statements {

    private static final Set<String> CAPTURED = Set.of("account", "audit", "odd `name", "party");

    @SuppressWarnings("unchecked")
    public static void main(String[] what) throws Exception {
        Class<?> own = Class.forName("seamline.connect.StatementsWithoutRows");
        var make = own.getDeclaredConstructor(Predicate.class, IntFunction.class);
        var verb = own.getDeclaredMethod("verb", String.class);
        var namesOne = own.getDeclaredMethod("namesOne", String.class);
        var asRun = Class.forName("seamline.connect.StatementsAsRun").getDeclaredMethod("of", String.class);
        make.setAccessible(true);
        Predicate<TableId> isCaptured = table -> table.catalog().equals("bank") && CAPTURED.contains(table.table());
        Supplier<Set<TableId>> known = () -> Set.of(new TableId("bank", null, "account"), new TableId("bank", null, "other"));
        Class<?> touching = Class.forName("seamline.connect.TablesTouched");
        var makeTouching = touching.getDeclaredConstructor(Predicate.class, Predicate.class, Supplier.class);
        var of = touching.getDeclaredMethod("of", String.class, String.class);
        makeTouching.setAccessible(true);
        of.setAccessible(true);
        verb.setAccessible(true);
        namesOne.setAccessible(true);
        asRun.setAccessible(true);
        Predicate<String> isOfCaptured = "bank"::equals;
        IntFunction<?> unknown = collation -> null;
        Object reader = make.newInstance(isOfCaptured, unknown);
        Object touched = makeTouching.newInstance(isOfCaptured, isCaptured, known);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String statement = line.translateEscapes();
            System.out.println(switch (what[0]) {
                case "as run" -> asRun.invoke(null, statement).toString().replace("\n", "\\n");
                case "touched" -> new TreeSet<>((Set<TableId>) of.invoke(touched, statement, what[1]));
                default -> verb.invoke(null, statement) + " " + namesOne.invoke(reader, statement);
            });
        }
    }
}
