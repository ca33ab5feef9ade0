package seamline.connect;

import io.debezium.spi.converter.CustomConverter;
import io.debezium.spi.converter.RelationalColumn;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.sql.Types;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.errors.DataException;

/**
 * Texts in character sets of single bytes, with the letters that the server has for them.
 *
 * Debezium reads them by Java's tables, of which some have other letters (greek, cp866), some have none for a byte where
 * the server has one (latin1), and some are those of another set (hp8).
 */
public class ServerLetters implements CustomConverter<SchemaBuilder, RelationalColumn> {

    /** A line per set: its name, and the UTF-16 units, in hex, of the bytes 80 to FF; those below are ASCII. */
    private static final String TABLES = "letters.txt";

    private static final Set<String> LABELS = Set.of("ENUM", "SET");

    private final Map<String, String> letters = new HashMap<>();

    @Override
    public void configure(Properties settings) {
        try (InputStream tables = ServerLetters.class.getResourceAsStream(TABLES)) {
            new String(tables.readAllBytes(), StandardCharsets.US_ASCII).lines().forEach(this::add);
        } catch (IOException broken) {
            throw new IllegalStateException(TABLES + " in the jar of these classes cannot be read", broken);
        }
    }

    @Override
    public void converterFor(RelationalColumn column, ConverterRegistration<SchemaBuilder> registration) {
        String set = column.charsetName();
        String upper = set == null ? null : letters.get(set.toLowerCase(Locale.ROOT));
        if (upper != null && isText(column)) {
            registration.register(SchemaBuilder.string(), value -> text(column, upper, value));
        }
    }

    private void add(String line) {
        String[] parts = line.split(" ");
        byte[] units = HexFormat.of().parseHex(parts[1]);
        letters.put(parts[0], new String(units, StandardCharsets.UTF_16BE));
    }

    private static boolean isText(RelationalColumn column) {
        boolean isOfLetters = column.jdbcType() == Types.CHAR || column.jdbcType() == Types.VARCHAR;
        return isOfLetters && !LABELS.contains(column.typeName().toUpperCase(Locale.ROOT));
    }

    /** @param value bytes of a row, or a column's default, which stands in a statement and is text already */
    private static String text(RelationalColumn column, String upper, Object value) {
        if (value == null || value instanceof String) {
            return (String) value;
        }
        if (!(value instanceof byte[] bytes)) {
            throw new DataException("a text of " + column.name() + " came as " + value.getClass());
        }
        StringBuilder text = new StringBuilder(bytes.length);
        for (byte one : bytes) {
            text.append(one >= 0 ? (char) one : upper.charAt(one & 0x7F));
        }
        return text.toString();
    }
}
