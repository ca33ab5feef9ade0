"""A cut has one state, and its headline is the worst of its four parts."""

from dataclasses import replace
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from seamline.domain.cut_state import CutState, Headline, newest_of_live, state_of_cut
from seamline.domain.decision import Decision, DecisionState
from seamline.domain.runs import Cut, NightlyMode, Reconciliation, RunState, Scope
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.sources.mariadb.position import BinlogPosition
from tests.unit.reported import MATCH, MOMENT, reconciliation

DAY = date(2026, 11, 20)
BREAK = TableVerdict("entry", Verdict.BREAK, reason="1 value")
LEFT_OUT = TableVerdict("account", Verdict.NOT_RUN, reason="no history")
PASSED = {"verdict": "MATCH", "checked": 5, "failed": []}
NEGATIVE = {"on": "payment", "type": "between", "why": "no payment is negative", "detail": "unexpected_count 1",
            "rows": 1, "keys": ['["77"]']}  # fmt: skip
FAILED = {"verdict": "BREAK", "checked": 5, "failed": [NEGATIVE]}
WAITING = Decision(DecisionState.WAITING, "2026-11-21T01:00:00+00:00", ("head of settlement",)).to_json()


def cut(version: int = 1, run_id: str = "r") -> Cut:
    position = BinlogPosition("0-1-7", "bin.000001", 99)
    return Cut("settlement", "warehouse", DAY, version, run_id, position, MOMENT, ("account",), Verdict.MATCH)


BEFORE = cut(run_id="before")


def compared(*tables: TableVerdict) -> Reconciliation:
    return reconciliation(*tables, scope=Scope.CUT, day=DAY)


def state(
    found: Reconciliation | None = None,
    *,
    published: Cut | None = None,
    in_force: Cut | None = None,
    in_force_found: Reconciliation | None = None,
    run_state: RunState = RunState.SUCCEEDED,
    **result: Any,
) -> CutState:
    return state_of_cut(
        run_id="r",
        sync="settlement",
        destination="warehouse",
        business_date=DAY,
        run_state=run_state,
        result=result,
        found=found,
        published=published,
        in_force=published or in_force,
        in_force_found=in_force_found,
    )


def test_match_is_said_only_of_a_cut_that_is_whole_clean_and_published() -> None:
    clean = state(compared(MATCH), published=cut(), expectations=PASSED)
    assert clean.headline is Headline.MATCH
    assert clean.is_green
    for worse in (
        state(compared(MATCH), expectations=PASSED),
        state(compared(MATCH), published=cut(), expectations=FAILED),
        state(compared(MATCH, LEFT_OUT), published=cut(), expectations=PASSED),
        state(compared(BREAK), published=cut(), expectations=PASSED),
        state(compared(MATCH), expectations=PASSED, decision=WAITING),
    ):
        assert worse.headline is not Headline.MATCH


def test_a_cut_that_failed_a_business_rule_says_so_while_it_waits_after_it_was_signed_and_when_its_publish_failed() -> (
    None
):
    waits = state(compared(MATCH), run_state=RunState.RUNNING, expectations=FAILED, decision=WAITING)
    signed = {**WAITING, "state": "approved", "who": "olga", "reason": "known", "at": "2026-11-21T02:00:00+00:00"}
    failed = {"task": "publish", "error": "the disk is full", "cure": "make room", "at": ""}
    for found in (
        waits,
        state(compared(MATCH), published=cut(), expectations=FAILED, decision=signed),
        state(compared(MATCH), run_state=RunState.FAILED, expectations=FAILED, decision=signed, failure=failed),
    ):
        assert found.headline is Headline.CHECKS_FAILED
        assert not found.is_green
        said = "\n".join(found.lines())
        assert 'payment: no payment is negative, 1 row, for example ["77"]' in said
    assert "waits for head of settlement since 2026-11-21 09:00:00 +08:00" in waits.lines(ZoneInfo("Asia/Shanghai"))


