"""Twenty kinds of planted break, found between real servers: written into the tables, and in their shadow copies.

`--seeds` says of how many seeds; each seed changes other rows and values.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pymysql
import pytest

from seamline.adapters.connections import Connection
from seamline.adapters.hanging import QUESTION_S
from seamline.databases.mysql import canonical as mysql_texts
from seamline.databases.mysql.read import BinlogReadView
from seamline.databases.postgres import canonical as postgres_texts
from seamline.databases.postgres.read import SESSION_SETTINGS, PostgresReadView, Relation
from seamline.databases.postgres.types import column_definitions
from seamline.domain.canonical import literal_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.verdict import BreakType, Verdict
from seamline.ports import ReadView
from seamline.ports.shadow import ShadowCopy
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.mysql.dialect import MYSQL
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.read_back import VIEW_SETTINGS
from seamline.sinks.relational.read_view import RelationalReadView
from seamline.sinks.relational.statements import create_table
from seamline.sources.mariadb.catalogue import read_catalogue
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mariadb.read import MariaDbReadView
from seamline.sources.mariadb.sessions import open_session
from seamline.sync.comparison import Work, compare_tables
from seamline.sync.plants import KINDS, Expected, plants
from seamline.sync.self_test import SAMPLE_ROWS, self_test, self_tested
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database

P = BinlogPosition("0-1-1")
DATABASE = "planted_breaks"
# A key of two columns of which one is a text, and a column of every kind that is planted.
CREATED = """
CREATE TABLE planted (
  branch varchar(8) NOT NULL, id bigint NOT NULL, amount decimal(20,4), fee decimal(20,4) NOT NULL, entries int,
  memo varchar(60), note text, currency char(3) NOT NULL, proof varbinary(16), booked_at datetime(6),
  seen_at timestamp(3) NULL, valued date, is_open bit(1), sequence bigint unsigned NOT NULL,
  PRIMARY KEY (branch, id)
)"""
ROWS = 300


def row(n: int) -> tuple[Any, ...]:
    moment = datetime(2026, 3, 28, 22, 0, 0, 250_000) + timedelta(minutes=7 * n)  # noqa: DTZ001
    return (
        f"B{n % 3}", n, Decimal(n * 13) / 8 - 200, Decimal(n) / 16, n % 17 - 3,
        None if n % 6 == 0 else f"Übertrag {n} 'zu' \\ 東京", None if n % 5 == 0 else f"Note {n}",
        ("EUR", "USD", "CNY")[n % 3], bytes([n % 256, 0, 255]), moment, moment.replace(microsecond=125_000),
        date(2026, 1, 1) + timedelta(days=n), n % 2, 2**63 + n,
    )  # fmt: skip


@dataclass
class Side:
    """One table in a transaction that is rolled back, and a view that sees what the transaction has changed."""

    view: ReadView
    relation: str
    execute: Callable[[str, list[Any]], Any]
    quoted: Callable[[str], str]
    roll_back: Callable[[], Any]

    def becomes(self, wanted: ShadowCopy, rows: Mapping[str, Mapping[str, str | None]]) -> None:
        """The table is what the copy shall be, by statements of its own."""
        table = wanted.table
        is_key = " AND ".join(f"{self.quoted(column)} = %s" for column in table.key)
        for key, values in wanted.changed.items():
            changed = ", ".join(f"{self.quoted(name)} = %s" for name in values)
            new = [bound(table.column(name), text) for name, text in values.items()]
            self.execute(f"UPDATE {self.relation} SET {changed} WHERE {is_key}", [*new, *keys_of(table, rows[key])])
        for key in wanted.doubled:
            found = keys_of(table, rows[key])
            self.execute(f"INSERT INTO {self.relation} SELECT * FROM {self.relation} WHERE {is_key}", found)
        for key in rows.keys() - set(wanted.keys):
            self.execute(f"DELETE FROM {self.relation} WHERE {is_key}", keys_of(table, rows[key]))


def keys_of(table: Table, texts: Mapping[str, str | None]) -> list[Any]:
    return [bound(column, texts[column.name]) for column in table.key_columns]


def bound(column: Column, text: str | None) -> Any:
    if text is None:
        return None
    return bytes.fromhex(text) if column.kind is Kind.BYTES else literal_text(column, text)


@dataclass(frozen=True)
class Servers:
    root: Connection
    warehouse: Connection
    mysql: Connection
    table: Table


@pytest.fixture(scope="module")
def servers(stack: object, mysql_root: Connection) -> Iterator[Servers]:
    rows = [row(n) for n in range(ROWS)]
    with ExitStack() as around:
        root = around.enter_context(mariadb_database(DATABASE))
        warehouse = around.enter_context(postgres_database(DATABASE))
        with closing(mariadb(root)) as session, session.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(CREATED)
            marks = ", ".join(["%s"] * len(rows[0]))
            cursor.executemany(f"INSERT INTO planted VALUES ({marks})", rows)
            session.commit()
            (table,) = read_catalogue(session, root.database, ["planted"])
        with postgres(warehouse) as sql:
            sql.execute(f"CREATE TABLE planted ({column_definitions(table)})".encode())
            with sql.cursor() as rows_in, rows_in.copy("COPY planted FROM STDIN") as copy:
                for one in rows:
                    copy.write_row([*one[:10], one[10].replace(tzinfo=UTC), *one[11:]])
        mysql = replace(mysql_root, database="")
        for connection, dialect in ((root, MARIADB), (mysql, MYSQL)):
            with closing(mariadb(replace(connection, database=""))) as session, session.cursor() as cursor:
                cursor.execute("SET time_zone = '+00:00'")
                cursor.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
                cursor.execute(create_table(f"{DATABASE}.held", table, dialect))
                # As a destination that lost its primary key: a row can stand there twice.
                cursor.execute(f"ALTER TABLE {DATABASE}.held DROP PRIMARY KEY, ADD KEY (branch, id)")
                cursor.executemany(f"INSERT INTO {DATABASE}.held VALUES ({marks})", rows)
                session.commit()
        yield Servers(root, warehouse, mysql, table)
        with closing(mariadb(mysql)) as session, session.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {DATABASE}")


def in_source(servers: Servers) -> Side:
    session = open_session(servers.root)
    view = MariaDbReadView(session, database=DATABASE, tables=[servers.table], position=P, opened_at=datetime.now(UTC))
    return on_binlog_server(session, view, f"{DATABASE}.planted")


def in_postgres(servers: Servers) -> Side:
    session = postgres(servers.warehouse)
    for setting in SESSION_SETTINGS:
        session.execute(setting)
    session.execute("BEGIN")
    relations = {"planted": Relation("public", "planted")}
    return Side(
        PostgresReadView(session, tables=[servers.table], relations=relations, position=P),  # type: ignore[arg-type]
        "public.planted",
        lambda statement, values: session.execute(statement.encode(), values),
        postgres_texts.quoted,
        lambda: (session.execute("ROLLBACK"), session.execute("BEGIN")),
    )


def in_relational(servers: Servers, dialect: Dialect) -> Side:
    connection = servers.mysql if dialect is MYSQL else servers.root
    session = dialect.open_session(replace(connection, database=""), limit_s=QUESTION_S)
    with session.cursor() as cursor:
        for setting in (*VIEW_SETTINGS, *dialect.view_settings):
            cursor.execute(setting)
    places = {"planted": (DATABASE, "held")}
    view = RelationalReadView(session, tables=[servers.table], places=places, position=P, dialect=dialect)
    return on_binlog_server(session, view, f"{DATABASE}.held")


def on_binlog_server(session: "pymysql.Connection[Any]", view: BinlogReadView, relation: str) -> Side:
    def execute(statement: str, values: list[Any]) -> None:
        with session.cursor() as cursor:
            cursor.execute(statement, values)

    execute("SET autocommit = 0", [])
    return Side(view, relation, execute, mysql_texts.quoted, session.rollback)


PAIRS: dict[str, tuple[Callable[[Servers], Side], Callable[[Servers], Side]]] = {
    "MariaDB to PostgreSQL": (in_source, in_postgres),
    "MariaDB to MariaDB": (in_source, lambda servers: in_relational(servers, MARIADB)),
    "MariaDB to MySQL": (in_source, lambda servers: in_relational(servers, MYSQL)),
}


@dataclass(frozen=True)
class Pair:
    table: Table
    source: Side
    destination: Side

    @property
    def work(self) -> Work:
        return Work(replace(self.table, rows_estimate=ROWS), Segment("planted"), Segment("planted"))

    def verdict(self) -> Any:
        (found,) = compare_tables([self.work], source=[self.source.view], destination=[self.destination.view])
        return found


@pytest.fixture(params=list(PAIRS))
def pair(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Pair]:
    source, destination = (open_side(servers) for open_side in PAIRS[request.param])
    with closing(source.view), closing(destination.view):
        yield Pair(servers.table, source, destination)


def test_every_kind_written_into_the_tables_is_found_and_nothing_else(pair: Pair, pytestconfig: pytest.Config) -> None:
    assert pair.verdict().verdict is Verdict.MATCH
    view = pair.destination.view
    every_row = view.rows("planted", [one.key for one in view.row_hashes(Segment("planted"), run_key="k")])
    assert len(every_row) == ROWS
    for seed in range(pytestconfig.getoption("seeds")):
        planted = plants(pair.table, every_row, Random(str(seed)))  # noqa: S311
        assert set(planted.kinds) == set(KINDS)
        pair.source.becomes(planted.source, every_row)
        pair.destination.becomes(planted.destination, every_row)
        verdict = pair.verdict()
        found = {
            Expected(one.type, one.key, frozenset(one.source or ()) if one.type is BreakType.VALUE else frozenset())
            for one in verdict.breaks
        }
        pair.source.roll_back()
        pair.destination.roll_back()
        assert verdict.verdict is Verdict.BREAK, f"seed {seed}: {verdict.reason}"
        assert (planted.expected - found, found - planted.expected) == (frozenset(), set()), f"seed {seed}"
        assert verdict.breaks_total == len(planted.expected), f"seed {seed}"


def test_every_kind_in_a_shadow_copy_is_found_and_nothing_else(pair: Pair, pytestconfig: pytest.Config) -> None:
    before = pair.verdict()
    for seed in range(pytestconfig.getoption("seeds")):
        found = self_test(
            [pair.work], [before], source=pair.source.view, destination=pair.destination.view, seed=str(seed)
        )
        assert found.is_passed, found
        assert (set(found.kinds), found.by_reference, found.found) == (set(KINDS), (), found.planted)
    assert pair.verdict().verdict is Verdict.MATCH
    assert SAMPLE_ROWS < ROWS


def texts_of_strings(monkeypatch: pytest.MonkeyPatch, *, postgres: str, mysql: str) -> None:
    for kind in (Kind.STRING, Kind.CHAR):
        monkeypatch.setitem(postgres_texts._EXPRESSIONS, kind, postgres)
        monkeypatch.setitem(postgres_texts._FROM_BYTES, kind, postgres)
        monkeypatch.setitem(mysql_texts._EXPRESSIONS, kind, mysql)


def trims(monkeypatch: pytest.MonkeyPatch) -> None:
    texts_of_strings(monkeypatch, postgres="rtrim({value}::text)", mysql="RTRIM(CONVERT({name} USING utf8mb4))")


def folds_case(monkeypatch: pytest.MonkeyPatch) -> None:
    texts_of_strings(monkeypatch, postgres="lower({value}::text)", mysql="LOWER(CONVERT({name} USING utf8mb4))")


def drops_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    """NULL of a text is the empty one."""
    monkeypatch.setattr(postgres_texts, "NULL_FIELD", "0:")
    monkeypatch.setattr(mysql_texts, "NULL_FIELD", "0:")


def adds_by_xor(monkeypatch: pytest.MonkeyPatch) -> None:
    for view, aggregate in ((PostgresReadView, "sum("), (BinlogReadView, "SUM(")):
        fetch = view._fetch

        def by_xor(self: Any, statement: str, fetch: Any = fetch, aggregate: str = aggregate) -> Any:
            return fetch(self, statement.replace(f" {aggregate}", " bit_xor("))

        monkeypatch.setattr(view, "_fetch", by_xor)


def leaves_seconds_fractions_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "(trunc(extract(epoch from {value}))*1000000)::bigint::text"
    for expressions in (postgres_texts._EXPRESSIONS, postgres_texts._FROM_BYTES):
        monkeypatch.setitem(expressions, Kind.DATETIME, whole)
    cut = "TIMESTAMPDIFF(SECOND,TIMESTAMP'1970-01-01 00:00:00',{name})*1000000"
    monkeypatch.setitem(mysql_texts._EXPRESSIONS, Kind.DATETIME, cut)


@pytest.mark.parametrize("wrong", [trims, folds_case, drops_nulls, adds_by_xor, leaves_seconds_fractions_out])
@pytest.mark.parametrize("pair", ["MariaDB to PostgreSQL"], indirect=True)
def test_a_digest_that_is_wrong_on_both_servers_finds_equal_tables_equal_and_is_caught(
    pair: Pair, wrong: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong(monkeypatch)
    verdict = pair.verdict()
    assert verdict.verdict is Verdict.MATCH
    (under,), evidence = self_tested([verdict], [pair.work], source=pair.source.view, destination=pair.destination.view)
    assert under.verdict is Verdict.INCONCLUSIVE, evidence
