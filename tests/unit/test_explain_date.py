"""`./seamline explain <sync> --date`: the bounds of a business date, in the sync's zone and in UTC."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from seamline.domain.business_dates import BusinessDates, Calendar
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.day_closed import ClosedBy, DayClosed
from seamline.domain.errors import Refused
from seamline.domain.made_from import MadeFrom
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.explain_date import explain_date
from seamline.plan.model import BusinessDate, DestinationPlan, NightlyPlan, SourcePlan, SyncPlan, TablePlan
from seamline.plan.night import next_night
from seamline.plan.not_picked import modes_not_picked

BANK = Calendar("de_bank", date(2026, 1, 1), date(2026, 12, 31))
NIGHTLY = NightlyPlan("Europe/Berlin", verdict_by="07:00", dates=BusinessDates((BANK,)))
NOW = datetime(2026, 11, 29, 9, tzinfo=UTC)


def _plan(nightly: NightlyPlan | None) -> SyncPlan:
    return SyncPlan(
        "settlement",
        SourcePlan("bank", "mariadb", "bank", "r", "c", "m", "seamline.bank.log", "seamline-bank"),
        (DestinationPlan("warehouse", "postgres", "warehouse", "settlement"),),
        (TablePlan("account"), TablePlan("entry", BusinessDate("booked_at", "instant"))),
        nightly=nightly,
    )


def test_a_monday_covers_its_weekend_and_the_night_in_which_the_clock_was_moved() -> None:
    text = explain_date(_plan(NIGHTLY), date(2026, 10, 26), now=NOW)
    words = " ".join(text.split())
    assert "business date yes: Monday by calendar de_bank" in words
    assert "before, after 2026-10-23, 2026-10-27" in words
    assert "from 2026-10-24 00:00:00 +02:00 up to, and not with, 2026-10-27 00:00:00 +01:00: 73 h" in words
    assert "in UTC from 2026-10-23 22:00:00 up to 2026-10-26 23:00:00" in words
    assert "night begins 2026-10-27 00:30:00 +01:00, in UTC 2026-10-26 23:30:00" in words
    assert "verdict due 2026-10-27 07:00:00 +01:00, in UTC 2026-10-27 06:00:00" in words
    assert "entry: the rows with booked_at from 2026-10-23 22:00:00 up to 2026-10-26 23:00:00" in words
    assert "its month ends on 2026-10-30" in words
    assert "next night 2026-12-01 00:30:00 +01:00, in UTC 2026-11-30 23:30:00, for 2026-11-30" in words


def test_a_day_that_is_none_says_which_date_it_belongs_to() -> None:
    words = " ".join(explain_date(_plan(NIGHTLY), date(2026, 11, 28), now=NOW).split())
    assert "business date no: Saturday by calendar de_bank" in words
    assert "belongs to 2026-11-30" in words
    assert "covers" not in words


def test_what_a_night_waits_for_is_said() -> None:
    closed = DayClosed(ClosedBy.SYSTEM_DATE, "system_date", "business_date")
    nightly = NightlyPlan("UTC", closed_when=(closed,))
    words = " ".join(explain_date(_plan(nightly), date(2026, 11, 25), now=NOW).split())
    assert "waits for a later date in system_date.business_date" in words
    assert "or of when the source has closed it" in words


def test_a_sync_without_nights_has_no_bounds() -> None:
    with pytest.raises(Refused, match="makes no cuts"):
        explain_date(_plan(None), date(2026, 11, 25), now=NOW)


def test_there_is_no_next_night_behind_the_end_of_a_calendar() -> None:
    assert next_night(NIGHTLY, datetime(2027, 1, 1, tzinfo=UTC)) is None
    before = next_night(NIGHTLY, datetime(2025, 12, 1, tzinfo=UTC))
    assert before is not None
    assert before.business_date == date(2026, 1, 1)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (MadeFrom.READ, "mode read: one snapshot of the source"),
        (MadeFrom.LOG, "mode log: the newest cut before it, and the log up to the last transaction before the cut-off"),
        (MadeFrom.AUTO, "Where that cannot be, the verdict says why, and it is read: one snapshot"),
    ],
)
def test_the_way_of_a_night_is_the_declared_one(way: MadeFrom, said: str) -> None:
    text = explain_date(_plan(replace(NIGHTLY, made_from=way)), date(2026, 10, 26), now=NOW)
    assert said in " ".join(text.split())


def test_a_date_that_is_replaced_says_its_bounds_as_they_are_stored_and_that_other_dates_stay() -> None:
    nightly = NightlyPlan("Asia/Shanghai", made_from=MadeFrom.DAY_SLICE)
    plan = replace(_plan(nightly), tables=(TablePlan("entry", BusinessDate("biz_date", "digits")),))
    words = " ".join(explain_date(plan, date(2026, 11, 25), now=NOW).split())
    assert "of the rows of this date alone" in words
    assert "other dates stay as they are" in words
    assert "entry: the rows with biz_date from 20261125 up to 20261126" in words


def test_auto_says_of_each_table_why_it_takes_neither_of_the_ways_that_a_person_chooses() -> None:
    plan = _plan(replace(NIGHTLY, made_from=MadeFrom.AUTO))
    dated = replace(plan, tables=plan.tables[1:])
    number, text = Column("id", Kind.INTEGER, "int"), Column("id", Kind.STRING, "text")
    by_text = replace(plan, tables=(TablePlan("account", table=Table("account", (text,), ("id",))),))
    by_number = replace(plan, tables=(TablePlan("account", table=Table("account", (number,), ("id",))),))
    for made, said in (
        (plan, "not day_slice: the table has no `business_date`; not incremental: a person chooses it, for whether"),
        (plan, "not day_slice: all tables of a sync need a `business_date` for it, and account has none; not"),
        (
            dated,
            "not day_slice: a person chooses it, for it says what a date holds when it is read, and not at its end",
        ),
        (dated, "not incremental: the table is read by its date"),
        (by_text, "not incremental: a person chooses it by a `cursor`, for its key begins with no whole number"),
        (by_number, "not incremental: a person chooses it, for whether rows are mostly added is in no catalogue"),
    ):
        assert said in " ".join(explain_date(made, date(2026, 11, 25), now=NOW).split())
        assert said in " ".join(explain(made).split())
    assert "not day_slice" not in explain(_plan(NIGHTLY)) + explain_date(_plan(NIGHTLY), date(2026, 11, 25), now=NOW)


def test_auto_that_the_log_cannot_serve_says_why_in_explain_and_in_the_log_of_a_run() -> None:
    """It was compiled to a read, and nothing said that it was not what had been asked for."""
    why = "the source says by `ready_when` that its day is closed, and the log does not show that"
    plan = _plan(replace(NIGHTLY, made_from=MadeFrom.READ, not_by_log=(why,)))
    assert plan_from_json(plan_to_json(plan)).nightly == plan.nightly
    for text in (explain(plan), explain_date(plan, date(2026, 11, 25), now=NOW)):
        assert f"not log: {why}" in " ".join(text.split())
        assert "not day_slice: the table has no" in " ".join(text.split())
    said = list(modes_not_picked(plan))
    assert said[0] == f"not log: {why}" and [one.split(":")[0] for one in said] == [
        "not log", "not day_slice", "not incremental",
    ]  # fmt: skip
    assert "the table has no `business_date` (account)" in said[1]
    assert [one.split(":")[0] for one in modes_not_picked(_plan(replace(NIGHTLY, made_from=MadeFrom.AUTO)))] == [
        "not day_slice", "not incremental",
    ]  # fmt: skip
    assert list(modes_not_picked(_plan(NIGHTLY))) == [], "a person has chosen it"
    many = replace(plan, tables=tuple(TablePlan(f"t{number}") for number in range(9)))
    assert "(t0, t1, t2, t3, t4 and 4 more)" in list(modes_not_picked(many))[1]


def test_a_cut_from_the_log_says_how_far_it_looks_on_behind_its_end() -> None:
    for made_from, is_said in ((MadeFrom.LOG, True), (MadeFrom.AUTO, True), (MadeFrom.READ, False)):
        plan = _plan(replace(NIGHTLY, made_from=made_from))
        for text in (explain(plan), explain_date(plan, date(2026, 11, 25), now=NOW)):
            words = " ".join(text.split())
            assert ("up to 60 min of heartbeats without one or 1,000,000 changes" in words) is is_said
