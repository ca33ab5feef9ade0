package seamline.connect;

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import io.debezium.DebeziumException;
import io.debezium.bean.StandardBeanNames;
import io.debezium.bean.spi.BeanRegistry;
import io.debezium.config.CommonConnectorConfig;
import io.debezium.config.Configuration;
import io.debezium.config.Field;
import io.debezium.connector.base.ChangeEventQueue;
import io.debezium.connector.binlog.BinlogConnectorConfig;
import io.debezium.connector.binlog.BinlogEventMetadataProvider;
import io.debezium.connector.binlog.BinlogSourceTask;
import io.debezium.connector.binlog.jdbc.BinlogConnectorConnection;
import io.debezium.connector.common.CdcSourceTaskContext;
import io.debezium.connector.common.DebeziumHeaderProducer;
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
import io.debezium.document.DocumentReader;
import io.debezium.heartbeat.HeartbeatFactory;
import io.debezium.jdbc.DefaultMainConnectionProvidingConnectionFactory;
import io.debezium.jdbc.MainConnectionProvidingConnectionFactory;
import io.debezium.pipeline.ChangeEventSourceCoordinator;
import io.debezium.pipeline.DataChangeEvent;
import io.debezium.pipeline.ErrorHandler;
import io.debezium.pipeline.EventDispatcher;
import io.debezium.pipeline.notification.NotificationService;
import io.debezium.pipeline.signal.SignalProcessor;
import io.debezium.pipeline.spi.Offsets;
import io.debezium.relational.CustomConverterRegistry;
import io.debezium.relational.TableId;
import io.debezium.schema.SchemaFactory;
import io.debezium.service.Service;
import io.debezium.snapshot.SnapshotterService;
import io.debezium.spi.topic.TopicNamingStrategy;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;

/**
 * Debezium's parts (3.6.1.Final) around a reader of our own, which says what Debezium's passes over (ADR 20). Its own task
 * names its reader in the middle of its start, so the parts are put together here. Where a transaction is open at a stop,
 * it is told again from its BEGIN (ADR 16).
 */
public class MySqlConnectorTask extends BinlogSourceTask<MySqlPartition, MySqlOffsetContext> {

    /** Its GTIDs are made of it. */
    private static final String SERVER = "SELECT CONCAT('server_uuid ', @@server_uuid)";

    /** With AFTER_COMMIT only the writer waits. A server without semi-synchronous replication has no such variables. */
    private static final String WAITS_FOR_STANDBYS =
            "SELECT 1 FROM performance_schema.global_variables WHERE (variable_name, variable_value) IN"
                    + " (('rpl_semi_sync_source_enabled', 'ON'), ('rpl_semi_sync_source_wait_point', 'AFTER_SYNC'))"
                    + " HAVING count(*) = 2";

    private final Places places = new MySqlPlaces();
    private PlacesBetweenTransactions between;
    private ToldWhole told;

    private MySqlConnectorConfig config;
    private MySqlTaskContext context;
    private volatile BinlogConnectorConnection connection;
    private volatile BinlogConnectorConnection connectionOfParts;
    private volatile MySqlDatabaseSchema schema;
    private volatile ChangeEventQueue<DataChangeEvent> queue;
    private volatile ErrorHandler errorHandler;

