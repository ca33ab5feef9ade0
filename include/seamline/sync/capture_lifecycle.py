"""A source's capture: one connector, one log topic, shared by all syncs of the source.

`ensure_capture` brings it to where it must be, from whatever state it is in, and may be repeated after a crash at any
line. Its table list lies in the registry and changes only under the source's lock.
"""

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from seamline.domain.errors import PositionLost, Refused, TerminalError
from seamline.domain.position import Position
from seamline.plan.model import SourcePlan, SyncPlan
from seamline.ports import CaptureRegistry, Failpoints, LogReader, Marker, Problem, Unarmed
from seamline.sync.fatal_problems import refuse_fatal
from seamline.sync.flow_control import PAUSED_AT
from seamline.sync.markers import HEARTBEAT, MarkerPlace, read_until_marker

log = logging.getLogger(__name__)

_PROOF_TIMEOUT_S = 180.0


class ConnectorState(Protocol):
    @property
    def is_running(self) -> bool: ...
    @property
    def is_failed(self) -> bool: ...
    @property
    def is_stopped(self) -> bool: ...
    @property
    def error(self) -> str: ...
    @property
    def cure(self) -> str: ...
    @property
    def has_lost_its_place(self) -> bool:
        """Whether the source's log no longer goes on where the connector stands."""

    @property
    def failed_as_it_ended(self) -> bool:
        """Whether it fails by its own end alone: started once more, it goes on."""


class CaptureConnector(Protocol):
    """The connector of one source. Calls may be repeated."""

    name: str

    def problems(self) -> tuple[Problem, ...]: ...

    def status(self) -> ConnectorState | None:
        """None where the connector does not exist."""

    def create(self, tables: Sequence[str]) -> None:
        """Create it stopped, unless it is there."""

    def is_seeded(self) -> bool:
        """Whether it knows a place in the source's log to start from."""

    def seed(self, position: Position, tables: Sequence[str]) -> None: ...

    def is_first_start(self) -> bool:
        """Whether it was seeded and the first start is not known to be over."""

    def carries(self, tables: Sequence[str]) -> bool: ...

    def set_tables(self, tables: Sequence[str]) -> None:
        """Stop it, change its settings, leave it stopped at its place."""

    def start(self) -> None:
        """Resume or restart it; returns when it runs or has failed."""

    def delete(self) -> None:
        """With its place; one that is not there is a no-op."""


class LogTopics(Protocol):
    """The topics of one source's capture."""

    def ensure(self) -> str:
        """Create or check them; returns the log topic's id. ConfigError names a wrong setting and its cure."""

    def delete(self) -> None:
        """All of them; returns when they are gone."""

    def end_offset(self) -> int: ...

    def size_bytes(self) -> int: ...


class CaptureSource(Protocol):
    def seed_position(self) -> Position:
        """The position of a consistent snapshot session; a status read would be wrong under load."""

    def commit_marker(self, marker: Marker) -> None: ...

    def let_go(self) -> None:
        """Drop what the source's server keeps for a capture (a slot), if anything."""


@dataclass(frozen=True, slots=True)
class CaptureState:
    """A capture that runs and carries `tables`. `changed`: its table list or settings were changed by this call."""

    connector: str
    topic: str
    topic_id: str
    generation: int
    tables: tuple[str, ...]
    changed: bool
    proof: MarkerPlace | None = None


def ensure_capture(
    plan: SyncPlan,
    *,
    registry: CaptureRegistry,
    connect: CaptureConnector,
    topics: LogTopics,
    source: CaptureSource,
    open_log: Callable[[], LogReader],
    failpoints: Failpoints | None = None,
) -> CaptureState:
    """Make the capture of the plan's source run with this sync's tables among its own.

    Returns once it is running and, where something was changed, once a marker committed after the change was read back
    from the log topic. Raises Refused at the topic's byte limit, PositionLost where the connector lost its place,
    TerminalError with the trace where it fails.
    """
    with registry.locked(plan.source.name):
        refuse_fatal(connect.problems())
        topic_id = topics.ensure()
        _refuse_full_topic(plan.source, topics)
        generation, known = registry.tables(plan.source.name)
        tables = wanted_tables(plan, known)
        connect.create(tables)
        if not connect.is_seeded():
            _seed(plan.source, tables, connect, topics, source)
        next_generation = generation if tables == known else generation + 1
        work = _Work(plan.source, tables, next_generation, connect, topics, source, open_log, failpoints or Unarmed())
        proof = work.bring_up()
        if proof is None and tables != known:
            proof = work.prove()
        if tables != known:
            registry.set_tables(plan.source.name, generation=work.generation, tables=tables)
            log.info(
                "capture carries %d tables source=%s generation=%d", len(tables), plan.source.name, work.generation
            )
    return CaptureState(
        connect.name, plan.source.log_topic, topic_id, work.generation, tables, changed=proof is not None, proof=proof
    )


