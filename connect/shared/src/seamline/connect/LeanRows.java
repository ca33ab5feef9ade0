package seamline.connect;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Rows with their images, their operation and where they stand, and without what no stream reads.
 *
 * What is told of a row stays what Debezium told, under its names and in its order (ADR 27).
 */
final class LeanRows {

    private static final String SOURCE = "source";
    private static final List<String> KEPT = List.of("before", "after", SOURCE, "op");
    private static final Set<String> KEPT_OF_THE_SOURCE =
            Set.of("name", "ts_ms", "db", "schema", "table", "gtid", "file", "pos", "txId", "lsn");

    private record Shape(Schema debeziums, Schema source, Schema row) {
    }

    /** By table, as its topic names it: a table has another schema after each statement that alters it. */
    private final Map<String, Shape> shapes = new HashMap<>();

    /** Whether a record tells a row, or that a table was emptied. */
    static boolean isOne(SourceRecord record) {
        return record.value() instanceof Struct value && KEPT.stream().allMatch(name -> value.schema().field(name) != null);
    }

    Struct lean(SourceRecord record) {
        Struct told = (Struct) record.value();
        Shape shape = shapes.get(record.topic());
        if (shape == null || shape.debeziums() != told.schema()) {
            shape = shapeOf(told.schema());
            shapes.put(record.topic(), shape);
        }
        Struct row = new Struct(shape.row());
        for (Field field : shape.row().fields()) {
            row.put(field, field.name().equals(SOURCE)
                    ? copied(told.getStruct(SOURCE), shape.source())
                    : told.getWithoutDefault(field.name()));
        }
        return row;
    }

    private static Shape shapeOf(Schema debeziums) {
        SchemaBuilder source = SchemaBuilder.struct().name(debeziums.field(SOURCE).schema().name());
        for (Field field : debeziums.field(SOURCE).schema().fields()) {
            if (KEPT_OF_THE_SOURCE.contains(field.name())) {
                source.field(field.name(), field.schema());
            }
        }
        Schema ofTheSource = source.build();
        // By this name Debezium itself knows a row, also behind us.
        SchemaBuilder row = SchemaBuilder.struct().name(debeziums.name()).version(debeziums.version());
        for (String name : KEPT) {
            row.field(name, name.equals(SOURCE) ? ofTheSource : debeziums.field(name).schema());
        }
        return new Shape(debeziums, ofTheSource, row.build());
    }

    private static Struct copied(Struct told, Schema kept) {
        Struct copy = new Struct(kept);
        for (Field field : kept.fields()) {
            copy.put(field, told.getWithoutDefault(field.name()));
        }
        return copy;
    }
}
