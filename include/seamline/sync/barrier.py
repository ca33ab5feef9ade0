"""The reconciliation barrier: both sides of a sync opened for reading at one position of the source's log (mode B).

wait until the stream is near → hold it at an END → open the source's views at P, which must cover the held place →
commit a marker, so that a transaction beyond P exists on an idle source too → the stream applies everything covered by
P and stops → the ledger says P → open the destination's views, which must say P *inside themselves* → see that no table
has joined meanwhile → let the stream go. From then on both sides can be read for as long as their views live, while the
stream has long moved on.

Everything that may go wrong here ends in a `NotAligned` with its reason, never in a comparison of unlike things. A
stream that stands on purpose refuses the hold: trying again by itself would not help. One that has ended for good is
`StreamEnded` at once, whenever it is noticed: no wait brings it here, and other destinations do not pay for it.

A stream that is far behind is waited for without a hold. The hold then lasts as long as the measured rates ask for, is
extended while the stream comes nearer, and never beyond its ceiling (`sync.hold`, ADR 36).
"""

import logging
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from seamline.domain.errors import SeamlineError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import Position, is_same_place
from seamline.domain.runs import Json
from seamline.domain.stream_end import stream_end
from seamline.plan.model import SyncPlan
from seamline.ports import Failpoints, Marker, ReadView, Sink, StreamDirector, StreamReport, Unarmed
from seamline.sync.clock import Clock, SystemClock
from seamline.sync.hold import Distance, Hold, Taken, lease_for
from seamline.sync.stream_state import has_ended_for_good, state_in_words

log = logging.getLogger(__name__)

# The destination is what it shows while the stream is held, or the version of its tables that stands there.
BARRIER, VERSIONED = "barrier", "versioned"
# On their way, or about to be: worth a wait. Any other state is judged by the hold: it ends in its reason.
_MAY_COME_NEAR = ("starting", "streaming", "catching_up", "held", "waiting", "backing_off")
# A worker reports every few seconds. An older report says nothing about now.
_HEARD_S = 10.0


class NotAligned(SeamlineError):
    """Both sides could not be brought to one position this time; trying later may help."""


class StreamEnded(NotAligned):
    """The stream has ended for good, so it comes to no position until a person has started it again."""


class NotComparable(SeamlineError):
    """The sync is in a state in which its tables must not be compared (not onboarded, catching up)."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds. `lease_s`: the least for which a hold is asked; `held_max_s`: the most that the stream stands still each
    time, whatever becomes of us; `attempts`: how often.

    A stream is near when what it has left takes at most `near_s`; until then it is waited for without a hold, for
    `wait_max_s` in all attempts together.
    """

    lease_s: float = 30.0
    held_max_s: float = 120.0
    near_s: float = 30.0
    wait_max_s: float = 600.0
    attempts: int = 3
    look_every_s: float = 0.02
    wait_look_s: float = 0.5
    report_every_s: float = 15.0
    views_max_age_s: float = 1_800.0

    @staticmethod
    def of(plan: SyncPlan) -> "Patience":
        """As declared. Near is what can be done well within the ceiling: in a quarter of it."""
        held_max_s = plan.stream.held_max_s
        return Patience(held_max_s=held_max_s, near_s=held_max_s / 4, wait_max_s=plan.reconcile.wait_max_s)


@dataclass(frozen=True, slots=True)
class Aligned:
    """Views of both sides at `position`. `position_ms`: its commit time in the source, ms since the epoch.

    `held_s`: how long the stream stood still. `check` raises once the views are too old to be worth reading.
    `evidence`: what a reconciliation keeps of how they came there. `ledger`: the destination's there; None where it
    stood elsewhere.
    """

    position: Position
    position_ms: int
    source: Sequence[ReadView]
    destination: Sequence[ReadView]
    held_s: float
    check: Callable[[], None]
    evidence: Json = field(default_factory=dict)
    ledger: LedgerRow | None = None


class Aligns(Protocol):
    """What brings both sides of a sync to one position. `mode`: how, as a reconciliation keeps it."""

    @property
    def mode(self) -> str: ...

    @property
    def failpoints(self) -> Failpoints: ...

    def aligned(self, views: int) -> AbstractContextManager[Aligned]:
        """`views` views of each side at one position, until it is left.

        Raises NotComparable, NotAligned, or what an adapter raises.
        """


@dataclass(frozen=True, slots=True)
class Standing:
    """The stream stands at `position`, which is the ledger's, and the source's views see just that. `advanced`: call it
    as work goes on, so that the hold is extended; it ends by itself all the same."""

    position: Position
    ledger: LedgerRow
    source: Sequence[ReadView]
    advanced: Callable[[], None]


class ComparedSource(Protocol):
    """What a barrier asks of a source. Its views hold what the destination shall hold."""

    def commit_marker(self, marker: Marker) -> None: ...

    def open_views(self, count: int) -> Sequence[ReadView]: ...


