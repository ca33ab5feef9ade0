"""What a changed list of tables means for running streams."""

from dataclasses import replace

import pytest

from seamline.domain.cutover import Boundary
from seamline.domain.errors import Refused
from seamline.domain.ledger import LedgerRow
from seamline.domain.runs import RunKind, RunState
from seamline.plan.list_change import ListChange, altered, entering_only, list_change
from seamline.plan.model import Run
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, position, sync_plan


def carrying(*tables: str) -> LedgerRow:
    boundaries = tuple(Boundary(table, position(1)) for table in tables)
    return LedgerRow(STREAM, "t", "t-1", 5, position(1), 3, 0, 0, boundaries)


def test_tables_enter_and_leave_by_the_list_and_are_loaded_again_by_name() -> None:
    ledgers = {"warehouse": carrying("account", "audit", "old")}
    change = list_change(sync_plan(TABLES), ledgers, again=["audit"])
    assert change == ListChange(added=("transfer",), again=("audit",), removed=("old",))
    assert change.entering == ("transfer", "audit")
    assert ListChange.from_json(change.as_json()) == change
    run = Run("r", "settlement", RunKind.TABLES, None, sync_plan(TABLES), RunState.RUNNING)
    assert [table.name for table in entering_only(run, change).plan.tables] == ["transfer", "audit"]


def test_an_unchanged_list_is_nothing_to_do() -> None:
    assert not list_change(sync_plan([ACCOUNT]), {"warehouse": carrying("account")}, again=[])


@pytest.mark.parametrize("name", ["transfer", "audit", "nowhere"])
def test_only_a_table_that_is_carried_and_declared_can_be_loaded_again(name: str) -> None:
    plan, ledgers = sync_plan([ACCOUNT, TRANSFER]), {"warehouse": carrying("account", "audit")}
    with pytest.raises(Refused, match=f"{name} cannot be loaded again") as raised:
        list_change(plan, ledgers, again=[name])
    assert raised.value.hint == "carried: account"


def test_destinations_that_carry_different_tables_are_refused() -> None:
    ledgers = {"warehouse": carrying("account"), "lake": carrying("account", "audit")}
    with pytest.raises(Refused, match="different tables: audit"):
        list_change(sync_plan([ACCOUNT, AUDIT]), ledgers, again=[])


def test_a_sync_that_was_never_published_is_onboarded_first() -> None:
    with pytest.raises(Refused, match="nothing was published") as raised:
        list_change(replace(sync_plan(), sync="settlement"), {"warehouse": None}, again=[])
    assert raised.value.hint == "run settlement__onboard"


def test_a_carried_table_that_has_another_schema_now_is_named_and_one_that_is_added_is_not() -> None:
    known, grown = sync_plan([ACCOUNT, AUDIT]), replace(ACCOUNT, rows_estimate=7)
    assert altered(known, sync_plan([grown, TRANSFER]), ListChange(added=("transfer",), removed=("audit",))) == []
    wider = replace(ACCOUNT, columns=(*ACCOUNT.columns, AUDIT.columns[0]))
    assert altered(known, sync_plan([wider, AUDIT]), ListChange()) == ["account"]
    assert altered(known, sync_plan([wider, AUDIT]), ListChange(again=("account",))) == ["account"]
    assert altered(known, sync_plan([wider, AUDIT]), ListChange(added=("account",))) == []
