"""Has a run's cutover happened? Read from the destinations' ledgers, the only authority on progress."""

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from seamline.domain.errors import ConfigError, InvariantViolated, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.runs import TABLES
from seamline.domain.stream_end import in_one_line, stream_end
from seamline.plan.list_change import ListChange
from seamline.plan.model import Run
from seamline.ports import Sink, StreamReport
from seamline.sync.outcomes import outcome_of
from seamline.sync.stream_state import has_ended_for_good
from seamline_airflow import parts

log = logging.getLogger(__name__)

# One very large transaction may be on its way to a destination.
_STANDS_STILL_S = 300.0


@dataclass(frozen=True, slots=True)
class Cutover:
    """`positions`: of the streams that have applied the high marker. `waiting`: those that have not yet. `away`: those
    whose destination does not answer, or takes nothing, and which of it. `error`: why the rest never will by
    themselves."""

    waiting: tuple[str, ...] = ()
    away: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    positions: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_reached(self) -> bool:
        """By every stream that can. One that never will keeps no other from its comparison."""
        return not self.waiting and not self.away and bool(self.positions)

    @property
    def is_missed(self) -> bool:
        return not (self.waiting or self.away or self.positions)


def look(run_id: str) -> Cutover:
    """The cutover of this run, as it stands now."""
    with parts.platform() as store, parts.director() as director:
        run = store.run(run_id).where_published
        return judge(
            run,
            sink_of=lambda name: parts.sink(run.plan, name),
            reports=director.latest_reports(),
            paused={wanted.stream for wanted in director.wanted(run.plan.stream.pool) if wanted.paused},
        )


def judge(
    run: Run,
    *,
    sink_of: Callable[[str], AbstractContextManager[Sink]],
    reports: Mapping[StreamId, StreamReport],
    paused: Collection[StreamId] = (),
) -> Cutover:
    is_through = _is_through(run)
    waiting: list[str] = []
    away: dict[str, str] = {}
    errors: list[str] = []
    positions: dict[str, str] = {}
    for destination in run.plan.destinations:
        stream = run.plan.stream_id(destination.name)
        ledger = outcome_of(lambda stream=stream: _ledger(sink_of, stream))  # type: ignore[misc]
        if isinstance(ledger, TransientError | ConfigError):
            # A login that is being rotated is refused for a moment.
            log.warning("the ledger of %s is not known now: %s", stream, ledger)
            away[str(stream)] = "does not answer"
        elif isinstance(ledger, SeamlineError):
            errors.append(f"{stream}: {ledger.message}")
        elif ledger is not None and is_through(ledger):
            positions[str(stream)] = str(ledger.position)
        elif why := _why_never(stream, report := reports.get(stream), paused):
            errors.append(why)
        elif why := _why_not_now(report):
            away[str(stream)] = why
        else:
            waiting.append(str(stream))
    return Cutover(tuple(waiting), away, "; ".join(errors), positions)


def _ledger(sink_of: Callable[[str], AbstractContextManager[Sink]], stream: StreamId) -> LedgerRow | None:
    with sink_of(stream.destination) as sink:
        return sink.read_ledger(stream)


def _why_never(stream: StreamId, report: StreamReport | None, paused: Collection[StreamId]) -> str:
    # One that was taken over by the publish of this run is wanted again a moment later.
    if report is not None and has_ended_for_good(report):
        return f"stream {stream} failed before the cutover: {stream_end(stream, report.error).in_words()}"
    if stream in paused:
        cure = f"`seamline stream resume {stream.sync}`, then clear this task"
        return f"stream {stream} is paused, so the cutover never comes: {cure}"
    return ""


def _why_not_now(report: StreamReport | None) -> str:
    """A destination that can be read may still take nothing, for hours."""
    if report is not None and report.state == "backing_off":
        return f"is tried again and again: {in_one_line(report.error)}"
    if report is not None and report.still_s > _STANDS_STILL_S:
        return f"has not come further for {report.still_s + report.age_s:.0f} s"
    return ""


def _is_through(run: Run) -> Callable[[LedgerRow], bool]:
    """Whether, by this ledger, no table that the run has read still needs the position rule.

    Tables that joined bring their boundaries along, which their incremental snapshot may have ended already.
    """
    change = run.result.get(TABLES)
    if change is None:
        marker = high_marker(run)
        return lambda ledger: has_passed(ledger, marker)
    entering = ListChange.from_json(change).entering
    return lambda ledger: all(boundary.ended for boundary in ledger.boundaries if boundary.table in entering)


def high_marker(run: Run) -> str:
    marker = (run.result.get("snapshot") or {}).get("high_marker")
    if not marker:
        raise InvariantViolated(
            f"run {run.run_id} has no high marker", hint="clear the task `snapshot` and run it again"
        )
    return str(marker)


def has_passed(ledger: LedgerRow, marker: str) -> bool:
    """Whether the commit that applied this very marker is in the ledger.

    A later run's marker does not count, and neither does one of an earlier onboarding that stands in the same log.
    """
    mine = [boundary for boundary in ledger.boundaries if boundary.high_marker == marker]
    return ledger.last_marker == marker or (bool(mine) and all(boundary.ended for boundary in mine))
