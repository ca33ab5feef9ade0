package seamline.connect;

import io.debezium.config.Configuration;
import io.debezium.jdbc.JdbcConnection;
import io.debezium.relational.TableId;
import java.sql.SQLException;
import java.util.Map;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/** The rows of the marker table among all that a task tells. */
final class Markers {

    /** The marker table as the source's SQL names it; the settings of a capture that was made before have none. */
    private static final String TABLE = "seamline.marker.table";

    private final String place;
    private final String table;
    private Witness newest;

    /** @param stored the offset that Connect holds from before; null where nothing was ever stored */
    Markers(Configuration settings, Map<String, ?> stored) {
        place = settings.getString(TABLE);
        table = place == null ? null : TableId.parse(place).table();
        newest = Witness.in(stored);
    }

    /** The last one that was reported and that the log has not reported the end of; null where there is none. */
    Witness newest() {
        return newest;
    }

    /** @param waits a question that brings a row where the server may hold a commit back after its log has it */
    void requireNewestIn(JdbcConnection source, String waits) throws SQLException {
        if (newest != null && place != null) {
            newest.requireIn(source, place, waits);
        }
    }

    void look(SourceRecord record) {
        if (table == null
                || !(record.value() instanceof Struct change)
                || change.schema().field("op") == null
                || !table.equals(change.getStruct("source").getString("table"))) {
            return;
        }
        switch (change.getString("op")) {
            case "c" -> newest = new Witness(idIn(change, "after"), change.getStruct("source").getInt64("ts_ms"));
            case "d" -> newest = newest != null && newest.marker().equals(idIn(change, "before")) ? null : newest;
            case "t" -> newest = null;
            default -> {
                // A marker is never changed.
            }
        }
    }

    private static String idIn(Struct change, String image) {
        return change.getStruct(image).getString("id");
    }
}
