package seamline.connect;

import java.sql.SQLException;
import java.util.Set;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;

/** A question to the source at the start of a task that got no answer. */
final class Unanswered {

    private static final String LOGIN_REFUSED = "28";

    /** Of PostgreSQL: no right, no such table; of MariaDB: no such table. Its 42000 is also that of a limit. */
    private static final Set<String> QUESTION_REFUSED = Set.of("42501", "42P01", "42S02");

    private static final int MARIADB_NO_RIGHT = 1142;

    private Unanswered() {}

    /** To be thrown: asked again where the source may answer later. */
    static RuntimeException because(SQLException failure) {
        String state = failure.getSQLState() == null ? "" : failure.getSQLState();
        if (state.startsWith(LOGIN_REFUSED)) {
            return new ConnectException("The source refuses the capture's login", failure);
        }
        if (QUESTION_REFUSED.contains(state) || failure.getErrorCode() == MARIADB_NO_RIGHT) {
            return new ConnectException("The source refuses what the capture asks at its start", failure);
        }
        return new RetriableException("The source could not be asked whether it is the one that the log knows", failure);
    }
}
