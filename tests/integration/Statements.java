import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.function.IntFunction;
import java.util.function.Predicate;

/** Tells of each line, a statement, its verb and whether it names a table of database `bank`; or how Debezium reads it. */
class Statements {

    public static void main(String[] what) throws Exception {
        Class<?> own = Class.forName("seamline.connect.StatementsWithoutRows");
        var make = own.getDeclaredConstructor(Predicate.class, IntFunction.class);
        var verb = own.getDeclaredMethod("verb", String.class);
        var namesOne = own.getDeclaredMethod("namesOne", String.class);
        var asRun = Class.forName("seamline.connect.StatementsAsRun").getDeclaredMethod("of", String.class);
        make.setAccessible(true);
        verb.setAccessible(true);
        namesOne.setAccessible(true);
        asRun.setAccessible(true);
        Predicate<String> isCaptured = "bank"::equals;
        IntFunction<?> unknown = collation -> null;
        Object reader = make.newInstance(isCaptured, unknown);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String statement = line.translateEscapes();
            System.out.println(
                    what[0].equals("as run")
                            ? asRun.invoke(null, statement).toString().replace("\n", "\\n")
                            : verb.invoke(null, statement) + " " + namesOne.invoke(reader, statement));
        }
    }
}
