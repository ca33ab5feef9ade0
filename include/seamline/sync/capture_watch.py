"""Watching a source's capture: failed tasks are restarted less and less often, the log's size is watched.

Pure: the host asks a `CaptureProbe` every few seconds, feeds the answers in and does what comes out. It never
deletes anything: at its byte limit the log topic grows no further because the capture is stopped (PROTOCOL 10).
"""

from dataclasses import dataclass, field
from enum import StrEnum

from seamline.domain.alarms import AlarmKind
from seamline.domain.capture_status import CaptureState, CaptureStatus
from seamline.sync.capture_lifecycle import full_topic_cure
from seamline.sync.stream_host import BackOff, EndAlarm, RaiseAlarm

CAPTURE_FAILED = AlarmKind.CAPTURE_FAILED
CAPTURE_STOPPED = AlarmKind.CAPTURE_STOPPED
CAPTURE_UNREACHABLE = AlarmKind.CAPTURE_UNREACHABLE
LOG_SIZE = AlarmKind.LOG_SIZE
_GIB = 1 << 30


class Step(StrEnum):
    """What to do with the capture itself."""

    RESTART = "restart"
    STOP = "stop"


Action = Step | RaiseAlarm | EndAlarm


@dataclass(slots=True)
class CaptureWatch:
    """`unreachable_after_s`: silence of Connect up to this long is a restart of it, not an alarm."""

    source: str
    connector: str
    log_max_gb: float
    # A start costs Connect a second: a source that is back must not wait for minutes.
    back_off: BackOff = field(default_factory=lambda: BackOff(first_s=5, max_s=15, healthy_s=60))
    unreachable_after_s: float = 30.0
    # An onboarding that adds a table stops the connector for seconds.
    stopped_after_s: float = 60.0
    _failures: int = 0
    _retry_s: float = 0.0
    _running_since_s: float | None = None
    _silent_since_s: float | None = None
    _stopped_since_s: float | None = None
    # Which alarms are open. Of one that is not in here nothing is known: an earlier watch may have left it.
    _is_open: dict[str, bool] = field(default_factory=dict)

    def seen(self, status: CaptureStatus, *, now_s: float) -> list[Action]:
        """Connect has answered."""
        self._silent_since_s = None
        actions = self._quiet(CAPTURE_UNREACHABLE)
        if status.state is not CaptureState.STOPPED:
            self._stopped_since_s = None
            actions += self._quiet(CAPTURE_STOPPED)
        if status.state in (CaptureState.STOPPED, CaptureState.RUNNING, CaptureState.PAUSED):
            actions += self._quiet(CAPTURE_FAILED)
        if status.state is CaptureState.FAILED:
            self._running_since_s = None
            actions += self._alarm(CAPTURE_FAILED, f"connector {self.connector} has failed: {status.error}")
            if now_s >= self._retry_s:
                self._failures += 1
                self._retry_s = now_s + self.back_off.delay_s(self._failures)
                actions.append(Step.RESTART)
        elif status.state is CaptureState.MISSING:
            actions += self._alarm(
                CAPTURE_FAILED, f"Connect does not know connector {self.connector}: run a sync's onboarding again"
            )
        elif status.state is CaptureState.STOPPED:
            actions += self._seen_stopped(now_s)
        elif status.state is CaptureState.RUNNING:
            self._seen_running(now_s)
        return actions

    def _seen_stopped(self, now_s: float) -> list[Action]:
        if self._stopped_since_s is None:
            self._stopped_since_s = now_s
        if now_s - self._stopped_since_s < self.stopped_after_s:
            return []
        return self._alarm(
            CAPTURE_STOPPED,
            f"connector {self.connector} is stopped, so its streams get nothing new:"
            f" `./seamline capture start {self.source}` starts it again",
        )

    def _seen_running(self, now_s: float) -> None:
        if self._running_since_s is None:
            self._running_since_s = now_s
        if now_s - self._running_since_s >= self.back_off.healthy_s:
            self._failures, self._retry_s = 0, 0.0

    def silent(self, error: str, *, now_s: float) -> list[Action]:
        """Connect has not answered."""
        if self._silent_since_s is None:
            self._silent_since_s = now_s
        if now_s - self._silent_since_s < self.unreachable_after_s:
            return []
        return self._alarm(CAPTURE_UNREACHABLE, f"Connect does not answer for {self.connector}: {error}")

    def sized(self, log_bytes: int, *, max_gb: float | None = None) -> list[Action]:
        """The log topic has this size. `max_gb`: the limit of now, where it is not that of the streams' plan."""
        limit_gb = self.log_max_gb if max_gb is None else max_gb
        share = log_bytes / (limit_gb * _GIB)
        if share < 0.5:
            return self._quiet(LOG_SIZE)
        level = 80 if share >= 0.8 else 50
        if share >= 1:
            text = (
                f"the log topic of {self.source} has reached its limit of {limit_gb:g} GiB, so connector"
                f" {self.connector} was stopped: {full_topic_cure(self.source)}"
            )
            # Said again and again: somebody may have started the connector without mending the cause.
            return [Step.STOP, *self._alarm(LOG_SIZE, text)]
        text = f"the log topic of {self.source} is over {level} % of its limit of {limit_gb:g} GiB"
        cure = "its capture stops there: raise `log.max_gb` in time, as far as the broker's disk allows"
        return self._alarm(LOG_SIZE, f"{text}; {cure}")

    def _alarm(self, kind: AlarmKind, message: str) -> list[Action]:
        """At each look while it is so: another hand may have ended it meanwhile (`capture reset`, another host)."""
        self._is_open[kind] = True
        return [RaiseAlarm(kind, self.source, message)]

    def _quiet(self, kind: AlarmKind) -> list[Action]:
        """Once, also of an alarm that an earlier watch has raised."""
        if self._is_open.get(kind) is False:
            return []
        self._is_open[kind] = False
        return [EndAlarm(kind, self.source)]
