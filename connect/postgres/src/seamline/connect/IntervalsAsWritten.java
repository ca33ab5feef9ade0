package seamline.connect;

import io.debezium.connector.postgresql.PostgresStreamingChangeEventSource.PgConnectionSupplier;
import io.debezium.connector.postgresql.PostgresType;
import io.debezium.connector.postgresql.connection.Lsn;
import io.debezium.connector.postgresql.connection.ReplicationConnection;
import io.debezium.connector.postgresql.connection.ReplicationMessage;
import io.debezium.connector.postgresql.connection.ReplicationMessage.Column;
import io.debezium.connector.postgresql.connection.ReplicationMessage.ColumnTypeMetadata;
import io.debezium.connector.postgresql.connection.ReplicationStream;
import io.debezium.connector.postgresql.connection.WalPositionLocator;
import io.debezium.connector.postgresql.connection.pgoutput.PgOutputReplicationMessage;
import io.debezium.connector.postgresql.spi.SlotCreationResult;
import java.sql.SQLException;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.ExecutorService;
import org.postgresql.core.Oid;

/**
 * A replication connection whose intervals are the texts that the server wrote.
 *
 * Debezium reads them into the driver's PGInterval, which holds 0 for an infinite one and fails at more than 2^31 hours.
 */
record IntervalsAsWritten(ReplicationConnection of) implements ReplicationConnection {

    @Override
    public ReplicationStream startStreaming(WalPositionLocator locator) throws SQLException, InterruptedException {
        return new Stream(of.startStreaming(locator));
    }

    @Override
    public ReplicationStream startStreaming(Lsn place, WalPositionLocator locator)
            throws SQLException, InterruptedException {
        return new Stream(of.startStreaming(place, locator));
    }

    @Override
    public Optional<SlotCreationResult> createReplicationSlot() throws SQLException {
        return of.createReplicationSlot();
    }

    @Override
    public void initConnection() throws SQLException, InterruptedException {
        of.initConnection();
    }

    @Override
    public boolean isConnected() throws SQLException {
        return of.isConnected();
    }

    @Override
    public void reconnect() throws SQLException {
        of.reconnect();
    }

    @Override
    public void close() throws Exception {
        of.close();
    }

    private record Stream(ReplicationStream of) implements ReplicationStream {

        @Override
        public void read(ReplicationMessageProcessor processor) throws SQLException, InterruptedException {
            of.read(message -> processor.process(asWritten(message)));
        }

        @Override
        public boolean readPending(ReplicationMessageProcessor processor) throws SQLException, InterruptedException {
            return of.readPending(message -> processor.process(asWritten(message)));
        }

        @Override
        public void flushLsn(Lsn place) throws SQLException {
            of.flushLsn(place);
        }

        @Override
        public Lsn lastReceivedLsn() {
            return of.lastReceivedLsn();
        }

        @Override
        public Lsn startLsn() {
            return of.startLsn();
        }

        @Override
        public void startKeepAlive(ExecutorService service) {
            of.startKeepAlive(service);
        }

        @Override
        public void stopKeepAlive() {
            of.stopKeepAlive();
        }

        @Override
        public void close() throws Exception {
            of.close();
        }
    }

    private static ReplicationMessage asWritten(ReplicationMessage message) {
        // A change of a table that is published and not captured: Debezium's message of it refuses to tell columns.
        if (message.isSkippedMessage()) {
            return message;
        }
        return switch (message.getOperation()) {
            case INSERT, UPDATE, DELETE -> hasInterval(message) ? copy(message) : message;
            default -> message;
        };
    }

    private static boolean hasInterval(ReplicationMessage message) {
        List<Column> columns = message.getNewTupleList() == null ? message.getOldTupleList() : message.getNewTupleList();
        return columns != null && columns.stream().anyMatch(IntervalsAsWritten::isInterval);
    }

    private static boolean isInterval(Column column) {
        return column.getType().getRootType().getOid() == Oid.INTERVAL;
    }

    private static ReplicationMessage copy(ReplicationMessage message) {
        OptionalLong transaction = message.getTransactionId();
        return new PgOutputReplicationMessage(
                message.getOperation(),
                message.getTable(),
                message.getCommitTime(),
                transaction.isPresent() ? transaction.getAsLong() : null,
                copies(message.getOldTupleList()),
                copies(message.getNewTupleList()));
    }

    private static List<Column> copies(List<Column> columns) {
        if (columns == null) {
            return null;
        }
        return columns.stream().map(column -> isInterval(column) ? new Written(column) : column).toList();
    }

    private record Written(Column of) implements Column {

        @Override
        public String getName() {
            return of.getName();
        }

        @Override
        public PostgresType getType() {
            return of.getType();
        }

        @Override
        public ColumnTypeMetadata getTypeMetadata() {
            return of.getTypeMetadata();
        }

        @Override
        public boolean isOptional() {
            return of.isOptional();
        }

        @Override
        public boolean isToastedColumn() {
            return of.isToastedColumn();
        }

        /** The text stands nowhere but in a column's own `name(type)=text`; a NULL is of another class, without it. */
        @Override
        public Object getValue(PgConnectionSupplier connection, boolean includeUnknown) {
            String text = of.toString();
            boolean hasText = text.startsWith(of.getName() + "(");
            return hasText ? text.substring(text.lastIndexOf('=') + 1) : of.getValue(connection, includeUnknown);
        }
    }
}
