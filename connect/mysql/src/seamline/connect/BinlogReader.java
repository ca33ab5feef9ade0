package seamline.connect;

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.EventType;
import com.github.shyiko.mysql.binlog.event.QueryEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.TableMapEventDataDeserializer;
import com.github.shyiko.mysql.binlog.io.ByteArrayInputStream;
import io.debezium.connector.binlog.BinlogConnectorConfig;
import io.debezium.connector.binlog.event.StopEventDataDeserializer;
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
import java.util.Locale;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.kafka.connect.errors.DataException;

/**
 * Debezium's reader of the binlog, which reports NULL for an invalid date, passes over statements without rows
 * and over events that it does not know, reports rows of an XA transaction before it is decided, takes all statements for UTF-8,
 * does not see what stands in comments that the server runs, and reads texts in the character set and rows by the columns that
 * statements seem to say.
 */
final class BinlogReader extends MySqlStreamingChangeEventSource {

    private static final String COLLATIONS = "SELECT id, character_set_name FROM information_schema.collations";

    private static final int TABLE_NUMBER_BYTES = 6;

    /** What Debezium has made of the statements so far. */
    private final MySqlDatabaseSchema schema;

    private final BinlogConnectorConnection connection;

    /** Debezium's constructor makes these: an initializer would run after that, and {@link #schema} is not there yet. */
    private Predicate<TableId> isCaptured;

    private TextsAsNamed texts;

    private TablesAsNamed known;

    private StatementsWithoutRows statements;

    private TableMapEventData named;

    /** All of these are of the thread that reads, as are all events; the last is of the binlog's file. */
    private boolean isCapturedChanged;

    private boolean isUndecided;

    private boolean isBroken;

    private boolean hasTransactions;

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
        this.connection = connection;
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
        isCaptured = config.getTableFilters().dataCollectionFilter()::isIncluded;
        texts = new TextsAsNamed(
                connection, COLLATIONS, new MySqlCharsetRegistry(), isCaptured,
                () -> client.getBinlogFilename() + " from position " + client.getBinlogPosition());
        statements = new StatementsWithoutRows(config.getTableFilters().databaseFilter(), texts::lettersOf);
        super.configureBinaryLogClient(client, config, threads, connection);
        client.registerLifecycleListener(new BinaryLogClient.AbstractLifecycleListener() {
            @Override
            public void onEventDeserializationFailure(BinaryLogClient reading, Exception failure) {
                isBroken = true;
            }
        });
    }

    /** Debezium stops its task a moment after an event that cannot be read, and would report what comes behind it until then. */
    @Override
    protected void handleEvent(
            MySqlPartition partition, MySqlOffsetContext offset, ChangeEventSourceContext context, Event event) {
        if (!isBroken) {
            super.handleEvent(partition, offset, context, event);
        }
        EventType kind = event.getHeader().getEventType();
        if (kind == EventType.FORMAT_DESCRIPTION) {
            known().forget();
            texts.forget();
        }
        boolean begins = kind == EventType.GTID || kind == EventType.GTID_TAGGED;
        hasTransactions = begins || hasTransactions && kind != EventType.ROTATE;
    }

    @Override
    protected void handleUpdateTableMetadata(MySqlPartition partition, MySqlOffsetContext offset, Event event)
            throws InterruptedException {
        TableMapEventData table = unwrapData(event);
        if (isCaptured.test(new TableId(table.getDatabase(), null, table.getTable()))) {
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
            throw new DataException("Rows were reported of a transaction that was then rolled back to a savepoint, or as a whole");
        }
        super.handleQueryEvent(partition, offset, event);
    }

    @Override
    protected EventDeserializer createEventDeserializer() {
        Map<Long, TableMapEventData> tables = new LastTables<>();
        EventDeserializer events = events(tables);
        events.setEventDataDeserializer(EventType.TRANSACTION_PAYLOAD, new Payloads(events(tables)));
        return events;
    }

    private EventDeserializer events(Map<Long, TableMapEventData> tables) {
        EventDeserializer events = new EventDeserializer();
        TableMapEventDataDeserializer tablesAsNamed = new TableMapEventDataDeserializer() {
            @Override
            public TableMapEventData deserialize(ByteArrayInputStream event) throws IOException {
                byte[] bytes = event.read(event.available());
                TableMapEventData table = super.deserialize(new ByteArrayInputStream(bytes));
                texts.add(table, bytes, new BitSet());
                known().add(table);
                // Last: rows of a table that cannot be read must not find it.
                tables.put(table.getTableId(), table);
                named = table;
                return table;
            }
        };
        // The client reads such an event by its own class before any other, unless it is given both, and hands the second's on.
        events.setEventDataDeserializer(
                EventType.TABLE_MAP, new EventDeserializer.EventDataWrapper.Deserializer(tablesAsNamed, event -> named));
        events.setEventDataDeserializer(EventType.STOP, new StopEventDataDeserializer());
        events.setEventDataDeserializer(EventType.QUERY, statements);
        events.setEventDataDeserializer(EventType.EXECUTE_LOAD_QUERY, statements::deserializeLoad);
        events.setEventDataDeserializer(
                EventType.EXT_WRITE_ROWS, new RowsAsStored.Inserted(tables, texts).setMayContainExtraInformation(true));
        events.setEventDataDeserializer(
                EventType.EXT_UPDATE_ROWS, new RowsAsStored.Updated(tables, texts).setMayContainExtraInformation(true));
        events.setEventDataDeserializer(
                EventType.EXT_DELETE_ROWS, new RowsAsStored.Deleted(tables, texts).setMayContainExtraInformation(true));
        events.setEventDataDeserializer(EventType.PARTIAL_UPDATE_ROWS_EVENT, this::refuseParts);
        events.setEventDataDeserializer(EventType.UNKNOWN, this::refuseAmongRows);
        // What MariaDB and servers before 5.6 write.
        events.setEventDataDeserializer(EventType.WRITE_ROWS, this::refuseAmongRows);
        events.setEventDataDeserializer(EventType.UPDATE_ROWS, this::refuseAmongRows);
        events.setEventDataDeserializer(EventType.DELETE_ROWS, this::refuseAmongRows);
        return events;
    }

    private TablesAsNamed known() {
        if (known == null) {
            known = new TablesAsNamed(schema, isCaptured, texts, connection);
        }
        return known;
    }

    private EventData refuseParts(ByteArrayInputStream event) throws IOException {
        if (texts.isRead(event.readLong(TABLE_NUMBER_BYTES))) {
            throw new DataException("binlog_row_value_options was not empty when a row was updated: the log holds a document's"
                    + " differences, and the log does not say what they were applied to");
        }
        return null;
    }

    /** At the beginning of a file an event of a new kind says nothing of rows; later it may. */
    private EventData refuseAmongRows(ByteArrayInputStream event) {
        if (hasTransactions) {
            throw new DataException("The binlog holds an event of a kind that the connector does not know, among those of rows");
        }
        return null;
    }
}
