package seamline.connect;

import com.github.shyiko.mysql.binlog.BinaryLogClient;
import io.debezium.connector.base.ChangeEventQueue;
import io.debezium.connector.binlog.jdbc.BinlogConnectorConnection;
import io.debezium.connector.mysql.MySqlChangeEventSourceFactory;
import io.debezium.connector.mysql.MySqlConnectorConfig;
import io.debezium.connector.mysql.MySqlDatabaseSchema;
import io.debezium.connector.mysql.MySqlOffsetContext;
import io.debezium.connector.mysql.MySqlPartition;
import io.debezium.connector.mysql.MySqlTaskContext;
import io.debezium.connector.mysql.MySqlStreamingChangeEventSourceMetrics;
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
final class MySqlSources extends MySqlChangeEventSourceFactory {

    private final ChangeEventQueue<DataChangeEvent> queue;
    private final Supplier<BinlogReader> reader;

    MySqlSources(
            MySqlConnectorConfig config,
            MainConnectionProvidingConnectionFactory<BinlogConnectorConnection> connections,
            ErrorHandler errorHandler,
            EventDispatcher<MySqlPartition, TableId> dispatcher,
            MySqlDatabaseSchema schema,
            MySqlTaskContext context,
            MySqlStreamingChangeEventSourceMetrics metrics,
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
    public StreamingChangeEventSource<MySqlPartition, MySqlOffsetContext> getStreamingChangeEventSource() {
        // A snapshot holds back its last record; a reader does not.
        queue.disableBuffering();
        return reader.get();
    }
}
