"""`reconcile.mode`: how the live tables of each destination are brought to the position of the source."""

from pathlib import Path

import pytest

from seamline.plan.compile import compile_plan, config_hash
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from tests.unit.declared import DESTINATION, SYNC, write_declarations

SYNC_FILE = "syncs/settlement.yaml"
COPY = DESTINATION.replace("warehouse", "copy")
LAKE = "destination: lake\nkind: iceberg\nconnection: warehouse\nnamespace: bank\nwarehouse: file:/lake\n"


def declared(folder: Path, mode: str, *, into: str = "warehouse", lake: str = LAKE) -> Path:
    text = SYNC.replace("[warehouse]", f"[{into}]").replace("reconcile:\n", f"reconcile:\n  mode: {mode}\n")
    others = {f"destinations/{name}.yaml": file for name, file in (("copy", COPY), ("lake", lake)) if name in into}
    return write_declarations(folder, {SYNC_FILE: text, **others})


def said(plan_text: str) -> str:
    return " ".join(plan_text.split())


def test_the_mode_of_each_destination_is_planned_and_printed(tmp_path: Path) -> None:
    folder = declared(tmp_path, "{copy: log}", into="warehouse, copy")
    plan = compile_plan(load_declarations(folder), "settlement")
    assert plan.reconcile.by_log == ("copy",)
    assert plan_from_json(plan_to_json(plan)) == plan
    text = said(explain(plan))
    assert "warehouse by the barrier: the stream is held at an END while both sides are opened there" in text
    assert "copy by the log, as declared: nobody holds the stream" in text


def test_one_mode_counts_for_all_destinations(tmp_path: Path) -> None:
    plan = compile_plan(load_declarations(declared(tmp_path, "log", into="warehouse, copy")), "settlement")
    assert plan.reconcile.by_log == ("warehouse", "copy")


def test_a_sync_that_declares_no_mode_keeps_its_hash_and_the_text_of_its_plan(tmp_path: Path) -> None:
    plain = load_declarations(write_declarations(tmp_path / "plain"))
    named = load_declarations(declared(tmp_path / "named", "barrier"))
    assert config_hash(plain, "settlement") == config_hash(named, "settlement")
    by_log = load_declarations(declared(tmp_path / "log", "log"))
    assert config_hash(by_log, "settlement") != config_hash(plain, "settlement")
    assert "by_log" not in plan_to_json(compile_plan(plain, "settlement"))


@pytest.mark.parametrize(
    ("mode", "path", "cause"),
    [
        ("fast", "reconcile.mode", "'fast' is no mode: write barrier or log"),
        ("[log]", "reconcile.mode", "is no mode"),
        ("{warehouse: fast}", "reconcile.mode", "is no mode"),
        ("{}", "reconcile.mode", "is no mode"),
        ("{warehose: log}", "reconcile.mode.warehose", "is no destination of this sync"),
    ],
)
def test_a_mode_that_is_wrong_is_reported_with_its_line(tmp_path: Path, mode: str, path: str, cause: str) -> None:
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(declared(tmp_path, mode))
    (fault,) = caught.value.faults
    assert (fault.path, fault.line) == (path, 10)
    assert cause in fault.cause


def test_a_lake_keeps_versions_and_is_not_compared_by_the_log(tmp_path: Path) -> None:
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(declared(tmp_path, "log", into="warehouse, lake"))
    (fault,) = [one for one in caught.value.faults if one.path == "reconcile.mode"]
    assert "`lake` (iceberg) keeps versions of its tables" in fault.cause
