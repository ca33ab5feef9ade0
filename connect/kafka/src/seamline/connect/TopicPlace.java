package seamline.connect;

import java.util.Arrays;
import java.util.stream.Collectors;

/** Up to where a topic was read: per partition the offset behind the last record. `id` is that of the topic. */
record TopicPlace(String id, long[] ends) {

    /** As a place is stored: `id:12,7`. */
    static TopicPlace parsed(String text) {
        int at = text.lastIndexOf(':');
        String numbers = text.substring(at + 1);
        return new TopicPlace(
                text.substring(0, at), Arrays.stream(numbers.split(",")).mapToLong(Long::parseLong).toArray());
    }

    @Override
    public String toString() {
        return id + ":" + Arrays.stream(ends).mapToObj(Long::toString).collect(Collectors.joining(","));
    }
}
