"""A take, or a comparison of live tables, that is not stored as it was recorded is ALTERED in every report, and nothing
of it is a MATCH."""

import csv
import io
import json
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from seamline.cli.status_text import is_green, render
from seamline.domain.cut_state import CutState, Headline, newest_of_live, of_live, state_of_cut
from seamline.domain.doubted import beside_the_log
from seamline.domain.level import level_evidence
from seamline.domain.recorded import NOT_AS_RECORDED, Recorded
from seamline.domain.runs import EXPECTATIONS, PUBLISH, Reconciliation, RunState, Scope
from seamline.report import documents, lines, texts
from seamline.report.contents import report_of
from tests.unit.reported import IN_FORCE, MATCH, PASSED, TODAY, reconciliation

FAULT = "table account was changed after entry 6 (signature kept)"
ALTERED, AS_RECORDED = Recorded("a" * 64, (FAULT,)), Recorded("a" * 64)
SHANGHAI = ZoneInfo("Asia/Shanghai")


def take(recorded: Recorded | None, *, of_version: Recorded | None = None, publishes: bool = True) -> CutState:
    found = replace(reconciliation(MATCH, scope=Scope.CUT, day=TODAY), verdict=MATCH.verdict)
    found = replace(found, evidence=level_evidence(found, "all at once", guarantee="exactly_once"))
    return state_of_cut(
        run_id="r",
        sync="settlement",
        destination="warehouse",
        business_date=TODAY,
        run_state=RunState.SUCCEEDED,
        result={EXPECTATIONS: PASSED, **({PUBLISH: {"warehouse": 1}} if publishes else {})},
        found=found,
        published=None,
        in_force=IN_FORCE,
        in_force_recorded=of_version or recorded,
        recorded=recorded,
    )


def live(recorded: Recorded | None) -> Reconciliation:
    found = reconciliation(MATCH)
    found = replace(found, evidence=level_evidence(found, "all at once", guarantee="exactly_once"))
    return beside_the_log(found, recorded)


def test_only_a_take_that_is_known_to_be_stored_otherwise_is_altered() -> None:
    assert [take(one).headline for one in (None, AS_RECORDED, ALTERED)] == ["MATCH", "MATCH", "ALTERED"]
    assert (take(ALTERED).is_green, take(ALTERED).is_open) == (False, True)
    assert max(Headline, key=list(Headline).index) == "FAILED", "which is of no cut"
    waits = take(AS_RECORDED, of_version=ALTERED, publishes=False)
    assert "version 1 stays in force, which is ALTERED" in waits.publication.in_words()


def test_only_a_comparison_of_live_tables_that_is_known_to_be_stored_otherwise_is_altered() -> None:
    assert [of_live(live(one)) for one in (None, AS_RECORDED, ALTERED)] == ["MATCH", "MATCH", "ALTERED"]
    assert live(AS_RECORDED) == live(None) != live(ALTERED)


def test_an_altered_comparison_of_live_tables_is_no_answer_and_is_shown_until_there_is_one() -> None:
    altered, well, unanswered = live(ALTERED), live(AS_RECORDED), reconciliation()
    assert newest_of_live([altered, well]) == [altered, well]
    assert newest_of_live([unanswered, altered, well]) == [unanswered, altered, well]
    assert newest_of_live([well, altered]) == [well]


@pytest.mark.parametrize("kind", ["text", "md", "json", "csv"])
@pytest.mark.parametrize("what", ["a date", "live tables"])
def test_each_report_says_so_before_all_else_and_says_match_of_nothing(kind: str, what: str) -> None:
    cuts, compared = ([take(ALTERED)], []) if what == "a date" else ([], [live(ALTERED)])
    report = report_of("settlement", cuts, compared, zone=SHANGHAI)
    made = {
        "text": lambda: texts.to_terminal(report),
        "md": lambda: texts.to_markdown(report),
        "json": lambda: json.dumps(documents.to_json(cuts, compared, levels={}), default=str),
        "csv": lambda: lines.to_csv(cuts, compared),
    }[kind]()
    assert "ALTERED" in made and "the stored verdict is not the one that was recorded" in made
    assert "account was changed after entry 6" in made.replace("\\", "")
    if kind in ("text", "md"):
        assert made.index("ALTERED") < made.index("not the one that was recorded") < made.index("compared")
    assert "MATCH" not in made


def test_it_is_in_no_report_that_the_level_is_achieved() -> None:
    (document,) = documents.to_json([take(ALTERED)], [], levels={})
    assert (document["verdict"], document["level_achieved"]) == ("ALTERED", False)
    assert document["recorded"] == {"warning": NOT_AS_RECORDED, "faults": [FAULT], "verdict_hash": "a" * 64}
    assert documents.to_json([take(AS_RECORDED)], [], levels={})[0]["level_achieved"]
    assert documents.to_json([take(None)], [], levels={})[0]["recorded"] is None
    (of_live_tables,) = documents.to_json([], [live(ALTERED)], levels={})
    assert (of_live_tables["verdict"], of_live_tables["level_achieved"]) == ("ALTERED", False)
    assert of_live_tables["recorded"] == document["recorded"]
    json.dumps(document)


def test_status_says_it_too_and_is_red() -> None:
    for cuts, compared in (([take(ALTERED)], []), ([], [live(ALTERED)])):
        assert not is_green(cuts, compared)
        text = render(cuts, compared)
        assert text.startswith("ALTERED ") and FAULT in text and "MATCH" not in text


def test_a_row_of_a_csv_names_the_fault() -> None:
    (row,) = csv.DictReader(io.StringIO(lines.to_csv([take(ALTERED)], ())))
    assert (row["verdict"], row["table_verdict"]) == ("ALTERED", "INCONCLUSIVE") and FAULT in row["altered"]
