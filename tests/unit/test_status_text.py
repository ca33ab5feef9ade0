from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from seamline.cli.status_text import is_green, render
from seamline.domain.date_before import DATE_BEFORE, SinceCut, date_before_to_json
from seamline.domain.decision import Decision, DecisionState
from seamline.domain.ledger import StreamId
from seamline.domain.row_transform import transforms_evidence
from seamline.domain.self_test import SELF_TEST, SelfTest, self_test_to_json
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict, parked
from seamline.sync.stream_state import StreamState, Word
from tests.unit.reported import MATCH, MOMENT, cut, reconciliation

BREAK = TableVerdict("entry", Verdict.BREAK, reason="1 value")
APPROVED = Decision(DecisionState.APPROVED, "", who="olga", reason="the bank corrects it today")
EMPTY = TableVerdict("account", Verdict.MATCH, source_rows=0, destination_rows=0)


def test_nothing_reconciled_is_not_green() -> None:
    assert not is_green([], [])
    assert "NOT_RUN" in render([], [])


def test_a_table_that_did_not_run_is_green_only_with_its_reason_and_beside_a_match() -> None:
    explained = TableVerdict("account", Verdict.NOT_RUN, reason="no history")
    assert is_green([cut(MATCH, explained)], [reconciliation(MATCH)])
    assert not is_green([cut(MATCH, TableVerdict("account", Verdict.NOT_RUN))], [reconciliation(MATCH)])
    assert not is_green([cut(explained)], [reconciliation(MATCH)])


def test_a_reason_that_several_tables_have_is_said_once_with_their_names() -> None:
    """Found by a newcomer: the same long sentence behind each table."""
    why = "the stream into warehouse has ended: rows are gone"
    tables = [TableVerdict(name, Verdict.INCONCLUSIVE, reason=why) for name in ("account", "entry")]
    text = render([], [reconciliation(*tables, TableVerdict("other", Verdict.INCONCLUSIVE, reason="away"))])
    assert (text.count(why), text.count("as said below"), text.count("away")) == (1, 2, 1)
    assert f"account, entry: {why}" in text


def test_a_live_table_that_was_not_compared_is_not_green_whatever_its_reason() -> None:
    behind = TableVerdict("account", Verdict.NOT_RUN, reason="the stream is catching up")
    assert not is_green([cut(MATCH)], [reconciliation(MATCH, behind)])


def test_inconclusive_and_break_are_never_green() -> None:
    for verdict in (Verdict.INCONCLUSIVE, Verdict.BREAK):
        wrong = TableVerdict("entry", verdict, reason="r")
        assert not is_green([], [reconciliation(MATCH, wrong)])
        assert not is_green([cut(MATCH, wrong)], [])


def test_the_verdict_stands_first_on_the_first_line() -> None:
    assert render([], [reconciliation(MATCH)]).startswith("MATCH ")


def test_a_cut_that_is_not_published_is_never_called_a_match() -> None:
    failed = {"task": "publish", "error": "column cut_version is taken", "cure": "rename it"}
    text = render([cut(MATCH, publish={}, failure=failed)], [])
    assert text.startswith("NOT PUBLISHED ")
    assert "column cut_version is taken" in text and "rename it" in text
    assert not is_green([cut(MATCH, publish={}, failure=failed)], [])


def test_a_comparison_of_live_tables_that_failed_says_why_and_is_not_green() -> None:
    gone = {"task": "compare", "error": "the driver was lost", "cure": "start it", "at": "2026-11-21T02:00:00+00:00"}
    failed = replace(reconciliation(), evidence={"failure": gone})
    text = render([], [failed])
    assert text.startswith("NOT_RUN ")
    assert "task compare failed at 2026-11-21 02:00:00 +00:00: the driver was lost" in text
    assert "to mend it: start it" in text
    assert not is_green([cut(MATCH)], [failed])


