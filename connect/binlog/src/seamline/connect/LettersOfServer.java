package seamline.connect;

import io.debezium.jdbc.JdbcConnection;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.util.HexFormat;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Character sets of one or two bytes as the server itself reads them: Java's tables of the same names have other letters for
 * some of their bytes, and not all of them.
 */
final class LettersOfServer implements Letters.Reading {

    /** Of EUC-JP (ujis, eucjpms), which has letters of three bytes, the connector knows nothing of its own. */
    private static final Set<String> SETS = Set.of("big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "swe7");

    private static final String DIGIT = IntStream.range(0, 16)
            .mapToObj(digit -> "SELECT " + digit + (digit == 0 ? " AS d" : ""))
            .collect(Collectors.joining(" UNION ALL ", "(", ")"));

    /** Each single byte, and each pair whose first byte is no ASCII. */
    private static final String ASKED = "SELECT n, HEX(CONVERT(CHAR(n USING %1$s) USING utf16)) FROM"
            + " (SELECT a.d * 4096 + b.d * 256 + c.d * 16 + e.d AS n FROM %2$s a, %2$s b, %2$s c, %2$s e) numbers"
            + " WHERE n < 256 OR n >= 32768";

    private static final int BYTES = 0x100;
    private static final String NONE = "?";

    /** What two bytes are, and in the first places what one is; null where they are no letter. */
    private final String[] letters = new String[BYTES * BYTES];

    private LettersOfServer() {}

    static boolean know(String set) {
        return SETS.contains(set);
    }

    static Letters.Reading of(String set, JdbcConnection server) {
        LettersOfServer asked = new LettersOfServer();
        try {
            server.query(String.format(ASKED, set, DIGIT), rows -> {
                while (rows.next()) {
                    String units = rows.getString(2);
                    boolean isLetter = units != null && !units.isEmpty();
                    asked.letters[rows.getInt(1)] =
                            isLetter ? new String(HexFormat.of().parseHex(units), StandardCharsets.UTF_16BE) : null;
                }
            });
        } catch (SQLException failure) {
            throw Unanswered.because(failure);
        }
        return asked;
    }

    @Override
    public String text(byte[] bytes) {
        StringBuilder text = new StringBuilder(bytes.length);
        for (int at = 0; at < bytes.length; at++) {
            int first = bytes[at] & 0xFF;
            String letter = letters[first];
            if (letter == null && at + 1 < bytes.length) {
                letter = letters[first * BYTES + (bytes[at + 1] & 0xFF)];
                at += letter == null ? 0 : 1;
            }
            text.append(letter == null ? NONE : letter);
        }
        return text.toString();
    }
}
