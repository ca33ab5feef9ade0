package seamline.connect;

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.EventType;
import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.TableMapEventDataDeserializer;
import com.github.shyiko.mysql.binlog.io.ByteArrayInputStream;
import io.debezium.connector.binlog.BinlogConnectorConfig;
import io.debezium.connector.binlog.charset.BinlogCharsetRegistry;
import io.debezium.connector.binlog.event.StopEventDataDeserializer;
import io.debezium.connector.binlog.jdbc.BinlogConnectorConnection;
import io.debezium.relational.RelationalDatabaseSchema;
import io.debezium.relational.TableId;
import java.io.IOException;
import java.util.BitSet;
import java.util.Map;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.kafka.connect.errors.DataException;

/**
 * How the readers of both binlogs take their events.
 *
 * Debezium's own reports NULL for an invalid date, passes over statements without rows and over events that it does not
 * know, takes all statements for UTF-8, does not see what stands in comments that the server runs, and reads texts in the
 * character set and rows by the columns that statements seem to say.
 *
 * All of it is used by the one thread that reads.
 */
final class BinlogEvents {

    private final Predicate<TableId> isCaptured;
    private final TextsAsNamed texts;
    private final StatementsWithoutRows statements;
    private final BinlogConnectorConnection connection;
    private final Supplier<RelationalDatabaseSchema> schema;
    private final Map<Long, TableMapEventData> tables = new LastTables<>();

    private TablesAsNamed known;
    private TableMapEventData latest;
    private boolean isBroken;
    /** Of the binlog's file. */
    private boolean hasTransactions;

    /** The columns whose values the server compresses, by the bytes of a table's event, which are made readable. */
    interface Compressed {
        BitSet uncover(byte[] event) throws IOException;
    }

    /**
     * @param collations a question for the number of each collation and its character set
     * @param schema what Debezium has made of the statements so far; asked at the first table
     */
    BinlogEvents(
            BinaryLogClient client,
            BinlogConnectorConfig config,
            BinlogConnectorConnection connection,
            String collations,
            BinlogCharsetRegistry charsets,
            Supplier<RelationalDatabaseSchema> schema) {
        this.connection = connection;
        this.schema = schema;
        isCaptured = config.getTableFilters().dataCollectionFilter()::isIncluded;
        texts = new TextsAsNamed(
                connection, collations, charsets, isCaptured,
                () -> client.getBinlogFilename() + " from position " + client.getBinlogPosition());
        statements = new StatementsWithoutRows(config.getTableFilters().databaseFilter(), texts::lettersOf);
    }

    boolean isCaptured(TableMapEventData table) {
        return isCaptured.test(new TableId(table.getDatabase(), null, table.getTable()));
    }

    boolean isRead(long table) {
        return texts.isRead(table);
    }

    /** To be asked last, when Debezium has its own listeners. */
    void watch(BinaryLogClient client) {
        client.registerLifecycleListener(new BinaryLogClient.AbstractLifecycleListener() {
            @Override
            public void onEventDeserializationFailure(BinaryLogClient reading, Exception failure) {
                isBroken = true;
            }
        });
    }

    /** Debezium stops its task a moment after an event that cannot be read, and would report what comes behind it until then. */
    boolean isBroken() {
        return isBroken;
    }

    /** To be asked behind each event. `begins` says whether an event of this type begins a transaction. */
    void passed(Event event, Predicate<EventType> begins) {
        EventType type = event.getHeader().getEventType();
        if (type == EventType.FORMAT_DESCRIPTION) {
            known().forget();
            texts.forget();
        }
        hasTransactions = begins.test(type) || hasTransactions && type != EventType.ROTATE;
    }

    /** All but rows, whose events differ from server to server. */
    EventDeserializer deserializer(Compressed compressed) {
        EventDeserializer events = new EventDeserializer();
        TableMapEventDataDeserializer tablesAsNamed = new TableMapEventDataDeserializer() {
            @Override
            public TableMapEventData deserialize(ByteArrayInputStream event) throws IOException {
                byte[] bytes = event.read(event.available());
                BitSet columns = compressed.uncover(bytes);
                latest = super.deserialize(new ByteArrayInputStream(bytes));
                texts.add(latest, bytes, columns);
                known().add(latest);
                // Last: rows of a table that cannot be read must not find it.
                tables.put(latest.getTableId(), latest);
                return latest;
            }
        };
        // The client reads such an event by its own class before any other, unless it is given both, and hands the second's on.
        events.setEventDataDeserializer(
                EventType.TABLE_MAP, new EventDeserializer.EventDataWrapper.Deserializer(tablesAsNamed, event -> latest));
        events.setEventDataDeserializer(EventType.STOP, new StopEventDataDeserializer());
        events.setEventDataDeserializer(EventType.QUERY, statements);
        events.setEventDataDeserializer(EventType.EXECUTE_LOAD_QUERY, statements::deserializeLoad);
        events.setEventDataDeserializer(EventType.UNKNOWN, this::refuseAmongRows);
        return events;
    }

    RowsAsStored.Inserted inserted() {
        return new RowsAsStored.Inserted(tables, texts);
    }

    RowsAsStored.Updated updated() {
        return new RowsAsStored.Updated(tables, texts);
    }

    RowsAsStored.Deleted deleted() {
        return new RowsAsStored.Deleted(tables, texts);
    }

    /** At the beginning of a file an event of a new kind says nothing of rows; later it may, and be a compressed one. */
    EventData refuseAmongRows(ByteArrayInputStream event) {
        if (hasTransactions) {
            throw new DataException("The binlog holds an event of a kind that the connector does not know, among those of rows");
        }
        return null;
    }

    /** Made at the first table: Debezium's constructor configures its client before it has a schema. */
    private TablesAsNamed known() {
        if (known == null) {
            known = new TablesAsNamed(schema.get(), isCaptured, texts, connection);
        }
        return known;
    }
}
