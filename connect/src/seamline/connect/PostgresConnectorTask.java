package seamline.connect;

import io.debezium.config.Configuration;
import io.debezium.connector.postgresql.PostgresConnectorConfig;
import io.debezium.connector.postgresql.PostgresOffsetContext;
import io.debezium.connector.postgresql.PostgresPartition;
import io.debezium.connector.postgresql.connection.Lsn;
import io.debezium.connector.postgresql.connection.PostgresConnection;
import io.debezium.connector.postgresql.spi.SlotState;
import io.debezium.pipeline.ChangeEventSourceCoordinator;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;

/** Hands every record on with the offset of the last END: where a transaction is open, it is told again from its BEGIN. */
public class PostgresConnectorTask extends io.debezium.connector.postgresql.PostgresConnectorTask {

    private OffsetOfTheLastEnd offset;

    @Override
    public ChangeEventSourceCoordinator<PostgresPartition, PostgresOffsetContext> start(Configuration settings) {
        PostgresConnectorConfig config = new PostgresConnectorConfig(settings);
        Map<String, String> partition = Map.of("server", config.getLogicalName());
        offset = new OffsetOfTheLastEnd(context.offsetStorageReader().offset(partition));
        if (offset.lsn() != null) {
            refuseSlotBeyond(offset.lsn(), config);
        }
        return super.start(settings);
    }

    @Override
    public List<SourceRecord> doPoll() throws InterruptedException {
        return super.doPoll().stream().map(record -> offset.in(record)).toList();
    }

    /** Debezium's own check asks for `lsn_proc` and passes where it is absent; nor does it see a slot that was advanced. */
    private static void refuseSlotBeyond(long place, PostgresConnectorConfig config) {
        try (PostgresConnection connection = new PostgresConnection(config.getJdbcConfig(), "Seamline slot")) {
            SlotState slot = connection.getReplicationSlotState(config.slotName(), config.plugin().getPostgresPluginName());
            Lsn flushed = slot == null ? null : slot.slotLastFlushedLsn();
            if (flushed != null && flushed.compareTo(Lsn.valueOf(place)) > 0) {
                throw new ConnectException(
                        "Slot " + config.slotName() + " stands at " + flushed + ", beyond " + Lsn.valueOf(place)
                                + ", where the log topic ends: what lies between is no longer available on the server");
            }
        } catch (SQLException failure) {
            throw new ConnectException("Slot " + config.slotName() + " could not be asked where it stands", failure);
        }
    }
}
