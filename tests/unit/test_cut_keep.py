"""Which cuts may go: what `nightly.keep` keeps stays, what is newest and proven stays, the rest ends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from seamline.domain.business_dates import BusinessDates, Calendar
from seamline.domain.cut_keep import CutKeep, KeptCut, expired, why_kept
from seamline.domain.errors import Refused, TransientError
from seamline.domain.runs import Cut
from seamline.domain.verdict import Verdict
from seamline.plan.model import NightlyPlan
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sync.cut_expiry import expire_cuts

NOW = datetime(2026, 11, 27, 1, tzinfo=UTC)
KEEP = CutKeep(days=5, month_ends=2, versions_days=3)


def cut(day: date, version: int = 1, *, age_days: float | None = None, **fields: object) -> KeptCut:
    """As a nightly of the next morning publishes it, unless said otherwise."""
    made = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1, hours=0.5)
    if age_days is not None:
        made = NOW - timedelta(days=age_days)
    known = {"table": "entry", "is_current": True, "is_proven": True, "attached_at": made, "published_at": made}
    return KeptCut(business_date=day, version=version, **{**known, **fields})  # type: ignore[arg-type]


def days_before(count: int, *, since: int = 1) -> list[date]:
    return [(NOW - timedelta(days=n)).date() for n in range(since, since + count)]


def gone_dates(cuts: Sequence[KeptCut], keep: CutKeep = KEEP) -> list[date]:
    return sorted({one.business_date for one in expired(cuts, keep, now=NOW)})


def test_the_newest_dates_and_the_last_ones_of_months_stay() -> None:
    cuts = [cut(day) for day in days_before(120)]
    stay = {one.business_date for one in cuts} - set(gone_dates(cuts))
    assert stay == {*days_before(5), date(2026, 10, 31), date(2026, 9, 30)}


def test_days_without_a_cut_are_not_counted_and_a_month_ends_with_its_last_cut() -> None:
    cuts = [cut(day) for day in days_before(120) if day.weekday() < 5]
    stay = {one.business_date for one in cuts} - set(gone_dates(cuts))
    assert stay == {*(day for day in days_before(7) if day.weekday() < 5), date(2026, 10, 30), date(2026, 9, 30)}


def test_a_sync_that_has_stopped_keeps_its_newest_dates_for_ever() -> None:
    cuts = [cut(day) for day in days_before(5, since=2000)]
    assert gone_dates(cuts) == []


def test_an_old_date_that_was_cut_only_now_stays_as_long_as_a_new_one() -> None:
    """A backfill for an auditor must not be gone an hour later."""
    nights = [cut(day) for day in days_before(80)]
    backfilled = cut(date(2025, 3, 5), age_days=1)
    assert backfilled.business_date not in gone_dates([*nights, backfilled])
    old = replace(backfilled, published_at=NOW - timedelta(days=6), is_proven=False)
    assert old.business_date in gone_dates([*nights, old])


def test_of_a_kept_date_an_old_version_goes_once_its_follower_is_old() -> None:
    day = days_before(1)[0]
    first = cut(day, 1, age_days=9, is_current=False)
    second = cut(day, 2, age_days=4)
    assert expired([first, second], KEEP, now=NOW) == [first]
    young = replace(second, published_at=NOW - timedelta(days=2))
    assert expired([first, young], KEEP, now=NOW) == []


def test_the_newest_proven_version_of_a_kept_date_stays_behind_one_that_is_not() -> None:
    today, day = days_before(2)
    first = cut(day, 1, age_days=30, is_current=False, is_proven=True)
    second = cut(day, 2, age_days=20, is_current=False, is_proven=False)
    third = cut(day, 3, age_days=10, is_proven=False)
    assert expired([cut(today), first, second, third], KEEP, now=NOW) == [second]


def test_the_newest_proven_cut_of_a_table_never_goes() -> None:
    removed = cut(date(2025, 1, 7), table="account")
    older = cut(date(2025, 1, 6), table="account")
    cuts = [*(cut(day) for day in days_before(20)), removed, older]
    assert older in expired(cuts, KEEP, now=NOW)
    assert removed not in expired(cuts, KEEP, now=NOW)
    unproven = [replace(one, is_proven=False) for one in cuts if one.table == "entry"]
    proven = cut(date(2025, 2, 7))
    assert proven not in expired([*unproven, proven], KEEP, now=NOW)


def test_a_version_whose_publish_stopped_half_way_goes_after_the_same_time() -> None:
    stuck = cut(days_before(1)[0], 2, age_days=4, published_at=None, is_current=False, is_proven=False)
    current = cut(days_before(1)[0])
    assert expired([current, stuck], KEEP, now=NOW) == [stuck]
    assert expired([current, replace(stuck, attached_at=NOW)], KEEP, now=NOW) == []


# ---- any history -------------------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[KeptCut]:
    found = []
    for number in draw(st.sets(st.integers(1, 100), min_size=1, max_size=25)):
        day = (NOW - timedelta(days=number)).date()
        for table in draw(st.sampled_from([["entry"], ["account"], ["account", "entry"]])):
            versions = draw(st.integers(1, 3))
            for version in range(1, versions + 1):
                age = number / version
                proven = draw(st.booleans())
                found.append(
                    cut(day, version, age_days=age, table=table, is_current=version == versions, is_proven=proven)
                )
    return found


def check(cuts: list[KeptCut], rule: Callable[..., list[KeptCut]]) -> None:
    gone = rule(cuts, KEEP, now=NOW)
    stay = [one for one in cuts if one not in gone]
    for table in {one.table for one in cuts}:
        proven = [one for one in cuts if one.table == table and one.is_proven]
        if proven:
            assert max(proven, key=lambda one: (one.business_date, one.version)) in stay, "the newest proven went"
    dates = sorted({one.business_date for one in cuts}, reverse=True)
    for one in cuts:
        if one.is_current and one.business_date in dates[: KEEP.days]:
            assert one in stay, "a kept date lost what counts"
        is_young = one.published_at is not None and one.published_at > NOW - timedelta(days=KEEP.versions_days)
        assert not (is_young and one in gone), "what was published just now went"
    ends = {max(day for day in dates if (day.year, day.month) == month) for month in {(d.year, d.month) for d in dates}}
    allowed = {*dates[: KEEP.days], *sorted(ends - set(dates[: KEEP.days]), reverse=True)[: KEEP.month_ends]}
    old = NOW - timedelta(days=KEEP.days)
    for one in gone:
        assert one.business_date not in allowed or not one.is_current
    for day in set(dates) - allowed:
        of_date = [one for one in cuts if one.business_date == day]
        if all(one.published_at and one.published_at < old for one in of_date):
            assert all(one in gone or one.is_proven for one in of_date), "a date stays that nothing keeps"


@settings(max_examples=150)
@given(histories())
def test_of_any_history_what_counts_stays_and_the_rest_goes(cuts: list[KeptCut]) -> None:
    check(cuts, expired)


def _forgets_what_is_proven(cuts: list[KeptCut], keep: CutKeep, *, now: datetime) -> list[KeptCut]:
    bare = [replace(one, is_proven=False) for one in cuts]
    gone = expired(bare, keep, now=now)
    return [one for one, as_seen in zip(cuts, bare, strict=True) if as_seen in gone]


PLANTED: dict[str, Callable[..., list[KeptCut]]] = {
    "keeps a day too few": lambda cuts, keep, now: expired(cuts, replace(keep, days=keep.days - 1), now=now),
    "keeps a month too many": lambda cuts, keep, now: expired(
        cuts, replace(keep, month_ends=keep.month_ends + 1), now=now
    ),
    "forgets what is proven": _forgets_what_is_proven,
    "drops old versions at once": lambda cuts, keep, now: expired(cuts, replace(keep, versions_days=0), now=now),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str) -> None:
    @settings(max_examples=1_000, database=None, derandomize=True, phases=[Phase.generate], report_multiple_bugs=False)
    @given(histories())
    def hunt(cuts: list[KeptCut]) -> None:
        check(cuts, PLANTED[bug])

    with pytest.raises(AssertionError):
        hunt()


# ---- a date at a time --------------------------------------------------------------------------------------------


@dataclass
class Store:
    cuts: list[KeptCut]
    builds_on: set[date] = field(default_factory=set)
    is_read: bool = False
    gone: list[tuple[date, int]] = field(default_factory=list)
    listed: set[tuple[date, int]] = field(default_factory=set)
    partitions: int = 0
    size_bytes: int = 0

    def kept_cuts(self, sync: str) -> tuple[Sequence[KeptCut], datetime]:
        return tuple(self.cuts), NOW

    def expire(self, sync: str, business_date: date, cuts: Sequence[KeptCut]) -> "Store":
        if business_date in self.builds_on:
            raise Refused(f"the cut of {business_date} stays: view mine depends on it")
        if self.is_read:
            raise TransientError(f"the cuts of {business_date} are being read")
        self.cuts = [one for one in self.cuts if one not in cuts]
        self.gone += [(one.business_date, one.version) for one in cuts]
        return replace(self, partitions=len(cuts), size_bytes=100 * len(cuts))

    def expired(self, sync: str) -> Sequence[tuple[date, int]]:
        return self.gone

    def drop_cuts(self, sync: str, destination: str, gone: Sequence[tuple[date, int]]) -> int:
        before = len(self.listed)
        self.listed -= set(gone)
        return before - len(self.listed)


NIGHTLY = NightlyPlan(keep_days=5, keep_month_ends=0, keep_versions_days=3)


def stored(count: int = 8, **fields: object) -> Store:
    cuts = [cut(day) for day in days_before(count)]
    return Store(cuts, listed={(one.business_date, 1) for one in cuts}, **fields)  # type: ignore[arg-type]


def test_each_date_goes_by_itself_and_the_list_follows() -> None:
    store = stored()
    found = expire_cuts("settlement", "warehouse", NIGHTLY, store=store, records=store)
    assert found.dates == sorted(days_before(3, since=6))
    assert (found.partitions, found.size_bytes, found.rows, found.kept) == (3, 300, 3, 8)
    again = expire_cuts("settlement", "warehouse", NIGHTLY, store=store, records=store)
    assert (again.dates, again.rows, again.left) == ([], 0, [])


def test_a_date_that_somebody_builds_on_is_named_and_the_others_go() -> None:
    stays = days_before(1, since=7)[0]
    found = expire_cuts("settlement", "warehouse", NIGHTLY, store=(store := stored(builds_on={stays})), records=store)
    assert stays not in found.dates
    assert len(found.dates) == 2
    assert "view mine depends on it" in found.left[0]


def test_while_readers_hold_the_cuts_no_further_date_makes_them_wait() -> None:
    found = expire_cuts("settlement", "warehouse", NIGHTLY, store=(store := stored(is_read=True)), records=store)
    assert (found.dates, len(found.left)) == ([], 1)


def test_what_an_attempt_dropped_before_it_died_leaves_the_list_later() -> None:
    store = stored()
    store.gone = [(days_before(1, since=8)[0], 1)]
    store.cuts = [one for one in store.cuts if one.business_date != store.gone[0][0]]
    found = expire_cuts("settlement", "warehouse", NIGHTLY, store=store, records=store)
    assert found.rows == 3


CALENDAR = Calendar("bank", date(2026, 1, 1), date(2026, 12, 31))


def _at(day: date) -> KeptCut:
    at = datetime(day.year, day.month, day.day, 20, tzinfo=UTC)
    return KeptCut("entry", day, 1, at, at, is_current=True, is_proven=True)


def test_the_end_of_a_month_is_its_last_business_date_also_where_a_later_day_was_cut() -> None:
    # Saturday the 31st was cut before the calendar was declared.
    days = [date(2026, 10, 30), date(2026, 10, 31), *(date(2026, 11, number) for number in (2, 3, 4, 5, 6))]
    cuts, now = [_at(day) for day in days], datetime(2026, 11, 20, tzinfo=UTC)
    gone = {cut.business_date for cut in expired(cuts, CutKeep(5, 1, 3, BusinessDates((CALENDAR,))), now=now)}
    assert gone == {date(2026, 10, 31)}
    assert {cut.business_date for cut in expired(cuts, CutKeep(5, 1, 3), now=now)} == {date(2026, 10, 30)}


def test_a_month_whose_last_business_date_has_no_cut_keeps_the_last_that_has() -> None:
    days = [date(2026, 10, 28), date(2026, 10, 29), *(date(2026, 11, number) for number in (2, 3, 4, 5, 6))]
    keep, now = CutKeep(5, 1, 3, BusinessDates((CALENDAR,))), datetime(2026, 11, 20, tzinfo=UTC)
    assert {cut.business_date for cut in expired([_at(day) for day in days], keep, now=now)} == {date(2026, 10, 28)}


def _published(day: date, version: int = 1, *, verdict: Verdict = Verdict.MATCH, at: datetime | None = None) -> Cut:
    at = at or datetime(day.year, day.month, day.day, 20, tzinfo=UTC)
    position = BinlogPosition("0-1-7")
    return Cut("s", "w", day, version, f"r{version}", position, at, ("entry",), verdict, saved_at=at)


def test_until_when_a_cut_stays_is_said_as_the_policy_has_it() -> None:
    days = [date(2026, 9, 30), date(2026, 10, 29), date(2026, 10, 30), *(date(2026, 11, n) for n in (2, 3, 4, 5, 6))]
    cuts = [_published(day) for day in days]
    again = _published(date(2026, 11, 4), 2, at=datetime(2026, 11, 7, tzinfo=UTC))
    keep, now = CutKeep(5, 2, 3, BusinessDates((CALENDAR,))), datetime(2026, 11, 20, tzinfo=UTC)
    said = {one.business_date.isoformat(): why_kept(one, [*cuts, again], keep, now=now) for one in cuts}
    assert said == {
        "2026-09-30": "as an end of a month: for 1 more of 2",
        "2026-10-29": "until the next maintenance",
        "2026-10-30": "as an end of a month: for 2 more of 2",
        "2026-11-02": "while among the newest 5 dates: for 1 more",
        "2026-11-03": "while among the newest 5 dates: for 2 more",
        "2026-11-04": "until 2026-11-10: a later version is in force",
        "2026-11-05": "while among the newest 5 dates: for 4 more",
        "2026-11-06": "always: the newest proven one",
    }
