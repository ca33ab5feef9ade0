"""Does at a source's capture what `sync.flow_control` decides: quota, pause, alarms, and streams that are cut off."""

import logging

from seamline.domain.capture_status import CaptureState
from seamline.domain.errors import ConfigError, TransientError
from seamline.domain.log_fill import LogFill, LogLimits
from seamline.domain.source_backlog import SourceBacklog
from seamline.ports import CaptureProbe, Followers
from seamline.sync.catch_up_watch import CatchUpWatch
from seamline.sync.flow_control import CAPTURE_PAUSED, CAPTURE_SLOWED, Flow, FlowControl, Level
from seamline.sync.stream_host import EndAlarm, RaiseAlarm

log = logging.getLogger(__name__)

_ALARM_OF = {Level.SLOWED: CAPTURE_SLOWED, Level.PAUSED: CAPTURE_PAUSED}


class CaptureFlow:
    """Of one source. A quota or a pause that an earlier watch has left is taken up, or ended, at the first look.
    `backlog_max_gb`: of the source's own log, for the forecast alone."""

    def __init__(self, source: str, followers: Followers, *, backlog_max_gb: float = 0.0) -> None:
        self._source = source
        self._followers = followers
        self._control = FlowControl(source)
        self._catch_up = CatchUpWatch(source, followers.last_load, followers.running_loads, backlog_max_gb)
        self._flow: Flow | None = None
        self._refused = ""

    def steer(
        self,
        probe: CaptureProbe,
        fill: LogFill,
        limits: LogLimits,
        *,
        state: CaptureState | None,
        now_s: float,
        backlog: SourceBacklog | None = None,
    ) -> list[RaiseAlarm | EndAlarm]:
        """What has to be said. `backlog`: what the source keeps of its own log, where that is known.

        TransientError: somebody did not answer; the next look does what is left.
        """
        followers = self._followers.of(self._source)
        for one in self._control.cut_off(fill, followers):
            log.error("a stream is cut off: stream=%s %s", one.stream, one.reason)
            self._followers.cut_off(one.stream, one.reason)
            followers = [other for other in followers if other.stream != one.stream]
        flow = self._control.seen(fill, followers, limits, now_s=now_s)
        self._limit(probe, flow)
        self._let_stand(probe, flow, state)
        said, self._flow = self._said(flow), flow
        said += self._catch_up.seen(fill, followers, limits, backlog, now_s=now_s, level=flow.level)
        self._note_kept()
        return said

    def _note_kept(self) -> None:
        """What has to be said is said once, also where this cannot be written down now: the next look does."""
        try:
            self._followers.note_kept(self._catch_up.kept)
        except TransientError as exc:
            log.warning("what the log keeps is not written down: source=%s error=%s", self._source, exc.message)

    def _limit(self, probe: CaptureProbe, flow: Flow) -> None:
        """A broker that lets nobody set quotas still sees the capture pause."""
        if self._flow is not None and flow.bytes_per_s == self._flow.bytes_per_s:
            return
        try:
            probe.slow_down(flow.bytes_per_s)
            self._refused = ""
        except ConfigError as exc:
            self._refused = f"; {exc.message}: {exc.hint}"
            return
        if flow.bytes_per_s is not None or self._flow is not None:
            log.info("rate of a capture: source=%s bytes_per_s=%s %s", self._source, flow.bytes_per_s, flow.why)

    def _let_stand(self, probe: CaptureProbe, flow: Flow, state: CaptureState | None) -> None:
        if flow.level is Level.PAUSED and state is CaptureState.RUNNING:
            log.error("pausing a capture: source=%s %s", self._source, flow.why)
            probe.pause()
        elif flow.level is not Level.PAUSED and state is CaptureState.PAUSED:
            log.info("a capture goes on: source=%s", self._source)
            probe.resume()

    def _said(self, flow: Flow) -> list[RaiseAlarm | EndAlarm]:
        kind = _ALARM_OF.get(flow.level)
        before = _ALARM_OF.get(self._flow.level, "") if self._flow else None
        ended = [one for one in _ALARM_OF.values() if one != kind and before in (one, None)]
        actions: list[RaiseAlarm | EndAlarm] = [EndAlarm(one, self._source) for one in ended]
        if kind:
            actions.append(RaiseAlarm(kind, self._source, self._in_words(flow)))
        return actions

    def _in_words(self, flow: Flow) -> str:
        if flow.level is Level.PAUSED:
            return f"the capture of {self._source} pauses: {flow.why}. It goes on by itself once there is room"
        rate = f"{(flow.bytes_per_s or 0) / 1024:,.0f} KiB a second"
        return (
            f"the capture of {self._source} is slowed down to {rate}: {flow.why}. It is let go by itself once that is"
            f" less{self._refused}"
        )
