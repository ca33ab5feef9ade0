package seamline.connect;

import io.debezium.config.Configuration;
import io.debezium.config.Field;
import io.debezium.connector.base.ChangeEventQueue;
import io.debezium.connector.binlog.BinlogConnectorConfig;
import io.debezium.connector.binlog.BinlogDatabaseSchema;
import io.debezium.connector.binlog.BinlogTaskContext;
import io.debezium.connector.binlog.jdbc.BinlogConnectorConnection;
import io.debezium.connector.mysql.MySqlConnectorConfig;
import io.debezium.connector.mysql.MySqlDatabaseSchema;
import io.debezium.connector.mysql.MySqlErrorHandler;
import io.debezium.connector.mysql.MySqlOffsetContext;
import io.debezium.connector.mysql.MySqlPartition;
import io.debezium.connector.mysql.MySqlTaskContext;
import io.debezium.connector.mysql.Module;
import io.debezium.connector.mysql.jdbc.MySqlConnection;
import io.debezium.connector.mysql.jdbc.MySqlConnectionConfiguration;
import io.debezium.connector.mysql.jdbc.MySqlFieldReaderResolver;
import io.debezium.connector.mysql.jdbc.MySqlValueConverters;
import io.debezium.connector.mysql.MySqlChangeEventSourceMetricsFactory;
import io.debezium.connector.mysql.MySqlStreamingChangeEventSourceMetrics;
import io.debezium.jdbc.JdbcConnection;
import io.debezium.pipeline.DataChangeEvent;
import io.debezium.pipeline.ErrorHandler;
import io.debezium.pipeline.spi.OffsetContext;
import io.debezium.pipeline.spi.Partition;
import io.debezium.relational.CustomConverterRegistry;
import io.debezium.relational.TableId;
import io.debezium.relational.ValueConverterProvider;
import io.debezium.spi.topic.TopicNamingStrategy;
import java.sql.SQLException;
import java.util.Map;
import org.apache.kafka.connect.source.SourceConnector;

/** Debezium's parts for MySQL (3.6.1.Final), as {@link BinlogTask} puts them together. */
public class MySqlConnectorTask extends BinlogTask<MySqlPartition, MySqlOffsetContext> {

    private MySqlConnectorConfig config;
    private MySqlTaskContext context;
    private MySqlValueConverters values;
    private MySqlDatabaseSchema schema;

    public MySqlConnectorTask() {
        super(new MySqlPlaces());
    }

    @Override
    public String version() {
        return WholeTransactions.versionOver(Module.version());
    }

    @Override
    protected String connectorName() {
        return Module.name();
    }

    @Override
    protected Iterable<Field> getAllConfigurationFields() {
        return MySqlConnectorConfig.ALL_FIELDS;
    }

    @Override
    Class<? extends SourceConnector> connector() {
        return MySqlConnector.class;
    }

    /** Its GTIDs are made of it. */
    @Override
    String server() {
        return "SELECT CONCAT('server_uuid ', @@server_uuid)";
    }

    /** With AFTER_COMMIT only the writer waits. A server without semi-synchronous replication has no such variables. */
    @Override
    String waitsForStandbys() {
        return "SELECT 1 FROM performance_schema.global_variables WHERE (variable_name, variable_value) IN"
                + " (('rpl_semi_sync_source_enabled', 'ON'), ('rpl_semi_sync_source_wait_point', 'AFTER_SYNC'))"
                + " HAVING count(*) = 2";
    }

    @Override
    void requirePlaceIn(JdbcConnection source, Map<String, ?> stored) throws SQLException {
        MySqlPlaces.requireIn(source, stored);
    }

    @Override
    BinlogConnectorConfig configOf(Configuration settings) {
        config = new MySqlConnectorConfig(settings);
        return config;
    }

    @Override
    BinlogTaskContext<?> contextOf(Configuration settings) {
        context = new MySqlTaskContext(settings, config);
        return context;
    }

    @Override
    BinlogConnectorConnection open(Configuration settings) {
        return new MySqlConnection(new MySqlConnectionConfiguration(settings), MySqlFieldReaderResolver.resolve(config));
    }

    @Override
    Partition.Provider<MySqlPartition> partitions(Configuration settings) {
        return new MySqlPartition.Provider(config, settings);
    }

    @Override
    OffsetContext.Loader<MySqlOffsetContext> offsets() {
        return new MySqlOffsetContext.Loader(config);
    }

    @Override
    ValueConverterProvider values() {
        values = new ValuesAsPrinted(
                config.getDecimalMode(), config.getTemporalPrecisionMode(),
                config.getBigIntUnsignedHandlingMode().asBigIntUnsignedMode(), config.binaryHandlingMode(),
                stored -> stored, config.getEventConvertingFailureHandlingMode(), config.getServiceRegistry());
        return values;
    }

    @Override
    BinlogDatabaseSchema<MySqlPartition, MySqlOffsetContext, ?, ?> tables(
            TopicNamingStrategy<TableId> topics, boolean isCaseInsensitive, CustomConverterRegistry converters) {
        schema = new TablesOfStatements(config, values, topics, isCaseInsensitive, converters, context);
        return schema;
    }

    @Override
    ErrorHandler errors(ChangeEventQueue<DataChangeEvent> queue, ErrorHandler before) {
        return new MySqlErrorHandler(config, queue, before);
    }

    @Override
    Reading<MySqlPartition, MySqlOffsetContext> reading(Parts<MySqlPartition> parts) {
        MySqlStreamingChangeEventSourceMetrics metrics = new MySqlStreamingChangeEventSourceMetrics(
                context, parts.queue(), parts.metadata(), schema::dataCollectionIds, parts.client());
        return new Reading<>(
                new MySqlSources(
                        config, parts.connections(), parts.errorHandler(), parts.dispatcher(), schema, context, metrics,
                        parts.queue(), parts.snapshots(), parts.client()),
                new MySqlChangeEventSourceMetricsFactory(metrics));
    }
}
