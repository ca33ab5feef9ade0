package seamline.connect;

import io.debezium.connector.mariadb.MariaDbConnectorConfig;
import io.debezium.connector.mariadb.MariaDbDatabaseSchema;
import io.debezium.connector.mariadb.MariaDbOffsetContext;
import io.debezium.connector.mariadb.MariaDbPartition;
import io.debezium.connector.mariadb.MariaDbTaskContext;
import io.debezium.connector.mariadb.jdbc.MariaDbValueConverters;
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

/** What Debezium makes of statements, and no more: at one that it cannot read it goes on as {@link UnreadStatements} says. */
final class TablesOfStatements extends MariaDbDatabaseSchema {

    private final UnreadStatements unread;

    TablesOfStatements(
            MariaDbConnectorConfig config,
            MariaDbValueConverters values,
            TopicNamingStrategy<TableId> topics,
            boolean isCaseInsensitive,
            CustomConverterRegistry converters,
            MariaDbTaskContext context) {
        super(config, values, topics, config.schemaNameAdjuster(), isCaseInsensitive, converters, context);
        unread = new UnreadStatements(config.getTableFilters(), this::tableIds, this::forget);
    }

    @Override
    public List<SchemaChangeEvent> parseSnapshotDdl(
            MariaDbPartition partition, String statement, String database, MariaDbOffsetContext offset, Instant when) {
        try {
            return super.parseSnapshotDdl(partition, statement, database, offset, when);
        } catch (RuntimeException failure) {
            unread.forgetTouched(statement, database);
            return List.of();
        }
    }

    @Override
    public List<SchemaChangeEvent> parseStreamingDdl(
            MariaDbPartition partition, String statement, String database, MariaDbOffsetContext offset, Instant when) {
        try {
            return super.parseStreamingDdl(partition, statement, database, offset, when);
        } catch (RuntimeException failure) {
            List<SchemaChangeEvent> reported = new ArrayList<>();
            for (TableId table : unread.forgetTouched(statement, database)) {
                handleTableEvent(offset, table.catalog(), Set.of(table), when);
                Table unknown = Table.editor().tableId(table).create();
                reported.add(SchemaChangeEvent.of(
                        SchemaChangeEventType.DROP, partition, offset, table.catalog(), null, statement, unknown, false));
            }
            return reported;
        }
    }

    @Override
    protected void buildAndRegisterSchema(Table table) {
        try {
            super.buildAndRegisterSchema(table);
        } catch (RuntimeException failure) {
            super.buildAndRegisterSchema(UnreadStatements.withoutDefaults(table, failure));
        }
    }

    private void forget(TableId table) {
        tables().removeTable(table);
        removeSchema(table);
    }
}