def reset_capture(
    plan: SourcePlan,
    *,
    registry: CaptureRegistry,
    connect: CaptureConnector,
    topics: LogTopics,
    source: CaptureSource,
) -> None:
    """Give the capture up with its place and with all that its log holds; the next `ensure_capture` begins a new one.

    For a source whose log goes on nowhere that the capture knows. Repeat-safe. The list of tables stays. No stream goes
    on in another log: each stops by name until its sync is onboarded again. The source's server comes last: it may be
    gone for good.
    """
    with registry.locked(plan.name):
        connect.delete()
        topics.delete()
        source.let_go()
        log.info("capture given up source=%s topic=%s", plan.name, plan.log_topic)


def wanted_tables(plan: SyncPlan, known: Sequence[str]) -> tuple[str, ...]:
    """What the capture carried, this sync's tables and the marker table, in one fixed order, as the capture calls
    them."""
    places = plan.source.places
    return tuple(sorted({*known, *(places.captured(table.name) for table in plan.tables), plan.source.marker_table}))


@dataclass(frozen=True, slots=True)
class _Work:
    """One call's business with one connector."""

    source_plan: SourcePlan
    tables: tuple[str, ...]
    generation: int
    connect: CaptureConnector
    topics: LogTopics
    source: CaptureSource
    open_log: Callable[[], LogReader]
    failpoints: Failpoints

    def bring_up(self) -> MarkerPlace | None:
        """Running with the wanted settings; the proof where they had to be changed."""
        if self.connect.is_first_start():
            # Only a record read back shows that the structure was read and streaming has begun.
            self._start()
            self.prove()
            self.connect.set_tables(self.tables)
        elif self.connect.carries(self.tables):
            status = self.connect.status()
            if status is None or not status.is_running:
                log.info("capture mended source=%s was=%s", self.source_plan.name, status)
                self._start()
                return self.prove()
            return None
        else:
            self.connect.set_tables(self.tables)
            self.failpoints.reach("cap.list_changed")
        self._start()
        return self.prove()

    def prove(self) -> MarkerPlace:
        """Commit a `tables` marker and read it back from the log topic.

        Its id is new each time: a marker of an earlier attempt may lie before the place from where is read.
        """
        marker = Marker(
            id=f"tables-{self.generation}-{uuid.uuid4().hex[:16]}",
            kind="tables",
            payload={"generation": self.generation, "tables": list(self.tables)},
        )
        reader = self.open_log()
        try:
            reader.assign(self.topics.end_offset())
            self.source.commit_marker(marker)
            return read_until_marker(
                reader,
                marker_table=self.source_plan.marker_table,
                marker_id=marker.id,
                timeout_s=_PROOF_TIMEOUT_S,
                while_silent=self._refuse_failed,
            )
        finally:
            reader.close()

    def _start(self) -> None:
        self.connect.start()
        self._refuse_failed()

    def _refuse_failed(self) -> None:
        status = self.connect.status()
        if status is None or not status.is_failed:
            return
        if status.has_lost_its_place:
            raise PositionLost(
                f"connector {self.connect.name} cannot go on: the log of source {self.source_plan.name} no longer holds"
                " its place (purged, restored, another server, or its replication slot dropped or made again):"
                f" {status.error}",
                hint=status.cure,
            )
        if status.failed_as_it_ended:
            log.info("capture started again source=%s was=%s", self.source_plan.name, status.error)
            self.connect.start()
            return
        raise TerminalError(f"connector {self.connect.name} fails: {status.error}", hint=status.cure)


def _refuse_full_topic(source: SourcePlan, topics: LogTopics) -> None:
    size = topics.size_bytes()
    if size >= limit_bytes(source) * PAUSED_AT:
        raise Refused(
            f"log topic {source.log_topic} of source {source.name} holds {size / 2**30:.2f} GiB, its limit is "
            f"{source.log_max_gb:g} GiB: the capture is stopped, or pauses until it holds less",
            hint=full_topic_cure(source.name),
        )


def full_topic_cure(source: str) -> str:
    return f"raise `log.max_gb` of source {source}, then `./seamline capture start {source}`: it goes on from its place"


def limit_bytes(source: SourcePlan) -> int:
    return int(source.log_max_gb * 2**30)


def _seed(
    plan: SourcePlan, tables: Sequence[str], connect: CaptureConnector, topics: LogTopics, source: CaptureSource
) -> None:
    end = topics.end_offset()
    if end:
        raise PositionLost(
            f"connector {connect.name} has lost its place in the source's log, and {plan.log_topic} already holds "
            f"records up to offset {end}: to begin anywhere else could leave a hole",
            hint=f"`seamline capture reset {plan.name}` gives the log up; then onboard the source's syncs again",
        )
    # A server whose binlog is still empty has no GTID to begin at.
    source.commit_marker(Marker(id=f"seed-{uuid.uuid4().hex}", kind=HEARTBEAT))
    position = source.seed_position()
    connect.seed(position, tables)
    log.info("capture seeded source=%s position=%s", plan.name, position)
