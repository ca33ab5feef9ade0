"""The column types of MySQL that tests go through, and a table of each."""

from collections.abc import Mapping

from seamline.domain.catalogue import Kind

# One table per type; the kind that is expected, and length or precision.
TYPES: Mapping[str, tuple[Kind, int]] = {
    "tinyint(1)": (Kind.INTEGER, 8),
    "tinyint unsigned": (Kind.INTEGER, 16),
    "smallint": (Kind.INTEGER, 16),
    "mediumint unsigned": (Kind.INTEGER, 32),
    "int": (Kind.INTEGER, 32),
    "int(8) unsigned zerofill": (Kind.INTEGER, 64),
    "bigint": (Kind.INTEGER, 64),
    "bigint unsigned": (Kind.UNSIGNED, 64),
    "decimal(20,4)": (Kind.DECIMAL, 20),
    "decimal(65,30)": (Kind.DECIMAL, 65),
    "decimal(20,0) zerofill": (Kind.DECIMAL, 20),
    "float": (Kind.FLOAT, 0),
    "float(7,3)": (Kind.FLOAT, 0),
    "double": (Kind.DOUBLE, 0),
    "bit(1)": (Kind.BITS, 1),
    "bit(9)": (Kind.BITS, 9),
    "bit(64)": (Kind.BITS, 64),
    "char(5)": (Kind.CHAR, 5),
    "varchar(60)": (Kind.STRING, 60),
    "varchar(60) collate utf8mb4_0900_ai_ci": (Kind.STRING, 60),
    "varchar(60) collate utf8mb4_bin": (Kind.STRING, 60),
    "varchar(20) character set utf8mb3": (Kind.STRING, 20),
    "tinytext": (Kind.STRING, 0),
    "longtext": (Kind.STRING, 0),
    "binary(4)": (Kind.BINARY, 4),
    "varbinary(300)": (Kind.BYTES, 300),
    "longblob": (Kind.BYTES, 0),
    "date": (Kind.DATE, 0),
    "datetime": (Kind.DATETIME, 0),
    "datetime(4)": (Kind.DATETIME, 4),
    "datetime(6)": (Kind.DATETIME, 6),
    "timestamp": (Kind.INSTANT, 0),
    "timestamp(6)": (Kind.INSTANT, 6),
    "time": (Kind.TIME, 0),
    "time(6)": (Kind.TIME, 6),
    "year": (Kind.YEAR, 0),
    "enum('ok','b,c','','it''s')": (Kind.ENUM, 0),
    "set('x','y','z')": (Kind.SET, 0),
    "json": (Kind.JSON, 0),
}
NAMES = {of: f"kind_{number}" for number, of in enumerate(TYPES)}
