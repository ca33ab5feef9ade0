"""Keeps a read of a source at the pace that the source and its log allow (ADR 96): slower, not at all for a while, or
no longer. Loads and comparisons have the same."""

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from seamline.domain.duration import duration
from seamline.domain.errors import ConfigError, Refused, TransientError
from seamline.domain.reading_pace import (
    LogPressure,
    QuietTime,
    Rate,
    ReadingPace,
    ServerLoad,
    by_load,
    by_time,
    with_log,
)
from seamline.plan.model import SourcePlan
from seamline.ports import KnowsItsLoad
from seamline.sync.clock import Clock, SystemClock

log = logging.getLogger(__name__)

LOOK_EVERY_S = 10.0
# Three rests as long as the work: a quarter of the speed. No rest is longer than this.
_RESTS = 3.0
_REST_MAX_S = 30.0
# One part at least comes in this time: servers end a load that stands still for ten minutes, and take it for hanging.
PART_EVERY_S = 60.0
_TICK_S = 1.0


class Pacer:
    """Of one process that reads. May be asked from any thread.

    `ask` says how fast it may be read now. Without `begin` nobody is asked in the first seconds, so a short read costs
    no question. `say` is given what changes.
    """

    def __init__(
        self,
        source: str,
        ask: Callable[[], ReadingPace],
        *,
        wait_max_s: float,
        clock: Clock | None = None,
        say: Callable[[str], None] = log.warning,
    ) -> None:
        self._source = source
        self._ask = ask
        self._wait_max_s = wait_max_s
        self._clock = clock or SystemClock()
        self._say = say
        self._lock = threading.Lock()
        # `at`: when a question of this thread was let go.
        self._asked = threading.local()
        self._pace = ReadingPace()
        self._passed_s = self._clock.now()
        self._due_s = self._passed_s + LOOK_EVERY_S
        self._waited_s = self._waited_until = 0.0

    @property
    def pace(self) -> ReadingPace:
        """As it was last looked at, not long ago."""
        with self._lock:
            if self._clock.now() >= self._due_s:
                found = self._ask()
                # By the clock after the answer: a server that is slow to answer is not asked more often for it.
                self._due_s = self._clock.now() + LOOK_EVERY_S
                if found.rate is not self._pace.rate:
                    self._say(_in_words(self._source, found))
                self._pace = found
            return self._pace

    def begin(self, on_wait: Callable[[str], None] = lambda _: None) -> None:
        """Before anything is opened: wait until the source may be read. Refused where that takes too long. `on_wait` is
        given what is waited for, when that begins and when it changes."""
        with self._lock:
            self._due_s = 0.0
        said = ""
        while (pace := self._goes_on()).rate is Rate.WAITS:
            if pace.why != said:
                on_wait(said := pace.why)
            self._wait()

    def before_a_part(self) -> None:
        """Before the next part of rows is passed on. Refused where this read has waited for too long, or may not wait
        any longer."""
        now = self._clock.now()
        if self._goes_on().rate is Rate.SLOWED:
            self._rest(now - self._passed_s)
        while self._goes_on().rate is Rate.WAITS and self._clock.now() - now < PART_EVERY_S:
            self._wait()
        self._passed_s = self._clock.now()

    def before_a_question(self, took_s: float, check: Callable[[], None]) -> None:
        """Before a question of a comparison. The one before it, of the same thread, took as long as is measured, and
        at least `took_s`. What `check` raises ends the wait."""
        took_s = max(took_s, self._clock.now() - getattr(self._asked, "at", math.inf))
        while (rate := self._goes_on().rate) is Rate.WAITS:
            check()
            self._wait()
        if rate is Rate.SLOWED:
            self._rest(took_s)
        self._asked.at = self._clock.now()

    def _goes_on(self) -> ReadingPace:
        pace = self.pace
        if pace.rate is Rate.ENDS:
            raise Refused(
                f"the read of {self._source} ends: {pace.why}",
                hint="start it again when the source may be read; the log is let go of meanwhile",
            )
        return pace

    def _rest(self, worked_s: float) -> None:
        self._clock.sleep(min(_REST_MAX_S, _RESTS * max(0.0, worked_s)))

    def _wait(self) -> None:
        if self._waited_s >= self._wait_max_s:
            raise Refused(
                f"the read of {self._source} has waited for {duration(timedelta(seconds=round(self._waited_s)))}:"
                f" {self._pace.why}",
                hint=f"start it again at another hour, or raise `budget.wait_max` in sources/{self._source}.yaml",
            )
        began = self._clock.now()
        self._clock.sleep(_TICK_S)
        with self._lock:
            # Several sessions that wait at the same time wait once.
            ended = self._clock.now()
            self._waited_s += max(0.0, ended - max(began, self._waited_until))
            self._waited_until = max(ended, self._waited_until)


def _in_words(source: str, pace: ReadingPace) -> str:
    if pace.rate is Rate.SLOWED:
        return f"source {source} is read at a quarter of the speed: {pace.why}"
    if pace.rate is Rate.WAITS:
        return f"the read of source {source} waits: {pace.why}. It goes on by itself"
    if pace.rate is Rate.ENDS:
        return f"the read of source {source} ends: {pace.why}"
    return f"source {source} is read at full speed again"


@dataclass(slots=True)
class PaceQuestion:
    """How fast a source may be read now. `open_source` gives the source itself; `log_pressure`: what its watch does to
    its capture.

    A source that does not answer is read slower. While nobody says what its watch does, that stays as it was.
    """

    source: SourcePlan
    open_source: Callable[[], object]
    log_pressure: Callable[[], LogPressure | None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _pressure: LogPressure | None = None

    def __call__(self) -> ReadingPace:
        return with_log(self._own(), self._log())

    def load(self) -> ServerLoad:
        """What the budget asks of the server. Refused, ConfigError: nobody may see it."""
        name, budget = self.source.name, self.source.budget
        if budget is None or not (budget.running_max or budget.replica_lag_max_s):
            return ServerLoad()
        source = self.open_source()
        if not isinstance(source, KnowsItsLoad):
            raise ConfigError(f"nobody can ask source {name} for its load", hint="leave `quiet` alone in its `budget`")
        return ServerLoad(
            source.running() if budget.running_max else None,
            source.replica_lag_s() if budget.replica_lag_max_s else None,
        )

    def _own(self) -> ReadingPace:
        name, budget = self.source.name, self.source.budget
        if budget is None:
            return ReadingPace()
        quiet = [QuietTime(*one) for one in budget.quiet]
        by_clock = by_time(name, quiet, budget.timezone, self.now())
        if by_clock.rate is Rate.WAITS:
            return by_clock
        try:
            load = self.load()
        except TransientError as exc:
            return ReadingPace(Rate.SLOWED, f"how busy source {name} is, is not known: {exc.message}")
        return by_load(name, load, running_max=budget.running_max, replica_lag_max_s=budget.replica_lag_max_s)

    def _log(self) -> LogPressure | None:
        if self.source.has_log:
            try:
                self._pressure = self.log_pressure()
            except TransientError as exc:
                log.warning("whether streams of %s are behind, is not known: %s", self.source.name, exc.message)
        return self._pressure
