package seamline.connect;

import org.apache.kafka.connect.connector.Task;

/** Debezium's connector for PostgreSQL, which after any stop goes on with a whole transaction (ADR 14). */
public class PostgresConnector extends io.debezium.connector.postgresql.PostgresConnector {

    @Override
    public String version() {
        return WholeTransactions.versionOver(super.version());
    }

    @Override
    public Class<? extends Task> taskClass() {
        return PostgresConnectorTask.class;
    }
}