def test_the_longest_headline_leaves_a_gap_before_what_follows() -> None:
    inconclusive = TableVerdict("policy", Verdict.INCONCLUSIVE, reason="r")
    assert "INCONCLUSIVE   policy" in render([], [reconciliation(inconclusive)])
    assert render([cut(MATCH, publish={})], []).startswith("NOT PUBLISHED  settlement")


@pytest.mark.parametrize(
    ("tables", "is_said"),
    [
        ((EMPTY, replace(EMPTY, table="entry")), True),
        ((EMPTY, replace(MATCH, table="entry")), False),
        ((EMPTY, parked("entry", "x")), True),
        ((replace(EMPTY, verdict=Verdict.INCONCLUSIVE, reason="x"),), False),
        ((replace(EMPTY, destination_rows=1, verdict=Verdict.BREAK, reason="1 row"),), False),
        ((), False),
    ],
)
def test_a_match_over_no_rows_at_all_says_so_and_no_other_verdict_does(
    tables: tuple[TableVerdict, ...], is_said: bool
) -> None:
    for text in (render([], [reconciliation(*tables)]), render([cut(*tables)], [])):
        assert ("nothing was compared: 0 rows in all tables" in text) is is_said


def test_live_tables_come_first_and_newer_dates_before_older_ones() -> None:
    text = render([cut(MATCH, day=date(2026, 11, 18)), cut(MATCH, day=date(2026, 11, 20))], [reconciliation(MATCH)])
    places = [text.index(word) for word in ("live tables", "2026-11-20", "2026-11-18")]
    assert places == sorted(places)


def test_of_two_verdicts_under_one_heading_it_is_shown_which_is_newer() -> None:
    """Found by a newcomer: an INCONCLUSIVE has no position, so no time stood there."""
    unknown = TableVerdict("account", Verdict.INCONCLUSIVE, reason="the destination went away")
    newer = replace(reconciliation(unknown), position=None, position_time=None, ended_at=MOMENT + timedelta(minutes=9))
    text = render([], [newer, reconciliation(MATCH)], zone=ZoneInfo("Asia/Shanghai"))
    assert "at no position; compared 2026-11-21 09:11:03 +08:00" in text
    assert "committed 2026-11-21 09:02:03 +08:00; compared 2026-11-21 09:02:03 +08:00" in text


def test_a_difference_shows_both_totals_the_rows_and_the_breaks() -> None:
    broken = TableVerdict(
        "entry",
        Verdict.BREAK,
        reason="1 row differs",
        source_rows=3,
        destination_rows=2,
        totals=(ControlTotal("entry", "amount", ("EUR",), 3, 2, Decimal("10.5000"), Decimal("9.5000")),),
        breaks=(Break("entry", BreakType.VALUE, '["7"]', {"amount": "1.0000"}, {"amount": "2.0000"}),),
        breaks_total=9,
    )
    text = render([], [reconciliation(broken)])
    for expected in (
        "3 rows in the source, 2 in the destination",
        "10.5000 in the source ≠ 9.5000 in the destination",
        'value: ["7"]',
        "and 8 more",
    ):
        assert expected in text


def test_no_value_of_a_row_moves_the_cursor() -> None:
    one = Break("entry", BreakType.VALUE, '["7"]', {"note": "a\x1b[2J"}, {"note": "\u202eb"})
    text = render([], [reconciliation(replace(BREAK, breaks=(one,), breaks_total=1))])
    assert "note: a\\u{1b}[2J → \\u{202e}b" in text


def test_equal_totals_say_so_in_words() -> None:
    total = ControlTotal("entry", "amount", ("EUR",), 2, 2, Decimal("10.5000"), Decimal("10.5000"))
    text = render([], [reconciliation(replace(MATCH, totals=(total,)))])
    assert "EUR   amount 10.5000 on both sides, 2 rows" in text


NAN, TEN = Decimal("NaN"), Decimal(10)


