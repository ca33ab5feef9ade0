package seamline.connect;

import io.debezium.config.Configuration;
import io.debezium.config.Field;
import io.debezium.connector.base.ChangeEventQueue;
import io.debezium.connector.binlog.BinlogConnectorConfig;
import io.debezium.connector.binlog.BinlogDatabaseSchema;
import io.debezium.connector.binlog.BinlogTaskContext;
import io.debezium.connector.binlog.jdbc.BinlogConnectorConnection;
import io.debezium.connector.mariadb.MariaDbConnectorConfig;
import io.debezium.connector.mariadb.MariaDbDatabaseSchema;
import io.debezium.connector.mariadb.MariaDbErrorHandler;
import io.debezium.connector.mariadb.MariaDbOffsetContext;
import io.debezium.connector.mariadb.MariaDbPartition;
import io.debezium.connector.mariadb.MariaDbTaskContext;
import io.debezium.connector.mariadb.Module;
import io.debezium.connector.mariadb.jdbc.MariaDbConnection;
import io.debezium.connector.mariadb.jdbc.MariaDbConnectionConfiguration;
import io.debezium.connector.mariadb.jdbc.MariaDbFieldReader;
import io.debezium.connector.mariadb.jdbc.MariaDbValueConverters;
import io.debezium.connector.mariadb.metrics.MariaDbChangeEventSourceMetricsFactory;
import io.debezium.connector.mariadb.metrics.MariaDbStreamingChangeEventSourceMetrics;
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

/** Debezium's parts for MariaDB (3.5.0.Final), as {@link BinlogTask} puts them together. */
public class MariaDbConnectorTask extends BinlogTask<MariaDbPartition, MariaDbOffsetContext> {

    private MariaDbConnectorConfig config;
    private MariaDbTaskContext context;
    private MariaDbValueConverters values;
    private MariaDbDatabaseSchema schema;

    public MariaDbConnectorTask() {
        super(new MariaDbPlaces());
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
        return MariaDbConnectorConfig.ALL_FIELDS;
    }

    @Override
    Class<? extends SourceConnector> connector() {
        return MariaDbConnector.class;
    }

    /** No two servers of one topology share it. (`server_uid` is made of a port and a network card's address.) */
    @Override
    String server() {
        return "SELECT CONCAT('server_id ', @@server_id)";
    }

    /** With AFTER_COMMIT only the writer waits. A server without semi-synchronous replication has no such variables. */
    @Override
    String waitsForStandbys() {
        return "SELECT 1 FROM information_schema.GLOBAL_VARIABLES WHERE (VARIABLE_NAME, VARIABLE_VALUE) IN"
                + " (('RPL_SEMI_SYNC_MASTER_ENABLED', 'ON'), ('RPL_SEMI_SYNC_MASTER_WAIT_POINT', 'AFTER_SYNC'))"
                + " HAVING count(*) = 2";
    }

    @Override
    void requirePlaceIn(JdbcConnection source, Map<String, ?> stored) throws SQLException {
        MariaDbPlaces.requireIn(source, stored);
    }

    @Override
    BinlogConnectorConfig configOf(Configuration settings) {
        config = new MariaDbConnectorConfig(settings);
        return config;
    }

    @Override
    BinlogTaskContext<?> contextOf(Configuration settings) {
        context = new MariaDbTaskContext(settings, config);
        return context;
    }

    @Override
    BinlogConnectorConnection open(Configuration settings) {
        return new MariaDbConnection(new MariaDbConnectionConfiguration(settings), new MariaDbFieldReader(config));
    }

    @Override
    Partition.Provider<MariaDbPartition> partitions(Configuration settings) {
        return new MariaDbPartition.Provider(config, settings);
    }

    @Override
    OffsetContext.Loader<MariaDbOffsetContext> offsets() {
        return new MariaDbOffsetContext.Loader(config);
    }

    @Override
    ValueConverterProvider values() {
        values = new MariaDbValueConverters(
                config.getDecimalMode(), config.getTemporalPrecisionMode(),
                config.getBigIntUnsignedHandlingMode().asBigIntUnsignedMode(), config.binaryHandlingMode(),
                stored -> stored, config.getEventConvertingFailureHandlingMode(), config.getServiceRegistry());
        return values;
    }

    @Override
    BinlogDatabaseSchema<MariaDbPartition, MariaDbOffsetContext, ?, ?> tables(
            TopicNamingStrategy<TableId> topics, boolean isCaseInsensitive, CustomConverterRegistry converters) {
        schema = new TablesOfStatements(config, values, topics, isCaseInsensitive, converters, context);
        return schema;
    }

    @Override
    ErrorHandler errors(ChangeEventQueue<DataChangeEvent> queue, ErrorHandler before) {
        return new MariaDbErrorHandler(config, queue, before);
    }

    @Override
    Reading<MariaDbPartition, MariaDbOffsetContext> reading(Parts<MariaDbPartition> parts) {
        MariaDbStreamingChangeEventSourceMetrics metrics = new MariaDbStreamingChangeEventSourceMetrics(
                context, parts.queue(), parts.metadata(), schema::dataCollectionIds, parts.client());
        return new Reading<>(
                new MariaDbSources(
                        config, parts.connections(), parts.errorHandler(), parts.dispatcher(), schema, context, metrics,
                        parts.queue(), parts.snapshots(), parts.client()),
                new MariaDbChangeEventSourceMetricsFactory(metrics));
    }
}
