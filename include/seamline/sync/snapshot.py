"""All tables of a sync read at one position P, staged in every destination, and proven equal to the source at P.

The order of the steps is the proof (PROTOCOL 2): the low marker is read from the log *before* the read views open, so
every transaction before it in the log is inside every view; the high marker is committed *after* the last view is
open, so nothing beyond it is.
"""

import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from seamline.domain.digest import Segment, SegmentDigest, keyed_digest_to_json
from seamline.domain.errors import GateFailed, Refused, SchemaConflict, SeamlineError
from seamline.domain.position import Position, position_to_json
from seamline.domain.runs import NOT_STAGED, Receipt
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import DestinationPlan, Run
from seamline.ports import (
    Failpoints,
    Load,
    LoggedSource,
    LogReader,
    Marker,
    PruningHolds,
    ReadView,
    StagedView,
    TableRead,
)
from seamline.sync.budget import begun, within
from seamline.sync.comparison import Work, compare_tables, with_whole_digests
from seamline.sync.fatal_problems import refuse_fatal
from seamline.sync.markers import MarkerPlace, read_until_marker
from seamline.sync.outcomes import in_each
from seamline.sync.reading_pace import Pacer

# Until the snapshot is read and written down; from then on its run itself holds the log until it is published.
HOLD_S = 24 * 3600.0
MARKER_WITHIN_S = 120.0
BREAKS_NAMED = 5

log = logging.getLogger(__name__)


class ReadAtOnePosition(Protocol):
    """The source open for reading at one position: views for digests, and readers that move whole tables.

    Every reader has proven in its own session that it stands at `position`.
    """

    @property
    def position(self) -> Position: ...

    @property
    def position_time(self) -> datetime:
        """The source's clock just after the views were open; UTC."""

    def views_for(self, destination: DestinationPlan) -> Sequence[ReadView]:
        """The source's views, with each table as this destination shall hold it."""

    def stage(self, destination: DestinationPlan) -> Sequence[Load]:
        """Move every table into staging tables of its own, with keys and indexes; a retried part leaves no rows
        twice."""

    def digest(self, segment: Segment, destination: DestinationPlan) -> SegmentDigest:
        """The source's digest, for a receipt under the sync's own key, of a segment as this destination shall hold
        it."""


class ReadOfLoad(ReadAtOnePosition, Protocol):
    """One whose tables may be staged in part already."""

    @property
    def is_carried_on(self) -> bool:
        """Whether an earlier attempt had read some of the rows."""


class SnapshotRecords(Protocol):
    """What a snapshot needs of the platform database."""

    def put_result(self, run_id: str, key: str, value: Any) -> None: ...

    def put_receipt(self, run_id: str, receipt: Receipt) -> None: ...


@dataclass(frozen=True, slots=True)
class SnapshotTools:
    """The world of one snapshot. `open_read` opens only when called; `open_staged` gives views of staged tables.
    `pacer`: at which pace the source is read once more for the proof; None: at any."""

    source: LoggedSource
    open_log: Callable[[], LogReader]
    open_read: Callable[[Sequence[TableRead]], AbstractContextManager[ReadOfLoad]]
    open_staged: Callable[[DestinationPlan, Sequence[Load], int], AbstractContextManager[Sequence[StagedView]]]
    holds: PruningHolds
    records: SnapshotRecords
    failpoints: Failpoints
    pacer: Pacer | None = None


def take_snapshot(run: Run, tools: SnapshotTools) -> Mapping[str, Any]:
    """Stage every table of the run's sync at one position; the result is also kept as `result["snapshot"]`.

    Repeat-safe: a repeat takes a new snapshot, whose staged tables have other names. A destination that fails, or whose
    staged tables differ from the source at P (GateFailed), keeps no other from its load: it has none, and stands with
    its error in `result["not_staged"]`. Where all fail, the first error is raised.
    """
    reader = tools.open_log()
    try:
        start = reader.end_offset()
        hold = tools.holds.hold_log(run.plan.source.log_topic, holder=run.run_id, offset=start, lease_s=HOLD_S)
        low = _commit_low_marker(run, tools, reader, start)
        topic_id = reader.topic_id
    finally:
        reader.close()
    try:
        return _behind_marker(run, tools, low, topic_id)
    except Refused:
        # Nothing goes on with this attempt: another one begins with a marker of its own.
        tools.holds.release_log(hold)
        raise


def _behind_marker(run: Run, tools: SnapshotTools, low: MarkerPlace, topic_id: str) -> Mapping[str, Any]:
    plan = run.plan
    _require_capturable(run, tools.source)
    reads = [TableRead(table.target, Segment(table.name)) for table in plan.tables]
    began = time.monotonic()
    with tools.open_read(reads) as read:
        tools.failpoints.reach("snap.opened")
        _require_covered(low, read.position)
        _require_planned_definitions(run, tools.source)
        high = Marker(f"high-{uuid.uuid4().hex}", "high", {"run": run.run_id})
        tools.source.commit_marker(high)
        outcomes = in_each(plan.destinations, lambda destination: _stage(run, tools, read, destination))
        staged = {name: one for name, one in outcomes.items() if not isinstance(one, SeamlineError)}
        # What fails here is the source or the platform database, and no destination.
        loads = {name: _with_receipts(run, tools, read, plan.destination(name), *one) for name, one in staged.items()}
        position, moment, is_carried_on = read.position, read.position_time, read.is_carried_on
    snapshot: dict[str, Any] = {
        "position": position_to_json(position),
        "position_time": moment.astimezone(UTC).isoformat(),
        "low_marker": low.marker_id,
        "high_marker": high.id,
        "topic": plan.source.log_topic,
        "topic_id": topic_id,
        "next_offset": low.next_offset,
        "loads": loads,
    }
    if not is_carried_on:
        # How long reading again would take, about. What earlier attempts took for their part, nobody has measured.
        snapshot["read_s"] = round(time.monotonic() - began, 1)
    failed = {name: error.message for name, error in outcomes.items() if isinstance(error, SeamlineError)}
    for name, why in failed.items():
        log.error("nothing was staged in %s: %s", name, why)
    tools.records.put_result(run.run_id, NOT_STAGED, failed)
    tools.records.put_result(run.run_id, "snapshot", snapshot)
    tools.failpoints.reach("snap.manifest_written")
    return snapshot


