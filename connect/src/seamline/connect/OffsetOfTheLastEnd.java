package seamline.connect;

import java.util.Map;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/** The one offset that Connect stores with the records of a log: behind the last whole transaction. */
final class OffsetOfTheLastEnd {

    private static final String BRACKET = "io.debezium.connector.common.TransactionMetadataValue";
    private static final String LSN = "lsn";
    private static final String COMMIT_LSN = "lsn_commit";

    private Map<String, ?> offset;

    /** @param stored what Connect holds from before; null where nothing was ever stored */
    OffsetOfTheLastEnd(Map<String, ?> stored) {
        offset = stored;
    }

    /** Null where nothing was ever stored. */
    Long lsn() {
        return offset == null ? null : ((Number) offset.get(LSN)).longValue();
    }

    /** The record, in log order, with the offset that is stored together with it. */
    SourceRecord in(SourceRecord record) {
        if (isEnd(record)) {
            offset = behind(record.sourceOffset());
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

    /**
     * What the connector needs to ask the server for everything that commits later. Without `lsn_proc` it takes all that
     * the server sends and searches for no place inside a transaction; without the transaction it counts from its BEGIN.
     */
    private static Map<String, ?> behind(Map<String, ?> end) {
        return Map.of(LSN, end.get(LSN), COMMIT_LSN, end.get(COMMIT_LSN));
    }
}
