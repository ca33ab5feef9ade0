"""Tables of other tools, compared by logins that may SELECT and no more: within one engine and across two."""

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from seamline import registry, settings
from seamline.adapters.connections import Connection, resolve
from seamline.cli.main import main
from seamline.databases.postgres.rows_url import url_of
from seamline.domain.runs import Reconciliation, RunKind, RunState, Scope
from seamline.domain.self_test import self_test_in_words
from seamline.domain.separate import SEPARATE, separate_in_words
from seamline.domain.verdict import BreakType, Verdict
from seamline.plan.checks import BudgetPlan, ControlTotalPlan, ReconcileOnlyPlan, ReconcilePlan
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.spec.load import load_declarations
from seamline.sync.budget import Spending
from seamline.sync.clock import SystemClock
from seamline.sync.separate import compare_separately
from seamline_airflow import onboarding
from seamline_airflow.expectations import Expectation, StagedRows
from seamline_airflow.gx_engine import check, load_checks
from seamline_spark.compare.main import compare_run
from tests import mysql_server
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.known import known_by_id
from tests.mysql_server import mysql, mysql_database
from tests.once_more import ONCE_MORE

TABLES = ("payment", "rate", "audit")
IN_FLIGHT_S = 300.0
PASSWORD = "only-reads"
# As three tools make them: other types for the same values, another order of columns, no key.
MYSQL_TABLES = (
    "CREATE TABLE payment (id BIGINT UNSIGNED PRIMARY KEY, currency CHAR(3) NOT NULL, amount DECIMAL(20,4),"
    " is_open TINYINT(1) NOT NULL, booked_at DATETIME(6), memo VARCHAR(80))",
    "CREATE TABLE rate (day DATE, pair VARCHAR(7), rate DOUBLE, PRIMARY KEY (day, pair))",
    "CREATE TABLE audit (actor VARCHAR(20), object VARCHAR(20))",
)
_POSTGRES = (
    "CREATE TABLE payment (memo text, id numeric(20,0) NOT NULL, currency varchar(3), amount numeric(18,4),"
    " is_open boolean, booked_at timestamp)",
    "CREATE TABLE rate (day date, pair varchar(7), rate double precision, PRIMARY KEY (day, pair))",
    "CREATE TABLE audit (object text, actor text)",
)
OF_POSTGRES = (_POSTGRES[0].replace("id numeric(20,0) NOT NULL", "id bigint PRIMARY KEY"), *_POSTGRES[1:])
ROWS = 600


def _filled() -> Iterator[str]:
    for start in range(0, ROWS, 200):
        rows = ",".join(
            f"({n},'{('EUR', 'USD', 'CNY')[n % 3]}',{n}.25,{'TRUE' if n % 2 else 'FALSE'},"
            f"'2026-03-0{1 + n % 9} 10:00:0{n % 10}.{n:06d}',{'NULL' if n % 7 else f'{chr(39)}付款 {n}{chr(39)}'})"
            for n in range(start, start + 200)
        )
        yield f"INSERT INTO payment (id, currency, amount, is_open, booked_at, memo) VALUES {rows}"
    yield "INSERT INTO rate (day, pair, rate) VALUES ('2026-03-01','EURUSD',1.0825),('2026-03-02','EURUSD',0.1)"
    yield "INSERT INTO audit (actor, object) VALUES ('a','x'),('a','x'),('b',NULL)"


@dataclass
class Pair:
    """`execute(side, statement)`: as the owner of "source" or "copy"."""

    plan: SyncPlan
    execute: Callable[[str, str], None]

    def compare(self, meanwhile: Callable[[], None] = lambda: None, budget: BudgetPlan | None = None) -> Reconciliation:
        run = Run("r", "mirror", RunKind.RECONCILE, None, self.plan, RunState.RUNNING)
        source, other = registry.separate_sides(self.plan, "copy")
        spending = (lambda: Spending(budget)) if budget else None
        both = {"source": source, "other": other}
        return compare_separately(run, "copy", **both, views=2, clock=Waits(meanwhile), spending=spending)


