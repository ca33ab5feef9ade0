"""Wire forms of Debezium's MariaDB connector 3.5.0.Final with the settings of a Seamline capture (decimal and bytes as
text, times in microseconds)."""

from seamline.databases.postgres.canonical import text_literal
from seamline.databases.postgres.types import destination_type
from seamline.domain.catalogue import Column, Kind
from seamline.sinks.postgres.wire import REAL, TEXT, TRUTH, UNLIMITED, WHOLE, WireForm, WireForms, moment, unit_of

# What connect/ writes for an invalid date, as 0000-00-00 or 2026-02-31: a day in 10,000 BC (RowsAsStored.java).
_NO_DATE_DAYS = -4_371_587
_PER_DAY = {"millisecond": 86_400_000, "microsecond": 86_400_000_000}


def _form(column: Column) -> WireForm:
    match column.kind:
        case Kind.INTEGER | Kind.YEAR | Kind.DATE | Kind.DATETIME | Kind.TIME:
            return WHOLE
        case Kind.FLOAT | Kind.DOUBLE:
            return REAL
        case Kind.BOOLEAN:
            return TRUTH
        case Kind.BITS:
            return TRUTH if column.length == 1 else TEXT
        case _:
            return TEXT


def _cast(column: Column, *, of: str) -> str:
    match column.kind:
        case Kind.UNSIGNED:
            return _unsigned(of)
        case Kind.CHAR | Kind.STRING:
            return f"{of}::{UNLIMITED}"
        case Kind.BITS:
            return f"{of}::int::bigint" if column.length == 1 else _little_endian(of, column)
        case Kind.BINARY | Kind.BYTES:
            return f"decode({of},'base64')"
        case Kind.DATE | Kind.DATETIME | Kind.INSTANT:
            return _dated(column, of)
        case Kind.TIME:
            return f"({of}*interval '1 microsecond')"
        case Kind.ENUM | Kind.YEAR:
            return _mended(column, of)
        case _:
            return f"{of}::{destination_type(column)}"


def _dated(column: Column, of: str) -> str:
    """An invalid date fails the statement with a text that says so; the snapshot's reader refuses it too."""
    match column.kind:
        case Kind.DATE:
            is_none, value = f"{of}={_NO_DATE_DAYS}", f"date '1970-01-01'+{of}::int"
        case Kind.DATETIME:
            # Up to three digits arrive as milliseconds, more as microseconds (time.precision.mode).
            unit = unit_of(column)
            is_none, value = f"{of}={_NO_DATE_DAYS * _PER_DAY[unit]}", moment(of, unit)
        case _:
            is_none, value = f"starts_with({of},'-9999-')", f"{of}::{destination_type(column)}"
    what = text_literal(f"column {column.name} holds an invalid date, as 0000-00-00, written as ")
    return f"(CASE WHEN {is_none} THEN ({what}||{of})::{destination_type(column)} ELSE {value} END)"


def _mended(column: Column, of: str) -> str:
    """What the connector writes otherwise than it is: the year 0000 arrives as 1900, which a YEAR cannot hold
    (3.5.0.Final). A log of before ADR 31 has a backslash before a comma inside a label; no label had its own then."""
    if column.kind is Kind.YEAR:
        return f"(CASE {of} WHEN 1900 THEN 0 ELSE {of} END)::smallint"
    return of if "\\" in column.source_type else f"replace({of},'\\,',',')"


def _unsigned(of: str) -> str:
    # `bigint.unsigned.handling.mode=precise`: base64 of the two's complement, big end first, as short as it can be.
    digits = f"right('000000000000000'||encode(decode({of},'base64'),'hex'),16)"
    high, low = (f"('x'||substr({digits},{start},8))::bit(32)::bigint" for start in (1, 9))
    # bit(32)::bigint keeps the sign bit out: 32 bits never reach bit 63.
    return f"(({high})::numeric*4294967296+({low}))"


def _little_endian(of: str, column: Column) -> str:
    value = f"decode({of},'base64')"
    parts = [
        f"(CASE WHEN octet_length({value})>{index} THEN get_byte({value},{index}) ELSE 0 END)::numeric*{256**index}"
        for index in range((column.length + 7) // 8)
    ]
    return f"(CASE WHEN {of} IS NULL THEN NULL ELSE ({'+'.join(parts)})::{destination_type(column)} END)"


MARIADB = WireForms(_form, _cast)
