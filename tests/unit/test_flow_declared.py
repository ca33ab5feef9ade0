"""How far behind a destination may be: declared, planned, refused."""

from pathlib import Path

import pytest

from seamline.plan.compile import compile_plan, config_hash
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from tests.unit.declared import SOURCE, SYNC, write_declarations

SYNC_FILE, SOURCE_FILE = "syncs/settlement.yaml", "sources/core_bank.yaml"


def declared(folder: Path, cut_off: str, log: str = "") -> Path:
    return write_declarations(
        folder, {SYNC_FILE: f"{SYNC}stream: {{cut_off_behind_gb: {cut_off}}}\n", SOURCE_FILE: SOURCE + log}
    )


def test_all_bounds_are_planned_and_come_back_from_the_text_of_the_plan(tmp_path: Path) -> None:
    folder = declared(tmp_path, "{warehouse: 2.5}", "log: {behind_max_gb: 3, source_backlog_max_gb: 40}\n")
    plan = compile_plan(load_declarations(folder), "settlement")
    assert plan.stream.cut_off_behind_gb == (("warehouse", 2.5),)
    assert (plan.source.log_behind_max_gb, plan.source.source_backlog_max_gb) == (3, 40)
    assert plan_from_json(plan_to_json(plan)) == plan


def test_a_sync_that_declares_none_keeps_its_hash_and_the_text_of_its_plan(tmp_path: Path) -> None:
    plain = load_declarations(write_declarations(tmp_path / "plain"))
    empty = load_declarations(declared(tmp_path / "empty", "{}"))
    assert config_hash(plain, "settlement") == config_hash(empty, "settlement")
    text = plan_to_json(compile_plan(plain, "settlement"))
    assert "behind_max_gb" not in text
    assert "source_backlog_max_gb" not in text
    assert "cut_off_behind_gb" not in text


@pytest.mark.parametrize(
    ("cut_off", "path", "cause"),
    [
        ("{warehose: 5}", "stream.cut_off_behind_gb.warehose", "is no destination of this sync"),
        ("{warehouse: 0}", "stream.cut_off_behind_gb.warehouse", "must be more than 0"),
    ],
)
def test_a_bound_that_is_wrong_is_reported_with_its_place(tmp_path: Path, cut_off: str, path: str, cause: str) -> None:
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(declared(tmp_path, cut_off))
    (fault,) = caught.value.faults
    assert fault.path == path
    assert cause in fault.cause
