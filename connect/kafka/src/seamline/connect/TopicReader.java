package seamline.connect;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.errors.ConnectException;

/** The committed records of some topics of one cluster, each from its place on. */
final class TopicReader implements AutoCloseable {

    // Nobody says when a topic is made again or gets more partitions, so it is looked for.
    private static final Duration LOOK_EVERY = Duration.ofSeconds(5);
    private static final int MISSED_MAX = 3;

    private final Admin admin;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<String, TopicPlace> begun = new HashMap<>();
    private long lookedAt;
    private int missed;

    /** @param client what reaches the cluster: servers and security */
    TopicReader(Map<String, Object> client, int recordsMax) {
        admin = Admin.create(client);
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
            begun.put(topic, place);
        }
        lookedAt = System.nanoTime();
    }

    /** @throws ConnectException a topic is not the one that was begun with, or cannot be read */
    Iterable<ConsumerRecord<byte[], byte[]>> read(Duration wait) {
        try {
            lookAgain();
            return consumer.poll(wait);
        } catch (OffsetOutOfRangeException lost) {
            requireAllSame();
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
        admin.close(Duration.ofSeconds(5));
    }

    private void requireAllSame() {
        described(begun.keySet()).forEach((topic, now) -> requireSame(topic, begun.get(topic), now));
    }

    private void lookAgain() {
        if (System.nanoTime() - lookedAt < LOOK_EVERY.toNanos()) {
            return;
        }
        lookedAt = System.nanoTime();
        try {
            requireAllSame();
            missed = 0;
        } catch (ConnectException failed) {
            if (!(failed.getCause() instanceof RetriableException)) {
                throw failed;
            }
            // A broker that has just started does not know all topics yet.
            boolean isUnknown = failed.getCause() instanceof UnknownTopicOrPartitionException;
            missed = isUnknown ? missed + 1 : 0;
            if (missed >= MISSED_MAX) {
                throw new ConnectException("a topic is not there any more, of " + begun.keySet(), failed);
            }
        }
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
        DescribeTopicsOptions soon = new DescribeTopicsOptions().timeoutMs((int) LOOK_EVERY.toMillis());
        try {
            return admin.describeTopics(topics, soon).allTopicNames().get();
        } catch (ExecutionException refused) {
            throw new ConnectException("topics cannot be described: " + refused.getCause().getMessage(),
                    refused.getCause());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new ConnectException("interrupted while topics were described", interrupted);
        }
    }
}
