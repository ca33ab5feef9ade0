package seamline.connect;

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import io.debezium.DebeziumException;
import io.debezium.bean.StandardBeanNames;
import io.debezium.bean.spi.BeanRegistry;
import io.debezium.config.CommonConnectorConfig;
import io.debezium.config.Configuration;
import io.debezium.connector.base.ChangeEventQueue;
import io.debezium.connector.binlog.BinlogConnectorConfig;
import io.debezium.connector.binlog.BinlogDatabaseSchema;
import io.debezium.connector.binlog.BinlogEventMetadataProvider;
import io.debezium.connector.binlog.BinlogOffsetContext;
import io.debezium.connector.binlog.BinlogPartition;
import io.debezium.connector.binlog.BinlogSourceTask;
import io.debezium.connector.binlog.BinlogTaskContext;
import io.debezium.connector.binlog.jdbc.BinlogConnectorConnection;
import io.debezium.connector.common.CdcSourceTaskContext;
import io.debezium.connector.common.DebeziumHeaderProducer;
import io.debezium.document.DocumentReader;
import io.debezium.heartbeat.HeartbeatFactory;
import io.debezium.jdbc.DefaultMainConnectionProvidingConnectionFactory;
import io.debezium.jdbc.JdbcConnection;
import io.debezium.jdbc.MainConnectionProvidingConnectionFactory;
import io.debezium.pipeline.ChangeEventSourceCoordinator;
import io.debezium.pipeline.DataChangeEvent;
import io.debezium.pipeline.ErrorHandler;
import io.debezium.pipeline.EventDispatcher;
import io.debezium.pipeline.metrics.spi.ChangeEventSourceMetricsFactory;
import io.debezium.pipeline.notification.NotificationService;
import io.debezium.pipeline.signal.SignalProcessor;
import io.debezium.pipeline.source.spi.ChangeEventSourceFactory;
import io.debezium.pipeline.spi.OffsetContext;
import io.debezium.pipeline.spi.Offsets;
import io.debezium.pipeline.spi.Partition;
import io.debezium.relational.CustomConverterRegistry;
import io.debezium.relational.TableId;
import io.debezium.relational.ValueConverterProvider;
import io.debezium.schema.SchemaFactory;
import io.debezium.service.Service;
import io.debezium.snapshot.SnapshotterService;
import io.debezium.spi.topic.TopicNamingStrategy;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;

/**
 * Debezium's parts around a reader of our own, which says what Debezium's passes over (ADR 20). Its own tasks name their readers
 * in the middle of their start, so the parts are put together here. Where a transaction is open at a stop, it is reported again
 * from its BEGIN (ADR 16).
 */
abstract class BinlogTask<P extends BinlogPartition, O extends BinlogOffsetContext<?>> extends BinlogSourceTask<P, O> {

    private final Places places;
    private PlacesBetweenTransactions between;
    private WholeTransactions transactions;

    private BinlogConnectorConfig config;
    private BinlogTaskContext<?> context;
    private volatile BinlogConnectorConnection connection;
    private volatile BinlogConnectorConnection connectionOfParts;
    private volatile BinlogDatabaseSchema<P, O, ?, ?> schema;
    private volatile ChangeEventQueue<DataChangeEvent> queue;
    private volatile ErrorHandler errorHandler;

    BinlogTask(Places places) {
        this.places = places;
    }

    /** What reads the log, and what counts that. */
    record Reading<P extends BinlogPartition, O extends BinlogOffsetContext<?>>(
            ChangeEventSourceFactory<P, O> sources, ChangeEventSourceMetricsFactory<P> metrics) {}

    /** What is made once for all that a task opens. */
    record Parts<P extends BinlogPartition>(
            MainConnectionProvidingConnectionFactory<BinlogConnectorConnection> connections,
            EventDispatcher<P, TableId> dispatcher,
            ChangeEventQueue<DataChangeEvent> queue,
            ErrorHandler errorHandler,
            BinaryLogClient client,
            BinlogEventMetadataProvider metadata,
            SnapshotterService snapshots) {}

    abstract Class<? extends SourceConnector> connector();

    /** A question to which a server answers otherwise once it is another one. */
    abstract String server();

    /** A question that brings a row where a commit may wait for a standby behind its place in the log. */
    abstract String waitsForStandbys();

    /** Fails where the server's log does not hold the place. */
    abstract void requirePlaceIn(JdbcConnection source, Map<String, ?> stored) throws SQLException;

    /** The first part that is asked for; the others are made by it. */
    abstract BinlogConnectorConfig configOf(Configuration settings);

    abstract BinlogTaskContext<?> contextOf(Configuration settings);

    abstract BinlogConnectorConnection open(Configuration settings);

    abstract Partition.Provider<P> partitions(Configuration settings);

    abstract OffsetContext.Loader<O> offsets();

    abstract ValueConverterProvider values();

    abstract BinlogDatabaseSchema<P, O, ?, ?> tables(
            TopicNamingStrategy<TableId> topics, boolean isCaseInsensitive, CustomConverterRegistry converters);

    abstract ErrorHandler errors(ChangeEventQueue<DataChangeEvent> queue, ErrorHandler before);

    abstract Reading<P, O> reading(Parts<P> parts);

    @Override
    public void initialize(SourceTaskContext given) {
        between = new PlacesBetweenTransactions(given, places);
        super.initialize(between);
    }

