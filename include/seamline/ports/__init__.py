"""What the use cases need from the world, as small protocols. Any call may be repeated with the same arguments after a
crash unless its docstring says otherwise."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Protocol, runtime_checkable

from seamline.domain.canonical import FloatSummary
from seamline.domain.capture_status import CaptureStatus
from seamline.domain.catalogue import Table
from seamline.domain.catch_up import LastLoad, RunningLoad
from seamline.domain.changes import Finding, TableChanges
from seamline.domain.cutover import Boundary
from seamline.domain.digest import KeyedDigest, Segment, SegmentDigest
from seamline.domain.errors import SchemaConflict
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.log import LogRecord, Span
from seamline.domain.log_fill import Follower, LogFill, LogLimits
from seamline.domain.log_kept import LogKept
from seamline.domain.measure import Measure
from seamline.domain.position import Position
from seamline.domain.source_backlog import SourceBacklog

# ---- the log -------------------------------------------------------------------------------------------------------


class LogReader(Protocol):
    """One consumer, assigned once to the one partition of a log topic, `read_committed`.

    Raises PositionLost when the topic was recreated (other topic id) or no longer holds the wanted offset.
    """

    topic: str
    topic_id: str

    def assign(self, offset: int) -> None:
        """Start reading at `offset` (inclusive)."""

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        """The next records in offset order; empty after `timeout_s`. Records of a foreign source: LogCorrupted.

        `records_max` counts what the topic holds: rows that follow each other come as one LogRecord.
        """

    def end_offset(self) -> int:
        """The offset after the last record that is known of; it may be one that cannot be read yet."""

    def close(self) -> None: ...


# ---- the destination -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write under one epoch, and the ledger as it stood when the right was taken."""

    stream: StreamId
    epoch: int
    ledger: LedgerRow


@dataclass(frozen=True, slots=True)
class Progress:
    """What a commit writes into the ledger beside the data. `ended` names the boundaries that this commit ends."""

    span: Span
    last_marker: str = ""
    ended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Staged:
    """A batch as a sink holds it before its commit. Readers see nothing of it."""

    table: str
    batch: object


@dataclass(frozen=True, slots=True)
class Commit:
    """The ledger after the commit, and what the changes met that the log did not promise."""

    ledger: LedgerRow
    findings: tuple[Finding, ...] = ()
    findings_total: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """A whole table, staged in the destination. `staged_as` is the sink's name for it.

    `digest`: of its rows when they were compared with the source.
    """

    table: Table
    staged_as: str
    rows: int
    digest: KeyedDigest | None = None


@dataclass(frozen=True, slots=True)
class Publication:
    """Boundaries and ledger of a first publish. Resolved by `run_id`: a repeat finds it done."""

    run_id: str
    topic: str
    topic_id: str
    next_offset: int
    position: Position
    boundaries: tuple[Boundary, ...]


@dataclass(frozen=True, slots=True)
class Joining:
    """Tables that enter a running stream from their incremental snapshot, and tables that leave it. Resolved by
    `run_id`.

    `incremental_stream` and `incremental_namespace` are those of the incremental snapshot. `kept_as`: removed table →
    the name under which its rows are kept.
    """

    run_id: str
    tables: tuple[Table, ...] = ()
    incremental_stream: StreamId | None = None
    incremental_namespace: str = ""
    kept_as: Mapping[str, str] = field(default_factory=dict)


class Sink(Protocol):
    """A transactional destination of one stream. One commit is one transaction over all tables and the ledger."""

    def read_ledger(self, stream: StreamId) -> LedgerRow | None:
        """The ledger as committed now; None before the first publish."""

    def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
        """Take the next epoch. Waits for or fences a commit in flight; drops stages of older epochs.

        `after_epoch`: only if that is still the ledger's epoch, else Fenced, or WentBack as in `commit`. With it,
        recovery after a lost answer cannot take the stream from a newer owner. Raises Refused when nothing was
        published yet. Each call that returns has raised the epoch by one.
        """

    def stage(self, lease: Lease, changes: TableChanges) -> Staged: ...

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        """Compare-and-set of the ledger first, then the rows, in one transaction.

        Raises Fenced (epoch not mine), WentBack (the ledger stands before what was confirmed to this sink),
        CommitUnknown (answer lost), InvariantViolated (the ledger stands elsewhere).
        A repeat after the lost answer of my own commit returns the ledger as it is.
        """

    def publish(self, stream: StreamId, loads: Sequence[Load], *, publication: Publication) -> Commit:
        """Put whole staged tables in place with boundaries, a new epoch and the ledger, in one transaction."""

    def join(self, stream: StreamId, joining: Joining) -> Commit:
        """Let tables enter and leave a published stream where it stands, in one transaction with a new epoch.

        NotCaughtUp: the ledger of the incremental snapshot and that of the stream stand at different offsets; nothing
        was changed. A table that the stream carries already is replaced in place by its incremental snapshot; readers,
        views and grants stay. All incremental snapshots into this stream end, also abandoned ones.
        """

    def close(self) -> None: ...


