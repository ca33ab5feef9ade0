package seamline.connect;

import io.debezium.connector.mariadb.MariaDbConnectorConfig;
import io.debezium.connector.mariadb.MariaDbDatabaseSchema;
import io.debezium.connector.mariadb.MariaDbOffsetContext;
import io.debezium.connector.mariadb.MariaDbPartition;
import io.debezium.connector.mariadb.MariaDbTaskContext;
import io.debezium.connector.mariadb.jdbc.MariaDbValueConverters;
import io.debezium.relational.Column;
import io.debezium.relational.CustomConverterRegistry;
import io.debezium.relational.Table;
import io.debezium.relational.TableId;
import io.debezium.schema.SchemaChangeEvent;
import io.debezium.schema.SchemaChangeEvent.SchemaChangeEventType;
import io.debezium.spi.topic.TopicNamingStrategy;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What Debezium makes of statements, and no more: it ends its task at one that it cannot read, of whatever table.
 *
 * The tables that such a statement may touch are forgotten, and {@link TablesAsNamed} makes them anew from what the server
 * names before their next rows. The log tells the statement of each captured one among them, as any that alters it.
 */
final class TablesOfStatements extends MariaDbDatabaseSchema {

    private static final Logger LOGGER = LoggerFactory.getLogger(TablesOfStatements.class);

    private final TablesTouched touched;

    TablesOfStatements(
            MariaDbConnectorConfig config,
            MariaDbValueConverters values,
            TopicNamingStrategy<TableId> topics,
            boolean isCaseInsensitive,
            CustomConverterRegistry converters,
            MariaDbTaskContext context) {
        super(config, values, topics, config.schemaNameAdjuster(), isCaseInsensitive, converters, context);
        touched = new TablesTouched(
                config.getTableFilters().databaseFilter(),
                config.getTableFilters().dataCollectionFilter()::isIncluded,
                this::tableIds);
    }

    @Override
    public List<SchemaChangeEvent> parseSnapshotDdl(
            MariaDbPartition partition, String statement, String database, MariaDbOffsetContext offset, Instant when) {
        try {
            return super.parseSnapshotDdl(partition, statement, database, offset, when);
        } catch (RuntimeException unread) {
            touched(statement, database).forEach(this::forget);
            return List.of();
        }
    }

    @Override
    public List<SchemaChangeEvent> parseStreamingDdl(
            MariaDbPartition partition, String statement, String database, MariaDbOffsetContext offset, Instant when) {
        try {
            return super.parseStreamingDdl(partition, statement, database, offset, when);
        } catch (RuntimeException unread) {
            List<SchemaChangeEvent> told = new ArrayList<>();
            for (TableId typed : touched(statement, database)) {
                for (TableId table : forget(typed)) {
                    handleTableEvent(offset, table.catalog(), Set.of(table), when);
                    Table unknown = Table.editor().tableId(table).create();
                    told.add(SchemaChangeEvent.of(
                            SchemaChangeEventType.DROP, partition, offset, table.catalog(), null, statement, unknown, false));
                }
            }
            return told;
        }
    }

    /** Some DEFAULTs Debezium cannot read, as a UUID that is written out; no value is made of one, the log has all of them. */
    @Override
    protected void buildAndRegisterSchema(Table table) {
        try {
            super.buildAndRegisterSchema(table);
        } catch (RuntimeException unread) {
            LOGGER.warn("The defaults of {} are left out: one cannot be read", table.id(), unread);
            super.buildAndRegisterSchema(withoutDefaults(table));
        }
    }

    private static Table withoutDefaults(Table table) {
        List<Column> columns = new ArrayList<>();
        for (Column column : table.columns()) {
            columns.add(column.hasDefaultValue() ? column.edit().unsetDefaultValueExpression().create() : column);
        }
        return table.edit().setColumns(columns).create();
    }

    /** A statement may hold a password: neither it nor an error that shows it goes into the log of Connect. */
    private Set<TableId> touched(String statement, String database) {
        Set<TableId> found = touched.of(statement, database);
        LOGGER.warn("A statement ({}) in database {} was not understood; what it may touch is read as the server names it: {}",
                StatementsWithoutRows.verb(statement), database, found);
        return found;
    }

    /** @return the tables that were known by this name, or else the name as it was typed */
    private Set<TableId> forget(TableId typed) {
        Set<TableId> known = new TreeSet<>();
        for (TableId one : tableIds()) {
            if (one.table().equalsIgnoreCase(typed.table()) && one.catalog().equalsIgnoreCase(typed.catalog())) {
                known.add(one);
            }
        }
        for (TableId one : known) {
            tables().removeTable(one);
            removeSchema(one);
        }
        return known.isEmpty() ? Set.of(typed) : known;
    }
}
