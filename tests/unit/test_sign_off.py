"""Sign-offs of published cuts: what they are called, and what `status` says of them."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from seamline.cli.status_text import signed
from seamline.domain.date_before import SinceCut
from seamline.domain.errors import Refused
from seamline.domain.made_from import LateTransaction, LeftOut, left_out_of
from seamline.domain.runs import RunState
from seamline.domain.sign_off import ReasonRequired, SignAct, Signature, SignOff, SignOrder, SignState, urgent_first
from seamline.domain.verdict import Verdict

AT = datetime(2026, 3, 2, 1, 0, tzinfo=UTC)
DAY = date(2026, 3, 1)
PREPARED = SignOff(
    "settlement", "warehouse", DAY, 1, 1, "r1", Verdict.MATCH, partial=False, verdict_hash="h", preparer="scheduler",
    prepared_at=AT,
)  # fmt: skip
SIGNATURE = Signature(SignAct.SIGNED, 1, 1, "ann", "", Verdict.MATCH, "h", AT)
SIGNED = replace(PREPARED, acts=(SIGNATURE,))
LATE = SinceCut("account", "2026-03-01", 1, rows_in_cut=1, rows_now=2)
NAMED = tuple(LateTransaction("0-1-7", "2026-03-01T23:59:59", changes) for changes in (4, 5))
LEFT_OUT = LeftOut(2, 9, is_all=True, named=NAMED)


def test_a_signature_stands_while_its_verdict_is_the_one_that_was_signed() -> None:
    assert (SIGNED.state, SIGNED.signature) == (SignState.SIGNED, SIGNATURE)
    for other in (
        replace(SIGNED, verdict_hash="x"),
        PREPARED,
    ):
        assert other.signature is None


def test_only_what_is_clean_in_all_and_has_no_history_goes_together() -> None:
    assert PREPARED.goes_by_bulk
    reopened = replace(SIGNATURE, act=SignAct.REOPENED, number=2, who="bob", reason="x")
    for other in (
        SIGNED,
        replace(PREPARED, verdict=Verdict.BREAK),
        replace(PREPARED, verdict=Verdict.NOT_RUN),
        replace(PREPARED, partial=True),
        replace(PREPARED, late=(LATE,)),
        replace(PREPARED, left_out=LEFT_OUT),
        replace(PREPARED, checks="BREAK"),
        replace(PREPARED, checks="NOT_RUN"),
        replace(PREPARED, later=RunState.RUNNING),
        replace(PREPARED, later=RunState.FAILED),
        replace(PREPARED, version=2, in_force=2, earlier=SIGNATURE),
        replace(PREPARED, in_force=2),
        replace(SIGNED, verdict_hash="x"),
        replace(SIGNED, acts=(SIGNATURE, reopened)),
    ):
        assert not other.goes_by_bulk
        with pytest.raises(Refused):
            other.check_bulk()


def test_what_the_log_has_left_named_transactions_out_of_goes_together_by_one_reason_and_by_nothing_else() -> None:
    left = replace(PREPARED, left_out=LEFT_OUT)
    assert left.goes_by_one_reason and not left.goes_by_bulk
    left.check_one_reason()
    left.check_signing(SignOrder("ann", "posted tomorrow", "h"))
    for other in (
        PREPARED,
        replace(left, verdict=Verdict.BREAK),
        replace(left, partial=True),
        replace(left, checks="BREAK"),
        replace(left, late=(LATE,)),
        replace(left, later=RunState.RUNNING),
        replace(left, version=2, in_force=2, earlier=SIGNATURE),
        replace(left, acts=(SIGNATURE,)),
        replace(left, left_out=replace(LEFT_OUT, transactions=101, is_all=False)),
    ):
        assert not other.goes_by_one_reason
        with pytest.raises(Refused):
            other.check_one_reason()
    for order in (SignOrder("ann", "", "h"), SignOrder("ann", "x", "another"), SignOrder("scheduler", "x", "h")):
        with pytest.raises(Refused):
            left.check_signing(order)


def test_what_differs_is_partial_or_late_comes_before_what_is_clean_the_newest_date_first() -> None:
    """Of hundreds of dates the ten oldest were shown, and a break of this morning was folded away."""
    clean = [replace(PREPARED, business_date=date(2026, 3, day)) for day in (1, 20)]
    others = [
        replace(PREPARED, business_date=date(2026, 3, 2), verdict=Verdict.BREAK),
        replace(PREPARED, business_date=date(2026, 3, 4), partial=True),
        replace(SIGNED, business_date=date(2026, 3, 3), late=(LATE,)),
    ]
    days = [one.business_date.day for one in urgent_first([*clean, *others])]
    assert days == [4, 3, 2, 20, 1]


def test_results_that_say_otherwise_since_the_publication_need_a_reason() -> None:
    assert replace(PREPARED, checks="MATCH").goes_by_bulk
    checked_again = replace(PREPARED, checks="NOT_RUN")
    with pytest.raises(Refused, match=r"is not clean \(expectations NOT_RUN\)"):
        checked_again.check_bulk()
    with pytest.raises(Refused, match="needs a reason: it is not clean"):
        checked_again.check_signing(SignOrder("ann", "", "h"))


def test_a_later_run_of_the_date_is_said_to_go_on_or_to_have_ended() -> None:
    """It "has published nothing" was said of a run that was still to publish."""
    said = {state: replace(PREPARED, later=state).in_words().partition("; ")[2] for state in RunState}
    assert said == {
        RunState.RUNNING: "a later run of the date goes on, and has published nothing yet",
        RunState.SUCCEEDED: "a later run of the date has ended, and has published nothing",
        RunState.FAILED: "a later run of the date has failed, and has published nothing",
    }
    assert "later run" not in PREPARED.in_words()


def test_case_makes_no_second_person() -> None:
    reopened = replace(SIGNATURE, act=SignAct.REOPENED, number=2, who="Bob", reason="x")
    with pytest.raises(Refused, match="ANN asked for this run"):
        replace(PREPARED, preparer="ann").check_signing(SignOrder("ANN", "", "h"))
    with pytest.raises(Refused, match="bob has re-opened it"):
        replace(SIGNED, acts=(SIGNATURE, reopened)).check_signing(SignOrder("bob", "", "h"))
    with pytest.raises(Refused, match="Ann has signed it"):
        SIGNED.check_reopening(who="Ann", reason="x")
    SIGNED.check_reopening(who="anne", reason="x")


def test_a_cut_that_has_expired_waits_for_nobody_and_is_not_signed() -> None:
    gone = replace(PREPARED, is_kept=False)
    assert not gone.waits
    with pytest.raises(Refused, match="has expired"):
        gone.check_signing(SignOrder("ann", "", "h"))


def test_a_reason_is_needed_by_what_was_found_or_declared() -> None:
    assert not PREPARED.needs_reason(ReasonRequired.BREAKS)
    assert PREPARED.needs_reason(ReasonRequired.ALWAYS)
    assert replace(PREPARED, late=(LATE,)).needs_reason(ReasonRequired.BREAKS)
    assert replace(PREPARED, left_out=LEFT_OUT).needs_reason(ReasonRequired.BREAKS)


def test_what_a_cut_from_the_log_leaves_out_is_counted_and_is_nothing_that_came_late_for_a_signature() -> None:
    late = [{"position": "0-1-7", "committed": "2026-03-01T23:59:59", "changes": changes} for changes in (4, 5)]
    assert left_out_of({"late_total": 2, "late": late}) == LEFT_OUT
    assert left_out_of({"late_total": 0, "late": []}) is left_out_of(None) is None
    said = "left out of the cut by the log: 2 transactions with 9 changes of rows say that they were committed before"
    assert LEFT_OUT.in_words.startswith(said)
    many = left_out_of({"late_total": 101, "late": late})
    assert many is not None and "101 transactions with at least 9 changes" in many.in_words
    assert not replace(SIGNED, left_out=LEFT_OUT).is_overtaken, "it was known when it was signed"
    with pytest.raises(Refused, match="is not clean [(]left out of the cut by the log: 2 transactions"):
        replace(PREPARED, left_out=LEFT_OUT).check_bulk()


def test_status_says_what_waits_and_what_came_late_for_a_signature() -> None:
    assert signed([SIGNED]) == ""
    assert signed([PREPARED]) == "1 published cut waits for a signature, since business date 2026-03-01\n"
    newer = replace(PREPARED, business_date=date(2026, 3, 2))
    assert signed([newer, PREPARED]).startswith("2 published cuts wait for a signature, since business date 2026-03-01")
    assert signed([replace(SIGNED, late=(LATE,))]) == (
        "LATE for a signed date, 2026-03-01 in warehouse, version 1: account: late rows: 1 since its cut, version 1;"
        " run that date again for a new version\n"
    )