# ---- reading both sides at one position ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowHash:
    """One row of a dirty segment: canonical key text (row text where keyless) and its keyed row hash, lower hex.

    A side may fold identical rows into one with their number in `copies`.
    """

    key: str
    hash: str
    copies: int = 1


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table, and the part of it that is read."""

    table: Table
    segment: Segment


class ReadView(Protocol):
    """One consistent read of one side, open until closed. Both sides answer alike, so reconciliation is symmetric."""

    @property
    def position(self) -> Position: ...

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        """Digest per bucket number in `[0, segment.buckets)`; buckets without rows are absent."""

    def key_span(self, table: str) -> tuple[int, int] | None:
        """Least and greatest value of the first key column, an integer; None of a table without rows."""

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        """Every row of the segment's selected buckets."""

    def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        """Canonical column texts of the rows with these canonical keys."""

    def totals(
        self, segment: Segment, *, columns: Sequence[str], by: Sequence[str], measure: Measure = Measure.SUM
    ) -> Mapping[tuple[str, ...], tuple[int, Decimal | None]]:
        """Rows and what is measured of them per group, over the segment. `columns`: the one that is measured, several
        for DUPLICATES; () counts rows only, and nothing is measured (None)."""

    def float_summaries(self, segment: Segment) -> Mapping[str, FloatSummary]:
        """The inexact columns, which the digest leaves out, each with its summary."""

    def columns(self, table: str) -> tuple[str, ...]:
        """The table's column names as this side's own catalogue has them, in order; () where it has no such table."""

    def close(self) -> None: ...


@runtime_checkable
class StagedView(ReadView, Protocol):
    """Of rows that we have put there, and look at once more before they are published, or before another cut begins
    with them."""

    def whole_digest(self, table: str, *, run_key: str) -> SegmentDigest:
        """All rows with every column, FLOAT and DOUBLE as this server prints them: to be held against its own answer at
        another time, and never against the other side."""


@runtime_checkable
class SaysGuarantee(Protocol):
    """A view of rows that may have been written under less than their sync declares by now."""

    @property
    def guarantee(self) -> str:
        """Under which they were; "" where nothing says otherwise than the declaration."""


class SchemaGuard(Protocol):
    """Whether the source's tables still have their planned schema, for a source whose log holds no DDL."""

    def verify(self, through: Position) -> None:
        """Return if every change up to `through` was made under the planned schema; SchemaConflict names what was
        altered. TransientError: the source does not answer."""

    @property
    def verified(self) -> Position | None:
        """Up to here `verify` has nothing to ask; None before its first answer. May be read from any thread."""

    def is_as_planned(self, fingerprints: Mapping[str, str]) -> bool:
        """Whether these fingerprints (`CatalogueFingerprints.tables`, by what the capture calls them) are those of the
        planned tables, or of the last state that was found to be good. False if that is unknown. Does not ask the
        source."""

    def close(self) -> None: ...


class HeartbeatPayload(Protocol):
    """Reports what a source's catalogue is now, for a heartbeat to carry it into the log (ADR 37)."""

    def payload(self, tables: Collection[str]) -> Mapping[str, object]:
        """`tables`, and so its fingerprints, by what the capture calls them."""


# ---- control of streams --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Orders:
    """What a stream shall do, as the platform database says now.

    `hold_id` set: stand still at an END until the lease ends (`hold_until_s`, epoch seconds by this process's clock;
    the platform database's clock decides, the control translates it);
    `apply_to` set as well: first apply every transaction it covers and stop before the first that it does not.
    `are_old`: the platform database is away, so these are the last known ones.
    """

    wanted: bool = True
    paused: bool = False
    hold_id: str = ""
    hold_until_s: float = 0.0
    apply_to: Position | None = None
    are_old: bool = False


