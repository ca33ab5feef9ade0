"""What `status --watch` shows, as lines. Pure."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from seamline.cli.seen import Seen, SyncSeen
from seamline.domain.calendar import moment_in_words
from seamline.domain.cut_state import Headline
from seamline.domain.ledger import StreamId
from seamline.domain.work_under_way import WorkUnderWay
from seamline.platform.work import WAITING_MAX, Waiting
from seamline.report.words import visible

_STEPS = "▁▂▃▄▅▆▇█"
# Of one of whom nothing was reported.
_GAP = " "
_WORD = 16
# So many runs that have not begun are named.
_QUEUED_MAX = 3


@dataclass(frozen=True, slots=True)
class Watched:
    """One look. `lags`: the worst in each minute, the oldest first. `work`: None where Airflow does not answer, and
    `why_no_work` says why. `breaks`: open ones, some of many."""

    at: datetime
    processes: str
    seen: Seen
    lags: Mapping[StreamId, Sequence[float | None]]
    work: Sequence[WorkUnderWay] | None
    why_no_work: str = ""
    breaks: Sequence[Waiting] = ()


def sparkline(values: Sequence[float | None]) -> str:
    """A sign per value; None is a gap. Its full height is the greatest value, and at least 1."""
    top = max([1.0, *(value for value in values if value is not None)])
    last = len(_STEPS) - 1
    return "".join(_GAP if value is None else _STEPS[round(value / top * last)] for value in values)


def lines(watched: Watched) -> list[str]:
    found = [f"{watched.at:%Y-%m-%d %H:%M:%S}  {watched.processes}", ""]
    for one in watched.seen.syncs:
        found += [f"{one.name}: {one.state}, {one.word}", *_streams(one, watched), ""]
    found += ["work", *_indented(_work(watched), "nothing runs"), ""]
    found += ["who waits for whom", *_indented(_waits(watched), "nobody waits")]
    alarms = [f"ALARM {one.kind} {one.subject}: {one.message}" for one in watched.seen.streams.alarms]
    return [visible(line) for line in [*found, *([""] if alarms else []), *alarms]]


def _indented(said: Iterable[str], nothing: str) -> list[str]:
    return [f"  {one}" for one in said] or [f"  {nothing}"]


def _streams(one: SyncSeen, watched: Watched) -> Iterator[str]:
    wide = max((len(state.stream.destination) for state in one.streams), default=0)
    for state in one.streams:
        lag = "lag unknown" if state.lag_s is None else f"lag {state.lag_s:.1f} s"
        line = sparkline(watched.lags.get(state.stream, ()))
        why = f"  {state.why}" if state.why else ""
        yield f"  {state.stream.destination:<{wide}}  {state.word:<{_WORD}}{lag:<14}{line}{why}"


def _work(watched: Watched) -> Iterator[str]:
    if watched.work is None:
        yield f"not known: {watched.why_no_work}"
        return
    yield from (one.in_words(watched.at) for one in watched.work if one.started_at is not None)
    queued = [one for one in watched.work if one.started_at is None]
    yield from (one.in_words(watched.at) for one in queued[:_QUEUED_MAX])
    if len(queued) > _QUEUED_MAX:
        yield f"and {len(queued) - _QUEUED_MAX} more wait until Airflow begins them"


def _waits(watched: Watched) -> Iterator[str]:
    for one in watched.seen.syncs:
        yield from _cuts(one)
        yield from _undecided(one)
        yield from _signatures(one)
        yield from (f"{one.name}: {note.text}" for note in one.notes if note.word is Headline.NOT_RUN)
    more = "at least " if len(watched.breaks) >= WAITING_MAX else ""
    owners = Counter((each.sync, each.work.owner) for each in watched.breaks)
    for (sync, owner), count in sorted(owners.items()):
        yield f"{sync}: {more}{count} open {'break waits' if count == 1 else 'breaks wait'} for {owner or 'an owner'}"


def _cuts(one: SyncSeen) -> Iterator[str]:
    for cut in one.cuts:
        about = f"{one.name} {cut.business_date} → {cut.destination}"
        if cut.is_waiting and cut.decision is not None:
            yield f"{about}: {cut.decision.in_words(one.zone)}"
        elif cut.is_running and cut.input is not None:
            since = f" since {moment_in_words(cut.input.since, one.zone)}" if cut.input.since else ""
            yield f"{about}: waits for {cut.input.for_what}{since}"


def _undecided(one: SyncSeen) -> Iterator[str]:
    for date in one.missing:
        if date.word == Headline.INCONCLUSIVE:
            yield f"{one.name} {date.business_date} → {date.destination}: {date.word}, {date.why}; {date.next_step}"


def _signatures(one: SyncSeen) -> Iterator[str]:
    days = [sign.business_date for sign in one.sign_offs if sign.waits]
    if days:
        cuts = "1 published cut waits" if len(days) == 1 else f"{len(days):,} published cuts wait"
        yield f"{one.name}: {cuts} for a signature, since business date {min(days)}"


def clipped(line: str, columns: int) -> str:
    """As much of it as a terminal of so many columns shows on one line; a wide sign takes two."""
    wide, shown = 0, ""
    for sign in line:
        wide += 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        if wide > columns:
            return shown
        shown += sign
    return shown
