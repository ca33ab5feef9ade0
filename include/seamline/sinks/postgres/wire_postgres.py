"""Wire forms of Debezium's PostgreSQL connector 3.7.0.Final with the settings of a Seamline capture (decimal and bytes
as text, `time.precision.mode=adaptive`) and its own converter of times (`seamline.connect.ExactTimes`)."""

from dataclasses import replace

from seamline.databases.postgres.native_types import comes_as_bytes
from seamline.databases.postgres.types import destination_type
from seamline.domain.catalogue import Column, Kind
from seamline.sinks.postgres.wire import (
    REAL,
    TEXT,
    TRUTH,
    UNLIMITED,
    WHOLE,
    WireForm,
    WireForms,
    moment,
    unit_of,
)

_NUMBERS = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
# Fixed numbers stand for infinity: those of the driver's own sentinels (read from the log of 3.7.0.Final).
_INFINITE_DATES = {2146033979: "infinity", -2147472691: "-infinity"}
_INFINITE_MOMENTS = {
    "millisecond": {9223372036825200000: "infinity", -9223372036832400000: "-infinity"},
    "microsecond": {9223372036854775807: "infinity", -9223372036854775808: "-infinity"},
}
# The connector's own numbers for microseconds since 1970 that are too many for 64 bits: this much, and those behind it,
# which are fewer than that to the end of 294276. Other numbers before PostgreSQL's first year are no moments.
_LAST_MOMENT, _BEHIND_LAST = "294247-01-10 04:00:54.775806", -5_000_000_000_000_000_000
_BEHIND_LAST_MAX = _BEHIND_LAST + 1_000_000_000_000_000
# The log has the shortest digits of 32 bits. By way of 64 bits one number, 7.038531e-26, would become its neighbour.
_SINGLE = replace(REAL, staging="real")
_DAY = {"millisecond": 86_400_000, "microsecond": 86_400_000_000}


def _form(column: Column) -> WireForm:
    match column.kind:
        case Kind.INTEGER | Kind.DATE | Kind.DATETIME | Kind.TIME_OF_DAY:
            return WHOLE
        case Kind.FLOAT:
            return _SINGLE
        case Kind.DOUBLE:
            return REAL
        case Kind.BOOLEAN:
            return TRUTH
        case Kind.NATIVE if column.native == "bit(1)":
            return TRUTH
        case _:
            return TEXT


def _cast(column: Column, *, of: str) -> str:
    return _of_native(column, of) if column.native else _of_kind(column, of)


def _of_native(column: Column, of: str) -> str:
    if column.native.startswith("bit("):
        return _bits(column, of)
    text = f"convert_from(decode({of},'base64'),'UTF8')" if comes_as_bytes(column) else of
    return f"{text}::{destination_type(column)}"


def _of_kind(column: Column, of: str) -> str:
    match column.kind:
        case Kind.DECIMAL:
            named = " ".join(f"WHEN '{wire}' THEN '{value}'" for wire, value in _NUMBERS.items())
            return f"(CASE {of} {named} ELSE {of} END)::{destination_type(column)}"
        case Kind.CHAR | Kind.STRING:
            # The padding is the source's way to store it.
            return f"rtrim({of})::{UNLIMITED}" if column.kind is Kind.CHAR else f"{of}::{UNLIMITED}"
        case Kind.BYTES:
            return f"decode({of},'base64')"
        case Kind.DATE:
            return _or_infinite(of, _INFINITE_DATES, f"date '1970-01-01'+{of}::int", "date")
        case Kind.DATETIME:
            unit = unit_of(column)
            finite = moment(of, unit) if unit == "millisecond" else _moment_or_behind_last(of)
            return _or_infinite(of, _INFINITE_MOMENTS[unit], finite, "timestamp")
        case Kind.INSTANT:
            return f"{_instant_text(of)}::timestamptz"
        case Kind.TIME_OF_DAY:
            unit = unit_of(column)
            return f"(CASE WHEN {of}={_DAY[unit]} THEN time '24:00' ELSE time '00:00'+{of}*interval '1 {unit}' END)"
        case _:
            return f"{of}::{destination_type(column)}"


def _bits(column: Column, of: str) -> str:
    """The last bit is the lowest of the first byte, as `get_bit` counts too; bytes of 0 at the end are left out."""
    if column.length == 1:
        return f"({of}::int)::bit(1)"
    filled = f"decode({of},'base64')||decode(repeat('00',{-(-column.length // 8)}),'hex')"
    return (
        f"(SELECT string_agg(get_bit({filled},i)::text,'' ORDER BY i DESC)"
        f" FROM generate_series(0,{column.length - 1}) AS i)::{column.native}"
    )


def _or_infinite(of: str, sentinels: dict[int, str], finite: str, stored: str) -> str:
    named = " ".join(f"WHEN {number} THEN {stored} '{value}'" for number, value in sentinels.items())
    return f"(CASE {of} {named} ELSE {finite} END)"


def _moment_or_behind_last(of: str) -> str:
    behind = f"timestamp '{_LAST_MOMENT}'+({of}-({_BEHIND_LAST}))*interval '1 microsecond'"
    is_behind = f"{of} BETWEEN {_BEHIND_LAST} AND {_BEHIND_LAST_MAX}"
    return f"CASE WHEN {is_behind} THEN {behind} ELSE {moment(of, 'microsecond')} END"


def _instant_text(of: str) -> str:
    """ISO 8601 as PostgreSQL reads it: `+294276-…` loses its sign, and `-0043-…` is 44 BC, because ISO has a year 0."""
    year = f"substring({of} from '^[+-]?[0-9]+')"
    rest = f"substring({of} from '^[+-]?[0-9]+(.*)$')"
    before = f"lpad((1-{year}::int)::text,4,'0')||{rest}||' BC'"
    # In bytes `+` and `-` stand before the digits, letters after them.
    is_plain = f"{of} COLLATE \"C\">='0001' OR {of} IN ('infinity','-infinity')"
    return f"(CASE WHEN {is_plain} THEN {of} WHEN {year}::int<1 THEN {before} ELSE ltrim({of},'+') END)"


POSTGRES = WireForms(_form, _cast)
