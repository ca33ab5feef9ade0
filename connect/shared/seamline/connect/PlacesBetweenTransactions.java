package seamline.connect;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.source.TransactionContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** What a task is told of stored offsets: an open transaction is told anew, also where Debezium's own class left it. */
record PlacesBetweenTransactions(SourceTaskContext given, Places places)
        implements SourceTaskContext, OffsetStorageReader {

    @Override
    public OffsetStorageReader offsetStorageReader() {
        return this;
    }

    @Override
    public <T> Map<String, Object> offset(Map<String, T> partition) {
        return places.upTo(given.offsetStorageReader().offset(partition));
    }

    @Override
    public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
        Map<Map<String, T>, Map<String, Object>> found = new HashMap<>();
        partitions.forEach(one -> found.put(one, offset(one)));
        return found;
    }

    @Override
    public Map<String, String> configs() {
        return given.configs();
    }

    @Override
    public TransactionContext transactionContext() {
        return given.transactionContext();
    }

    @Override
    public PluginMetrics pluginMetrics() {
        return given.pluginMetrics();
    }
}
