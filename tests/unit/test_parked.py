"""A parked table leaves the guarantee by what its sync declares, is reported by each report, and spoils nothing
else."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seamline.cli.main import main
from seamline.cli.status_text import is_green, render
from seamline.domain.catalogue import PARK_IT
from seamline.domain.cut_state import Headline
from seamline.domain.cutover import Boundary
from seamline.domain.errors import Refused
from seamline.domain.verdict import TableVerdict, Verdict, of_guaranteed, parked
from seamline.plan.compile import compile_plan, config_hash
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.list_change import ListChange, list_change
from seamline.plan.model import ParkedTable, SyncPlan
from seamline.plan.stages import all_stages
from seamline.ports import Problem, Survey
from seamline.spec.faults import DeclarationsInvalid, Fault
from seamline.spec.load import Declarations, load_declarations
from seamline.sync.capture_lifecycle import wanted_tables
from seamline.sync.comparison import compare_live
from seamline.sync.cut import select
from tests.log_topic import ACCOUNT as CARRIED
from tests.log_topic import AUDIT, sync_plan
from tests.unit import reported, test_comparison, test_cut, test_nightly_cut
from tests.unit.declared import FILES, SYNC, write_declarations
from tests.unit.reported import MATCH, reconciliation
from tests.unit.test_barrier import World
from tests.unit.test_list_change import carrying
from tests.unit.test_plan import ACCOUNT, LEDGER
from tests.unit.test_status import Platform, status_of

WHY = "zero dates, mended on Monday"
PARKED_ACCOUNT = SYNC.replace("- account\n", f"- {{name: account, parked: '{WHY}'}}\n")
PARKED_ENTRY = SYNC.replace("{name: ledger_entry, ", f"{{name: ledger_entry, parked: '{WHY}', ")
PARKED = ParkedTable("heap", WHY)
NOT_RUN = TableVerdict("heap", Verdict.NOT_RUN, f"parked: {WHY}")


def declared(folder: Path, sync: str) -> Declarations:
    return load_declarations(write_declarations(folder, {"syncs/settlement.yaml": sync}))


def the_fault(folder: Path, sync: str) -> Fault:
    with pytest.raises(DeclarationsInvalid) as caught:
        declared(folder, sync)
    (fault,) = caught.value.faults
    return fault


# ---- declarations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("''", "a reason is one line of text for people"),
        ("'  '", "a reason is one line of text for people"),
        (f"'{'x' * 201}'", "at most 200 characters"),
        ('"\\e[2J gone"', "a reason is one line of text for people"),
        ("", "has no value"),
        ("true", "must be text, got true"),
    ],
)
def test_a_table_is_not_parked_without_a_reason_for_people(tmp_path: Path, text: str, cause: str) -> None:
    fault = the_fault(tmp_path, PARKED_ACCOUNT.replace(f"'{WHY}'", text))
    assert (fault.line, fault.path) == (5, "tables[0].parked")
    assert cause in fault.cause


def test_a_sync_whose_tables_are_all_parked_is_reported_with_its_line_and_the_cure(tmp_path: Path) -> None:
    fault = the_fault(tmp_path, PARKED_ACCOUNT.replace("ledger_entry, b", f"ledger_entry, parked: '{WHY}', b"))
    assert (fault.line, fault.path) == (4, "tables")
    assert fault.cause == "every table is parked: nothing is left to carry"
    assert "Take `parked` out of one" in fault.cure


def test_a_parked_table_keeps_all_that_is_said_of_it(tmp_path: Path) -> None:
    entry = declared(tmp_path, PARKED_ENTRY).sync("settlement").tables[1]
    assert (entry.parked, entry.business_date and entry.business_date.column) == (WHY, "booked_at")


def test_a_reason_over_several_lines_is_one_line(tmp_path: Path) -> None:
    written = SYNC.replace("- account\n", "- name: account\n    parked: >\n      zero dates,\n      again\n")
    assert declared(tmp_path, written).sync("settlement").tables[0].parked == "zero dates, again"


def test_a_parked_table_that_was_read_whole_asks_nothing_of_the_hours_of_the_night(tmp_path: Path) -> None:
    late = PARKED_ACCOUNT.replace("nightly:\n", 'nightly:\n  run_at: "03:00"\n')
    assert "account" in the_fault(tmp_path, late.replace(f"{{name: account, parked: '{WHY}'}}", "account")).cause
    assert compile_plan(declared(tmp_path, late), "settlement").parked


# ---- the plan ------------------------------------------------------------------------------------------------------


def test_the_plan_holds_parked_tables_apart(tmp_path: Path) -> None:
    plan = compile_plan(declared(tmp_path, PARKED_ACCOUNT), "settlement", Survey((LEDGER,)))
    assert [table.name for table in plan.tables] == ["ledger_entry"]
    assert plan.parked == (ParkedTable("account", WHY),)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert config_hash(declared(tmp_path, SYNC), "settlement") != plan.config_hash


def test_a_plan_that_was_stored_before_tables_could_be_parked_is_read(tmp_path: Path) -> None:
    plan = compile_plan(declared(tmp_path, SYNC), "settlement")
    stored = json.loads(plan_to_json(plan))
    del stored["parked"]
    assert plan_from_json(json.dumps(stored)) == plan


def test_the_source_is_not_asked_for_a_parked_table_which_may_be_gone_or_of_any_schema(tmp_path: Path) -> None:
    """Its sums, its derived tables and its checks stay in the file and ask nothing of it either."""
    declarations = declared(tmp_path, PARKED_ENTRY)
    gone = Problem("there is no table `ledger_entry`", "correct `tables`", table="ledger_entry")
    for survey in (Survey((ACCOUNT,)), Survey((ACCOUNT,), (gone,))):
        plan = compile_plan(declarations, "settlement", survey)
        assert [table.name for table in plan.tables] == ["account"]


def test_a_fault_beside_a_parked_table_is_reported_at_its_own_line(tmp_path: Path) -> None:
    declarations = declared(tmp_path, PARKED_ACCOUNT.replace("column: booked_at", "column: bookd_at"))
    with pytest.raises(DeclarationsInvalid) as caught:
        compile_plan(declarations, "settlement", Survey((LEDGER,)))
    assert [(fault.line, fault.path) for fault in caught.value.faults] == [(6, "tables[1].business_date.column")]


def test_explain_shows_what_is_parked_and_what_is_not_computed_for_it(tmp_path: Path) -> None:
    plan = compile_plan(declared(tmp_path, PARKED_ENTRY), "settlement")
    text = explain(plan)
    assert f"  table ledger_entry: not carried, parked: {WHY}\n" in text
    assert "not computed while its table is parked" in text
    stages = {(kind, stage.id): stage.does for kind, found in all_stages(plan).items() for stage in found}
    assert "daily_balance" not in stages["nightly", "cut"]
    for place in (("nightly", "cut"), ("onboard", "enable"), ("tables", "verdicts"), ("reconcile", "verdicts")):
        assert "but of parked tables (ledger_entry)" in stages[place]
    assert "parked" not in explain(compile_plan(declared(tmp_path, SYNC), "settlement"))


def test_validate_counts_parked_tables_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    declared(tmp_path, PARKED_ACCOUNT)
    assert main(["validate"]) == 0
    assert "settlement: 1 tables and 1 parked, core_bank" in capsys.readouterr().out


def test_no_grant_is_printed_for_a_table_that_every_sync_parks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    declared(tmp_path, PARKED_ENTRY)
    assert main(["grants", "core_bank"]) == 0
    assert "ledger_entry" not in capsys.readouterr().out
    other = FILES["destinations/warehouse.yaml"].replace("warehouse", "lake").replace("settlement", "lake")
    second = "sync: ledger\nsource: core_bank\ndestinations: [lake]\ntables: [ledger_entry]\n"
    write_declarations(
        tmp_path,
        {"destinations/lake.yaml": other, "syncs/ledger.yaml": second, "syncs/settlement.yaml": PARKED_ENTRY},
    )
    assert main(["grants", "core_bank"]) == 0
    assert "ledger_entry" in capsys.readouterr().out


# ---- the stream and its list ---------------------------------------------------------------------------------------


def carrying_plan(*parked_: str) -> SyncPlan:
    tables = [table for table in (CARRIED, AUDIT) if table.name not in parked_]
    return replace(sync_plan(tables), parked=tuple(ParkedTable(name, WHY) for name in parked_))


def test_a_table_that_is_parked_leaves_the_stream_and_comes_back_as_an_added_one() -> None:
    both, one = {"warehouse": carrying("account", "audit")}, {"warehouse": carrying("account")}
    assert list_change(carrying_plan("audit"), both, again=[]) == ListChange(removed=("audit",))
    assert not list_change(carrying_plan("audit"), one, again=[])
    assert list_change(carrying_plan(), one, again=[]) == ListChange(added=("audit",))


def test_a_parked_table_is_not_loaded_again_by_name_and_the_error_says_how_it_comes_back() -> None:
    with pytest.raises(Refused, match="audit cannot be loaded again") as raised:
        list_change(carrying_plan("audit"), {"warehouse": carrying("account")}, again=["audit"])
    assert raised.value.hint == "carried: account. Take `parked` out to let audit come back"


def test_a_capture_takes_no_table_that_is_parked() -> None:
    assert wanted_tables(carrying_plan("audit"), ()) == ("account", "seamline_marker")
    assert wanted_tables(carrying_plan("audit"), ("audit",)) == ("account", "audit", "seamline_marker"), "of another"


def test_the_cure_for_an_altered_table_says_how_it_is_parked() -> None:
    assert "`parked: <why>`" in PARK_IT
    assert "`<sync>__tables`" in PARK_IT


# ---- verdicts ------------------------------------------------------------------------------------------------------


def live(world: World) -> Any:
    run = replace(test_comparison.RUN, plan=replace(test_comparison.PLAN, parked=(PARKED,)))
    return compare_live(run, "warehouse", barrier=world.barrier(), views=4)


def test_a_live_comparison_shows_the_parked_table_and_judges_the_others() -> None:
    found = live(World())
    assert found.tables[1:] == (NOT_RUN,)
    assert (found.verdict, found.is_partial, found.tables[0].verdict) == (Verdict.MATCH, True, Verdict.MATCH)
    assert is_green([], [found])


def test_a_comparison_that_was_not_made_is_not_saved_by_a_parked_table() -> None:
    world = World()
    assert world.ledger is not None
    world.ledger = replace(world.ledger, boundaries=(Boundary("entry", test_comparison.at(90)),))
    behind, apart = live(world), live(World(never_holds=True))
    assert (behind.verdict, apart.verdict) == (Verdict.NOT_RUN, Verdict.INCONCLUSIVE)
    for found in (behind, apart):
        assert found.tables[1:] == (NOT_RUN,)
        assert not is_green([], [found])


def test_a_cut_without_its_parked_table_is_a_match_and_partial() -> None:
    world = test_nightly_cut.World()
    account = ParkedTable("account", WHY)
    plan = replace(test_nightly_cut.PLAN, tables=test_nightly_cut.PLAN.tables[1:], parked=(account,))
    cut = world.take(plan=plan)
    assert [read.table.name for read in world.reads] == ["entry"]
    assert [table.table for table in cut.tables] == ["entry", "balance"]
    assert cut.left_out == {
        "account": f"parked: {WHY}",
        "heads": f"not computed from account, which is left out: parked: {WHY}",
    }
    (saved,) = world.saved
    assert [(table.table, table.verdict.value) for table in saved.tables] == [
        ("entry", "MATCH"), ("balance", "MATCH"), ("heads", "NOT_RUN"), ("account", "NOT_RUN"),
    ]  # fmt: skip
    assert (cut.verdict, cut.is_partial, saved.is_partial) == (Verdict.MATCH, True, True)
    shown = reported.cut(*saved.tables)
    assert (shown.headline, shown.is_green) == (Headline.PARTIAL, True)


def test_a_parked_table_is_in_no_cut_of_any_date() -> None:
    plan = replace(test_cut.PLAN, tables=test_cut.PLAN.tables[1:], parked=(ParkedTable("account", WHY),))
    for day in (test_cut.DAY, test_cut.DAY.replace(day=3)):
        selection = select(plan, day, as_of=test_cut.SOON)
        assert [read.plan.name for read in selection.reads] == ["entry"]
        assert selection.left_out == {"account": f"parked: {WHY}"}


def test_only_a_not_run_with_what_a_person_wrote_is_parked() -> None:
    assert parked("heap", WHY).is_parked
    for reason in ("", "parked: ", "parked:   ", "no history", "parked", "was parked: x"):
        assert not TableVerdict("heap", Verdict.NOT_RUN, reason).is_parked
    for verdict in (Verdict.MATCH, Verdict.BREAK, Verdict.INCONCLUSIVE):
        assert not TableVerdict("heap", verdict, f"parked: {WHY}").is_parked


def test_of_parked_tables_alone_nothing_is_known() -> None:
    assert of_guaranteed([]) is of_guaranteed([NOT_RUN]) is Verdict.NOT_RUN
    assert of_guaranteed([MATCH, NOT_RUN]) is Verdict.MATCH
    assert of_guaranteed([MATCH, TableVerdict("entry", Verdict.NOT_RUN)]) is Verdict.NOT_RUN
    assert not is_green([], [reconciliation(NOT_RUN)])
    for cuts, live in (([reported.cut(NOT_RUN)], [reconciliation(MATCH)]), ([], [reconciliation(NOT_RUN)])):
        assert not is_green(cuts, live)


# ---- status --------------------------------------------------------------------------------------------------------


def test_status_shows_a_parked_table_and_stays_zero(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live_tables = reconciliation(MATCH, NOT_RUN)
    assert status_of(monkeypatch, Platform([live_tables], cuts=[reported.cut(MATCH, NOT_RUN)])) == 0
    said = capsys.readouterr().out
    assert said.count(f"parked: {WHY}") == 2
    assert said.count(", partial") == 2
    (line,) = {" ".join(line.split()) for line in said.splitlines() if "heap" in line}
    assert line == f"NOT_RUN heap parked: {WHY}"


def test_status_is_red_where_another_table_is_not_a_match(monkeypatch: pytest.MonkeyPatch) -> None:
    for verdict in (Verdict.BREAK, Verdict.INCONCLUSIVE, Verdict.NOT_RUN):
        other = TableVerdict("entry", verdict, reason="the stream is catching up")
        assert status_of(monkeypatch, Platform([reconciliation(MATCH, NOT_RUN, other)])) == 1


def test_a_report_of_a_sync_with_a_parked_table_begins_with_the_verdict_of_the_others() -> None:
    first = render([], [reconciliation(MATCH, NOT_RUN)]).splitlines()[0]
    assert first.startswith("PARTIAL") and first.endswith("live tables, partial")
