"""The destination: what is committed in memory, changed by one transaction at a time. It outlives the sinks over it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.values.build import batch_of

Row = tuple[Any, ...]
# The identity of a row → its values in the order of the columns, and how many copies of it there are.
Rows = Mapping[str, tuple[Row, int]]


@dataclass(frozen=True, slots=True)
class KeptFinding:
    """Its number is its place. `is_over`: its table was put in place again since."""

    stream: StreamId
    finding: Finding
    is_over: bool = False


@dataclass(slots=True)
class State:
    """`tables`: the live ones by name, those of an incremental snapshot as `<schema>.<name>`. `staged`: whole tables
    before they are published. `generations`: how often a table of a stream was put in place."""

    tables: dict[str, Rows] = field(default_factory=dict)
    staged: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    ledgers: dict[StreamId, LedgerRow] = field(default_factory=dict)
    runs: dict[tuple[StreamId, str], bool] = field(default_factory=dict)
    generations: dict[tuple[StreamId, str], int] = field(default_factory=dict)
    findings: list[KeptFinding] = field(default_factory=list)

    def copy(self) -> "State":
        """Rows and batches are never changed in place, so they are shared."""
        return State(*(getattr(self, part.name).copy() for part in fields(self)))


class Store:
    """`state` is what is committed now."""

    def __init__(self) -> None:
        self.state = State()
        self._lock = Lock()

    @contextmanager
    def transaction(self) -> Iterator[State]:
        """A state to change, which is committed where the block ends; an error inside changes nothing."""
        with self._lock:
            state = self.state.copy()
            yield state
            self.state = state


STORES: dict[str, Store] = {}


def store(connection: str) -> Store:
    """The store of this name in this process, made by whoever asks first."""
    return STORES.setdefault(connection, Store())


def identity(values: Row) -> str:
    """Python's own text of the values: unlike the values themselves, NaN equals NaN there, and -0 is not 0."""
    return repr(values)


def key_of(table: Table, row: Row) -> Row:
    names = [column.name for column in table.columns]
    return tuple(row[names.index(name)] for name in table.key)


def identity_of(table: Table, row: Row) -> str:
    """By its key; the whole row where the table has none."""
    return identity(key_of(table, row) if table.is_keyed else row)


def batch_of_rows(table: Table, rows: Rows) -> pa.RecordBatch:
    return batch_of(table, (row for row, copies in rows.values() for _ in range(copies)))
