import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A server of H2 or HSQLDB with a database in memory, and who writes to it: one statement a line, each answered by a line. MOVE and
 * STOP begin and end transfers between the accounts.
 */
class JdbcServer {

    private static final AtomicBoolean MOVES = new AtomicBoolean();

    public static void main(String[] what) throws Exception {
        String url = "h2".equals(what[0]) ? h2(what[1]) : hsqldb(Integer.parseInt(what[1]));
        Thread mover = null;
        try (Connection own = DriverManager.getConnection(url, "SA", ""); Statement statement = own.createStatement()) {
            System.out.println("up");
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if ("MOVE".equals(line)) {
                    MOVES.set(true);
                    mover = new Thread(() -> move(url));
                    mover.start();
                } else if ("STOP".equals(line)) {
                    MOVES.set(false);
                    mover.join();
                } else {
                    statement.execute(line);
                }
                System.out.println("done");
            }
            System.exit(0);
        } catch (SQLException failed) {
            // Threads of the server would live on.
            failed.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static String h2(String port) throws Exception {
        org.h2.tools.Server.createTcpServer("-tcpPort", port, "-ifNotExists").start();
        return "jdbc:h2:mem:bank;DB_CLOSE_DELAY=-1";
    }

    private static String hsqldb(int port) {
        var server = new org.hsqldb.server.Server();
        server.setSilent(true);
        server.setLogWriter(null);
        server.setErrWriter(null);
        server.setDatabaseName(0, "bank");
        server.setDatabasePath(0, "mem:bank;hsqldb.tx=mvcc");
        server.setPort(port);
        server.start();
        return "jdbc:hsqldb:mem:bank";
    }

    private static void move(String url) {
        try (Connection own = DriverManager.getConnection(url, "SA", ""); Statement statement = own.createStatement()) {
            own.setAutoCommit(false);
            for (int number = 1; MOVES.get(); number = number % 199 + 1) {
                statement.execute("UPDATE account SET balance = balance - 1 WHERE id = " + number);
                statement.execute("UPDATE account SET balance = balance + 1 WHERE id = " + (number + 1));
                statement.execute("INSERT INTO audit VALUES ('writer', '" + number + "')");
                own.commit();
                Thread.sleep(1);
            }
        } catch (SQLException | InterruptedException failed) {
            failed.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }
}
