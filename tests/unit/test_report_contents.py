"""What a report says: verdict first, every difference as a number, nothing that reads better than it is."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from seamline.cli.status_text import render
from seamline.domain.break_id import break_id
from seamline.domain.cut_state import CutState, Failure, Headline, Publication
from seamline.domain.date_before import DATE_BEFORE, SinceCut, date_before_to_json
from seamline.domain.decision import Decision, DecisionState
from seamline.domain.level import level_evidence
from seamline.domain.log_patch import LOG, LOG_BETWEEN, LogBetween, log_between_to_json
from seamline.domain.made_from import OF_THE_DATE_ALONE
from seamline.domain.row_transform import transforms_evidence
from seamline.domain.runs import Scope
from seamline.domain.self_test import SELF_TEST, SelfTest, self_test_to_json
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from seamline.domain.witness import THIRD_WITNESS, Mention, Moved, Witness
from seamline.report import documents
from seamline.report.blocks import Block, Cell, Report
from seamline.report.contents import break_cells, report_of
from seamline.report.texts import to_markdown, to_terminal
from tests.unit.broken_date import CHINESE, FORMULA, HOSTILE, PAYMENTS, WIDE, broken_cut
from tests.unit.reported import MATCH, MOMENT, TODAY, cut, reconciliation

SHANGHAI = ZoneInfo("Asia/Shanghai")
LEFT_OUT = TableVerdict("account", Verdict.NOT_RUN, reason="no history")


def report(*cuts: CutState) -> Report:
    return report_of("settlement", cuts, zone=SHANGHAI)


def block(found: Report, title: str) -> Block:
    return next(one for one in found.blocks if one.title == title)


def column(found: Report, title: str, name: str) -> Sequence[Cell]:
    one = block(found, title)
    return [row.cells[one.columns.index(name)] for row in one.rows]


def test_the_verdict_is_the_worst_of_what_the_report_is_about() -> None:
    clean = cut(MATCH)
    assert report(clean).verdict is Headline.MATCH
    assert report(clean, replace(broken_cut(), destination="archive")).verdict is Headline.BREAK
    assert report(cut(MATCH, publish={})).verdict is Headline.NOT_PUBLISHED
    live = reconciliation(replace(MATCH, verdict=Verdict.INCONCLUSIVE, reason="r"))
    assert report_of("settlement", [clean], [live], zone=UTC).verdict is Headline.INCONCLUSIVE


def test_a_date_of_which_nothing_is_known_is_not_run_and_names_itself() -> None:
    found = report_of("settlement", [], about=date(2026, 11, 19), zone=UTC)
    assert (found.verdict, found.subject, found.blocks) == (Headline.NOT_RUN, "settlement, 2026-11-19", ())


def test_the_header_says_position_moments_mode_and_what_the_run_was_made_of() -> None:
    kept = level_evidence(reconciliation(MATCH), "all at once", guarantee="exactly_once")
    one = cut(MATCH, evidence={"config_hash": "abc", "digest": "cdg1", **kept})
    found = report_of(
        "settlement",
        [one],
        zone=SHANGHAI,
        guarantees={"r": "exactly_once"},
        levels={"warehouse": "what is declared now"},
    )
    for name, value in (
        ("verdict", "MATCH"),
        ("position", "0-1-7 bin.000001:99"),
        ("position committed", None),
        ("position read", MOMENT),
        ("comparison began", MOMENT),
        ("mode", "barrier"),
        ("guarantee", "exactly_once"),
        ("level", "all at once"),
        ("level achieved", "yes"),
        ("configuration", "abc"),
        ("digest", "cdg1"),
        ("publication", "version 1"),
        ("run", "r"),
    ):
        assert column(found, "Report", name) == [value]


@pytest.mark.parametrize(
    ("mode", "known"), [("delivered", "position read"), ("read", "position read"), ("log", "state as of")]
)
def test_only_of_live_tables_it_is_said_when_the_position_was_committed(mode: str, known: str) -> None:
    """Of a delivery `position committed` was the moment at which it was looked at."""
    of_cut = replace(cut(MATCH), found=replace(reconciliation(MATCH, scope=Scope.CUT, day=TODAY), mode=mode))
    live = report_of("settlement", [], [reconciliation(MATCH)], zone=UTC)
    moments = ("position committed", "position read", "state as of")
    assert {name for name in moments if column(report(of_cut), "Report", name) == [MOMENT]} == {known}
    assert {name for name in moments if column(live, "Report", name) == [MOMENT]} == {"position committed"}
    assert f"  {known}" in to_terminal(report(of_cut))
    assert f"{known.removeprefix('position ')} 2026-11-21 01:02:03" in render([of_cut], [])
    assert "committed" not in to_terminal(report(of_cut)) + render([of_cut], [])


def test_the_level_of_a_partial_cut_is_shown_for_the_tables_that_were_compared_and_for_no_other() -> None:
    """It read `level achieved: yes` above a table that was NOT_RUN."""
    left_out = replace(MATCH, table="audit", verdict=Verdict.NOT_RUN, reason="no history")
    whole = replace(reconciliation(MATCH, left_out), verdict=Verdict.MATCH)
    kept = level_evidence(whole, "all at once", guarantee="exactly_once")
    for one, said, in_json in (
        (
            cut(MATCH, left_out, evidence=kept),
            "for 1 of 2 tables; NOT_RUN, so not shown, for audit",
            (False, ["audit"]),
        ),
        (cut(left_out, evidence=kept), "no", (False, ["audit"])),
        (
            cut(MATCH, evidence=kept, only_tables=["account"]),
            "for the tables of this run (1), and for no other",
            (False, []),
        ),
        (cut(MATCH, evidence=kept), "yes", (True, [])),
        (cut(MATCH), None, (None, [])),
    ):
        assert column(report_of("settlement", [one], zone=UTC), "Report", "level achieved") == [said]
        (document,) = documents.to_json([one], [], levels={})
        assert (document["level_achieved"], document["level_not_shown"]) == in_json
    found = report_of("settlement", [], [replace(whole, evidence=kept)], zone=UTC)
    assert str(column(found, "Report", "level achieved")[0]).startswith("for 1 of 2")


def test_a_cut_that_was_not_published_shows_the_level_of_nothing() -> None:
    """Its readers were said to have what a publish shows at once, and see nothing of it."""
    kept = level_evidence(reconciliation(MATCH), "all at once", guarantee="exactly_once")
    one = cut(MATCH, evidence=kept)
    one = replace(one, publication=replace(one.publication, version=None, why_not="it was rejected"))
    said = column(report_of("settlement", [one], zone=UTC), "Report", "level achieved")
    (document,) = documents.to_json([one], [], levels={})
    assert (said, document["level_achieved"]) == (["no, for it has published nothing"], False)


def test_a_comparison_by_the_log_says_both_positions_in_every_report() -> None:
    evidence = {LOG_BETWEEN: log_between_to_json(LogBetween("0/2B", "0/1A", transactions=3, changes=1_700))}
    found = report_of("settlement", [], [replace(reconciliation(MATCH), mode=LOG, evidence=evidence)], zone=UTC)
    said = "source at 0/2B, destination at 0/1A, 1,700 changes of the log in 3 transactions between"
    assert said in " ".join(to_terminal(found).split())
    assert column(found, "Report", "mode") == ["log"]


def test_completeness_has_the_difference_of_each_table_the_worst_first_and_all_of_them_added() -> None:
    found = report(broken_cut())
    assert column(found, "Completeness", "table") == ["payment_order", "account"]
    assert column(found, "Completeness", "difference") == [-3, 0]
    assert block(found, "Completeness").totals == ("all", None, 1_001_003, 1_001_000, -3, 12, None)
    assert [row.is_wrong for row in block(found, "Completeness").rows] == [True, False]


def test_a_table_that_was_not_compared_has_no_rows_and_no_breaks_rather_than_none() -> None:
    unknown = TableVerdict("entry", Verdict.INCONCLUSIVE, reason="the source went away")
    found = report(cut(MATCH, unknown, replace(LEFT_OUT, table="audit")))
    for name in ("rows in source", "difference", "breaks"):
        assert column(found, "Completeness", name)[:2] == [None, None]
    assert [row.is_wrong for row in block(found, "Completeness").rows] == [True, False, False]


def test_each_control_total_has_its_difference_and_groups_have_their_sum() -> None:
    found = report(broken_cut())
    assert column(found, "Control totals", "difference") == [Decimal("-5.0000"), Decimal("1.00")]
    assert column(found, "Control totals", "difference of rows") == [-1, -2]
    assert column(found, "Differences by group", "group") == ["CNY", "EUR"]
    assert column(found, "Differences by group", "without signs") == [Decimal("1.00"), Decimal("5.0000")]


def test_a_difference_that_is_no_number_says_so_and_is_never_nothing() -> None:
    total = ControlTotal("entry", "amount", (), 1, 1, Decimal("NaN"), Decimal(3))
    counts = replace(total, column="", source_sum=None, destination_sum=None)
    found = report(cut(replace(MATCH, totals=(total, counts))))
    assert column(found, "Control totals", "difference") == ["no number", None]
    assert column(found, "Control totals", "group") == ["all", "all"]
    assert column(found, "Differences by group", "difference") == ["no number"]


def test_breaks_are_counted_by_kind_and_those_that_are_not_listed_are_counted_too() -> None:
    found = report(broken_cut())
    assert column(found, "Breaks by kind", "kind") == ["missing", "value", "found, and not listed"]
    assert column(found, "Breaks by kind", "breaks") == [1, 1, 10]
    assert block(found, "Breaks by kind").totals[-1] == 12


def test_a_break_has_its_identity_its_differing_columns_and_their_difference() -> None:
    found = report(broken_cut())
    missing, *values = column(found, "Breaks", "break")
    assert set(values) == {break_id("settlement", "warehouse", PAYMENTS.breaks[0])}
    assert missing == break_id("settlement", "warehouse", PAYMENTS.breaks[1])
    assert column(found, "Breaks", "column") == [None, "amount", "payer", "note"]
    assert column(found, "Breaks", "difference") == [None, Decimal("0.0001"), None, None]


def test_what_the_log_says_of_a_break_stands_with_its_last_changes_and_without_a_value() -> None:
    tables = (PAYMENTS, MATCH)
    first = PAYMENTS.breaks[0]
    last = (Mention("delete", "0-1-9", MOMENT), Mention("insert", "0-1-8", None))
    witness = Witness(Moved.DESTINATION, "the source holds the row as the log has it last", 2, last)
    made = [
        replace(table, breaks=tuple(replace(one, witness=witness if one is first else None) for one in table.breaks))
        for table in tables
    ]
    of = {THIRD_WITNESS: {first.table: {"since": "0-1-7", "since_at": MOMENT.isoformat(), "destination": 1}}}
    one = report(cut(*made, evidence=of))
    assert column(one, "Third witness", "side that moved") == ["destination", None]
    assert column(one, "Third witness", "last change") == ["delete", "insert"]
    assert column(one, "Third witness", "committed") == [MOMENT, None]
    line = f"third witness: {first.table}: the destination was changed outside Seamline: 1; by the log since 0-1-7"
    assert any(str(note).startswith(line) for note in column(one, "Notes", "note"))
    assert not any(one.title == "Third witness" for one in report(cut(*tables)).blocks)


def test_null_is_no_text_that_reads_null() -> None:
    one = Break("t", BreakType.VALUE, "{}", {"a": None, "b": ""}, {"a": "NULL", "b": None})
    assert list(break_cells(one)) == [("a", "NULL", '"NULL"', None), ("b", "", "NULL", None)]
    paid = Break("t", BreakType.VALUE, "1", {"amount": "5"}, {"amount": "7"}, beside={"currency": "EUR"})
    assert list(break_cells(paid)) == [("amount", "5", "7", Decimal(2)), ("currency", "EUR", "EUR", None)]
    (row,) = break_cells(PAYMENTS.breaks[1])
    assert row == ("", 'id: 8; payer: NULL; note: "NULL"', "", None)


def test_what_must_be_said_of_a_check_that_did_not_fail_stands_beside_them() -> None:
    note = "customer money: no opening: first date"
    found = report(cut(MATCH, expectations={"verdict": "MATCH", "checked": 5, "failed": [], "notes": [note]}))
    assert column(found, "Checks", "outcome") == ["passed", "noted"]
    assert column(found, "Checks", "meaning")[1] == note


def test_checks_that_failed_are_named_and_those_that_did_not_run_are_not_passed() -> None:
    found = report(broken_cut())
    assert column(found, "Checks", "outcome") == ["failed", "passed"]
    assert column(found, "Checks", "rows")[0] == 1
    assert column(found, "Checks", "checked")[1] == "4 checks"
    assert column(report(cut(MATCH, expectations={})), "Checks", "outcome") == ["not run"]


def test_a_decision_names_who_is_asked_and_then_who_answered() -> None:
    assert column(report(broken_cut()), "Decision", "who") == ["olga or ivan"]
    signed = Decision(DecisionState.APPROVED, "", who="olga", reason="known", at="2026-11-21T02:00:00+00:00")
    found = report(cut(PAYMENTS, decision=signed.to_json()))
    assert column(found, "Decision", "who") == ["olga"]
    assert column(found, "Decision", "answered") == [datetime(2026, 11, 21, 2, tzinfo=UTC)]
    assert column(found, "Decision", "reason") == ["known"]
    assert "Decision" not in [one.title for one in report(cut(MATCH)).blocks]


def test_the_list_of_versions_has_takes_that_the_report_is_not_about() -> None:
    older = replace(cut(MATCH), run_id="before", publication=Publication(version=1, in_force=2))
    found = report_of("settlement", [broken_cut()], takes=[broken_cut(), older], zone=UTC)
    assert column(found, "Versions", "version") == [None, 1]
    assert column(found, "Versions", "publication")[1] == "published as version 1, superseded by version 2"
    assert found.verdict is Headline.BREAK


def test_date_and_destination_are_columns_only_where_rows_differ_in_them() -> None:
    assert block(report(broken_cut()), "Breaks").columns[0] == "break"
    archive = replace(broken_cut(), destination="archive")
    assert block(report(broken_cut(), archive), "Breaks").columns[:2] == ("destination", "break")
    both = report_of("settlement", [cut(MATCH)], [reconciliation(MATCH)], zone=UTC)
    assert column(both, "Completeness", "business date") == [TODAY, "live tables"]
    assert both.subject == "settlement"


def test_the_self_test_of_the_comparison_is_a_note_and_a_wrong_one_where_it_failed() -> None:
    passed = SelfTest("8f3a", planted=17, found=17, tables=2, kinds=("row missing", "trailing space"))
    for found, is_wrong in ((passed, False), (replace(passed, others=("entry 7: missing",)), True)):
        made = report(cut(MATCH, evidence={SELF_TEST: self_test_to_json(found)}))
        assert [row.is_wrong for row in block(made, "Notes").rows] == [is_wrong] * (1 + is_wrong)
        assert column(made, "Notes", "note")[0] == (
            f"self-test: 17 of 17 planted breaks found, {len(found.others)} others; 2 kinds in 2 tables, seed 8f3a"
        )


def test_a_transformed_table_is_noted_with_its_file() -> None:
    made = report(cut(MATCH, evidence=transforms_evidence({"account": "include/transforms/masked.sql"})))
    assert "account is transformed by include/transforms/masked.sql" in column(made, "Notes", "note")
    assert not any(row.is_wrong for row in block(made, "Notes").rows)


def test_the_report_of_a_date_that_was_replaced_notes_that_its_rows_alone_were_read() -> None:
    (note,) = column(report(cut(MATCH, evidence={OF_THE_DATE_ALONE: True})), "Notes", "note")
    assert str(note).startswith("Read by `from: day_slice`")


def test_rows_that_came_late_for_a_date_are_no_fault_and_bear_a_mark_of_their_own() -> None:
    late = SinceCut("ledger_entry", "2026-11-18", 2, rows_in_cut=1000, rows_now=3500)
    made = report(cut(MATCH, evidence={DATE_BEFORE: date_before_to_json([late])}))
    assert not any(row.is_wrong for row in block(made, "Notes").rows)
    for text in (to_terminal(made), to_markdown(made)):
        (line,) = [line for line in text.splitlines() if "LATE" in line]
        assert line.lstrip("| ").startswith("…")


def test_late_rows_that_the_log_brings_say_that_a_cut_from_the_log_leaves_them_out() -> None:
    late = SinceCut("ledger_entry", "2026-11-18", 2, changed_in_log=1200)
    made = report(cut(MATCH, evidence={DATE_BEFORE: date_before_to_json([late])}))
    (line,) = [line for line in to_markdown(made).splitlines() if "LATE" in line]
    assert "of 2026-11-18: late rows by the log: 1,200 since its cut, version 2" in line
    assert "a cut from the log leaves them out: run that date again with from: read" in line


def test_a_failure_and_a_match_over_no_rows_are_notes() -> None:
    failed = {"task": "publish", "error": "column cut_version is taken", "cure": "rename it"}
    found = report(cut(replace(MATCH, source_rows=0, destination_rows=0), publish={}, failure=failed))
    notes = column(found, "Notes", "note")
    assert notes == [
        "task publish failed: column cut_version is taken",
        "to mend it: rename it",
        "nothing was compared: 0 rows in all tables",
    ]


def test_the_terminal_shows_the_verdict_first_and_marks_what_is_wrong_without_colour() -> None:
    text = to_terminal(report(broken_cut()))
    assert text.startswith("BREAK  settlement, 2026-11-21\n")
    wrong = [line for line in text.splitlines() if line.startswith("✗")]
    assert any("payment_order" in line and "-5.0000" in line for line in wrong)
    assert not any("account" in line for line in wrong)
    assert f"{WIDE:,}" in text and "2026-11-21 09:02:03 +08:00" in text


def test_columns_of_the_terminal_stand_under_each_other_also_beside_chinese_texts() -> None:
    lines = to_terminal(report(broken_cut())).splitlines()
    start = lines.index("BREAKS")
    head, rows = lines[start + 1], lines[start + 3 : start + 6]
    place = head.index("destination")
    (chinese,) = [line for line in rows if CHINESE in line]
    (formula,) = [line for line in rows if FORMULA in line]
    assert formula.index(FORMULA) == place - len("😀"), "it takes two columns"
    assert len(chinese) < place, "each sign takes two columns, and the other side holds an empty text"


def test_no_value_moves_the_cursor_or_becomes_markup() -> None:
    for text in (to_terminal(report(broken_cut())), to_markdown(report(broken_cut()))):
        assert "\x1b" not in text and "\u202e" not in text
        assert "evil 😀" in text
    markdown = to_markdown(report(broken_cut()))
    assert "<script>" not in markdown and "&lt;script&gt;" in markdown
    (line,) = [line for line in markdown.splitlines() if "/C calc" in line]
    assert r"=cmd\|' /C calc'\!A0" in line
    assert "\\u{1b}" in to_terminal(report(cut(replace(PAYMENTS, reason=HOSTILE))))


def test_markdown_is_a_table_per_block_and_cuts_no_text_off() -> None:
    long = "x" * 400
    markdown = to_markdown(report(cut(replace(PAYMENTS, reason=long))))
    assert markdown.startswith("# BREAK settlement, 2026-11-21\n")
    assert "## Control totals\n\n|  | table | column |" in markdown
    assert long in markdown
    assert long not in to_terminal(report(cut(replace(PAYMENTS, reason=long))))
    assert "(400 signs)" in to_terminal(report(cut(replace(PAYMENTS, reason=long))))


def test_a_statement_that_mends_something_is_never_cut_off() -> None:
    statement = f"BEGIN; DROP VIEW {'v' * 400}; COMMIT"
    failed = replace(broken_cut(), failure=Failure("publish", "it does not fit", statement))
    assert statement in to_terminal(report(failed))
