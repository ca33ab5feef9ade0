package seamline.connect;

import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventMetadata;
import com.github.shyiko.mysql.binlog.event.deserialization.ColumnType;
import io.debezium.connector.binlog.charset.BinlogCharsetRegistry;
import io.debezium.jdbc.JdbcConnection;
import io.debezium.relational.TableId;
import java.io.IOException;
import java.io.Serializable;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;

/**
 * Texts by the collation, and labels by the letters, that the server names before each statement's rows
 * (`binlog_row_metadata`).
 *
 * Debezium derives the character set from statements, and overlooks a table's collation that says it alone; it takes labels as
 * statements say them, and every label that the server names for UTF-8.
 */
final class TextsAsNamed {

    private static final String BYTES = "binary";
    private static final String NO_SUCH_COLUMN = "42S22";

    private final Predicate<TableId> isCaptured;
    private final Supplier<String> place;
    private final Map<Integer, String> sets = new HashMap<>();
    private final Letters letters;
    /** A number is that of one definition of a table, as long as its server runs. */
    private final Map<Long, Known> tables = new LastTables<>();
    private final Map<Long, List<List<String>>> labels = new LastTables<>();

    /** What a stored value of one column says; null for those that say it themselves. */
    private interface Meaning {
        Serializable of(Serializable stored);
    }

    /** @param visible how many of the columns are a table's own, its first ones */
    private record Known(String table, List<Meaning> meanings, int visible) {}

    private static final Known NOT_CAPTURED = new Known("", List.of(), 0);
    /** For a UNIQUE over long texts the server keeps a column behind those that anybody sees (LONG_HASH_FIELD, table.h). */
    private static final Pattern HIDDEN = Pattern.compile("DB_ROW_HASH_\\d+");

    /**
     * @param collations a question for the number of each collation and its character set
     * @param charsets what Debezium knows of letters
     * @param place where in the binlog is read now, in words
     */
    TextsAsNamed(
            JdbcConnection connection,
            String collations,
            BinlogCharsetRegistry charsets,
            Predicate<TableId> isCaptured,
            Supplier<String> place) {
        this.isCaptured = isCaptured;
        this.place = place;
        letters = new Letters(connection, charsets);
        try {
            connection.query(collations, rows -> {
                while (rows.next()) {
                    sets.put(rows.getInt(1), rows.getString(2));
                }
            });
        } catch (SQLException failure) {
            if (NO_SUCH_COLUMN.equals(failure.getSQLState())) {
                throw new ConnectException("The server does not number its collations as the tested one does", failure);
            }
            throw Unanswered.because(failure);
        }
    }

    /** @return null if nobody knows how texts of this collation are read */
    Letters.Reading lettersOf(int collation) {
        String set = sets.get(collation);
        return set == null ? null : letters.of(set);
    }

    /** Another server, or the same one started again, numbers tables from the beginning. */
    void forget() {
        tables.clear();
        labels.clear();
    }

    /**
     * Takes the columns that nobody sees off the names.
     *
     * @param event what the server has named the table in
     * @param compressed the columns whose values it compresses
     */
    void add(TableMapEventData table, byte[] event, BitSet compressed) throws IOException {
        boolean isRead = isCaptured.test(new TableId(table.getDatabase(), null, table.getTable()));
        int visible = isRead ? hide(table) : 0;
        if (tables.containsKey(table.getTableId())) {
            return;
        }
        labels.put(table.getTableId(), isRead ? labels(table, event) : List.of());
        tables.put(table.getTableId(), isRead ? known(table, meanings(table, compressed), visible) : NOT_CAPTURED);
    }

    private static Known known(TableMapEventData table, List<Meaning> meanings, int visible) {
        return new Known(table.getDatabase() + "." + table.getTable(), meanings, visible);
    }

    private static int hide(TableMapEventData table) {
        TableMapEventMetadata named = table.getEventMetadata();
        List<String> names = named == null ? null : named.getColumnNames();
        int visible = table.getColumnTypes().length;
        while (names != null && visible > 0 && HIDDEN.matcher(names.get(visible - 1)).matches()) {
            visible--;
        }
        if (names != null) {
            named.setColumnNames(names.subList(0, visible));
        }
        return visible;
    }

    /** Of a table that is not captured nothing is read: some of what a server stores the client does not know. */
    boolean isRead(long table) {
        return tables.get(table) != NOT_CAPTURED;
    }

    /** Of a column that is an ENUM or a SET, in the order of their numbers; null of another one, or if nobody can read them. */
    List<String> labels(TableMapEventData table, int column) {
        List<List<String>> ofTable = labels.getOrDefault(table.getTableId(), List.of());
        return column < ofTable.size() ? ofTable.get(column) : null;
    }

