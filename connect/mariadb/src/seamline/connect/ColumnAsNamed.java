package seamline.connect;

import com.github.shyiko.mysql.binlog.event.deserialization.ColumnType;
import io.debezium.connector.mariadb.antlr.MariaDbAntlrDdlParser;
import io.debezium.relational.Column;
import java.sql.Types;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/** One column of {@link TablesAsNamed}: what a statement says of it, held against what the server says. */
final class ColumnAsNamed {

    private static final Set<String> FLOATS = Set.of("FLOAT", "FLOAT4", "REAL");
    private static final Set<String> DOUBLES = Set.of("DOUBLE", "DOUBLE PRECISION", "FLOAT8", "REAL");
    private static final Set<String> DECIMALS = Set.of("DECIMAL", "DEC", "NUMERIC", "FIXED");
    private static final Set<String> OF_BYTES = Set.of("BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB");
    private static final Set<String> OTHERS_THAN_TEXTS = Set.of(
            "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "REAL", "DECIMAL", "NUMERIC",
            "DATE", "DATETIME", "TIMESTAMP", "TIME", "YEAR", "BIT", "ENUM", "SET");

    /** A FLOAT of more bits is a DOUBLE. */
    private static final int FLOAT_BITS = 24;

    private ColumnAsNamed() {}

    /** @param labels null but for ENUM and SET */
    record Told(ColumnType type, int meta, boolean isUnsigned, boolean isOfBytes, String[] labels) {

        String inWords() {
            return type + (isUnsigned ? " UNSIGNED " : " ") + meta + (labels == null ? "" : " " + Arrays.toString(labels));
        }
    }

    /** ENUM and SET come as STRING, with what they are in the second byte. */
    static ColumnType label(ColumnType type, int meta) {
        if (type != ColumnType.STRING) {
            return type;
        }
        int kind = meta >> 8;
        return kind == ColumnType.ENUM.getCode() ? ColumnType.ENUM : kind == ColumnType.SET.getCode() ? ColumnType.SET : type;
    }

    /** @return the column as its values are to be read; nothing if it is another one */
    static Optional<Column> of(Told told, Column known) {
        String words = known.typeName().toUpperCase(Locale.ROOT).replaceAll(" (UN)?SIGNED| ZEROFILL", "").strip();
        return switch (told.type()) {
            case TINY -> number(told, known, words, Set.of("TINYINT", "INT1", "BOOL", "BOOLEAN"), "TINYINT", Types.SMALLINT);
            case SHORT -> number(told, known, words, Set.of("SMALLINT", "INT2"), "SMALLINT", Types.SMALLINT);
            case INT24 -> number(told, known, words, Set.of("MEDIUMINT", "INT3", "MIDDLEINT"), "MEDIUMINT", Types.INTEGER);
            case LONG -> number(told, known, words, Set.of("INT", "INTEGER", "INT4"), "INT", Types.INTEGER);
            case LONGLONG -> number(told, known, words, Set.of("BIGINT", "INT8", "SERIAL"), "BIGINT", Types.BIGINT);
            case FLOAT -> number(told, known, words, FLOATS, "FLOAT", Types.FLOAT);
            case DOUBLE -> {
                boolean isLong = words.equals("FLOAT") && known.scale().isEmpty() && known.length() > FLOAT_BITS;
                yield number(told, known, isLong ? "DOUBLE" : words, DOUBLES, "DOUBLE", Types.DOUBLE);
            }
            case NEWDECIMAL -> decimal(told, known, words);
            case YEAR -> only(known, words, "YEAR");
            case DATE, NEWDATE -> only(known, words, "DATE");
            case DATETIME_V2 -> moment(told, known, words, "DATETIME");
            case TIMESTAMP_V2 -> moment(told, known, words, "TIMESTAMP");
            case TIME_V2 -> moment(told, known, words, "TIME");
            case DATETIME -> only(known, words, "DATETIME");
            case TIMESTAMP -> only(known, words, "TIMESTAMP");
            case TIME -> only(known, words, "TIME");
            case BIT -> bits(told, known, words);
            case ENUM, SET -> labels(told, known, words);
            case STRING, VARCHAR, VAR_STRING, TINY_BLOB, BLOB, MEDIUM_BLOB, LONG_BLOB -> text(told, known, words);
            default -> Optional.of(known);
        };
    }

