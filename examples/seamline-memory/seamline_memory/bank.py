"""The source: tables in memory, changed by transactions, each of which writes its log in the commit."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from seamline.domain.catalogue import Column, Kind, Table
from seamline_memory.images import image_of
from seamline_memory.position import MemoryPosition
from seamline_memory.store import Row, identity, key_of

MARKERS = Table(
    "seamline_marker",
    (
        Column("id", Kind.STRING, "text", nullable=False),
        Column("kind", Kind.STRING, "text", nullable=False),
        Column("payload", Kind.STRING, "text", nullable=False),
        Column("at", Kind.INTEGER, "bigint", nullable=False, length=64),
    ),
    ("id",),
)


@dataclass(frozen=True, slots=True)
class Message:
    """One record of the log, as `LogDecoder` takes it: the same questions are asked of Kafka's."""

    number: int
    content: bytes

    def offset(self) -> int:
        return self.number

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self.content

    def headers(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Contents:
    """All rows after transaction `number`. Never changed: each commit makes another."""

    number: int = 0
    rows: dict[str, tuple[Row, ...]] = field(default_factory=dict)

    @property
    def position(self) -> MemoryPosition:
        return MemoryPosition(self.number)


class Bank:
    """`contents` is what is committed now, `log` all that was. Readers take either without a lock."""

    def __init__(self) -> None:
        self.tables: dict[str, Table] = {MARKERS.name: MARKERS}
        self.contents = Contents(rows={MARKERS.name: ()})
        self.log: list[Message] = []
        self._lock = Lock()

    def create(self, table: Table) -> None:
        with self._lock:
            self.tables[table.name] = table
            self.contents = Contents(self.contents.number, {**self.contents.rows, table.name: ()})

    @contextmanager
    def transaction(self) -> Iterator["Transaction"]:
        """Committed where the block ends; an error inside leaves no row and no record."""
        with self._lock:
            transaction = Transaction(self.tables, self.contents)
            yield transaction
            records = transaction.finished()
            first = len(self.log)
            self.log += [Message(first + n, json.dumps(one).encode()) for n, one in enumerate(records)]
            self.contents = Contents(transaction.number, transaction.rows)


class Transaction:
    def __init__(self, tables: dict[str, Table], before: Contents) -> None:
        self.number = before.number + 1
        self.rows = dict(before.rows)
        self._tables = tables
        self._counts: Counter[str] = Counter()
        self._records: list[dict[str, Any]] = [{"record": "begin", "transaction": self.number}]

    def insert(self, table: str, row: Sequence[Any]) -> None:
        self.rows[table] = (*self.rows[table], tuple(row))
        self._add(table, "c", None, row)

    def update(self, table: str, before: Sequence[Any], after: Sequence[Any]) -> None:
        """A change of key is a delete and an insert in the log."""
        self._remove(table, before)
        self.rows[table] = (*self.rows[table], tuple(after))
        definition = self._tables[table]
        if definition.is_keyed and key_of(definition, tuple(before)) != key_of(definition, tuple(after)):
            self._add(table, "d", before, None)
            self._add(table, "c", None, after)
        else:
            self._add(table, "u", before, after)

    def delete(self, table: str, row: Sequence[Any]) -> None:
        self._remove(table, row)
        self._add(table, "d", row, None)

    def truncate(self, table: str) -> None:
        self.rows[table] = ()
        self._counts[table] += 1
        self._records.append({"record": "truncate", "transaction": self.number, "table": table})

    def finished(self) -> list[dict[str, Any]]:
        """Its records, the last of which counts the others by table."""
        end = {"record": "end", "transaction": self.number, "counts": self._counts, "at_ms": int(time.time() * 1000)}
        return [*self._records, end]

    def _remove(self, table: str, row: Sequence[Any]) -> None:
        held = [identity(one) for one in self.rows[table]]
        place = held.index(identity(tuple(row)))
        self.rows[table] = (*self.rows[table][:place], *self.rows[table][place + 1 :])

    def _add(self, table: str, op: str, before: Sequence[Any] | None, after: Sequence[Any] | None) -> None:
        images = {"before": before, "after": after}
        definition = self._tables[table]
        self._counts[table] += 1
        self._records.append(
            {
                "record": "row",
                "transaction": self.number,
                "table": table,
                "op": op,
                **{name: row and json.loads(image_of(definition, row)) for name, row in images.items()},
            }
        )


BANKS: dict[str, Bank] = {}


def bank(name: str) -> Bank:
    """The bank of this name in this process, made by whoever asks first."""
    return BANKS.setdefault(name, Bank())
