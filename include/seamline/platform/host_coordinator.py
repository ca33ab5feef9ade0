"""HostCoordinator: the stream host's side of the platform database. The host's loop takes events and leaves writes.

A thread talks to the database. While the database is away, dead workers are replaced for as long as the lease lasts.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Protocol

from seamline.domain.alarms import AlarmKind
from seamline.domain.errors import SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.platform.control import open_for_stream
from seamline.platform.database import Database, OpenSession, Session
from seamline.platform.host_lease import Holder, Ownership, PlatformHostLease
from seamline.platform.notify_loop import NotifyLoop
from seamline.platform.store import Alarm, PlatformStore
from seamline.platform.streams import HostState, PlatformStreamDirector
from seamline.ports import StreamReport, WantedStream


@dataclass(frozen=True, slots=True)
class WantedNow:
    """The whole list of the pool's wanted streams."""

    streams: tuple[WantedStream, ...]


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """Another host has this pool now."""

    reason: str = "another host has taken this pool"


@dataclass(frozen=True, slots=True)
class StreamsReported:
    """The streams of this host that have reported lately; every other one could have."""

    streams: tuple[StreamId, ...]


@dataclass(frozen=True, slots=True)
class ReportLost:
    """Nobody can speak for this idle stream: its last words did not arrive."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class ReportsNow:
    """The newest report of every stream of this host."""

    reports: Mapping[StreamId, StreamReport]


Event = WantedNow | LeaseLost | StreamsReported | ReportsNow | ReportLost
# Longer than any cycle of a host that is well.
_IDLE_REPORTED_S = 30.0
_Write = Callable[[], None]
# A lag that passes at once, or a stream that stops to start again, is no alarm.
SETTLED_S = 30.0
# Of streams, each that is worth an alarm as it stands now.
AlarmsDue = Callable[
    [Sequence[WantedStream], Mapping[StreamId, StreamReport], Sequence[HostState], Sequence[Alarm]],
    Sequence["DueAlarm"],
]
# Those of the open alarms that are not so any more.
AlarmsOver = Callable[
    [Sequence[WantedStream], Mapping[StreamId, StreamReport], Sequence[HostState], Sequence[Alarm]], Sequence[Alarm]
]


class DueAlarm(Protocol):
    """A stream that is worth an alarm. `alarm`: its kind."""

    @property
    def stream(self) -> StreamId: ...
    @property
    def alarm(self) -> str: ...
    @property
    def alarm_in_words(self) -> str: ...


class HostCoordinator:
    """Use it as a context after `take`. `on_event` is called from the coordinator's thread.

    It raises the alarms about the streams of its pool, as the watch in Airflow does, also while Airflow is away: what
    `alarms_due` has found at each look of `settled_s`.
    """

    def __init__(
        self,
        *,
        pool: str,
        holder: Holder,
        on_event: Callable[[Event], None],
        silence_s: float,
        alarms: Sequence[str],
        alarms_over: AlarmsOver = lambda *_: (),
        alarms_due: AlarmsDue = lambda *_: (),
        settled_s: float = SETTLED_S,
        open_one: OpenSession = open_for_stream,
        poll_s: float = 5.0,
    ) -> None:
        self._pool = pool
        self._holder = holder
        self._emit = on_event
        self._silence_s = silence_s
        self._alarms = alarms
        self._alarms_over = alarms_over
        self._alarms_due = alarms_due
        self._settled_s = settled_s
        self._due_since_s: dict[tuple[str, str], float] = {}
        # Since when this database can be talked to without a break: before that nobody could report.
        self._there_since_s: float | None = None
        self._database = Database(open_one)
        self._lease_s = 3 * poll_s
        self._lease_until_s = 0.0
        self._lease = PlatformHostLease(self._database, pool=pool, holder=holder, lease_s=self._lease_s)
        self._director = PlatformStreamDirector(self._database)
        self._store = PlatformStore(self._database)
        self._lock = threading.Lock()
        # The newest write on each thing; one that could not be said is said later.
        self._pending: dict[tuple[str, ...], _Write] = {}
        self._last_wanted: WantedNow | None = None
        self._idle: tuple[StreamId, ...] = ()
        self._idle_until_s = 0.0
        self._loop = NotifyLoop(f"host of pool {pool}", cycle=self._cycle, open_one=open_one, poll_s=poll_s)

    def take(self) -> None:
        """HostTaken names the other host; TransientError: the database is away."""
        asked_s = time.monotonic()
        self._lease.take()
        self._lease_until_s = asked_s + self._lease_s
        self._store.end_alarms_left(self._pool, self._alarms)

    @property
    def lease_until_s(self) -> float:
        """When the lease ends by this process's steady clock, unless it is renewed: never later than the database's."""
        return self._lease_until_s

    def start(self) -> None:
        self._loop.start()

    def close(self) -> None:
        """Say the last words, give the lease back. Does not wait for a database that is away."""
        self._loop.close()
        with closing(self._database):
            if not self._loop.is_away:
                try:
                    self._lease.release()
                except TransientError:
                    return  # it ends by itself

    def begin_stop(self) -> None:
        """Let every stream of this host stop at its next END; they hear it from the database by themselves."""
        self._enqueue(("stop",), self._lease.begin_stop)

    def report(self, report: StreamReport) -> None:
        said = replace(report, host=str(self._holder))
        self._enqueue(("report", str(report.stream)), lambda: self._director.put_report(said))

    def report_idle(self, idle: Sequence[StreamId]) -> None:
        """For the next half minute for these, which have no worker: what they said last still holds."""
        self._idle, self._idle_until_s = tuple(idle), time.monotonic() + _IDLE_REPORTED_S

    @property
    def is_away(self) -> bool:
        """Whether the platform database could not be reached when it was last tried."""
        return self._loop.is_away

    def raise_alarm(self, kind: AlarmKind, subject: str, message: str) -> None:
        self._enqueue(("alarm", kind, subject), lambda: self._store.raise_alarm(kind, subject, message))

    def end_alarm(self, kind: str, subject: str) -> None:
        self._enqueue(("alarm", kind, subject), lambda: self._store.end_alarm(kind, subject))

    def give_up(self, stream: StreamId, *, want_number: int, error: str) -> None:
        holder = str(self._holder)
        self._enqueue(
            ("final", str(stream)),
            lambda: self._director.give_up(stream, want_number=want_number, error=error, holder=holder),
        )

    def try_again(self, stream: StreamId) -> None:
        holder = str(self._holder)
        self._enqueue(("final", str(stream)), lambda: self._director.try_again(stream, holder=holder))

    def forget_report(self, stream: str) -> None:
        """The stream speaks for itself again: an older write on it must not come late."""
        with self._lock:
            self._pending.pop(("report", stream), None)

    def _enqueue(self, key: tuple[str, ...], write: _Write) -> None:
        with self._lock:
            self._pending.pop(key, None)
            self._pending[key] = write
        self._loop.wake()

    def _cycle(self, session: Session) -> None:
        try:
            self._synchronize()
        except SeamlineError:
            self._there_since_s = None
            raise

    def _synchronize(self) -> None:
        asked_s = time.monotonic()
        if self._lease.renew() is Ownership.LOST:
            self._lease_until_s = 0.0
            # Whatever this host still had to say is about streams that another host runs now.
            with self._lock:
                self._pending.clear()
            self._emit(LeaseLost())
            return
        self._lease_until_s = asked_s + self._lease_s
        self._send_pending()
        self._keep_idle_young()
        wanted = WantedNow(self._director.wanted(self._pool))
        if wanted != self._last_wanted:
            self._last_wanted = wanted
            self._emit(wanted)
        reports = self._director.latest_reports()
        self._check_streams(reports)
        self._judge(wanted.streams, reports)

    def _judge(self, mine: Sequence[WantedStream], reports: Mapping[StreamId, StreamReport]) -> None:
        """What is over ends within seconds, of whatever pool. Of this one what lasts is raised."""
        alarms, hosts = self._store.open_alarms(), self._director.hosts()
        if alarms:
            for one in self._alarms_over(self._director.all_wanted(), reports, hosts, alarms):
                self._store.end_alarm(one.kind, one.subject)
        now_s, due = time.monotonic(), self._alarms_due(mine, reports, hosts, alarms)
        found = {(one.alarm, str(one.stream)): one for one in due}
        self._due_since_s = {key: self._due_since_s.get(key, now_s) for key in found}
        known = {(one.kind, one.subject) for one in alarms}
        # Before that nobody could report.
        if self._there_since_s is None or now_s - self._there_since_s < self._silence_s:
            return
        for key, state in found.items():
            if key not in known and now_s - self._due_since_s[key] >= self._settled_s:
                self._store.raise_alarm(AlarmKind(state.alarm), str(state.stream), state.alarm_in_words)

    def _keep_idle_young(self) -> None:
        idle, until_s = self._idle, self._idle_until_s
        if idle and time.monotonic() < until_s:
            for stream in self._director.keep_young(idle, holder=str(self._holder)):
                self._emit(ReportLost(stream))

    def _check_streams(self, newest: Mapping[StreamId, StreamReport]) -> None:
        now_s, mine = time.monotonic(), str(self._holder)
        if self._there_since_s is None:
            self._there_since_s = now_s
        reports = {stream: one for stream, one in newest.items() if one.host == mine}
        self._emit(ReportsNow(reports))
        if now_s - self._there_since_s < self._silence_s:
            return
        reported = (stream for stream, report in reports.items() if report.age_s <= self._silence_s)
        self._emit(StreamsReported(tuple(reported)))

    def _send_pending(self) -> None:
        while True:
            with self._lock:
                key = next(iter(self._pending), None)
                if key is None:
                    return
                write = self._pending[key]
            write()
            with self._lock:
                # A newer write on the same thing may have come in meanwhile.
                if self._pending.get(key) is write:
                    del self._pending[key]
