package seamline.connect;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.source.TransactionContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** The stored offsets that a task is given: an open transaction is reported again, also where Debezium's own class left it. */
final class PlacesBetweenTransactions implements SourceTaskContext, OffsetStorageReader {

    private final SourceTaskContext given;
    private final Places places;
    private final Map<Map<String, ?>, Map<String, Object>> remembered = new HashMap<>();

    PlacesBetweenTransactions(SourceTaskContext given, Places places) {
        this.given = given;
        this.places = places;
    }

    /**
     * From now on the record's offset is the answer, and Connect is no longer asked: it would read its topic of offsets
     * to the end, which takes half a second now and then.
     *
     * @param committed with exactly-once Connect has stored its offset by the time it tells so, and tells in order
     */
    @SuppressWarnings("unchecked") // Connect's record gives back the map that it was made of with a wildcard.
    void remember(SourceRecord committed) {
        remembered.put(committed.sourcePartition(), (Map<String, Object>) committed.sourceOffset());
    }

    @Override
    public OffsetStorageReader offsetStorageReader() {
        return this;
    }

    @Override
    public <T> Map<String, Object> offset(Map<String, T> partition) {
        return places.upTo(stored(partition));
    }

    /** As it stands in the store, with what is only ours. */
    <T> Map<String, Object> stored(Map<String, T> partition) {
        Map<String, Object> known = remembered.get(partition);
        return known == null ? given.offsetStorageReader().offset(partition) : known;
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
