package seamline.connect;

import org.apache.kafka.connect.connector.Task;

/** Debezium's connector for MySQL, which after any stop goes on with a whole transaction (ADR 16). */
public class MySqlConnector extends io.debezium.connector.mysql.MySqlConnector {

    @Override
    public String version() {
        return WholeTransactions.versionOver(super.version());
    }

    @Override
    public Class<? extends Task> taskClass() {
        return MySqlConnectorTask.class;
    }
}
