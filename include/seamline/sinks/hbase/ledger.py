"""The ledger of a stream: one cell, which moves by compare-and-set.

A span is three steps: the ledger says what is about to be written and reserves numbers for it; the rows are written,
with these numbers as the timestamps of their cells; the ledger moves. Numbers never fall, so what an older owner or an
interrupted attempt has left, or writes late, stays behind what is written now. They are milliseconds of the clock where
that is ahead, so HBase's own limits of age mean what they say.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from seamline.domain.errors import TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.kinds.ledger_json import ledger_from_json, ledger_to_json
from seamline.sinks.hbase.gateway import Store
from seamline.sinks.hbase.places import Place, Places, ledger_key
from seamline.sinks.hbase.rows import scanned

_ATTEMPTS = 20
_FIRST = b"ledger/"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class State:
    """`number`: the highest that was ever reserved. `findings`: how many were ever kept. `runs`: those that have
    published or joined. `finders`: by the last of their numbers, which epoch has kept these findings. `ahead`: up to
    which offset rows may hold changes that the ledger does not have yet; 0: none. `before`: the name under which these
    rows are kept as they were (`undo.py`); "" where none are ahead. `placing`: the run that puts other rows in place of
    all, "" where none does."""

    row: LedgerRow
    number: int
    generations: tuple[tuple[str, int], ...] = ()
    runs: tuple[str, ...] = ()
    findings: int = 0
    updated_ms: int = 0
    ahead: int = 0
    before: str = ""
    placing: str = ""
    finders: tuple[tuple[int, int], ...] = ()

    def reserving(self, count: int) -> "State":
        """With the next `count` numbers, of which each other one is for a marker; the first is `first_number`."""
        return replace(self, number=max(self.number, now_ms()) + 2 * count)

    def first_number(self, count: int) -> int:
        return self.number - 2 * (count - 1)

    def with_findings(self, count: int) -> "State":
        """With so many more, which the owner of this epoch has kept."""
        if not count:
            return self
        last, epoch = self.findings + count, self.row.epoch
        before = tuple(one for one in self.finders if one[1] != epoch)
        return replace(self, findings=last, finders=(*before, (last, epoch)))

    def finder(self, number: int) -> int | None:
        """The epoch whose finding of this number counts; None: none does."""
        return next((epoch for last, epoch in self.finders if number <= last), None)

    @property
    def place(self) -> tuple[str, int, int]:
        return self.row.topic_id, self.row.next_offset, self.row.epoch


@dataclass(frozen=True, slots=True)
class Known:
    """A state, and the very bytes that a compare-and-set compares; None where there is no ledger."""

    state: State
    stored: bytes | None


def text_of(state: State) -> bytes:
    said = {
        "ledger": ledger_to_json(state.row),
        "number": state.number,
        "generations": dict(state.generations),
        "runs": list(state.runs),
        "findings": state.findings,
        "updated_ms": now_ms(),
        "ahead": state.ahead,
        "before": state.before,
        "placing": state.placing,
        "finders": [list(one) for one in state.finders],
    }
    return json.dumps(said).encode()


def state_of(stream: StreamId, stored: bytes) -> State:
    said: dict[str, Any] = json.loads(stored)
    return State(
        ledger_from_json(said["ledger"], stream),
        said["number"],
        tuple(said["generations"].items()),
        tuple(said["runs"]),
        said["findings"],
        said["updated_ms"],
        said["ahead"],
        said["before"],
        said["placing"],
        tuple((last, epoch) for last, epoch in said["finders"]),
    )


def require_placed(state: State) -> None:
    """TransientError while a publish puts other rows in place of all, or after one that was interrupted."""
    if state.placing:
        raise TransientError(
            f"tables of {state.row.stream} are being put in place by run {state.placing}, or that was interrupted",
            hint="it goes on once that run has ended; where it has failed, clear its publish",
            sync=state.row.stream.sync,
        )


class Ledgers:
    """Those of one destination."""

    def __init__(self, store: Store, places: Places) -> None:
        self._store = store
        self._table = places.own

    def make(self) -> None:
        self._store.make(self._table)

    def read(self, stream: StreamId) -> Known | None:
        """None before the first publish."""
        stored = self._store.value(self._table, ledger_key(stream))
        return Known(state_of(stream, bytes(stored)), bytes(stored)) if stored is not None else None

    def exchange(self, known: Known | None, state: State) -> Known | None:
        """`state` in place of what is known; None where something else is there."""
        text, key = text_of(state), ledger_key(state.row.stream)
        stored = known.stored if known else None
        return Known(state, text) if self._store.exchange(self._table, key, stored, text) else None

    def changed(self, known: Known, change: Callable[[State], State]) -> Known | None:
        """Change the ledger where its place is that of `known`, whatever else has changed in it; None: it has moved."""
        place, found = known.state.place, known
        for _ in range(_ATTEMPTS):
            done = self.exchange(found, change(found.state))
            if done is not None:
                return done
            again = self.read(known.state.row.stream)
            if again is None or again.state.place != place:
                return None
            found = again
        raise TransientError(f"the ledger of {known.state.row.stream} is written by others all the time")

    def forget(self, known: Known) -> bool:
        return bool(self._store.forget(self._table, ledger_key(known.state.row.stream), known.stored))

    def streams(self) -> Iterator[str]:
        if self._store.exists(self._table):
            for key, _ in scanned(self._store, Place(self._table, _FIRST)):
                yield key.removeprefix(_FIRST).decode()
