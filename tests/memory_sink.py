"""The sink of `examples/seamline-memory` as tests of what stands above a destination want it: rows in and out as the
JSON values of their images, and answers that are lost.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from seamline.databases.mysql.row_decoder import DECODER
from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import CommitUnknown
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.kinds.found import logged_kind
from seamline.plan.model import SyncPlan
from seamline.ports import Failpoints
from seamline_memory import sink, store

JsonRow = dict[str, Any]


class LostAnswer(Enum):
    """What becomes of the next commit whose answer is lost."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"


class MemoryDestination(store.Store):
    """`lose_answer`: of the next commit, publish or join that changes something.."""

    def __init__(self) -> None:
        super().__init__()
        self.lose_answer: LostAnswer | None = None

    @contextmanager
    def transaction(self) -> Iterator[store.State]:
        before, lost = self.state, None
        with super().transaction() as state:
            yield state
            if _progress(state) != _progress(before):
                lost, self.lose_answer = self.lose_answer, None
            if lost is LostAnswer.NOT_APPLIED:
                raise CommitUnknown("the answer is lost")
        if lost is not None:
            raise CommitUnknown("the answer is lost")

    @property
    def ledgers(self) -> dict[StreamId, LedgerRow]:
        return self.state.ledgers

    @property
    def findings(self) -> list[Finding]:
        return [one.finding for one in self.state.findings]

    def rows(self, table: Table) -> list[JsonRow]:
        """The live rows, in no order."""
        names, held = [column.name for column in table.columns], self.state.tables.get(table.name, {})
        return [
            {name: as_logged(value) for name, value in zip(names, row, strict=True)}
            for row, copies in held.values()
            for _ in range(copies)
        ]

    def put(self, table: Table, rows: Iterable[JsonRow]) -> None:
        """As if these had been committed."""
        self.state.tables[table.name] = sink.rows_in(table, [_typed(table, rows)])

    def stage(self, table: Table, name: str, rows: Iterable[JsonRow]) -> None:
        """A whole table, as a load leaves it."""
        self.state.staged[name] = [_typed(table, rows)]


class MemorySink(sink.MemorySink):
    """With the decoder of the plan's source, as `registry.sink` opens it."""

    def __init__(self, plan: SyncPlan, database: MemoryDestination, *, failpoints: Failpoints | None = None) -> None:
        decoder = logged_kind(plan.source.kind).change_decoder(plan.source)
        super().__init__(plan, plan.destinations[0], store=database, decoder=decoder, failpoints=failpoints)


def _progress(state: store.State) -> object:
    """All but what taking an epoch changes."""
    return state.runs, {stream: ledger.next_offset for stream, ledger in state.ledgers.items()}


def as_logged(value: Any) -> Any:
    """A value as a log writes it; only for the types of the plain test tables."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if value is None or isinstance(value, (int, str)) else str(value)


def _typed(table: Table, rows: Iterable[JsonRow]) -> Any:
    images: Sequence[bytes] = [json.dumps(row).encode() for row in rows]
    return DECODER.rows(table, images)[0]
