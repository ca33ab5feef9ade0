"""Canonical texts `cdg1` as expressions of MariaDB and MySQL. The meaning of each is in `seamline.domain.canonical`.

The session must have `time_zone='+00:00'`. Measured on MariaDB 11.4.5: a derived table that holds the hash must not be
merged (`optimizer_switch='derived_merge=off'`), else each use computes it again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from seamline.domain.canonical import COUNTED_KINDS, NULL_FIELD, exact_columns, is_folded_key, literal_text
from seamline.domain.catalogue import Column, Kind, Table

_UTF8 = "CONVERT({name} USING utf8mb4)"
_TEXT = f"{_UTF8} COLLATE {{collation}}"
# `+0`: ZEROFILL would print zeros, BIT its raw bytes. A DECIMAL keeps its scale.
_NUMBER = "CAST({name}+0 AS CHAR)"
# A zero date has no distance from 1970: it keeps its own text behind a mark.
# A typed literal: a string would be read again for every row.
_MOMENT = "COALESCE(TIMESTAMPDIFF(MICROSECOND,TIMESTAMP'1970-01-01 00:00:00',{name}),CONCAT('!',{name}))"
_FLOAT = "CAST(CAST({name} AS DOUBLE) AS CHAR)"
_SPAN = "CAST(CAST({micros} AS SIGNED) AS CHAR)"
_HEX = "LOWER(HEX({name}))"
_EXPRESSIONS = {
    Kind.INTEGER: _NUMBER,
    Kind.UNSIGNED: _NUMBER,
    Kind.BITS: _NUMBER,
    Kind.YEAR: _NUMBER,
    Kind.BOOLEAN: _NUMBER,
    Kind.DECIMAL: _NUMBER,
    Kind.FLOAT: _FLOAT,
    Kind.DOUBLE: _FLOAT,
    # The server takes the padding off, in every session that does not ask for PAD_CHAR_TO_FULL_LENGTH.
    Kind.CHAR: _TEXT,
    Kind.STRING: _TEXT,
    Kind.ENUM: _TEXT,
    Kind.SET: _TEXT,
    Kind.JSON: _TEXT,
    Kind.BINARY: _HEX,
    Kind.BYTES: _HEX,
    Kind.DATE: "CAST({name} AS CHAR)",
    Kind.UUID: "{uuid}",
    Kind.DATETIME: _MOMENT,
    Kind.INSTANT: _MOMENT,
    Kind.TIME: _SPAN,
    # What only a destination has, of a source of another engine. An interval is its canonical text there.
    Kind.TIME_OF_DAY: _SPAN,
    Kind.INTERVAL: _TEXT,
    Kind.JSONB: _TEXT,
    Kind.NATIVE: _TEXT,
}
_NUMBERS = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.BITS, Kind.YEAR, Kind.BOOLEAN, Kind.DECIMAL})
# CONCAT itself prints these as `_NUMBER` does, unless they are ZEROFILL.
_PRINTED_ALIKE = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.DECIMAL})


@dataclass(frozen=True, slots=True)
class Dialect:
    """In which the servers of the family differ. `collation`: bytes decide, trailing spaces count; no collation of the
    source may join what is different. `micros`: the microseconds of a TIME. `document`: a JSON as the
    server's own text. `uuid`, `uuid_literal`: the text of a UUID, and one as the column has it; only a destination
    has such a column in MySQL."""

    collation: str
    micros: str
    document: str
    uuid: str
    uuid_literal: str


MARIADB = Dialect(
    collation="utf8mb4_nopad_bin",
    micros="TIME_TO_SEC({name})*1000000",
    document="{name}",
    uuid="CAST({name} AS CHAR)",
    uuid_literal="{text}",
)
# Measured on MySQL 9.7.4. TIME_TO_SEC drops the fraction, and with it the sign of a TIME within a second of zero.
MYSQL = Dialect(
    collation="utf8mb4_0900_bin",
    micros="(TIME_TO_SEC({name})*1000000+IF({name}<TIME'00:00:00',-1,1)*MICROSECOND({name}))",
    # A client may print a document that it is given as one: connectorx leaves the spaces out.
    document="CAST({name} AS CHAR)",
    uuid="BIN_TO_UUID({name})",
    uuid_literal="UUID_TO_BIN({text})",
)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def text_literal(text: str) -> str:
    """A literal that no sql_mode reads differently: its bytes in hex."""
    return f"_utf8mb4 x'{text.encode().hex()}'" if text else "''"


def literal(column: Column, canonical: str, *, dialect: Dialect = MARIADB) -> str:
    """A canonical text as a literal of the column's own type, so that an index on the column is used."""
    if column.kind in _NUMBERS:
        # A number in quotes would be compared as DOUBLE and lose digits beyond 2^53. PostgreSQL's numeric holds NaN and
        # infinities too, which no row here can.
        number = Decimal(canonical)
        # Never with an exponent: that would be a DOUBLE.
        return f"{number:f}" if number.is_finite() else "NULL"
    if column.kind in (Kind.BINARY, Kind.BYTES):
        return f"x'{bytes.fromhex(canonical).hex()}'"
    text = text_literal(literal_text(column, canonical))
    return dialect.uuid_literal.format(text=text) if column.kind is Kind.UUID else text


