package seamline.connect;

import io.debezium.relational.Column;
import io.debezium.relational.RelationalTableFilters;
import io.debezium.relational.Table;
import io.debezium.relational.TableId;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Statements that Debezium cannot read, at which it would end its task, of whatever table.
 *
 * The tables that such a statement may touch are forgotten, and {@link TablesAsNamed} makes them again from what the server
 * names before their next rows. The log holds the statement of each captured one among them, as any that alters it.
 */
final class UnreadStatements {

    private static final Logger LOGGER = LoggerFactory.getLogger(UnreadStatements.class);

    private final TablesTouched touched;
    private final Supplier<Set<TableId>> known;
    private final Consumer<TableId> forget;

    /** @param known all tables that are known now */
    UnreadStatements(RelationalTableFilters captured, Supplier<Set<TableId>> known, Consumer<TableId> forget) {
        this.known = known;
        this.forget = forget;
        touched = new TablesTouched(captured.databaseFilter(), captured.dataCollectionFilter()::isIncluded, known);
    }

    /**
     * A statement may hold a password: neither it nor an error that shows it goes into the log of Connect.
     *
     * @return the tables that are forgotten now
     */
    List<TableId> forgetTouched(String statement, String database) {
        Set<TableId> found = touched.of(statement, database);
        LOGGER.warn("A statement ({}) in database {} was not understood; what it may touch is read as the server names it: {}",
                StatementsWithoutRows.verb(statement), database, found);
        List<TableId> forgotten = new ArrayList<>();
        found.forEach(typed -> forgotten.addAll(forget(typed)));
        return forgotten;
    }

    /** @return the tables that were known by this name, or else the name as it was typed */
    private Set<TableId> forget(TableId typed) {
        Set<TableId> named = new TreeSet<>();
        for (TableId one : known.get()) {
            if (one.table().equalsIgnoreCase(typed.table()) && one.catalog().equalsIgnoreCase(typed.catalog())) {
                named.add(one);
            }
        }
        named.forEach(forget);
        return named.isEmpty() ? Set.of(typed) : named;
    }

    /** Some DEFAULTs Debezium cannot read, as a UUID that is written out; no value is made of one, the log has all of them. */
    static Table withoutDefaults(Table table, RuntimeException unread) {
        LOGGER.warn("The defaults of {} are left out: one cannot be read", table.id(), unread);
        List<Column> columns = new ArrayList<>();
        for (Column column : table.columns()) {
            columns.add(column.hasDefaultValue() ? column.edit().unsetDefaultValueExpression().create() : column);
        }
        return table.edit().setColumns(columns).create();
    }
}
