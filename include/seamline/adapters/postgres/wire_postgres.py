"""Wire forms of Debezium's PostgreSQL connector 3.7.0.Final with the settings of a Seamline capture (decimal and bytes
as text, `time.precision.mode=adaptive`, intervals as ISO 8601)."""

from seamline.adapters.postgres.types import destination_type
from seamline.adapters.postgres.wire import REAL, TEXT, TRUTH, WHOLE, WireForm, WireForms, moment, unit_of
from seamline.domain.catalogue import Column, Kind

_NUMBERS = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
# Fixed numbers stand for infinity: those of the driver's own sentinels (read from the log of 3.7.0.Final).
_INFINITE_DATES = {2146033979: "infinity", -2147472691: "-infinity"}
_INFINITE_MOMENTS = {9223372036854775807: "infinity", -9223372036854775808: "-infinity"}
_DAY = {"millisecond": 86_400_000, "microsecond": 86_400_000_000}
# An ISO year outside of 0001 to 9999 has a sign, and 0000 is 1 BC; PostgreSQL writes such years in its own way.
_PLAIN_YEAR = "^[0-9]{4}-"


def _form(column: Column) -> WireForm:
    match column.kind:
        case Kind.INTEGER | Kind.DATE | Kind.DATETIME | Kind.TIME_OF_DAY:
            return WHOLE
        case Kind.FLOAT | Kind.DOUBLE:
            return REAL
        case Kind.BOOLEAN:
            return TRUTH
        case _:
            return TEXT


def _cast(column: Column, *, of: str) -> str:
    match column.kind:
        case Kind.DECIMAL:
            named = " ".join(f"WHEN '{wire}' THEN '{value}'" for wire, value in _NUMBERS.items())
            return f"(CASE {of} {named} ELSE {of} END)::{destination_type(column)}"
        case Kind.BYTES:
            return f"decode({of},'base64')"
        case Kind.DATE:
            return _or_infinite(of, _INFINITE_DATES, f"date '1970-01-01'+{of}::int", "date")
        case Kind.DATETIME:
            return _or_infinite(of, _INFINITE_MOMENTS, moment(of, unit_of(column)), "timestamp")
        case Kind.INSTANT:
            return f"{_instant_text(of)}::timestamptz"
        case Kind.TIME_OF_DAY:
            unit = unit_of(column)
            return f"(CASE WHEN {of}={_DAY[unit]} THEN time '24:00' ELSE time '00:00'+{of}*interval '1 {unit}' END)"
        case _:
            return f"{of}::{destination_type(column)}"


def _or_infinite(of: str, sentinels: dict[int, str], finite: str, stored: str) -> str:
    named = " ".join(f"WHEN {number} THEN {stored} '{value}'" for number, value in sentinels.items())
    return f"(CASE {of} {named} ELSE {finite} END)"


def _instant_text(of: str) -> str:
    # `+294276-12-31T…` loses its sign; `-0043-03-15T…` is 44 BC, because ISO counts a year 0.
    year = f"substring({of} from '^[+-]?[0-9]+')"
    rest = f"substring({of} from '^[+-]?[0-9]+(.*)$')"
    before = f"lpad((1-{year}::int)::text,4,'0')||{rest}||' BC'"
    far = f"CASE WHEN {year}::int<1 THEN {before} ELSE ltrim({of},'+') END"
    return f"(CASE WHEN {of} ~ '{_PLAIN_YEAR}' AND {of} !~ '^0000' OR {of} ~ 'infinity$' THEN {of} ELSE {far} END)"


POSTGRES = WireForms(_form, _cast)
