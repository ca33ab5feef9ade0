"""What may be said of a stream now: one word, since when, why, and whether that is well. Pure.

Page, `status`, alarms and sensors all ask here, so they cannot differ. What was not heard is never reported as if it
were: a lag is None where nobody knows it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from seamline.domain.alarms import AlarmKind
from seamline.domain.calendar import moment_in_words
from seamline.domain.catch_up import LastLoad
from seamline.domain.duration import duration
from seamline.domain.errors import ConfigError, Fenced
from seamline.domain.ledger import StreamId
from seamline.domain.log_kept import LogKept
from seamline.domain.phrase import joined, phrase
from seamline.domain.stream_end import in_one_line, restart_command, stream_end
from seamline.plan.document import plan_from_json
from seamline.ports import StreamReport, WantedStream
from seamline.sync.capture_watch import CAPTURE_FAILED, CAPTURE_STOPPED
from seamline.sync.flow_control import CAPTURE_PAUSED

# A stream's worker reports every 5 s, and its host speaks for an idle one as often: two words are missing.
HEARD_S = 10.0
# A worker that is silent for so long is replaced by its host, and one that was fenced is started again by whoever took
# the stream from it: longer means that neither has happened.
SILENCE_MAX_S = 60.0
# A host that died is started again within seconds by its supervisor, and takes its pool before Spark starts: longer
# means that nobody did. Only the watch in Airflow can see it (`tests/unit/test_found_in_time.py`).
HOST_GONE_MAX_S = 40.0
# How often the DAG `seamline__streams` looks, also at hosts that are gone.
WATCHED_EVERY_S = 120.0
# The source's heartbeats move every stream each ten seconds, and its host speaks for an idle one.
STILL_MAX_S = 120.0

SILENT, ENDED = AlarmKind.STREAM_SILENT, AlarmKind.STREAM_ENDED
# The roster of the stream host raises the same ones, so that one cause is one alarm.
HAS_FAILED, WITHOUT_SLOT = AlarmKind.STREAM_FAILED, AlarmKind.NO_SLOT
LATE, STILL, PAUSED = AlarmKind.STREAM_LATE, AlarmKind.STREAM_STILL, AlarmKind.STREAM_PAUSED
# The last is one of before, which an upgrade may find open.
STREAM_ALARMS: frozenset[str] = frozenset(
    {SILENT, ENDED, HAS_FAILED, WITHOUT_SLOT, LATE, STILL, PAUSED, "stream_no_slot"}
)
HOST_GONE = AlarmKind.HOST_GONE
# The kind of an alarm, or none.
Worth: TypeAlias = AlarmKind | Literal[""]


class Word(StrEnum):
    STREAMING = "streaming"
    IDLE = "idle"  # without a worker: the host listens to the log for it
    CATCHING_UP = "catching up"  # its tables stand at different positions until the cutover
    HELD = "held"  # a comparison lets it stand for a moment
    STARTING = "starting"
    TRYING_AGAIN = "trying again"
    PAUSED = "paused"
    LATE = "late"
    WAITING = "waits for its source"  # what comes next in its log can be verified by the source alone, which is away
    STILL = "still"  # alive, and has not come further for long
    UNKNOWN = "unknown"  # not heard within its interval
    NO_HEARTBEAT = "no heartbeat"  # nothing comes through the log, not even the source's heartbeat
    CAPTURE_DOWN = "capture down"
    NO_SLOT = "no slot"
    FAILED = "failed"
    STOPPED = "stopped"


_GREEN = frozenset({Word.STREAMING, Word.IDLE, Word.CATCHING_UP, Word.HELD})
# Those of which it can be said when they will be through.
_GOES_ON = frozenset({Word.STREAMING, Word.CATCHING_UP, Word.LATE})
_MAY_BE_LOADED = _GOES_ON | {Word.TRYING_AGAIN, Word.STILL}
_WORTH_SAYING_S = 60.0
_ENDED = frozenset({Word.NO_SLOT, Word.FAILED, Word.STOPPED})
# Those that keep the log by standing.
_KEEPS_LOG = _ENDED | {Word.PAUSED, Word.HELD, Word.LATE, Word.TRYING_AGAIN, Word.WAITING, Word.STILL, Word.UNKNOWN}
_MOVING = {"streaming": Word.STREAMING, "catching_up": Word.CATCHING_UP, "held": Word.HELD, "starting": Word.STARTING}


@dataclass(frozen=True, slots=True)
class StreamState:
    """`since`, `lag_s` and `records_behind` are None where they are not known. `why` is "" where nothing is to be said.

    `alarm`: the kind of the alarm that this is worth by now; "" for none. One about its host is raised for the pool.
    `may_restart`: it has ended though somebody wants it, and another attempt can help, at once or once a person has
    mended what `why` says.
    `kept`: what the log keeps for it, as it was measured at `kept_at`; None where nobody has within two minutes.
    """

    stream: StreamId
    word: Word
    why: str = ""
    since: datetime | None = None
    lag_s: float | None = None
    records_behind: int | None = None
    alarm: Worth = ""
    may_restart: bool = False
    kept: LogKept | None = None
    kept_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it does nothing until a person starts it again."""
        return self.word in (Word.FAILED, Word.STOPPED)

    @property
    def is_green(self) -> bool:
        """Known to be well."""
        return self.word in _GREEN

    @property
    def alarm_in_words(self) -> str:
        """The message of its alarm, whoever raises it."""
        return f"{self.word}: {self.why}"

    @property
    def is_unwanted(self) -> bool:
        """Whether nobody wants it. One that has stopped though somebody does is worth an alarm."""
        return self.word is Word.STOPPED and not self.may_restart

    def in_words(self, zone: tzinfo = UTC) -> str:
        """One line, without the stream's name."""
        since = f" since {moment_in_words(self.since, zone)}" if self.since else ""
        lag = "lag unknown" if self.lag_s is None else f"lag {self.lag_s:.1f} s"
        records = "" if self.records_behind is None else f" ({_records(self.records_behind)})"
        kept = self.kept_in_words(zone)
        return f"{self.word}{since}, {lag}{records}{f': {self.why}' if self.why else ''}{f'; {kept}' if kept else ''}"

    def kept_in_words(self, zone: tzinfo = UTC) -> str:
        """What the log keeps for a stream that stands, and until when; "" for one that goes on, and where it is not
        known."""
        if self.kept is None or self.kept_at is None or not self.kept.size_bytes or self.word not in _KEEPS_LOG:
            return ""
        return self.kept.in_words(self.kept_at, zone)

    @property
    def faster_load(self) -> LastLoad | None:
        """The last load of all tables, where loading them again is clearly faster than to catch up. One that somebody
        lets stand does not catch up at all."""
        return self.kept.load if self.kept is not None and self.word in _MAY_BE_LOADED else None


