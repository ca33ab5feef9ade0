"""Syncs whose source delivers each business date: what they declare, what a night reads, and that it is taken once."""

import json
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.cut_state import CutState, Headline, state_of_cut
from seamline.domain.day_closed import ClosedBy
from seamline.domain.errors import Refused
from seamline.domain.row_transform import Expression, RowTransform
from seamline.domain.runs import (
    AGAIN,
    EXPECTATIONS,
    FAILURE,
    KEPT,
    MODE,
    REASON,
    TOOK_NOTHING,
    Cut,
    RunKind,
    RunState,
    Scope,
)
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.checks import ControlTotalPlan, ReconcilePlan, RulePlan, Says
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import DerivedTablePlan, Run, SyncPlan
from seamline.plan.stages import all_stages
from seamline.sources.files.position import FilesPosition
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from seamline.spec.transform_syntax import syntax_faults
from seamline.sync.cut import select
from seamline.sync.delivered import DeliveryInForce, Kept, kept_in, kept_to_json, require_wanted
from seamline_spark.cut import main as job
from tests.documented import declarations_of
from tests.unit.declared import write_declarations
from tests.unit.reported import PASSED, reconciliation

DAY = date(2026, 11, 27)
FILES = "source: core_bank\nkind: files\nlocation: /srv/in\ndelivery: 'settlement/{date}/v{version}'\n"
SYNC = "sync: settlement\nsource: core_bank\ndestinations: [warehouse]\ntables: [account]\nnightly: {timezone: UTC}\n"


def planned(folder: Path) -> SyncPlan:
    files = {"sources/core_bank.yaml": FILES, "syncs/settlement.yaml": SYNC}
    return compile_plan(load_declarations(write_declarations(folder, files)), "settlement")


@pytest.fixture
def shown(tmp_path: Path, checkout: Path) -> Path:
    """What a person has who has written the files of the page beside the declarations of a clean clone."""
    for part in ("sources", "destinations", "syncs", "expectations", "transforms"):
        shutil.copytree(checkout / "include" / part, tmp_path / part)
    files = declarations_of(checkout, "docs/how-to/deliver-files.md")
    for name, text in files.items():
        assert not (tmp_path / name).exists(), f"the page shows {name}, which the demo has"
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert len(files) == 5
    return tmp_path


def test_the_declarations_of_the_page_go_together_with_those_of_the_demo(shown: Path) -> None:
    added = {"partner_sftp": "sftp", "copy": "postgres", "copy_writer": "postgres"}
    bank = dict.fromkeys(("core_bank", "core_bank_capture", "core_bank_marker", "archive", "archive_writer"), "mysql")
    stack = bank | {"warehouse": "postgres", "warehouse_writer": "postgres"}
    declarations = load_declarations(shown, connections=stack | added)
    assert syntax_faults(declarations, shown) == []
    delivered, taken = (compile_plan(declarations, name) for name in ("bank_delivery", "bank_copy"))
    assert (delivered.destination_names, delivered.streamed.destinations) == ({"partner"}, ())
    assert (taken.destination_names, taken.streamed.destinations) == ({"copy"}, ())
    assert delivered.table_names == taken.table_names
    assert taken.nightly
    assert [one.what for one in taken.nightly.closed_when] == [f"{delivered.sync}/{{date}}/v{{version}}/_SUCCESS"]
    # Each name of a connection on the page is one that the page adds, or the demo has.
    with pytest.raises(DeclarationsInvalid, match="there is no connection `partner_sftp` here"):
        load_declarations(shown, connections=stack | {"copy": "postgres", "copy_writer": "postgres"})


def test_every_date_of_the_pages_delivery_is_whole_and_one_with_a_table_without_dates_is_refused(shown: Path) -> None:
    plan, now = compile_plan(load_declarations(shown), "bank_delivery"), datetime(2026, 11, 29, tzinfo=UTC)
    for day in (DAY, DAY - timedelta(days=300)):
        assert select(plan, day, as_of=now).left_out == {}
    file = shown / "syncs" / "bank_delivery.yaml"
    with_account = file.read_text(encoding="utf-8").replace("tables:\n", "tables:\n  - account\n")
    file.write_text(with_account, encoding="utf-8")
    with pytest.raises(DeclarationsInvalid, match="table `account` has no `business_date`, and `from: day_slice`"):
        load_declarations(shown)
    file.write_text(with_account.replace("day_slice", "read"), encoding="utf-8")
    found = select(compile_plan(load_declarations(shown), "bank_delivery"), DAY - timedelta(days=2), as_of=now)
    assert list(found.left_out) == ["account"]
    assert len(found.reads) == 2


