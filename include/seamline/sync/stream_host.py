"""Which streams of a pool to start, to cancel and to leave alone. Pure: the host's driver feeds in what it sees and
does what comes out (PROTOCOL 11).

Each stream is one long-running task that holds a slot. Slots are given in the order in which streams were wanted, and
a stream keeps its slot while it waits for its next attempt: a dead worker never loses its place to a waiting stream.
This is the one owner of retries. A stream that ended for good stays so until somebody wants it again, or other code is
installed. One that was fenced has a new owner, which starts it again: it is called failed where that does not happen.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from seamline.domain.alarms import AlarmKind
from seamline.domain.errors import Fenced
from seamline.domain.ledger import StreamId
from seamline.domain.stream_end import stream_end
from seamline.ports import StreamReport, WantedStream

NO_SLOT = AlarmKind.NO_SLOT
STREAM_FAILED = AlarmKind.STREAM_FAILED
ROSTER_ALARMS = (NO_SLOT, STREAM_FAILED)


class Outcome(StrEnum):
    """How a task ended."""

    STOPPED = "stopped"  # as asked, at an END; or cancelled
    IDLE = "idle"  # nothing to do: the host listens to the log for it
    TRANSIENT = "transient"  # the world may recover
    LOST = "lost"  # the worker died
    FINAL = "final"  # fenced, or another attempt cannot help


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """`next_offset`: where an idle stream has to read on."""

    stream: StreamId
    attempt: int
    outcome: Outcome
    error: str = ""
    next_offset: int = 0


@dataclass(frozen=True, slots=True)
class IdleStream:
    """A stream without a worker since `since_s` that has applied all before `next_offset`, and by which want."""

    wanted: WantedStream
    next_offset: int
    since_s: float


@dataclass(frozen=True, slots=True)
class Woken:
    """The log has something for an idle stream, or it can no longer be listened to."""

    stream: StreamId
    reason: str


@dataclass(frozen=True, slots=True)
class Start:
    """`code`: by which state of the installed code it is to run; "" where nobody has looked."""

    wanted: WantedStream
    attempt: int
    code: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the task by force: it did not follow its orders in time. Its open transaction is rolled back."""

    stream: StreamId
    attempt: int


