"""What a night waits for before it cuts, as of now: the task looks, and the triggerer looks when a task is worth it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from seamline import settings
from seamline.domain.alarms import AlarmKind
from seamline.domain.calendar import moment_in_words, zone
from seamline.domain.day_closed import CLOSED, ClosedBy, DayClosed, Look
from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline.domain.late_input import VERDICT_AFTER
from seamline.plan.model import Run
from seamline.plan.night import night_of
from seamline.sync.day_closed import look as look_at
from seamline_airflow import parts

# Late input: the source has not closed its day by the hour of the verdict.
ALARM = AlarmKind.LATE_INPUT
# Airflow's own bound of the wait, behind the task's: for a triggerer that is not there.
SPARE = timedelta(minutes=15)
SeenAsset = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Waits:
    """`waits_for`: what is not there yet, in words, each with what stands there instead; () of a closed day. `since`:
    when the run began to wait; `until`: when it gives up. `is_open`: that the day was seen open, and not only that the
    source did not answer."""

    waits_for: tuple[str, ...]
    since: datetime
    until: datetime
    is_open: bool = False

    @property
    def in_words(self) -> str:
        return "; ".join(self.waits_for)


def of_run(run: Run, now: datetime, seen_asset: SeenAsset | None) -> Waits:
    """`seen_asset`: whether an asset has an event with this partition; None where nobody can say."""
    assert run.plan.nightly is not None
    assert run.business_date is not None
    known = run.result.get(CLOSED) or {}
    since = datetime.fromisoformat(known["since"]) if known.get("since") else now
    due = night_of(run.plan.nightly, run.business_date).due.astimezone(UTC)
    # One that is begun, or cleared, behind the hour still has its time.
    began = max(since, run.started_at or since)
    until = due if began < due else began + VERDICT_AFTER
    found = [(one, _look(run, one, seen_asset)) for one in run.plan.nightly.closed_when]
    missing = [(one, seen) for one, seen in found if not seen.is_closed]
    is_open = any(seen.is_known for _, seen in missing)
    return Waits(tuple(_in_words(one, seen) for one, seen in missing), since, until, is_open)


class Next(StrEnum):
    """What the triggerer does after a look."""

    LOOK_AGAIN = "look again"
    STILL_OPEN = "still open"  # look again, and the day was open just now
    TASK = "task"  # a task is to look: the day is closed, the wait is over, or only a task can see it


def next_of(run_id: str, now: datetime) -> Next:
    with parts.platform() as store:
        run = store.run(run_id)
    wanted = run.plan.nightly.closed_when if run.plan.nightly else ()
    if any(one.by is ClosedBy.ASSET for one in wanted):
        return Next.TASK
    waits = of_run(run, now, None)
    if not waits.waits_for or now >= waits.until:
        return Next.TASK
    return Next.STILL_OPEN if waits.is_open else Next.LOOK_AGAIN


def kept(run: Run, waits: Waits, *, open_at: str) -> dict[str, str]:
    """As `CLOSED` keeps it. `open_at`: when the day was last seen open, "" where it was not seen so now."""
    before = str((run.result.get(CLOSED) or {}).get("open_at") or "")
    return {
        "since": waits.since.isoformat(),
        "until": waits.until.isoformat(),
        "waits_for": waits.in_words,
        "open_at": open_at or before,
    }


def late_message(run: Run, waits: Waits) -> str:
    where = zone(run.plan.nightly.timezone if run.plan.nightly else "UTC")
    return (
        f"late input: source {run.plan.source.name} has not closed {run.business_date} by"
        f" {moment_in_words(waits.until, where)}; waited since {moment_in_words(waits.since, where)} for"
        f" {waits.in_words}"
    )


def _look(run: Run, wanted: DayClosed, seen_asset: SeenAsset | None) -> Look:
    day = run.business_date
    assert day is not None
    if wanted.by is ClosedBy.ASSET:
        return Look(seen_asset is not None and seen_asset(wanted.what, day.isoformat()))
    try:
        if wanted.by is ClosedBy.DELIVERY:
            return parts.delivery(run.plan, day)
        return look_at(wanted, day, source=lambda: parts.questions(run.plan), files=settings.load().ready_files)
    except TransientError as exc:
        return Look(is_closed=False, seen=f"the source does not answer: {exc.message}", is_known=False)


def _in_words(wanted: DayClosed, seen: Look) -> str:
    return f"{wanted.in_words}{f' ({seen.seen})' if seen.seen else ''}"


def look_in_triggerer(run_id: str, now: datetime) -> Next:
    """`next_of`, where what cannot be known now is no reason to end the wait."""
    try:
        return next_of(run_id, now)
    except (TransientError, ConfigError):
        # A login that is being rotated is refused for a moment.
        return Next.LOOK_AGAIN
    except SeamlineError:
        # The task's look says what it is.
        return Next.TASK