@dataclass(frozen=True, slots=True)
class CaptureDown:
    """The capture of a source does not run, as its watch has noticed."""

    since: datetime
    why: str


class HostLike(Protocol):
    @property
    def pool(self) -> str: ...
    @property
    def holder(self) -> str: ...
    @property
    def is_alive(self) -> bool: ...
    @property
    def silent_s(self) -> float: ...


class AlarmLike(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def raised_at(self) -> datetime: ...


A = TypeVar("A", bound=AlarmLike)
# The stream host judges every few seconds, by the same plans.
_plan_of = lru_cache(maxsize=1024)(plan_from_json)


def captures_down(alarms: Iterable[AlarmLike]) -> dict[str, CaptureDown]:
    """By source, from the open alarms. Connect that does not answer is no such proof: heartbeats show it."""
    kinds = (CAPTURE_FAILED, CAPTURE_STOPPED, CAPTURE_PAUSED)
    return {one.subject: CaptureDown(one.raised_at, one.message) for one in alarms if one.kind in kinds}


def stream_states(
    wanted: Iterable[WantedStream],
    reports: Mapping[StreamId, StreamReport],
    hosts: Iterable[HostLike],
    alarms: Iterable[AlarmLike],
    *,
    now: datetime,
) -> dict[StreamId, StreamState]:
    """Of every stream that is wanted or has ever reported, as the platform database has all of this now."""
    listed, by_pool, down = (
        {one.stream: one for one in wanted},
        {host.pool: host for host in hosts},
        captures_down(alarms),
    )
    found = {}
    for stream in dict.fromkeys([*listed, *reports]):
        mine, report = listed.get(stream), reports.get(stream)
        if mine is None:
            found[stream] = not_wanted(stream, report)
            continue
        try:
            plan = _plan_of(mine.plan_json)
        except ConfigError as exc:
            # Whatever its last word was, no other attempt can run by this plan. The others are judged.
            found[stream] = _failed(StreamReport(stream, "failed", error=f"{type(exc).__name__}: {exc}"))
            continue
        found[stream] = stream_state(
            mine,
            report,
            host=by_pool.get(plan.stream.pool),
            capture=down.get(plan.source.name),
            lag_max_s=plan.stream.lag_max_s,
            now=now,
        )
    return found


def log_kept_document(state: StreamState) -> dict[str, Any] | None:
    """What the log keeps for a stream, for a program; None where it is not known. A moment is None where it is not
    within thirty days, or not known."""
    kept, at = state.kept, state.kept_at
    if kept is None or at is None:
        return None
    return {
        "size_bytes": kept.size_bytes,
        "measured_at": at,
        "grows_bytes_per_s": kept.grows_per_s,
        "full_at": kept.moment(at, kept.full_in_s),
        "cut_off_at": kept.moment(at, kept.cut_off_in_s),
        "source_deletes_at": kept.moment(at, kept.source_in_s),
        "given_up_at": kept.moment(at, kept.given_up_in_s),
        "faster_load_s": kept.load.seconds if kept.load else None,
    }


def alarms_over(alarms: Iterable[A], states: Mapping[StreamId, StreamState], hosts: Iterable[HostLike]) -> list[A]:
    """Those of the open alarms about streams and hosts that are not so any more: the lag has ended, the stream is
    paused or not wanted instead, the host is back."""
    so: set[tuple[str, str]] = {(state.alarm, str(stream)) for stream, state in states.items()}
    so |= {(HOST_GONE, host.pool) for host in hosts if not host.is_alive}
    so |= {(kind, str(stream)) for stream, state in states.items() for kind in _may_last(state)}
    return [one for one in alarms if one.kind in STREAM_ALARMS | {HOST_GONE} and (one.kind, one.subject) not in so]


def _may_last(state: StreamState) -> tuple[str, ...]:
    """Alarms about a lag: while it is not known, it has not ended."""
    if state.lag_s is not None or state.word in _ENDED:
        return ()
    return (PAUSED,) if state.word is Word.PAUSED else (LATE,)


def alarms_over_now(
    wanted: Iterable[WantedStream],
    reports: Mapping[StreamId, StreamReport],
    hosts: Sequence[HostLike],
    alarms: Sequence[A],
) -> list[A]:
    """The same, judged by what the platform database has now."""
    if not any(one.kind in STREAM_ALARMS | {HOST_GONE} for one in alarms):
        return []
    return alarms_over(alarms, stream_states(wanted, reports, hosts, alarms, now=datetime.now(UTC)), hosts)


def has_ended_for_good(report: StreamReport) -> bool:
    """Whether no attempt comes by itself. A run that publishes takes the stream from its worker, and starts it again a
    moment later: the stream host waits as long before it calls it failed."""
    return report.state == "failed" and not (Fenced.ended(report.error) and report.age_s <= SILENCE_MAX_S)


def alarms_due_now(
    wanted: Iterable[WantedStream],
    reports: Mapping[StreamId, StreamReport],
    hosts: Sequence[HostLike],
    alarms: Sequence[AlarmLike],
) -> list[StreamState]:
    """Those of these streams that are worth an alarm of their own by now, as the platform database has them."""
    states = stream_states(wanted, reports, hosts, alarms, now=datetime.now(UTC))
    return [states[one.stream] for one in wanted if states[one.stream].alarm not in ("", HOST_GONE)]


def not_wanted(stream: StreamId, report: StreamReport | None) -> StreamState:
    why = phrase("it is not wanted")
    if report is not None and report.error:
        why = joined(": ", [why, _error(report)])
    return StreamState(stream, Word.STOPPED, why, report.since if report else None)


def stream_state(
    wanted: WantedStream,
    report: StreamReport | None,
    *,
    host: HostLike | None = None,
    capture: CaptureDown | None = None,
    lag_max_s: float,
    now: datetime,
) -> StreamState:
    """The state of a wanted stream. The first of these that is so: ended, paused, not heard, its capture down, late."""
    if report is None:
        return _without_a_report(wanted, host, now)
    found = _reported(wanted, report, host=host, capture=capture, lag_max_s=lag_max_s, now=now)
    return replace(found, kept=report.kept, kept_at=report.kept_at)


def _reported(
    wanted: WantedStream,
    report: StreamReport,
    *,
    host: HostLike | None,
    capture: CaptureDown | None,
    lag_max_s: float,
    now: datetime,
) -> StreamState:
    if ended := _ended(report):
        return ended
    if wanted.paused:
        return _paused(wanted, report, host, lag_max_s, now)
    if report.age_s >= (SILENCE_MAX_S if report.state == "backing_off" else HEARD_S):
        return _not_heard(report, host, now)
    # A source that is away takes its capture along; what the stream says of it is the nearer word.
    if capture is not None and report.state != "waiting":
        alarm: Worth = LATE if (now - capture.since).total_seconds() > lag_max_s else ""
        return StreamState(report.stream, Word.CAPTURE_DOWN, capture.why, capture.since, alarm=alarm)
    found = _heard(report, lag_max_s, now)
    takes = _takes(report) if found.word in _GOES_ON else ""
    return replace(found, why=joined("; ", [part for part in (found.why, takes) if part])) if takes else found


def _takes(report: StreamReport) -> str:
    """How long what is before it takes; "" where that is soon, or was not measured."""
    seconds = _behind(report) / report.records_per_s if report.records_per_s and report.epoch else 0.0
    if seconds < _WORTH_SAYING_S:
        return ""
    length = duration(timedelta(seconds=seconds))
    return phrase("what is before it takes about %(length)s as it applies now", length=length)


def _without_a_report(wanted: WantedStream, host: HostLike | None, now: datetime) -> StreamState:
    why = joined("; ", [phrase("it has never reported"), _of_host(host) or phrase("is its stream host running?")])
    if wanted.paused:
        why = joined("; ", [_by_whom(wanted), why])
        return StreamState(wanted.stream, Word.PAUSED, why, wanted.paused_at, alarm=_silence(host))
    return StreamState(wanted.stream, Word.UNKNOWN, why, alarm=_silence(host))


def _ended(report: StreamReport) -> StreamState | None:
    """The state of a stream that no worker runs, whoever said so and when; None for one that has not ended."""
    match report.state:
        case "failed" if not has_ended_for_good(report):
            why = phrase("a run that publishes has taken it over")
            return StreamState(report.stream, Word.STARTING, why, report.since)
        case "failed":
            return _failed(report)
        case "stopped":
            why = phrase("it was stopped, and nobody has started it again")
            if report.error:
                why = joined(": ", [why, _error(report)])
            why = phrase("%(why)s. To mend it: `%(command)s`", why=why, command=restart_command(report.stream))
            return StreamState(report.stream, Word.STOPPED, why, report.since, alarm=ENDED, may_restart=True)
        case "no_slot":
            why = phrase("its host has no slot for it; give the host more, or another pool")
            return StreamState(report.stream, Word.NO_SLOT, why, report.since, alarm=WITHOUT_SLOT)
    return None


def _failed(report: StreamReport) -> StreamState:
    end = stream_end(report.stream, report.error)
    return StreamState(
        report.stream, Word.FAILED, end.in_words(), report.since, alarm=HAS_FAILED, may_restart=end.may_restart
    )


def _paused(
    wanted: WantedStream, report: StreamReport, host: HostLike | None, lag_max_s: float, now: datetime
) -> StreamState:
    """What it holds back is worth an alarm as soon as a stream that runs would be late by it."""
    known = StreamState(report.stream, Word.PAUSED, _by_whom(wanted), wanted.paused_at)
    if report.age_s >= HEARD_S:
        unknown = phrase("what it holds back is not known: no word for %(seconds)s s", seconds=f"{report.age_s:.0f}")
        why = joined("; ", [known.why, unknown])
        return replace(known, why=why, alarm=_silence(host) if report.age_s > SILENCE_MAX_S else "")
    behind = _behind(report)
    if report.state != "paused":
        why = joined("; ", [known.why, phrase("it stands at its next whole transaction")])
        return replace(known, why=why, records_behind=behind)
    back = phrase(
        "it holds back %(records)s, the first of them for up to %(seconds)s s",
        records=_records(behind),
        seconds=f"{report.lag_s:.0f}",
    )
    why = joined("; ", [known.why, back])
    alarm: Worth = PAUSED if report.lag_s > lag_max_s else ""
    return replace(known, why=why, lag_s=report.lag_s, records_behind=behind, alarm=alarm)


def _by_whom(wanted: WantedStream) -> str:
    by = phrase("by %(who)s", who=wanted.paused_by) if wanted.paused_by else phrase("nobody wrote down by whom")
    return joined(", ", [by, f"“{wanted.pause_reason}”" if wanted.pause_reason else phrase("no reason given")])


def _not_heard(report: StreamReport, host: HostLike | None, now: datetime) -> StreamState:
    last_report = phrase(
        "no word for %(seconds)s s, the last was %(word)s", seconds=f"{report.age_s:.0f}", word=_called(report)
    )
    why = joined("; ", [part for part in (last_report, _of_host(host)) if part])
    since = now - timedelta(seconds=report.age_s)
    alarm: Worth = _silence(host) if report.age_s > SILENCE_MAX_S else ""
    return StreamState(report.stream, Word.UNKNOWN, why, since, alarm=alarm)


def _silence(host: HostLike | None) -> Worth:
    """Which alarm its silence is worth: where its host is gone, that of the pool, which all of its streams share."""
    is_gone = host is not None and not host.is_alive and host.silent_s > HOST_GONE_MAX_S
    return HOST_GONE if is_gone else SILENT


def _of_host(host: HostLike | None) -> str:
    if host is None or host.is_alive:
        return ""
    return phrase(
        "the stream host of pool %(pool)s (%(holder)s) is gone since %(seconds)s s",
        pool=host.pool,
        holder=host.holder or phrase("none yet"),
        seconds=f"{host.silent_s:.0f}",
    )


def _heard(report: StreamReport, lag_max_s: float, now: datetime) -> StreamState:
    # As of its last report.
    silent_s, still_s = report.silent_s + report.age_s, report.still_s + report.age_s
    # What the host says of a stream without a worker has no figures.
    known = StreamState(
        report.stream,
        _MOVING.get(report.state, Word.STARTING),
        _error(report),
        report.since,
        report.lag_s if report.epoch else None,
        _behind(report) if report.epoch else None,
    )
    if report.state == "waiting":
        return replace(known, word=Word.WAITING, alarm=LATE if report.lag_s > lag_max_s else "")
    if report.silent_s:
        why = phrase(
            "nothing has come through the log for %(seconds)s s, not even the source's heartbeat",
            seconds=f"{report.silent_s:.0f}",
        )
        alarm: Worth = LATE if report.silent_s > lag_max_s else ""
        since = now - timedelta(seconds=silent_s)
        return replace(known, word=Word.NO_HEARTBEAT, why=why, since=since, lag_s=None, alarm=alarm)
    if report.lag_s > lag_max_s:
        return replace(known, word=Word.LATE, why=_too_late(report, lag_max_s), since=None, alarm=LATE)
    if report.still_s > STILL_MAX_S and report.state != "paused":
        why = phrase(
            "%(word)s; it has not come further for %(seconds)s s: it tries in vain, or its destination does not answer,"
            " or nothing comes from its source, or one very large transaction is on its way",
            word=_called(report),
            seconds=f"{still_s:.0f}",
        )
        since = now - timedelta(seconds=still_s)
        return replace(known, word=Word.STILL, why=why, since=since, alarm=STILL)
    if report.state == "backing_off":
        return replace(known, word=Word.TRYING_AGAIN)
    return replace(known, word=Word.IDLE) if report.is_idle else known


def _too_late(report: StreamReport, lag_max_s: float) -> str:
    why = phrase(
        "it is %(seconds)s s behind, %(allowed)s s are allowed", seconds=f"{report.lag_s:.0f}", allowed=f"{lag_max_s:g}"
    )
    return phrase("%(why)s (%(error)s)", why=why, error=_error(report)) if report.error else why


def _called(report: StreamReport) -> str:
    """What it reported, in words for people."""
    word = state_in_words(report.state)
    return joined(": ", [word, _error(report)]) if report.error else word


def state_in_words(state: str) -> str:
    """A state as streams report it, for people."""
    return Word.TRYING_AGAIN if state == "backing_off" else state.replace("_", " ")


def _error(report: StreamReport) -> str:
    """That it may pass is said by the state already."""
    return in_one_line(report.error)


def _records(count: int) -> str:
    return phrase("1 record") if count == 1 else phrase("%(count)s records", count=f"{count:,}")


def _behind(report: StreamReport) -> int:
    return max(0, report.log_end_offset - report.next_offset)