def test_the_worst_part_is_the_headline() -> None:
    rejected = {**WAITING, "state": "rejected", "who": "olga", "reason": "wrong file"}
    assert state(compared(BREAK), expectations=FAILED, decision=WAITING).headline is Headline.BREAK
    assert state(compared(MATCH), expectations=PASSED, decision=rejected).headline is Headline.REJECTED
    assert state(compared(MATCH), expectations=PASSED).headline is Headline.NOT_PUBLISHED
    expired = {**WAITING, "state": "expired"}
    assert state(compared(MATCH), expectations=PASSED, decision=expired).headline is Headline.NOT_PUBLISHED
    inconclusive = TableVerdict("entry", Verdict.INCONCLUSIVE, reason="the hold ended")
    assert state(compared(MATCH, inconclusive), published=cut(), expectations=PASSED).headline is Headline.INCONCLUSIVE


def test_a_run_that_failed_before_it_compared_says_why_and_what_to_do() -> None:
    failed = {
        "task": "cut",
        "error": "the source does not answer",
        "cure": "start it",
        "at": "2026-11-21T02:00:00+00:00",
    }
    found = state(run_state=RunState.FAILED, failure=failed)
    assert found.headline is Headline.NOT_RUN
    assert "task cut failed at 2026-11-21 02:00:00 +00:00: the source does not answer" in found.lines()
    assert "to mend it: start it" in found.lines()
    assert "not published: task cut failed" in found.lines()


def test_each_destination_shows_its_own_error_of_the_publication_with_its_own_cure() -> None:
    """A statement for one server must not be shown for another."""
    failed = {"task": "publish", "error": "archive does not fit", "cure": "UPDATE cut_table", "at": ""}
    errors = {"archive": "archive does not fit", "warehouse": "warehouse does not fit"}
    cures = {"archive": "UPDATE cut_table", "warehouse": "ALTER TABLE account"}
    found = state(run_state=RunState.FAILED, failure=failed, not_published=errors, not_published_cures=cures)
    assert "task publish failed: warehouse does not fit" in found.lines()
    assert "to mend it: ALTER TABLE account" in found.lines()
    later = {**failed, "task": "cut", "error": "the source does not answer"}
    again = state(run_state=RunState.FAILED, failure=later, not_published=errors, not_published_cures=cures)
    assert "task cut failed: the source does not answer" in again.lines()


def test_a_run_on_its_way_is_running_and_not_missing() -> None:
    found = state(run_state=RunState.RUNNING)
    assert found.headline is Headline.RUNNING
    assert not found.is_green
    assert state(compared(BREAK), run_state=RunState.RUNNING).headline is Headline.BREAK


def test_a_failed_take_leaves_the_version_before_it_in_force_and_says_so() -> None:
    found = state(compared(MATCH), in_force=BEFORE, expectations=FAILED, decision=WAITING)
    assert found.headline is Headline.CHECKS_FAILED
    assert any(line.endswith("version 1 stays in force") for line in found.lines())


def test_a_run_that_only_compares_is_judged_by_what_it_found_where_a_version_is_in_force() -> None:
    assert (
        state(compared(MATCH), in_force=BEFORE, expectations=PASSED, mode=NightlyMode.COMPARE_ONLY).headline
        is Headline.MATCH
    )
    assert state(compared(MATCH), expectations=PASSED, mode=NightlyMode.COMPARE_ONLY).headline is Headline.NOT_PUBLISHED
    assert state(compared(BREAK), in_force=BEFORE, mode=NightlyMode.COMPARE_ONLY).headline is Headline.BREAK


@pytest.mark.parametrize("verdict", [Verdict.BREAK, Verdict.INCONCLUSIVE, Verdict.NOT_RUN])
def test_a_comparison_makes_a_version_that_is_not_clean_no_better(verdict: Verdict) -> None:
    """It compares what it has just read, and readers have the version."""
    flagged = replace(BEFORE, verdict=verdict)
    found = state(compared(MATCH), in_force=flagged, expectations=PASSED, mode=NightlyMode.COMPARE_ONLY)
    assert found.headline == verdict.value
    assert any(line.endswith(f"version 1 stays in force, which is {verdict}") for line in found.lines())


def test_a_comparison_of_some_tables_or_beside_a_partial_version_is_partial() -> None:
    asked: dict[str, Any] = {"expectations": PASSED, "mode": NightlyMode.COMPARE_ONLY}
    assert state(compared(MATCH), in_force=BEFORE, only_tables=["account"], **asked).headline is Headline.PARTIAL
    assert state(compared(MATCH), in_force=replace(BEFORE, partial=True), **asked).headline is Headline.PARTIAL


