"""Nights of a captured source whose business dates end when somebody says so, cut by both ways in this process."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.bulk.read import RunReader
from seamline.bulk.since_cut import way_of
from seamline.bulk.threads import CopyingHere
from seamline.domain.calendar import Day
from seamline.domain.made_from import MadeFrom
from seamline.domain.runs import EXPECTATIONS, Reconciliation
from seamline.domain.staged_cut import StagedCut
from seamline.plan.document import plan_to_json
from seamline.plan.model import BusinessDate, DestinationPlan, NightlyPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.platform import migrate
from seamline.platform.store import PlatformStore
from seamline.sync.cut import publish_cut
from seamline.sync.nightly_cut import CutTools, take_conclusive_cut
from tests.integration.captured import ACCOUNT as MYSQL_ACCOUNT
from tests.integration.captured import AUDIT as MYSQL_AUDIT
from tests.integration.captured import Captured, captured
from tests.integration.captured_mysql import captured_mysql
from tests.integration.captured_postgres import ACCOUNT, AUDIT, FULL, captured_postgres
from tests.integration.databases import mariadb, postgres, postgres_database
from tests.integration.into_mariadb import plan_of, warehouse_in_mariadb
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.snapshot_run import run_of
from tests.spark.hosts import uri
from tests.waiting import wait_until

Rows = dict[str, list[tuple[Any, ...]]]


@dataclass
class Nights:
    """A captured source, a destination, and business dates that end when a test says so."""

    bank: Captured
    plan: SyncPlan
    warehouse: Connection
    second: Connection | None
    store: PlatformStore
    ends: dict[date, datetime] = field(default_factory=dict)
    held: dict[date, Rows] = field(default_factory=dict)
    runs: int = 0

    def end(self, day: date) -> None:
        """The date ends with the next second; what is written from then on is of a later one."""
        self.held[day] = {table.name: self.bank.rows(table.name) for table in self.plan.tables}
        end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
        self.ends[day] = end
        wait_until(lambda: datetime.now(UTC) >= end, timeout_s=5, what="the cut-off")

    def take(self, day: date, made_from: MadeFrom = MadeFrom.LOG) -> dict[str, tuple[StagedCut, Reconciliation]]:
        """By destination the cut, and what was found of it."""
        self.runs += 1
        plan = replace(self.plan, nightly=replace(self.plan.nightly or NightlyPlan(), made_from=made_from))
        run_id = f"{plan.sync}__nightly/{day}~{self.runs}"
        self.store.start_run(
            run_id=run_id, sync=plan.sync, kind="nightly", plan_json=plan_to_json(plan), business_date=day
        )
        run = self.store.run(run_id)

        def read(part: Run) -> CutTools:
            reader = RunReader(part, tasks=lambda _: 1, copying_of=lambda groups, _: CopyingHere(groups))
            nothing: Any = None
            return CutTools(
                reader.open_read,
                reader.open_staged,
                nothing,
                lambda *_: None,
                lambda *_: (),
                reader.open_cut,
                self.store,
            )

        tools = read(replace(run, plan=run.plan.of_cuts))
        with closing(registry.pruning_holds()) as holds:
            way = way_of(run, tools, read, history=self.store, holds=holds)
            cuts = take_conclusive_cut(run, replace(tools, log=way))
        return {name: (cut, self._found(cut)) for name, cut in cuts.items()}

    def _found(self, cut: StagedCut) -> Reconciliation:
        found = self.store.reconciliation(cut.run_id, "cut", cut.destination)
        assert found is not None, "the cut was not judged"
        return found

    def publish(self, cut: StagedCut) -> None:
        checked = {one.name: {"verdict": "MATCH"} for one in self.plan.destinations}
        self.store.put_result(cut.run_id, EXPECTATIONS, {"destinations": checked})
        with closing(registry.cuts(self.plan.destination(cut.destination))) as cuts:
            publish_cut(self.store.run(cut.run_id), cut.destination, publisher=cuts, records=self.store)

    def staged(self, cut: StagedCut) -> Rows:
        schema = self.plan.destination(cut.destination).stage_namespace
        return {
            table.table: self.query(cut.destination, f"SELECT * FROM {schema}.{table.staged_as}")
            for table in cut.tables
        }

    def query(self, destination: str, statement: str) -> list[tuple[Any, ...]]:
        if destination == "warehouse":
            with postgres(self.warehouse) as session:
                return session.execute(statement.encode()).fetchall()
        assert self.second is not None
        with closing(mariadb(self.second)) as second, second.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


@contextmanager
def nights_of(
    kind: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    create: str,
    tables: Sequence[str],
    dated: Mapping[str, BusinessDate],
    server: Connection | None = None,
) -> Iterator[Nights]:
    """Of a captured source of this kind, into PostgreSQL (`warehouse`) and MariaDB (`second`). `create`: the table that
    it has beside `account` and `audit`. `server`: of a MySQL that is the source, as root."""
    with ExitStack() as around:
        destination, warehouse, store = _platform_and_warehouse(around, name, monkeypatch)
        bank: Captured
        if server is not None:
            made_in_it = (MYSQL_ACCOUNT, MYSQL_AUDIT, create)
            bank = around.enter_context(captured_mysql(server, name, create=made_in_it, tables=tuple(tables)))
        elif kind == "mariadb":
            bank = around.enter_context(captured(name))
            bank.execute(create)
        else:
            made = captured_postgres(name, create=(ACCOUNT, AUDIT, FULL, create), tables=tuple(tables))
            bank = around.enter_context(made)
        second = replace(plan_of(f"{name}_second"), name="second")
        second_there = around.enter_context(warehouse_in_mariadb(second.namespace))
        bank.plan = replace(bank.with_tables(*tables), destinations=(destination, second))
        bank.ensure()
        plan = run_of(bank, tuple(tables)).plan
        entries = (replace(one, business_date=dated.get(one.name)) for one in plan.tables)
        plan = replace(plan, tables=tuple(entries), nightly=NightlyPlan(as_of_max_s=86_400))
        yield _ending_by_hand(Nights(bank, plan, warehouse, second_there, store), monkeypatch)


@contextmanager
def nights_of_unlogged(
    source: SourcePlan, bank: Any, tables: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Nights]:
    """Of a source that has no log, into PostgreSQL. `bank`: what the test does to it."""
    with ExitStack() as around:
        destination, warehouse, store = _platform_and_warehouse(around, source.name, monkeypatch)
        plan = SyncPlan(f"{source.name}_sync", source, (destination,), (), nightly=NightlyPlan(as_of_max_s=86_400))
        found = registry.source(plan).survey(tables)
        assert found.problems == ()
        plan = replace(plan, tables=tuple(TablePlan(one.name, None, one) for one in found.tables))
        yield _ending_by_hand(Nights(bank, plan, warehouse, None, store), monkeypatch)


def _platform_and_warehouse(
    around: ExitStack, name: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[DestinationPlan, Connection, PlatformStore]:
    destination = destination_plan(f"{name}_warehouse", "bank")
    warehouse = around.enter_context(postgres_database(destination.connection))
    platform = around.enter_context(postgres_database(f"{name}_platform"))
    around.enter_context(destination_known_by_id(warehouse, destination.connection))
    monkeypatch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(platform))
    migrate.upgrade()
    return destination, warehouse, around.enter_context(closing(registry.platform()))


def _ending_by_hand(made: Nights, monkeypatch: pytest.MonkeyPatch) -> Nights:
    before = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("seamline.plan.model.day_of", lambda day, **_: Day(day, before, made.ends[day]))
    return made
