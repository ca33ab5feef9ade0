"""Sources whose log nobody may read: one snapshot for a whole night, by a login that may SELECT and no more."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.bulk.read import RunReader, SourceAtOnePosition
from seamline.bulk.threads import CopyingHere
from seamline.domain.digest import Segment
from seamline.domain.runs import RunKind, RunState
from seamline.domain.unlogged import UnloggedPosition
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import NightlyPlan, Run, SyncPlan, TablePlan
from seamline.ports import TableRead
from seamline.sync.comparison import Work, compare_tables
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.unlogged import TABLES, TOTAL, Bank, unlogged_bank

NAME, DAY = "unlogged", date(2026, 11, 28)
WAREHOUSE = f"{NAME}_warehouse"


@dataclass
class Reading:
    bank: Bank
    run: Run
    warehouse: Connection

    @contextmanager
    def open(self) -> Iterator[tuple[RunReader, SourceAtOnePosition]]:
        reader = RunReader(self.run, tasks=lambda _: 2, copying_of=lambda groups, _: CopyingHere(groups))
        reads = [TableRead(one.definition, Segment(one.name)) for one in self.run.plan.tables]
        with reader.open_read(reads) as opened:
            yield reader, opened

    def judged(self, reader: RunReader, opened: SourceAtOnePosition) -> dict[str, TableVerdict]:
        """Source against what is staged, both in the one snapshot that is held."""
        (destination,) = self.run.plan.destinations
        loads = opened.stage(destination)
        source = opened.views_for(destination)
        with reader.open_staged(destination, loads, len(source)) as staged:
            work = [Work(one.table, Segment(one.table.name), Segment(one.table.name)) for one in loads]
            return {one.table: one for one in compare_tables(work, source=source, destination=staged)}

    def staged(self, opened: SourceAtOnePosition, question: str) -> Any:
        (destination,) = self.run.plan.destinations
        loads = opened.stage(destination)
        places = {one.table.name: f'{destination.stage_namespace}."{one.staged_as}"' for one in loads}
        with closing(postgres(self.warehouse)) as session:
            row = session.execute(question.format(**places).encode()).fetchone()
        assert row is not None
        return row[0]


@pytest.fixture(params=["postgres", "mariadb", "mysql"])
def reading(request: pytest.FixtureRequest) -> Iterator[Reading]:
    kind = request.param
    server = request.getfixturevalue("mysql_root") if kind == "mysql" else None
    with ExitStack() as around:
        bank = around.enter_context(unlogged_bank(kind, NAME, DAY, server=server))
        warehouse = around.enter_context(postgres_database(WAREHOUSE))
        around.enter_context(destination_known_by_id(warehouse, WAREHOUSE))
        plan = SyncPlan("night", bank.plan, (destination_plan(WAREHOUSE, "night"),), (), nightly=NightlyPlan())
        survey = registry.source(plan).survey(TABLES)
        assert survey.problems == ()
        plan = replace(plan, tables=tuple(TablePlan(one.name, None, one) for one in survey.tables))
        run = Run("night/nightly/2026-11-28/1", "night", RunKind.NIGHTLY, DAY, plan, RunState.RUNNING)
        yield Reading(bank, run, warehouse)


def test_the_rights_of_the_printed_script_are_all_that_preflight_asks_for(reading: Reading) -> None:
    plan = reading.run.plan
    fatal = [one for one in registry.source(plan).preflight([one.definition for one in plan.tables]) if one.is_fatal]
    assert fatal == []
    reading.bank.execute(f"REVOKE SELECT ON entry FROM {reading.bank.reader}")
    (missing,) = [
        one for one in registry.source(plan).preflight([one.definition for one in plan.tables]) if one.is_fatal
    ]
    assert (missing.table, "SELECT" in missing.what) == ("entry", True)


def test_a_night_is_one_snapshot_while_money_moves_and_says_which_read_it_was(reading: Reading) -> None:
    with reading.bank.money_moves(), reading.open() as (reader, opened):
        position = opened.position
        assert isinstance(position, UnloggedPosition)
        assert position.read.startswith("night/nightly/2026-11-28/1/")
        assert position.at == opened.position_time
        assert reading.staged(opened, "SELECT sum(balance) FROM {account}") == TOTAL
        verdicts = reading.judged(reader, opened)
    assert {name: one.verdict for name, one in verdicts.items()} == dict.fromkeys(TABLES, Verdict.MATCH)
    with reading.open() as (_, again):
        assert not again.position.covers(position)


def test_a_row_that_was_staged_otherwise_is_a_break_of_this_read(reading: Reading) -> None:
    """The planted one."""
    with reading.open() as (reader, opened):
        reading.staged(opened, "UPDATE {account} SET balance = balance + 1 WHERE id = 7 RETURNING id")
        verdicts = reading.judged(reader, opened)
    assert verdicts["account"].verdict is Verdict.BREAK
    assert [one.key for one in verdicts["account"].breaks] == ['{"id": "7"}']
