package seamline.connect;

import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventMetadata;
import com.github.shyiko.mysql.binlog.event.TableMapEventMetadata.DefaultCharset;
import com.github.shyiko.mysql.binlog.event.deserialization.ColumnType;
import com.github.shyiko.mysql.binlog.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.kafka.connect.errors.DataException;

/** The labels of ENUM and SET in the bytes in which the server names a table: Debezium's client takes them for UTF-8. */
final class LabelsAsNamed {

    /** What is named behind a table's columns, each by its number (log_event.h, Optional_metadata_field_type). */
    private static final int OF_SETS = 5;
    private static final int OF_ENUMS = 6;

    private static final int TABLE_AND_FLAGS = 8;

    private LabelsAsNamed() {}

    /** Of each column: its labels in their order; null of one that is no ENUM and no SET, or where they are not named. */
    static List<List<byte[]>> in(byte[] event, TableMapEventData table) throws IOException {
        Deque<List<byte[]>> enums = new ArrayDeque<>();
        Deque<List<byte[]>> sets = new ArrayDeque<>();
        ByteArrayInputStream named = behindColumns(event);
        while (named.available() > 0) {
            int kind = named.readInteger(1);
            ByteArrayInputStream field = new ByteArrayInputStream(named.read(named.readPackedInteger()));
            while ((kind == OF_SETS || kind == OF_ENUMS) && field.available() > 0) {
                (kind == OF_SETS ? sets : enums).add(next(field));
            }
        }
        List<List<byte[]>> found = new ArrayList<>();
        for (int column = 0; column < table.getColumnTypes().length; column++) {
            ColumnType type = ColumnType.byCode(table.getColumnTypes()[column] & 0xFF);
            found.add(switch (ColumnAsNamed.label(type, table.getColumnMetadata()[column])) {
                case ENUM -> enums.poll();
                case SET -> sets.poll();
                default -> null;
            });
        }
        return found;
    }

    /** Where the number of the table's columns stands. */
    static ByteArrayInputStream columns(byte[] event) throws IOException {
        ByteArrayInputStream all = new ByteArrayInputStream(event);
        all.skip(TABLE_AND_FLAGS);
        skipName(all);
        skipName(all);
        return all;
    }

    private static ByteArrayInputStream behindColumns(byte[] event) throws IOException {
        ByteArrayInputStream all = columns(event);
        int columns = all.readPackedInteger();
        all.skip(columns);
        all.skip(all.readPackedInteger());
        all.skip((columns + Byte.SIZE - 1) / Byte.SIZE);
        return all;
    }

    /** Its length, its letters, a zero. */
    private static void skipName(ByteArrayInputStream from) throws IOException {
        from.skip(from.readInteger(1) + 1);
    }

    private static List<byte[]> next(ByteArrayInputStream field) throws IOException {
        List<byte[]> labels = new ArrayList<>();
        for (int left = field.readPackedInteger(); left > 0; left--) {
            labels.add(field.read(field.readPackedInteger()));
        }
        return labels;
    }

    /**
     * @param label counts from 0, over the columns that are an ENUM or a SET
     * @return -1 where the server does not name it
     */
    static int collation(TableMapEventData table, int label) {
        TableMapEventMetadata named = table.getEventMetadata();
        Integer collation =
                nth(label, named.getEnumAndSetDefaultCharset(), named.getEnumAndSetColumnCharsets());
        return collation == null ? -1 : collation;
    }

    /** A server names the collations of a table in the shorter of two ways. */
    static Integer nth(int column, DefaultCharset most, List<Integer> each) {
        if (most != null) {
            int usual = most.getDefaultCharsetCollation();
            return most.getCharsetCollations() == null ? usual : most.getCharsetCollations().getOrDefault(column, usual);
        }
        return each == null || each.size() <= column ? null : each.get(column);
    }

    /** The text of an ENUM; 0 is what a session that was not strict has written in place of a label. */
    static String one(List<String> labels, int number) {
        return number == 0 ? "" : labels.get(known(labels, number - 1));
    }

    /** The text of a SET, a bit for each label. */
    static String all(List<String> labels, long bits) {
        StringBuilder text = new StringBuilder();
        for (long left = bits; left != 0; left &= left - 1) {
            text.append(text.isEmpty() && left == bits ? "" : ",");
            text.append(labels.get(known(labels, Long.numberOfTrailingZeros(left))));
        }
        return text.toString();
    }

    private static int known(List<String> labels, int place) {
        if (place >= labels.size()) {
            throw new DataException("A row holds label " + (place + 1) + " of a column that has " + labels.size());
        }
        return place;
    }
}
