"""Reconciliation of a real MariaDB with a real PostgreSQL: equal is MATCH, three changes are exactly three breaks."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.read import Relation, open_views
from seamline.databases.postgres.types import column_definitions
from seamline.demo.bank import SMALL, connect, fill
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.verdict import BreakType, TableVerdict, Verdict
from seamline.plan.checks import ControlTotalPlan
from seamline.sources.mariadb.catalogue import read_catalogue
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mariadb.read import MariaDbReadView
from seamline.sources.mariadb.sessions import open_session
from seamline.sync.bucket_search import Limits
from seamline.sync.comparison import Work, compare_tables
from seamline.sync.self_test import self_test
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database

NAMES = ("account", "ledger_entry", "payment_order", "access_audit")
P = BinlogPosition("0-1-1")
TOTALS = (
    ControlTotalPlan("ledger_entry", "amount", ("currency",)),
    ControlTotalPlan("account", "balance", ("currency",)),
)
Tables = dict[str, Table]


@pytest.fixture(scope="module")
def bank() -> Iterator[Connection]:
    with mariadb_database("reconcile_bank") as connection:
        with closing(connect(connection)) as session:
            fill(session, SMALL, now=datetime(2026, 3, 6, 1, tzinfo=UTC), timezone="Asia/Shanghai")
        yield connection


@pytest.fixture(scope="module")
def tables(bank: Connection) -> Tables:
    with closing(open_session(bank)) as session:
        return {table.name: table for table in read_catalogue(session, bank.database, NAMES)}


@pytest.fixture(scope="module")
def copied(bank: Connection, tables: Tables) -> Iterator[Connection]:
    with postgres_database("reconcile_warehouse") as connection, postgres(connection) as sql:
        sql.execute("CREATE SCHEMA settlement")
        with closing(mariadb(bank)) as session, session.cursor() as cursor:
            for table in tables.values():
                sql.execute(f"CREATE TABLE settlement.{table.name} ({column_definitions(table)})")
                cursor.execute(f"SELECT * FROM {table.name}")
                _copy(sql, table, cursor.fetchall())
        yield connection


def _copy(sql: "psycopg.Connection[Any]", table: Table, rows: Sequence[Any]) -> None:
    with sql.cursor() as cursor, cursor.copy(f"COPY settlement.{table.name} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


@pytest.fixture
def warehouse(copied: Connection, tables: Tables) -> Iterator["psycopg.Connection[Any]"]:
    """The equal copy; what a test changes in it is put back."""
    with postgres(copied) as sql:
        for name in NAMES:
            sql.execute(f"CREATE TABLE keep_{name} AS TABLE settlement.{name}")
        yield sql
        for name in NAMES:
            sql.execute(f"TRUNCATE settlement.{name}")
            sql.execute(f"INSERT INTO settlement.{name} TABLE keep_{name}")
            sql.execute(f"DROP TABLE keep_{name}")


@contextmanager
def views(
    bank: Connection, warehouse: Connection, tables: Tables, *, names: Sequence[str] = NAMES, count: int = 2
) -> Iterator[Any]:
    with ExitStack() as stack:
        source = []
        for _ in range(count):
            session = open_session(bank)
            with session.cursor() as cursor:
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            view = MariaDbReadView(
                session, database=bank.database, tables=list(tables.values()), position=P, opened_at=datetime.now(UTC)
            )
            source.append(stack.enter_context(closing(view)))
        relations = {name: Relation("settlement", name) for name in names}
        opened = open_views(
            warehouse, tables=list(tables.values()), relations=relations, count=count, position_of=lambda _: P
        )
        yield source, [stack.enter_context(closing(view)) for view in opened]


@pytest.fixture
def compare(bank: Connection, copied: Connection, tables: Tables) -> Callable[..., dict[str, TableVerdict]]:
    def run(*names: str, limits: Limits | None = None) -> dict[str, TableVerdict]:
        with views(bank, copied, tables) as (source, destination):
            work = [Work(tables[name], Segment(name), Segment(name)) for name in names or NAMES]
            found = compare_tables(work, source=source, destination=destination, totals=TOTALS, limits=limits)
        return {verdict.table: verdict for verdict in found}

    return run


Compare = Callable[..., dict[str, TableVerdict]]


def test_an_equal_copy_is_a_match_with_its_control_totals(compare: Compare, warehouse: Any) -> None:
    found = compare()
    assert {name: (verdict.verdict, verdict.reason) for name, verdict in found.items()} == {
        name: (Verdict.MATCH, "") for name in NAMES
    }
    assert found["ledger_entry"].source_rows == 2 * SMALL.transfers
    assert {total.group for total in found["ledger_entry"].totals} == {("CNY",), ("EUR",), ("USD",)}
    assert all(total.is_equal and total.source_sum == 0 for total in found["ledger_entry"].totals)


@pytest.mark.parametrize("limits", [None, Limits(buckets_max=4, leaf_rows=100, refine_by=8)], ids=["plain", "deep"])
def test_a_changed_a_deleted_and_an_added_row_are_exactly_three_breaks(
    compare: Compare, warehouse: Any, limits: Limits | None
) -> None:
    warehouse.execute("UPDATE settlement.ledger_entry SET amount = amount + 0.0001 WHERE id = 17")
    warehouse.execute("DELETE FROM settlement.ledger_entry WHERE id = 4711")
    warehouse.execute(
        "INSERT INTO settlement.ledger_entry (id, transfer_id, account_id, currency, amount, booked_at)"
        " VALUES (99999999, 1, 1, 'EUR', 1, '2026-03-05')"
    )
    found = compare(limits=limits)
    assert {name: verdict.verdict for name, verdict in found.items()} == {
        **dict.fromkeys(NAMES, Verdict.MATCH),
        "ledger_entry": Verdict.BREAK,
    }
    breaks = found["ledger_entry"].breaks
    assert {(entry.type, json.loads(entry.key)["id"]) for entry in breaks} == {
        (BreakType.VALUE, "17"),
        (BreakType.MISSING, "4711"),
        (BreakType.UNEXPECTED, "99999999"),
    }
    assert found["ledger_entry"].breaks_total == 3
    value = next(entry for entry in breaks if entry.type is BreakType.VALUE)
    assert value.source is not None
    assert value.destination is not None
    assert list(value.source) == ["amount"]
    assert Decimal(str(value.destination["amount"])) - Decimal(str(value.source["amount"])) == Decimal("0.0001")
    assert not all(total.is_equal for total in found["ledger_entry"].totals)


PLANTED = {
    "a trailing space": "UPDATE settlement.account SET owner = owner || ' ' WHERE id = 5",
    "a decomposed letter": "UPDATE settlement.account SET owner = normalize(owner || 'é', NFD) WHERE id = 5",
    "a microsecond": "UPDATE settlement.account SET updated_at = updated_at + interval '1 microsecond' WHERE id = 5",
    "one hour of summer": "UPDATE settlement.account SET updated_at = updated_at + interval '1 hour' WHERE id = 5",
    "a sign": "UPDATE settlement.account SET balance = -balance WHERE id = 5",
    "the last decimal": "UPDATE settlement.account SET balance = balance - 0.0001 WHERE id = 5",
    "a day": "UPDATE settlement.account SET opened = opened + 1 WHERE id = 5",
    "upper case": "UPDATE settlement.account SET status = 'OPEN' WHERE id = 5",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_difference_is_found_on_the_servers(planted: str, compare: Compare, warehouse: Any) -> None:
    warehouse.execute(PLANTED[planted])
    (verdict,) = compare("account").values()
    assert [(entry.type, entry.key) for entry in verdict.breaks] == [(BreakType.VALUE, '{"id": "5"}')]


def test_null_and_empty_are_distinguished_on_the_servers(compare: Compare, warehouse: Any) -> None:
    swapped = warehouse.execute(
        "UPDATE settlement.ledger_entry SET memo = CASE WHEN memo IS NULL THEN '' END"
        " WHERE id IN (SELECT id FROM settlement.ledger_entry WHERE memo IS NULL OR memo = '' ORDER BY id LIMIT 4)"
    ).rowcount
    (verdict,) = compare("ledger_entry").values()
    assert verdict.breaks_total == swapped == 4


def test_copies_of_a_keyless_row_are_counted_on_the_servers(compare: Compare, warehouse: Any) -> None:
    one = "(SELECT ctid FROM settlement.access_audit LIMIT 1)"
    warehouse.execute(f"INSERT INTO settlement.access_audit SELECT * FROM settlement.access_audit WHERE ctid = {one}")
    (verdict,) = compare("access_audit").values()
    assert (verdict.verdict, verdict.breaks_total) == (Verdict.BREAK, 1)
    assert [entry.type for entry in verdict.breaks] == [BreakType.DUPLICATE]
    assert set(json.loads(verdict.breaks[0].key)) == {"actor", "action", "object", "at"}


def test_a_column_spoilt_everywhere_is_named_instead_of_every_row(compare: Compare, warehouse: Any) -> None:
    warehouse.execute("UPDATE settlement.ledger_entry SET booked_at = booked_at + interval '1 hour'")
    limits = Limits(rows_per_bucket=64, fetch_rows=1_000)
    (verdict,) = compare("ledger_entry", limits=limits).values()
    assert "systematic" in verdict.reason
    assert "in booked_at;" in verdict.reason
    assert verdict.reason.endswith("transformation of booked_at suspected: time zone: the destination is 1 h later")
    first, *examples = verdict.breaks
    assert (first.type, len(examples)) == (BreakType.SYSTEMATIC, 5)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("memo = left(memo, 3)", "in memo; transformation of memo suspected: cut off after 3 characters"),
        ("amount = trunc(amount)", "transformation of amount suspected: cut off after 0 digits behind the point"),
        ("amount = round(amount, 1)", "transformation of amount suspected: rounded after 1 digit behind the point"),
        (
            "booked_at = booked_at - interval '8 hours'",
            "suspected: time zone: the destination is 8 h earlier",
        ),
        ("transfer_id = account_id, account_id = transfer_id", "transfer_id suspected: it is swapped with account_id"),
    ],
)
def test_what_was_done_to_a_column_is_named_by_real_servers(
    compare: Compare, warehouse: Any, made: str, words: str
) -> None:
    warehouse.execute(f"UPDATE settlement.ledger_entry SET {made}")
    (verdict,) = compare("ledger_entry").values()
    assert words in verdict.reason
    assert [one.type for one in verdict.breaks] == [BreakType.SYSTEMATIC] + [BreakType.VALUE] * 5


def test_a_column_that_one_side_lacks_is_a_break_of_schema(compare: Compare, warehouse: Any) -> None:
    warehouse.execute("ALTER TABLE settlement.payment_order ADD COLUMN extra integer")
    (verdict,) = compare("payment_order").values()
    warehouse.execute("ALTER TABLE settlement.payment_order DROP COLUMN extra")
    assert verdict.verdict is Verdict.BREAK
    assert [entry.type for entry in verdict.breaks] == [BreakType.SCHEMA]


@pytest.mark.parametrize(
    ("broken", "mended"),
    [
        ("ledger_entry RENAME COLUMN memo TO note", "ledger_entry RENAME COLUMN note TO memo"),
        ("ledger_entry RENAME TO elsewhere", "elsewhere RENAME TO ledger_entry"),
    ],
    ids=["a column", "the table"],
)
def test_a_large_table_of_another_schema_is_a_break_and_spoils_no_other(
    compare: Compare, warehouse: Any, broken: str, mended: str
) -> None:
    divided = Limits(part_rows=1_000)
    warehouse.execute(f"ALTER TABLE settlement.{broken}")
    found = compare(limits=divided)
    warehouse.execute(f"ALTER TABLE settlement.{mended}")
    assert [entry.type for entry in found["ledger_entry"].breaks] == [BreakType.SCHEMA], found["ledger_entry"]
    assert {name: verdict.verdict for name, verdict in found.items() if name != "ledger_entry"} == dict.fromkeys(
        {*NAMES} - {"ledger_entry"}, Verdict.MATCH
    )


def test_a_key_that_only_one_of_the_servers_can_hold_is_a_break_like_any_other(
    bank: Connection, copied: Connection
) -> None:
    with closing(mariadb(bank)) as session, session.cursor() as cursor, postgres(copied) as sql:
        cursor.execute("CREATE OR REPLACE TABLE wide (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, v INT)")
        cursor.execute("INSERT INTO wide SELECT seq, 1 FROM seq_1_to_400")
        (table,) = read_catalogue(session, bank.database, ["wide"])
        sql.execute(f"CREATE TABLE settlement.wide ({column_definitions(table)})")
        sql.execute("INSERT INTO settlement.wide SELECT n, 1 FROM generate_series(1, 400) n")
        sql.execute("INSERT INTO settlement.wide VALUES ('NaN', 1)")
        work = [Work(replace(table, rows_estimate=400), Segment("wide"), Segment("wide"))]
        for limits in (Limits(part_rows=100), Limits()):
            with views(bank, copied, {"wide": table}, names=("wide",)) as (source, destination):
                (found,) = compare_tables(work, source=source, destination=destination, limits=limits)
            assert found.verdict is Verdict.BREAK, found.reason
            assert [(one.type, one.key) for one in found.breaks] == [(BreakType.UNEXPECTED, '{"id": "NaN"}')]
        sql.execute("DROP TABLE settlement.wide")


def test_a_server_that_casts_no_bytes_digests_the_same(
    bank: Connection, copied: Connection, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    with views(bank, copied, tables) as (_, (view, _)):
        for name in ("ledger_entry", "access_audit"):
            segment = Segment(name, buckets=16)
            by_bytes = view.digests(segment, run_key="k")
            monkeypatch.setattr("seamline.databases.postgres.read._CASTS_BYTES", 10**9)
            assert view.digests(segment, run_key="k") == by_bytes
            assert len(by_bytes) > 1
            monkeypatch.undo()


def test_floats_are_compared_by_tolerance_on_the_servers(bank: Connection, copied: Connection) -> None:
    numbers = "(1, 1/3e0, 1/3e0), (2, 1e20, 1e20), (3, -0e0, 0.1e0), (4, NULL, NULL), (5, 1.7e308, 1.1754944e-38)"
    with closing(mariadb(bank)) as session, session.cursor() as cursor, postgres(copied) as sql:
        cursor.execute("CREATE OR REPLACE TABLE rate (id INT NOT NULL PRIMARY KEY, d DOUBLE, f FLOAT)")
        cursor.execute(f"INSERT INTO rate VALUES {numbers}")
        (table,) = read_catalogue(session, bank.database, ["rate"])
        sql.execute(f"CREATE TABLE settlement.rate ({column_definitions(table)})")
        sql.execute(f"INSERT INTO settlement.rate VALUES {numbers}")

        def verdict(limits: Limits | None = None) -> TableVerdict:
            with views(bank, copied, {"rate": table}, names=("rate",)) as (source, destination):
                work = [Work(table, Segment("rate"), Segment("rate"))]
                return compare_tables(work, source=source, destination=destination, limits=limits)[0]

        by_summary = Limits(float_rows=1)
        assert verdict().verdict is verdict(by_summary).verdict is Verdict.MATCH
        sql.execute("UPDATE settlement.rate SET d = d + 1e-9 WHERE id = 1")
        found = verdict()
        assert [(entry.type, entry.key) for entry in found.breaks] == [(BreakType.VALUE, '{"id": "1"}')]
        sql.execute("UPDATE settlement.rate SET d = NULL WHERE id = 1")
        assert verdict(by_summary).verdict is Verdict.BREAK
        sql.execute("DROP TABLE settlement.rate")


def test_breaks_are_planted_and_found_in_every_table_of_the_bank(
    bank: Connection, copied: Connection, tables: Tables
) -> None:
    work = [Work(tables[name], Segment(name), Segment(name)) for name in NAMES]
    with views(bank, copied, tables) as (source, destination):
        verdicts = compare_tables(work, source=source, destination=destination)
        found = self_test(work, verdicts, source=source[0], destination=destination[0], seed="bank")
    assert found.is_passed, found
    assert (found.tables, found.by_reference) == (4, ("access_audit",))
    assert found.planted > 60


def test_a_table_that_is_gone_is_never_a_match(
    bank: Connection, copied: Connection, tables: Tables, warehouse: Any
) -> None:
    missing = replace(tables["account"], name="nothing")
    with views(bank, copied, {**tables, "nothing": missing}) as (source, destination):
        work = [Work(missing, Segment("nothing"), Segment("nothing"))]
        (verdict,) = compare_tables(work, source=source, destination=destination)
    assert verdict.verdict is Verdict.BREAK
