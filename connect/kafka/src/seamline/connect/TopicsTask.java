package seamline.connect;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** One read of all topics is one transaction of the log. What is at which offset is never looked at. */
public class TopicsTask extends SourceTask {

    private static final Duration WAIT = Duration.ofMillis(50);

    private final Map<String, TopicPlace> places = new TreeMap<>();
    /** As the last transaction has said it; a topic that is new since is not in it. */
    private Map<String, String> said = new TreeMap<>();
    private Map<String, String> partition;
    private TopicReader theirs;
    private TopicReader ours;

    @Override
    public String version() {
        return TopicsConnector.OWN;
    }

    @Override
    public void start(Map<String, String> settings) {
        partition = Map.of("server", settings.get("topic.prefix"));
        Map<String, Object> stored = context.offsetStorageReader().offset(partition);
        if (stored != null) {
            stored.forEach((topic, place) -> said.put(topic, (String) place));
            said.forEach((topic, place) -> places.put(topic, TopicPlace.parsed(place)));
        }
        int recordsMax = Integer.parseInt(settings.get("seamline.records.max"));
        theirs = new TopicReader(clientOf(settings, "seamline.theirs."), recordsMax);
        ours = new TopicReader(clientOf(settings, "seamline.ours."), recordsMax);
        theirs.begin(List.of(settings.get("seamline.topics").split(",")), places);
        ours.begin(List.of(settings.get("seamline.markers")), places);
    }

    @Override
    public List<SourceRecord> poll() {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        theirs.read(WAIT).forEach(found::add);
        ours.read(Duration.ZERO).forEach(found::add);
        return found.isEmpty() ? null : transaction(found);
    }

    @Override
    public void stop() {
        for (TopicReader reader : new TopicReader[] {theirs, ours}) {
            if (reader != null) {
                reader.close();
            }
        }
    }

    private List<SourceRecord> transaction(List<ConsumerRecord<byte[], byte[]>> found) {
        Map<String, Long> counts = new TreeMap<>();
        long newest = 0;
        for (ConsumerRecord<byte[], byte[]> one : found) {
            places.get(one.topic()).ends()[one.partition()] = one.offset() + 1;
            counts.merge(one.topic(), 1L, Long::sum);
            newest = Math.max(newest, one.timestamp());
        }
        Map<String, String> after = place();
        ConsumerRecord<byte[], byte[]> first = found.get(0);
        String id = first.topic() + "/" + first.partition() + "/" + first.offset();
        List<SourceRecord> records = new ArrayList<>(found.size() + 2);
        Map<String, Object> bracket = new LinkedHashMap<>();
        bracket.put("bracket", "BEGIN");
        bracket.put("id", id);
        bracket.put("before", said);
        bracket.put("after", after);
        bracket.put("ts_ms", newest);
        records.add(record(bracket, after));
        for (ConsumerRecord<byte[], byte[]> one : found) {
            records.add(record(message(one), after));
        }
        Map<String, Object> end = new LinkedHashMap<>(bracket);
        end.put("bracket", "END");
        end.put("messages", counts);
        records.add(record(end, after));
        said = after;
        return records;
    }

    private Map<String, String> place() {
        Map<String, String> found = new TreeMap<>();
        places.forEach((topic, held) -> found.put(topic, held.toString()));
        return found;
    }

    private SourceRecord record(Map<String, Object> value, Map<String, String> after) {
        return new SourceRecord(partition, after, "log", null, null, null, null, value);
    }

    private static Map<String, Object> message(ConsumerRecord<byte[], byte[]> one) {
        Map<String, Object> value = new LinkedHashMap<>();
        value.put("topic", one.topic());
        value.put("partition", one.partition());
        value.put("offset", one.offset());
        value.put("ts_ms", one.timestamp());
        put(value, "key", one.key());
        put(value, "value", one.value());
        Map<String, Object> headers = new LinkedHashMap<>();
        for (Header header : one.headers()) {
            put(headers, header.key(), header.value());
        }
        if (!headers.isEmpty()) {
            value.put("headers", headers);
        }
        return value;
    }

    /** What is no text goes under another name: who reads the log says that it is none. */
    private static void put(Map<String, Object> into, String name, byte[] content) {
        if (content == null) {
            into.put(name, null);
            return;
        }
        try {
            into.put(name, StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString());
        } catch (CharacterCodingException binary) {
            into.put(name + "_base64", Base64.getEncoder().encodeToString(content));
        }
    }

    private static Map<String, Object> clientOf(Map<String, String> settings, String prefix) {
        Map<String, Object> found = new HashMap<>();
        settings.forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), value);
            }
        });
        return found;
    }
}
