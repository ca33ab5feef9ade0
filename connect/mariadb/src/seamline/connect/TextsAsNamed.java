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
import org.apache.kafka.connect.errors.DataException;

/**
 * Texts by the collation that the server names before each statement's rows (`binlog_row_metadata`).
 *
 * Debezium derives the character set from statements, and there a collation alone may say it, or another server's default.
 */
final class TextsAsNamed {

    private static final String BYTES = "binary";

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
            throw Unanswered.because(failure);
        }
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

    private List<Letters.Reading> readings(TableMapEventData table) {
        List<Letters.Reading> found = new ArrayList<>();
        int texts = 0;
        for (int column = 0; column < table.getColumnTypes().length; column++) {
            found.add(isText(table, column) ? reading(collation(table, texts++)) : null);
        }
        return found;
    }

    /** @param text counts from 0, over texts alone */
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
            throw new DataException("The server does not name the collation of text " + text + " of "
                    + table.getDatabase() + "." + table.getTable() + ": SET GLOBAL binlog_row_metadata = FULL");
        }
        return each.get(text);
    }

    private Letters.Reading reading(int collation) {
        String set = sets.get(collation);
        if (set == null) {
            throw new DataException("The server names the collation " + collation + ", which it does not list");
        }
        return set.equals(BYTES) ? null : letters.of(set);
    }

    /** A label comes as its number, and the second byte of its column's metadata says so. */
    private static boolean isText(TableMapEventData table, int column) {
        int kind = table.getColumnMetadata()[column] >> 8;
        return switch (ColumnType.byCode(table.getColumnTypes()[column] & 0xFF)) {
            case STRING -> kind != ColumnType.ENUM.getCode() && kind != ColumnType.SET.getCode();
            case VARCHAR, VAR_STRING, BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB -> true;
            default -> false;
        };
    }
}
