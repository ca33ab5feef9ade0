package seamline.connect;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.errors.ConnectException;

/** The committed records of some topics of one cluster, each from its place on. */
final class TopicReader implements AutoCloseable {

    private final Map<String, Object> settings;
    private final KafkaConsumer<byte[], byte[]> consumer;

    /** @param client what reaches the cluster: servers and security */
    TopicReader(Map<String, Object> client, int recordsMax) {
        settings = new HashMap<>(client);
        Map<String, Object> reading = new HashMap<>(client);
        reading.put("enable.auto.commit", false);
        // Else it would pass over records that were deleted.
        reading.put("auto.offset.reset", "none");
        reading.put("isolation.level", "read_committed");
        reading.put("allow.auto.create.topics", false);
        reading.put("max.poll.records", recordsMax);
        consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /**
     * Begins at the places that are known; a topic without one begins at its end, and its place is added.
     *
     * @throws ConnectException a topic is not the one that was read before
     */
    void begin(Collection<String> topics, Map<String, TopicPlace> places) {
        Map<String, TopicDescription> found = described(topics);
        List<TopicPartition> all = new ArrayList<>();
        for (String topic : topics) {
            all.addAll(partitions(topic, found.get(topic).partitions().size()));
        }
        Map<TopicPartition, Long> firsts = consumer.beginningOffsets(all);
        Map<TopicPartition, Long> ends = consumer.endOffsets(all);
        consumer.assign(all);
        for (String topic : topics) {
            TopicDescription now = found.get(topic);
            TopicPlace place = places.get(topic);
            if (place == null) {
                place = new TopicPlace(
                        now.topicId().toString(),
                        partitions(topic, now.partitions().size()).stream().mapToLong(ends::get).toArray());
                places.put(topic, place);
            } else {
                requireSame(topic, place, now);
            }
            for (TopicPartition partition : partitions(topic, place.ends().length)) {
                long from = place.ends()[partition.partition()];
                requireHeld(partition, from, firsts.get(partition), ends.get(partition));
                consumer.seek(partition, from);
            }
        }
    }

    Iterable<ConsumerRecord<byte[], byte[]>> read(Duration wait) {
        try {
            return consumer.poll(wait);
        } catch (OffsetOutOfRangeException lost) {
            throw new ConnectException(
                    "records that were not read yet are no longer in their topic: " + lost.offsetOutOfRangePartitions(),
                    lost);
        } catch (RetriableException later) {
            return List.of();
        } catch (KafkaException refused) {
            throw new ConnectException("topics cannot be read: " + refused.getMessage(), refused);
        }
    }

    @Override
    public void close() {
        consumer.close(Duration.ofSeconds(5));
    }

    private static List<TopicPartition> partitions(String topic, int count) {
        List<TopicPartition> found = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            found.add(new TopicPartition(topic, number));
        }
        return found;
    }

    private static void requireSame(String topic, TopicPlace place, TopicDescription now) {
        if (!place.id().equals(now.topicId().toString())) {
            throw new ConnectException("topic " + topic + " was made again: its id is " + now.topicId() + ", was "
                    + place.id());
        }
        if (place.ends().length != now.partitions().size()) {
            throw new ConnectException("the partitions of topic " + topic + " were changed: they are "
                    + now.partitions().size() + ", were " + place.ends().length + ", and keys may have moved");
        }
    }

    private static void requireHeld(TopicPartition partition, long from, long first, long end) {
        if (from < first || from > end) {
            throw new ConnectException("offset " + from + " is no longer in its topic: " + partition + " holds " + first
                    + " to " + end);
        }
    }

    private Map<String, TopicDescription> described(Collection<String> topics) {
        try (Admin admin = Admin.create(settings)) {
            return admin.describeTopics(topics).allTopicNames().get();
        } catch (ExecutionException refused) {
            throw new ConnectException("topics cannot be described: " + refused.getCause().getMessage(),
                    refused.getCause());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new ConnectException("interrupted while topics were described", interrupted);
        }
    }
}
