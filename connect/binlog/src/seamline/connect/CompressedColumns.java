package seamline.connect;

import com.github.shyiko.mysql.binlog.event.deserialization.ColumnType;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.BitSet;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;
import org.apache.kafka.connect.errors.DataException;

/**
 * COMPRESSED columns. A server names them by types that Debezium's client does not know, which ended its task at the first row of
 * any table that has one, in whatever database.
 */
final class CompressedColumns {

    /** MYSQL_TYPE_BLOB_COMPRESSED and MYSQL_TYPE_VARCHAR_COMPRESSED; their values stand as those of BLOB and VARCHAR. */
    private static final int BLOB = 140;

    private static final int VARCHAR = 141;

    /** What the first byte of a value says: how it is compressed, whether without zlib's header, and the bytes of its length. */
    private static final int METHOD_SHIFT = 4;

    private static final int ZLIB = 8;
    private static final int IS_RAW = 8;
    private static final int LENGTH_BYTES = 7;

    private CompressedColumns() {}

    /**
     * Gives such columns, in the bytes in which the server names a table, the types of those that are not compressed.
     *
     * @return which they are
     */
    static BitSet uncover(byte[] event) throws IOException {
        var named = LabelsAsNamed.columns(event);
        int columns = named.readPackedInteger();
        int types = event.length - named.available();
        BitSet found = new BitSet(columns);
        for (int column = 0; column < columns; column++) {
            int type = event[types + column] & 0xFF;
            if (type == VARCHAR || type == BLOB) {
                event[types + column] = (byte) (type == VARCHAR ? ColumnType.VARCHAR : ColumnType.BLOB).getCode();
                found.set(column);
            }
        }
        return found;
    }

    static byte[] read(byte[] stored) {
        if (stored.length == 0) {
            return stored;
        }
        int method = (stored[0] & 0xFF) >> METHOD_SHIFT;
        if (method == 0) {
            return Arrays.copyOfRange(stored, 1, stored.length);
        }
        if (method != ZLIB) {
            throw new DataException("A value of a COMPRESSED column is compressed in an unknown way: " + method);
        }
        int start = 1 + (stored[0] & LENGTH_BYTES);
        Inflater inflater = new Inflater((stored[0] & IS_RAW) != 0);
        try {
            inflater.setInput(stored, start, stored.length - start);
            return inflated(inflater);
        } catch (DataFormatException broken) {
            throw new DataException("A value of a COMPRESSED column cannot be read", broken);
        } finally {
            inflater.end();
        }
    }

    private static byte[] inflated(Inflater inflater) throws DataFormatException {
        ByteArrayOutputStream whole = new ByteArrayOutputStream();
        byte[] piece = new byte[8192];
        while (!inflater.finished()) {
            int length = inflater.inflate(piece);
            if (length == 0 && (inflater.needsInput() || inflater.needsDictionary())) {
                throw new DataFormatException("it ends early");
            }
            whole.write(piece, 0, length);
        }
        return whole.toByteArray();
    }
}
