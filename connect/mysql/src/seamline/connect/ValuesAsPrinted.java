package seamline.connect;

import io.debezium.config.CommonConnectorConfig.BinaryHandlingMode;
import io.debezium.config.CommonConnectorConfig.EventConvertingFailureHandlingMode;
import io.debezium.connector.mysql.jdbc.MySqlValueConverters;
import io.debezium.jdbc.TemporalPrecisionMode;
import io.debezium.relational.Column;
import io.debezium.service.spi.ServiceRegistry;
import java.io.IOException;
import java.time.temporal.TemporalAdjuster;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.errors.DataException;

/** Debezium's values, but for documents, which are reported as the server prints them. */
final class ValuesAsPrinted extends MySqlValueConverters {

    ValuesAsPrinted(
            DecimalMode decimals,
            TemporalPrecisionMode times,
            BigIntUnsignedMode unsigned,
            BinaryHandlingMode bytes,
            TemporalAdjuster adjuster,
            EventConvertingFailureHandlingMode failures,
            ServiceRegistry services) {
        super(decimals, times, unsigned, bytes, adjuster, failures, services);
    }

    @Override
    protected Object convertJson(Column column, Field field, Object stored) {
        if (!(stored instanceof byte[] document)) {
            return super.convertJson(column, field, stored);
        }
        try {
            return DocumentsAsPrinted.of(document);
        } catch (IOException | RuntimeException broken) {
            throw new DataException("A document in column " + column.name() + " could not be converted", broken);
        }
    }
}
