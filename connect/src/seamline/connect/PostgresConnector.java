package seamline.connect;

import org.apache.kafka.connect.connector.Task;

/** Debezium's connector for PostgreSQL, which after any stop goes on with a whole transaction (ADR 14). */
public class PostgresConnector extends io.debezium.connector.postgresql.PostgresConnector {

    /** Raised with every change of these classes: a worker that has others is refused before a capture is touched. */
    private static final String OWN = "seamline-1";

    static String versionOver(String debezium) {
        return debezium + "-" + OWN;
    }

    @Override
    public String version() {
        return versionOver(super.version());
    }

    @Override
    public Class<? extends Task> taskClass() {
        return PostgresConnectorTask.class;
    }
}
