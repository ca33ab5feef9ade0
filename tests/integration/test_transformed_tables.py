"""A sync of transformed tables on real servers: snapshot, stream and the comparison to the row, from MariaDB and from
PostgreSQL, into two destinations that hold some of the tables by transforms of their own."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, cast

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.analysis import analysed
from seamline.bulk.read import RunReader
from seamline.bulk.threads import CopyingHere
from seamline.domain.cut_job import CutJob
from seamline.domain.errors import GateFailed
from seamline.domain.row_transform import RowTransform
from seamline.domain.runs import Reconciliation, RunKind, RunState
from seamline.domain.verdict import BreakType, Verdict
from seamline.plan.checks import ControlTotalPlan, ReconcilePlan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.model import BusinessDate, DerivedTablePlan, NightlyPlan, Run, SyncPlan, TablePlan
from seamline.platform import migrate
from seamline.platform.store import PlatformStore
from seamline.ports import Survey
from seamline.sync.nightly_cut import CutTools, take_conclusive_cut
from seamline.sync.onboard import publish
from seamline.sync.snapshot import take_snapshot
from seamline_spark.compare.main import compare_run
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured
from tests.integration.captured_postgres import ACCOUNT, AUDIT, FULL, captured_postgres
from tests.integration.databases import mariadb, postgres, postgres_database
from tests.integration.into_mariadb import plan_of, warehouse_in_mariadb
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.snapshot_run import Meddler, Records, run_of, tools_of
from tests.integration.streaming_here import streaming
from tests.once_more import ONCE_MORE
from tests.spark.hosts import uri
from tests.waiting import wait_until

NAME = "transformed"
TABLES = ("account", "audit", "later", "booked")
BOOKED = "CREATE TABLE booked (id bigint PRIMARY KEY, day date, a int)"
LATER = "CREATE TABLE later (id bigint PRIMARY KEY, a int, memo text)"
QUERIES = {
    "account": "SELECT id, a * 2 AS doubled, sha2(memo, 256) AS memo,\n"
    "  concat(left(memo, 1), '***') AS shown, a AS plain FROM account",
    "audit": "SELECT coalesce(a, 0) AS a, left(memo, 2) AS memo FROM audit WHERE a IS NULL OR a <> 100",
    "later": "SELECT id, a + 1 AS a FROM later WHERE a > 0",
    "booked": "SELECT id, CAST(a * 10 AS DECIMAL(9, 1)) AS amount, day FROM booked WHERE id < 100",
}
# What the second destination holds of `account`; of `later` it holds the source's rows.
MASKED_FILE = "include/transforms/masked.sql"
MASKED = "SELECT id, left(memo, 1) AS initial, a + a AS doubled FROM account"
BROKEN = "SELECT id,\n  upper(memo) AS memo FROM broken"
# In PostgreSQL it lies outside of its row, so an update that leaves it alone does not have it in the log.
LARGE = {
    "mariadb": "large",
    "postgres": "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(300)),
}


def masked(memo: str) -> tuple[str, str]:
    return hashlib.sha256(memo.encode()).hexdigest(), f"{memo[:1]}***"


@dataclass
class Chain:
    """A published sync of transformed tables, which is streamed: into `warehouse`, which is PostgreSQL, and into
    `second`, which is MariaDB."""

    bank: Captured
    plan: SyncPlan
    warehouse: Connection
    second: Connection
    store: PlatformStore
    runs: int = 0

    def compare(self) -> dict[str, Reconciliation]:
        """By destination."""
        self.runs += 1
        run_id = f"{self.plan.sync}/reconcile/-/{self.runs}"
        self.store.start_run(run_id=run_id, sync=self.plan.sync, kind="reconcile", plan_json=plan_to_json(self.plan))
        return {found.destination: found for found in compare_run(run_id)}

    def query(self, statement: str) -> list[tuple[object, ...]]:
        with postgres(self.warehouse) as session:
            return session.execute(statement.encode()).fetchall()

    def query_second(self, statement: str) -> list[tuple[object, ...]]:
        with closing(mariadb(self.second)) as session, session.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def spoil(self, statement: str) -> None:
        with postgres(self.warehouse) as session:
            session.execute(statement.encode())

    @property
    def live(self) -> str:
        """The database of the second destination's live tables."""
        return self.plan.destination("second").namespace


def job(name: str, more: str) -> DerivedTablePlan:
    """It reads a column that the table's own transform makes."""
    text = f"SELECT day, sum(amount) AS amount{more} FROM booked GROUP BY day"
    return DerivedTablePlan(name, job=CutJob(f"include/transforms/{name}.sql", text, ("booked",)))


