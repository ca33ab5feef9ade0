"""The look at the nights: a stage that is late by its hour and a calendar that ends are alarms, which end by it too."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from seamline.domain.business_dates import BusinessDates, Calendar
from seamline.domain.day_closed import CLOSED, ClosedBy, DayClosed
from seamline.domain.runs import PUBLISH, STAGE, RunKind, RunState
from seamline.plan.model import NightlyPlan, Run
from seamline.sync.night_watch import late_onboarding, troubles_of
from seamline_airflow import deadline
from seamline_airflow.operators.nights import NightsCheckOperator
from tests.dags import results
from tests.unit.declared import SYNC, write_declarations

NIGHTLY = NightlyPlan(
    "Asia/Shanghai",
    closed_when=(DayClosed(ClosedBy.FILE, "{date}.ok"),),
    stages_by=(("closed", "01:00"), ("cut", "02:00"), ("publish", "06:00")),
)
# 02:30 in Shanghai on the 20th: of the night of the 19th two hours have passed.
NOW = datetime(2026, 11, 19, 18, 30, tzinfo=UTC)


ONBOARDED = datetime(2026, 11, 19, 4, tzinfo=UTC)


def _said(newest: Run | None, now: datetime = NOW, since: datetime | None = ONBOARDED) -> list[str]:
    found = troubles_of(
        "settlement",
        NIGHTLY,
        lambda day: newest if day == results.DATE else None,
        lambda _: newest is not None,
        now,
        since=since,
    )
    return [one.message for one in found]


def _run(**result: object) -> Run:
    return results.run(plan=results.plan(nightly=NIGHTLY), result=result)


def test_the_first_stage_whose_hour_has_passed_is_late_and_says_why() -> None:
    (late,) = _said(None)
    assert late == (
        "2026-11-19: the source has not closed its day, which was due at 2026-11-20 01:00:00 +08:00;"
        " no run of this date has begun"
    )
    (late,) = _said(_run(**{CLOSED: {"waits_for": "the file ok"}}))
    assert late.endswith("it waits for the file ok")
    (late,) = _said(_run(**{CLOSED: {"waits_for": ""}}))
    assert "it is not staged, which was due at 2026-11-20 02:00:00 +08:00; its run is running" in late


def test_what_comes_behind_a_stage_says_that_it_is_through() -> None:
    assert _said(_run(cut={"warehouse": {}})) == []
    later = datetime(2026, 11, 19, 22, 30, tzinfo=UTC)
    (late,) = _said(_run(cut={"warehouse": {}}, expectations={"warehouse": {}}), later)
    assert "it is not published" in late
    assert _said(_run(**{PUBLISH: {"warehouse": 1}}), later) == []


def test_a_stage_without_a_declared_hour_has_a_default_that_holds_once_its_run_has_begun() -> None:
    """Of the time from 00:30 to 06:30 three quarters are over at 05:00, between both declared hours."""
    at_five = datetime(2026, 11, 19, 21, tzinfo=UTC)
    begun = _run(cut={"warehouse": {}}, stage={"task": "checks", "since": "2026-11-19T20:10:00+00:00"})
    (late,) = _said(begun, at_five)
    assert late == (
        "2026-11-19: it is not checked, which was due at 2026-11-20 05:00:00 +08:00 by default;"
        " its run is running, task checks since 2026-11-20 04:10:00 +08:00"
    )
    assert _said(begun, at_five - timedelta(seconds=1)) == []
    assert _said(replace(begun, state=RunState.SUCCEEDED), at_five) == []


def test_a_stage_of_an_onboarding_that_takes_longer_than_it_may_is_named_with_its_begin() -> None:
    since = datetime(2026, 11, 19, 4, tzinfo=UTC)
    stage = {"task": "snapshot", "since": since.isoformat()}
    onboarding = results.run(kind=RunKind.ONBOARD, business_date=None, result={STAGE: stage})

    def late(after: timedelta, run: Run | None = onboarding, **declared: timedelta) -> list[str]:
        return [one.message for one in late_onboarding("settlement", run, declared, since + after, UTC)]

    assert late(timedelta(hours=12)) == []
    (message,) = late(timedelta(hours=12, seconds=1))
    assert message == ("onboard: stage snapshot since 2026-11-19 04:00:00 +00:00, which may take 12 h 0 min by default")
    (message,) = late(timedelta(minutes=31), snapshot=timedelta(minutes=30))
    assert message.endswith("which may take 30 min")
    for other in (None, replace(onboarding, state=RunState.FAILED), replace(onboarding, result={})):
        assert late(timedelta(days=1), other) == []


def test_before_its_hour_no_stage_is_late() -> None:
    assert _said(None, datetime(2026, 11, 19, 16, 59, tzinfo=UTC)) == []


@pytest.mark.parametrize("since", [None, datetime(2026, 11, 19, 16, tzinfo=UTC)])
def test_nobody_expects_a_night_of_a_date_that_had_ended_before_the_onboarding(since: datetime | None) -> None:
    assert _said(None, since=since) == []


CALENDAR = """\
calendar: bank
from: 2026-01-01
until: {until}
"""


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))

    def write(until: str, sync: str = "") -> None:
        with_one = SYNC.replace("nightly:\n", "nightly:\n  calendars: [bank]\n")
        files = {"calendars/bank.yaml": CALENDAR.format(until=until), "syncs/settlement.yaml": sync or with_one}
        write_declarations(tmp_path, files)

    return write


def test_a_calendar_that_has_ended_is_an_alarm_until_it_goes_on(
    declared: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = results.use(monkeypatch, results.Platform())
    look = NightsCheckOperator(task_id="nights")
    declared("2026-01-31")
    assert look.execute({}) == ["settlement bank"]
    assert platform.alarms == {
        ("calendar_ends", "settlement bank"): "calendar bank has ended on 2026-01-31: continue"
        " include/calendars/bank.yaml"
    }
    # What is declared wrongly says nothing about it.
    declared("2099-12-31", sync="sync: settlement\n")
    assert look.execute({}) == []
    assert list(platform.alarms) == [("calendar_ends", "settlement bank")]
    declared("2099-12-31")
    assert look.execute({}) == []
    assert platform.alarms == {}


def test_a_calendar_that_ends_soon_says_in_how_many_days() -> None:
    bank = Calendar("bank", date(2026, 1, 1), date(2026, 12, 9))
    nightly = replace(NIGHTLY, dates=BusinessDates((bank,)), stages_by=())
    (one,) = troubles_of("settlement", nightly, lambda _: None, lambda _: False, NOW, since=None)
    assert one.message.startswith("calendar bank ends on 2026-12-09, in 19 days")


def test_a_verdict_that_is_not_there_by_its_hour_is_an_alarm_also_where_no_run_began() -> None:
    at_seven = datetime(2026, 11, 19, 23, tzinfo=UTC)
    nightly = replace(NIGHTLY, verdict_by="07:00", stages_by=())

    def kinds(now: datetime, *, has_verdict: bool = False) -> list[str]:
        found = troubles_of("settlement", nightly, lambda _: None, lambda _: has_verdict, now, since=ONBOARDED)
        return [f"{one.kind} {one.subject}" for one in found]

    assert "verdict_late settlement 2026-11-19" in kinds(at_seven)
    assert "verdict_late settlement 2026-11-19" not in kinds(at_seven - timedelta(seconds=1))
    assert "verdict_late settlement 2026-11-19" not in kinds(at_seven, has_verdict=True)


def test_a_verdict_whose_hour_lies_behind_the_end_of_the_next_date_is_late_by_it() -> None:
    """Dates end at 15:00, and the verdict is due at 18:00 of the day after: three hours behind the end of the next."""
    nightly = replace(NIGHTLY, cut_off="15:00", verdict_by="18:00", stages_by=())
    due = datetime(2026, 11, 20, 10, tzinfo=UTC)

    def late(now: datetime, since: datetime = ONBOARDED) -> list[str]:
        return [
            one.subject for one in troubles_of("settlement", nightly, lambda _: None, lambda _: False, now, since=since)
        ]

    assert nightly.last_ended(due) == date(2026, 11, 20)
    assert late(due) == ["settlement 2026-11-19"]
    assert late(due - timedelta(seconds=1)) == []
    assert late(due, since=datetime(2026, 11, 19, 8, tzinfo=UTC)) == [], "it had ended before the onboarding"


def test_the_alarm_of_a_late_verdict_ends_where_nobody_expects_one_any_more(
    declared: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = results.use(monkeypatch, results.Platform())
    look, late = NightsCheckOperator(task_id="nights"), ("verdict_late", "settlement 2026-11-19")
    platform.alarms = {late: "late", ("verdict_late", "retired 2026-11-19"): "late"}
    declared("2099-12-31")
    look.execute({})
    assert list(platform.alarms) == [late], "the other sync is not declared any more"
    declared("2099-12-31", sync="sync: settlement\n")
    look.execute({})
    assert list(platform.alarms) == [late], "what is declared wrongly says nothing about it"
    declared("2099-12-31\nholidays: [2026-11-19]")
    look.execute({})
    assert platform.alarms == {}


def test_a_date_that_is_run_again_keeps_the_verdict_that_was_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = results.use(monkeypatch, results.Platform())
    platform.runs[results.RUN] = results.run(state=RunState.FAILED)
    platform.found = [results.clean()]
    again = f"{results.RUN}~2"
    platform.runs[again] = results.run(run_id=again, result={})
    assert [one.run_id for one in deadline.verdict_of(platform, "settlement", results.DATE)] == [results.RUN]
    platform.found = []
    assert deadline.verdict_of(platform, "settlement", results.DATE) == ()


def test_the_alarm_of_a_late_verdict_ends_with_the_verdict_of_its_date(
    declared: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = results.use(monkeypatch, results.Platform())
    declared("2099-12-31", "")
    platform.alarms = {
        ("verdict_late", f"settlement {results.DATE}"): "late",
        ("verdict_late", "settlement manual__1"): "late",
    }
    NightsCheckOperator(task_id="nights").execute({})
    assert len(platform.alarms) == 2, "there is no verdict"
    platform.runs[results.RUN] = results.run()
    platform.found = [results.clean()]
    NightsCheckOperator(task_id="nights").execute({})
    assert list(platform.alarms) == [("verdict_late", "settlement manual__1")]
