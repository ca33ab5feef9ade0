"""A column of every kind that a source may have, and values of it, as `values.build` takes them."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from seamline.domain.catalogue import Column, Kind
from tests.integration.kinds import CASES, INEXACT_CASES


def column_of(
    name: str, kind: Kind, source_type: str, *, length: int = 0, precision: int = 0, scale: int = 0
) -> Column:
    return Column(name, kind, source_type, length=length, precision=precision, scale=scale)


_MOMENTS = (datetime.min, datetime.max, datetime(1969, 12, 31, 23, 59, 59, 999_999))  # noqa: DTZ001, DTZ901
# What PostgreSQL has beside the kinds of MariaDB.
OTHERS: dict[Column, Sequence[Any]] = {
    column_of("p_i16", Kind.INTEGER, "smallint", length=16): (-(2**15), 2**15 - 1),
    column_of("p_numeric", Kind.DECIMAL, "numeric(12,2)", precision=12, scale=2): (
        Decimal("-9999999999.99"),
        Decimal(0),
    ),
    column_of("p_fraction", Kind.DECIMAL, "numeric(38,38)", precision=38, scale=38): (Decimal(1).scaleb(-38),),
    column_of("p_real", Kind.FLOAT, "real"): (0.1, 3.4028234663852886e38, -0.0, 1e-45),
    column_of("p_double", Kind.DOUBLE, "double precision"): (0.1, 1e15, 1e23, 1e-5, 123456789012345.6, -0.0, 5e-324),
    column_of("p_truth", Kind.BOOLEAN, "boolean"): (True, False),
    column_of("p_char", Kind.CHAR, "character(5)", length=5): ("ab   ", "", " b"),
    column_of("p_text", Kind.STRING, "text"): (
        "",
        "~,:0",
        "tab\t nul\0 line\r\n\\N\\",
        "a ",
        "A",
        "ü€😀",
        "NULL",
        "%s",
    ),
    column_of("p_bytes", Kind.BYTES, "bytea"): (b"", bytes(range(256)), b"\\N\t\n\0\r" * 5_000),
    column_of("p_day", Kind.DATE, "date"): (date.min, date.max),
    column_of("p_at", Kind.DATETIME, "timestamp(6)", precision=6): _MOMENTS,
    column_of("p_moment", Kind.INSTANT, "timestamptz", precision=6): [at.replace(tzinfo=UTC) for at in _MOMENTS],
    column_of("p_clock", Kind.TIME_OF_DAY, "time", precision=6): (timedelta(0), timedelta(hours=24)),
    column_of("p_between", Kind.INTERVAL, "interval"): ((-1, 2**31 - 1, -(2**63)), float("inf"), float("-inf")),
    column_of("p_enum", Kind.ENUM, "mood"): ("ok", "b,c"),
    column_of("p_json", Kind.JSON, "json"): ('{"a": 1e400,  "a": "\\u0000"}',),
    column_of("p_jsonb", Kind.JSONB, "jsonb"): ('{"a": 1}', "null"),
    column_of("p_uuid", Kind.UUID, "uuid"): (UUID(int=0), UUID(int=2**128 - 1)),
}
VALUES: dict[Column, Sequence[Any]] = {
    **{case.column: [edge.value for edge in case.edges] for case in (*CASES, *INEXACT_CASES)},
    **OTHERS,
}