class Waits(SystemClock):
    """A clock that goes on by itself: something happens while what differed is left to the other tool."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile
        self._ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self._ahead_s

    def sleep(self, seconds: float) -> None:
        self._meanwhile()
        self._ahead_s += seconds


def postgres_side(
    stack: ExitStack, name: str, created: tuple[str, ...], rows: Iterable[str] | None = None
) -> Callable[[str], None]:
    """A database whose connection id is `name`, of a login that may SELECT the three tables. `rows`: statements that
    fill them."""
    owner = stack.enter_context(postgres_database(name))
    root = replace(resolve("postgres_root"), database=name)
    session = stack.enter_context(closing(postgres(root)))
    login = f"{name}_reader"
    session.execute("CREATE SCHEMA bank")
    session.execute("SET search_path = bank")
    for statement in (*created, *(_filled() if rows is None else rows)):
        session.execute(statement.encode())
    session.execute(f"DROP ROLE IF EXISTS {login}".encode())
    session.execute(f"CREATE ROLE {login} LOGIN PASSWORD '{PASSWORD}'".encode())
    stack.callback(lambda: session.execute(f"DROP OWNED BY {login}; DROP ROLE {login}".encode()))
    session.execute(f"GRANT CONNECT ON DATABASE {name} TO {login}".encode())
    session.execute(f"GRANT USAGE ON SCHEMA bank TO {login}".encode())
    session.execute(f"GRANT SELECT ON {', '.join(TABLES)} TO {login}".encode())
    known(stack, replace(owner, login=login), name, "postgres")

    def execute(statement: str) -> None:
        session.execute(statement.encode())

    return execute


def _mariadb_side(stack: ExitStack, name: str, created: tuple[str, ...]) -> Callable[[str], None]:
    root = stack.enter_context(mariadb_database(name))
    return _of_mysql(stack, root, stack.enter_context(closing(mariadb(root))), created)


def _mysql_side(stack: ExitStack, name: str, created: tuple[str, ...]) -> Callable[[str], None]:
    root = stack.enter_context(mysql_database(mysql_server.root(settings.load()), name))
    return _of_mysql(stack, root, stack.enter_context(closing(mysql(root))), created)


def _of_mysql(stack: ExitStack, root: Connection, session: Any, created: tuple[str, ...]) -> Callable[[str], None]:
    name = root.database
    login = f"{name}_reader"

    def execute(statement: str) -> None:
        with session.cursor() as cursor:
            cursor.execute(statement)

    for statement in (*created, *_filled()):
        execute(statement)
    execute(f"DROP USER IF EXISTS '{login}'@'%'")
    execute(f"CREATE USER '{login}'@'%' IDENTIFIED BY '{PASSWORD}'")
    stack.callback(lambda: execute(f"DROP USER '{login}'@'%'"))
    for table in TABLES:
        execute(f"GRANT SELECT ON {name}.{table} TO '{login}'@'%'")
    known(stack, replace(root, login=login), name, "mysql")
    return execute


def known(stack: ExitStack, connection: Connection, name: str, kind: str) -> None:
    stack.enter_context(known_by_id(replace(connection, password=PASSWORD, connection_id=name), name, kind))


_SIDES = {
    "postgres": (postgres_side, OF_POSTGRES),
    "mariadb": (_mariadb_side, MYSQL_TABLES),
    "mysql": (_mysql_side, MYSQL_TABLES),
}
# Two databases of one engine, and of two.
_PAIRS = (
    "postgres-postgres",
    # The pairs below have a MariaDB on each side.
    pytest.param("mariadb-mariadb", marks=ONCE_MORE),
    "mariadb-postgres",
    "postgres-mariadb",
    "mysql-mysql",
)


@pytest.fixture(params=_PAIRS, scope="module")
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    source, copy = request.param.split("-")
    if "mysql" in (source, copy):
        request.getfixturevalue("mysql_root")
    with ExitStack() as stack:
        make, created = _SIDES[source]
        of_source = make(stack, "separate_source", created)
        make, created = _SIDES[copy]
        # Of another engine: the types that a tool would choose.
        of_copy = make(stack, "separate_copy", _POSTGRES if (source, copy) == ("mariadb", "postgres") else created)
        schema = "bank" if source == "postgres" else ""
        plan = SyncPlan(
            "mirror",
            SourcePlan("bank", source, "separate_source", "separate_source", "", "", "", "", schema=schema),
            (DestinationPlan("copy", copy, "separate_copy", "bank" if copy == "postgres" else "separate_copy"),),
            tuple(TablePlan(name) for name in TABLES),
            reconcile=ReconcilePlan((ControlTotalPlan("payment", "amount", ("currency",)),)),
            reconcile_only=ReconcileOnlyPlan(IN_FLIGHT_S),
        )
        side, _ = registry.separate_sides(plan, "copy")
        known = {table.name: table for table in side.survey(TABLES).whole()}
        plan = replace(plan, tables=tuple(TablePlan(name, None, known[name]) for name in TABLES))
        yield Pair(plan, lambda side, statement: {"source": of_source, "copy": of_copy}[side](statement))


def test_equal_tables_are_a_match_by_select_alone(pair: Pair) -> None:
    found = pair.compare()
    assert found.verdict is Verdict.MATCH, [(one.table, one.reason) for one in found.tables]
    assert [one.source_rows for one in found.tables] == [ROWS, 2, 3]
    assert [total.group for total in found.tables[0].totals] == [("CNY",), ("EUR",), ("USD",)]
    assert " 0 others" in self_test_in_words(found.evidence)[0], self_test_in_words(found.evidence)
    assert len(separate_in_words(found.evidence)) == 1


def test_what_stands_is_a_break_and_what_arrives_is_not(pair: Pair) -> None:
    """A value, a lost row, a float and one row too many without a key stand; an update of another row arrives."""

    def arrives() -> None:
        pair.execute("copy", "UPDATE payment SET amount = 1 WHERE id = 40")

    pair.execute("source", "UPDATE payment SET amount = 1 WHERE id = 40")
    pair.execute("copy", "UPDATE payment SET amount = amount + 0.0001 WHERE id = 17")
    pair.execute("copy", "DELETE FROM payment WHERE id = 18")
    pair.execute("copy", "INSERT INTO audit (actor, object) VALUES ('a', 'x')")
    pair.execute("copy", "UPDATE rate SET rate = 1.09 WHERE day = '2026-03-01'")
    try:
        found = pair.compare(arrives)
    finally:
        for statement in (
            "UPDATE payment SET amount = 17.25 WHERE id = 17",
            "UPDATE rate SET rate = 1.0825 WHERE day = '2026-03-01'",
            "DELETE FROM audit",
            "INSERT INTO audit (actor, object) VALUES ('a','x'),('a','x'),('b',NULL)",
            "INSERT INTO payment (id, currency, amount, is_open, booked_at, memo)"
            " VALUES (18,'EUR',18.25,FALSE,'2026-03-01 10:00:08.000018',NULL)",
        ):
            pair.execute("copy", statement)
    payment, rate, audit = found.tables
    assert [(one.type, one.key) for one in payment.breaks] == [
        (BreakType.VALUE, '{"id": "17"}'),
        (BreakType.MISSING, '{"id": "18"}'),
    ]
    assert "1 differences were in flight" in payment.reason
    assert [one.type for one in rate.breaks] == [BreakType.VALUE]
    assert [one.type for one in audit.breaks] == [BreakType.DUPLICATE]
    assert pair.compare().verdict is Verdict.MATCH


def test_a_change_that_arrives_is_inconclusive(pair: Pair) -> None:
    def arrives() -> None:
        pair.execute("copy", "UPDATE payment SET memo = 'late' WHERE id = 41")

    pair.execute("source", "UPDATE payment SET memo = 'late' WHERE id = 41")
    found = pair.compare(arrives)
    assert [one.verdict for one in found.tables] == [Verdict.INCONCLUSIVE, Verdict.MATCH, Verdict.MATCH]


def test_within_a_budget_the_same_is_found_and_without_time_nothing(pair: Pair) -> None:
    found = pair.compare(budget=BudgetPlan(time_s=600, sessions=1, pause_s=0.001))
    assert found.verdict is Verdict.MATCH, [(one.table, one.reason) for one in found.tables]
    spent = pair.compare(budget=BudgetPlan(time_s=0))
    assert {one.verdict for one in spent.tables} == {Verdict.INCONCLUSIVE}
    assert "budget of 0 s" in spent.tables[0].reason


def test_another_schema_is_named_before_a_row_is_read(pair: Pair) -> None:
    pair.execute("copy", "ALTER TABLE rate ADD extra INT")
    try:
        found = pair.compare()
    finally:
        pair.execute("copy", "ALTER TABLE rate DROP extra")
    assert [one.verdict for one in found.tables] == [Verdict.MATCH, Verdict.BREAK, Verdict.MATCH]
    assert "column extra of the destination is not in the source" in found.tables[1].reason


def test_declared_it_is_confirmed_by_the_servers_and_its_run_is_saved(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _declared(pair.plan, tmp_path)
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    assert main(["validate", "--online"]) == 0, capsys.readouterr().err
    assert "mirror: 3 tables, bank → copy, compared only" in capsys.readouterr().out
    assert main(["grants", "bank"]) == 0
    said = capsys.readouterr().out
    assert "Login separate_source_reader needs SELECT" in said and "CREATE" not in said
    plan, problems = onboarding.preflight_of_reconcile_only(compile_plan(load_declarations(tmp_path), "mirror"))
    assert (problems, [table.definition.name for table in plan.tables]) == ((), list(TABLES))
    run_id = f"mirror/reconcile/-/{uuid.uuid4().hex}"
    with closing(registry.platform()) as store:
        store.start_run(run_id=run_id, sync="mirror", kind=RunKind.RECONCILE, plan_json=plan_to_json(plan))
        (found,) = compare_run(run_id)
        kept = store.reconciliation(run_id, Scope.LIVE, "copy")
    assert kept is not None and (kept.verdict, kept.mode) == (Verdict.MATCH, SEPARATE)
    assert separate_in_words(kept.evidence) == separate_in_words(found.evidence)
    pair.execute("copy", "ALTER TABLE audit ADD extra INT")
    try:
        assert main(["validate", "--online"]) == 2
    finally:
        pair.execute("copy", "ALTER TABLE audit DROP extra")
    assert "tables[2]: in destination `copy`: column extra of the destination" in capsys.readouterr().err


def _declared(plan: SyncPlan, folder: Path) -> None:
    def write(name: str, text: str) -> None:
        file = folder / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    (destination,) = plan.destinations
    key = "schema" if destination.kind == "postgres" else "database"
    schema = f"schema: {plan.source.schema}\n" if plan.source.schema else ""
    write(
        "sources/bank",
        f"source: bank\nkind: {plan.source.kind}\nconnection: separate_source\ndatabase: separate_source\n{schema}",
    )
    write(
        "destinations/copy",
        f"destination: copy\nkind: {destination.kind}\nconnection: separate_copy\n{key}: {destination.namespace}\n",
    )
    write(
        "syncs/mirror",
        "sync: mirror\nsource: bank\ndestinations: [copy]\ntables: [payment, rate, audit]\n"
        "reconcile_only: {in_flight_max: 1s}\n",
    )


@pytest.mark.parametrize("pair", ["mariadb-postgres"], indirect=True)
def test_a_suite_is_proposed_by_select_alone_and_holds_of_an_equal_copy(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _declared(pair.plan, tmp_path)
    sync, suite = tmp_path / "syncs" / "mirror.yaml", tmp_path / "expectations" / "mirror.yaml"
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    assert main(["expectations", "init", "mirror"]) == 3, "what only compares has no cuts"
    sync.write_text(sync.read_text().replace("reconcile_only: {in_flight_max: 1s}", "nightly: {timezone: UTC}"))
    assert main(["expectations", "init", "mirror"]) == 0, capsys.readouterr().err
    assert "reconcile: {expectations: mirror}" in capsys.readouterr().out
    text = suite.read_text()
    assert 'kwargs: {column: "currency", value_set: ["CNY", "EUR", "USD"]}' in text
    assert 'kwargs: {column_list: ["day", "pair"]}' in text
    assert "# booked_at from 2026-03-01 10:00:00 to 2026-03-09" in text
    suite.write_text(f"{text}# mine\n")
    assert main(["expectations", "init", "mirror"]) == 3
    assert "is there already" in capsys.readouterr().err and suite.read_text().endswith("# mine\n")
    assert main(["expectations", "init", "mirror", "--force"]) == 0
    assert suite.read_text() == text
    by_table: dict[str, list[Expectation]] = {}
    for table, kind, kwargs, why in load_checks(tmp_path, "mirror"):
        by_table.setdefault(table, []).append(Expectation(kind, kwargs, why))
    staged = [StagedRows(table, "bank", table, tuple(checks)) for table, checks in by_table.items()]
    judged = check((), staged, partial(url_of, resolve("separate_copy")), suite="mirror")
    assert len(judged) == sum(map(len, by_table.values())) and all(one.is_met for one in judged), judged
    pair.execute("copy", "UPDATE payment SET currency = 'GBP' WHERE id = 3")
    try:
        judged = check((), staged[:1], partial(url_of, resolve("separate_copy")), suite="mirror")
    finally:
        pair.execute("copy", "UPDATE payment SET currency = 'EUR' WHERE id = 3")
    assert [one.rows for one in judged if not one.is_met] == [1]
