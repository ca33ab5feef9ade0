package seamline.connect;

import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventMetadata;
import com.github.shyiko.mysql.binlog.event.TableMapEventMetadata.DefaultCharset;
import com.github.shyiko.mysql.binlog.event.deserialization.ColumnType;
import io.debezium.jdbc.JdbcConnection;
import io.debezium.relational.TableId;
import java.io.Serializable;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;

/**
 * Texts by the collation that the server names before each statement's rows (`binlog_row_metadata`).
 *
 * Debezium derives the character set from statements, and overlooks a table's collation that says it alone.
 */
final class TextsAsNamed {

    private static final String BYTES = "binary";
    private static final String NO_SUCH_COLUMN = "42S22";

    private final Predicate<TableId> isCaptured;
    private final Map<Integer, String> sets = new HashMap<>();
    private final Letters letters = new Letters();
    private final Map<Long, List<Letters.Reading>> readings = new LastTables<>();

    TextsAsNamed(JdbcConnection connection, Predicate<TableId> isCaptured) {
        this.isCaptured = isCaptured;
        try {
            connection.query(
                    "SELECT id, character_set_name FROM information_schema.collation_character_set_applicability",
                    rows -> {
                        while (rows.next()) {
                            sets.put(rows.getInt(1), rows.getString(2));
                        }
                    });
        } catch (SQLException failure) {
            if (NO_SUCH_COLUMN.equals(failure.getSQLState())) {
                throw new ConnectException("The server does not number its collations as MariaDB 11.4 does", failure);
            }
            throw Unanswered.because(failure);
        }
    }

    /** @return null if nobody knows how texts of this collation are read */
    Letters.Reading lettersOf(int collation) {
        String set = sets.get(collation);
        return set == null ? null : letters.of(set);
    }

    /** Columns of a table that is not captured are left as they come. */
    void add(TableMapEventData table) {
        boolean isRead = isCaptured.test(new TableId(table.getDatabase(), null, table.getTable()));
        readings.put(table.getTableId(), isRead ? readings(table) : List.of());
    }

    /** The row with texts in place of bytes. */
    Serializable[] read(long table, BitSet included, Serializable[] row) {
        List<Letters.Reading> ofTable = readings.get(table);
        for (int column = 0, place = 0; column < ofTable.size(); column++) {
            if (!included.get(column)) {
                continue;
            }
            if (ofTable.get(column) != null && row[place] instanceof byte[] bytes) {
                row[place] = ofTable.get(column).text(bytes);
            }
            place++;
        }
        return row;
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

    private List<Letters.Reading> readings(TableMapEventData table) {
        List<Letters.Reading> found = new ArrayList<>();
        int texts = 0;
        for (int column = 0; column < table.getColumnTypes().length; column++) {
            found.add(isNamed(table, column) ? reading(table, column, collation(table, texts++)) : null);
        }
        return found;
    }

    /** @param text counts from 0, over those columns alone that the server names */
    private static int collation(TableMapEventData table, int text) {
        TableMapEventMetadata named = table.getEventMetadata();
        DefaultCharset most = named == null ? null : named.getDefaultCharset();
        List<Integer> each = named == null ? null : named.getColumnCharsets();
        if (most != null) {
            Map<Integer, Integer> others = most.getCharsetCollations();
            int usual = most.getDefaultCharsetCollation();
            return others == null ? usual : others.getOrDefault(text, usual);
        }
        if (each == null || each.size() <= text) {
            throw new DataException("binlog_row_metadata was NO_LOG when a row of " + table.getDatabase() + "."
                    + table.getTable() + " was written: nothing tells the character sets of its texts");
        }
        return each.get(text);
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
