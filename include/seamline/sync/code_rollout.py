"""New code for streams that run: one is restarted after another, each once the one before is caught up again.

Pure: the host feeds in what is installed and how its streams are, and does what comes out.

A stream that does not come up by the new code stops the sequence: the others go on by the code that they have. The
sequence goes on once that stream is caught up after all, or is not wanted any more; and when yet another code is
installed, it begins again with that stream.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from seamline.domain.alarms import AlarmKind
from seamline.domain.ledger import StreamId
from seamline.sync.stream_host import EndAlarm, RaiseAlarm

CODE_DIFFERS = AlarmKind.CODE_DIFFERS
# A stream takes seconds to start; one that has not streamed by then does not come up.
_UP_WITHIN_S = 180.0
# Attempts that ended with an error, by the new code. A destination that restarts ends two within seconds, so they count
# only for a stream that has not been up for so long.
_ATTEMPTS_MAX = 2
_FAILS_FOR_S = 60.0
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class RunsBy:
    """One stream of the host. `code`: by which it was started last, or will be. `is_running`: whether it has a task;
    one without has the new code with its next attempt. `is_idle`: it has none as it has nothing to do. `is_up`: the
    task that runs now has reported that it streams; `is_caught_up`: and within its lag limit. `failures`: attempts in a
    row that failed; `is_final`: no other follows. `is_bound`: only a restart of the whole host changes its code."""

    stream: StreamId
    code: str
    is_running: bool = True
    is_idle: bool = False
    is_up: bool = False
    is_caught_up: bool = False
    failures: int = 0
    is_final: bool = False
    error: str = ""
    is_bound: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """Let the stream run by this code. One that runs is ended first, and started again at once."""

    stream: StreamId
    code: str


Step = Restart | RaiseAlarm | EndAlarm


class CodeRollout:
    """`code`: by which the host itself runs."""

    def __init__(self, pool: str, code: str) -> None:
        self._pool = pool
        self._target = code
        self._seen = code
        self._at: StreamId | None = None
        # When that one was up last, or was restarted.
        self._up_s = 0.0
        self._broken = ""
        self._first: StreamId | None = None
        self._said = ""

    def installed(self, code: str) -> None:
        """As a look at the files has it now. New code counts once two looks in a row found the same: what is being
        copied changes between them."""
        is_settled, self._seen = code == self._seen, code
        if is_settled and code != self._target:
            self._target, self._at, self._broken = code, None, ""

    def is_over(self, codes: Set[str]) -> bool:
        """Whether streams by these codes leave nothing to do and nothing to say."""
        return not self._said and codes <= {self._target}

    def due(self, streams: Sequence[RunsBy], *, now_s: float) -> list[Step]:
        """What is to be done now; nothing for as long as the stream that was restarted last is on its way."""
        if self._broken:
            self._look_whether_mended(streams)
        at = next((one for one in streams if one.stream == self._at), None)
        if at is None:
            self._at = None
        else:
            self._judge(at, now_s)
        mine = [one for one in streams if one.code != self._target and not one.is_bound]
        steps: list[Step] = []
        if self._at is None and not self._broken:
            steps += self._restarts(mine, now_s)
        given = {one.stream for one in steps if isinstance(one, Restart)}
        by_now = [replace(one, code=self._target) if one.stream in given else one for one in streams]
        return [*steps, *self._say(by_now, [one for one in mine if one.stream not in given])]

    def _judge(self, one: RunsBy, now_s: float) -> None:
        if one.is_up:
            self._up_s = now_s
        down_s = now_s - self._up_s
        has_failed = one.failures >= _ATTEMPTS_MAX and down_s >= _FAILS_FOR_S
        if one.is_caught_up or one.is_idle:
            self._at, self._first = None, None
        elif one.is_final or has_failed or (not one.is_up and down_s > _UP_WITHIN_S):
            why = one.error or f"it has not streamed for {down_s:.0f} s"
            self._broken = f"{one.stream} does not come up by it: {why}"
            self._at, self._first = None, one.stream

    def _look_whether_mended(self, streams: Sequence[RunsBy]) -> None:
        """The stream that did not come up tries on: what was wrong may have been the world, and not the code."""
        first = next((one for one in streams if one.stream == self._first), None)
        if first is None or (first.code == self._target and (first.is_caught_up or first.is_idle)):
            self._broken, self._first = "", None

    def _restarts(self, mine: Sequence[RunsBy], now_s: float) -> list[Step]:
        """Of the one that failed by the code before, else of one that is well; behind those, of all without a task,
        which costs them nothing. A stream that runs and is not well waits: a restart would hide why it is not."""
        first = next((one for one in mine if one.stream == self._first), None)
        following = first or next((one for one in mine if one.is_running and one.is_caught_up), None)
        if following is not None:
            self._at, self._up_s = following.stream, now_s
            return [Restart(following.stream, self._target)]
        return [] if any(one.is_running for one in mine) else [Restart(one.stream, self._target) for one in mine]

    def _say(self, streams: Sequence[RunsBy], mine: Sequence[RunsBy]) -> list[Step]:
        """The alarm with how far it is, when that has changed."""
        message = self._message(streams, mine)
        if message == self._said:
            return []
        self._said = message
        return [RaiseAlarm(CODE_DIFFERS, self._pool, message)] if message else [EndAlarm(CODE_DIFFERS, self._pool)]

    def _message(self, streams: Sequence[RunsBy], mine: Sequence[RunsBy]) -> str:
        bound = [one for one in streams if one.is_bound and one.code != self._target]
        # Neither the one that is on its way nor the one that did not come up runs by it yet.
        on_its_way = sum(one.stream in (self._at, self._first) and one.code == self._target for one in streams)
        total, left = len(streams), len(mine) + len(bound) + on_its_way
        head = f"{total - left} of {total} streams run by the installed code {self._target[:_SHOWN]}"
        if self._broken:
            return f"{head}; it stops there, the others go on by the code of before: {self._broken}"
        if self._at is not None:
            return f"{head}; {self._at} is restarted, the next follows once it is caught up"
        if mine:
            return f"{head}; not well, and so not restarted yet: {', '.join(str(one.stream) for one in mine)}"
        if bound:
            names = ", ".join(str(one.stream) for one in bound)
            return f"{head}; {names} have the code that the stream host was started with: restart the host"
        return ""
