package seamline.connect;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * A server numbers the transactions of a domain without a gap, so a number that is passed over is a transaction that this
 * binlog does not hold: it was written on a replica that filters, or by hand.
 */
final class NoGtidMissing {

    private final Map<Long, Long> newest = new HashMap<>();

    /** @param position behind which the server was asked to go on, a GTID for each domain; "" for its beginning */
    NoGtidMissing(String position) {
        for (String gtid : position.isBlank() ? new String[0] : position.split(",")) {
            String[] parts = gtid.trim().split("-");
            newest.merge(Long.valueOf(parts[0]), Long.valueOf(parts[2]), Math::max);
        }
    }

    /** To be asked for each transaction as the binlog has them. A domain that begins may begin with any number. */
    void next(long domain, long server, long sequence) {
        Long before = newest.put(domain, sequence);
        if (before != null && sequence != before + 1) {
            throw new ConnectException(
                    "GTID " + domain + "-" + server + "-" + sequence + " follows number " + before + " of its domain: the next"
                            + " one is not in this server's binlog");
        }
    }
}