@pytest.mark.parametrize(
    ("source", "destination", "is_equal"),
    [
        (NAN, NAN, True),
        (NAN, TEN, False),
        (TEN, NAN, False),
        (NAN, None, False),
        (None, NAN, False),
        (Decimal("Infinity"), Decimal("Infinity"), True),
        (Decimal("Infinity"), NAN, False),
        (Decimal("10.50"), Decimal("10.5000"), True),
        (None, None, True),
    ],
)
def test_sums_that_are_not_a_number_are_equal_to_themselves_alone(
    source: Decimal | None, destination: Decimal | None, is_equal: bool
) -> None:
    total = ControlTotal("entry", "amount", (), 2, 2, source, destination)
    assert total.is_equal == is_equal
    assert not replace(total, destination_rows=3).is_equal
    assert ("≠" not in render([], [reconciliation(replace(MATCH, totals=(total,)))])) == is_equal


def test_a_cut_without_one_of_its_tables_is_called_partial() -> None:
    explained = TableVerdict("account", Verdict.NOT_RUN, reason="no history")
    day = date(2026, 11, 18)
    first = render([cut(MATCH, explained, day=day)], []).splitlines()[0]
    assert first.startswith("PARTIAL ") and first.endswith("business date 2026-11-18, partial")
    assert "partial" not in render([cut(MATCH, day=day)], []).lower()


def test_a_signature_stands_under_the_verdict_that_it_is_about() -> None:
    signed = cut(BREAK, decision=APPROVED.to_json())
    text = render([signed], [])
    assert text.startswith("BREAK ") and "signed by olga: the bank corrects it today" in text
    assert "signed" not in render([cut(BREAK)], [])


def test_rows_that_came_after_the_cut_of_the_date_before_are_shown_and_so_is_the_self_test() -> None:
    late = SinceCut("ledger_entry", "2026-11-18", 2, rows_in_cut=1000, rows_now=3500)
    same = SinceCut("payment_order", "2026-11-18", 2, rows_in_cut=7, rows_now=7, is_same=True)
    tested = self_test_to_json(SelfTest("8f3a", planted=17, found=17, tables=1, kinds=("row missing",)))
    night = cut(MATCH, evidence={DATE_BEFORE: date_before_to_json([late, same]), SELF_TEST: tested})
    assert "self-test: 17 of 17 planted breaks found, 0 others; 1 kind in 1 table, seed 8f3a" in render([night], [])
    lines = [line for line in render([night], []).splitlines() if "LATE" in line]
    assert [" ".join(line.split()) for line in lines] == [
        "LATE ledger_entry of 2026-11-18: late rows: 2,500 since its cut, version 2;"
        " run that date again for a new version"
    ]


def test_a_transformed_table_is_called_so_by_its_file() -> None:
    held = cut(MATCH, evidence=transforms_evidence({"account": "include/transforms/account_masked.sql"}))
    (line,) = [line for line in render([held], []).splitlines() if "  account " in line]
    assert line.endswith("rows on both sides  transformed by include/transforms/account_masked.sql")
    assert "transformed" not in render([cut(MATCH, evidence=transforms_evidence({}))], [])


STREAM = StreamId("settlement", "warehouse")


def test_a_stream_shows_its_state_its_lag_and_its_findings() -> None:
    state = StreamState(STREAM, Word.FAILED, "torn unit", MOMENT, 2.5, 1500)
    text = render([], [reconciliation(MATCH)], [state], findings={STREAM: 7}, zone=ZoneInfo("Asia/Shanghai"))
    assert "stream settlement@warehouse: failed since 2026-11-21 09:02:03 +08:00, lag 2.5 s (1,500 records)" in text
    assert "torn unit" in text
    assert "7 FINDINGS" in text
    assert "FINDINGS" not in render([], [], [state])


def test_a_lag_that_nobody_knows_is_not_reported() -> None:
    unheard = StreamState(STREAM, Word.UNKNOWN, "no word for 44 s", MOMENT)
    text = render([], [], [unheard])
    assert "unknown since 2026-11-21 01:02:03 +00:00, lag unknown: no word for 44 s" in text
    assert "lag 0" not in text
