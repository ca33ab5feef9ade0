package seamline.connect;

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.EventType;
import com.github.shyiko.mysql.binlog.event.QueryEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.io.ByteArrayInputStream;
import io.debezium.connector.binlog.BinlogConnectorConfig;
import io.debezium.connector.binlog.jdbc.BinlogConnectorConnection;
import io.debezium.connector.mysql.MySqlConnectorConfig;
import io.debezium.connector.mysql.MySqlDatabaseSchema;
import io.debezium.connector.mysql.MySqlOffsetContext;
import io.debezium.connector.mysql.MySqlPartition;
import io.debezium.connector.mysql.MySqlStreamingChangeEventSource;
import io.debezium.connector.mysql.MySqlStreamingChangeEventSourceMetrics;
import io.debezium.connector.mysql.MySqlTaskContext;
import io.debezium.connector.mysql.charset.MySqlCharsetRegistry;
import io.debezium.pipeline.ErrorHandler;
import io.debezium.pipeline.EventDispatcher;
import io.debezium.relational.TableId;
import io.debezium.snapshot.SnapshotterService;
import io.debezium.util.Clock;
import java.io.IOException;
import java.util.BitSet;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.kafka.connect.errors.DataException;

/** Debezium's reader with events as {@link BinlogEvents} takes them, which also stops at rows of an XA transaction. */
final class BinlogReader extends MySqlStreamingChangeEventSource {

    private static final String COLLATIONS = "SELECT id, character_set_name FROM information_schema.collations";

    private static final int TABLE_NUMBER_BYTES = 6;

    private static final Set<EventType> OF_OTHERS =
            EnumSet.of(EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS);

    private final MySqlDatabaseSchema schema;

    /** Debezium's constructor makes it: an initializer would run after that, and {@link #schema} is not there yet. */
    private BinlogEvents events;

    private boolean isCapturedChanged;

    private boolean isUndecided;

    BinlogReader(
            MySqlConnectorConfig config,
            BinlogConnectorConnection connection,
            EventDispatcher<MySqlPartition, TableId> dispatcher,
            ErrorHandler errorHandler,
            MySqlTaskContext context,
            MySqlDatabaseSchema schema,
            MySqlStreamingChangeEventSourceMetrics metrics,
            SnapshotterService snapshots,
            BinaryLogClient client) {
        super(config, connection, dispatcher, errorHandler, Clock.SYSTEM, context, schema, metrics, snapshots, client);
        this.schema = schema;
    }

    @Override
    protected void handleGtidEvent(
            MySqlPartition partition, MySqlOffsetContext offset, Event event, Predicate<String> filter) {
        isCapturedChanged = false;
        isUndecided = false;
        super.handleGtidEvent(partition, offset, event, filter);
    }

    @Override
    protected void configureBinaryLogClient(
            BinaryLogClient client,
            BinlogConnectorConfig config,
            Map<String, Thread> threads,
            BinlogConnectorConnection connection) {
        events = new BinlogEvents(client, config, connection, COLLATIONS, new MySqlCharsetRegistry(), () -> schema);
        super.configureBinaryLogClient(client, config, threads, connection);
        events.watch(client);
    }

    @Override
    protected void handleEvent(
            MySqlPartition partition, MySqlOffsetContext offset, ChangeEventSourceContext context, Event event) {
        if (!events.isBroken()) {
            super.handleEvent(partition, offset, context, event);
        }
        events.passed(event, type -> type == EventType.GTID || type == EventType.GTID_TAGGED);
    }

    @Override
    protected void handleUpdateTableMetadata(MySqlPartition partition, MySqlOffsetContext offset, Event event)
            throws InterruptedException {
        TableMapEventData table = unwrapData(event);
        if (events.isCaptured(table)) {
            isCapturedChanged = true;
            if (isUndecided) {
                throw new DataException("An XA transaction has changed " + table.getDatabase() + "." + table.getTable()
                        + ": its rows are in the log before it is decided whether they stand");
            }
        }
        super.handleUpdateTableMetadata(partition, offset, event);
    }

    @Override
    protected void handleQueryEvent(MySqlPartition partition, MySqlOffsetContext offset, Event event)
            throws InterruptedException {
        QueryEventData statement = unwrapData(event);
        String verb = statement.getSql().stripLeading().toUpperCase(Locale.ROOT);
        isUndecided |= verb.startsWith("XA START");
        // No server that was tried writes what it then takes back.
        if (isCapturedChanged && verb.startsWith("ROLLBACK")) {
            throw new DataException("Rows were reported of a transaction that was then rolled back to a savepoint,"
                    + " or as a whole");
        }
        super.handleQueryEvent(partition, offset, event);
    }

    @Override
    protected EventDeserializer createEventDeserializer() {
        EventDeserializer deserializer = rows();
        deserializer.setEventDataDeserializer(EventType.TRANSACTION_PAYLOAD, new Payloads(rows()));
        return deserializer;
    }

    private EventDeserializer rows() {
        EventDeserializer deserializer = events.deserializer(event -> new BitSet());
        deserializer.setEventDataDeserializer(
                EventType.EXT_WRITE_ROWS, events.inserted().setMayContainExtraInformation(true));
        deserializer.setEventDataDeserializer(
                EventType.EXT_UPDATE_ROWS, events.updated().setMayContainExtraInformation(true));
        deserializer.setEventDataDeserializer(
                EventType.EXT_DELETE_ROWS, events.deleted().setMayContainExtraInformation(true));
        deserializer.setEventDataDeserializer(EventType.PARTIAL_UPDATE_ROWS_EVENT, this::refuseParts);
        // What MariaDB and servers before 5.6 write.
        for (EventType other : OF_OTHERS) {
            deserializer.setEventDataDeserializer(other, events::refuseAmongRows);
        }
        return deserializer;
    }

    private EventData refuseParts(ByteArrayInputStream event) throws IOException {
        if (events.isRead(event.readLong(TABLE_NUMBER_BYTES))) {
            throw new DataException("binlog_row_value_options was not empty when a row was updated: the log holds a document's"
                    + " differences, and the log does not say what they were applied to");
        }
        return null;
    }
}