    @Override
    public String version() {
        return ToldWhole.versionOver(Module.version());
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
    public void initialize(SourceTaskContext given) {
        between = new PlacesBetweenTransactions(given, places);
        super.initialize(between);
    }

    @Override
    public CdcSourceTaskContext<? extends CommonConnectorConfig> preStart(Configuration settings) {
        config = new MySqlConnectorConfig(settings);
        context = new MySqlTaskContext(settings, config);
        return context;
    }

    @Override
    protected ChangeEventSourceCoordinator<MySqlPartition, MySqlOffsetContext> start(Configuration settings) {
        Map<String, Object> stored = between.stored(Map.of("server", config.getLogicalName()));
        Markers markers = new Markers(settings, stored);
        told = new ToldWhole(places, stored, markers, refuseAnotherHistory(settings, stored, markers));

        MainConnectionProvidingConnectionFactory<BinlogConnectorConnection> connections =
                new DefaultMainConnectionProvidingConnectionFactory<>(() -> open(settings));
        connection = connections.mainConnection();
        Offsets<MySqlPartition, MySqlOffsetContext> offsets =
                getPreviousOffsets(new MySqlPartition.Provider(config, settings), new MySqlOffsetContext.Loader(config));
        registerServiceProviders(config.getServiceRegistry());
        @SuppressWarnings("unchecked") // Made by name, for tables as in all of Debezium's relational connectors.
        TopicNamingStrategy<TableId> topics = config.getTopicNamingStrategy(BinlogConnectorConfig.TOPIC_NAMING_STRATEGY);
        MySqlValueConverters values = values();
        schema = new TablesOfStatements(
                config, values, topics, connection.isTableIdCaseSensitive(), service(CustomConverterRegistry.class), context);
        connectionOfParts = connections.newConnection();
        addBeans(settings, values, offsets);
        validate(offsets);

        queue = queue();
        errorHandler = new MySqlErrorHandler(config, queue, errorHandler);
        ChangeEventSourceCoordinator<MySqlPartition, MySqlOffsetContext> coordinator =
                coordinator(settings, connections, topics, offsets);
        coordinator.start(context, queue, new BinlogEventMetadataProvider());
        return coordinator;
    }

    @Override
    protected List<SourceRecord> doPoll() throws InterruptedException {
        return told.next(queue.poll().stream().map(DataChangeEvent::getRecord).toList());
    }

    @Override
    protected Optional<ErrorHandler> getErrorHandler() {
        return Optional.ofNullable(errorHandler);
    }

    @Override
    protected void doStop() {
        close(connection);
        close(connectionOfParts);
        if (schema != null) {
            schema.close();
        }
    }

    /** A server that was restored gives the same GTIDs once more, so Debezium's own check of them passes. */
    private static Server refuseAnotherHistory(Configuration settings, Map<String, ?> stored, Markers markers) {
        MySqlConnectionConfiguration access = new MySqlConnectionConfiguration(settings);
        try (MySqlConnection connection = new MySqlConnection(access, null)) {
            Server server = Server.requireSame(connection, SERVER, stored);
            MySqlPlaces.requireIn(connection, stored);
            markers.requireNewestIn(connection, WAITS_FOR_STANDBYS);
            return server;
        } catch (SQLException failure) {
            throw Unanswered.because(failure);
        }
    }

    private MySqlConnection open(Configuration settings) {
        return new MySqlConnection(new MySqlConnectionConfiguration(settings), MySqlFieldReaderResolver.resolve(config));
    }

    private <T extends Service> T service(Class<T> kind) {
        return config.getServiceRegistry().tryGetService(kind);
    }

    private MySqlValueConverters values() {
        return new ValuesAsPrinted(
                config.getDecimalMode(), config.getTemporalPrecisionMode(),
                config.getBigIntUnsignedHandlingMode().asBigIntUnsignedMode(), config.binaryHandlingMode(),
                stored -> stored, config.getEventConvertingFailureHandlingMode(), config.getServiceRegistry());
    }

    /** What Debezium's services look up by name. */
    private void addBeans(
            Configuration settings, MySqlValueConverters values, Offsets<MySqlPartition, MySqlOffsetContext> offsets) {
        BeanRegistry beans = config.getBeanRegistry();
        beans.add(StandardBeanNames.CONFIGURATION, settings);
        beans.add(StandardBeanNames.CONNECTOR_CONFIG, config);
        beans.add(StandardBeanNames.DATABASE_SCHEMA, schema);
        beans.add(StandardBeanNames.JDBC_CONNECTION, connectionOfParts);
        beans.add(StandardBeanNames.VALUE_CONVERTER, values);
        beans.add(StandardBeanNames.OFFSETS, offsets);
        beans.add(StandardBeanNames.CDC_SOURCE_TASK_CONTEXT, context);
    }

    private void validate(Offsets<MySqlPartition, MySqlOffsetContext> offsets) {
        var snapshotter = service(SnapshotterService.class).getSnapshotter();
        validateBinlogConfiguration(snapshotter, connection);
        if (validateSnapshotFeasibility(snapshotter, offsets.getTheOnlyOffset(), connection)) {
            offsets.resetOffset(offsets.getTheOnlyPartition());
        }
        validateSchemaHistory(config, connection::validateLogPosition, offsets, schema, snapshotter);
        try {
            connection.setAutoCommit(false);
        } catch (SQLException failure) {
            throw new DebeziumException("the session to the source is lost", failure);
        }
    }

    private ChangeEventQueue<DataChangeEvent> queue() {
        return new ChangeEventQueue.Builder<DataChangeEvent>()
                .pollInterval(config.getPollInterval())
                .maxBatchSize(config.getMaxBatchSize())
                .maxQueueSize(config.getMaxQueueSize())
                .maxQueueSizeInBytes(config.getMaxQueueSizeInBytes())
                .loggingContextSupplier(() -> context.configureLoggingContext("mysql-connector-task"))
                .buffering()
                .build();
    }

    private ChangeEventSourceCoordinator<MySqlPartition, MySqlOffsetContext> coordinator(
            Configuration settings,
            MainConnectionProvidingConnectionFactory<BinlogConnectorConnection> connections,
            TopicNamingStrategy<TableId> topics,
            Offsets<MySqlPartition, MySqlOffsetContext> offsets) {
        BinlogEventMetadataProvider metadata = new BinlogEventMetadataProvider();
        SignalProcessor<MySqlPartition, MySqlOffsetContext> signals = new SignalProcessor<>(
                MySqlConnector.class, config, Map.of(), getAvailableSignalChannels(), DocumentReader.defaultReader(), offsets);
        EventDispatcher<MySqlPartition, TableId> dispatcher = new EventDispatcher<>(
                config, topics, schema, queue, config.getTableFilters().dataCollectionFilter(), DataChangeEvent::new, null,
                metadata,
                new HeartbeatFactory<>().getScheduledHeartbeat(
                        config, () -> open(settings), new BinlogHeartbeatErrorHandler(), queue),
                config.schemaNameAdjuster(), signals, service(DebeziumHeaderProducer.class));
        BinaryLogClient client =
                new BinaryLogClient(config.getHostName(), config.getPort(), config.getUserName(), config.getPassword());
        MySqlStreamingChangeEventSourceMetrics metrics = new MySqlStreamingChangeEventSourceMetrics(
                context, queue, metadata, schema::dataCollectionIds, client);
        SnapshotterService snapshots = service(SnapshotterService.class);
        return new ChangeEventSourceCoordinator<>(
                offsets, errorHandler, MySqlConnector.class, config,
                new MySqlSources(
                        config, connections, errorHandler, dispatcher, schema, context, metrics, queue, snapshots, client),
                new MySqlChangeEventSourceMetricsFactory(metrics), dispatcher, schema, signals,
                new NotificationService<>(
                        getNotificationChannels(), config, SchemaFactory.get(), dispatcher::enqueueNotification),
                snapshots);
    }

    private static void close(BinlogConnectorConnection one) {
        try {
            if (one != null) {
                one.close();
            }
        } catch (SQLException gone) {
            // It is closed all the same.
        }
    }
}
