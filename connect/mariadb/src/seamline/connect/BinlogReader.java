package seamline.connect;

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventType;
import com.github.shyiko.mysql.binlog.event.MariadbGtidEventData;
import com.github.shyiko.mysql.binlog.event.QueryEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import io.debezium.connector.binlog.BinlogConnectorConfig;
import io.debezium.connector.binlog.jdbc.BinlogConnectorConnection;
import io.debezium.connector.mariadb.MariaDbConnectorConfig;
import io.debezium.connector.mariadb.MariaDbDatabaseSchema;
import io.debezium.connector.mariadb.MariaDbOffsetContext;
import io.debezium.connector.mariadb.MariaDbPartition;
import io.debezium.connector.mariadb.MariaDbStreamingChangeEventSource;
import io.debezium.connector.mariadb.MariaDbTaskContext;
import io.debezium.connector.mariadb.charset.MariaDbCharsetRegistry;
import io.debezium.connector.mariadb.metrics.MariaDbStreamingChangeEventSourceMetrics;
import io.debezium.pipeline.ErrorHandler;
import io.debezium.pipeline.EventDispatcher;
import io.debezium.relational.TableId;
import io.debezium.snapshot.SnapshotterService;
import io.debezium.util.Clock;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.kafka.connect.errors.DataException;

/** Debezium's reader with events as {@link BinlogEvents} takes them, which also stops at a hole in the GTIDs. */
final class BinlogReader extends MariaDbStreamingChangeEventSource {

    private static final String COLLATIONS =
            "SELECT id, character_set_name FROM information_schema.collation_character_set_applicability";

    private static final Set<EventType> OF_MYSQL = EnumSet.of(
            EventType.EXT_WRITE_ROWS, EventType.EXT_UPDATE_ROWS, EventType.EXT_DELETE_ROWS, EventType.TRANSACTION_PAYLOAD);

    private final MariaDbDatabaseSchema schema;

    /** Debezium's constructor makes it: an initializer would run after that, and {@link #schema} is not there yet. */
    private BinlogEvents events;

    private NoGtidMissing complete;

    private final RowsThatStand standing = new RowsThatStand(this::unwrapData);

    /** The GTID of the transaction that is reported: once more where it is begun again. */
    private Event latest;

    private boolean isCapturedChanged;

    BinlogReader(
            MariaDbConnectorConfig config,
            BinlogConnectorConnection connection,
            EventDispatcher<MariaDbPartition, TableId> dispatcher,
            ErrorHandler errorHandler,
            MariaDbTaskContext context,
            MariaDbDatabaseSchema schema,
            MariaDbStreamingChangeEventSourceMetrics metrics,
            SnapshotterService snapshots,
            BinaryLogClient client) {
        super(config, connection, dispatcher, errorHandler, Clock.SYSTEM, context, schema, metrics, snapshots, client);
        this.schema = schema;
    }

    @Override
    protected void initializeGtidSet(String position) {
        super.initializeGtidSet(position);
        complete = new NoGtidMissing(position);
    }

    @Override
    protected void handleGtidEvent(
            MariaDbPartition partition, MariaDbOffsetContext offset, Event event, Predicate<String> filter)
            throws InterruptedException {
        if (event != latest) {
            MariadbGtidEventData gtid = unwrapData(event);
            complete.next(gtid.getDomainId(), event.getHeader().getServerId(), gtid.getSequence());
        }
        latest = event;
        isCapturedChanged = false;
        super.handleGtidEvent(partition, offset, event, filter);
    }

    @Override
    protected void configureBinaryLogClient(
            BinaryLogClient client,
            BinlogConnectorConfig config,
            Map<String, Thread> threads,
            BinlogConnectorConnection connection) {
        events = new BinlogEvents(client, config, connection, COLLATIONS, new MariaDbCharsetRegistry(), () -> schema);
        super.configureBinaryLogClient(client, config, threads, connection);
        events.watch(client);
    }

    @Override
    protected void handleEvent(
            MariaDbPartition partition, MariaDbOffsetContext offset, ChangeEventSourceContext context, Event event) {
        if (!events.isBroken()) {
            for (Event one : standing.next(event)) {
                super.handleEvent(partition, offset, context, one);
            }
        }
        events.passed(event, type -> type == EventType.MARIADB_GTID);
    }

    @Override
    protected void handleUpdateTableMetadata(MariaDbPartition partition, MariaDbOffsetContext offset, Event event)
            throws InterruptedException {
        TableMapEventData table = unwrapData(event);
        isCapturedChanged |= events.isCaptured(table);
        super.handleUpdateTableMetadata(partition, offset, event);
    }

    @Override
    protected void handleQueryEvent(MariaDbPartition partition, MariaDbOffsetContext offset, Event event)
            throws InterruptedException {
        QueryEventData statement = unwrapData(event);
        if (RowsThatStand.isUndoing(statement)) {
            refuseUndone();
            return;
        }
        super.handleQueryEvent(partition, offset, event);
    }

    private void refuseUndone() {
        if (isCapturedChanged) {
            throw new DataException("Rows were reported of a transaction that was then rolled back to a savepoint: it is larger"
                    + " than what is held until its end, or a name was not understood");
        }
    }

    @Override
    protected EventDeserializer createEventDeserializer() {
        EventDeserializer deserializer = events.deserializer(CompressedColumns::uncover);
        deserializer.setEventDataDeserializer(EventType.WRITE_ROWS, events.inserted());
        deserializer.setEventDataDeserializer(EventType.UPDATE_ROWS, events.updated());
        deserializer.setEventDataDeserializer(EventType.DELETE_ROWS, events.deleted());
        // What MySQL writes; of MariaDB only those above are known.
        for (EventType other : OF_MYSQL) {
            deserializer.setEventDataDeserializer(other, events::refuseAmongRows);
        }
        return deserializer;
    }
}