@dataclass(frozen=True, slots=True)
class Barrier:
    """`open_destination(n)` opens n views of one snapshot of the destination, whose `position` is read inside it."""

    stream: StreamId
    director: StreamDirector
    source: ComparedSource
    sink: Sink
    open_destination: Callable[[int], Sequence[ReadView]]
    clock: Clock = field(default_factory=SystemClock)
    patience: Patience = field(default_factory=Patience)
    failpoints: Failpoints = field(default_factory=Unarmed)
    # Called before the destination's views open, at each attempt that comes so far.
    at_position: Callable[[Standing], None] | None = None
    # Kept from attempt to attempt.
    taken: Taken = field(default_factory=Taken)
    mode: str = BARRIER

    @contextmanager
    def aligned(self, views: int) -> Iterator[Aligned]:
        """Open `views` views of each side at one position; closes them at the end.

        Raises NotComparable, NotAligned, or what an adapter raises. The stream is released before this yields, and
        whatever happens.
        """
        with ExitStack() as stack:
            yield self._aligned_in_time(views, stack)

    def _aligned_in_time(self, views: int, stack: ExitStack) -> Aligned:
        for attempt in range(1, self.patience.attempts + 1):
            with ExitStack() as opened:
                try:
                    aligned = self._align(views, opened)
                except NotAligned as exc:
                    if attempt == self.patience.attempts or isinstance(exc, StreamEnded):
                        raise
                    self.clock.sleep(self.patience.look_every_s)
                else:
                    stack.push(opened.pop_all())
                    return aligned
        raise NotAligned("no attempt was made")

    def _align(self, views: int, stack: ExitStack) -> Aligned:
        known = require_comparable(self.sink, self.stream)
        distance = self._wait_until_near()
        hold = self._hold(distance)
        try:
            with self.taken.timing("standing_s", self.clock):
                held = self._wait_until_held(hold)
            hold.advanced()
            self.failpoints.reach("rec.stream_held")
            with self.taken.timing("source_s", self.clock):
                source = self._open_source(views, held, hold, stack)
            opened_at = self.clock.now()
            self._require_lease(hold, "the source's views were open")
            position = source[0].position
            self.source.commit_marker(Marker(uuid.uuid4().hex, "barrier", {"hold": hold.id}))
            self.director.apply_up_to(hold.id, position)
            hold.advanced()
            ledger = self._wait_until_applied(position, hold)
            hold.advanced()
            if self.at_position is not None:
                self.at_position(Standing(position, ledger, source, hold.advanced))
            with self.taken.timing("destination_s", self.clock):
                destination = self._open_destination(views, position, stack)
            require_same_tables(known, self._ledger())
            self._require_lease(hold, "the destination's views were open")
        finally:
            hold.release()
        check = age_check(self.clock, opened_at, self.patience.views_max_age_s)
        return Aligned(position, ledger.committed_ms, source, destination, hold.held_s, check, ledger=ledger)

    def _hold(self, distance: Distance | None) -> Hold:
        needed_s = self.taken.with_distance(distance or _ABREAST)
        lease_s = lease_for(needed_s, least_s=self.patience.lease_s, most_s=self.patience.held_max_s)
        log.info(
            "asking the stream to stand still: stream=%s needed_s=%.1f lease_s=%.0f held_max_s=%.0f",
            self.stream, needed_s, lease_s, self.patience.held_max_s,
        )  # fmt: skip
        return Hold(self.director, self.clock, self.stream, lease_s=lease_s, held_max_s=self.patience.held_max_s)

    def _wait_until_near(self) -> Distance | None:
        """How far it is then; None where no wait could bring it nearer, and the hold has to say why."""
        began = self.clock.now()
        try:
            return self._near(began, self.patience.wait_max_s - self.taken.waited_s)
        finally:
            self.taken.waited_s += self.clock.now() - began

    def _near(self, began: float, allowed_s: float) -> Distance | None:
        patience, reported_at = self.patience, -math.inf
        while True:
            report = self._report()
            if report is None or report.state not in _MAY_COME_NEAR:
                return None
            distance = Distance.of(report)
            if _is_known(report) and distance.seconds <= patience.near_s:
                return distance
            now = self.clock.now()
            if now - began >= allowed_s:
                raise NotAligned(
                    f"the stream did not come near within {patience.wait_max_s:g} s: {distance.in_words}, and"
                    f" {patience.near_s:g} s are allowed before it is held",
                    hint="compare again when it has caught up, or let it be waited for longer: `reconcile.wait_max_s`",
                )
            if now - reported_at >= patience.report_every_s:
                reported_at = now
                log.info(
                    "waiting until the stream is near: stream=%s %s; near is %g s, waited %.0f of %g s",
                    self.stream, distance.in_words, patience.near_s, now - began, patience.wait_max_s,
                )  # fmt: skip
            self.clock.sleep(max(patience.wait_look_s, patience.look_every_s))

    def _wait_until_held(self, hold: Hold) -> LedgerRow:
        """The ledger as it stands while the stream reports this very hold."""
        while True:
            report = self._report()
            if report is not None and report.state == "held" and report.hold_id == hold.id:
                return self._ledger()
            self._look_again(hold, f"the stream did not stand still ({_last_word(report)})")

    def _open_source(self, views: int, held: LedgerRow, hold: Hold, stack: ExitStack) -> Sequence[ReadView]:
        """Views at a P that covers the held place. An older P would make the stream have to go back."""
        while True:
            opened = at_one_position("source", self.source.open_views(views))
            position = opened[0].position
            if position.covers(held.position):
                stack.callback(close_views, opened)
                return opened
            close_views(opened)
            self._look_again(
                hold, f"no read view of the source covered the held position {held.position} (saw {position})"
            )

    def _wait_until_applied(self, position: Position, hold: Hold) -> LedgerRow:
        applied = -1
        while True:
            self._report()
            ledger = self._ledger()
            if ledger.next_offset > applied >= 0:
                hold.advanced()
            applied = ledger.next_offset
            if is_same_place(ledger.position, position):
                return ledger
            if ledger.position.covers(position):
                raise NotAligned(f"the stream went beyond {position} to {ledger.position}: its hold was not kept")
            self._look_again(hold, f"the stream did not reach {position} (it is at {ledger.position})")

    def _open_destination(self, views: int, position: Position, stack: ExitStack) -> Sequence[ReadView]:
        opened = self.open_destination(views)
        stack.callback(close_views, opened)
        if not opened:
            raise NotAligned("a side opened no read view")
        for view in opened:
            if not is_same_place(view.position, position):
                raise NotAligned(
                    f"the destination says {view.position} inside its read view, not {position}:"
                    " the stream moved on before the views were open"
                )
        return opened

    def _report(self) -> StreamReport | None:
        """Its newest. StreamEnded where that says that no attempt follows."""
        report = self.director.latest_report(self.stream)
        if report is not None and has_ended_for_good(report):
            end = stream_end(self.stream, report.error)
            raise StreamEnded(f"the stream into {self.stream.destination} has ended: {end.what}", hint=end.cure)
        return report

    def _ledger(self) -> LedgerRow:
        ledger = self.sink.read_ledger(self.stream)
        if ledger is None:
            raise NotAligned(f"the ledger of {self.stream} vanished while its stream was held")
        return ledger

    def _look_again(self, hold: Hold, reason: str) -> None:
        if self.clock.now() + self.patience.look_every_s >= hold.deadline:
            raise NotAligned(f"{reason} within the lease of {hold.allowed_s:.0f} s")
        self.clock.sleep(self.patience.look_every_s)

    def _require_lease(self, hold: Hold, what: str) -> None:
        if hold.is_over:
            raise NotAligned(f"the lease of {hold.allowed_s:.0f} s had expired when {what}")


