package seamline.connect;

import io.debezium.connector.binlog.charset.BinlogCharsetRegistry;
import io.debezium.jdbc.JdbcConnection;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;

/**
 * How the bytes of the server's character sets are read.
 *
 * Debezium reads those of single bytes by Java's tables, of which some have other letters than the server (greek, cp866),
 * some have none for a byte where the server has one (latin1), and some are those of another set (hp8).
 */
final class Letters {

    /** The text that bytes of one character set are. */
    interface Reading {
        String text(byte[] bytes);
    }

    /** A line per set: its name, and the UTF-16 units, in hex, of the bytes 80 to FF; those below are ASCII. */
    private static final String TABLES = "letters.txt";

    private final Map<String, String> ofSingleBytes = new HashMap<>();
    private final Map<String, Reading> ofServer = new HashMap<>();
    private final BinlogCharsetRegistry others;
    private final JdbcConnection server;

    /**
     * @param server is asked for the letters of some sets, once for each
     * @param others what Debezium knows of those that are not in our table
     */
    Letters(JdbcConnection server, BinlogCharsetRegistry others) {
        this.server = server;
        this.others = others;
        try (InputStream tables = Letters.class.getResourceAsStream(TABLES)) {
            new String(tables.readAllBytes(), StandardCharsets.US_ASCII).lines().forEach(this::add);
        } catch (IOException broken) {
            throw new IllegalStateException(TABLES + " in the jar of these classes cannot be read", broken);
        }
    }

    private void add(String line) {
        String[] parts = line.split(" ");
        byte[] units = HexFormat.of().parseHex(parts[1]);
        ofSingleBytes.put(parts[0], new String(units, StandardCharsets.UTF_16BE));
    }

    /** @return null if nobody knows its letters */
    Reading of(String set) {
        String upper = ofSingleBytes.get(set);
        if (upper != null) {
            return bytes -> text(bytes, upper);
        }
        if (LettersOfServer.know(set)) {
            return ofServer.computeIfAbsent(set, one -> LettersOfServer.of(one, server));
        }
        String encoding = others.getJavaEncodingForCharSet(set);
        if (encoding == null) {
            return null;
        }
        Charset charset = Charset.forName(encoding);
        return bytes -> new String(bytes, charset);
    }

    private static String text(byte[] bytes, String upper) {
        StringBuilder text = new StringBuilder(bytes.length);
        for (byte one : bytes) {
            text.append(one >= 0 ? (char) one : upper.charAt(one & 0x7F));
        }
        return text.toString();
    }
}
