"""Who hears of a verdict that is still not there, and after how long. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from seamline.domain.calendar import moment_in_words
from seamline.domain.phrase import joined, phrase


@dataclass(frozen=True, slots=True)
class Step:
    """From `after` the due hour on the date is the matter of `to` too. `to`: addresses and channels, as declared."""

    after: timedelta
    to: tuple[str, ...]

    def begins_at(self, due: datetime) -> datetime:
        # Through UTC: a clock that is moved in between makes no step longer or shorter.
        return (due.astimezone(UTC) + self.after).astimezone(due.tzinfo)

    def is_reached(self, due: datetime, now: datetime) -> bool:
        return self.begins_at(due).astimezone(UTC) <= now.astimezone(UTC)

    @property
    def minutes(self) -> int:
        return int(self.after.total_seconds()) // 60


def reached(steps: Iterable[Step], due: datetime, now: datetime) -> list[Step]:
    """Those whose time has come, in the order in which they are declared."""
    return [one for one in steps if one.is_reached(due, now)]


def owners_in_words(steps: Sequence[Step], due: datetime, now: datetime, zone: tzinfo) -> str:
    """Whose matter it is by now, since when, and whose it will be next; "" before the first step, and without any."""
    mine = reached(steps, due, now)
    if not mine:
        return ""
    said = [
        phrase("with %(who)s since %(at)s", who=", ".join(one.to), at=moment_in_words(one.begins_at(due), zone))
        for one in mine
    ]
    later = [one for one in steps if one not in mine]
    if later:
        at = moment_in_words(later[0].begins_at(due), zone)
        said.append(phrase("with %(who)s from %(at)s", who=", ".join(later[0].to), at=at))
    return joined("; ", said)
