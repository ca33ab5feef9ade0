"""An HBase in memory: the methods of `Store.java` over cells with timestamps and markers of deleted rows, so a test may
end an attempt between any two calls without a server. What it says of HBase is tried by `contract/test_hbase.py`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from seamline.domain.errors import Refused
from seamline.sinks.hbase import loads, maintenance, preflight, read_back, sink
from seamline.sinks.hbase.gateway import Store
from seamline.sinks.hbase.rows import How
from tests.contract import hbase_world
from tests.hbase_server import HBaseServer

_INT = struct.Struct(">i")
_STATE = b"s"


@dataclass(slots=True)
class Row:
    """`cells`: by column its newest timestamp and value. `marker`: what hides cells of this timestamp and before."""

    cells: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    marker: int = -1

    def put(self, name: bytes, number: int, value: bytes) -> None:
        if number >= self.cells.get(name, (-1, b""))[0]:
            self.cells[name] = (number, value)

    def hide(self, number: int) -> None:
        self.marker = max(self.marker, number)

    @property
    def seen(self) -> dict[bytes, tuple[int, bytes]]:
        return {name: cell for name, cell in sorted(self.cells.items()) if cell[0] > self.marker}


class CellsInMemory:
    """Answers as HBase's client does, in bytes."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[bytes, Row]] = {}

    # ---- tables -----------------------------------------------------------------------------------------------------

    def exists(self, table: str) -> bool:
        return table in self.tables

    def make(self, table: str) -> bool:
        return self.tables.setdefault(table, {}) == {}

    def keep(self, table: str, as_: str) -> None:
        self.tables[as_] = dict(self._table(table))

    def remove(self, table: str) -> None:
        self.tables.pop(table, None)

    def _table(self, table: str) -> dict[bytes, Row]:
        if table not in self.tables:
            raise Refused(f"TableNotFoundException: {table}")  # as `gateway` translates it
        return self.tables[table]

    # ---- one value of our own ---------------------------------------------------------------------------------------

    def value(self, table: str, key: bytes) -> bytes | None:
        if table not in self.tables:
            return None
        return dict(self._seen(table, key, key + b"\0")).get(key, {}).get(_STATE, (0, None))[1]

    def exchange(self, table: str, key: bytes, expected: bytes | None, value: bytes) -> bool:
        if self.value(table, key) != expected:
            return False
        self._table(table)[key] = Row({_STATE: (0, value)})
        return True

    def forget(self, table: str, key: bytes, expected: bytes) -> bool:
        return self.value(table, key) == expected and self._table(table).pop(key) is not None

    # ---- rows -------------------------------------------------------------------------------------------------------

    def write(self, table: str, number: int, page: bytes) -> None:
        given = _Page(page)
        names = [given.text() for _ in range(given.count())]
        for _ in range(given.count()):
            how, key = given.byte(), given.text()
            row = self._table(table).setdefault(key, Row())
            if how == How.GOES:
                row.hide(number)
                continue
            if how == How.OVER:
                row.hide(number - 1)
            for name in names:
                value = given.value()
                if value is not None:
                    row.put(name, number, value)

    def rows(self, table: str, keys: bytes) -> bytes:
        given = _Page(keys)
        found = [(key, self._table(table).get(key, Row()).seen) for key in (given.text() for _ in range(given.count()))]
        return _page([(key, seen) for key, seen in found if seen])

    def scan(self, table: str, first: bytes, end: bytes, limit: int) -> bytes:
        return _page(list(self._seen(table, first, end))[:limit])

    def count(self, table: str, first: bytes, end: bytes) -> int:
        return len(list(self._seen(table, first, end)))

    def sweep(self, table: str, first: bytes, end: bytes, number: int) -> int:
        old = [key for key, seen in self._seen(table, first, end) if next(iter(seen.values()))[0] < number]
        for key in old:
            self._table(table)[key].hide(number - 1)
        return len(old)

    def copy(self, table: str, first: bytes, end: bytes, target: str, prefix: bytes, number: int, is_over: bool) -> int:
        found = list(self._seen(table, first, end))
        for key, seen in found:
            row = self.tables[target].setdefault(prefix + key[len(first) :], Row())
            if is_over:
                row.hide(number - 1)
            for name, (_, value) in seen.items():
                row.put(name, number, value)
        return len(found)

    def _seen(self, table: str, first: bytes, end: bytes) -> Iterator[tuple[bytes, dict[bytes, tuple[int, bytes]]]]:
        for key, row in sorted(self._table(table).items()):
            if first <= key and (not end or key < end) and row.seen:
                yield key, row.seen


class _Page:
    """As `DataInputStream` reads one."""

    def __init__(self, page: bytes) -> None:
        self._page = page
        self._at = 0

    def count(self) -> int:
        self._at += _INT.size
        return int(_INT.unpack_from(self._page, self._at - _INT.size)[0])

    def byte(self) -> int:
        self._at += 1
        return self._page[self._at - 1]

    def value(self) -> bytes | None:
        length = self.count()
        if length < 0:
            return None
        self._at += length
        return self._page[self._at - length : self._at]

    def text(self) -> bytes:
        value = self.value()
        assert value is not None
        return value


def _page(rows: list[tuple[bytes, dict[bytes, tuple[int, bytes]]]]) -> bytes:
    parts = []
    for key, seen in rows:
        parts += [_sized(key), _INT.pack(len(seen))]
        parts += [_sized(one) for name, (_, value) in seen.items() for one in (name, value)]
    return b"".join(parts)


def _sized(value: bytes) -> bytes:
    return _INT.pack(len(value)) + value


# Nobody listens there.
NOWHERE = HBaseServer(0)


@pytest.fixture
def memory_hbase(monkeypatch: pytest.MonkeyPatch) -> CellsInMemory:
    """What every store leads to."""
    made = CellsInMemory()
    for module in (sink, loads, maintenance, preflight, read_back, hbase_world):
        monkeypatch.setattr(module, "open_store", lambda _: Store(made))
    return made
