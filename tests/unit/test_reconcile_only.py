"""Declarations of syncs that only compare."""

from pathlib import Path

import pytest

from seamline.plan.checks import BudgetPlan
from seamline.plan.compile import compile_plan, config_hash
from seamline.plan.explain import explain
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations, onboarded_destinations, only_compares
from tests.unit.declared import DESTINATION, KNOWN, SYNC, write_declarations

MIRROR = """\
sync: mirror
source: core_bank
destinations: [copy]
tables: [account, ledger_entry]
reconcile_only:
  in_flight_max: 2min
  at: ["06:30", "18:00"]
  timezone: Asia/Shanghai
reconcile:
  control_totals:
    - {table: ledger_entry, sum: amount, by: [currency]}
"""
COPY = "destination: copy\nkind: mariadb\nconnection: warehouse\ndatabase: bank\n"
FILES = {"syncs/mirror.yaml": MIRROR, "destinations/copy.yaml": COPY}


def test_a_sync_that_only_compares_is_planned_and_explained(tmp_path: Path) -> None:
    folder = write_declarations(tmp_path, FILES)
    declarations = load_declarations(folder)
    plan = compile_plan(declarations, "mirror")
    assert plan.reconcile_only is not None
    assert (plan.reconcile_only.in_flight_max_s, plan.reconcile_only.at) == (120, ("06:30", "18:00"))
    text = explain(plan)
    assert "another tool carries the tables" in text and "06:30, 18:00 Asia/Shanghai" in text
    assert "mirror__stream" not in text and "mirror__onboard" not in text
    assert only_compares(folder, "mirror") and onboarded_destinations(folder, "mirror") == ()
    assert onboarded_destinations(folder, "settlement") == ("warehouse",)


def test_other_syncs_keep_the_hash_that_they_had(tmp_path: Path) -> None:
    declarations = load_declarations(write_declarations(tmp_path, FILES))
    assert config_hash(declarations, "settlement") == "92dca6ee11941bb645aeba986095ab2d9f9659555e65340116ab488c112b7d01"
    assert config_hash(declarations, "mirror") != config_hash(declarations, "settlement")


@pytest.mark.parametrize(
    "added",
    [
        "nightly:\n  timezone: UTC\n",
        "guarantee: exactly_once\n",
        "stream: {lag_max_s: 5}\n",
    ],
)
def test_what_belongs_to_carried_tables_is_refused(tmp_path: Path, added: str) -> None:
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(tmp_path, {**FILES, "syncs/mirror.yaml": MIRROR + added}))
    (fault,) = caught.value.faults
    assert fault.path == added.partition(":")[0]
    assert "carries no tables" in fault.cause and "reconcile_only" in fault.cure


def test_a_transform_of_a_table_that_is_only_compared_is_refused(tmp_path: Path) -> None:
    text = MIRROR.replace("[account, ", "[{name: account, business_date: {column: at, as: date}}, ")
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(tmp_path, {**FILES, "syncs/mirror.yaml": text}))
    assert [fault.path for fault in caught.value.faults] == ["tables[0].business_date"]


def test_how_long_a_change_is_on_its_way_must_be_said(tmp_path: Path) -> None:
    text = MIRROR.replace("  in_flight_max: 2min\n", "")
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(tmp_path, {**FILES, "syncs/mirror.yaml": text}))
    assert [fault.path for fault in caught.value.faults] == ["reconcile_only.in_flight_max"]


def test_a_kind_that_needs_a_ledger_of_ours_is_refused_and_delta_and_iceberg_are_read_by_their_own_logs(
    tmp_path: Path,
) -> None:
    lake = "destination: copy\nkind: {kind}\nconnection: warehouse\nnamespace: bank\nwarehouse: /tmp/lake\n"
    files = {**FILES, "destinations/copy.yaml": lake.format(kind="hudi")}
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(write_declarations(tmp_path / "hudi", files))
    (fault,) = [fault for fault in caught.value.faults if "without a ledger of ours" in fault.cause]
    assert fault.cure == "Such kinds can: delta, iceberg, iceberg_single, mariadb, mysql, postgres"
    for kind, more in (("iceberg", "catalog: theirs\n"), ("delta", "")):
        files["destinations/copy.yaml"] = f"{lake.format(kind=kind)}{more}"
        plan = compile_plan(load_declarations(write_declarations(tmp_path / kind, files)), "mirror")
        assert f"copy ({kind}, bank)" in explain(plan)


def test_a_table_may_be_carried_by_one_sync_and_compared_by_another(tmp_path: Path) -> None:
    mirror = MIRROR.replace("[copy]", "[warehouse]")
    load_declarations(write_declarations(tmp_path, {"syncs/mirror.yaml": mirror}))
    assert "settlement" in SYNC and "warehouse" in DESTINATION


def test_a_source_that_is_only_read_needs_no_connection_for_its_log(tmp_path: Path) -> None:
    known = {name: kind for name, kind in KNOWN.items() if name != "core_bank_capture"} | {"copy": "mysql"}
    files = {**FILES, "destinations/copy.yaml": COPY.replace("warehouse", "copy")}
    folder = write_declarations(tmp_path, files)
    with pytest.raises(DeclarationsInvalid):
        load_declarations(folder, connections=known)
    (folder / "syncs/settlement.yaml").unlink()
    load_declarations(folder, connections=known)


def test_a_budget_is_planned_and_one_beyond_the_life_of_a_view_is_refused(tmp_path: Path) -> None:
    budget = "  budget: {time: 20min, sessions: 1, pause_ms: 250}\n"
    declarations = load_declarations(write_declarations(tmp_path, {**FILES, "syncs/mirror.yaml": MIRROR + budget}))
    assert compile_plan(declarations, "mirror").reconcile.budget == BudgetPlan(1_200, 1, 0.25)
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(
            write_declarations(tmp_path, {**FILES, "syncs/mirror.yaml": MIRROR + budget.replace("20min", "2h")})
        )
    assert [fault.path for fault in caught.value.faults] == ["reconcile.budget.time"]
