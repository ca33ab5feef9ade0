package seamline.connect;

import io.debezium.connector.mysql.MySqlConnectorConfig;
import io.debezium.connector.mysql.MySqlDatabaseSchema;
import io.debezium.connector.mysql.MySqlOffsetContext;
import io.debezium.connector.mysql.MySqlPartition;
import io.debezium.connector.mysql.MySqlTaskContext;
import io.debezium.connector.mysql.jdbc.MySqlValueConverters;
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
final class TablesOfStatements extends MySqlDatabaseSchema {

    private final UnreadStatements unread;

    TablesOfStatements(
            MySqlConnectorConfig config,
            MySqlValueConverters values,
            TopicNamingStrategy<TableId> topics,
            boolean isCaseInsensitive,
            CustomConverterRegistry converters,
            MySqlTaskContext context) {
        super(config, values, topics, config.schemaNameAdjuster(), isCaseInsensitive, converters, context);
        unread = new UnreadStatements(config.getTableFilters(), this::tableIds, this::forget);
    }

    @Override
    public List<SchemaChangeEvent> parseSnapshotDdl(
            MySqlPartition partition, String statement, String database, MySqlOffsetContext offset, Instant when) {
        try {
            return super.parseSnapshotDdl(partition, statement, database, offset, when);
        } catch (RuntimeException failure) {
            unread.forgetTouched(statement, database);
            return List.of();
        }
    }

    @Override
    public List<SchemaChangeEvent> parseStreamingDdl(
            MySqlPartition partition, String statement, String database, MySqlOffsetContext offset, Instant when) {
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
