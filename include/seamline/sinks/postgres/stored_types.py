"""Columns of a relation as PostgreSQL stores them, for those who read it without the plan that made it."""

import re
from collections.abc import Mapping

from seamline.domain.catalogue import Column, Kind
from seamline.sinks.postgres.cut_columns import StoredColumn

_TYPE = re.compile(
    r"(?P<word>[a-z ]+?)(?:\((?P<first>\d+)(?:,(?P<second>-?\d+))?\))?(?P<zone> with(?:out)? time zone)?"
)
_INTEGER_BITS = {"smallint": 16, "integer": 32, "bigint": 64}
_MOMENTS = {
    "timestamp without time zone": Kind.DATETIME,
    "timestamp with time zone": Kind.INSTANT,
    "time without time zone": Kind.TIME_OF_DAY,
}
_PLAIN = {
    "real": Kind.FLOAT,
    "double precision": Kind.DOUBLE,
    "boolean": Kind.BOOLEAN,
    "bytea": Kind.BYTES,
    "date": Kind.DATE,
    "interval": Kind.INTERVAL,
    "uuid": Kind.UUID,
    "json": Kind.JSON,
    "jsonb": Kind.JSONB,
    "text": Kind.STRING,
}


def columns_of(stored: Mapping[str, StoredColumn]) -> tuple[Column, ...]:
    """What no kind of ours stands for is its text, as the server prints it."""
    return tuple(_column(name, one.type.partition(" COLLATE ")[0]) for name, one in stored.items())


def _column(name: str, stored_as: str) -> Column:
    found = _TYPE.fullmatch(stored_as)
    word = found["word"] + (found["zone"] or "") if found else ""
    first, second = (int(found[part] or 0) if found else 0 for part in ("first", "second"))
    if word in _INTEGER_BITS:
        return Column(name, Kind.INTEGER, stored_as, length=_INTEGER_BITS[word])
    if word == "numeric":
        return Column(name, Kind.DECIMAL, stored_as, precision=first, scale=second)
    if word == "character varying":
        return Column(name, Kind.STRING, stored_as, length=first)
    if word in _MOMENTS:
        return Column(name, _MOMENTS[word], stored_as, precision=first)
    kind = _PLAIN.get(word, Kind.NATIVE)
    return Column(name, kind, stored_as, native=stored_as if kind is Kind.NATIVE else "")
