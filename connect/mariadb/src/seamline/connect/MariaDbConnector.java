package seamline.connect;

import org.apache.kafka.connect.connector.Task;

/** Debezium's connector for MariaDB, which after any stop goes on with a whole transaction (ADR 16). */
public class MariaDbConnector extends io.debezium.connector.mariadb.MariaDbConnector {

    @Override
    public String version() {
        return WholeTransactions.versionOver(super.version());
    }

    @Override
    public Class<? extends Task> taskClass() {
        return MariaDbConnectorTask.class;
    }
}