def canonical_expression(column: Column, *, dialect: Dialect = MARIADB) -> str:
    """The canonical text of a column; NULL for NULL."""
    name = quoted(column.name)
    return _EXPRESSIONS[column.kind].format(
        name=name,
        collation=dialect.collation,
        micros=dialect.micros.format(name=name),
        uuid=dialect.uuid.format(name=name),
    )


def field_expression(column: Column, *, utf8: Collection[str] = (), dialect: Dialect = MARIADB) -> str:
    """The field of a column inside a row text, never NULL (unless the text outgrows max_allowed_packet).

    `utf8`: the columns whose letters the server keeps as utf8mb4; they are taken as they are.
    """
    text = canonical_expression(column, dialect=dialect)
    if column.kind in _NUMBERS:
        field = _number_field(column)
    elif column.kind not in COUNTED_KINDS:
        field = text
    else:
        counted = text
        if _EXPRESSIONS[column.kind] == _TEXT:
            # A length depends on no collation.
            counted = _UTF8.format(name=quoted(column.name))
            if column.name in utf8:
                counted = text = quoted(column.name)
        field = f"CONCAT(LENGTH({counted}),':',{text})"
    # Not COALESCE: a text that became NULL on the way must not pass for a NULL of the table.
    return f"IF({quoted(column.name)} IS NULL,'{NULL_FIELD}',{field})" if column.nullable else field


def _number_field(column: Column) -> str:
    """What CONCAT makes the digits of. Without `+0` a digest of 2 M rows took 3.9 s, not 4.0 (11.4.5)."""
    is_printed_alike = column.kind in _PRINTED_ALIKE and "zerofill" not in column.source_type.lower()
    return quoted(column.name) if is_printed_alike else f"{quoted(column.name)}+0"


def row_text_expression(columns: Sequence[Column], *, dialect: Dialect = MARIADB) -> str:
    return f"CONCAT({','.join(_joined(columns, (), dialect))})"


def hash_expression(table: Table, *, run_key: str, utf8: Collection[str] = (), dialect: Dialect = MARIADB) -> str:
    """Lower hex SHA-256 of run key and row text; `utf8` as in `field_expression`, it changes the cost alone."""
    parts = ",".join((text_literal(run_key), *_joined(exact_columns(table), utf8, dialect)))
    return f"SHA2(CONCAT({parts}),256)"


def bucket_expression(table: Table, *, buckets: int, row_hash: str, dialect: Dialect = MARIADB) -> str:
    """The bucket number of a row; `row_hash` is the expression of its row hash, used where there is no key."""
    if buckets == 1:
        return "0"
    if is_folded_key(table):
        folded = ""
        for column in table.key_columns:
            rest = _remainder(column, buckets)
            folded = f"MOD({folded}*31+{rest},{buckets})" if folded else rest
        return folded
    if not table.is_keyed:
        return f"MOD({hash_number(row_hash, start=1)},{buckets})"
    key_hash = f"SHA2({row_text_expression(table.key_columns, dialect=dialect)},256)"
    return f"MOD({hash_number(key_hash, start=1)},{buckets})"


def _remainder(column: Column, buckets: int) -> str:
    """A whole number modulo `buckets`, never negative."""
    name = quoted(column.name)
    if column.kind is Kind.INTEGER and buckets.bit_count() == 1:
        return f"({name}&{buckets - 1})"
    return f"MOD(MOD({name},{buckets})+{buckets},{buckets})"


def hash_number(hex_hash: str, *, start: int) -> str:
    """15 hex digits from `start` as a number. Without the CAST, SUM would become DOUBLE and lose digits."""
    return f"CAST(CONV(SUBSTR({hex_hash},{start},15),16,10) AS UNSIGNED)"


def _joined(columns: Sequence[Column], utf8: Collection[str], dialect: Dialect) -> list[str]:
    parts: list[str] = []
    for number, column in enumerate(columns):
        if number:
            parts.append("','")
        parts.append(field_expression(column, utf8=utf8, dialect=dialect))
    return parts or ["''"]
