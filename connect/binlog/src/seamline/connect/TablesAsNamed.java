package seamline.connect;

import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventMetadata;
import com.github.shyiko.mysql.binlog.event.deserialization.ColumnType;
import io.debezium.jdbc.JdbcConnection;
import io.debezium.relational.Column;
import io.debezium.relational.RelationalDatabaseSchema;
import io.debezium.relational.Table;
import io.debezium.relational.TableId;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.apache.kafka.connect.errors.DataException;

/**
 * Captured tables by the columns that the server names before each statement's rows (`binlog_row_metadata`).
 *
 * Debezium makes its tables of statements, and reads rows by position. Where a statement says a type in other words than
 * the server (INTEGER UNSIGNED, ZEROFILL, REAL, BINARY), the column is given the server's. Where columns are others, a
 * statement was misunderstood or not logged: that stops here, before the rows. A table that is not known, as after a statement
 * that nobody could read ({@link UnreadStatements}), is made of what the server names.
 */
final class TablesAsNamed {

    private final RelationalDatabaseSchema schema;
    private final Predicate<TableId> isCaptured;
    private final TextsAsNamed texts;
    private final JdbcConnection source;
    /** A number is that of one definition of a table, as long as its server runs. */
    private final Map<Long, Table> agreed = new LastTables<>();

    /** @param source is asked for what the server does not name */
    TablesAsNamed(
            RelationalDatabaseSchema schema, Predicate<TableId> isCaptured, TextsAsNamed texts, JdbcConnection source) {
        this.schema = schema;
        this.isCaptured = isCaptured;
        this.texts = texts;
        this.source = source;
    }

    /** Another server, or the same one started again, numbers tables from the beginning. */
    void forget() {
        agreed.clear();
    }

    /** To be asked behind {@link TextsAsNamed#add}. */
    void add(TableMapEventData event) {
        TableId table = new TableId(event.getDatabase(), null, event.getTable());
        TableMapEventMetadata named = event.getEventMetadata();
        // At rows of a table that is not known Debezium stops by itself.
        if (!isCaptured.test(table) || named == null || named.getColumnNames() == null) {
            return;
        }
        Table known = schema.tableFor(table);
        if (known != null && agreed.get(event.getTableId()) == known) {
            return;
        }
        List<Column> columns = known == null ? made(event, named) : columns(event, named, known);
        if (known == null) {
            schema.refresh(Table.editor().tableId(table).addColumns(columns).setPrimaryKeyNames(key(named)).create());
        } else if (!columns.equals(known.columns())) {
            schema.refresh(known.edit().setColumns(columns).create());
        }
        agreed.put(event.getTableId(), schema.tableFor(table));
    }

    private List<Column> made(TableMapEventData event, TableMapEventMetadata named) {
        List<Column> made = new ArrayList<>();
        for (int place = 0; place < named.getColumnNames().size(); place++) {
            String name = named.getColumnNames().get(place);
            ColumnAsNamed.Logged column = column(event, named, place);
            String type = ColumnAsNamed.mayBeUuid(column) ? catalogued(event, name) : "";
            made.add(ColumnAsNamed.made(column, name, event.getColumnNullability().get(place), type));
        }
        return made;
    }

    private static List<String> key(TableMapEventMetadata named) {
        Collection<Integer> places = named.getSimplePrimaryKeys();
        if (places == null) {
            Map<Integer, Integer> withPrefix = named.getPrimaryKeysWithPrefix();
            places = withPrefix == null ? List.of() : withPrefix.keySet();
        }
        return places.stream().map(named.getColumnNames()::get).toList();
    }

    /** The type of a column now. A row may be older; then an alteration follows, which stops the table's streams. */
    private String catalogued(TableMapEventData table, String column) {
        try {
            return source.prepareQueryAndMap(
                    "SELECT data_type FROM information_schema.columns"
                            + " WHERE table_schema = ? AND table_name = ? AND column_name = ?",
                    asked -> {
                        asked.setString(1, table.getDatabase());
                        asked.setString(2, table.getTable());
                        asked.setString(3, column);
                    },
                    rows -> rows.next() ? rows.getString(1) : "");
        } catch (SQLException failure) {
            throw Unanswered.because(failure);
        }
    }

    private List<Column> columns(TableMapEventData event, TableMapEventMetadata named, Table known) {
        List<String> names = named.getColumnNames();
        if (!String.join(",", names).equalsIgnoreCase(String.join(",", known.retrieveColumnNames()))) {
            throw misunderstood(event, "the columns " + names, known.retrieveColumnNames().toString());
        }
        List<Column> found = new ArrayList<>();
        for (int place = 0; place < names.size(); place++) {
            ColumnAsNamed.Logged column = column(event, named, place);
            Column one = known.columns().get(place);
            found.add(ColumnAsNamed.of(column, one).orElseThrow(() -> misunderstood(
                    event, "column " + one.name() + " as " + column.inWords(), one.typeName() + " " + one.length())));
        }
        return found;
    }

    private ColumnAsNamed.Logged column(TableMapEventData event, TableMapEventMetadata named, int place) {
        ColumnType type = ColumnType.byCode(event.getColumnTypes()[place] & 0xFF);
        int meta = event.getColumnMetadata()[place];
        boolean isUnsigned = named.getSignedness() != null && named.getSignedness().get(place);
        return new ColumnAsNamed.Logged(
                ColumnAsNamed.label(type, meta), meta, isUnsigned, texts.isOfBytes(event, place), texts.labels(event, place));
    }

    private static DataException misunderstood(TableMapEventData event, String has, String would) {
        return new DataException("A statement was not understood: " + event.getDatabase() + "." + event.getTable() + " has " + has
                + ", by the statements that were logged it would be " + would);
    }
}
