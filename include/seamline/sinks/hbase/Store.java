package seamline.hbase;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.TableNotFoundException;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.filter.FilterList;
import org.apache.hadoop.hbase.filter.FirstKeyOnlyFilter;
import org.apache.hadoop.hbase.filter.KeyOnlyFilter;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * HBase's client for the process that started this JVM: whole pages of rows in one call, because a call for each cell
 * would cost more than the cell. A page is as {@link DataInputStream} reads it; a text or value is its length and its
 * bytes, and a length of -1 is NULL.
 */
public final class Store implements AutoCloseable {
    /** All cells lie in one family. */
    private static final byte[] FAMILY = Bytes.toBytes("r");
    private static final byte[] STATE = Bytes.toBytes("s");
    /** How rows of a page are written: a row that is new, one over what may be there, one that goes. */
    private static final int FRESH = 0;
    private static final int OVER = 1;
    private static final int PAGE = 2_000;
    private static final long PAGE_BYTES = 8L << 20;
    /** By cell timestamps, which are milliseconds: a write that comes later than this is not expected. */
    private static final String DELETES_KEPT_MS = "604800000";

    private final Connection connection;

    public Store(String quorum, int port, String znode, String user) throws IOException {
        Configuration settings = HBaseConfiguration.create();
        settings.set("hbase.zookeeper.quorum", quorum);
        settings.setInt("hbase.zookeeper.property.clientPort", port);
        settings.set("zookeeper.znode.parent", znode);
        settings.setInt("hbase.client.retries.number", 6);
        settings.setInt("hbase.rpc.timeout", 20_000);
        settings.setInt("hbase.client.operation.timeout", 60_000);
        settings.setInt("hbase.client.meta.operation.timeout", 60_000);
        settings.setInt("zookeeper.recovery.retry", 1);
        org.apache.hadoop.hbase.security.User login = user.isEmpty()
                ? org.apache.hadoop.hbase.security.User.getCurrent()
                : org.apache.hadoop.hbase.security.User.create(
                        org.apache.hadoop.security.UserGroupInformation.createRemoteUser(user));
        connection = ConnectionFactory.createConnection(settings, login);
    }

    // ---- tables -----------------------------------------------------------------------------------------------------

    public String version() throws IOException {
        try (Admin admin = connection.getAdmin()) {
            return admin.getClusterMetrics().getHBaseVersion();
        }
    }

    public boolean exists(String table) throws IOException {
        try (Admin admin = connection.getAdmin()) {
            return admin.tableExists(TableName.valueOf(table));
        }
    }

