"""Which business date is missing and why: one list, with the next step."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from seamline.domain.business_dates import BusinessDates, Calendar
from seamline.domain.cut_state import CutState, has_verdict, state_of_cut
from seamline.domain.day_closed import CLOSED
from seamline.domain.decision import Decision, DecisionState
from seamline.domain.escalation import Step
from seamline.domain.runs import FAILURE, RunKind, RunState, Scope
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import DestinationPlan, NightlyPlan, Run, SourcePlan, SyncPlan
from seamline.platform.store import Alarm
from seamline.sync.missing import missing_dates
from seamline.sync.repetition import NEEDS_A_PERSON
from tests.unit.reported import reconciliation

BANK = Calendar("bank", date(2026, 1, 1), date(2026, 11, 25))
NIGHTLY = NightlyPlan("Asia/Shanghai", verdict_by="07:00", dates=BusinessDates((BANK,)))
PLAN = SyncPlan(
    "settlement",
    SourcePlan("bank", "mariadb", "bank", "r", "c", "m", "seamline.bank.log", "seamline-bank"),
    (DestinationPlan("warehouse", "postgres", "warehouse", "settlement"),),
    (),
    nightly=NIGHTLY,
)
# 10:00 in Shanghai, on a Wednesday.
NOW = datetime(2026, 11, 25, 2, tzinfo=UTC)
TUESDAY = date(2026, 11, 24)


class Records:
    """Published on the 19th, a Thursday."""

    def __init__(self) -> None:
        self.states: list[CutState] = []
        self.newest = Run("r", "settlement", RunKind.NIGHTLY, None, PLAN, RunState.SUCCEEDED, {}, NOW)
        self.published = {"warehouse": frozenset({date(2026, 11, 19)})}

    def latest_run(self, sync: str, *kinds: str, with_result: str = "") -> Run | None:
        return self.newest

    def published_into(self, sync: str) -> dict[str, Run]:
        return {"warehouse": replace(self.newest, started_at=datetime(2026, 11, 23, 1, tzinfo=UTC))}

    def published_dates(self, sync: str) -> dict[str, frozenset[date]]:
        return self.published

    def states_of_dates(self, sync: str, days: Any) -> tuple[CutState, ...]:
        return tuple(one for one in self.states if one.business_date in days)

    def left(self, run_state: RunState = RunState.RUNNING, **result: Any) -> None:
        """What the run of Tuesday has left."""
        self.states = [
            state_of_cut(
                run_id="r1",
                sync="settlement",
                destination="warehouse",
                business_date=TUESDAY,
                run_state=run_state,
                result=result,
                found=None,
                published=None,
                in_force=None,
            )
        ]


def test_every_business_date_since_the_first_cut_that_has_none_is_listed() -> None:
    found = missing_dates(Records(), "settlement", now=NOW)
    assert [one.business_date.day for one in found] == [24, 23, 20]
    (newest, *_) = found
    assert (newest.word, newest.why) == ("NOT_RUN", "no run of this date has begun")
    assert newest.next_step == "run settlement__nightly for it, or backfill it"
    assert newest.lateness(NOW) == "late for 3 h 0 min"


def test_a_destination_without_any_cut_is_missing_them_since_it_was_onboarded() -> None:
    records = Records()
    records.published = {}
    assert [one.business_date.day for one in missing_dates(records, "settlement", now=NOW)] == [24, 23]


def test_a_date_whose_night_has_not_begun_is_expected_and_not_late() -> None:
    midnight = datetime(2026, 11, 24, 16, 5, tzinfo=UTC)
    (newest, *_) = missing_dates(Records(), "settlement", now=midnight)
    assert (newest.word, newest.why) == ("EXPECTED", "its night begins at 2026-11-25 00:30:00 +08:00")
    assert not newest.is_late(midnight)


def test_a_day_that_no_calendar_knows_is_listed_as_unknown() -> None:
    later = datetime(2026, 11, 27, 2, tzinfo=UTC)
    (newest, *_) = missing_dates(Records(), "settlement", now=later)
    assert (newest.business_date.day, newest.word) == (26, "UNKNOWN")
    assert "knows the days from 2026-01-01 to 2026-11-25 only" in newest.why
    assert newest.is_late(later)


WAITS = {"waits_for": "the file ok", "since": "2026-11-24T16:31:00+00:00", "until": "2026-11-24T23:00:00+00:00"}
QUESTION = Decision(DecisionState.WAITING, "2026-11-24T17:00:00+00:00", ("ada",)).to_json()


@pytest.mark.parametrize(
    ("state", "result", "word", "why", "step"),
    [
        (RunState.RUNNING, {}, "RUNNING", "its run is under way", "wait"),
        (RunState.RUNNING, {CLOSED: WAITS}, "WAITS FOR INPUT", "waits for the file ok, until 2026-11-25 07:00", "ask"),
        (
            RunState.FAILED,
            {CLOSED: WAITS, FAILURE: {"task": "ready", "error": "late input: not closed"}},
            "LATE INPUT",
            "late input: not closed",
            "clear the task `ready`",
        ),
        (RunState.RUNNING, {"decision": QUESTION}, "WAITING", "waits for ada", "answer the question"),
        (
            RunState.FAILED,
            {FAILURE: {"task": "cut", "error": "the source is away", "cure": "start it"}},
            "FAILED",
            "task cut failed: the source is away",
            "start it",
        ),
        (RunState.SUCCEEDED, {"mode": "compare only"}, "NOT_RUN", "to be compared only", "mode `publish`"),
    ],
)
def test_each_reason_has_its_word_and_its_next_step(
    state: RunState, result: dict[str, Any], word: str, why: str, step: str
) -> None:
    records = Records()
    records.left(state, **result)
    (one, *_) = missing_dates(records, "settlement", now=NOW)
    assert one.business_date == TUESDAY
    assert one.word == word
    assert why in one.why
    assert step in one.next_step


@pytest.mark.parametrize(
    ("task", "evidence", "step"),
    [
        ("complete", {NEEDS_A_PERSON: "restart the stream"}, "restart the stream; then run the date again"),
        ("cut", {}, "run the date again: INCONCLUSIVE may be tried again"),
    ],
)
def test_a_date_that_is_inconclusive_says_why_once_with_its_tables_and_what_to_do_first(
    task: str, evidence: dict[str, str], step: str
) -> None:
    records, why = Records(), "the stream into warehouse has ended: rows are gone"
    records.left(RunState.FAILED, **{FAILURE: {"task": task, "error": "no cut", "cure": "clear it"}})
    tables = [TableVerdict(name, Verdict.INCONCLUSIVE, why) for name in ("account", "entry")]
    (state,) = records.states
    found = replace(reconciliation(*tables, scope=Scope.CUT, day=TUESDAY), evidence=evidence)
    records.states = [replace(state, compared=Verdict.INCONCLUSIVE, found=found)]
    (one, *_) = missing_dates(records, "settlement", now=NOW)
    assert (one.word, one.next_step) == ("INCONCLUSIVE", step)
    assert one.why.startswith(f"{why} (tables: account, entry); not published")
    assert one.is_late(NOW) and not has_verdict(records.states)


def test_since_when_somebody_is_waited_for_is_said() -> None:
    records = Records()
    records.left(**{CLOSED: WAITS})
    (one, *_) = missing_dates(records, "settlement", now=NOW)
    assert one.since == datetime(2026, 11, 24, 16, 31, tzinfo=UTC)


def test_a_date_whose_verdict_is_late_says_with_whom_it_is_and_names_its_own_alarms_alone() -> None:
    records = Records()
    records.left(cut={"warehouse": {}})
    steps = [Step(timedelta(0), ("ops@bank.example",)), Step(timedelta(hours=4), ("head@bank.example",))]
    at = datetime(2026, 11, 25, 1, tzinfo=UTC)
    alarms = [
        Alarm("stage_late", f"settlement {TUESDAY}", "it is not checked", at),
        Alarm("stage_late", "settlement 2026-11-20", "of another date", at),
        Alarm("source_unreachable", "bank", "it is away", at),
    ]
    newest, older, *_ = missing_dates(records, "settlement", now=NOW, steps=steps, alarms=alarms)
    assert newest.owners == (
        "with ops@bank.example since 2026-11-25 07:00:00 +08:00; with head@bank.example from 2026-11-25 11:00:00 +08:00"
    )
    assert newest.why == "its run is under way; stage_late: it is not checked"
    assert "it is away" in older.why and "of another date" not in older.why and "not checked" not in older.why
