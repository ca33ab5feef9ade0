"""Which kept cuts of a sync have served their time. Pure: whoever is not sure that a cut may go keeps it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from seamline.domain.business_dates import EVERY_DAY, BusinessDates
from seamline.domain.cut_state import Headline
from seamline.domain.runs import Cut
from seamline.domain.verdict import Verdict


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


@dataclass(frozen=True, slots=True)
class PublishedCut:
    """A version of a date in one destination. `mode`: how both sides came to stand at its position; `rows`: of all its
    tables, None where its run does not say. `is_altered`: it is a MATCH, and not stored as it was recorded."""

    cut: Cut
    mode: str
    rows: int | None
    is_altered: bool = False

    @property
    def shown(self) -> Headline:
        return Headline.ALTERED if self.is_altered else Headline(self.cut.verdict.value)


def why_kept(cut: Cut, cuts: Sequence[Cut], keep: CutKeep, *, now: datetime) -> str:
    """Until when a version stays, or why, in words. `cuts`: all of the sync in its destination."""
    newest = max(one.version for one in cuts if one.business_date == cut.business_date)
    proven = [one for one in cuts if one.verdict is Verdict.MATCH]
    if proven and cut == max(proven, key=lambda one: (one.business_date, one.version)):
        return "always: the newest proven one"
    proven_of_date = [one.version for one in proven if one.business_date == cut.business_date]
    if cut.version not in (newest, max(proven_of_date, default=0)):
        followed = min(
            one.saved_at or now for one in cuts if one.business_date == cut.business_date and one.version > cut.version
        )
        return f"until {followed + timedelta(days=keep.versions_days):%Y-%m-%d}: a later version is in force"
    return _why_date_kept(cut.business_date, [_kept_as(one, cuts) for one in cuts], keep, now)


def _why_date_kept(day: date, cuts: Sequence[KeptCut], keep: CutKeep, now: datetime) -> str:
    dates = sorted({cut.business_date for cut in cuts}, reverse=True)
    if (place := dates.index(day)) < keep.days:
        return f"while among the newest {keep.days} dates: for {keep.days - place} more"
    ends = [end for end in _month_ends(dates, keep.dates) if end not in dates[: keep.days]]
    if day in ends[: keep.month_ends]:
        return f"as an end of a month: for {keep.month_ends - ends.index(day)} more of {keep.month_ends}"
    if day in _kept_dates(cuts, keep, now):
        newest = max(cut.published_at or now for cut in cuts if cut.business_date == day)
        return f"until {newest + timedelta(days=keep.days):%Y-%m-%d}: {keep.days} days from when it was published"
    return "until the next maintenance"


def _kept_as(cut: Cut, cuts: Sequence[Cut]) -> KeptCut:
    newest = max(one.version for one in cuts if one.business_date == cut.business_date)
    is_proven = cut.verdict is Verdict.MATCH
    saved_at = cut.saved_at or cut.as_of
    return KeptCut("", cut.business_date, cut.version, saved_at, saved_at, cut.version == newest, is_proven)


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
