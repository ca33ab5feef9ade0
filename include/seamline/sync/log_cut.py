"""The cut of a date from a cut before it and the log since: what the log says up to the cut-off (ADR 73).

It ends before the first END whose commit time is the cut-off or later. So it is the same whenever it is made. The rows
of the cut before it are never read from the source: what it was proven to hold, and the log, say what comes out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Protocol

from seamline.domain.business_dates import Is
from seamline.domain.changes import TableChanges
from seamline.domain.cutover import Boundary, BoundaryGate, is_covered
from seamline.domain.errors import TransientError
from seamline.domain.log import Transaction
from seamline.domain.made_from import (
    BY_LOG,
    CHANGES_MAX,
    LATE_NAMED_MAX,
    LATE_S,
    LET_IT_BE_READ,
    LOG_PLACE,
    ByLog,
    EarlierCut,
    LateTransaction,
    LogPlace,
    NotByLog,
    by_log_from_json,
    moment,
    place_from_json,
)
from seamline.domain.position import Position
from seamline.domain.runs import Cut, Reconciliation, Scope
from seamline.domain.verdict import Verdict
from seamline.plan.model import Run, SyncPlan
from seamline.ports import LogReader
from seamline.sync.clock import Clock
from seamline.sync.compaction import compact
from seamline.sync.cut import staged_cut
from seamline.sync.markers import HEARTBEAT_S, is_heartbeat, is_marker
from seamline.sync.stop_conditions import stands_alone, stop_condition
from seamline.sync.system_date import SystemDate
from seamline.sync.transaction_buffer import BufferLimits, TransactionBuffer

_SEE_CAPTURE = "see whether the capture runs and keeps up: `seamline status`"
# Cuts that are looked at, the newest first: further back a read costs less than the log since.
_BASES_MAX = 60
# As long as nights may be missed without losing what the next one, or a backfill of these dates, begins with.
MISSED_DAYS = 14


@dataclass(frozen=True, slots=True)
class CutLogLimits:
    """How much of the log may lie between both cuts, in row changes and in bytes of their images: the newest of each
    key is in memory. `wait_max_s`: for the next record, while none is from
    behind the cut-off. `late_s`: for how long heartbeats have to say that the cut-off is over, with no transaction that
    says to be from before it, until no more are looked for. `ahead_max_s`: so much of the log's time may lie behind the
    end of the cut and before the cut-off; where there is more, the end came by a clock that was ahead."""

    changes_max: int = CHANGES_MAX
    bytes_max: int = 512 << 20
    wait_max_s: float = 600.0
    late_s: float = LATE_S
    ahead_max_s: float = 300.0
    poll_records_max: int = 10_000
    look_every_s: float = 0.5


class CutHistory(Protocol):
    """What the platform database knows of earlier cuts."""

    def cuts(self, sync: str) -> Sequence[Cut]:
        """The newest date first, of a date the newest version first."""

    def run(self, run_id: str) -> Run: ...

    def reconciliation(self, run_id: str, scope: str, destination: str = "") -> Reconciliation | None: ...


@dataclass(frozen=True, slots=True)
class LogHeld:
    """The log topic as it is now: records from `begins` on are there."""

    topic: str
    topic_id: str
    begins: int


# ---- the cut to begin with ------------------------------------------------------------------------------------------


def find_base(
    plan: SyncPlan, destination: str, business_date: date, *, history: CutHistory, held: LogHeld
) -> EarlierCut:
    """The newest published cut of an earlier date that one of this date can begin with.

    `plan`: of cuts, as the destination holds it. NotByLog: there is none, with the reason of the newest one and, where
    there is an older one that would do for other dates, these.
    """
    all_cuts = [cut for cut in history.cuts(plan.sync) if cut.destination == destination]
    earlier = [cut for cut in all_cuts if cut.business_date < business_date][:_BASES_MAX]
    why = ""
    for cut in earlier:
        found = _base_of(cut, plan, history, held)
        if isinstance(found, EarlierCut) and not (gap := _left_out(cut, plan, business_date, history)):
            return found
        why = why or (gap if isinstance(found, EarlierCut) else found)
    if not earlier:
        error = NotByLog(f"no cut before {business_date} is published in {destination}", sync=plan.sync)
        # A repeat of the only date is as the first.
        error.is_first = all(cut.business_date == business_date for cut in all_cuts)
        if not error.is_first:
            error.hint = f"cuts of later dates are there already, and none of them can begin this one; {LET_IT_BE_READ}"
        raise error
    raise NotByLog(why, hint=_possible(all_cuts, plan, history, held), sync=plan.sync)


def needed_from(plan: SyncPlan, destination: str, *, history: CutHistory, held: LogHeld) -> int | None:
    """From where on the next cuts need the log: where the newest published cut goes on that one can begin with and that
    lies before every date of late that has no cut yet. None: there is none.

    A date of late is at most `MISSED_DAYS` before the newest cut."""
    cuts = [cut for cut in history.cuts(plan.sync) if cut.destination == destination][:_BASES_MAX]
    found = ((cut.business_date, _base_of(cut, plan, history, held)) for cut in cuts)
    usable = ((day, base.place.offset) for day, base in found if isinstance(base, EarlierCut))
    if (newest := next(usable, None)) is None:
        return None
    missing = _missing_since(cuts, plan)
    if missing is None or newest[0] < missing:
        return newest[1]
    return next((offset for day, offset in usable if day < missing), newest[1])


def _missing_since(cuts: Sequence[Cut], plan: SyncPlan) -> date | None:
    """The oldest business date of late without a cut. `cuts`: the newest first."""
    if plan.nightly is None:
        return None
    there = {cut.business_date for cut in cuts}
    newest, oldest = cuts[0].business_date, cuts[-1].business_date
    days = (newest - timedelta(days=back) for back in range(min(MISSED_DAYS, (newest - oldest).days), 0, -1))
    open_days = (day for day in days if plan.nightly.dates.look(day).is_ is not Is.CLOSED)
    return next((day for day in open_days if day not in there), None)


def _possible(cuts: Sequence[Cut], plan: SyncPlan, history: CutHistory, held: LogHeld) -> str:
    usable = [
        cut.business_date for cut in cuts[:_BASES_MAX] if isinstance(_base_of(cut, plan, history, held), EarlierCut)
    ]
    if not usable:
        return f"{LET_IT_BE_READ}: later dates begin with its cut"
    return f"by the log dates after {min(usable)} can be made; {LET_IT_BE_READ}"


def _base_of(cut: Cut, plan: SyncPlan, history: CutHistory, held: LogHeld) -> EarlierCut | str:
    """Or why nothing can begin with it."""
    of = f"the cut of {cut.business_date}, version {cut.version},"
    if cut.verdict is not Verdict.MATCH:
        return f"{of} is {cut.verdict}"
    found = history.reconciliation(cut.run_id, Scope.CUT, cut.destination)
    if found is None or LOG_PLACE not in found.evidence:
        return f"{of} was made without a place in the log"
    evidence: Mapping[str, Any] = found.evidence
    place = place_from_json(evidence[LOG_PLACE])
    if (place.topic, place.topic_id) != (held.topic, held.topic_id):
        return f"the log topic was created again since {of[:-1]}"
    if place.offset < held.begins:
        return f"the log begins at offset {held.begins}, which is behind {of[:-1]}: that needs {place.offset}"
    run = history.run(cut.run_id)
    made = staged_cut(run, cut.destination)
    if found.position is None or not (made.position == found.position == cut.position):
        return f"{of} was taken again since it was published"
    digests = {table.table: table.digest for table in made.tables if table.digest is not None}
    if lacking := sorted(set(needed_tables(plan)) - digests.keys()):
        return f"{of} lacks {', '.join(lacking)}"
    if altered := _altered(plan, run.plan.held_by(cut.destination).of_cuts):
        return f"{', '.join(altered)} has another definition than in {of[:-1]}"
    by_log = by_log_from_json(evidence[BY_LOG]) if BY_LOG in evidence else None
    return EarlierCut(
        cut.business_date,
        cut.version,
        cut.run_id,
        cut.verdict,
        cut.position,
        place,
        by_log.read_date if by_log else cut.business_date.isoformat(),
        by_log.steps if by_log else 0,
        digests,
    )


def _left_out(cut: Cut, plan: SyncPlan, business_date: date, history: CutHistory) -> str:
    """Where rows of the date begin before the rows of later dates that the earlier cut kept: its own date ended later
    by the declarations of then, which had another cut-off, time zone or calendar. "" where they do not."""
    now, then = plan.nightly, history.run(cut.run_id).plan.nightly
    for table in plan.tables:
        if now is None or then is None or not table.ahead_of:
            continue
        begins = now.segment_of(table, business_date).date_from
        if begins < (ended := then.segment_of(table, cut.business_date).date_to):
            return (
                f"{business_date} begins in {table.ahead_of} at {begins}, and the cut of {cut.business_date}, version"
                f" {cut.version}, kept the rows from {ended} on: the cut-off, the time zone or the calendar was changed"
            )
    return ""


def needed_tables(plan: SyncPlan) -> tuple[str, ...]:
    """What a cut needs of the one that it begins with: tables that are read whole, and of the others the rows of later
    dates. NotByLog for a table that has none."""
    kept_by = {table.ahead_of: table.name for table in plan.tables if table.ahead_of}
    for table in plan.tables:
        if table.business_date is not None and not table.ahead_of and table.name not in kept_by:
            raise NotByLog(
                f"of {table.name} no rows of later dates are kept: it has a transform, or a long name", table=table.name
            )
    return tuple(kept_by.get(table.name, table.name) for table in plan.tables if not table.ahead_of)


def _altered(now: SyncPlan, then: SyncPlan) -> list[str]:
    before = {table.name: (table.fingerprint, table.business_date) for table in then.tables}
    return [one.name for one in now.tables if before.get(one.name) != (one.fingerprint, one.business_date)]


# ---- the log up to the cut-off --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogToCutOff:
    """What the log does from a base to a cut-off. `changes`: by table of the sync. `place`: where it goes on."""

    changes: Mapping[str, TableChanges]
    position: Position
    place: LogPlace
    made: ByLog


@dataclass(frozen=True, slots=True)
class LogTools:
    """`open_log`: a reader of the source's log. `commit_marker` lets a transaction come that is younger than all, and
    returns the id of its marker. `system_date`: by which the date ends, and not by a time."""

    open_log: Callable[[], LogReader]
    commit_marker: Callable[[], str]
    clock: Clock
    limits: CutLogLimits = field(default_factory=CutLogLimits)
    check: Callable[[], None] = lambda: None
    system_date: SystemDate | None = None


def read_to_cut_off(plan: SyncPlan, base: EarlierCut, cut_off: datetime, tools: LogTools) -> LogToCutOff:
    """All transactions behind the base and before the first END that was committed at `cut_off` or later, or before the
    one that moves the system date on.

    `plan`: the sync's own, whose names the log has. NotByLog: the base lies behind the cut-off, a table was changed in
    between, or too much lies there. PositionLost, LogCorrupted and SchemaConflict as a stream raises them.
    TransientError: no such END has come in time.
    """
    with closing(tools.open_log()) as reader:
        if reader.topic_id != base.place.topic_id:
            raise NotByLog(f"log topic {reader.topic} was created again since the cut of {base.business_date}")
        stretch = _Stretch(plan, base, int(cut_off.timestamp() * 1000), tools, reader)
        definitions = {table.name: table.definition for table in plan.tables}
        changes = compact(stretch.transactions(), tables=definitions, gate=stretch.gate)
        behind = stretch.look_behind()
    last = stretch.passed.position
    place = LogPlace(base.place.topic, base.place.topic_id, stretch.next_offset, last, is_exact=True)
    made = ByLog(
        base_date=base.business_date.isoformat(),
        base_version=base.version,
        base_run=base.run_id,
        base_verdict=base.verdict.value,
        base_position=str(base.position),
        position=str(last),
        cut_off=cut_off.isoformat(),
        moved_on=tools.system_date.name if tools.system_date else "",
        ended_by=str(stretch.ended_by.position),
        ended_at=moment(stretch.ended_by.committed_ms),
        transactions=stretch.count,
        changes=stretch.changes,
        read_date=base.read_date,
        steps=base.steps + 1,
        looked_until=moment(behind.until_ms),
        look_ended_by=behind.ended_by,
        late_total=behind.total,
        late=tuple(behind.named),
    )
    return LogToCutOff(changes, last, place, made)


# A cut of a date that has ended less long ago looks through all that is there: the clock that ended it may still be
# ahead, and with it the heartbeats.
_LONG_OVER_S = 86_400.0


@dataclass(slots=True)
class _Behind:
    """What lies behind a cut in the log, transaction by transaction.

    The time of a transaction may be another than that of its commit: a session sets it, and MariaDB's is that of the
    begin of the statement. A heartbeat's is neither, so heartbeats say whether the date is over there. `quiet_s`: for
    so long they have come, with no transaction from before the cut-off. `earliest_ms`, `latest_ms`: of those from
    before it that came while no heartbeat had said that the date is over.
    """

    cut_off_ms: int
    until_ms: int
    named: list[LateTransaction] = field(default_factory=list)
    total: int = 0
    quiet_s: float = 0.0
    ended_by: str = ""
    earliest_ms: int = 0
    latest_ms: int = 0
    _is_over: bool = False

    def take(self, transaction: Transaction, *, spilled: int) -> None:
        """`spilled`: how many of its changes are not in it any more."""
        at = transaction.committed_ms
        if at <= 0:
            return
        beats = any(is_heartbeat(row) for row in transaction.markers)
        self.until_ms = max(self.until_ms, at)
        if at >= self.cut_off_ms:
            if beats:
                self._is_over = True
                self.quiet_s += HEARTBEAT_S
            return
        self.quiet_s = 0.0
        if beats or not self._is_over:
            self._is_over = False
            self.earliest_ms = min(self.earliest_ms or at, at)
            self.latest_ms = max(self.latest_ms, at)
        if changes := spilled + len(transaction.rows) + len(transaction.truncated):
            self.total += 1
            if self.total <= LATE_NAMED_MAX:
                self.named.append(LateTransaction(str(transaction.position), moment(at), changes))


class _Stretch:
    """The log from a base on, read once: up to the cut-off, then a little further."""

    def __init__(self, plan: SyncPlan, base: EarlierCut, cut_off_ms: int, tools: LogTools, reader: LogReader) -> None:
        self._plan = plan
        self._base = base
        self._cut_off_ms = cut_off_ms
        self._tools = tools
        self._tables = [table.name for table in plan.tables]
        # What the base holds is dropped here, for all tables at once.
        self._of_base = BoundaryGate({"": Boundary("", base.position, ended=base.place.is_exact)})
        self.gate = BoundaryGate({name: Boundary(name, base.position, ended=True) for name in self._tables})
        self.passed = base.position.tracker()
        self.next_offset = base.place.offset
        self.count = self.changes = self._bytes = 0
        limits = tools.limits
        self._reader = reader
        self._buffer = TransactionBuffer(
            reader,
            self._tables,
            marker_table=plan.source.marker_table,
            after=base.place.after,
            known=base.position,
            limits=BufferLimits(
                limits.changes_max, limits.bytes_max, limits.poll_records_max, limits.changes_max, limits.bytes_max
            ),
        )
        # Up to here the log is older than this attempt.
        self._known_end = reader.end_offset()
        reader.assign(base.place.offset)
        self._marker_id = ""
        self._ended_by: Transaction | None = None
        self._deadline = 0.0

    @property
    def ended_by(self) -> Transaction:
        assert self._ended_by is not None
        return self._ended_by

    def transactions(self) -> Iterator[Transaction]:
        """Those of the cut, in log order; whoever takes all of them knows where it ends."""
        while True:
            while self._buffer:
                transaction = self._buffer.pop()
                if self._is_end(transaction):
                    self._end(transaction)
                    return
                if self._tools.system_date and self._has_marker(transaction):
                    # Whoever found the date closed did so before the marker: the log does not show that it is.
                    raise self._without_end("before a marker that was committed when the cut began")
                if (kept := self._kept(transaction)) is not None:
                    yield kept
            self._look_again()
            if not self._marker_id and self._is_at_its_end():
                # Nothing more is there: a transaction of now proves that nothing from before the cut-off is to come.
                self._marker_id = self._tools.commit_marker()

    def _is_at_its_end(self) -> bool:
        """Whether the log has nothing more. One that always has more is read as far as it was there at first: a system
        date need not come in what follows, and a cut-off does."""
        if self._tools.system_date and self.next_offset >= self._known_end:
            return True
        return not (self._buffer or self._buffer.found_records)

    def _has_marker(self, transaction: Transaction) -> bool:
        table = self._plan.source.marker_table
        return any(is_marker(row, table, self._marker_id) for row in transaction.markers)

    def _is_end(self, transaction: Transaction) -> bool:
        if (system_date := self._tools.system_date) is None:
            return transaction.committed_ms >= self._cut_off_ms
        if self._is_of_base(transaction) or not system_date.moves_on(transaction):
            return False
        # What lies behind it and says to be earlier is late.
        self._cut_off_ms = transaction.committed_ms
        return True

    def _is_of_base(self, transaction: Transaction) -> bool:
        return not self._base.place.is_exact and is_covered(transaction.position, self._base.position)

    def _end(self, transaction: Transaction) -> None:
        if self._is_of_base(transaction):
            raise NotByLog(
                f"the cut of {self._base.business_date} was read at {self._base.position}, behind the cut-off"
                f" {moment(self._cut_off_ms)}"
            )
        self._ended_by = transaction

    def _kept(self, transaction: Transaction) -> Transaction | None:
        """None where the base holds it, or it changes no table."""
        self.next_offset = transaction.end
        if not self._of_base.keeps("", transaction.position):
            return None
        self.passed.advance_to(transaction.position)
        self.count += 1
        if stands_alone(transaction):
            stop = stop_condition(transaction, self._tables, self.gate, places=self._plan.source.places)
            if stop is not None:
                raise stop
        if not (transaction.rows or transaction.truncated):
            return None
        self.changes += len(transaction.rows) + len(transaction.truncated)
        self._bytes += transaction.row_bytes
        limits = self._tools.limits
        if self.changes > limits.changes_max or self._bytes > limits.bytes_max:
            raise self._too_much()
        return transaction

    def _look_again(self) -> None:
        self._tools.check()
        if self._buffer.trouble is not None:
            raise self._buffer.trouble
        if self._buffer.has_large_open_transaction:
            raise self._too_much()
        if self._buffer.found_records:
            self._deadline = self._tools.clock.now() + self._tools.limits.wait_max_s
        if self._tools.clock.now() >= self._deadline:
            raise self._without_end(f"within {self._tools.limits.wait_max_s:g} s")
        self._buffer.read(self._tools.limits.look_every_s)

    def _without_end(self, until: str) -> TransientError:
        if self._ended_by is not None:
            return TransientError(
                f"the log has not brought marker {self._marker_id} {until}, so transactions from before"
                f" {moment(self._cut_off_ms)} may lie behind the end of the cut",
                hint=_SEE_CAPTURE,
            )
        end = f"was committed at {moment(self._cut_off_ms)} or later"
        if self._tools.system_date is not None:
            end = f"moves {self._tools.system_date.name} on"
        return TransientError(
            f"the log has brought no transaction that {end} {until}, so more may come from before it",
            hint=_SEE_CAPTURE,
        )

    def _too_much(self) -> NotByLog:
        limits = self._tools.limits
        return NotByLog(
            f"since the cut of {self._base.business_date} the log has more than {limits.changes_max:,} row changes, or"
            f" {limits.bytes_max >> 20} MiB of them",
            hint=LET_IT_BE_READ,
        )

    def look_behind(self) -> _Behind:
        """Transactions behind the cut that say to be from before the cut-off, in log order from its end on.

        NotByLog: so much of the date's time lies there that the cut does not end where the date did.
        """
        behind = _Behind(self._cut_off_ms, self.ended_by.committed_ms)
        self._look_through(behind)
        ahead_ms = behind.latest_ms - behind.earliest_ms
        if self._tools.system_date is None and ahead_ms >= self._tools.limits.ahead_max_s * 1000:
            raise NotByLog(
                f"transaction {self.ended_by.position} was committed at {moment(self.ended_by.committed_ms)} by its own"
                f" word, and behind it the log goes on before the cut-off, from {moment(behind.earliest_ms)} to"
                f" {moment(behind.latest_ms)}, with changes in {behind.total} transactions: a clock of the source was"
                " ahead, or transactions set their own time",
                hint=f"a cut that ends there would lack them. {LET_IT_BE_READ}",
            )
        return behind

    def _look_through(self, behind: _Behind) -> None:
        """Up to a marker of now, or where heartbeats say that no more is to come.

        The end of the topic is no end: the capture may be behind. TransientError: the marker has not come in time."""
        limits, changes, spilled, looked = self._tools.limits, 0, 0, self.ended_by.end
        is_long_over = self._tools.clock.wall() - self._cut_off_ms / 1000 >= _LONG_OVER_S
        self._known_end = self._reader.end_offset()
        self._deadline = self._tools.clock.now() + limits.wait_max_s
        transaction = self.ended_by
        while not self._has_marker(transaction):
            while not self._buffer:
                if self._buffer.has_large_open_transaction:
                    spilled += len(self._buffer.take_chunk()[0].rows)
                if self._buffer.forget_lost_chunks():
                    spilled = 0
                if not self._marker_id and (looked >= self._known_end or not self._buffer.found_records):
                    self._marker_id = self._tools.commit_marker()
                self._look_again()
            transaction = self._buffer.pop()
            behind.take(transaction, spilled=spilled if transaction.chunks else 0)
            spilled = 0 if transaction.chunks else spilled
            looked, changes = transaction.end, changes + max(1, len(transaction.rows))
            if is_long_over and behind.quiet_s >= limits.late_s:
                return
            if is_long_over and changes > limits.changes_max and behind.quiet_s >= limits.ahead_max_s:
                behind.ended_by = f"{limits.changes_max:,} changes behind the cut"
                return
        behind.ended_by = "the end of the log"