def test_a_run_that_only_compares_is_running_until_its_checks_have_run() -> None:
    asked: dict[str, Any] = {"mode": NightlyMode.COMPARE_ONLY, "run_state": RunState.RUNNING}
    assert state(compared(MATCH), in_force=BEFORE, **asked).headline is Headline.RUNNING


def test_a_date_that_is_taken_again_is_no_better_meanwhile_than_the_version_that_readers_see() -> None:
    """Found by a newcomer: each new take turned `status` to 0."""
    running: dict[str, Any] = {"run_state": RunState.RUNNING}
    flagged = replace(BEFORE, verdict=Verdict.BREAK)
    assert state(in_force=BEFORE, **running).headline is Headline.RUNNING
    assert state(in_force=flagged, in_force_found=compared(BREAK), **running).headline is Headline.BREAK
    again = state(in_force=flagged, in_force_found=compared(MATCH), **running)
    assert again.headline is Headline.CHECKS_FAILED, "its tables matched, and a rule was broken"
    assert (again.shown, again.lines()[0]) == (Headline.RUNNING, "compared: RUNNING"), "of this take nothing is known"
    assert state(compared(BREAK), in_force=flagged, in_force_found=compared(MATCH), **running).shown is Headline.BREAK
    assert any(line.endswith("version 1 stays in force, which is CHECKS FAILED") for line in again.lines())


def test_as_long_as_a_run_goes_on_nobody_knows_whether_somebody_must_decide() -> None:
    assert "not known yet whether somebody must decide" in state(run_state=RunState.RUNNING).lines()
    assert "no decision needed" in state(compared(MATCH), published=cut(), expectations=PASSED).lines()


def test_a_break_that_was_found_stands_until_another_comparison_answers() -> None:
    hidden = TableVerdict("account", Verdict.INCONCLUSIVE, reason="the stream is paused")
    unanswered, broken, well = compared(hidden), compared(BREAK), compared(MATCH)
    assert newest_of_live([unanswered, unanswered, broken, well]) == [unanswered, broken]
    assert newest_of_live([well, unanswered, broken]) == [well]
    elsewhere = replace(well, destination="lake")
    assert newest_of_live([unanswered, elsewhere]) == [unanswered, elsewhere]


def test_a_version_that_has_expired_is_said_to_be_gone() -> None:
    """The platform's list of cuts lacks it then; the run's result goes on saying what it published."""
    expired = state(compared(MATCH), expectations=PASSED, publish={"warehouse": 3})
    assert expired.publication.in_words() == "published as version 3, which has expired since"
    superseded = state(compared(MATCH), in_force=cut(4), expectations=PASSED, publish={"warehouse": 3})
    assert superseded.publication.in_words() == "published as version 3, superseded by version 4"


def test_checks_that_evaluated_nothing_have_not_passed() -> None:
    nothing = {"verdict": "NOT_RUN", "checked": 0, "failed": []}
    found = state(compared(MATCH), published=cut(), expectations=nothing)
    assert found.checks.word == "not run"
    assert found.headline is Headline.NOT_RUN


def test_a_signature_of_before_decisions_were_kept_is_still_one() -> None:
    found = replace(compared(BREAK), evidence={"signed_by": "olga: known: late file"})
    decided = state(found, published=cut()).decision
    assert decided is not None
    assert (decided.state, decided.who, decided.reason) == (DecisionState.APPROVED, "olga", "known: late file")


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_headline_is_never_better_than_what_was_compared(verdict: Verdict) -> None:
    found = compared(TableVerdict("entry", verdict))
    for published in (None, cut()):
        for checks in (PASSED, FAILED):
            assert state(found, published=published, expectations=checks).is_green == (
                verdict is Verdict.MATCH and published is not None and checks is PASSED
            )


def test_what_was_not_run_says_which_task_was_to_do_it_and_why_it_did_not() -> None:
    """Found by a newcomer: "compared: NOT_RUN", and no word about why."""
    failed = {"task": "cut", "error": "the source is away", "cure": "start it"}
    assert state(run_state=RunState.FAILED, failure=failed).lines()[:2] == [
        "compared: NOT_RUN, for its task `cut` failed",
        "checks not run, for the task `cut` failed before it",
    ]
    assert state(compared(MATCH), run_state=RunState.FAILED).lines()[1] == (
        "checks not run, for its task `expectations` has left nothing here: run the date again"
    )
