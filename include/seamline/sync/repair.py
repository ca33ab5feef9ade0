"""Repair of live tables: a plan from what a comparison has found, and its application where the stream stands still.

A plan reads both rows of each break again at one position. It takes only those that are just as the comparison found
them: whatever has moved since is the stream's. It changes nothing.

Applied is it by the sink that streams have, in one commit, while a barrier holds the stream at P and the source's views
see P. The commit takes an epoch of its own and moves the ledger from its offset to that very offset. So it can only
take place where the rows that it writes belong: whoever has moved the ledger since has refused it. The stream's worker
is ended by that epoch and starts again where it stood. Both sides are then compared at that same P (ADR 61).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Protocol

from seamline.domain.catalogue import Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import CommitUnknown, Refused, SeamlineError
from seamline.domain.ledger import StreamId
from seamline.domain.log import Span
from seamline.domain.position import is_same_place
from seamline.domain.repair import (
    AGAIN,
    Repair,
    RepairLimits,
    RepairRow,
    RowAction,
    RowState,
    Texts,
    is_same_row,
    judged,
    key_of,
)
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.separate import SEPARATE
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.plan.model import SyncPlan
from seamline.ports import Commit, Failpoints, Lease, Progress, ReadView, Sink, StreamDirector, Unarmed
from seamline.sync.barrier import Barrier, NotAligned, Standing
from seamline.sync.reconcile import row_break

log = logging.getLogger(__name__)

_ROWS_AT_ONCE = 500
_OF_ROWS = (BreakType.MISSING, BreakType.UNEXPECTED, BreakType.VALUE)


class WritesGivenRows(Protocol):
    """Rows by their canonical texts, for a sink that was opened to read them."""

    def image(self, texts: Texts) -> bytes: ...

    def unfit(self, table: Table, texts: Texts) -> str:
        """Why this row cannot be written exactly; "" where it can."""


# ---- the plan -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planned:
    """`refused`: tables that are not repaired row by row, and why."""

    position: str
    rows: tuple[RepairRow, ...]
    refused: Mapping[str, str]


def plan_repair(found: Reconciliation, plan: SyncPlan, *, barrier: Barrier, writes: WritesGivenRows) -> Planned:
    """Read both rows of each break of the comparison again, at one position, and say what would be done to each.

    `plan` is what the destination holds. Refused: nothing of it can be repaired, with the cure.
    """
    _require_breaks(found)
    tables = {entry.name: entry.target for entry in plan.tables}
    refused, keys = dict[str, str](), dict[str, dict[str, Break]]()
    for verdict in found.tables:
        if verdict.verdict is not Verdict.BREAK:
            continue
        why = _refusal(tables.get(verdict.table), verdict, plan.reconcile.repair)
        if why:
            refused[verdict.table] = why
        else:
            keys[verdict.table] = _by_key(tables[verdict.table], verdict)
    if not keys:
        whys = "; ".join(f"{table}: {why}" for table, why in refused.items())
        raise Refused(f"nothing is repaired row by row: {whys}", hint=AGAIN, sync=found.sync)
    rows: list[RepairRow] = []
    with barrier.aligned(1) as aligned:
        for name, breaks in keys.items():
            both = both_sides(name, list(breaks), aligned.source[0], aligned.destination[0], aligned.check)
            rows += [_planned(tables[name], key, one, *both[key], writes) for key, one in breaks.items()]
        position = str(aligned.position)
    return Planned(position, tuple(rows), refused)


def _require_breaks(found: Reconciliation) -> None:
    if found.scope is not Scope.LIVE:
        raise Refused(
            "a repair is of live tables: cuts are not changed",
            hint="compare the live tables (DAG `<sync>__reconcile`), repair them, and cut the date again",
            sync=found.sync,
        )
    if found.mode == SEPARATE:
        raise Refused(
            "another tool carries these tables: nothing of ours writes them",
            hint="repair them by that tool, and compare again",
            sync=found.sync,
        )
    if found.verdict is not Verdict.BREAK:
        raise Refused(
            f"the comparison {found.run_id} of {found.destination} is {found.verdict}: there is nothing to repair",
            hint="compare the live tables again",
            sync=found.sync,
        )


def _refusal(table: Table | None, found: TableVerdict, limits: RepairLimits) -> str:
    """Why the table is not repaired row by row; "" where it may be."""
    if table is None:
        return "the stream does not carry it any more"
    of_rows = [one for one in found.breaks if one.type in _OF_ROWS and one.key != "{}"]
    others = sorted({one.type.value for one in found.breaks if one not in of_rows} - {BreakType.FINDING.value})
    if others:
        return f"it has a difference that is no single row's: {', '.join(others)}"
    if not of_rows:
        return "no row was found to differ: what the stream met is reported once and needs no repair"
    if not table.is_keyed:
        return "it has no key by which a row could be put right"
    return limits.refusal(found)


def _by_key(table: Table, found: TableVerdict) -> dict[str, Break]:
    """Canonical key → break. A key that cannot be turned back stands under its readable form and finds no row."""
    return {key_of(table, one.key) or one.key: one for one in found.breaks if one.type in _OF_ROWS}


def both_sides(
    table: str,
    keys: Sequence[str],
    source: ReadView,
    destination: ReadView,
    advanced: Callable[[], None] = lambda: None,
) -> dict[str, tuple[Texts | None, Texts | None]]:
    """Of each key the row that either side has."""
    found: dict[str, tuple[Texts | None, Texts | None]] = {}
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        some = keys[start : start + _ROWS_AT_ONCE]
        mine, theirs = source.rows(table, some), destination.rows(table, some)
        found |= {key: (mine.get(key), theirs.get(key)) for key in some}
        advanced()
    return found


def _planned(
    table: Table, key: str, met: Break, source: Texts | None, destination: Texts | None, writes: WritesGivenRows
) -> RepairRow:
    row = RepairRow(table.name, key, met.key, None, source, destination)
    if key == met.key != key_of(table, met.key):
        return replace(row, state=RowState.UNFIT, why="its key cannot be read back from the report")
    if is_same_row(table, source, destination):
        return replace(row, state=RowState.EQUAL)
    if row_break(table, key, source, destination) != met:
        return replace(row, state=RowState.SOURCE_MOVED, why="one of its rows is not what was compared")
    if source is None:
        return replace(row, action=RowAction.DELETE)
    why = writes.unfit(table, source)
    return replace(row, state=RowState.UNFIT, why=why) if why else replace(row, action=RowAction.UPSERT)


# ---- its application ------------------------------------------------------------------------------------------------


class RepairRecords(Protocol):
    """What the platform database keeps of an attempt."""

    def begin(self, run_id: str, rows: Sequence[RepairRow]) -> None:
        """Write down what this attempt is about to change, before it does."""

    def applied(self, run_id: str, rows: Sequence[RepairRow], *, position: str) -> None:
        """What became of each row. Entered into the log of acts."""


@dataclass(slots=True)
class Applying:
    """`Barrier.at_position` of an approved repair. What it has done is done also where the comparison behind it fails.

    `sink` is opened to read rows by `writes`; `plan_json` is the plan by which the stream is wanted. `failed`: why the
    newest attempt has changed nothing, or does not know.
    """

    repair: Repair
    stream: StreamId
    tables: Mapping[str, Table]
    director: StreamDirector
    sink: Sink
    open_destination: Callable[[int], Sequence[ReadView]]
    writes: WritesGivenRows
    records: RepairRecords
    plan_json: str
    failpoints: Failpoints = field(default_factory=Unarmed)
    rows: tuple[RepairRow, ...] = ()
    is_done: bool = False
    failed: SeamlineError | None = None

    def __call__(self, standing: Standing) -> None:
        """Raises NotAligned where the stream has moved; nothing is changed then, and another attempt may be made."""
        if self.is_done:
            return
        try:
            self._apply(standing)
        except SeamlineError as exc:
            self.failed = exc
            raise

    def _apply(self, standing: Standing) -> None:
        self.rows = self.rows or self.repair.planned
        self._judge(standing)
        if any(row.state is RowState.APPLYING for row in self.rows):
            self.records.begin(self.repair.run_id, self.rows)
            self._commit(standing)
            self.rows = tuple(_done(row) for row in self.rows)
        self.is_done = True
        self.failpoints.reach("app.commit_acked")
        self.records.applied(self.repair.run_id, self.rows, position=str(standing.position))

    def _judge(self, standing: Standing) -> None:
        """What is to be done to each row, by both sides at the position where the stream stands."""
        (view,) = self.open_destination(1)
        with closing(view):
            if not is_same_place(view.position, standing.position):
                raise NotAligned(f"the destination says {view.position}, not {standing.position}: the stream moved on")
            found: list[RepairRow] = []
            for name in dict.fromkeys(row.table for row in self.rows):
                mine = [row for row in self.rows if row.table == name]
                both = both_sides(name, [row.key for row in mine], standing.source[0], view, standing.advanced)
                found += [replace(row, state=judged(self.tables[name], row, *both[row.key])) for row in mine]
        self.rows = tuple(found)

    def _commit(self, standing: Standing) -> Commit:
        # Wanted before its worker is fenced: should this process end here, the host starts the stream all the same.
        self.director.want(self.stream, plan_json=self.plan_json)
        lease = self.sink.acquire(self.stream, after_epoch=standing.ledger.epoch)
        self.failpoints.reach("app.epoch_taken")
        self._require_standing(lease, standing)
        staged = [self.sink.stage(lease, changes) for changes in self._changes(lease)]
        ledger = lease.ledger
        span = Span(ledger.next_offset, ledger.next_offset, 0, ledger.position, ledger.committed_ms)
        try:
            return self.sink.commit(lease, staged, progress=Progress(span))
        except CommitUnknown as exc:
            # Ends the commit on its way, or waits for it. The next attempt finds in the rows what became of it.
            self.sink.acquire(self.stream, after_epoch=lease.epoch)
            raise NotAligned(f"the answer to the commit of {self.repair.run_id} was lost") from exc

    def _require_standing(self, lease: Lease, standing: Standing) -> None:
        """The ledger that this epoch was taken over is the one that stood at P: from now on nobody else moves it."""
        before, now = standing.ledger, lease.ledger
        if (before.next_offset, before.topic_id) != (now.next_offset, now.topic_id) or not is_same_place(
            now.position, standing.position
        ):
            raise NotAligned(f"{self.stream} went on to {now.position} before the repair had its epoch")

    def _changes(self, lease: Lease) -> Sequence[TableChanges]:
        found: dict[str, TableChanges] = {}
        for row in self.rows:
            if row.state is RowState.APPLYING:
                changes = found.setdefault(row.table, TableChanges(row.table))
                changes.keyed.append(self._change(row, lease.ledger.next_offset))
                changes.changes_in += 1
        return list(found.values())

    def _change(self, row: RepairRow, offset: int) -> KeyedChange:
        is_delete = row.action is RowAction.DELETE
        image = row.destination if is_delete else row.source
        if image is None:
            raise Refused(f"the plan has no row to {row.action} for {row.named}", table=row.table)
        # Whatever it meets is a finding, as in a span: somebody else writes the table at this moment.
        return KeyedChange(row.key.encode(), is_delete, row.destination is not None, self.writes.image(image), offset)


def _done(row: RepairRow) -> RepairRow:
    return replace(row, state=RowState.APPLIED) if row.state is RowState.APPLYING else row
