package seamline.connect;

import com.github.shyiko.mysql.binlog.event.deserialization.ColumnType;
import com.github.shyiko.mysql.binlog.event.deserialization.json.JsonBinary;
import com.github.shyiko.mysql.binlog.event.deserialization.json.JsonFormatter;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * A document of the binlog as MySQL itself prints it: {@code CAST(column AS CHAR)}. Debezium's text leaves the spaces out, prints
 * a double as the exact number that it is (so 1e15 as the integer 1000000000000000), a negative TIME wrongly, and bytes as a
 * text that any string could be.
 */
final class DocumentsAsPrinted implements JsonFormatter {

    /** The server prints an exponent beyond, unless digits stand behind the point (seen with 9.7.4; my_gcvt of its dtoa.cc). */
    private static final int DIGITS_OF_DOUBLE = 15;

    /** The server breaks its lines so, also inside of a text. */
    private static final Base64.Encoder BASE64 = Base64.getMimeEncoder(76, new byte[] {'\n'});

    private final StringBuilder text = new StringBuilder();

    static String of(byte[] document) throws IOException {
        if (document.length == 0) {
            // What a server stores that was set to ignore that a value is missing.
            return "null";
        }
        DocumentsAsPrinted printed = new DocumentsAsPrinted();
        new Binary(document).parse(printed);
        return printed.text.toString();
    }

    /** Its own reader takes the parts of a negative TIME from a number below zero, and loses minutes of late years. */
    private static final class Binary extends JsonBinary {

        Binary(byte[] document) {
            super(document);
        }

        @Override
        protected void parseTime(JsonFormatter into) throws IOException {
            long packed = readInt64();
            long time = Math.abs(packed);
            ((DocumentsAsPrinted) into).time(packed < 0, time >> 36 & 0x3ff, time >> 30 & 0x3f, time >> 24 & 0x3f, time & 0xffffff);
        }

        @Override
        protected void parseDatetime(JsonFormatter into) throws IOException {
            long packed = readInt64();
            long months = packed >> 46;
            into.valueDatetime(
                    (int) (months / 13), (int) (months % 13), (int) (packed >> 41 & 0x1f), (int) (packed >> 36 & 0x1f),
                    (int) (packed >> 30 & 0x3f), (int) (packed >> 24 & 0x3f), (int) (packed & 0xffffff));
        }

        @Override
        protected void parseDate(JsonFormatter into) throws IOException {
            long packed = readInt64();
            long months = packed >> 46;
            into.valueDate((int) (months / 13), (int) (months % 13), (int) (packed >> 41 & 0x1f));
        }
    }

    private void time(boolean isNegative, long hours, long minutes, long seconds, long micros) {
        text.append('"').append(isNegative ? "-" : "").append("%02d:%02d:%02d.%06d\"".formatted(hours, minutes, seconds, micros));
    }

    @Override
    public void beginObject(int entries) {
        text.append('{');
    }

    @Override
    public void beginArray(int entries) {
        text.append('[');
    }

    @Override
    public void endObject() {
        text.append('}');
    }

    @Override
    public void endArray() {
        text.append(']');
    }

    @Override
    public void nextEntry() {
        text.append(", ");
    }

    @Override
    public void name(String name) {
        value(name);
        text.append(": ");
    }

    @Override
    public void value(String value) {
        text.append('"');
        for (int at = 0; at < value.length(); at++) {
            char letter = value.charAt(at);
            switch (letter) {
                case '"' -> text.append("\\\"");
                case '\\' -> text.append("\\\\");
                case '\b' -> text.append("\\b");
                case '\f' -> text.append("\\f");
                case '\n' -> text.append("\\n");
                case '\r' -> text.append("\\r");
                case '\t' -> text.append("\\t");
                default -> {
                    if (letter < ' ') {
                        text.append("\\u%04x".formatted((int) letter));
                    } else {
                        text.append(letter);
                    }
                }
            }
        }
        text.append('"');
    }

    @Override
    public void value(int value) {
        text.append(value);
    }

    @Override
    public void value(long value) {
        text.append(value);
    }

    @Override
    public void value(BigInteger value) {
        text.append(value);
    }

    @Override
    public void value(BigDecimal value) {
        text.append(value.toPlainString());
    }

    @Override
    public void value(boolean value) {
        text.append(value);
    }

    @Override
    public void valueNull() {
        text.append("null");
    }

    /** The fewest digits that read back as the number; a point or an exponent says that it is a double. */
    @Override
    public void value(double value) {
        if (value == 0) {
            text.append(1 / value < 0 ? "-0.0" : "0.0");
            return;
        }
        BigDecimal shortest = shortest(value);
        String digits = shortest.unscaledValue().abs().toString();
        int point = digits.length() - shortest.scale();
        text.append(value < 0 ? "-" : "");
        if (point <= -DIGITS_OF_DOUBLE || point > DIGITS_OF_DOUBLE && point >= digits.length()) {
            text.append(digits.charAt(0)).append(digits.length() > 1 ? "." + digits.substring(1) : "").append('e').append(point - 1);
        } else if (point <= 0) {
            text.append("0.").append("0".repeat(-point)).append(digits);
        } else if (point >= digits.length()) {
            text.append(digits).append("0".repeat(point - digits.length())).append(".0");
        } else {
            text.append(digits, 0, point).append('.').append(digits, point, digits.length());
        }
    }

    private static BigDecimal shortest(double value) {
        BigDecimal exact = new BigDecimal(value);
        for (int digits = 1; digits < 17; digits++) {
            BigDecimal rounded = exact.round(new MathContext(digits, RoundingMode.HALF_EVEN));
            if (rounded.doubleValue() == value) {
                return rounded.stripTrailingZeros();
            }
        }
        return exact.round(new MathContext(17, RoundingMode.HALF_EVEN)).stripTrailingZeros();
    }

    @Override
    public void valueYear(int year) {
        text.append(year);
    }

    @Override
    public void valueDate(int year, int month, int day) {
        text.append("\"%04d-%02d-%02d\"".formatted(year, month, day));
    }

    @Override
    public void valueDatetime(int year, int month, int day, int hour, int minute, int second, int micros) {
        text.append("\"%04d-%02d-%02d %02d:%02d:%02d.%06d\"".formatted(year, month, day, hour, minute, second, micros));
    }

    @Override
    public void valueTime(int hours, int minutes, int seconds, int micros) {
        throw new IllegalStateException("a TIME is read by its sign");
    }

    @Override
    public void valueTimestamp(long second, int micros) {
        // The server keeps a TIMESTAMP in a document as a DATETIME.
        throw new IllegalStateException("a document holds a TIMESTAMP");
    }

    @Override
    public void valueOpaque(ColumnType type, byte[] bytes) {
        value("base64:type" + type.getCode() + ":" + new String(BASE64.encode(bytes), StandardCharsets.US_ASCII));
    }
}
