package seamline.connect;

import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * A log in which a transaction is whole from its last BEGIN on.
 *
 * Every record is handed on with a place between two transactions, so that after any stop an open one is reported again from
 * its BEGIN; and every BEGIN says so, for Debezium's own classes go on in the middle behind a BEGIN that looks the same.
 * It also names the transaction that was reported before it, and the last record of that one, so that a topic which lost a
 * whole transaction shows it (ADR 21).
 */
final class WholeTransactions {

    /** Raised with every change of these classes: a worker that has others is refused before a capture is touched. */
    private static final String OWN = "seamline-15";

    private static final String BRACKET = "io.debezium.connector.common.TransactionMetadataValue";
    private static final String STATUS = "status";
    private static final String MARK = "seamline";
    private static final String FOLLOWS = "seamline_follows";
    private static final String BEGUN = "BEGIN ";
    private static final String ENDED = "END ";

    private final Places places;
    private final Markers markers;
    private final Server server;
    private final LeanRows rows = new LeanRows();
    private Map<String, Object> place;
    private Witness witness;
    private String begun;
    private int reportedSince;
    private boolean isUndone;
    private String before;
    private Map<String, Object> handedOn;
    private Schema debeziums;
    private Schema marked;

    /** @param stored what Connect holds from before; null where nothing was ever stored */
    WholeTransactions(Places places, Map<String, ?> stored, Markers markers, Server server) {
        this.places = places;
        this.markers = markers;
        this.server = server;
        witness = markers.newest();
        before = stored == null ? null : (String) stored.get(FOLLOWS);
        standAt(places.upTo(stored));
    }

    static String versionOver(String debezium) {
        return debezium + "-" + OWN;
    }

    /** @param records the next ones, in log order */
    List<SourceRecord> next(List<SourceRecord> records) {
        return records.stream().map(this::next).toList();
    }

    private SourceRecord next(SourceRecord record) {
        if (record.valueSchema() == null || !BRACKET.equals(record.valueSchema().name())) {
            markers.look(record);
            if (isOfATransaction(record)) {
                refuseMoreOfTheUndone();
                reportedSince++;
                passStandalone(record);
            }
            if (!LeanRows.isOne(record)) {
                return at(record, record.valueSchema(), record.value());
            }
            Struct row = RowsThatFit.of(rows.lean(record), record.key() != null);
            return at(record, row.schema(), row);
        }
        Struct bracket = (Struct) record.value();
        String transaction = bracket.getString("id");
        if ("END".equals(bracket.getString(STATUS))) {
            witness = markers.newest();
            before = ENDED + transaction;
            begun = null;
            isUndone = false;
            standAt(places.behind(transaction, record.sourceOffset()));
            return at(record, record.valueSchema(), bracket);
        }
        if (begun != null && !begun.equals(transaction)) {
            // A statement that has no END, which would count its records.
            before = BEGUN + begun + " " + reportedSince;
        }
        isUndone = transaction.equals(begun);
        if (!isUndone) {
            standAt(places.atBegin(transaction, record.sourceOffset(), place));
        }
        begun = transaction;
        reportedSince = 0;
        Struct begin = marked(bracket);
        return at(record, begin.schema(), begin);
    }

    /** A task begins a transaction again only where it was rolled back: whatever follows then is the rest of a torn one. */
    private void refuseMoreOfTheUndone() {
        if (isUndone) {
            throw new ConnectException("Transaction " + begun + " began again, and not all of it follows");
        }
    }

    private static boolean isOfATransaction(SourceRecord record) {
        return record.value() instanceof Struct value
                && (value.schema().field("op") != null || value.schema().field("ddl") != null);
    }

    /** MySQL reports a TRUNCATE or a statement outside of BEGIN and END: it is a whole transaction, and lies behind us now. */
    private void passStandalone(SourceRecord record) {
        Struct source = ((Struct) record.value()).getStruct("source");
        boolean isNamed = source.schema().field("gtid") != null && source.getString("gtid") != null;
        if (begun == null && isNamed) {
            witness = markers.newest();
            before = ENDED + source.getString("gtid");
            standAt(places.behind(source.getString("gtid"), record.sourceOffset()));
        }
    }

    private void standAt(Map<String, Object> next) {
        place = next;
        if (next == null) {
            return;
        }
        handedOn = server.beside(next);
        if (witness != null) {
            handedOn = witness.beside(handedOn);
        }
        if (before != null) {
            handedOn.put(FOLLOWS, before);
        }
    }

    private SourceRecord at(SourceRecord record, Schema schema, Object value) {
        return new SourceRecord(
                record.sourcePartition(), handedOn, record.topic(), record.kafkaPartition(),
                record.keySchema(), record.key(), schema, value, record.timestamp(), record.headers());
    }

    private Struct marked(Struct begin) {
        if (debeziums != begin.schema()) {
            debeziums = begin.schema();
            SchemaBuilder builder = SchemaBuilder.struct().name(BRACKET).version(debeziums.version());
            for (Field field : debeziums.fields()) {
                builder.field(field.name(), field.schema());
            }
            builder.field(FOLLOWS, Schema.OPTIONAL_STRING_SCHEMA);
            marked = builder.field(MARK, Schema.STRING_SCHEMA).build();
        }
        Struct copy = new Struct(marked).put(MARK, "whole").put(FOLLOWS, before);
        for (Field field : debeziums.fields()) {
            copy.put(field.name(), begin.get(field));
        }
        return copy;
    }
}