def transformed(run: Run) -> Run:
    """The run's tables by `QUERIES`, and in the second destination by what is its own, as preflight plans them."""
    wanted = tuple(
        replace(one, transform=RowTransform(f"include/transforms/{one.name}.sql", QUERIES[one.name]))
        for one in run.plan.tables
    )
    table = replace(wanted[0].definition, name="broken")
    broken = TablePlan("broken", None, table, RowTransform("include/transforms/broken.sql", BROKEN))
    own = (("account", RowTransform(MASKED_FILE, MASKED)), ("later", None))
    warehouse, second = run.plan.destinations
    plan = replace(
        run.plan,
        tables=(*wanted, broken),
        destinations=(warehouse, replace(second, transforms=own)),
        derived=(job("right", ""), job("wrong", ",\n  first(amount) AS one")),
    )
    made, mistakes = analysed(plan, Survey(tuple(one.definition for one in plan.tables)))
    problem, of_job = (mistake.problem for mistake in mistakes)
    assert (problem.is_fatal, problem.table) == (True, "broken")
    assert (of_job.is_fatal, of_job.table) == (True, "wrong")
    assert re.search(r"include/transforms/wrong\.sql:2  ", of_job.what), of_job.what
    assert re.search(r"include/transforms/broken\.sql:2  upper.*: Upper is not among", problem.what), problem.what
    found = (replace(one, transform=made[one.name, f"include/transforms/{one.name}.sql"]) for one in wanted)
    second = replace(second, transforms=(("account", made["account", MASKED_FILE]), ("later", None)))
    plan = replace(plan, tables=tuple(found), destinations=(warehouse, second), derived=())
    assert plan_from_json(plan_to_json(plan)) == plan
    return replace(run, plan=plan)


def in_postgres(name: str) -> AbstractContextManager[Captured]:
    return captured_postgres(name, create=(ACCOUNT, AUDIT, FULL, LATER, BOOKED), tables=TABLES)


@pytest.fixture(scope="module", params=[pytest.param("mariadb", marks=ONCE_MORE), "postgres"])
def chain(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[Chain]:
    name = f"{NAME}_{request.param}"
    destination = destination_plan(f"{name}_warehouse", "bank")
    with ExitStack() as around:
        warehouse = around.enter_context(postgres_database(destination.connection))
        platform = around.enter_context(postgres_database(f"{name}_platform"))
        around.enter_context(destination_known_by_id(warehouse, destination.connection))
        patch = around.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(platform))
        migrate.upgrade()
        bank = around.enter_context(captured(name) if request.param == "mariadb" else in_postgres(name))
        second = replace(plan_of(f"{name}_second"), name="second")
        second_there = around.enter_context(warehouse_in_mariadb(second.namespace))
        bank.plan = replace(bank.with_tables(*TABLES), destinations=(destination, second))
        if request.param == "mariadb":
            bank.execute(BOOKED)
        bank.ensure()
        bank.execute(
            "INSERT INTO account VALUES (1, 10, 'anna'), (2, NULL, NULL), (3, -3, '')",
            "INSERT INTO audit VALUES (1, 'one'), (1, 'once'), (NULL, 'x'), (NULL, NULL), (100, 'out')",
            "INSERT INTO later (id, a) VALUES (1, 1), (2, 0), (3, 2), (4, NULL)",
            "INSERT INTO booked VALUES (1, '2026-03-01', 5), (2, '2026-03-01', 6), (3, '2026-03-02', 7)",
            "INSERT INTO booked VALUES (4, NULL, 8), (101, '2026-03-01', 9)",
        )
        run = transformed(run_of(bank, TABLES, lock="brief" if request.param == "mariadb" else "none"))
        run = replace(run, plan=replace(run.plan, reconcile=ReconcilePlan((ControlTotalPlan("account", "doubled"),))))
        with pytest.raises(GateFailed, match=r"account BREAK .*\"id\": \"1\""):
            spoilt = Meddler(warehouse, "account", "UPDATE {place} SET shown = 'b***' WHERE id = 1")
            alone = replace(run, plan=run.plan.into(["warehouse"]))
            take_snapshot(alone, replace(tools_of(bank, alone, Records()), failpoints=spoilt))
        run.result["snapshot"] = take_snapshot(run, tools_of(bank, run, Records()))
        store = around.enter_context(closing(registry.platform()))
        for each in run.plan.destinations:
            with closing(registry.sink(run.plan, each.name)) as sink:
                publish(run, each.name, sink=sink)
            around.enter_context(streaming(run.plan.of_stream(each.name)))
        yield Chain(bank, run.plan, warehouse, second_there, store)


