package seamline.connect;

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.EventType;
import com.github.shyiko.mysql.binlog.event.MariadbGtidEventData;
import com.github.shyiko.mysql.binlog.event.QueryEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.TableMapEventDataDeserializer;
import com.github.shyiko.mysql.binlog.io.ByteArrayInputStream;
import io.debezium.connector.binlog.BinlogConnectorConfig;
import io.debezium.connector.binlog.event.StopEventDataDeserializer;
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
import java.io.IOException;
import java.util.BitSet;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.kafka.connect.errors.DataException;

/**
 * Debezium's reader of the binlog, which tells NULL for a date that is none, takes a hole in the GTIDs as it comes, passes over
 * statements that do not tell their rows and over events that it does not know, takes all statements for UTF-8, does not see what
 * stands in comments that the server runs, and reads texts in the character set and rows by the columns that statements seem to
 * say.
 */
final class BinlogReader extends MariaDbStreamingChangeEventSource {

    private static final String COLLATIONS =
            "SELECT id, character_set_name FROM information_schema.collation_character_set_applicability";

    private static final Set<EventType> OF_MYSQL = EnumSet.of(
            EventType.EXT_WRITE_ROWS, EventType.EXT_UPDATE_ROWS, EventType.EXT_DELETE_ROWS, EventType.TRANSACTION_PAYLOAD);

    /** What Debezium has made of the statements so far. */
    private final MariaDbDatabaseSchema schema;

    private final BinlogConnectorConnection connection;

    private NoGtidMissing complete;

    /** Debezium's constructor makes these: an initializer would run after that, and {@link #schema} is not there yet. */
    private Predicate<TableId> isCaptured;

    private TextsAsNamed texts;

    private TablesAsNamed known;

    private StatementsWithoutRows statements;

    private TableMapEventData named;

    private final RowsThatStand standing = new RowsThatStand(this::unwrapData);

    /** The GTID of the transaction that is told: once more where it is begun again. */
    private Event latest;

    /** All of these are of the thread that reads, as are all events; the last is of the binlog's file. */
    private boolean isCapturedChanged;

    private boolean isBroken;

    private boolean hasTransactions;

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
        this.connection = connection;
    }

    @Override
    protected void initializeGtidSet(String told) {
        super.initializeGtidSet(told);
        complete = new NoGtidMissing(told);
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
        isCaptured = config.getTableFilters().dataCollectionFilter()::isIncluded;
        texts = new TextsAsNamed(
                connection, COLLATIONS, new MariaDbCharsetRegistry(), isCaptured,
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

    /** Debezium stops its task a moment after an event that cannot be read, and would tell what comes behind it until then. */
    @Override
    protected void handleEvent(
            MariaDbPartition partition, MariaDbOffsetContext offset, ChangeEventSourceContext context, Event event) {
        if (!isBroken) {
            for (Event one : standing.next(event)) {
                super.handleEvent(partition, offset, context, one);
            }
        }
        EventType kind = event.getHeader().getEventType();
        if (kind == EventType.FORMAT_DESCRIPTION) {
            known().forget();
            texts.forget();
        }
        hasTransactions = kind == EventType.MARIADB_GTID || hasTransactions && kind != EventType.ROTATE;
    }

    @Override
    protected void handleUpdateTableMetadata(MariaDbPartition partition, MariaDbOffsetContext offset, Event event)
            throws InterruptedException {
        TableMapEventData table = unwrapData(event);
        isCapturedChanged |= isCaptured.test(new TableId(table.getDatabase(), null, table.getTable()));
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
            throw new DataException("Rows were told of a transaction that was then rolled back to a savepoint: it is larger than"
                    + " what is held until its end, or a name was not understood");
        }
    }

    @Override
    protected EventDeserializer createEventDeserializer() {
        EventDeserializer events = new EventDeserializer();
        Map<Long, TableMapEventData> tables = new LastTables<>();
        TableMapEventDataDeserializer tablesAsNamed = new TableMapEventDataDeserializer() {
            @Override
            public TableMapEventData deserialize(ByteArrayInputStream event) throws IOException {
                byte[] bytes = event.read(event.available());
                BitSet compressed = CompressedColumns.uncover(bytes);
                TableMapEventData table = super.deserialize(new ByteArrayInputStream(bytes));
                texts.add(table, bytes, compressed);
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
        events.setEventDataDeserializer(EventType.WRITE_ROWS, new RowsAsStored.Inserted(tables, texts));
        events.setEventDataDeserializer(EventType.UPDATE_ROWS, new RowsAsStored.Updated(tables, texts));
        events.setEventDataDeserializer(EventType.DELETE_ROWS, new RowsAsStored.Deleted(tables, texts));
        events.setEventDataDeserializer(EventType.UNKNOWN, this::refuseAmongRows);
        // What MySQL writes; of MariaDB only those above are known.
        for (EventType other : OF_MYSQL) {
            events.setEventDataDeserializer(other, this::refuseAmongRows);
        }
        return events;
    }

    private TablesAsNamed known() {
        if (known == null) {
            known = new TablesAsNamed(schema, isCaptured, texts, connection);
        }
        return known;
    }

    /** At the beginning of a file an event of a new kind says nothing of rows; later it may be a compressed one. */
    private EventData refuseAmongRows(ByteArrayInputStream event) {
        if (hasTransactions) {
            throw new DataException("The binlog holds an event of a kind that the connector does not know, among those of rows");
        }
        return null;
    }
}
