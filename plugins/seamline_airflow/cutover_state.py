"""Has a run's cutover happened? Read from the destinations' ledgers, the only authority on progress."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from seamline.domain.errors import InvariantViolated
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.runs import TABLES
from seamline.plan.list_change import ListChange
from seamline.plan.model import Run
from seamline.ports import Sink, StreamReport
from seamline_airflow import parts


@dataclass(frozen=True, slots=True)
class Cutover:
    """`waiting`: streams that have not applied the high marker yet. `error`: one of them never will by itself."""

    waiting: tuple[str, ...] = ()
    error: str = ""
    positions: Mapping[str, str] | None = None

    @property
    def is_reached(self) -> bool:
        return not self.waiting


def look(run_id: str) -> Cutover:
    """The cutover of this run, as it stands now."""
    with parts.platform() as store, parts.director() as director:
        run = store.run(run_id)
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
    waiting, positions = [], {}
    for destination in run.plan.destinations:
        stream = run.plan.stream_id(destination.name)
        with sink_of(destination.name) as sink:
            ledger = sink.read_ledger(stream)
        if ledger is not None and is_through(ledger):
            positions[str(stream)] = str(ledger.position)
            continue
        report = reports.get(stream)
        if report is not None and report.state == "failed":
            return Cutover((str(stream),), f"stream {stream} failed before the cutover: {report.error}")
        if stream in paused:
            cure = f"`seamline stream resume {stream.sync}`, then clear this task"
            return Cutover((str(stream),), f"stream {stream} is paused, so the cutover never comes: {cure}")
        waiting.append(str(stream))
    return Cutover(tuple(waiting), "", positions)


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
