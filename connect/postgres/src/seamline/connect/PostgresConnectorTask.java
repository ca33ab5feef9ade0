package seamline.connect;

import io.debezium.config.Configuration;
import io.debezium.connector.common.CdcSourceTaskContext;
import io.debezium.connector.postgresql.PostgresConnectorConfig;
import io.debezium.connector.postgresql.PostgresOffsetContext;
import io.debezium.connector.postgresql.PostgresPartition;
import io.debezium.connector.postgresql.PostgresSchema;
import io.debezium.connector.postgresql.connection.Lsn;
import io.debezium.connector.postgresql.connection.PostgresConnection;
import io.debezium.connector.postgresql.connection.ReplicationConnection;
import io.debezium.connector.postgresql.spi.SlotState;
import io.debezium.pipeline.ChangeEventSourceCoordinator;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;

/** Where a transaction is open at a stop, it is reported again from its BEGIN. */
public class PostgresConnectorTask extends io.debezium.connector.postgresql.PostgresConnectorTask {

    /** A promotion and a restore from an archive begin another timeline. Its number is in the name of the file. */
    private static final String CLUSTER_AND_TIMELINE =
            "SELECT system_identifier || ' on timeline ' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
                    + " FROM pg_control_system()";

    /** A slot's name holds lower case letters, digits and underscores only. */
    private static final String GIVEN_UP =
            "SELECT 1 FROM pg_replication_slots WHERE slot_name = '%s' AND (wal_status = 'lost' OR restart_lsn IS NULL)";

    /** Whether a session waits goes by its own `synchronous_commit`; where no standby is named, none does. */
    private static final String WAITS_FOR_STANDBYS =
            "SELECT 1 WHERE current_setting('synchronous_standby_names') <> ''";

    private final Places places = new PostgresPlaces();
    private PlacesBetweenTransactions between;
    private WholeTransactions transactions;

    @Override
    public String version() {
        return WholeTransactions.versionOver(super.version());
    }

    @Override
    public void initialize(SourceTaskContext given) {
        between = new PlacesBetweenTransactions(given, places);
        super.initialize(between);
    }

    @Override
    public CdcSourceTaskContext<PostgresConnectorConfig> preStart(Configuration settings) {
        return super.preStart(withOwn(settings));
    }

    @Override
    public ChangeEventSourceCoordinator<PostgresPartition, PostgresOffsetContext> start(Configuration given) {
        Configuration settings = withOwn(given);
        PostgresConnectorConfig config = new PostgresConnectorConfig(settings);
        Map<String, Object> stored = between.stored(Map.of("server", config.getLogicalName()));
        Markers markers = new Markers(settings, stored);
        transactions = new WholeTransactions(places, stored, markers, refuseAnotherHistory(stored, config, markers));
        return super.start(settings);
    }

    /** What belongs to these classes, and would be missing in the settings of a capture that is older than they are. */
    private static Configuration withOwn(Configuration settings) {
        return settings.edit()
                .with("converters", "times")
                .with("times.type", ExactTimes.class.getName())
                .with("driver.options", "-c IntervalStyle=iso_8601")
                .build();
    }

    @Override
    protected ReplicationConnection buildReplicationConnection(
            PostgresConnection connection, PostgresSchema schema, PostgresConnectorConfig config) throws SQLException {
        return new IntervalsAsWritten(super.buildReplicationConnection(connection, schema, config));
    }

    @Override
    public List<SourceRecord> doPoll() throws InterruptedException {
        return transactions.next(super.doPoll());
    }

    /** Debezium asks for the stored offset at the poll behind each commit, to tell the slot what it may forget. */
    @Override
    public void commitRecord(SourceRecord record, RecordMetadata acknowledged) throws InterruptedException {
        super.commitRecord(record, acknowledged);
        between.remember(record);
    }

    /** Debezium's own check asks for `lsn_proc`, passes where it is absent, and sees none of these. */
    private Server refuseAnotherHistory(Map<String, Object> stored, PostgresConnectorConfig config, Markers markers) {
        try (PostgresConnection connection = new PostgresConnection(config.getJdbcConfig(), "Seamline slot")) {
            Server server = Server.requireSame(connection, CLUSTER_AND_TIMELINE, stored);
            if (stored != null) {
                refuseAnotherLog(stored, config, connection);
                markers.requireNewestIn(connection, WAITS_FOR_STANDBYS);
            }
            return server;
        } catch (SQLException failure) {
            throw Unanswered.because(failure);
        }
    }

    private void refuseAnotherLog(Map<String, Object> stored, PostgresConnectorConfig config, PostgresConnection connection)
            throws SQLException {
        Lsn place = Lsn.valueOf(((Number) places.upTo(stored).get(PostgresPlaces.LSN)).longValue());
        // Of such a slot Debezium's own class asks 900 times, two seconds apart, before it says anything (3.7.0).
        if (connection.queryAndMap(GIVEN_UP.formatted(config.slotName()), ResultSet::next)) {
            throw lost("slot " + config.slotName() + " was invalidated, the server has given up the log that it kept"
                    + " (max_slot_wal_keep_size, idle_replication_slot_timeout)", place);
        }
        SlotState slot = connection.getReplicationSlotState(config.slotName(), config.plugin().getPostgresPluginName());
        Lsn flushed = slot == null ? null : slot.slotLastFlushedLsn();
        if (flushed != null && flushed.compareTo(place) > 0) {
            throw lost("slot " + config.slotName() + " was moved on to " + flushed, place);
        }
        Lsn written = Lsn.valueOf(connection.currentXLogLocation());
        if (written.compareTo(place) < 0) {
            throw lost("the server has written its log only up to " + written + " (restored, or another one)", place);
        }
    }

    private static ConnectException lost(String what, Lsn place) {
        return new ConnectException(
                "The place " + place + ", where the log topic ends, is no longer available on the server: " + what);
    }
}