def _commit_low_marker(run: Run, tools: SnapshotTools, log: LogReader, start: int) -> MarkerPlace:
    marker = Marker(f"low-{uuid.uuid4().hex}", "low", {"run": run.run_id})
    log.assign(start)
    tools.source.commit_marker(marker)
    return read_until_marker(
        log, marker_table=run.plan.source.marker_table, marker_id=marker.id, timeout_s=MARKER_WITHIN_S
    )


def _require_capturable(run: Run, source: LoggedSource) -> None:
    """Preflight once more, behind the low marker: an XA transaction that was prepared before it and is committed after
    the views would be in neither snapshot nor log."""
    refuse_fatal(source.preflight([table.definition for table in run.plan.tables]), sync=run.plan.sync)


def _require_planned_definitions(run: Run, source: LoggedSource) -> None:
    """Compare the tables with the plan, now that the views are open. A later change of a schema is seen in the log, or
    by the stream in the catalogue. One between the plan and the views would never be seen."""
    altered = source.altered([table.definition for table in run.plan.tables])
    if altered:
        raise SchemaConflict(
            f"tables were altered since this run was planned: {'; '.join(altered)}",
            hint="start the run again, from its first task: it plans with the tables as they are",
            sync=run.plan.sync,
        )


def _require_covered(low: MarkerPlace, position: Position) -> None:
    if not position.covers(low.position):
        raise Refused(
            f"the read views stand at {position}, before the low marker at {low.position}",
            hint="the source answered from an older state: is it a replica? Positions are taken from the primary only",
            position=str(position),
        )


@dataclass(slots=True)
class _Turn:
    """Before each question of a comparison, which makes of any error a table that was not compared."""

    ask: Callable[[], None]
    ended: SeamlineError | None = None

    def come(self) -> None:
        try:
            self.ask()
        except SeamlineError as exc:
            self.ended = exc
            raise


def _asking(tools: SnapshotTools) -> Callable[[], None]:
    return within(begun(None, tools.pacer), lambda: None)


_Staged = tuple[Sequence[Load], Sequence[TableVerdict]]


def _stage(run: Run, tools: SnapshotTools, read: ReadAtOnePosition, destination: DestinationPlan) -> _Staged:
    """Stage and prove every table."""
    loads = read.stage(destination)
    tools.failpoints.reach("snap.chunk_staged")
    work = [Work(load.table, Segment(load.table.name), Segment(load.table.name)) for load in loads]
    views = read.views_for(destination)
    turn = _Turn(_asking(tools))
    with tools.open_staged(destination, loads, len(views)) as staged:
        verdicts = compare_tables(work, source=views, destination=staged, check=turn.come)
        verdicts = with_whole_digests(verdicts, work, staged[0])
        # Within: whoever has opened them hears that nothing comes of this destination.
        wrong = [verdict for verdict in verdicts if verdict.verdict is not Verdict.MATCH]
        if wrong and turn.ended is not None:
            # That the source may not be read on says nothing about what is staged.
            raise turn.ended
        if wrong:
            raise _differing(run, read.position, loads, wrong)
    return loads, verdicts


def _differing(run: Run, position: Position, loads: Sequence[Load], wrong: Sequence[TableVerdict]) -> GateFailed:
    keyed = [load.table.name for load in loads if load.table.is_keyed]
    return GateFailed(
        f"staged tables differ from the source at {position}: "
        + "; ".join(_described(verdict, keyed) for verdict in wrong),
        hint="nothing is published of them. Clear the task to take a new snapshot; if it stays so, keep the staged "
        "tables as evidence",
        sync=run.sync,
        table=wrong[0].table,
        position=str(position),
    )


def _with_receipts(
    run: Run,
    tools: SnapshotTools,
    read: ReadAtOnePosition,
    destination: DestinationPlan,
    loads: Sequence[Load],
    verdicts: Sequence[TableVerdict],
) -> list[dict[str, Any]]:
    ask = _asking(tools)
    for load in loads:
        ask()
        digest = read.digest(Segment(load.table.name), destination)
        receipt = Receipt(load.table.name, 0, load.staged_as, load.rows, digest, read.position)
        tools.records.put_receipt(run.run_id, receipt)
    return [
        {
            "table": load.table.name,
            "staged_as": load.staged_as,
            "rows": load.rows,
            "digest": keyed_digest_to_json(verdict.digest),
        }
        for load, verdict in zip(loads, verdicts, strict=True)
    ]


def _described(verdict: TableVerdict, keyed: Collection[str]) -> str:
    """Keys, and no values: without a key only the kind of break is named."""
    breaks = verdict.breaks[:BREAKS_NAMED]
    named = ", ".join(f"{found.type} {found.key if verdict.table in keyed else ''}".strip() for found in breaks)
    return f"{verdict.table} {verdict.verdict} {verdict.reason} {named}".strip()
