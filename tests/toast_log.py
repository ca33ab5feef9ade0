"""A table whose log may leave values out, logged as PostgreSQL does it: a value that is stored out of line comes
only when it changes, a delete carries its key alone, a change of key is a delete and an insert that names the old key.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import TableChanges
from seamline.domain.cutover import BoundaryGate
from seamline.domain.log import RowChange, Span, Transaction
from seamline.domain.unavailable_values import UNAVAILABLE, UNAVAILABLE_BYTES, may_lack_values
from seamline.ports import Commit, Lease, Progress, Sink
from seamline.sync.compaction import compact
from tests.log_topic import STREAM, position

Row = dict[str, Any]
Change = tuple[Row | None, Row | None]

# A percent sign is what a client would take for a parameter.
NOTE = Table(
    "no%table",
    (
        Column("id", Kind.INTEGER, "integer", nullable=False, length=32),
        Column("title", Kind.STRING, "varchar(40)", length=40),
        Column("body", Kind.STRING, "text", toastable=True),
        Column("scan", Kind.BYTES, "bytea", toastable=True),
    ),
    ("id",),
)
STAND_IN = {"body": UNAVAILABLE, "scan": UNAVAILABLE_BYTES}
_BODIES = ("large one ü", "large two\n", "large, three", "small", f"small {UNAVAILABLE}", "", None)
_SCANS = (*(base64.b64encode(data).decode() for data in (b"large" * 50, b"large \0", b"", b"\xff")), None)
# "large" in base64.
_LARGE = ("large", "bGFyZ2")


def is_large(value: object) -> bool:
    """Whether the source stores it out of line."""
    return isinstance(value, str) and value.startswith(_LARGE)


def note(number: int, title: str = "t", body: str | None = _BODIES[0], scan: str | None = _SCANS[0]) -> Row:
    """With its large values where nothing else is said."""
    return {"id": number, "title": title, "body": body, "scan": scan}


def to_json(row: Row) -> bytes:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


def key_of(number: int) -> bytes:
    return to_json({"id": number})


def as_logged(before: Row, after: Row) -> Row:
    """The new row without the large values that stayed what they were."""
    return {
        name: STAND_IN[name] if name in STAND_IN and is_large(value) and before[name] == value else value
        for name, value in after.items()
    }


@dataclass(slots=True)
class ToastLog:
    """Makes transactions of changes, in log order."""

    offset: int = 0
    number: int = 0

    def transaction(self, *changes: Change, truncated: bool = False) -> Transaction:
        start = self.offset
        rows = [row for before, after in changes for row in self._rows(before, after)]
        self.offset += 2
        self.number += 1
        emptied = (NOTE.name,) if truncated else ()
        return Transaction(str(self.number), start, self.offset, position(self.number), rows, truncated=emptied)

    def _rows(self, before: Row | None, after: Row | None) -> Iterable[RowChange]:
        if before is None:
            assert after is not None
            yield self._row("c", after["id"], after=after)
        elif after is None:
            yield self._row("d", before["id"], before=_key_alone(before))
        elif before["id"] == after["id"]:
            yield self._row("u", after["id"], after=as_logged(before, after))
        else:
            yield self._row("d", before["id"], before=_key_alone(before))
            yield self._row("c", after["id"], after=as_logged(before, after), old=before["id"])

    def _row(
        self, op: str, number: int, *, before: Row | None = None, after: Row | None = None, old: int | None = None
    ) -> RowChange:
        self.offset += 1
        image = None if after is None else to_json(after)
        is_partial = image is not None and may_lack_values(image)
        return RowChange(
            self.offset,
            NOTE.name,
            op,
            key=key_of(number),
            before=None if before is None else to_json(before),
            after=image,
            is_partial=is_partial,
            # The reader asks for the old key only where something was left out.
            old_key=key_of(old) if is_partial and old is not None else None,
        )


def _key_alone(row: Row) -> Row:
    return {name: row[name] if name in NOTE.key else None for name in row}


@dataclass(slots=True)
class ToastHistory:
    """`states[n]`: the source's rows after transaction n, `states[0]` before all."""

    transactions: list[Transaction] = field(default_factory=list)
    states: list[dict[int, Row]] = field(default_factory=lambda: [{}])


@st.composite
def toast_histories(draw: st.DrawFn, *, is_plain: bool = False) -> ToastHistory:
    """Two rows, then transactions of up to five changes; without TRUNCATE and changes of key where `is_plain`."""
    log, history, rows = ToastLog(), ToastHistory(), {number: note(number, str(number)) for number in range(2)}
    history.transactions.append(log.transaction(*((None, row) for row in rows.values())))
    history.states.append(dict(rows))
    kinds = ["insert", "update", "delete", *([] if is_plain else ["move"] * 3)]
    for _ in range(draw(st.integers(1, 5))):
        truncated = not is_plain and draw(st.integers(0, 9)) == 9
        if truncated:
            rows.clear()
        changes = [_change(draw, rows, kinds) for _ in range(draw(st.integers(0, 5)))]
        history.transactions.append(log.transaction(*changes, truncated=truncated))
        history.states.append(dict(rows))
    return history


def _change(draw: st.DrawFn, rows: dict[int, Row], kinds: Sequence[str]) -> Change:
    free = sorted({*range(4)} - rows.keys())
    kind = draw(st.sampled_from(kinds)) if rows else "insert"
    if not free and kind in ("insert", "move"):
        kind = "update"
    title = draw(st.sampled_from("ab"))
    if kind == "insert":
        number = draw(st.sampled_from(free))
        rows[number] = note(number, title, draw(st.sampled_from(_BODIES)), draw(st.sampled_from(_SCANS)))
        return None, rows[number]
    known = rows.pop(draw(st.sampled_from(sorted(rows))))
    if kind == "delete":
        return known, None
    row = {**known, "title": title}
    if kind == "move":
        row["id"] = draw(st.sampled_from(free))
    for name, values in (("body", _BODIES), ("scan", _SCANS)):
        if draw(st.integers(0, 3)) == 3:
            row[name] = draw(st.sampled_from(values))
    rows[row["id"]] = row
    return known, row


class NoteStream:
    """A stream of NOTE by hand: each call is one span, through compaction, into the sink."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.lease: Lease = sink.acquire(STREAM)
        self.log = ToastLog()
        self.next_offset = self.lease.ledger.next_offset

    def span(self, *changes: Change) -> Commit:
        return self.transactions(self.log.transaction(*changes))

    def transactions(self, *transactions: Transaction) -> Commit:
        return self.batches(*compacted(*transactions))

    def chunks(self, *chunks: Sequence[Change]) -> Commit:
        """One transaction larger than memory, the last chunk as its rest."""
        batches = [
            batch
            for number, changes in enumerate(chunks, 1)
            for batch in compacted(self.log.transaction(*changes), chunk=number if number < len(chunks) else 0)
        ]
        return self.batches(*batches)

    def batches(self, *batches: TableChanges) -> Commit:
        staged = [self.sink.stage(self.lease, batch) for batch in batches if not batch.is_empty]
        span = Span(self.next_offset, self.next_offset + 1, 1, position(self.next_offset + 1), 0)
        commit = self.sink.commit(self.lease, staged, progress=Progress(span))
        self.next_offset = commit.ledger.next_offset
        return commit


def compacted(*transactions: Transaction, chunk: int = 0) -> list[TableChanges]:
    return list(compact(transactions, tables={NOTE.name: NOTE}, gate=BoundaryGate({}), chunk=chunk).values())