def test_the_demos_own_sync_cannot_deliver_as_the_page_says(shown: Path) -> None:
    (shown / "syncs" / "bank_delivery.yaml").unlink()
    sync = shown / "syncs" / "settlement.yaml"
    before = sync.read_text(encoding="utf-8")
    sync.write_text(before.replace("[warehouse, archive]", "[warehouse, archive, partner]"), encoding="utf-8")
    with pytest.raises(DeclarationsInvalid) as refused:
        load_declarations(shown)
    assert [one.path for one in refused.value.faults] == ["reconcile.rules", "reconcile.expectations", "derived"]


def test_a_night_waits_for_the_flag_and_has_no_stream(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert (plan.source.has_log, plan.streamed.destinations) == (False, ())
    assert plan.nightly
    (wanted,) = plan.nightly.closed_when
    assert (wanted.by, wanted.what) == (ClosedBy.DELIVERY, "settlement/{date}/v{version}/_SUCCESS")
    assert plan.nightly.is_delivered
    assert [stage.id for stage in all_stages(plan)["nightly"]][:3] == ["open", "ready", "cut"]
    assert plan_from_json(plan_to_json(plan)) == plan
    text = explain(plan, place=load_declarations(tmp_path).sources["core_bank"].place_in_words)
    assert "from core_bank (files, in /srv/in): reads as the account of its tasks; each night is the delivery" in text
    assert "table account: the cut holds it whole, as it was delivered for the date" in text
    assert "holds its files against what it promises before anything is loaded" in " ".join(text.split())


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "tables: [account]",
            "tables: [{name: account, business_date: {column: booked, as: date}}]",
            "all rows of its tables are of that date. Leave it out",
        ),
        ("{timezone: UTC}", "{timezone: UTC, ready_when: {sql: 'SELECT true'}}", "it answers no query"),
        ("{timezone: UTC}", "{timezone: UTC, from: log}", "has no log that a cut could be made from"),
        (
            "nightly: {timezone: UTC}",
            "reconcile_only: {at: ['01:00'], timezone: UTC}",
            "source `core_bank` (files) cannot be read at any time. Take `reconcile_only` out",
        ),
        ("[account]", "[bank.account]", "gives its tables under their own names alone"),
    ],
)
def test_what_such_a_sync_cannot_declare_is_refused(tmp_path: Path, before: str, after: str, said: str) -> None:
    files = {"sources/core_bank.yaml": FILES, "syncs/settlement.yaml": SYNC.replace(before, after)}
    with pytest.raises(DeclarationsInvalid) as refused:
        load_declarations(write_declarations(tmp_path, files))
    assert said in str(refused.value)


