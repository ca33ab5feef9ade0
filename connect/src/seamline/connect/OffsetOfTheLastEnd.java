package seamline.connect;

import java.util.Map;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/** The one offset that Connect stores with the records of a log: behind the last whole transaction. */
final class OffsetOfTheLastEnd {

    private static final String BRACKET = "io.debezium.connector.common.TransactionMetadataValue";

    private Map<String, ?> offset;

    /** @param stored what Connect holds from before; null where nothing was ever stored */
    OffsetOfTheLastEnd(Map<String, ?> stored) {
        offset = stored;
    }

    /** The record, in log order, with the offset that is stored together with it. */
    SourceRecord in(SourceRecord record) {
        if (isEnd(record)) {
            offset = Place.before(record.sourceOffset());
        }
        return new SourceRecord(
                record.sourcePartition(), offset, record.topic(), record.kafkaPartition(),
                record.keySchema(), record.key(), record.valueSchema(), record.value(),
                record.timestamp(), record.headers());
    }

    private static boolean isEnd(SourceRecord record) {
        return record.valueSchema() != null
                && BRACKET.equals(record.valueSchema().name())
                && "END".equals(((Struct) record.value()).getString("status"));
    }
}