    /** True where this call has made it. */
    public boolean make(String table) throws IOException {
        TableName name = TableName.valueOf(table);
        try (Admin admin = connection.getAdmin()) {
            if (admin.tableExists(name)) {
                return false;
            }
            String namespace = name.getNamespaceAsString();
            if (!List.of(admin.listNamespaces()).contains(namespace)) {
                admin.createNamespace(NamespaceDescriptor.create(namespace).build());
            }
            admin.createTable(TableDescriptorBuilder.newBuilder(name)
                    .setValue("hbase.hstore.time.to.purge.deletes", DELETES_KEPT_MS)
                    .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(FAMILY).setMaxVersions(1).build())
                    .build());
            return true;
        }
    }

    /** The rows of a table once more under another name, in place of what is there; files are shared, none is copied. */
    public void keep(String table, String as) throws IOException {
        TableName kept = TableName.valueOf(as);
        String snapshot = kept.getNamespaceAsString() + "." + kept.getQualifierAsString() + "_kept";
        try (Admin admin = connection.getAdmin()) {
            // What an attempt before has left may be older than the rows that leave.
            if (!admin.listSnapshots(java.util.regex.Pattern.compile(java.util.regex.Pattern.quote(snapshot))).isEmpty()) {
                admin.deleteSnapshot(snapshot);
            }
            remove(as);
            admin.snapshot(snapshot, TableName.valueOf(table));
            admin.cloneSnapshot(snapshot, kept);
            admin.deleteSnapshot(snapshot);
        }
    }

    public void remove(String table) throws IOException {
        TableName name = TableName.valueOf(table);
        try (Admin admin = connection.getAdmin()) {
            if (!admin.tableExists(name)) {
                return;
            }
            if (admin.isTableEnabled(name)) {
                admin.disableTable(name);
            }
            admin.deleteTable(name);
        }
    }

    // ---- one value of our own ---------------------------------------------------------------------------------------

    /** null where there is none, or no table. */
    public byte[] value(String table, byte[] key) throws IOException {
        try (Table open = connection.getTable(TableName.valueOf(table))) {
            return open.get(new Get(key).addColumn(FAMILY, STATE)).getValue(FAMILY, STATE);
        } catch (TableNotFoundException notThere) {
            return null;
        }
    }

    /**
     * Put `value` there if what is there is `expected`, or nothing where that is null. The server gives the timestamp: of
     * a compare-and-set never one below that of the cell it has compared.
     */
    public boolean exchange(String table, byte[] key, byte[] expected, byte[] value) throws IOException {
        CheckAndMutate.Builder asked = CheckAndMutate.newBuilder(key);
        asked = expected == null ? asked.ifNotExists(FAMILY, STATE) : asked.ifEquals(FAMILY, STATE, expected);
        Put put = new Put(key).addColumn(FAMILY, STATE, value);
        try (Table open = connection.getTable(TableName.valueOf(table))) {
            return open.checkAndMutate(asked.build(put)).isSuccess();
        }
    }

    public boolean forget(String table, byte[] key, byte[] expected) throws IOException {
        CheckAndMutate.Builder asked = CheckAndMutate.newBuilder(key).ifEquals(FAMILY, STATE, expected);
        try (Table open = connection.getTable(TableName.valueOf(table))) {
            Delete gone = new Delete(key).addColumns(FAMILY, STATE);
            return open.checkAndMutate(asked.build(gone)).isSuccess();
        }
    }

    // ---- rows -------------------------------------------------------------------------------------------------------

    /** Write a page: names of columns, then rows. What is done twice with one number is as done once. */
    public void write(String table, long number, byte[] page) throws IOException, InterruptedException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(page));
        byte[][] names = new byte[in.readInt()][];
        for (int place = 0; place < names.length; place++) {
            names[place] = bytes(in);
        }
        List<Row> actions = new ArrayList<>();
        for (int left = in.readInt(); left > 0; left--) {
            int how = in.readByte();
            byte[] key = bytes(in);
            if (how != FRESH && how != OVER) {
                actions.add(new Delete(key).addFamily(FAMILY, number));
                continue;
            }
            Put put = new Put(key);
            for (byte[] name : names) {
                byte[] value = bytes(in);
                if (value != null) {
                    put.addColumn(FAMILY, name, number, value);
                }
            }
            actions.add(how == FRESH ? put : over(put, number));
        }
        batch(table, actions);
    }

    /** The rows of these keys that are there. */
    public byte[] rows(String table, byte[] keys) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(keys));
        List<Get> gets = new ArrayList<>();
        for (int left = in.readInt(); left > 0; left--) {
            gets.add(new Get(bytes(in)).addFamily(FAMILY));
        }
        try (Table open = connection.getTable(TableName.valueOf(table))) {
            return page(List.of(open.get(gets)));
        }
    }

    /** At most `limit` rows from `from` on, and before `to`; fewer of large ones, and none only where there is none. */
    public byte[] scan(String table, byte[] from, byte[] to, int limit) throws IOException {
        Scan scan = new Scan().withStartRow(from).withStopRow(to).addFamily(FAMILY).setLimit(limit).setCaching(limit);
        List<Result> found = new ArrayList<>();
        try (Table open = connection.getTable(TableName.valueOf(table)); ResultScanner scanner = open.getScanner(scan)) {
            long bytes = 0;
            for (Result row = scanner.next(); row != null && bytes < PAGE_BYTES; row = scanner.next()) {
                found.add(row);
                bytes += Result.getTotalSizeOfCells(row);
            }
        }
        return page(found);
    }

    public long count(String table, byte[] from, byte[] to) throws IOException {
        long count = 0;
        Scan scan = new Scan().withStartRow(from).withStopRow(to).addFamily(FAMILY).setCaching(PAGE);
        scan.setFilter(firstKeys());
        try (Table open = connection.getTable(TableName.valueOf(table)); ResultScanner scanner = open.getScanner(scan)) {
            while (scanner.next() != null) {
                count++;
            }
        }
        return count;
    }

    /** Let every row go that was written before `number`; how many. */
    public long sweep(String table, byte[] from, byte[] to, long number) throws IOException, InterruptedException {
        long count = 0;
        List<Row> actions = new ArrayList<>();
        Scan scan = new Scan().withStartRow(from).withStopRow(to).addFamily(FAMILY).setCaching(PAGE);
        scan.setFilter(firstKeys());
        try (Table open = connection.getTable(TableName.valueOf(table)); ResultScanner scanner = open.getScanner(scan)) {
            for (Result row = scanner.next(); row != null; row = scanner.next()) {
                if (row.rawCells()[0].getTimestamp() >= number) {
                    continue;
                }
                actions.add(new Delete(row.getRow()).addFamily(FAMILY, number - 1));
                count++;
                if (actions.size() == PAGE) {
                    batch(table, actions);
                    actions.clear();
                }
            }
        }
        batch(table, actions);
        return count;
    }

    /** Rows of one place once more in another, whose keys begin with `prefix` in place of `from`; how many. */
    public long copy(String table, byte[] from, byte[] to, String target, byte[] prefix, long number, boolean isOver)
            throws IOException, InterruptedException {
        long count = 0;
        long bytes = 0;
        List<Row> actions = new ArrayList<>();
        Scan scan = new Scan().withStartRow(from).withStopRow(to).addFamily(FAMILY).setCaching(PAGE);
        try (Table open = connection.getTable(TableName.valueOf(table)); ResultScanner scanner = open.getScanner(scan)) {
            for (Result row = scanner.next(); row != null; row = scanner.next()) {
                byte[] behind = java.util.Arrays.copyOfRange(row.getRow(), from.length, row.getRow().length);
                Put put = new Put(Bytes.add(prefix, behind));
                for (Cell cell : row.rawCells()) {
                    put.addColumn(FAMILY, CellUtil.cloneQualifier(cell), number, CellUtil.cloneValue(cell));
                }
                actions.add(isOver ? over(put, number) : put);
                count++;
                bytes += put.heapSize();
                if (actions.size() == PAGE || bytes > PAGE_BYTES) {
                    batch(target, actions);
                    actions.clear();
                    bytes = 0;
                }
            }
        }
        batch(target, actions);
        return count;
    }

    @Override
    public void close() throws IOException {
        connection.close();
    }

    private static RowMutations over(Put put, long number) throws IOException {
        Delete older = new Delete(put.getRow()).addFamily(FAMILY, number - 1);
        return new RowMutations(put.getRow()).add(List.of(older, put));
    }

    private void batch(String table, List<? extends Row> actions) throws IOException, InterruptedException {
        if (!actions.isEmpty()) {
            try (Table open = connection.getTable(TableName.valueOf(table))) {
                open.batch(actions, new Object[actions.size()]);
            }
        }
    }

    /** Of each row one cell without its value. */
    private static FilterList firstKeys() {
        return new FilterList(new FirstKeyOnlyFilter(), new KeyOnlyFilter());
    }

    private static byte[] page(List<Result> rows) throws IOException {
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(found);
        for (Result row : rows) {
            if (row.isEmpty()) {
                continue;
            }
            put(out, row.getRow());
            out.writeInt(row.size());
            for (Cell cell : row.rawCells()) {
                put(out, CellUtil.cloneQualifier(cell));
                put(out, CellUtil.cloneValue(cell));
            }
        }
        return found.toByteArray();
    }

    private static void put(DataOutputStream out, byte[] value) throws IOException {
        out.writeInt(value.length);
        out.write(value);
    }

    private static byte[] bytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        return length < 0 ? null : in.readNBytes(length);
    }
}