    /** The row with texts in place of bytes, and of the numbers of labels. */
    Serializable[] read(long table, BitSet included, Serializable[] row) {
        Known known = tables.get(table);
        List<Meaning> meanings = known.meanings();
        if (included.cardinality() < meanings.size()) {
            throw new DataException("binlog_row_image was not FULL when a row of " + known.table() + " was written (" + place.get()
                    + "): the log has " + included.cardinality() + " of its " + meanings.size() + " columns");
        }
        for (int column = 0; column < meanings.size(); column++) {
            if (meanings.get(column) != null) {
                row[column] = meanings.get(column).of(row[column]);
            }
        }
        return known.visible() < row.length ? Arrays.copyOf(row, known.visible()) : row;
    }

    /** Whether a column that the server names a collation of holds bytes; where it names none, nothing is known. */
    boolean isOfBytes(TableMapEventData table, int column) {
        if (!isNamed(table, column)) {
            return false;
        }
        int text = 0;
        for (int before = 0; before < column; before++) {
            text += isNamed(table, before) ? 1 : 0;
        }
        return BYTES.equals(sets.get(collation(table, text)));
    }

    private List<Meaning> meanings(TableMapEventData table, BitSet compressed) {
        List<Meaning> found = new ArrayList<>();
        int texts = 0;
        for (int column = 0; column < table.getColumnTypes().length; column++) {
            Meaning meaning = isNamed(table, column)
                    ? text(reading(table, column, collation(table, texts++)))
                    : label(table, column);
            found.add(compressed.get(column) ? uncompressed(meaning) : meaning);
        }
        return found;
    }

    private static Meaning uncompressed(Meaning meaning) {
        return stored -> {
            Serializable value = stored instanceof byte[] bytes ? CompressedColumns.read(bytes) : stored;
            return meaning == null ? value : meaning.of(value);
        };
    }

    private static Meaning text(Letters.Reading reading) {
        return reading == null ? null : stored -> stored instanceof byte[] bytes ? reading.text(bytes) : stored;
    }

    private Meaning label(TableMapEventData table, int column) {
        ColumnType type = ColumnAsNamed.label(type(table, column), table.getColumnMetadata()[column]);
        if (type != ColumnType.ENUM && type != ColumnType.SET) {
            return null;
        }
        List<String> known = labels(table, column);
        if (known == null) {
            return stored -> {
                throw new DataException("A label in column " + (column + 1) + " of " + table.getDatabase() + "."
                        + table.getTable() + " cannot be read: nothing tells its character set, or nobody knows its letters");
            };
        }
        return type == ColumnType.ENUM
                ? stored -> stored instanceof Integer number ? LabelsAsNamed.one(known, number) : stored
                : stored -> stored instanceof Long bits ? LabelsAsNamed.all(known, bits) : stored;
    }

    private List<List<String>> labels(TableMapEventData table, byte[] event) throws IOException {
        List<List<byte[]>> named = LabelsAsNamed.in(event, table);
        List<List<String>> found = new ArrayList<>();
        int counted = 0;
        for (List<byte[]> ofColumn : named) {
            Letters.Reading reading = ofColumn == null ? null : lettersOf(LabelsAsNamed.collation(table, counted++));
            found.add(reading == null ? null : ofColumn.stream().map(reading::text).toList());
        }
        return found;
    }

    /** @param text counts from 0, over those columns alone that the server names */
    private static int collation(TableMapEventData table, int text) {
        TableMapEventMetadata named = table.getEventMetadata();
        Integer collation = named == null ? null : LabelsAsNamed.nth(text, named.getDefaultCharset(), named.getColumnCharsets());
        if (collation == null) {
            throw new DataException("binlog_row_metadata was NO_LOG when a row of " + table.getDatabase() + "."
                    + table.getTable() + " was written: nothing tells the character sets of its texts");
        }
        return collation;
    }

    private Letters.Reading reading(TableMapEventData table, int column, int collation) {
        String set = sets.get(collation);
        if (BYTES.equals(set) || type(table, column) == ColumnType.GEOMETRY) {
            return null;
        }
        Letters.Reading reading = lettersOf(collation);
        return reading != null ? reading : bytes -> {
            throw new DataException("A text in column " + (column + 1) + " of " + table.getDatabase() + "."
                    + table.getTable() + " cannot be read: its collation has the number " + collation + ", of " + set);
        };
    }

    private static ColumnType type(TableMapEventData table, int column) {
        return ColumnType.byCode(table.getColumnTypes()[column] & 0xFF);
    }

    /** Whether the server counts the column where it names collations: a geometry, but no label, which is a number. */
    private static boolean isNamed(TableMapEventData table, int column) {
        // The second byte of a label's metadata tells what it is.
        int kind = table.getColumnMetadata()[column] >> 8;
        return switch (type(table, column)) {
            case STRING -> kind != ColumnType.ENUM.getCode() && kind != ColumnType.SET.getCode();
            case VARCHAR, VAR_STRING, BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, GEOMETRY -> true;
            default -> false;
        };
    }
}
