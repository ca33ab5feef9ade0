package seamline.connect;

import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventMetadata;
import com.github.shyiko.mysql.binlog.event.deserialization.ColumnType;
import io.debezium.connector.mariadb.MariaDbDatabaseSchema;
import io.debezium.relational.Column;
import io.debezium.relational.Table;
import io.debezium.relational.TableId;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.kafka.connect.errors.DataException;

/**
 * Captured tables by the columns that the server names before each statement's rows (`binlog_row_metadata`).
 *
 * Debezium makes its tables of statements, and reads rows by position. Where a statement says a type in other words than
 * the server (INTEGER UNSIGNED, ZEROFILL, REAL, BINARY), the column is given the server's. Where columns are others, a
 * statement was not understood or not logged: that stops here, before the rows.
 */
final class TablesAsNamed {

    private final MariaDbDatabaseSchema schema;
    private final Predicate<TableId> isCaptured;
    private final TextsAsNamed texts;
    /** A number is that of one definition of a table, as long as its server runs. */
    private final Map<Long, Table> agreed = new LastTables<>();

    TablesAsNamed(MariaDbDatabaseSchema schema, Predicate<TableId> isCaptured, TextsAsNamed texts) {
        this.schema = schema;
        this.isCaptured = isCaptured;
        this.texts = texts;
    }

    /** Another server, or the same one started again, numbers tables from the beginning. */
    void forget() {
        agreed.clear();
    }

    /** Of a table that Debezium does not know, at whose rows it stops by itself, nothing is asked. */
    void add(TableMapEventData told) {
        TableId table = new TableId(told.getDatabase(), null, told.getTable());
        Table known = isCaptured.test(table) ? schema.tableFor(table) : null;
        TableMapEventMetadata named = told.getEventMetadata();
        if (known == null || named == null || named.getColumnNames() == null) {
            return;
        }
        if (agreed.get(told.getTableId()) == known) {
            return;
        }
        List<Column> columns = columns(told, named, known);
        if (!columns.equals(known.columns())) {
            schema.refresh(known.edit().setColumns(columns).create());
        }
        agreed.put(told.getTableId(), schema.tableFor(table));
    }

    private List<Column> columns(TableMapEventData told, TableMapEventMetadata named, Table known) {
        List<String> names = named.getColumnNames();
        if (!String.join(",", names).equalsIgnoreCase(String.join(",", known.retrieveColumnNames()))) {
            throw misunderstood(told, "the columns " + names, known.retrieveColumnNames().toString());
        }
        Iterator<String[]> enums = labels(named.getEnumStrValues());
        Iterator<String[]> sets = labels(named.getSetStrValues());
        BitSet unsigned = named.getSignedness() == null ? new BitSet() : named.getSignedness();
        List<Column> found = new ArrayList<>();
        for (int place = 0; place < names.size(); place++) {
            ColumnType type = ColumnType.byCode(told.getColumnTypes()[place] & 0xFF);
            int meta = told.getColumnMetadata()[place];
            ColumnAsNamed.Told column = new ColumnAsNamed.Told(
                    ColumnAsNamed.label(type, meta),
                    meta,
                    unsigned.get(place),
                    texts.isOfBytes(told, place),
                    switch (ColumnAsNamed.label(type, meta)) {
                        case ENUM -> enums.hasNext() ? enums.next() : null;
                        case SET -> sets.hasNext() ? sets.next() : null;
                        default -> null;
                    });
            Column one = known.columns().get(place);
            found.add(ColumnAsNamed.of(column, one).orElseThrow(() -> misunderstood(
                    told, "column " + one.name() + " as " + column.inWords(), one.typeName() + " " + one.length())));
        }
        return found;
    }

    private static Iterator<String[]> labels(List<String[]> named) {
        return named == null ? List.<String[]>of().iterator() : named.iterator();
    }

    private static DataException misunderstood(TableMapEventData told, String has, String would) {
        return new DataException("A statement was not understood: " + told.getDatabase() + "." + told.getTable() + " has " + has
                + ", by the statements that were logged it would be " + would);
    }
}