@dataclass(frozen=True, slots=True)
class StreamReport:
    """State a stream reports between spans. `state`: starting, streaming, catching_up, paused, held, stopped, failed,
    waiting (for its source; `error` says why).
    The host reports for a stream that has no task: no_slot, backing_off, failed, stopped. `idle` is never reported: a
    loop ends with it, and the host keeps its last report young while it listens to the log for it (`is_idle`).

    `records_per_s`: what it applies while it has something to do; 0 where that was not measured yet.
    `silent_s`: since when nothing has come through the log, not even a heartbeat of the source; 0 while they come.
    `host`, `reports_dropped` (while the platform database was away), `age_s` (seconds since it was written, by the
    database's clock), `still_s` (for how long it had not advanced then, although nobody held or paused it),
    `since` (when it came into this state), `is_idle`, and `kept` with `kept_at` (what the log keeps for it, as the
    watch of its source has measured it then; None where that was not within two minutes) are filled in on the way; the
    stream leaves them out.
    """

    stream: StreamId
    state: str
    epoch: int = 0
    next_offset: int = 0
    log_end_offset: int = 0
    position: Position | None = None
    lag_s: float = 0.0
    transactions: int = 0
    changes: int = 0
    findings: int = 0
    hold_id: str = ""
    error: str = ""
    host: str = ""
    reports_dropped: int = 0
    age_s: float = 0.0
    still_s: float = 0.0
    silent_s: float = 0.0
    records_per_s: float = 0.0
    since: datetime | None = None
    is_idle: bool = False
    topic_id: str = ""
    kept: LogKept | None = None
    kept_at: datetime | None = None


class StreamControl(Protocol):
    """The stream's side of the platform database. Never blocks the loop: a database that is away means "as before"."""

    def orders(self) -> Orders:
        """The first call comes before the stream takes the right to write. It reads the current orders if the database
        answers, which may take some seconds.

        A hold whose lease has ended is left out: the stream needs no clock of its own."""

    def report(self, report: StreamReport) -> None: ...


@dataclass(frozen=True, slots=True)
class WantedStream:
    """A stream that shall run, and its plan. `want_number` grows with each want.

    `final_want`: the want under which it ended for good, with `final_error`; -1: none. It stays down until a later one.
    `held`: somebody has a hold on it, so a worker has to answer. `paused_by` is "" and `paused_at` None where nobody
    wrote it down.
    """

    stream: StreamId
    plan_json: str
    want_number: int
    paused: bool = False
    final_want: int = -1
    final_error: str = ""
    held: bool = False
    paused_by: str = ""
    paused_at: datetime | None = None
    pause_reason: str = ""


class StreamDirector(Protocol):
    """The other side: operators, sensors and reconciliation speak to streams through it."""

    def want(self, stream: StreamId, *, plan_json: str) -> None: ...

    def unwant(self, stream: StreamId) -> None: ...

    def latest_report(self, stream: StreamId) -> StreamReport | None: ...

    def hold(self, stream: StreamId, *, lease_s: float) -> str:
        """Ask the stream to stand still; returns the hold's id. The hold ends by itself.

        Refused where the stream stands on purpose: it is paused or not wanted.
        """

    def extend(self, hold_id: str, *, lease_s: float) -> None:
        """Let the hold end in `lease_s` from now. TransientError where it has ended."""

    def apply_up_to(self, hold_id: str, position: Position) -> None: ...

    def release(self, hold_id: str) -> None: ...


# ---- the source ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marker:
    """A row the platform commits in the source. `kind`: low, high, heartbeat, barrier, tables."""

    id: str
    kind: str
    payload: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of preflight. `is_fatal` stops; the others are shown and recorded. `place`: of what mends it in the
    source's file, by its keys; () where it is not there, or not known."""

    what: str
    cure: str
    is_fatal: bool = True
    table: str = ""
    place: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Survey:
    """The tables that a source was asked for: those that can be kept, in the order asked, and why the others cannot.

    Every problem names its table and is fatal.
    """

    tables: tuple[Table, ...]
    problems: tuple[Problem, ...] = ()

    def whole(self) -> tuple[Table, ...]:
        """SchemaConflict with all problems where there is one."""
        if self.problems:
            raise SchemaConflict(
                "; ".join(problem.what for problem in self.problems),
                hint="; ".join(dict.fromkeys(problem.cure for problem in self.problems)),
                table=",".join(dict.fromkeys(problem.table for problem in self.problems)),
            )
        return self.tables