def caught_up(chain: Chain) -> None:
    open_ones = "SELECT count(*) FROM {}.boundary WHERE ended_at IS NULL"
    wait_until(
        lambda: (
            chain.query(open_ones.format("seamline"))
            == chain.query_second(open_ones.format(f"{chain.live}_seamline"))
            == [(0,)]
        ),
        timeout_s=60,
        what="the boundaries to end",
    )


def last_has_come(chain: Chain, table: str, where: str) -> None:
    """In both destinations."""
    for query, schema in ((chain.query, "bank"), (chain.query_second, chain.live)):
        wait_until(partial(query, f"SELECT 1 FROM {schema}.{table} WHERE {where}"), timeout_s=60, what="the last row")


def listed(found: Reconciliation) -> Mapping[str, set[tuple[BreakType, str]]]:
    return {one.table: {(entry.type, entry.key) for entry in one.breaks} for one in found.tables}


def test_loaded_and_streamed_rows_are_what_the_query_makes_and_are_proven(chain: Chain) -> None:
    large = LARGE[chain.plan.source.kind]
    chain.bank.execute(
        "INSERT INTO account VALUES (4, 7, 'otto')",
        "UPDATE account SET memo = 'berta' WHERE id = 1",
        f"UPDATE account SET memo = '{large}' WHERE id = 2",
        "DELETE FROM account WHERE id = 3",
        # Its log leaves the large value out where the source is PostgreSQL.
        "UPDATE account SET a = 9 WHERE id = 2",
        "UPDATE account SET id = 5, a = 8 WHERE id = 2",
        # Of both images the transform makes one row: nothing changes.
        "UPDATE audit SET memo = 'ones' WHERE memo = 'one'",
        "UPDATE audit SET memo = 'twice' WHERE memo = 'once'",
        "DELETE FROM audit WHERE memo IS NULL",
        "UPDATE audit SET a = 100 WHERE memo = 'x'",
        "UPDATE audit SET a = 2 WHERE memo = 'out'",
        # In and out of what the query holds, also twice in one transaction.
        "UPDATE later SET a = a + 1 WHERE id IN (1, 2)",
        "UPDATE later SET a = -1 WHERE id = 3",
        "INSERT INTO later (id, a) VALUES (5, 5), (6, -5)",
        "DELETE FROM later WHERE id IN (4, 5, 6)",
    )
    chain.bank.execute("INSERT INTO account VALUES (99, 0, 'last')")
    last_has_come(chain, "account", "id = 99")
    rows = chain.query("SELECT id, doubled, memo, shown, plain FROM bank.account ORDER BY id")
    assert rows == [
        (1, 20, *masked("berta"), 10),
        (4, 14, *masked("otto"), 7),
        (5, 16, *masked(large), 8),
        (99, 0, *masked("last"), 0),
    ]
    assert sorted(chain.query("SELECT a, memo FROM bank.audit")) == [(1, "on"), (1, "tw"), (2, "ou")]
    assert sorted(chain.query("SELECT id, a FROM bank.later")) == [(1, 3), (2, 2)]
    assert chain.query("SELECT count(*) FROM seamline.finding") == [(0,)]
    held = chain.query_second(f"SELECT id, initial, doubled FROM {chain.live}.account ORDER BY id")
    assert held == [(1, "b", 20), (4, "o", 14), (5, large[0], 16), (99, "l", 0)]
    held = chain.query_second(f"SELECT id, a, memo FROM {chain.live}.later ORDER BY id")
    assert held == [(1, 2, None), (2, 1, None), (3, -1, None)]
    caught_up(chain)
    for name, found in chain.compare().items():
        assert found.verdict is Verdict.MATCH, [(name, one.table, one.verdict, one.reason) for one in found.tables]
        (total,) = found.tables[0].totals
        assert (total.source_rows, total.source_sum) == (4, 50)


def test_a_wrong_row_in_one_destination_is_a_break_of_that_one_alone(chain: Chain) -> None:
    caught_up(chain)
    chain.query_second(f"UPDATE {chain.live}.account SET initial = upper(initial) WHERE id = 99")
    found = chain.compare()
    assert {name: one.verdict for name, one in found.items()} == {
        "warehouse": Verdict.MATCH,
        "second": Verdict.BREAK,
    }
    wrong = {(BreakType.VALUE, '{"id": "99"}')}
    assert listed(found["second"]) == {"account": wrong, "audit": set(), "later": set(), "booked": set()}
    chain.query_second(f"UPDATE {chain.live}.account SET initial = lower(initial) WHERE id = 99")