    @Override
    public CdcSourceTaskContext<? extends CommonConnectorConfig> preStart(Configuration stored) {
        Configuration settings = withoutOld(stored);
        config = configOf(settings);
        context = contextOf(settings);
        return context;
    }

    /** The settings of an older capture name a converter that these classes no longer have. */
    private static Configuration withoutOld(Configuration settings) {
        return settings.edit().without("converters").build();
    }

    @Override
    protected ChangeEventSourceCoordinator<P, O> start(Configuration given) {
        Configuration settings = withoutOld(given);
        Map<String, Object> stored = between.stored(Map.of("server", config.getLogicalName()));
        Markers markers = new Markers(settings, stored);
        transactions = new WholeTransactions(places, stored, markers, refuseAnotherHistory(settings, stored, markers));

        MainConnectionProvidingConnectionFactory<BinlogConnectorConnection> connections =
                new DefaultMainConnectionProvidingConnectionFactory<>(() -> open(settings));
        connection = connections.mainConnection();
        Offsets<P, O> offsets = getPreviousOffsets(partitions(settings), offsets());
        registerServiceProviders(config.getServiceRegistry());
        @SuppressWarnings("unchecked") // Made by name, for tables as in all of Debezium's relational connectors.
        TopicNamingStrategy<TableId> topics = config.getTopicNamingStrategy(BinlogConnectorConfig.TOPIC_NAMING_STRATEGY);
        ValueConverterProvider values = values();
        schema = tables(topics, connection.isTableIdCaseSensitive(), service(CustomConverterRegistry.class));
        connectionOfParts = connections.newConnection();
        addBeans(settings, values, offsets);
        validate(offsets);

        queue = queue();
        errorHandler = errors(queue, errorHandler);
        ChangeEventSourceCoordinator<P, O> coordinator = coordinator(settings, connections, topics, offsets);
        coordinator.start(context, queue, new BinlogEventMetadataProvider());
        return coordinator;
    }

    @Override
    protected List<SourceRecord> doPoll() throws InterruptedException {
        return transactions.next(queue.poll().stream().map(DataChangeEvent::getRecord).toList());
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
    private Server refuseAnotherHistory(Configuration settings, Map<String, ?> stored, Markers markers) {
        try (BinlogConnectorConnection source = open(settings)) {
            Server server = Server.requireSame(source, server(), stored);
            requirePlaceIn(source, stored);
            markers.requireNewestIn(source, waitsForStandbys());
            return server;
        } catch (SQLException failure) {
            throw Unanswered.because(failure);
        }
    }

    private <T extends Service> T service(Class<T> kind) {
        return config.getServiceRegistry().tryGetService(kind);
    }

    /** What Debezium's services look up by name. */
    private void addBeans(Configuration settings, ValueConverterProvider values, Offsets<P, O> offsets) {
        BeanRegistry beans = config.getBeanRegistry();
        beans.add(StandardBeanNames.CONFIGURATION, settings);
        beans.add(StandardBeanNames.CONNECTOR_CONFIG, config);
        beans.add(StandardBeanNames.DATABASE_SCHEMA, schema);
        beans.add(StandardBeanNames.JDBC_CONNECTION, connectionOfParts);
        beans.add(StandardBeanNames.VALUE_CONVERTER, values);
        beans.add(StandardBeanNames.OFFSETS, offsets);
        beans.add(StandardBeanNames.CDC_SOURCE_TASK_CONTEXT, context);
    }

    private void validate(Offsets<P, O> offsets) {
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

    /** Debezium's own queue in memory, which the builder makes. */
    private ChangeEventQueue<DataChangeEvent> queue() {
        return new ChangeEventQueue.Builder<DataChangeEvent>()
                .pollInterval(config.getPollInterval())
                .maxBatchSize(config.getMaxBatchSize())
                .maxQueueSize(config.getMaxQueueSize())
                .maxQueueSizeInBytes(config.getMaxQueueSizeInBytes())
                .loggingContextSupplier(() -> context.configureLoggingContext(connectorName() + "-connector-task"))
                .buffering()
                .build();
    }

    private ChangeEventSourceCoordinator<P, O> coordinator(
            Configuration settings,
            MainConnectionProvidingConnectionFactory<BinlogConnectorConnection> connections,
            TopicNamingStrategy<TableId> topics,
            Offsets<P, O> offsets) {
        BinlogEventMetadataProvider metadata = new BinlogEventMetadataProvider();
        SignalProcessor<P, O> signals = new SignalProcessor<>(
                connector(), config, Map.of(), getAvailableSignalChannels(), DocumentReader.defaultReader(), offsets);
        EventDispatcher<P, TableId> dispatcher = new EventDispatcher<>(
                config, topics, schema, queue, config.getTableFilters().dataCollectionFilter(), DataChangeEvent::new, null,
                metadata,
                new HeartbeatFactory<>().getScheduledHeartbeat(
                        config, () -> open(settings), new BinlogHeartbeatErrorHandler(), queue),
                config.schemaNameAdjuster(), signals, service(DebeziumHeaderProducer.class));
        BinaryLogClient client =
                new BinaryLogClient(config.getHostName(), config.getPort(), config.getUserName(), config.getPassword());
        SnapshotterService snapshots = service(SnapshotterService.class);
        Reading<P, O> reading =
                reading(new Parts<>(connections, dispatcher, queue, errorHandler, client, metadata, snapshots));
        return new ChangeEventSourceCoordinator<>(
                offsets, errorHandler, connector(), config, reading.sources(), reading.metrics(), dispatcher, schema, signals,
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
