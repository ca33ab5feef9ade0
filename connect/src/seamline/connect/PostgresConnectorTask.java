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
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;

/** Hands every record on with the offset of the last END: where a transaction is open, it is told again from its BEGIN. */
public class PostgresConnectorTask extends io.debezium.connector.postgresql.PostgresConnectorTask {

    private static final String ACCESS_DENIED = "28";

    private OffsetOfTheLastEnd offset;

    @Override
    public String version() {
        return PostgresConnector.versionOver(super.version());
    }

    @Override
    public void initialize(SourceTaskContext given) {
        super.initialize(new PlacesBetweenTransactions(given));
    }

    @Override
    public ChangeEventSourceCoordinator<PostgresPartition, PostgresOffsetContext> start(Configuration settings) {
        PostgresConnectorConfig config = new PostgresConnectorConfig(settings);
        Map<String, Object> stored = context.offsetStorageReader().offset(Map.of("server", config.getLogicalName()));
        if (stored != null) {
            refuseAnotherHistory(Lsn.valueOf(((Number) stored.get(Place.LSN)).longValue()), config);
        }
        offset = new OffsetOfTheLastEnd(stored);
        return super.start(settings);
    }

    @Override
    public List<SourceRecord> doPoll() throws InterruptedException {
        return super.doPoll().stream().map(record -> offset.in(record)).toList();
    }

    /** Debezium's own check asks for `lsn_proc`, passes where it is absent, and sees neither of these. */
    private static void refuseAnotherHistory(Lsn place, PostgresConnectorConfig config) {
        try (PostgresConnection connection = new PostgresConnection(config.getJdbcConfig(), "Seamline slot")) {
            SlotState slot = connection.getReplicationSlotState(config.slotName(), config.plugin().getPostgresPluginName());
            Lsn flushed = slot == null ? null : slot.slotLastFlushedLsn();
            if (flushed != null && flushed.compareTo(place) > 0) {
                throw lost("slot " + config.slotName() + " was moved on to " + flushed, place);
            }
            Lsn written = Lsn.valueOf(connection.currentXLogLocation());
            if (written.compareTo(place) < 0) {
                throw lost("the server has written its log only up to " + written + " (restored, or another one)", place);
            }
        } catch (SQLException failure) {
            String state = failure.getSQLState();
            if (state != null && state.startsWith(ACCESS_DENIED)) {
                throw new ConnectException("The source refuses the capture's login", failure);
            }
            throw new RetriableException("The source could not be asked where its slot stands", failure);
        }
    }

    private static ConnectException lost(String what, Lsn place) {
        return new ConnectException(
                "The place " + place + ", where the log topic ends, is no longer available on the server: " + what);
    }
}
