"""The barrier: both sides of a sync opened for reading at one position of the source's log (mode B).

hold the stream at an END → open the source's views at P, which must cover the held place → commit a marker, so that a
unit beyond P exists on an idle source too → the stream applies everything covered by P and stops → the ledger says P →
open the destination's views, which must say P *inside themselves* → see that no table has joined meanwhile → let the
stream go. From then on both sides can be read for as long as their views live, while the stream has long moved on.

Everything that may go wrong here ends in a `NotAligned` with its reason, never in a comparison of unlike things. A
stream that stands on purpose refuses the hold: trying again by itself would not help.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from seamline.domain.errors import SeamlineError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import Position
from seamline.ports import Failpoints, Marker, ReadView, Sink, Source, StreamDirector, Unarmed
from seamline.sync.clock import Clock, SystemClock
from seamline.sync.reconcile import is_same_place

_MOVING = ("streaming", "catching_up")


class NotAligned(SeamlineError):
    """Both sides could not be brought to one position this time; trying later may help."""


class NotComparable(SeamlineError):
    """The sync is in a state in which its tables must not be compared (not onboarded, catching up)."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds. The lease is how long the stream stands still at most, whatever becomes of us; `attempts`: how often.

    A stream that lags by more than `lag_max_s` could not reach P within the lease: it is waited for, without a hold.
    """

    lease_s: float = 30.0
    attempts: int = 3
    lag_max_s: float = 5.0
    catch_up_s: float = 300.0
    look_every_s: float = 0.02
    views_max_age_s: float = 1_800.0


@dataclass(frozen=True, slots=True)
class Aligned:
    """Views of both sides at `position`. `position_ms`: its commit time in the source, ms since the epoch.

    `held_s`: how long the stream stood still. `check` raises once the views are too old to be worth reading.
    """

    position: Position
    position_ms: int
    source: Sequence[ReadView]
    destination: Sequence[ReadView]
    held_s: float
    check: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Barrier:
    """`open_destination(n)` opens n views of one snapshot of the destination, whose `position` is read inside it."""

    stream: StreamId
    director: StreamDirector
    source: Source
    sink: Sink
    open_destination: Callable[[int], Sequence[ReadView]]
    clock: Clock = field(default_factory=SystemClock)
    patience: Patience = field(default_factory=Patience)
    failpoints: Failpoints = field(default_factory=Unarmed)

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
                except NotAligned:
                    if attempt == self.patience.attempts:
                        raise
                    self.clock.sleep(self.patience.look_every_s)
                else:
                    stack.push(opened.pop_all())
                    return aligned
        raise NotAligned("no attempt was made")

    def _align(self, views: int, stack: ExitStack) -> Aligned:
        known = self._require_comparable()
        self._wait_until_near()
        held_at = self.clock.now()
        hold_id = self.director.hold(self.stream, lease_s=self.patience.lease_s)
        deadline = held_at + self.patience.lease_s
        try:
            held = self._wait_until_held(hold_id, deadline)
            self.failpoints.reach("rec.stream_held")
            source = self._open_source(views, held, deadline, stack)
            opened_at = self.clock.now()
            position = source[0].position
            self.source.commit_marker(Marker(uuid.uuid4().hex, "barrier", {"hold": hold_id}))
            self.director.apply_up_to(hold_id, position)
            ledger = self._wait_until_applied(position, deadline)
            destination = self._open_destination(views, position, stack)
            self._require_same_tables(known)
            self._require_lease(deadline, "the destination's views were open")
        finally:
            self.director.release(hold_id)
        held_s = self.clock.now() - held_at
        return Aligned(position, ledger.committed_ms, source, destination, held_s, self._age_check(opened_at))

    def _require_comparable(self) -> LedgerRow:
        ledger = self.sink.read_ledger(self.stream)
        if ledger is None:
            raise NotComparable(
                f"{self.stream} was never published: there is nothing to compare", hint="onboard the sync first"
            )
        if ledger.is_catching_up:
            raise NotComparable(
                f"{self.stream} is catching up: its tables stand at different positions until the largest boundary"
                " is passed",
                hint="compare once the cutover is done",
            )
        return ledger

    def _require_same_tables(self, known: LedgerRow) -> None:
        """A table that joined meanwhile stands where its snapshot was read, whatever the ledger's position says."""
        before, now = ({(b.table, b.generation) for b in row.boundaries} for row in (known, self._ledger()))
        if before != now:
            joined = ", ".join(sorted({table for table, _ in before ^ now}))
            raise NotAligned(f"{joined} joined or left {self.stream} before the destination's views were open")

    def _wait_until_near(self) -> None:
        deadline = self.clock.now() + self.patience.catch_up_s
        while True:
            report = self.director.latest_report(self.stream)
            # Any other state is judged by the hold: it ends in its reason.
            if report is None or report.state not in _MOVING or report.lag_s <= self.patience.lag_max_s:
                return
            if self.clock.now() >= deadline:
                raise NotAligned(
                    f"the stream still lags {report.lag_s:.0f} s behind after a wait of {self.patience.catch_up_s:g} s",
                    hint="compare again when it has caught up",
                )
            self.clock.sleep(self.patience.look_every_s)

    def _wait_until_held(self, hold_id: str, deadline: float) -> LedgerRow:
        """The ledger as it stands while the stream reports this very hold."""
        while True:
            report = self.director.latest_report(self.stream)
            if report is not None and report.state == "held" and report.hold_id == hold_id:
                return self._ledger()
            state = "it never reported" if report is None else f"its state is {report.state}: {report.error or '-'}"
            self._look_again(deadline, f"the stream did not stand still ({state})")

    def _open_source(self, views: int, held: LedgerRow, deadline: float, stack: ExitStack) -> Sequence[ReadView]:
        """Views at a P that covers the held place. An older P would make the stream have to go back."""
        while True:
            opened = self._opened(self.source.open_views(views))
            positions = [view.position for view in opened]
            if not all(is_same_place(position, positions[0]) for position in positions):
                _close(opened)
                raise NotAligned(f"the source's views stand at different positions: {', '.join(map(str, positions))}")
            if positions[0].covers(held.position):  # type: ignore[arg-type]
                stack.callback(_close, opened)
                return opened
            _close(opened)
            self._look_again(
                deadline, f"no read view of the source covered the held position {held.position} (saw {positions[0]})"
            )

    def _wait_until_applied(self, position: Position, deadline: float) -> LedgerRow:
        while True:
            ledger = self._ledger()
            if is_same_place(ledger.position, position):
                return ledger
            if ledger.position.covers(position):  # type: ignore[arg-type]
                raise NotAligned(f"the stream went beyond {position} to {ledger.position}: its hold was not kept")
            self._look_again(deadline, f"the stream did not reach {position} (it is at {ledger.position})")

    def _open_destination(self, views: int, position: Position, stack: ExitStack) -> Sequence[ReadView]:
        opened = self._opened(self.open_destination(views))
        stack.callback(_close, opened)
        for view in opened:
            if not is_same_place(view.position, position):
                raise NotAligned(
                    f"the destination says {view.position} inside its read view, not {position}:"
                    " the stream moved on before the views were open"
                )
        return opened

    def _opened(self, views: Sequence[ReadView]) -> Sequence[ReadView]:
        if not views:
            raise NotAligned("a side opened no read view")
        return views

    def _ledger(self) -> LedgerRow:
        ledger = self.sink.read_ledger(self.stream)
        if ledger is None:
            raise NotAligned(f"the ledger of {self.stream} vanished while its stream was held")
        return ledger

    def _look_again(self, deadline: float, reason: str) -> None:
        if self.clock.now() + self.patience.look_every_s >= deadline:
            raise NotAligned(f"{reason} within the lease of {self.patience.lease_s:g} s")
        self.clock.sleep(self.patience.look_every_s)

    def _require_lease(self, deadline: float, what: str) -> None:
        if self.clock.now() >= deadline:
            raise NotAligned(f"the lease of {self.patience.lease_s:g} s had expired when {what}")

    def _age_check(self, opened_at: float) -> Callable[[], None]:
        def check() -> None:
            age = self.clock.now() - opened_at
            if age > self.patience.views_max_age_s:
                raise NotAligned(
                    f"the read views are {age:.0f} s old, more than {self.patience.views_max_age_s:.0f} s:"
                    " both databases keep old rows for them",
                    hint="compare fewer tables at a time, or at a quieter hour",
                )

        return check


def _close(views: Sequence[ReadView]) -> None:
    for view in views:
        view.close()
