package seamline.connect;

import com.github.luben.zstd.Zstd;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.TransactionPayloadEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDataDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import org.apache.kafka.connect.errors.DataException;

/**
 * Transactions that are compressed as a whole (`binlog_transaction_compression`), with their events read as all others are.
 *
 * The client's own class reads them by readers of its own, to which nobody can say how rows are read.
 */
final class Payloads implements EventDataDeserializer<TransactionPayloadEventData> {

    private static final int FIELDS_END = 0;
    private static final int PAYLOAD_BYTES = 1;
    private static final int COMPRESSION = 2;
    private static final int UNCOMPRESSED_BYTES = 3;
    private static final int BY_ZSTD = 0;
    private static final int NOT_COMPRESSED = 255;

    private final EventDeserializer inside;

    /** @param inside reads the events, which have no checksums */
    Payloads(EventDeserializer inside) {
        this.inside = inside;
    }

    @Override
    public TransactionPayloadEventData deserialize(ByteArrayInputStream event) throws IOException {
        TransactionPayloadEventData payload = new TransactionPayloadEventData();
        for (int field = event.readPackedInteger(); field != FIELDS_END; field = event.readPackedInteger()) {
            int bytes = event.readPackedInteger();
            switch (field) {
                case PAYLOAD_BYTES -> payload.setPayloadSize(event.readPackedInteger());
                case COMPRESSION -> payload.setCompressionType(event.readPackedInteger());
                case UNCOMPRESSED_BYTES -> payload.setUncompressedSize(event.readPackedInteger());
                default -> event.skip(bytes);
            }
        }
        ByteArrayInputStream events = new ByteArrayInputStream(unpacked(payload, event.read(payload.getPayloadSize())));
        ArrayList<Event> all = new ArrayList<>();
        for (Event one = inside.nextEvent(events); one != null; one = inside.nextEvent(events)) {
            all.add(unwrapped(one));
        }
        payload.setUncompressedEvents(all);
        return payload;
    }

    /** Who hands the events on expects a table's own data. */
    private static Event unwrapped(Event event) {
        return event.getData() instanceof EventDeserializer.EventDataWrapper both
                ? new Event(event.getHeader(), both.getExternal())
                : event;
    }

    private static byte[] unpacked(TransactionPayloadEventData payload, byte[] packed) {
        return switch (payload.getCompressionType()) {
            case BY_ZSTD -> Zstd.decompress(packed, Math.toIntExact(payload.getUncompressedSize()));
            case NOT_COMPRESSED -> packed;
            default -> throw new DataException("A transaction is compressed in a way that the connector does not know: "
                    + payload.getCompressionType());
        };
    }
}
