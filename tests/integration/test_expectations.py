"""The gate's suite on a real staged cut: each planted fault is found, the clean cut passes, no value is shown."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, event, make_url

from seamline.adapters.connections import Connection
from seamline.databases.postgres.rows_url import url_of
from seamline.domain.audit import canonical_json, sha256_of
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.plan.checks import RulePlan, Says
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.sinks.relational.rows_url import url_of as mysql_url_of
from seamline.sources.mariadb.position import BinlogPosition
from seamline.spec.expectation_types import EXPECTATION_TYPES
from seamline.spec.expectations import CAPPED_TYPE
from seamline.spec.load import load_sync
from seamline_airflow.expectations import Expectation, GateResult, StagedRows, staged_rows
from seamline_airflow.gx_engine import KEYS_MAX, check, load_checks
from seamline_airflow.rule_queries import expectation_of
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.every_expectation import COLUMNS, ROWS, every_expectation

STAGE = "settlement_stage"
SECRET = "8675309"
TABLES = {
    "account": ("id int, status text", "(1, 'open'), (2, 'closed')"),
    "ledger_entry": (
        "id int, transfer_id int, currency text, amount numeric(20, 4)",
        "(1, 1, 'EUR', 5), (2, 1, 'EUR', -5), (3, 2, 'USD', 7), (4, 2, 'USD', -7)",
    ),
    "payment_order": ("id int, amount numeric(20, 4)", "(1, 5), (2, 6)"),
    "access_audit": ("who text", "('a'), ('a')"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Connection]:
    with postgres_database("seamline_test_expectations") as connection:
        yield connection


@pytest.fixture
def session(server: Connection) -> Iterator[psycopg.Connection]:
    with postgres(server) as session:
        session.execute(f"DROP SCHEMA IF EXISTS {STAGE} CASCADE")
        session.execute(f"CREATE SCHEMA {STAGE}")
        for name, (columns, rows) in TABLES.items():
            session.execute(f"CREATE TABLE {STAGE}.s_{name} ({columns})")
            session.execute(f"INSERT INTO {STAGE}.s_{name} VALUES {rows}")
        yield session


@pytest.fixture(scope="module")
def plan(checkout: Path) -> SyncPlan:
    declared = compile_plan(load_sync(checkout / "include" / "syncs" / "settlement.yaml"), "settlement")
    number = Column("id", Kind.INTEGER, "int", nullable=False, length=32)
    keyed = {name: Table(name, (number,), ("id",)) for name in TABLES}
    keyed["access_audit"] = Table("access_audit", (Column("who", Kind.STRING, "text"),))
    return replace(declared, tables=tuple(replace(table, table=keyed[table.name]) for table in declared.tables))


def _rows(name: str) -> int:
    return TABLES[name][1].count("(")


def _judged(plan: SyncPlan, server: Connection, checkout: Path) -> GateResult:
    staged = tuple(StagedTable(name, CutMode.DATE, f"s_{name}", _rows(name), Verdict.MATCH) for name in TABLES)
    position, as_of = BinlogPosition("0-7-1"), datetime(2026, 11, 20, tzinfo=UTC)
    cut = StagedCut("r", "settlement", "warehouse", date(2026, 11, 19), position, as_of, staged)
    tables = staged_rows(plan, "warehouse", cut, load_checks(checkout / "include", "settlement"))
    return GateResult(tuple(check((), tables, partial(url_of, server), suite="settlement__reconciliation")))


def test_a_clean_cut_passes(plan: SyncPlan, server: Connection, session: psycopg.Connection, checkout: Path) -> None:
    result = _judged(plan, server, checkout)
    assert result.verdict is Verdict.MATCH, result.to_json()
    assert len(result.outcomes) >= 12


@pytest.mark.parametrize(
    ("statement", "why", "verdict", "rows", "keys"),
    [
        # A query of its own may answer with other things than rows: then they are counted, and none is named.
        (
            "UPDATE {t}ledger_entry SET amount = 5.0001 WHERE id = 1",
            "nets to zero in each currency",
            Verdict.BREAK,
            1,
            [],
        ),
        ("UPDATE {t}ledger_entry SET transfer_id = 9 WHERE id = 1", "half a transfer", Verdict.BREAK, 2, []),
        (
            "UPDATE {t}ledger_entry SET id = 2 WHERE id = 1",
            "the key of ledger_entry is unique",
            Verdict.BREAK,
            2,
            ["2"],
        ),
        ("UPDATE {t}ledger_entry SET amount = NULL WHERE id = 1", "without an amount", Verdict.BREAK, 1, ["1"]),
        (f"UPDATE {{t}}payment_order SET amount = -{SECRET}", "moves money one way", Verdict.BREAK, 2, ["1", "2"]),
        (f"UPDATE {{t}}account SET status = '{SECRET}' WHERE id = 1", "in another state", Verdict.BREAK, 1, ["1"]),
        ("DELETE FROM {t}access_audit", "holds the rows of its receipt", Verdict.NOT_RUN, None, []),
        (
            "INSERT INTO {t}payment_order VALUES (NULL, NULL)",
            "holds the rows of its receipt",
            Verdict.NOT_RUN,
            None,
            [],
        ),
    ],
)
def test_each_planted_fault_is_found_and_no_value_is_shown(
    plan: SyncPlan,
    server: Connection,
    session: psycopg.Connection,
    checkout: Path,
    statement: str,
    why: str,
    verdict: Verdict,
    rows: int | None,
    keys: list[str],
) -> None:
    session.execute(statement.format(t=f"{STAGE}.s_"))
    result = _judged(plan, server, checkout)
    assert result.verdict is verdict
    failed = result.to_json()["failed"]
    listed = [(entry["rows"], sorted(entry["keys"])) for entry in failed if why in entry["why"]]
    assert (rows, [f'{{"id": "{key}"}}' for key in keys]) in listed, failed
    assert SECRET not in str(failed)
    assert (server.password or "no password") not in str(failed)


def test_rows_of_a_query_and_of_a_key_of_two_columns_are_named_and_at_most_twenty(
    server: Connection, session: psycopg.Connection
) -> None:
    """By their keys alone, also where the query brings more; a rule of a table without a key is counted."""
    session.execute(f"CREATE TABLE {STAGE}.s_rate (day date, currency text, rate numeric(20, 4))")
    session.execute(
        f"INSERT INTO {STAGE}.s_rate SELECT date '2026-11-01' + day, 'EUR', -{SECRET} FROM generate_series(0, 29) day"
    )
    key = (Column("day", Kind.DATE, "date", nullable=False), Column("currency", Kind.STRING, "text", nullable=False))
    rules = (
        Expectation("expect_column_values_to_be_between", {"column": "rate", "min_value": 0}, "positive"),
        Expectation(
            "unexpected_rows_expectation", {"unexpected_rows_query": "SELECT * FROM {batch} WHERE rate < 0"}, "q"
        ),
    )
    for shown in (key, ()):
        for outcome in check(
            (), (StagedRows("rate", STAGE, "s_rate", rules, shown),), partial(url_of, server), suite="s"
        ):
            assert (outcome.rows, len(outcome.keys)) == (30, KEYS_MAX if shown else 0)
            assert SECRET not in str(outcome.keys)
            assert not shown or '{"day": "2026-11-01", "currency": "EUR"}' in outcome.keys


RULES = (
    RulePlan("double entry", "leg", Says.BALANCE, ("amount",), ("tx", "currency")),
    RulePlan("both sides", "leg", Says.BALANCE, ("debit", "credit"), ("tx", "currency")),
    RulePlan("numbers", "leg", Says.NO_GAP, ("n",), ("branch",)),
    RulePlan("once", "leg", Says.UNIQUE, ("branch", "n")),
)
LEG = (
    "tx int, currency varchar(3), amount numeric(20, 4), debit numeric(20, 4), credit numeric(20, 4),"
    " branch varchar(4), n bigint"
)
LEGS = (
    "(1, 'EUR', 5, 5, NULL, 'a', 1), (1, 'EUR', -5, NULL, 5, 'a', 2), (2, 'USD', NULL, NULL, NULL, 'b', 7),"
    " (2, 'EUR', 0.0001, 7, 7, 'b', 8), (2, 'EUR', -0.0001, 0, 0, NULL, NULL), (3, NULL, 0, 0, 0, NULL, NULL)"
)
BREACHES = {
    "an amount of one ten-thousandth": (
        "UPDATE {t} SET amount = 5.0001 WHERE n = 1",
        {"double entry": ['{"tx": "1", "currency": "EUR", "total": "0.0001"}']},
    ),
    "a leg that is missing": (
        "UPDATE {t} SET amount = NULL, debit = 0 WHERE n = 1",
        {
            "double entry": ['{"tx": "1", "currency": "EUR", "total": "-5.0000"}'],
            "both sides": ['{"tx": "1", "currency": "EUR", "total_debit": "0.0000", "total_credit": "5.0000"}'],
        },
    ),
    "a leg without a currency": (
        "UPDATE {t} SET debit = 1 WHERE tx = 3",
        {"both sides": ['{"tx": "3", "currency": null, "total_debit": "1.0000", "total_credit": "0.0000"}']},
    ),
    "numbers that are missing": (
        "UPDATE {t} SET n = 9 WHERE n = 2",
        {"numbers": ['{"branch": "a", "first_missing": "2", "last_missing": "8"}']},
    ),
    "a number that is there twice": (
        "UPDATE {t} SET n = 1 WHERE n = 2",
        {"once": ['{"branch": "a", "n": "1", "copies": "2"}']},
    ),
}


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def legs(request: pytest.FixtureRequest, server: Connection) -> Iterator[tuple[Callable[[str], object], str, str]]:
    """(runs a statement, schema, SQLAlchemy's URL) of a database."""
    if request.param == "postgres":
        with postgres(server) as session:
            session.execute("CREATE SCHEMA legs")
            yield session.execute, "legs", url_of(server, "legs")
        return
    with mariadb_database("seamline_test_legs") as there, closing(mariadb(there)) as made, made.cursor() as cursor:
        yield cursor.execute, there.database, mysql_url_of(there, there.database)


@pytest.mark.parametrize("breach", [None, *BREACHES])
def test_each_breach_of_a_declared_rule_is_found_and_its_groups_are_named_with_what_they_add_up_to(
    legs: tuple[Callable[[str], object], str, str], breach: str | None
) -> None:
    execute, schema, url = legs
    place = f"{schema}.leg"
    for statement in (f"DROP TABLE IF EXISTS {place}", f"CREATE TABLE {place} ({LEG})"):
        execute(statement)
    execute(f"INSERT INTO {place} VALUES {LEGS}")
    statement, expected = BREACHES[breach] if breach else ("", {})
    if statement:
        execute(statement.format(t=place))
    quote = make_url(url).get_dialect()().identifier_preparer.quote_identifier
    rules = tuple(expectation_of(rule, quote) for rule in RULES)
    outcomes = check((), (StagedRows("leg", schema, "leg", rules),), lambda _: url, suite="s")
    found = {one.expectation.why.partition(":")[0]: list(one.keys) for one in outcomes if not one.is_met}
    assert found == expected, outcomes
    assert [one.rows for one in outcomes if not one.is_met] == [len(keys) for keys in expected.values()]


def test_a_table_with_a_name_of_any_script_and_with_blanks_is_judged_as_any_other(
    server: Connection, session: psycopg.Connection
) -> None:
    name = "票据 Buch-2$"
    session.execute(f'CREATE TABLE {STAGE}."{name}" ("编号 no" int, "金额" numeric(20, 4))')
    session.execute(f'INSERT INTO {STAGE}."{name}" VALUES (1, 5), (2, -6)')
    query = {"unexpected_rows_query": 'SELECT "编号 no" FROM {batch} WHERE "金额" < 0'}
    rules = (
        Expectation("expect_column_values_to_be_between", {"column": "金额", "min_value": 0}, "positive"),
        Expectation("unexpected_rows_expectation", query, "q"),
    )
    key = (Column("编号 no", Kind.INTEGER, "int", nullable=False, length=32),)
    for outcome in check((), (StagedRows("票据", STAGE, name, rules, key),), partial(url_of, server), suite="s"):
        assert (outcome.rows, outcome.keys) == (1, ('{"编号 no": "2"}',)), outcome


def test_a_staged_table_that_is_gone_is_no_pass(
    plan: SyncPlan, server: Connection, session: psycopg.Connection, checkout: Path
) -> None:
    session.execute(f"DROP TABLE {STAGE}.s_account")
    with pytest.raises(Exception, match="s_account"):
        _judged(plan, server, checkout)


def test_of_each_type_the_same_is_stored_whether_great_expectations_is_asked_for_all_at_once_or_for_each_alone(
    server: Connection, session: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash of what is stored is a part of the verdict (ADR 99), so a quicker way to ask must not change it (ADR
    104)."""
    session.execute(f"CREATE TABLE {STAGE}.s_every ({COLUMNS})")
    session.execute(f"INSERT INTO {STAGE}.s_every VALUES {ROWS}".encode())
    rules = tuple(every_expectation())
    assert {one.type for one in rules} == {*EXPECTATION_TYPES} - {CAPPED_TYPE}
    key = (Column("id", Kind.INTEGER, "int", nullable=False, length=32),)

    def judged() -> GateResult:
        staged = (StagedRows("every", STAGE, "s_every", rules, key),)
        return GateResult(tuple(check((), staged, partial(url_of, server), suite="s")))

    at_once = judged()
    monkeypatch.setattr("seamline_airflow.gx_engine._met_together", lambda *_: frozenset())
    alone = judged()
    assert at_once.outcomes == alone.outcomes
    assert sha256_of(canonical_json(at_once.to_json())) == sha256_of(canonical_json(alone.to_json()))
    met = {one.expectation.type for one in alone.outcomes if one.is_met}
    unmet = {one.expectation.type for one in alone.outcomes if one.detail and "evaluated" not in one.detail}
    assert len(met) >= 45, {one.expectation.type for one in alone.outcomes} - met
    assert len(unmet) >= 40, {one.expectation.type for one in alone.outcomes} - unmet


def test_checks_that_are_met_cost_a_table_no_more_statements_than_the_first_few_of_them(
    server: Connection, session: psycopg.Connection
) -> None:
    session.execute(f"CREATE TABLE {STAGE}.s_wide (id int PRIMARY KEY, a int, b int, c int, d int, e int)")
    session.execute(f"INSERT INTO {STAGE}.s_wide VALUES (1, 1, 1, 1, 1, 1)")
    run: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        run.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        counts = []
        for columns in ("ab", "abcde"):
            run.clear()
            rules = tuple(
                Expectation(f"expect_column_values_to_{what}", {"column": column, **kwargs}, what)
                for column in columns
                for what, kwargs in (
                    ("not_be_null", {}),
                    ("be_between", {"min_value": 1}),
                    ("be_in_set", {"value_set": [1]}),
                )
            )
            staged = StagedRows("wide", STAGE, "s_wide", rules)
            assert all(one.is_met for one in check((), (staged,), partial(url_of, server), suite="s"))
            counts.append(len(run))
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert counts[0] == counts[1], run