@dataclass(frozen=True, slots=True)
class SendReport:
    """Report for a stream that has no task."""

    report: StreamReport


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Write down that the stream ended for good under this want: a later host must not try again either."""

    stream: StreamId
    want_number: int
    error: str


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Take back that the stream ended for good: it is tried by other code, and a later host must go on with it."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class RaiseAlarm:
    kind: AlarmKind
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class EndAlarm:
    kind: str
    subject: str


Action = Start | Cancel | SendReport | GiveUp | TryAgain | RaiseAlarm | EndAlarm


@dataclass(frozen=True, slots=True)
class BackOff:
    """Seconds before attempts: doubling from `first_s` to `max_s`; a run of `healthy_s` begins again.

    `max_s` is what a stream may lose after its servers are back: an attempt is cheap, a minute is all it has.
    """

    first_s: float = 0.5
    max_s: float = 10.0
    healthy_s: float = 60.0

    def delay_s(self, failures: int) -> float:
        # The exponent is capped: it would leave the range of a float after some days of failures.
        return min(self.max_s, self.first_s * 2 ** min(failures - 1, 30)) if failures else 0.0


@dataclass(slots=True)
class _Entry:
    """What the host knows of one stream. `wanted` None: no longer wanted, but its task has not ended yet."""

    wanted: WantedStream | None
    order: int
    running: WantedStream | None = None
    attempt: int = 0
    started_s: float = 0.0
    has_slot: bool = False
    failures: int = 0
    retry_s: float = 0.0
    error: str = ""
    final_want: int = -1
    final_since_s: float | None = None
    stop_asked_s: float | None = None
    is_silent: bool = False
    is_cancelled: bool = False
    reported: tuple[str, str] = ("", "")
    alarm: str = ""
    idle: IdleStream | None = None
    code: str = ""

    @property
    def is_final(self) -> bool:
        return self.wanted is not None and self.wanted.want_number <= self.final_want


@dataclass(frozen=True, slots=True)
class Runs:
    """A wanted stream as its host has it. `is_ending`: its task was cancelled and has not ended yet; `failures`:
    attempts in a row that failed."""

    wanted: WantedStream
    code: str
    is_running: bool
    is_ending: bool
    is_idle: bool
    is_final: bool
    started_s: float
    failures: int
    error: str


class StreamRoster:
    """`slots` is what Spark offers; `reserve` of them stay free for tasks that are slow to die.

    `silence_s`: a stream's control reports every few seconds, whatever the stream does. `fenced_s`: a run that took a
    stream from its worker wants it again once it has published. `code`: the state of the installed code.
    """

    silence_s = 60.0
    fenced_s = 60.0

    def __init__(
        self, *, slots: int, reserve: int = 1, back_off: BackOff | None = None, stop_grace_s: float = 10.0,
        code: str = "",
    ) -> None:  # fmt: skip
        self._capacity, self._reserve = max(1, slots - reserve), reserve
        self._back_off = back_off or BackOff()
        self._grace_s = stop_grace_s
        self._code = code
        self._entries: dict[StreamId, _Entry] = {}
        self._orders = 0
        self._is_stopping = False

    # ---- what the driver sees --------------------------------------------------------------------------------------

    def wanted(self, streams: Iterable[WantedStream]) -> None:
        """The whole list as the platform database has it. While that is away nothing changes: it is not called."""
        listed = {stream.stream: stream for stream in streams}
        for stream, entry in self._entries.items():
            entry.wanted = listed.get(stream)
            # Whatever is asked of an idle stream, a worker has to answer.
            if entry.idle is not None and entry.wanted != entry.idle.wanted:
                entry.idle = None
        for stream, wanted in listed.items():
            if stream not in self._entries:
                self._orders += 1
                self._entries[stream] = _Entry(
                    wanted, self._orders, error=wanted.final_error, final_want=wanted.final_want, code=self._code
                )

    def offered(self, slots: int) -> bool:
        """Spark offers so many by now; whether those are more than ever. Executors that come late add theirs. One that
        is lost is replaced, so what it offered is still counted."""
        grows = slots - self._reserve > self._capacity
        self._capacity = max(self._capacity, slots - self._reserve)
        return grows

    def ended(self, end: TaskEnd, *, now_s: float) -> None:
        """A task has ended, in whatever way. Of an attempt that is not the running one: nothing."""
        entry = self._entries.get(end.stream)
        if entry is None or entry.running is None or entry.attempt != end.attempt:
            return
        ran_s = now_s - entry.started_s
        was_cancelled = entry.is_cancelled
        started_by, entry.running = entry.running, None
        entry.stop_asked_s, entry.is_cancelled, entry.is_silent = None, False, False
        entry.error = "" if was_cancelled else end.error
        if end.outcome is Outcome.IDLE:
            entry.failures = 0
            # Asked for something since it decided to end: then it starts again at once.
            wanted = entry.wanted
            if wanted is not None and wanted.plan_json == started_by.plan_json and not (wanted.paused or wanted.held):
                entry.idle = IdleStream(wanted, end.next_offset, now_s)
        elif end.outcome is Outcome.FINAL:
            entry.final_want = started_by.want_number
            entry.failures = 0
        elif was_cancelled or end.outcome is Outcome.STOPPED:
            entry.failures = 0
            # A task that ends as asked, over and over, must not spin: its orders and ours may differ for a moment.
            entry.retry_s = now_s + (self._back_off.first_s if ran_s < 5 else 0.0)
        else:
            entry.failures = 1 if ran_s >= self._back_off.healthy_s else entry.failures + 1
            entry.retry_s = now_s + self._back_off.delay_s(entry.failures)

    def heard_from(self, streams: Iterable[StreamId], *, now_s: float) -> None:
        """Only these have reported within `silence_s`, and all could: the others are suspended, or stuck for good."""
        heard = set(streams)
        for stream, entry in self._entries.items():
            if entry.running is not None and stream not in heard and now_s - entry.started_s >= self.silence_s:
                entry.is_silent = True

    def woken(self, stream: StreamId) -> None:
        """It gets a worker again. Of a stream that is not idle: nothing."""
        if stream in self._entries:
            self._entries[stream].idle = None

    def run_by(self, stream: StreamId, code: str) -> list[Action]:
        """From its next attempt on the stream runs by this code, and so does any that is wanted from now on. Its
        task is ended at once: the open transaction is rolled back, and its ledger says where the next one begins.

        One that ended for good is tried once by each code: what ended it may be mended. One that was fenced is not,
        for it has another owner."""
        self._code = code
        entry = self._entries.get(stream)
        if entry is None:
            return []
        tries_again = entry.is_final and entry.code != code and not Fenced.ended(entry.error)
        entry.code, entry.failures, entry.retry_s = code, 0, 0.0
        if tries_again:
            entry.final_want, entry.final_since_s = -1, None
            return [TryAgain(stream)]
        if entry.running is None or entry.is_cancelled:
            return []
        entry.is_cancelled = True
        return [Cancel(stream, entry.attempt)]

    def runs(self) -> list[Runs]:
        """Each wanted stream, in the order in which they were wanted."""
        return [
            Runs(
                one.wanted,
                one.code,
                is_running=one.running is not None,
                is_ending=one.is_cancelled,
                is_idle=one.idle is not None,
                is_final=one.is_final,
                started_s=one.started_s,
                failures=one.failures,
                error=one.error,
            )
            for one in sorted(self._entries.values(), key=lambda one: one.order)
            if one.wanted is not None
        ]

    def stop_all(self) -> None:
        """From now on nothing starts and everything ends."""
        self._is_stopping = True

    @property
    def running(self) -> int:
        return sum(entry.running is not None for entry in self._entries.values())

    @property
    def idle(self) -> tuple[IdleStream, ...]:
        """Those for which somebody has to listen to the log. They keep their slots."""
        found = (entry.idle for entry in self._entries.values() if entry.idle is not None)
        return () if self._is_stopping else tuple(found)

    @property
    def stop_grace_s(self) -> float:
        return self._grace_s

    @property
    def streams(self) -> tuple[WantedStream, ...]:
        """Those wanted now."""
        return tuple(entry.wanted for entry in self._entries.values() if entry.wanted is not None)

    # ---- what the driver shall do ----------------------------------------------------------------------------------

    def due(self, *, now_s: float, lease_until_s: float = math.inf) -> list[Action]:
        """What is to be done now. Each action is given once; the driver must not lose one.

        After `lease_until_s` nothing starts: a new attempt takes an epoch, and that might fence a stream of the host
        that has the pool by then. What runs goes on.
        """
        actions: list[Action] = []
        for stream, entry in sorted(self._entries.items(), key=lambda item: item[1].order):
            if entry.running is not None:
                actions += self._due_while_running(stream, entry, now_s)
            elif entry.wanted is None or self._is_stopping:
                actions += self._due_at_the_end(stream, entry)
            elif now_s < lease_until_s:
                actions += self._due_while_waiting(stream, entry, entry.wanted, now_s)
        return actions

    def _due_while_running(self, stream: StreamId, entry: _Entry, now_s: float) -> list[Action]:
        is_asked_to_stop = (
            self._is_stopping or entry.wanted is None or entry.running is None
            or entry.wanted.plan_json != entry.running.plan_json
        )  # fmt: skip
        if entry.is_silent and not entry.is_cancelled:
            entry.is_cancelled = True
            return [Cancel(stream, entry.attempt)]
        if not is_asked_to_stop:
            entry.stop_asked_s = None
            return []
        # The task reads it from the platform database. It is cancelled only if it does not obey.
        if entry.stop_asked_s is None:
            entry.stop_asked_s = now_s
        if now_s - entry.stop_asked_s >= self._grace_s and not entry.is_cancelled:
            entry.is_cancelled = True
            return [Cancel(stream, entry.attempt)]
        return []

    def _due_at_the_end(self, stream: StreamId, entry: _Entry) -> list[Action]:
        actions = self._report_once(stream, entry, "stopped", "")
        if entry.wanted is None:
            del self._entries[stream]
        return actions

    def _due_while_waiting(self, stream: StreamId, entry: _Entry, wanted: WantedStream, now_s: float) -> list[Action]:
        if entry.is_final:
            return self._due_when_final(stream, entry, now_s)
        entry.final_since_s = None
        if not entry.has_slot and self._slots_taken() >= self._capacity:
            full = f"all {self._capacity} slots of the host are taken: give it more (--slots), or name another pool"
            actions = self._report_once(stream, entry, NO_SLOT, full)
            return [*actions, *self._raise_alarm(stream, entry, NO_SLOT, full)]
        entry.has_slot = True
        if entry.idle is not None:
            return []
        if entry.retry_s > now_s:
            # A stop that was asked for is no failure and needs no report.
            return self._report_once(stream, entry, "backing_off", entry.error) if entry.failures else []
        entry.attempt += 1
        entry.running, entry.started_s, entry.final_want = wanted, now_s, -1
        entry.reported = ("", "")
        return [*self._end_alarm(stream, entry), Start(wanted, entry.attempt, entry.code)]

    def _due_when_final(self, stream: StreamId, entry: _Entry, now_s: float) -> list[Action]:
        entry.has_slot = False
        if entry.final_since_s is None:
            entry.final_since_s = now_s
        actions = self._report_once(stream, entry, "failed", entry.error)
        if actions:
            actions.append(GiveUp(stream, entry.final_want, entry.error))
        may_go_on = Fenced.ended(entry.error) and now_s - entry.final_since_s < self.fenced_s
        if may_go_on:
            return actions
        # As whoever looks at the streams words it: one end is one alarm, by whomever it is noticed first.
        message = f"failed: {stream_end(stream, entry.error).in_words()}"
        return [*actions, *self._raise_alarm(stream, entry, STREAM_FAILED, message)]

    def _slots_taken(self) -> int:
        return sum(entry.has_slot or entry.running is not None for entry in self._entries.values())

    def _report_once(self, stream: StreamId, entry: _Entry, state: str, error: str) -> list[Action]:
        if entry.reported == (state, error):
            return []
        entry.reported = (state, error)
        ended = [] if entry.alarm == state else self._end_alarm(stream, entry)
        return [*ended, SendReport(StreamReport(stream, state, error=error))]

    def _raise_alarm(self, stream: StreamId, entry: _Entry, kind: AlarmKind, message: str) -> list[Action]:
        if entry.alarm == kind:
            return []
        entry.alarm = kind
        return [RaiseAlarm(kind, str(stream), message)]

    def _end_alarm(self, stream: StreamId, entry: _Entry) -> list[Action]:
        alarm, entry.alarm = entry.alarm, ""
        return [EndAlarm(alarm, str(stream))] if alarm else []