    private static Optional<Column> only(Column known, String words, String name) {
        return words.equals(name) ? Optional.of(known) : Optional.empty();
    }

    private static Optional<Column> number(
            Told told, Column known, String words, Set<String> names, String name, int jdbcType) {
        if (!names.contains(words)) {
            return Optional.empty();
        }
        return Optional.of(typed(known, name + (told.isUnsigned() ? " UNSIGNED" : ""), jdbcType));
    }

    private static Optional<Column> decimal(Told told, Column known, String words) {
        int precision = told.meta() & 0xFF;
        int scale = told.meta() >> 8;
        boolean isSame = known.length() < 0 || known.length() == precision && known.scale().orElse(0) == scale;
        return number(told, known, words, DECIMALS, "DECIMAL", Types.DECIMAL)
                .filter(one -> isSame)
                .map(one -> one.length() < 0 ? one.edit().length(precision).scale(scale).create() : one);
    }

    private static Optional<Column> moment(Told told, Column known, String words, String name) {
        return only(known, words, name).filter(one -> Math.max(one.length(), 0) == told.meta());
    }

    private static Optional<Column> bits(Told told, Column known, String words) {
        int bits = (told.meta() >> 8) * Byte.SIZE + (told.meta() & 0xFF);
        return only(known, words, "BIT").filter(one -> Math.max(one.length(), 1) == bits);
    }

    /** The server takes trailing blanks off. A label that is not in UTF-8 cannot be compared. */
    private static Optional<Column> labels(Told told, Column known, String words) {
        if (!words.equals(told.type().name())) {
            return Optional.empty();
        }
        List<String> labels = known.enumValues().stream().map(ColumnAsNamed::withoutBlanks).toList();
        List<String> read = MariaDbAntlrDdlParser.extractEnumAndSetOptions(labels);
        if (told.labels() != null && !isSame(told.labels(), read)) {
            return Optional.empty();
        }
        return Optional.of(labels.equals(known.enumValues()) ? known : known.edit().enumValues(labels).create());
    }

    private static boolean isSame(String[] told, List<String> read) {
        if (told.length != read.size()) {
            return false;
        }
        for (int number = 0; number < told.length; number++) {
            boolean isReadable = told[number].indexOf('\uFFFD') < 0;
            if (isReadable && !plain(told[number]).equals(plain(read.get(number)))) {
                return false;
            }
        }
        return true;
    }

    /** Debezium escapes commas and leaves quotes doubled; a label with a backslash is refused when it is planned. */
    private static String plain(String label) {
        return label.replace("\\", "").replace("''", "'").stripTrailing();
    }

    private static String withoutBlanks(String label) {
        return label.endsWith("'") ? label.substring(0, label.length() - 1).replaceFirst(" +\\z", "") + "'" : label;
    }

    private static Optional<Column> text(Told told, Column known, String words) {
        boolean isBytes = OF_BYTES.contains(words);
        if (OTHERS_THAN_TEXTS.contains(words) || isBytes && !told.isOfBytes()) {
            return Optional.empty();
        }
        if (!told.isOfBytes()) {
            return Optional.of(known);
        }
        return switch (told.type()) {
            case STRING -> words.equals("BINARY") || words.contains("CHAR") ? bytes(told, known, words) : Optional.of(known);
            case VARCHAR, VAR_STRING -> Optional.of(isBytes ? known : typed(known, "VARBINARY", Types.VARBINARY));
            default -> Optional.of(words.contains("TEXT") || words.contains("CHAR") ? typed(known, "BLOB", Types.BLOB) : known);
        };
    }

    /** BINARY, of which the connector pads the values. */
    private static Optional<Column> bytes(Told told, Column known, String words) {
        int length = (told.meta() >> 4 & 0x300 ^ 0x300) + (told.meta() & 0xFF);
        boolean isOther = words.equals("BINARY") && known.length() > 0 && known.length() != length;
        Column typed = typed(known, "BINARY", Types.BINARY);
        return isOther ? Optional.empty() : Optional.of(typed.length() == length ? typed : typed.edit().length(length).create());
    }

    private static Column typed(Column known, String name, int jdbcType) {
        boolean isSame = known.typeName().equalsIgnoreCase(name) && known.jdbcType() == jdbcType;
        return isSame ? known : known.edit().type(name).jdbcType(jdbcType).create();
    }
}
