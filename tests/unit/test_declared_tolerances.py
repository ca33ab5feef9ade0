"""Tolerances of a sync's file: what may be declared, and that another text is another tolerance."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from seamline.domain.errors import ConfigError
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from seamline.spec.tolerances import declared_tolerances
from tests.unit.declared import FILES, write_declarations

SYNC = FILES["syncs/settlement.yaml"]
ENTRY = (
    "{table: ledger_entry, column: amount, amount: 0.05, until: 2027-03-31, asked_by: olga, approver: paul,"
    " reason: fees}"
)


def written(folder: Path, *entries: str) -> Path:
    lines = "".join(f"    - {one}\n" for one in entries)
    text = SYNC.replace("reconcile:\n", f"reconcile:\n  tolerances:\n{lines}")
    return write_declarations(folder, {"syncs/settlement.yaml": text})


def test_an_entry_is_a_tolerance_in_each_destination_or_in_the_one_that_it_names(tmp_path: Path) -> None:
    (one,) = declared_tolerances(written(tmp_path, ENTRY), "settlement")
    asked = one.asked
    assert (asked.destination, asked.table, asked.column, asked.amount, asked.until, asked.why) == (
        "warehouse", "ledger_entry", "amount", Decimal("0.05"), date(2027, 3, 31), "fees",
    )  # fmt: skip
    assert (one.asked_by, one.approver) == ("olga", "paul")
    named = ENTRY.replace("{table", "{destination: warehouse, table")
    assert declared_tolerances(written(tmp_path, named), "settlement") == (one,)
    assert declared_tolerances(write_declarations(tmp_path), "settlement") == ()
    assert declared_tolerances(tmp_path, "another") == ()


def test_every_word_of_it_is_in_its_hash(tmp_path: Path) -> None:
    (one,) = declared_tolerances(written(tmp_path, ENTRY), "settlement")
    others = {
        replace(one, asked_by="x").hash,
        replace(one, approver="x").hash,
        *(
            replace(one, asked=replace(one.asked, **change)).hash
            for change in (
                {"sync": "x"},
                {"destination": "x"},
                {"table": "x"},
                {"column": "x"},
                {"amount": Decimal("0.06")},
                {"until": date(2027, 4, 1)},
                {"why": "x"},
            )
        ),
    }
    assert len(others | {one.hash}) == 10
    respelled = ENTRY.replace("0.05", "5.0e-2").replace("reason: fees", 'reason: "fees"')
    assert declared_tolerances(written(tmp_path, respelled), "settlement")[0].hash == one.hash


def test_the_plan_has_the_hashes_and_none_where_nothing_is_declared(tmp_path: Path) -> None:
    (one,) = declared_tolerances(written(tmp_path, ENTRY), "settlement")
    plan = compile_plan(load_declarations(tmp_path), "settlement")
    assert plan.reconcile.tolerances == (one.hash,)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert "tolerances" not in plan_to_json(compile_plan(load_declarations(write_declarations(tmp_path)), "settlement"))


WRONG = {
    "the same person twice": (ENTRY.replace("asked_by: olga", "asked_by: 'paul '"), "both asks for it and approves it"),
    "a column that nothing sums": (ENTRY.replace("column: amount", "column: id"), "no control total sums 'id'"),
    "a strange destination": (
        ENTRY.replace("{table", "{destination: lake, table"),
        "has no destination 'lake'",
    ),
    "no day": (ENTRY.replace("2027-03-31", "soon"), "a day as 2027-03-31"),
    "nothing": (ENTRY.replace("0.05", "0"), "must be more than 0"),
    "no approver": (ENTRY.replace("approver: paul, ", ""), "is missing"),
    "an unknown key": (ENTRY.replace("reason:", "because:"), "because"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, what: str) -> None:
    entry, said = WRONG[what]
    folder = written(tmp_path, entry)
    with pytest.raises(DeclarationsInvalid) as refused:
        load_declarations(folder)
    assert said in str(refused.value) and "settlement.yaml" in str(refused.value)


def test_a_file_that_cannot_say_it_is_an_error_and_never_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path, ENTRY.replace("approver: paul, ", ""))
    with pytest.raises(ConfigError, match="does not say what of settlement is tolerated"):
        declared_tolerances(folder, "settlement")


@pytest.mark.parametrize("value", ["[x]", "{x: 1}", "", "7", "mysql://u:hunter2@h/b", "2026-01-01"])
def test_whatever_stands_in_an_entry_is_a_fault_and_repeats_no_password(tmp_path: Path, value: str) -> None:
    destination = ENTRY.replace("{table", "{destination: warehouse, table")
    for word in ("warehouse", "ledger_entry", "amount,", "0.05", "2027-03-31", "olga", "paul", "fees"):
        folder = written(tmp_path, destination.replace(f": {word}", f": {value}," if word[-1] == "," else f": {value}"))
        try:
            load_declarations(folder)
        except DeclarationsInvalid as refused:
            assert "hunter2" not in str(refused), word
    for total in ("{table: [x], sum: amount}", "{table: ledger_entry, sum: {x: 1}}", "[x]"):
        text = (folder / "syncs" / "settlement.yaml").read_text(encoding="utf-8")
        said = text.replace("{table: ledger_entry, sum: amount, by: [currency]}", total)
        with pytest.raises(DeclarationsInvalid):
            load_declarations(write_declarations(tmp_path, {"syncs/settlement.yaml": said}))
