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
 * What is reported of a row stays what Debezium reported, under its names and in its order (ADR 27).
 */
final class LeanRows {

    private static final String SOURCE = "source";
    private static final List<String> KEPT = List.of("before", "after", SOURCE, "op");
    private static final Set<String> KEPT_OF_THE_SOURCE =
            Set.of("name", "ts_ms", "db", "schema", "table", "gtid", "file", "pos", "txId", "lsn");

    private record Schemas(Schema debeziums, Schema source, Schema row) {
    }

    /** By table, as its topic names it: a table has another schema after each statement that alters it. */
    private final Map<String, Schemas> schemas = new HashMap<>();

    /** Whether a record reports a row, or that a table was emptied. */
    static boolean isOne(SourceRecord record) {
        return record.value() instanceof Struct value && KEPT.stream().allMatch(name -> value.schema().field(name) != null);
    }

    Struct lean(SourceRecord record) {
        Struct debeziums = (Struct) record.value();
        Schemas known = schemas.get(record.topic());
        if (known == null || known.debeziums() != debeziums.schema()) {
            known = schemasOf(debeziums.schema());
            schemas.put(record.topic(), known);
        }
        Struct row = new Struct(known.row());
        for (Field field : known.row().fields()) {
            row.put(field, field.name().equals(SOURCE)
                    ? copied(debeziums.getStruct(SOURCE), known.source())
                    : debeziums.getWithoutDefault(field.name()));
        }
        return row;
    }

    private static Schemas schemasOf(Schema debeziums) {
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
        return new Schemas(debeziums, ofTheSource, row.build());
    }

    private static Struct copied(Struct debeziums, Schema kept) {
        Struct copy = new Struct(kept);
        for (Field field : kept.fields()) {
            copy.put(field, debeziums.getWithoutDefault(field.name()));
        }
        return copy;
    }
}