def test_a_date_of_last_year_is_read_whole(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    found = select(plan, DAY - timedelta(days=365), as_of=datetime(2026, 11, 29, tzinfo=UTC))
    assert ([read.plan.name for read in found.reads], found.left_out) == (["account"], {})


FIRST = FilesPosition(DAY.isoformat(), 1, "a" * 64)


def a_run(plan: SyncPlan, run_id: str = "mine", **result: Any) -> Run:
    return Run(run_id, plan.sync, RunKind.NIGHTLY, DAY, plan, RunState.RUNNING, result)


def cuts_of(plan: SyncPlan, *before: FilesPosition, at: str = "warehouse", by: str = "earlier") -> list[Cut]:
    """The newest first, as the platform database gives them."""
    moment = datetime(2026, 11, 28, tzinfo=UTC)
    names = ("account",)
    cuts = [
        Cut(plan.sync, at, DAY, number, f"{by}{number}", one, moment, names, Verdict.MATCH)
        for number, one in enumerate(before, start=1)
    ]
    return cuts[::-1]


def take_of(cut: Cut, verdict: Verdict = Verdict.MATCH, **result: Any) -> CutState:
    """Of a run of the date behind which this cut is in force; its own unless `result` says otherwise."""
    found = replace(
        reconciliation(TableVerdict("account", verdict), scope=Scope.CUT, day=DAY), destination=cut.destination
    )
    checks = {EXPECTATIONS: {"destinations": {cut.destination: PASSED}}}
    state = RunState.FAILED if FAILURE in result else RunState.SUCCEEDED
    return state_of_cut(
        run_id="later" if result else cut.run_id,
        sync=cut.sync,
        destination=cut.destination,
        business_date=DAY,
        run_state=state,
        result={**checks, **result},
        found=None if FAILURE in result else found,
        published=None if result else cut,
        in_force=cut,
    )


def taken(
    run: Run,
    position: FilesPosition,
    cuts: list[Cut],
    takes: list[CutState] | None = None,
    made_by: SyncPlan | None = None,
) -> str:
    """Why a delivery is not taken after others; "" where it is. `made_by`: the plan of the cuts, or the run's."""
    takes = [take_of(one) for one in cuts] if takes is None else takes
    try:
        require_wanted(run, position, takes=takes, published=cuts, plan_of=lambda _: made_by or run.plan)
    except Refused as exc:
        return exc.message
    return ""


KEPT_SAID = (
    "the delivery of 2026-11-27 version 1, sha256 aaaaaaaaaaaa is taken already: version 1 of 2026-11-27 in warehouse"
    " stays in force, and is MATCH"
)


def test_a_delivery_is_taken_once_and_a_correction_after_it(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    run = a_run(plan)
    assert taken(run, FIRST, []) == ""
    assert taken(run, FIRST, cuts_of(plan, FIRST)) == KEPT_SAID
    assert taken(a_run(plan, "earlier1"), FIRST, cuts_of(plan, FIRST)) == "", "a repeat of the run that took it"
    assert taken(run, replace(FIRST, version=2), cuts_of(plan, FIRST)) == ""
    assert "was rewritten after it was taken" in taken(run, replace(FIRST, checksum="b" * 64), cuts_of(plan, FIRST))
    older = taken(run, FIRST, cuts_of(plan, FIRST, replace(FIRST, version=2)))
    assert "version 2 of 2026-11-27 was taken before, and 1 is older" in older
    unnumbered = replace(FIRST, version=0)
    assert taken(run, replace(unnumbered, checksum="b" * 64), cuts_of(plan, unnumbered)) == ""


@pytest.mark.parametrize("result", [{REASON: "the copy was restored"}, {AGAIN: True}, {MODE: "compare only"}])
def test_a_delivery_in_force_is_taken_once_more_by_whoever_asks_for_that(
    tmp_path: Path, result: dict[str, object]
) -> None:
    plan = planned(tmp_path)
    assert taken(a_run(plan, **result), FIRST, cuts_of(plan, FIRST)) == ""
    assert taken(a_run(plan, **dict.fromkeys(result)), FIRST, cuts_of(plan, FIRST)) == KEPT_SAID


def test_a_delivery_whose_date_is_not_well_is_taken_once_more(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    cuts = cuts_of(plan, FIRST)
    (cut,) = cuts
    broken = replace(cut, verdict=Verdict.BREAK)
    assert taken(a_run(plan), FIRST, [broken], [take_of(broken, Verdict.BREAK)]) == ""
    failed = take_of(cut, **{FAILURE: {"task": "cut", "error": "the place does not answer"}})
    assert failed.headline is Headline.NOT_RUN
    assert taken(a_run(plan), FIRST, cuts, [failed, take_of(cut)]) == "", "a take behind it has failed"
    only_compared = take_of(cut, Verdict.BREAK, **{MODE: "compare only"})
    assert taken(a_run(plan), FIRST, cuts, [only_compared, take_of(cut)]) == "", "a later comparison has found a break"
    assert taken(a_run(plan), FIRST, cuts, [take_of(cut, **{MODE: "compare only"}), take_of(cut)]) == KEPT_SAID
    assert taken(a_run(plan), FIRST, cuts, []) == "", "nothing is known of the take that published it"
    lacks = [replace(cut, tables=("other",))]
    assert taken(a_run(plan), FIRST, lacks) == "", "a table has come since, or is not parked any more"


DECLARED_ANEW = ". The declaration has changed since that version was made: "
RULE = RulePlan("once", "account", Says.UNIQUE, ("id",))
TOTAL = ControlTotalPlan("account", "id")
COLUMNS = (Column("id", Kind.INTEGER, "bigint", nullable=False, length=64), Column("note", Kind.STRING, "text"))
ACCOUNT = Table("account", COLUMNS, ("id",))


def of_accounts(plan: SyncPlan, transform: RowTransform | None = None, table: Table = ACCOUNT) -> SyncPlan:
    return replace(plan, tables=(replace(plan.tables[0], table=table, transform=transform),))


def kept_part(name: str) -> RowTransform:
    (column,) = (one for one in COLUMNS if one.name == name)
    return RowTransform(
        "account.sql", f"SELECT {name}", Table("account", (column,)), (Expression("column", "", value=name),)
    )


def test_a_delivery_that_was_taken_by_another_declaration_stays_and_the_run_says_what_has_changed(
    tmp_path: Path,
) -> None:
    """It was a no-op without a word: the rows of a changed transform were expected and not there."""
    plan = replace(of_accounts(planned(tmp_path)), config_hash="now")
    before = replace(plan, config_hash="before")
    (warehouse,) = plan.destinations
    wider = replace(COLUMNS[1], source_type="varchar(9)", length=9)
    for was, part in (
        (of_accounts(before, kept_part("id")), "the transform of table account"),
        (of_accounts(before, table=replace(ACCOUNT, columns=(COLUMNS[0], wider))), "the columns of table account"),
        (replace(before, reconcile=ReconcilePlan(expectations="suite")), "the expectations"),
        (replace(before, reconcile=ReconcilePlan(rules=(RULE,))), "the rules"),
        (replace(before, reconcile=ReconcilePlan(control_totals=(TOTAL,))), "the control totals"),
        (replace(before, derived=(DerivedTablePlan("sums", "account", "id"),)), "derived table sums"),
        (replace(before, source=replace(plan.source, options=(("csv", "{}"),))), "`csv` of source core_bank"),
        (replace(before, destinations=(replace(warehouse, namespace="other"),)), "where destination warehouse keeps"),
    ):
        said = taken(a_run(plan), FIRST, cuts_of(plan, FIRST), made_by=was)
        assert said.startswith(f"{KEPT_SAID}{DECLARED_ANEW}{part}"), said
        assert said.endswith('run `./seamline cut settlement 2026-11-27 --reason "the declaration has changed"`')
        assert taken(a_run(plan, **{REASON: "changed"}), FIRST, cuts_of(plan, FIRST), made_by=was) == ""
    both = of_accounts(before, kept_part("id"))
    named = of_accounts(plan, kept_part("note"))
    assert "the transform of table account" in taken(a_run(named), FIRST, cuts_of(plan, FIRST), made_by=both)


def test_a_declaration_that_decides_nothing_of_the_cut_is_no_other_one(tmp_path: Path) -> None:
    plan = of_accounts(planned(tmp_path), kept_part("id"))
    assert plan.nightly
    later = replace(plan, config_hash="other", nightly=replace(plan.nightly, keep_days=7, verdict_by="06:00"))
    moved = replace(plan.tables[0], transform=replace(kept_part("id"), file="renamed.sql", text="select  id"))
    later = replace(later, tables=(moved,), source=replace(plan.source, reader="another_login"))
    assert taken(a_run(later), FIRST, cuts_of(plan, FIRST), made_by=plan) == KEPT_SAID
    more = replace(plan.source, options=(*plan.source.options, ("of_a_later_version", "")))
    assert taken(a_run(replace(plan, source=more)), FIRST, cuts_of(plan, FIRST), made_by=plan) == KEPT_SAID


def test_what_a_run_has_kept_is_read_back_with_what_has_changed(tmp_path: Path) -> None:
    kept = {"warehouse": Kept("earlier1", 1, "why", ("the rules",))}
    written = json.loads(json.dumps(kept_to_json(kept)))
    plan = planned(tmp_path)
    assert kept_in(a_run(plan, **{KEPT: written})) == kept
    del written["warehouse"]["changed"]
    assert kept_in(a_run(plan, **{KEPT: written})) == {"warehouse": Kept("earlier1", 1, "why")}, "of a run of before"


def test_a_destination_that_lacks_the_delivery_takes_it_alone(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    both = replace(plan, destinations=(*plan.destinations, replace(plan.destinations[0], name="later")))
    cuts = cuts_of(plan, FIRST)
    run = a_run(both)
    with pytest.raises(DeliveryInForce) as found:
        require_wanted(run, FIRST, takes=[take_of(one) for one in cuts], published=cuts, plan_of=lambda _: plan)
    run = replace(run, result={KEPT: kept_to_json(found.value.kept)})
    assert (run.taking.plan.destination_names, run.plan.destination_names) == ({"later"}, {"later", "warehouse"})
    assert {name: (one.run, one.version) for name, one in kept_in(run).items()} == {"warehouse": ("earlier1", 1)}
    assert taken(run, FIRST, cuts) == ""
    second = replace(FIRST, version=2)
    assert taken(run, second, cuts) == "no destination has it", "it came meanwhile: all take it"
    everywhere = [*cuts, *cuts_of(plan, FIRST, at="later")]
    said = taken(a_run(both), FIRST, everywhere)
    assert said.count("is taken already") == 2


def test_each_job_looks_anew_what_is_in_force_and_forgets_what_one_before_it_has_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that died had found a delivery in force; this one finds a correction of it, and takes that."""
    kept: dict[str, Any] = {KEPT: {"warehouse": {}}, TOOK_NOTHING: True}
    run = a_run(planned(tmp_path), **kept)
    monkeypatch.setattr(job, "_taken", lambda _, whole, *__: whole.taking.plan.destination_names)
    store: Any = SimpleNamespace(put_result=lambda _, key, value: kept.update({key: value}))
    nothing: Any = None
    assert job._all_taken(nothing, run, store, nothing, []) == {"warehouse"}
    assert kept == {KEPT: None, TOOK_NOTHING: None}
