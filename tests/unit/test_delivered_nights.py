"""Syncs whose source delivers each business date: what they declare, what a night reads, and that it is taken once."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from seamline.domain.day_closed import ClosedBy
from seamline.domain.errors import Refused
from seamline.domain.runs import Cut, RunKind, RunState
from seamline.domain.verdict import Verdict
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import Run, SyncPlan
from seamline.plan.stages import all_stages
from seamline.sources.files.position import FilesPosition
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from seamline.sync.cut import select
from seamline.sync.delivered import require_new
from tests.documented import declarations_of
from tests.unit.declared import write_declarations

DAY = date(2026, 11, 27)
FILES = "source: core_bank\nkind: files\nlocation: /srv/in\ndelivery: 'settlement/{date}/v{version}'\n"
SYNC = "sync: settlement\nsource: core_bank\ndestinations: [warehouse]\ntables: [account]\nnightly: {timezone: UTC}\n"


def planned(folder: Path) -> SyncPlan:
    files = {"sources/core_bank.yaml": FILES, "syncs/settlement.yaml": SYNC}
    return compile_plan(load_declarations(write_declarations(folder, files)), "settlement")


def test_the_declarations_of_the_page_go_together(tmp_path: Path, checkout: Path) -> None:
    """Its second sync wrote the tables of the first one into the same destination, which is refused."""
    shown = declarations_of(checkout, "docs/how-to/deliver-files.md")
    before = (
        "sync: settlement\nsource: core_bank\ntables: [account, ledger_entry]\nnightly: {timezone: Asia/Shanghai}\n"
    )
    shown["syncs/settlement.yaml"] = before + shown["syncs/settlement.yaml"]
    declarations = load_declarations(write_declarations(tmp_path, shown))
    delivered, taken = (compile_plan(declarations, name) for name in ("settlement", "bank_copy"))
    assert delivered.destination_names == {"warehouse", "partner"}
    assert (taken.destination_names, taken.streamed.destinations) == ({"copy"}, ())


def test_a_night_waits_for_the_flag_and_has_no_stream(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert (plan.source.has_log, plan.streamed.destinations) == (False, ())
    assert plan.nightly
    (wanted,) = plan.nightly.closed_when
    assert (wanted.by, wanted.what) == (ClosedBy.DELIVERY, "settlement/{date}/v{version}/_SUCCESS")
    assert plan.nightly.is_delivered
    assert [stage.id for stage in all_stages(plan)["nightly"]][:3] == ["open", "ready", "cut"]
    assert plan_from_json(plan_to_json(plan)) == plan
    text = explain(plan)
    assert "from core_bank (files, /srv/in): reads as the account of its tasks; each night is the delivery" in text
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


def taken(plan: SyncPlan, position: FilesPosition, *before: FilesPosition, by: str = "earlier") -> str:
    """Why a delivery is refused after others; "" where it is not."""
    run = Run("mine", plan.sync, RunKind.NIGHTLY, DAY, plan, RunState.RUNNING)
    at = datetime(2026, 11, 28, tzinfo=UTC)
    cuts = [
        Cut(plan.sync, "warehouse", DAY, number, by, one, at, ("account",), Verdict.MATCH)
        for number, one in enumerate(before, start=1)
    ]
    try:
        require_new(run, position, cuts)
    except Refused as exc:
        return exc.message
    return ""


def test_a_delivery_is_taken_once_and_a_correction_after_it(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert taken(plan, FIRST) == ""
    assert "was taken already: it is version 1 of 2026-11-27 in warehouse, by run earlier" in taken(plan, FIRST, FIRST)
    assert taken(plan, FIRST, FIRST, by="mine") == ""
    assert taken(plan, replace(FIRST, version=2), FIRST) == ""
    assert "was rewritten after it was taken" in taken(plan, replace(FIRST, checksum="b" * 64), FIRST)
    assert "version 2 of 2026-11-27 was taken before, and 1 is older" in taken(plan, FIRST, replace(FIRST, version=2))
    unnumbered = replace(FIRST, version=0)
    assert taken(plan, replace(unnumbered, checksum="b" * 64), unnumbered) == ""


def test_a_destination_that_lacks_the_delivery_lets_the_date_run(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    both = replace(plan, destinations=(*plan.destinations, replace(plan.destinations[0], name="later")))
    assert taken(both, FIRST, FIRST) == ""
