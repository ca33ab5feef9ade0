"""A session of PostgreSQL that gives each value as `seamline.values.build` takes it: exact, and also where Python's own
types end."""

import math
import struct
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.pq import Format

from seamline.databases.postgres.canonical import quoted
from seamline.domain.catalogue import Column, Kind, Table
from seamline.values.special import BEFORE_ALL_INTERVALS, INFINITE_INTERVAL

_DAYS = 10_957  # from 1970 to 2000
_MICROSECONDS = _DAYS * 86_400_000_000


def _infinite_or(shift: int, bits: int) -> Callable[[int], int | float]:
    ends = {2 ** (bits - 1) - 1: math.inf, -(2 ** (bits - 1)): -math.inf}
    return lambda number: ends.get(number, number + shift)


_day, _moment = _infinite_or(_DAYS, 32), _infinite_or(_MICROSECONDS, 64)


def _interval(data: bytes) -> tuple[int, int, int] | float:
    microseconds, days, months = struct.unpack("!qii", data)
    fields = (months, days, microseconds)
    return {INFINITE_INTERVAL: math.inf, BEFORE_ALL_INTERVALS: -math.inf}.get(fields, fields)


_LOAD: dict[str, Callable[[bytes], Any]] = {
    "date": lambda data: _day(struct.unpack("!i", data)[0]),
    "timestamp": lambda data: _moment(struct.unpack("!q", data)[0]),
    "timestamptz": lambda data: _moment(struct.unpack("!q", data)[0]),
    "time": lambda data: struct.unpack("!q", data)[0],
    "interval": _interval,
    "json": lambda data: data.decode(),
    # The first byte is the version of the form.
    "jsonb": lambda data: data[1:].decode(),
}


def _loader(load: Callable[[bytes], Any]) -> type[Loader]:
    class Exact(Loader):
        format = Format.BINARY

        def load(self, data: Buffer) -> Any:
            return load(bytes(data))

    return Exact


def read_rows(session: "psycopg.Connection[Any]", query: str) -> list[tuple[Any, ...]]:
    with session.cursor(binary=True) as cursor:
        for name, load in _LOAD.items():
            cursor.adapters.register_loader(name, _loader(load))
        return list(cursor.execute(query.encode()).fetchall())


def exact(table: Table) -> str:
    """The columns of a table of the destination as `read_rows` asks for them."""
    return ", ".join(map(_asked_for, table.columns))


def _asked_for(column: Column) -> str:
    name = quoted(column.name)
    if column.kind is Kind.NATIVE:
        return printed(name)
    return f"(extract(epoch FROM {name}) * 1000000)::bigint" if column.kind is Kind.TIME else name


def printed(value: str) -> str:
    """As the server prints it: a cast of a host to text shows its mask too."""
    return f"CASE WHEN {value}::text IS NOT NULL THEN format('%s', {value}) END"
