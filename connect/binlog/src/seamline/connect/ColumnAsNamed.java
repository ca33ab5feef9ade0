package seamline.connect;

import com.github.shyiko.mysql.binlog.event.deserialization.ColumnType;
import io.debezium.antlr.AntlrDdlParser;
import io.debezium.relational.Column;
import io.debezium.relational.ColumnEditor;
import java.sql.Types;
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

    private static final int UUID_BYTES = 16;
    private static final String LETTERS = "utf8mb4";

    private ColumnAsNamed() {}

    /** @param labels null but for ENUM and SET, and where nobody can read them */
    record Logged(ColumnType type, int meta, boolean isUnsigned, boolean isOfBytes, List<String> labels) {

        String inWords() {
            return type + (isUnsigned ? " UNSIGNED " : " ") + meta + (labels == null ? "" : " " + labels);
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
    static Optional<Column> of(Logged logged, Column known) {
        String words = known.typeName().toUpperCase(Locale.ROOT).replaceAll(" (UN)?SIGNED| ZEROFILL", "").strip();
        return switch (logged.type()) {
            case TINY -> number(logged, known, words, Set.of("TINYINT", "INT1", "BOOL", "BOOLEAN"), "TINYINT", Types.SMALLINT);
            case SHORT -> number(logged, known, words, Set.of("SMALLINT", "INT2"), "SMALLINT", Types.SMALLINT);
            case INT24 -> number(logged, known, words, Set.of("MEDIUMINT", "INT3", "MIDDLEINT"), "MEDIUMINT", Types.INTEGER);
            case LONG -> number(logged, known, words, Set.of("INT", "INTEGER", "INT4"), "INT", Types.INTEGER);
            case LONGLONG -> number(logged, known, words, Set.of("BIGINT", "INT8", "SERIAL"), "BIGINT", Types.BIGINT);
            case FLOAT -> number(logged, known, words, FLOATS, "FLOAT", Types.FLOAT);
            case DOUBLE -> {
                boolean isLong = words.equals("FLOAT") && known.scale().isEmpty() && known.length() > FLOAT_BITS;
                yield number(logged, known, isLong ? "DOUBLE" : words, DOUBLES, "DOUBLE", Types.DOUBLE);
            }
            case NEWDECIMAL -> decimal(logged, known, words);
            case YEAR -> only(known, words, "YEAR");
            case DATE, NEWDATE -> only(known, words, "DATE");
            case DATETIME_V2 -> moment(logged, known, words, "DATETIME");
            case TIMESTAMP_V2 -> moment(logged, known, words, "TIMESTAMP");
            case TIME_V2 -> moment(logged, known, words, "TIME");
            case DATETIME -> only(known, words, "DATETIME");
            case TIMESTAMP -> only(known, words, "TIMESTAMP");
            case TIME -> only(known, words, "TIME");
            case BIT -> bits(logged, known, words);
            case ENUM, SET -> labels(logged, known, words);
            case STRING, VARCHAR, VAR_STRING, TINY_BLOB, BLOB, MEDIUM_BLOB, LONG_BLOB -> text(logged, known, words);
            default -> Optional.of(known);
        };
    }

    private static Optional<Column> only(Column known, String words, String name) {
        return words.equals(name) ? Optional.of(known) : Optional.empty();
    }

    private static Optional<Column> number(
            Logged logged, Column known, String words, Set<String> names, String name, int jdbcType) {
        if (!names.contains(words)) {
            return Optional.empty();
        }
        return Optional.of(typed(known, name + (logged.isUnsigned() ? " UNSIGNED" : ""), jdbcType));
    }

    private static Optional<Column> decimal(Logged logged, Column known, String words) {
        int precision = logged.meta() & 0xFF;
        int scale = logged.meta() >> 8;
        boolean isSame = known.length() < 0 || known.length() == precision && known.scale().orElse(0) == scale;
        return number(logged, known, words, DECIMALS, "DECIMAL", Types.DECIMAL)
                .filter(one -> isSame)
                .map(one -> one.length() < 0 ? one.edit().length(precision).scale(scale).create() : one);
    }

    private static Optional<Column> moment(Logged logged, Column known, String words, String name) {
        return only(known, words, name).filter(one -> Math.max(one.length(), 0) == logged.meta());
    }

    private static Optional<Column> bits(Logged logged, Column known, String words) {
        return only(known, words, "BIT").filter(one -> Math.max(one.length(), 1) == bits(logged));
    }

    private static int bits(Logged logged) {
        return (logged.meta() >> 8) * Byte.SIZE + (logged.meta() & 0xFF);
    }

    /** Of an alteration that was not logged; what rows hold is read by the labels that the server names. */
    private static Optional<Column> labels(Logged logged, Column known, String words) {
        if (!words.equals(logged.type().name())) {
            return Optional.empty();
        }
        List<String> read = known.enumValues().stream().map(AntlrDdlParser::withoutQuotes).toList();
        return logged.labels() == null || isSame(logged.labels(), read) ? Optional.of(known) : Optional.empty();
    }

    /** A client of the character set `binary` writes a label in bytes of which nobody knows the letters. */
    private static boolean isSame(List<String> logged, List<String> read) {
        if (logged.size() != read.size()) {
            return false;
        }
        for (int number = 0; number < logged.size(); number++) {
            boolean isPlain = isAscii(logged.get(number)) && isAscii(read.get(number));
            if (isPlain && !plain(logged.get(number)).equals(plain(read.get(number)))) {
                return false;
            }
        }
        return true;
    }

    private static boolean isAscii(String label) {
        return label.chars().allMatch(letter -> letter < 0x80);
    }

    /** Quotes are doubled or escaped; a label with a backslash is refused when it is planned. */
    private static String plain(String label) {
        return label.replace("\\", "").replace("''", "'").stripTrailing();
    }

    private static Optional<Column> text(Logged logged, Column known, String words) {
        boolean isBytes = OF_BYTES.contains(words);
        if (OTHERS_THAN_TEXTS.contains(words) || isBytes && !logged.isOfBytes()) {
            return Optional.empty();
        }
        if (!logged.isOfBytes()) {
            return Optional.of(known);
        }
        return switch (logged.type()) {
            case STRING -> words.equals("BINARY") || words.contains("CHAR") ? bytes(logged, known, words) : Optional.of(known);
            case VARCHAR, VAR_STRING -> Optional.of(isBytes ? known : typed(known, "VARBINARY", Types.VARBINARY));
            default -> Optional.of(words.contains("TEXT") || words.contains("CHAR") ? typed(known, "BLOB", Types.BLOB) : known);
        };
    }

    /** BINARY, of which the connector pads the values. */
    private static Optional<Column> bytes(Logged logged, Column known, String words) {
        int length = binaryLength(logged);
        boolean isOther = words.equals("BINARY") && known.length() > 0 && known.length() != length;
        Column typed = typed(known, "BINARY", Types.BINARY);
        return isOther ? Optional.empty() : Optional.of(typed.length() == length ? typed : typed.edit().length(length).create());
    }

    /** A UUID is stored in as many bytes as a BINARY(16), and the server names no difference. */
    static boolean mayBeUuid(Logged logged) {
        return logged.type() == ColumnType.STRING && logged.isOfBytes() && binaryLength(logged) == UUID_BYTES;
    }

    /** A column of which no statement is known. */
    static Column made(Logged logged, String name, boolean isOptional, String catalogued) {
        ColumnEditor column = Column.editor().name(name).optional(isOptional);
        String sign = logged.isUnsigned() ? " UNSIGNED" : "";
        return switch (logged.type()) {
            case TINY -> column.type("TINYINT" + sign).jdbcType(Types.SMALLINT).create();
            case SHORT -> column.type("SMALLINT" + sign).jdbcType(Types.SMALLINT).create();
            case INT24 -> column.type("MEDIUMINT" + sign).jdbcType(Types.INTEGER).create();
            case LONG -> column.type("INT" + sign).jdbcType(Types.INTEGER).create();
            case LONGLONG -> column.type("BIGINT" + sign).jdbcType(Types.BIGINT).create();
            case FLOAT -> column.type("FLOAT" + sign).jdbcType(Types.FLOAT).create();
            case DOUBLE -> column.type("DOUBLE" + sign).jdbcType(Types.DOUBLE).create();
            case NEWDECIMAL -> column.type("DECIMAL" + sign)
                    .jdbcType(Types.DECIMAL).length(logged.meta() & 0xFF).scale(logged.meta() >> 8).create();
            case YEAR -> column.type("YEAR").jdbcType(Types.INTEGER).create();
            case DATE, NEWDATE -> column.type("DATE").jdbcType(Types.DATE).create();
            case DATETIME_V2 -> moment(column.type("DATETIME").jdbcType(Types.TIMESTAMP), logged);
            case TIMESTAMP_V2 -> moment(column.type("TIMESTAMP").jdbcType(Types.TIMESTAMP_WITH_TIMEZONE), logged);
            case TIME_V2 -> moment(column.type("TIME").jdbcType(Types.TIME), logged);
            case DATETIME -> column.type("DATETIME").jdbcType(Types.TIMESTAMP).create();
            case TIMESTAMP -> column.type("TIMESTAMP").jdbcType(Types.TIMESTAMP_WITH_TIMEZONE).create();
            case TIME -> column.type("TIME").jdbcType(Types.TIME).create();
            case BIT -> column.type("BIT").jdbcType(Types.BIT).length(bits(logged)).create();
            case JSON -> column.type("JSON").jdbcType(Types.OTHER).create();
            case ENUM, SET -> column.type(logged.type().name()).jdbcType(Types.CHAR).charsetName(LETTERS).create();
            default -> madeText(logged, column, catalogued);
        };
    }

    private static Column moment(ColumnEditor column, Logged logged) {
        return logged.meta() > 0 ? column.length(logged.meta()).create() : column.create();
    }

    /** Texts come as such, whatever their character set. */
    private static Column madeText(Logged logged, ColumnEditor column, String catalogued) {
        if (mayBeUuid(logged) && catalogued.equalsIgnoreCase("uuid")) {
            return column.type("UUID").jdbcType(Types.OTHER).create();
        }
        boolean isFixed = logged.type() == ColumnType.STRING;
        if (logged.type() == ColumnType.VARCHAR || logged.type() == ColumnType.VAR_STRING || isFixed && !logged.isOfBytes()) {
            return logged.isOfBytes()
                    ? column.type("VARBINARY").jdbcType(Types.VARBINARY).create()
                    : column.type("VARCHAR").jdbcType(Types.VARCHAR).charsetName(LETTERS).create();
        }
        if (isFixed) {
            return column.type("BINARY").jdbcType(Types.BINARY).length(binaryLength(logged)).create();
        }
        return logged.isOfBytes()
                ? column.type("LONGBLOB").jdbcType(Types.BLOB).create()
                : column.type("LONGTEXT").jdbcType(Types.VARCHAR).charsetName(LETTERS).create();
    }

    private static int binaryLength(Logged logged) {
        return (logged.meta() >> 4 & 0x300 ^ 0x300) + (logged.meta() & 0xFF);
    }

    private static Column typed(Column known, String name, int jdbcType) {
        boolean isSame = known.typeName().equalsIgnoreCase(name) && known.jdbcType() == jdbcType;
        return isSame ? known : known.edit().type(name).jdbcType(jdbcType).create();
    }
}