class Source(Protocol):
    """What tables are read from, as its own logins see it."""

    def survey(self, tables: Sequence[str]) -> Survey:
        """What is there of these tables. An unknown table or type is a problem with a guess or the cure."""

    def catalogue(self, tables: Sequence[str]) -> tuple[Table, ...]:
        """Tables in the order asked. Unknown table or type: SchemaConflict with a guess or the cure."""

    def altered(self, planned: Sequence[Table]) -> list[str]:
        """What was altered of these tables since they were described so, in words; [] where all their values still mean
        what they meant. Raises as `catalogue` does."""

    def preflight(self, tables: Sequence[Table]) -> tuple[Problem, ...]: ...


class LoggedSource(Source, Protocol):
    """A source whose log is captured."""

    def commit_marker(self, marker: Marker) -> None:
        """Commit the marker row; returns after the commit. A repeat with the same id is a no-op."""

    def prune_markers(self, *, older_than_s: float, rows_max: int) -> int:
        """Delete markers of that age, at most so many; returns how many. The log keeps every marker."""

    def open_views(self, count: int) -> Sequence[ReadView]:
        """`count` read views at one and the same position."""


@runtime_checkable
class KeepsItsLog(Protocol):
    """A source whose server says what it keeps of its own log for a capture."""

    def backlog(self, place: Mapping[str, object]) -> SourceBacklog:
        """For the capture that stands at this place, as Connect keeps it; {}: not known."""

    def let_go(self) -> None:
        """Drop what the server keeps for the capture (a slot), if anything. The capture is stopped. Repeat-safe."""


@runtime_checkable
class KnowsItsLoad(Protocol):
    """A source whose server says how busy it is."""

    def running(self) -> int:
        """Statements that it works on now. Refused, ConfigError: the reader may not see them."""

    def replica_lag_s(self) -> float | None:
        """How far a replica is behind: this server, or the slowest one that it knows of. None: there is none. Infinite:
        it stands still. Refused, ConfigError: as above."""


class CaptureRegistry(Protocol):
    """Which tables a source's capture carries. Changes only inside `locked`."""

    def locked(self, source: str) -> AbstractContextManager[None]: ...

    def tables(self, source: str) -> tuple[int, tuple[str, ...]]:
        """(generation, tables); (0, ()) before the first."""

    def set_tables(self, source: str, *, generation: int, tables: Sequence[str]) -> None: ...


class CaptureProbe(Protocol):
    """A source's connector and log topic as their servers report them. TransientError: no answer."""

    def status(self) -> CaptureStatus: ...

    def restart_failed(self) -> None:
        """Restart the connector's failed parts; returns when Connect has accepted it."""

    def stop(self) -> None:
        """Stop the connector and keep its configuration and offsets."""

    def pause(self) -> None:
        """Let the connector stand still with its sessions; returns when Connect has accepted it."""

    def resume(self) -> None:
        """Let a paused connector go on; returns when Connect has accepted it."""

    def slow_down(self, bytes_per_s: int | None) -> None:
        """Let the connector write so many bytes a second into the log; None: as many as it can. Repeat-safe.

        ConfigError: the broker lets this login set no quotas.
        """

    def place(self) -> Mapping[str, object]:
        """Where it stands in the source's log, as Connect keeps it; {} before the first."""

    def log_fill(self) -> LogFill:
        """What the log topic holds on its broker."""

    def log_limits(self) -> LogLimits | None:
        """The topic's limits that the connector was last given; None where it was given none."""


class Followers(Protocol):
    """The streams of a source, as the platform database has them."""

    def of(self, source: str) -> Sequence[Follower]:
        """Those that are wanted and are known to stand somewhere. TransientError: no answer."""

    def last_load(self, stream: StreamId) -> LastLoad | None:
        """How long the last load of all tables into the stream's destination took; None where none was measured."""

    def running_loads(self, source: str) -> Sequence[RunningLoad]:
        """Onboardings that read the source's tables now."""

    def cut_off(self, stream: StreamId, reason: str) -> None:
        """Let it end and need nothing of the log any more, until it is wanted again. Repeat-safe."""

    def note_kept(self, kept: Mapping[StreamId, LogKept]) -> None:
        """Write down what the log keeps for each stream, for whoever looks at it. Replaces what was said before."""


class PruningHolds(Protocol):
    """A lease against pruning: while it lives nobody deletes the log topic's records from `offset` on."""

    def hold_log(self, topic: str, *, holder: str, offset: int, lease_s: float) -> str: ...

    def release_log(self, hold_id: str) -> None: ...


class Failpoints(Protocol):
    """Named places where a test may fail, kill, stop or hold the process. Does nothing unless armed."""

    def reach(self, name: str) -> None: ...


class Unarmed:
    """Failpoints that never fail."""

    def reach(self, name: str) -> None:
        return
