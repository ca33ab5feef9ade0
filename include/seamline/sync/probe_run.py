"""Probe rows on both paths: the bulk read and copy, and Debezium with the span loop, in a capture of their own."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from seamline.domain.cutover import Boundary
from seamline.domain.digest import Segment
from seamline.domain.errors import InvariantViolated, TerminalError, TransientError
from seamline.domain.probe import Probe, ProbePath
from seamline.domain.runs import RunKind, RunState
from seamline.plan.model import Run, SyncPlan, TablePlan
from seamline.ports import (
    LoggedSource,
    LogReader,
    Marker,
    Orders,
    Publication,
    ReadView,
    SchemaGuard,
    Sink,
    StreamReport,
    TableRead,
)
from seamline.ports.certificates import ProbeDestination, ProbeSource
from seamline.sync.capture_lifecycle import CaptureConnector, CaptureSource, LogTopics, ensure_capture
from seamline.sync.clock import Clock, SystemClock
from seamline.sync.fatal_problems import refuse_fatal
from seamline.sync.markers import MarkerPlace, read_until_marker
from seamline.sync.pace import Pace
from seamline.sync.snapshot import ReadAtOnePosition
from seamline.sync.span_loop import run_stream

_WITHIN_S = 180.0
_PACE = Pace(
    idle_wait_s=0.05,
    quiet_wait_s=0.05,
    empty_commit_every_s=0.05,
    empty_commit_wait_max_s=0.05,
    report_every_s=0.05,
    idle_report_every_s=0.05,
)


class ProbedSource(LoggedSource, CaptureSource, Protocol):
    """A source that is read and captured."""


class OwnConnector(CaptureConnector, Protocol):
    def delete(self) -> None: ...


class OwnTopics(LogTopics, Protocol):
    def delete(self) -> None:
        """Returns when they are gone."""


OpenRead = Callable[[Sequence[TableRead]], AbstractContextManager[ReadAtOnePosition]]


@dataclass(frozen=True, slots=True)
class CertifyTools:
    """The world of one certificate; all but `open_destination` know only the certificate's own plan.

    `open_read` is asked for once per run. `versions`: of what is under test besides source and destinations.
    """

    probes: ProbeSource
    source: ProbedSource
    connect: OwnConnector
    topics: OwnTopics
    open_log: Callable[[SyncPlan], LogReader]
    open_read: Callable[[Run], OpenRead]
    open_sink: Callable[[SyncPlan, str], Sink]
    open_schema_guard: Callable[[SyncPlan], SchemaGuard | None]
    open_view: Callable[[SyncPlan, str], ReadView]
    open_destination: Callable[[SyncPlan, str], ProbeDestination]
    versions: Sequence[tuple[str, str]] = ()
    say: Callable[[str], None] = lambda _: None
    clock: Clock = SystemClock()


class ProbeRun:
    """One way of all probes through both paths. `plan` is the certificate's own, without tables yet."""

    def __init__(self, plan: SyncPlan, probes: Sequence[Probe], tools: CertifyTools) -> None:
        self.plan = plan
        self._probes = probes
        self._tools = tools

    def make(self) -> None:
        """The probe tables, with the rows that the snapshot path takes."""
        self._tools.say(f"making {len(self._probes)} probe tables in the source")
        self._tools.probes.make(self._probes)
        self.plan = replace(self.plan, tables=self._catalogued())
        self._refuse_problems()
        self._write(ProbePath.SNAPSHOT)

    def send(self) -> None:
        """Send the probes both ways. TerminalError: a path has ended."""
        tools = self._tools
        tools.say("starting a capture of its own")
        capture = ensure_capture(
            self.plan,
            registry=_OnlyThis(),
            connect=tools.connect,
            topics=tools.topics,
            source=tools.source,
            open_log=lambda: tools.open_log(self.plan),
        )
        if capture.proof is None:
            raise InvariantViolated("the certificate's own capture was there before it was made")
        tools.say("the snapshot path: bulk read and copy")
        self._copy(capture.topic_id, capture.proof)
        tools.say("the log path: inserts and updates, one by one")
        offset = self._stream(capture.proof.next_offset, ProbePath.INSERT, ProbePath.UPDATE)
        tools.say("the log path: large transactions")
        offset = self._stream(offset, ProbePath.BATCH)
        if any(probe.blocks(ProbePath.BATCH_WITH_WORDS) for probe in self._probes):
            self._stream(offset, ProbePath.BATCH_WITH_WORDS)

    def _catalogued(self) -> tuple[TablePlan, ...]:
        """As the source's catalogue has them; they must be those of the tables that they stand for."""
        found = self._tools.source.catalogue([probe.name for probe in self._probes])
        for probe, table in zip(self._probes, found, strict=True):
            if table.columns[1:] != probe.columns:
                raise InvariantViolated(f"the probe of table {probe.of.name} has other columns", table=probe.of.name)
        return tuple(TablePlan(table.name, table=table) for table in found)

    def _refuse_problems(self) -> None:
        """As an onboarding's preflight does: what would end a path is better reported before."""
        refuse_fatal(self._tools.source.preflight([table.definition for table in self.plan.tables]))

    def _write(self, *paths: ProbePath) -> None:
        for probe in self._probes:
            for path in paths:
                self._tools.probes.write(probe, path)

    def _copy(self, topic_id: str, low: MarkerPlace) -> None:
        """Stage and publish, as an onboarding does. The certificate itself compares what was staged."""
        sync = self.plan.sync
        run = Run(f"{sync}/{uuid.uuid4().hex}", sync, RunKind.ONBOARD, None, self.plan, RunState.RUNNING)
        high = Marker(f"high-{uuid.uuid4().hex}", "high")
        tables = [table.definition for table in self.plan.tables]
        with self._tools.open_read(run)([TableRead(table, Segment(table.name)) for table in tables]) as read:
            self._tools.source.commit_marker(high)
            loads = {one.name: read.stage(one) for one in self.plan.destinations}
            position = read.position
        publication = Publication(
            run.run_id,
            self.plan.source.log_topic,
            topic_id,
            low.next_offset,
            position,
            tuple(Boundary(table.name, position, high_marker=high.id) for table in tables),
        )
        for name, staged in loads.items():
            with closing(self._tools.open_sink(self.plan, name)) as sink:
                sink.publish(self.plan.stream_id(name), staged, publication=publication)

    def _stream(self, after: int, *paths: ProbePath) -> int:
        """Write, and stream everything that was written into every destination; the offset up to where."""
        self._write(*paths)
        place = self._passed(after)
        for destination in self.plan.destinations:
            until = _Until(place.next_offset, self._tools.clock)
            schema_guard = self._tools.open_schema_guard(self.plan)
            try:
                with (
                    closing(self._tools.open_log(self.plan)) as reader,
                    closing(self._tools.open_sink(self.plan, destination.name)) as sink,
                ):
                    run_stream(
                        self.plan,
                        destination.name,
                        reader=reader,
                        sink=sink,
                        control=until,
                        schema_guard=schema_guard,
                        pace=_PACE,
                    )
            finally:
                if schema_guard is not None:
                    schema_guard.close()
            until.require_reached()
        return place.next_offset

    def _passed(self, after: int) -> MarkerPlace:
        """Where the log stands once everything that was written has passed through the capture."""
        marker = Marker(f"certify-{uuid.uuid4().hex}", "barrier")
        self._tools.source.commit_marker(marker)
        with closing(self._tools.open_log(self.plan)) as log:
            log.assign(after)
            return read_until_marker(
                log,
                marker_table=self.plan.source.marker_table,
                marker_id=marker.id,
                timeout_s=_WITHIN_S,
                while_silent=self._refuse_failed,
            )

    def _refuse_failed(self) -> None:
        status = self._tools.connect.status()
        if status is not None and status.is_failed:
            raise TerminalError(f"connector {self._tools.connect.name} fails: {status.error}", hint=status.cure)


class _OnlyThis:
    """CaptureRegistry of a capture that nobody else knows."""

    @contextmanager
    def locked(self, source: str) -> Iterator[None]:
        yield

    def tables(self, source: str) -> tuple[int, tuple[str, ...]]:
        return 0, ()

    def set_tables(self, source: str, *, generation: int, tables: Sequence[str]) -> None:
        return


class _Until:
    """StreamControl: the stream is wanted until it has applied everything before an offset."""

    def __init__(self, offset: int, clock: Clock) -> None:
        self._offset = offset
        self._clock = clock
        self._until_s = clock.now() + _WITHIN_S
        self._at = -1

    def orders(self) -> Orders:
        return Orders(wanted=self._at < self._offset and self._clock.now() < self._until_s)

    def report(self, report: StreamReport) -> None:
        self._at = report.next_offset

    def require_reached(self) -> None:
        if self._at < self._offset:
            raise TransientError(
                f"the stream stands at offset {self._at}, not yet at {self._offset}, after {_WITHIN_S:g} s",
                hint="the destination is slow or locked; try again",
            )
