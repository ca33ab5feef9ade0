"""Which kept cuts of a sync have served their time. Pure: whoever is not sure that a cut may go keeps it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from seamline.domain.business_dates import EVERY_DAY, BusinessDates


@dataclass(frozen=True, slots=True)
class CutKeep:
    """`days`: so many business dates, counted back from the newest that has a cut. `month_ends`: beyond them the last
    date of so many months. `versions_days`: how long a version stays that is not the current one of its date. `dates`:
    the business dates, which say when a month ends."""

    days: int
    month_ends: int
    versions_days: int
    dates: BusinessDates = EVERY_DAY

    @property
    def at_most(self) -> timedelta:
        """No cut of a sync that is cut once a week at least stays for longer, but for the newest proven one."""
        return timedelta(days=max(7 * self.days, 31 * (self.month_ends + 1)) + self.versions_days)


@dataclass(frozen=True, slots=True)
class KeptCut:
    """One table of one version of one date. `published_at`: None where its publish stopped half-way.

    `attached_at`: when its rows came into place, the publish being under way.
    """

    table: str
    business_date: date
    version: int
    attached_at: datetime
    published_at: datetime | None
    is_current: bool
    is_proven: bool


def expired(cuts: Sequence[KeptCut], keep: CutKeep, *, now: datetime) -> list[KeptCut]:
    """Those that may go; `now` by the clock of the destination, which has written the times.

    Of each kept date stay the current version and the newest proven one of each table. A date that was cut again, or
    only now, stays for `days` from that publish, however old it is. The newest proven cut of a table never goes.
    """
    kept = _kept_dates(cuts, keep, now)
    old = now - timedelta(days=keep.versions_days)
    versions: dict[tuple[str, date], list[KeptCut]] = {}
    newest_proven: dict[str, KeptCut] = {}
    for cut in sorted(cuts, key=lambda one: (one.business_date, one.version, one.table)):
        versions.setdefault((cut.table, cut.business_date), []).append(cut)
        if cut.is_proven:
            newest_proven[cut.table] = cut
    gone = [
        cut
        for (_, day), of_date in versions.items()
        for cut in (*_half_done(of_date, old), *_published(of_date, old, is_kept=day in kept))
    ]
    return [cut for cut in gone if cut != newest_proven.get(cut.table)]


def _half_done(versions: Sequence[KeptCut], old: datetime) -> Iterator[KeptCut]:
    return (cut for cut in versions if cut.published_at is None and cut.attached_at < old)


def _published(versions: Sequence[KeptCut], old: datetime, *, is_kept: bool) -> Iterator[KeptCut]:
    """Of one table and date, the oldest version first."""
    published = [(cut, cut.published_at) for cut in versions if cut.published_at is not None]
    newest_proven = max((cut.version for cut, _ in published if cut.is_proven), default=0)
    for place, (cut, _) in enumerate(published):
        followed = next((at for _, at in published[place + 1 :]), None)
        is_needed = cut.is_current or cut.version == newest_proven
        if not is_kept or (not is_needed and followed is not None and followed < old):
            yield cut


def _kept_dates(cuts: Sequence[KeptCut], keep: CutKeep, now: datetime) -> set[date]:
    dates = sorted({cut.business_date for cut in cuts if cut.is_current}, reverse=True)
    kept = set(dates[: keep.days])
    kept.update([day for day in _month_ends(dates, keep.dates) if day not in kept][: keep.month_ends])
    since = now - timedelta(days=keep.days)
    return kept | {cut.business_date for cut in cuts if cut.published_at and cut.published_at >= since}


def _month_ends(dates: Sequence[date], calendar: BusinessDates) -> Iterator[date]:
    """Of each month that has a date its last business date, or where that one has no cut the last date that has, the
    newest month first; `dates` are in that order."""
    months: dict[date | tuple[int, int], list[date]] = {}
    for day in dates:
        months.setdefault(calendar.month_end(day) or (day.year, day.month), []).append(day)
    for end, mine in months.items():
        yield end if end in mine else mine[0]  # type: ignore[misc]