def _last_word(report: StreamReport | None) -> str:
    if report is None:
        return "it has never reported"
    why = f": {stream_end(report.stream, report.error).what}" if report.error else ""
    return f"it is {state_in_words(report.state)}{why}"


# What is not known of a stream that the hold will judge.
_ABREAST = Distance("", 0.0, 0, 0.0, 0.0)


def _is_known(report: StreamReport) -> bool:
    """Whether the report speaks of now, and of a place that a worker has read."""
    return report.age_s < _HEARD_S and report.state not in ("starting", "backing_off")


# ---- of every way to bring both sides to one position ---------------------------------------------------------------


def require_comparable(sink: Sink, stream: StreamId) -> LedgerRow:
    """The ledger of a stream whose tables stand at one position. NotComparable where they do not."""
    ledger = sink.read_ledger(stream)
    if ledger is None:
        raise NotComparable(f"{stream} was never published: there is nothing to compare", hint="onboard the sync first")
    if ledger.is_catching_up:
        raise NotComparable(
            f"{stream} is catching up: its tables stand at different positions until the largest boundary is passed",
            hint="compare once the cutover is done",
        )
    return ledger


def require_same_tables(known: LedgerRow, found: LedgerRow) -> None:
    """A table that joined meanwhile stands where its snapshot was read, whatever the ledger's position says."""
    before, now = ({(b.table, b.generation) for b in row.boundaries} for row in (known, found))
    if before != now:
        joined = ", ".join(sorted({table for table, _ in before ^ now}))
        raise NotAligned(f"{joined} joined or left {known.stream} before the destination's views were open")


def at_one_position(side: str, opened: Sequence[ReadView]) -> Sequence[ReadView]:
    """These views of one side, at least one; closes them and raises NotAligned where they stand apart."""
    positions = [view.position for view in opened]
    if not opened:
        raise NotAligned("a side opened no read view")
    if not all(is_same_place(position, positions[0]) for position in positions):
        close_views(opened)
        raise NotAligned(f"the {side}'s views stand at different positions: {', '.join(map(str, positions))}")
    return opened


def age_check(clock: Clock, opened_at: float, max_age_s: float) -> Callable[[], None]:
    """Raises NotAligned once views that were opened then are too old to be worth reading."""

    def check() -> None:
        age = clock.now() - opened_at
        if age > max_age_s:
            raise NotAligned(
                f"the read views are {age:.0f} s old, more than {max_age_s:.0f} s: both databases keep old rows for"
                " them",
                hint="compare fewer tables at a time, or at a quieter hour",
            )

    return check


def close_views(views: Sequence[ReadView]) -> None:
    for view in views:
        view.close()