def test_a_changed_transformed_row_is_one_break_by_its_name(chain: Chain) -> None:
    caught_up(chain)
    chain.bank.execute("INSERT INTO account VALUES (7, 1, 'seven')", "INSERT INTO audit VALUES (7, 'se')")
    last_has_come(chain, "audit", "a = 7")
    chain.spoil("UPDATE bank.account SET memo = upper(memo) WHERE id = 7")
    chain.spoil("UPDATE bank.audit SET memo = 'sea' WHERE a = 7")
    found = chain.compare()
    assert found["second"].verdict is Verdict.MATCH
    assert found["warehouse"].verdict is Verdict.BREAK
    assert listed(found["warehouse"]) == {
        "account": {(BreakType.VALUE, '{"id": "7"}')},
        "audit": {
            (BreakType.MISSING, '{"a": "7", "memo": "se"}'),
            (BreakType.UNEXPECTED, '{"a": "7", "memo": "sea"}'),
        },
        "later": set(),
        "booked": set(),
    }


def cut_tools(chain: Chain, run: Run) -> CutTools:
    reader = RunReader(run, tasks=lambda _: 1, copying_of=lambda groups, _: CopyingHere(groups))
    return CutTools(
        open_read=reader.open_read,
        open_staged=reader.open_staged,
        derive=cast(Any, None),
        lateness=lambda *_: None,
        date_before=lambda *_: (),
        open_cut=reader.open_cut,
        records=chain.store,
    )


def test_a_cut_holds_what_the_query_makes_of_the_rows_of_its_date(chain: Chain) -> None:
    day = date(2026, 3, 1)
    booked = replace(chain.plan.table("booked"), business_date=BusinessDate("day", "date"))
    plan = replace(
        chain.plan.into(["warehouse"]),
        tables=(booked,),
        nightly=NightlyPlan(),
        reconcile=ReconcilePlan((ControlTotalPlan("booked", "amount"),)),
    )
    run = Run(f"{plan.sync}/nightly/{day}/1", plan.sync, RunKind.NIGHTLY, day, plan, RunState.RUNNING)
    chain.store.start_run(
        run_id=run.run_id, sync=run.sync, kind=run.kind, business_date=day, plan_json=plan_to_json(plan)
    )
    cut = take_conclusive_cut(run, cut_tools(chain, run))["warehouse"]
    (table,) = cut.tables
    assert (table.verdict, table.rows) == (Verdict.MATCH, 2)
    schema, name = plan.destination("warehouse").stage_namespace, table.staged_as
    assert sorted(chain.query(f'SELECT id, amount FROM {schema}."{name}"')) == [
        (1, Decimal("50.0")),
        (2, Decimal("60.0")),
    ]
    (judged,) = (chain.store.reconciliation(run.run_id, "cut", "warehouse") or pytest.fail("not judged")).tables
    (total,) = judged.totals
    assert (total.source_rows, total.source_sum) == (2, 110)


def test_one_read_is_cut_into_a_destination_of_transformed_rows_and_one_of_the_rows_of_the_source(chain: Chain) -> None:
    """Row 101 is one that the query rejects."""
    day = date(2026, 3, 1)
    booked = replace(chain.plan.table("booked"), business_date=BusinessDate("day", "date"))
    warehouse, second = chain.plan.destinations
    destinations = (warehouse, replace(second, transforms=(("booked", None),)))
    plan = replace(chain.plan, tables=(booked,), nightly=NightlyPlan(), destinations=destinations)
    plan = replace(plan, reconcile=ReconcilePlan())
    run = Run(f"{plan.sync}/nightly/{day}/2", plan.sync, RunKind.NIGHTLY, day, plan, RunState.RUNNING)
    chain.store.start_run(
        run_id=run.run_id, sync=run.sync, kind=run.kind, business_date=day, plan_json=plan_to_json(plan)
    )
    cuts = take_conclusive_cut(run, cut_tools(chain, run))
    columns = {}
    for name, query in (("warehouse", chain.query), ("second", chain.query_second)):
        (table,) = cuts[name].tables
        assert (table.verdict, table.rows) == (Verdict.MATCH, {"warehouse": 2, "second": 3}[name])
        found = query(
            "SELECT column_name FROM information_schema.columns WHERE table_schema ="
            f" '{plan.destination(name).stage_namespace}' AND table_name = '{table.staged_as}'"
        )
        columns[name] = {column for (column,) in found}
    assert columns == {"warehouse": {"id", "amount", "day"}, "second": {"id", "day", "a"}}
