package seamline.connect;

import io.debezium.connector.postgresql.PostgresValueConverter;
import io.debezium.spi.converter.CustomConverter;
import io.debezium.spi.converter.RelationalColumn;
import io.debezium.time.MicroTimestamp;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Properties;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.postgresql.core.Oid;

/**
 * Timestamps without zone up to PostgreSQL's last one (294276-12-31), and intervals as {@link IntervalsAsWritten} gives them.
 *
 * Debezium tells timestamps after 294247-01-10, whose microseconds are too many for a long, as infinity.
 */
public class ExactTimes implements CustomConverter<SchemaBuilder, RelationalColumn> {

    /** Long.MAX_VALUE stands for infinity. */
    private static final long LAST_MICROSECOND = Long.MAX_VALUE - 1;

    /** What is later is reported from here on: far below PostgreSQL's first timestamp, far above -infinity. */
    private static final long BEHIND_LAST = -5_000_000_000_000_000_000L;

    private static final Instant LAST = Instant.EPOCH.plus(LAST_MICROSECOND, ChronoUnit.MICROS);
    private static final int DIGITS_IN_MILLISECONDS = 3;
    private static final String NO_TIME = "PT0S";

    @Override
    public void configure(Properties settings) {}

    /** The old image of a row holds no more than its key; a column that takes no NULL has to hold something there. */
    @Override
    public void converterFor(RelationalColumn column, ConverterRegistration<SchemaBuilder> registration) {
        if (column.nativeType() == Oid.INTERVAL) {
            String none = column.isOptional() ? null : NO_TIME;
            registration.register(SchemaBuilder.string(), value -> value == null ? none : value.toString());
        }
        if (column.nativeType() == Oid.TIMESTAMP && column.scale().orElse(0) > DIGITS_IN_MILLISECONDS) {
            Long none = column.isOptional() ? null : 0L;
            registration.register(MicroTimestamp.builder(), value -> value == null ? none : microseconds(value));
        }
    }

    /** @param value of a row; or a column's default, which may have been converted already */
    private static Long microseconds(Object value) {
        if (value instanceof Long converted) {
            return converted;
        }
        if (value instanceof Instant moment
                && moment.isAfter(LAST)
                && moment.isBefore(PostgresValueConverter.POSITIVE_INFINITY_INSTANT)) {
            return BEHIND_LAST + ChronoUnit.MICROS.between(LAST, moment);
        }
        return MicroTimestamp.toEpochMicros(value, null);
    }
}
