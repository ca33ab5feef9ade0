package seamline.connect;

import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventMetadata;
import io.debezium.relational.Table;
import java.util.List;
import org.apache.kafka.connect.errors.DataException;

/**
 * Stops before rows whose columns are others than Debezium has made of the statements before them.
 *
 * It reads rows by position. The server names their columns first (`binlog_row_metadata`), so a statement that was not
 * understood shows here at the latest.
 */
final class ColumnsAsNamed {

    private ColumnsAsNamed() {}

    /** @param known null where Debezium does not know the table, at whose rows it stops by itself */
    static void require(TableMapEventData told, Table known) {
        TableMapEventMetadata named = told.getEventMetadata();
        if (named == null || named.getColumnNames() == null || known == null) {
            return;
        }
        List<String> columns = named.getColumnNames();
        List<String> understood = known.retrieveColumnNames();
        if (!String.join(",", columns).equalsIgnoreCase(String.join(",", understood))) {
            throw new DataException("A statement was not understood: the columns of " + told.getDatabase() + "." + told.getTable()
                    + " are " + columns + ", and would be " + understood);
        }
    }
}
