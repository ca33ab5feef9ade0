package seamline.connect;

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import io.debezium.connector.base.ChangeEventQueue;
import io.debezium.connector.binlog.jdbc.BinlogConnectorConnection;
import io.debezium.connector.mariadb.MariaDbChangeEventSourceFactory;
import io.debezium.connector.mariadb.MariaDbConnectorConfig;
import io.debezium.connector.mariadb.MariaDbDatabaseSchema;
import io.debezium.connector.mariadb.MariaDbOffsetContext;
import io.debezium.connector.mariadb.MariaDbPartition;
import io.debezium.connector.mariadb.MariaDbTaskContext;
import io.debezium.connector.mariadb.metrics.MariaDbStreamingChangeEventSourceMetrics;
import io.debezium.jdbc.MainConnectionProvidingConnectionFactory;
import io.debezium.pipeline.DataChangeEvent;
import io.debezium.pipeline.ErrorHandler;
import io.debezium.pipeline.EventDispatcher;
import io.debezium.pipeline.source.spi.StreamingChangeEventSource;
import io.debezium.relational.TableId;
import io.debezium.snapshot.SnapshotterService;
import io.debezium.util.Clock;
import java.util.function.Supplier;

/** Debezium's sources of changes, with our reader of the binlog. */
final class MariaDbSources extends MariaDbChangeEventSourceFactory {

    private final ChangeEventQueue<DataChangeEvent> queue;
    private final Supplier<BinlogReader> reader;

    MariaDbSources(
            MariaDbConnectorConfig config,
            MainConnectionProvidingConnectionFactory<BinlogConnectorConnection> connections,
            ErrorHandler errorHandler,
            EventDispatcher<MariaDbPartition, TableId> dispatcher,
            MariaDbDatabaseSchema schema,
            MariaDbTaskContext context,
            MariaDbStreamingChangeEventSourceMetrics metrics,
            ChangeEventQueue<DataChangeEvent> queue,
            SnapshotterService snapshots,
            BinaryLogClient client) {
        super(
                config, connections, errorHandler, dispatcher, Clock.SYSTEM, schema, context, metrics, queue, snapshots,
                client);
        this.queue = queue;
        reader = () -> new BinlogReader(
                config, connections.mainConnection(), dispatcher, errorHandler, context, schema, metrics, snapshots, client);
    }

    @Override
    public StreamingChangeEventSource<MariaDbPartition, MariaDbOffsetContext> getStreamingChangeEventSource() {
        // A snapshot holds back its last record; a reader does not.
        queue.disableBuffering();
        return reader.get();
    }
}
