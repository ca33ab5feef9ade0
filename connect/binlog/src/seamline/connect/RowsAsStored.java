package seamline.connect;

import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.io.ByteArrayInputStream;
import io.debezium.DebeziumException;
import io.debezium.config.CommonConnectorConfig.EventProcessingFailureHandlingMode;
import io.debezium.connector.binlog.event.RowDeserializers;
import java.io.IOException;
import java.io.Serializable;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.BitSet;
import java.util.Map;

/**
 * Rows with the texts that {@link TextsAsNamed} reads, and with dates that do not exist (0000-00-00, 2026-02-31) kept apart
 * from NULL: they come as one that no column can hold.
 *
 * Debezium's classes give null for the zeros, and end the task at the others, which ALLOW_INVALID_DATES lets in.
 */
final class RowsAsStored {

    /** 10,000 BC: before the first date of MariaDB (0001) and of PostgreSQL (4713 BC). */
    static final LocalDate NO_DATE = LocalDate.of(-9999, 1, 1);

    private static final LocalDateTime NO_DATETIME = NO_DATE.atStartOfDay();
    private static final ZonedDateTime NO_TIMESTAMP = NO_DATETIME.atZone(ZoneOffset.UTC);

    /** The first TIMESTAMP is a second later. */
    private static final ZonedDateTime ZERO_TIMESTAMP = LocalDate.EPOCH.atStartOfDay(ZoneOffset.UTC);

    private RowsAsStored() {}

    private interface Read {

        /** @return null for zeros; fails for any other date that does not exist, once it has read all of it */
        Serializable get() throws IOException;
    }

    private static Serializable real(Read read, Serializable orElse) throws IOException {
        try {
            Serializable value = read.get();
            return value == null ? orElse : value;
        } catch (DebeziumException none) {
            return orElse;
        }
    }

    /** All rows of the event. */
    private static Serializable[] passOver(ByteArrayInputStream rows) throws IOException {
        rows.skip(rows.available());
        return new Serializable[0];
    }

    private static Serializable timestamp(Serializable read) {
        return ZERO_TIMESTAMP.equals(read) ? NO_TIMESTAMP : read;
    }

    static final class Inserted extends RowDeserializers.WriteRowsDeserializer {

        private final TextsAsNamed texts;

        Inserted(Map<Long, TableMapEventData> tables, TextsAsNamed texts) {
            super(tables, EventProcessingFailureHandlingMode.FAIL);
            this.texts = texts;
        }

        @Override
        protected Serializable[] deserializeRow(long table, BitSet included, ByteArrayInputStream row) throws IOException {
            return texts.isRead(table)
                    ? texts.read(table, included, super.deserializeRow(table, included, row))
                    : passOver(row);
        }

        @Override
        protected Serializable deserializeDate(ByteArrayInputStream row) throws IOException {
            return real(() -> super.deserializeDate(row), NO_DATE);
        }

        @Override
        protected Serializable deserializeDatetime(ByteArrayInputStream row) throws IOException {
            return real(() -> super.deserializeDatetime(row), NO_DATETIME);
        }

        @Override
        protected Serializable deserializeDatetimeV2(int meta, ByteArrayInputStream row) throws IOException {
            return real(() -> super.deserializeDatetimeV2(meta, row), NO_DATETIME);
        }

        @Override
        protected Serializable deserializeTimestamp(ByteArrayInputStream row) throws IOException {
            return timestamp(super.deserializeTimestamp(row));
        }

        @Override
        protected Serializable deserializeTimestampV2(int meta, ByteArrayInputStream row) throws IOException {
            return timestamp(super.deserializeTimestampV2(meta, row));
        }
    }

    static final class Updated extends RowDeserializers.UpdateRowsDeserializer {

        private final TextsAsNamed texts;

        Updated(Map<Long, TableMapEventData> tables, TextsAsNamed texts) {
            super(tables, EventProcessingFailureHandlingMode.FAIL);
            this.texts = texts;
        }

        @Override
        protected Serializable[] deserializeRow(long table, BitSet included, ByteArrayInputStream row) throws IOException {
            return texts.isRead(table)
                    ? texts.read(table, included, super.deserializeRow(table, included, row))
                    : passOver(row);
        }

        @Override
        protected Serializable deserializeDate(ByteArrayInputStream row) throws IOException {
            return real(() -> super.deserializeDate(row), NO_DATE);
        }

        @Override
        protected Serializable deserializeDatetime(ByteArrayInputStream row) throws IOException {
            return real(() -> super.deserializeDatetime(row), NO_DATETIME);
        }

        @Override
        protected Serializable deserializeDatetimeV2(int meta, ByteArrayInputStream row) throws IOException {
            return real(() -> super.deserializeDatetimeV2(meta, row), NO_DATETIME);
        }

        @Override
        protected Serializable deserializeTimestamp(ByteArrayInputStream row) throws IOException {
            return timestamp(super.deserializeTimestamp(row));
        }

        @Override
        protected Serializable deserializeTimestampV2(int meta, ByteArrayInputStream row) throws IOException {
            return timestamp(super.deserializeTimestampV2(meta, row));
        }
    }

    static final class Deleted extends RowDeserializers.DeleteRowsDeserializer {

        private final TextsAsNamed texts;

        Deleted(Map<Long, TableMapEventData> tables, TextsAsNamed texts) {
            super(tables, EventProcessingFailureHandlingMode.FAIL);
            this.texts = texts;
        }

        @Override
        protected Serializable[] deserializeRow(long table, BitSet included, ByteArrayInputStream row) throws IOException {
            return texts.isRead(table)
                    ? texts.read(table, included, super.deserializeRow(table, included, row))
                    : passOver(row);
        }

        @Override
        protected Serializable deserializeDate(ByteArrayInputStream row) throws IOException {
            return real(() -> super.deserializeDate(row), NO_DATE);
        }

        @Override
        protected Serializable deserializeDatetime(ByteArrayInputStream row) throws IOException {
            return real(() -> super.deserializeDatetime(row), NO_DATETIME);
        }

        @Override
        protected Serializable deserializeDatetimeV2(int meta, ByteArrayInputStream row) throws IOException {
            return real(() -> super.deserializeDatetimeV2(meta, row), NO_DATETIME);
        }

        @Override
        protected Serializable deserializeTimestamp(ByteArrayInputStream row) throws IOException {
            return timestamp(super.deserializeTimestamp(row));
        }

        @Override
        protected Serializable deserializeTimestampV2(int meta, ByteArrayInputStream row) throws IOException {
            return timestamp(super.deserializeTimestampV2(meta, row));
        }
    }
}
