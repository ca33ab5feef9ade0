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

/** Where a transaction is open at a stop, it is told again from its BEGIN. */
public class PostgresConnectorTask extends io.debezium.connector.postgresql.PostgresConnectorTask {

    private static final String ACCESS_DENIED = "28";

    private final Places places = new PostgresPlaces();
    private ToldWhole told;

    @Override
    public String version() {
        return ToldWhole.versionOver(super.version());
    }

    @Override
    public void initialize(SourceTaskContext given) {
        super.initialize(new PlacesBetweenTransactions(given, places));
    }

    @Override
    public ChangeEventSourceCoordinator<PostgresPartition, PostgresOffsetContext> start(Configuration settings) {
        PostgresConnectorConfig config = new PostgresConnectorConfig(settings);
        Map<String, Object> stored = context.offsetStorageReader().offset(Map.of("server", config.getLogicalName()));
        if (stored != null) {
            refuseAnotherHistory(Lsn.valueOf(((Number) stored.get(PostgresPlaces.LSN)).longValue()), config);
        }
        told = new ToldWhole(places, stored);
        return super.start(settings);
    }

    @Override
    public List<SourceRecord> doPoll() throws InterruptedException {
        return told.next(super.doPoll());
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
