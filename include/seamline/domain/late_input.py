"""What is late before anything is compared: a verdict that is not there by its hour, which a person acknowledges with a
reason, and a source that cannot be read. Each is an exception with a deadline, declared or not."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from seamline.domain.calendar import moment_in_words
from seamline.domain.errors import Refused
from seamline.domain.phrase import phrase

# What the entry of the log of acts says that it is about.
LATE_VERDICT = "late verdict"
SOURCE_AWAY = "source away"
# Where a sync declares no `verdict_by`: so long after its night was to begin.
VERDICT_AFTER = timedelta(hours=6)
# So long a source may be away before that is late.
SOURCE_BACK_AFTER = timedelta(hours=1)
# And so far ahead a person may set the hour by which it is to be back.
SOURCE_BACK_MAX = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """That a person knows of it and has said why. `until`: by when a source is to be back, late from then on; None of a
    verdict, which stays late."""

    who: str
    reason: str
    at: datetime
    until: datetime | None = None

    def in_words(self, zone: tzinfo = UTC) -> str:
        at = moment_in_words(self.at, zone)
        if self.until is not None:
            return phrase(
                "acknowledged by %(who)s at %(at)s, to be back by %(until)s: %(reason)s",
                who=self.who,
                at=at,
                until=moment_in_words(self.until, zone),
                reason=self.reason,
            )
        return phrase("acknowledged by %(who)s at %(at)s: %(reason)s", who=self.who, at=at, reason=self.reason)


def verdict_due(day: date, where: tzinfo, *, run_at_minutes: int, verdict_by: str = "") -> datetime:
    """When the verdict of a business date has to be there, in a zone. `run_at_minutes`: after midnight, when its night
    begins; `verdict_by`: the declared hour of the day after it, "" where none is."""
    after = day + timedelta(days=1)
    if verdict_by:
        return datetime.combine(after, time.fromisoformat(verdict_by), where)
    return datetime.combine(after, time(), where) + timedelta(minutes=run_at_minutes) + VERDICT_AFTER


def checked_until(until: datetime, now: datetime) -> datetime:
    """The new deadline of a source that is away. Refused: it has passed, or is too far ahead."""
    if until <= now:
        raise Refused(f"{until.isoformat()} has passed", hint="name a moment that is still to come")
    if until > now + SOURCE_BACK_MAX:
        raise Refused(
            f"a source is to be back within {SOURCE_BACK_MAX.days} days",
            hint="name an earlier moment, and acknowledge it again then",
        )
    return until


def length_in_words(due: datetime, now: datetime) -> str:
    """How late, or how long it still may take, to the minute. Late from the due moment on."""
    minutes = int(abs((now - due).total_seconds())) // 60
    hours, minutes = divmod(minutes, 60)
    length = (
        phrase("%(hours)s h %(minutes)s min", hours=hours, minutes=minutes)
        if hours
        else phrase("%(minutes)s min", minutes=minutes)
    )
    return phrase("late for %(length)s", length=length) if now >= due else phrase("due in %(length)s", length=length)
