"""Sources that are read by a JDBC driver, H2 and HSQLDB: one transaction for a night, by a login that may SELECT."""

import io
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from seamline import registry
from seamline.adapters.connections import known_ids, resolve
from seamline.cli.main import main
from seamline.domain.catalogue import Kind
from seamline.domain.errors import ConfigError
from seamline.domain.runs import RunKind, RunState
from seamline.domain.verdict import Verdict
from seamline.plan.model import NightlyPlan, Run, SourcePlan, SyncPlan, TablePlan
from tests import jdbc_server
from tests.conftest import RunningStack
from tests.documented import block
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.test_without_a_log import DAY, Reading
from tests.once_more import ONCE_MORE

NAME, TABLES = "jdbc_bank", ("ACCOUNT", "KINDS", "AUDIT")
PAGE = "docs/reference/jdbc-source.md"
WAREHOUSE = f"{NAME}_warehouse"
MADE = (
    "CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR(40), balance DECIMAL(18,2))",
    "CREATE TABLE audit (who VARCHAR(40), said VARCHAR(200))",
    "INSERT INTO audit VALUES ('one', NULL), ('one', NULL), (NULL, 'it''s')",
    "CREATE TABLE kinds (id BIGINT PRIMARY KEY, small SMALLINT, exact DECIMAL(38,6), wide DOUBLE PRECISION, yes"
    " BOOLEAN,"
    " fixed CHAR(5), bytes VARBINARY(20), on_day DATE, moment TIMESTAMP(6), zoned TIMESTAMP(6) WITH TIME ZONE)",
    "INSERT INTO kinds VALUES (9223372036854775807, -32768, 12345678901234567890123456789012.123456, 1.5, TRUE, 'ab',"
    " X'00FF',"
    " DATE '0001-01-01', TIMESTAMP '9999-12-31 23:59:59.999999', TIMESTAMP '2026-01-01 00:00:00.000001+8:00')",
    "INSERT INTO kinds (id) VALUES (1)",
    "CREATE TABLE odd (id INT PRIMARY KEY, one UUID, two TIMESTAMP(9), three TIME(0), big DECIMAL(60,2))",
)


# The suite of every source runs over H2.
@pytest.fixture(scope="module", params=[pytest.param("h2", marks=ONCE_MORE), "hsqldb"])
def server(
    request: pytest.FixtureRequest, stack: RunningStack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[jdbc_server.JdbcServer]:
    accounts = ", ".join(f"({n}, '户名 {n}', 1000.00)" for n in range(1, 201))
    folder = tmp_path_factory.mktemp("jdbc")
    with jdbc_server.running(stack.settings, request.param, folder, login="READER") as made:
        for statement in (*MADE, f"INSERT INTO account VALUES {accounts}"):
            made.execute(statement)
        made.execute(f"CREATE USER reader PASSWORD '{jdbc_server.PASSWORD}'")
        for table in (*TABLES, "ODD"):
            made.execute(f"GRANT SELECT ON public.{table} TO reader")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(f"SEAMLINE_CONNECTION_{NAME.upper()}", made.connection)
            yield made


SOURCE = SourcePlan(NAME, "jdbc", "bank", NAME, "", "", "", "", schema="PUBLIC")


@pytest.fixture
def reading(server: jdbc_server.JdbcServer) -> Iterator[Reading]:
    with ExitStack() as around:
        warehouse = around.enter_context(postgres_database(WAREHOUSE))
        around.enter_context(destination_known_by_id(warehouse, WAREHOUSE))
        plan = SyncPlan("night", SOURCE, (destination_plan(WAREHOUSE, "night"),), (), nightly=NightlyPlan())
        survey = registry.source(plan).survey(TABLES)
        assert survey.problems == ()
        plan = replace(plan, tables=tuple(TablePlan(one.name, None, one) for one in survey.tables))
        run = Run("night/nightly/2026-11-28/1", "night", RunKind.NIGHTLY, DAY, plan, RunState.RUNNING)
        bank: Any = server
        yield Reading(bank, run, warehouse)


def test_a_night_by_jdbc_is_one_transaction_while_money_moves_and_matches(
    reading: Reading, server: jdbc_server.JdbcServer
) -> None:
    """Every kind with its edge values among it; and a row that was staged otherwise is a break, the planted one."""
    kinds = {column.name: column.kind for column in reading.run.plan.table("KINDS").definition.columns}
    assert (kinds["ON_DAY"], kinds["MOMENT"], kinds["ZONED"]) == (Kind.DATE, Kind.DATETIME, Kind.INSTANT)
    with server.money_moves(), reading.open() as (reader, opened):
        assert "one serializable transaction of H" in str(opened.position)
        assert reading.staged(opened, 'SELECT sum("BALANCE") FROM {ACCOUNT}') == Decimal("200000.00")
        verdicts = reading.judged(reader, opened)
        assert {name: one.verdict for name, one in verdicts.items()} == dict.fromkeys(TABLES, Verdict.MATCH)
        assert reading.staged(opened, 'SELECT min("ON_DAY") FROM {KINDS}') == date(1, 1, 1)
        zoned = datetime(2025, 12, 31, 16, 0, 0, 1, tzinfo=UTC)
        assert reading.staged(opened, 'SELECT min("ZONED") FROM {KINDS}') == zoned
        reading.staged(opened, 'UPDATE {ACCOUNT} SET "BALANCE" = 0 WHERE "ID" = 7 RETURNING 1')
        assert reading.judged(reader, opened)["ACCOUNT"].verdict is Verdict.BREAK


# What a driver says of a type is judged by one table of types; its own words have unit tests.
@pytest.mark.parametrize("server", ["h2", pytest.param("hsqldb", marks=ONCE_MORE)], indirect=True)
def test_types_that_are_not_exact_are_refused_by_name_and_so_is_a_driver_that_nobody_placed(
    server: jdbc_server.JdbcServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = SyncPlan("night", SOURCE, (), (), nightly=NightlyPlan())
    assert registry.source(plan).preflight(registry.source(plan).survey(TABLES).tables) == ()
    survey = registry.source(plan).survey(["ODD", "ACOUNT"])
    said = [one.what for one in survey.problems]
    assert survey.tables == ()
    assert [one.split()[1] for one in said[:-1]] == ["ONE", "TWO", "THREE", "BIG"], said
    assert said[-1] == "there is no table ACOUNT in schema PUBLIC"
    assert survey.problems[-1].cure == "Did you mean `ACCOUNT`?"
    monkeypatch.setenv("SEAMLINE_JDBC_DRIVERS", str(tmp_path))
    with pytest.raises(ConfigError, match="no jar in"):
        registry.source(plan).survey(TABLES)


def test_connect_opens_a_session_by_the_driver_and_stores_no_login_that_is_refused(
    server: jdbc_server.JdbcServer,
    tmp_path: Path,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    known = resolve(NAME)
    shown = block(checkout, PAGE, "./seamline connect add branch_bank").replace("\\\n", "")
    shown = shown.replace("jdbc%3Ah2%3Atcp%3A%2F%2Fdb.internal%3A9092%2Fbank", quote(known.host, safe=""))
    shown = shown.replace("org.h2.Driver", str(known.extra["driver_class"])).replace("seamline_reader", known.login)
    command = shlex.split(shown)[1:]
    for password, wanted in (("another one", 2), (jdbc_server.PASSWORD, 0)):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        code, said = main(command), "".join(capsys.readouterr())
        assert code == wanted, said
        assert password not in said
        assert ("refuses its login" in said) == bool(wanted)
    assert "branch_bank" in known_ids()
    assert "encrypted as its URL says" in said
