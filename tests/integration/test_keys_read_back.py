"""A key as it stands in a row text is read back into a query on both engines, whatever extreme value it holds: a row
that differs is named, and the comparison is no error of ours.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.read import PostgresReadView, Relation, open_views
from seamline.databases.postgres.types import column_definitions
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.position import Position
from seamline.domain.verdict import BreakType, Verdict
from seamline.plan.model import SourcePlan
from seamline.ports import ReadView
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mariadb.read import MariaDbReadView
from seamline.sources.mariadb.sessions import open_session
from seamline.sources.postgres.catalogue import survey
from seamline.sources.postgres.edge_values import edge_values
from seamline.sync.comparison import Work, compare_tables
from seamline.sync.self_test import self_test
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.postgres_kinds import CASES, TYPES

P = BinlogPosition("0-1-1")
SOURCE = SourcePlan("there", "postgres", "keys_read_back", "r", "c", "m", "t", "c", schema="there")
# Of a PostgreSQL source: floats, intervals, documents, ranges, composite types and numerics of any scale are no keys.
KEYS = [
    replace(case, name=f"key_{case.name}")
    for case in CASES
    if case.name not in ("free", "real4", "real8", "span", "grace", "doc", "docb", "vacation", "home", "old_home")
    and not case.name.startswith(("r_", "m_"))
]
LAST_EXACT = "294247-01-10 04:00:54.775806"
NUMBER = Column("n", Kind.INTEGER, "integer", length=32)


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    """Filled by `database`, with their definitions as the source's catalogue shows them."""
    return {}


@pytest.fixture(scope="module")
def database(tables: dict[str, Table]) -> Iterator[Connection]:
    """Every type's edge values as keys, at a source and in its copy."""
    with postgres_database(SOURCE.database) as connection:
        with postgres(connection) as session:
            for statement in ("CREATE SCHEMA there", "CREATE SCHEMA copied", "SET search_path = there", *TYPES):
                session.execute(statement.encode())
            for case in KEYS:
                session.execute(f"CREATE TABLE {case.name} (v {case.type} PRIMARY KEY, n int)".encode())
            found = survey(session, SOURCE, [case.name for case in KEYS])
            assert not found.problems
            for case, table in zip(KEYS, found.tables, strict=True):
                tables[case.name] = table
                session.execute(f"CREATE TABLE copied.{case.name} ({column_definitions(table)})".encode())
                for value in (*case.edges, *_edges(table.columns[0])):
                    session.execute(f"INSERT INTO {case.name} VALUES ({value}, 1) ON CONFLICT DO NOTHING".encode())
                if table.columns[0].kind in (Kind.DATETIME, Kind.INSTANT):
                    # Behind it PostgreSQL's own extract(epoch) rounds to tens of microseconds: two values, one text.
                    session.execute(f"DELETE FROM {case.name} WHERE v > '{LAST_EXACT}' AND isfinite(v)".encode())
                kept = "rtrim(v)" if table.columns[0].kind is Kind.CHAR else "v"
                session.execute(f"INSERT INTO copied.{case.name} SELECT {kept}, n FROM {case.name}".encode())
        yield connection


def _edges(column: Column) -> Sequence[str]:
    """Those of `seamline certify`; a domain's own check may refuse some."""
    return () if column.kind is Kind.ENUM or column.source_type == "amount" else edge_values(column)


def view(connection: Connection, schema: str, *tables: Table) -> PostgresReadView:
    relations = {table.name: Relation(schema, table.name) for table in tables}
    (opened,) = open_views(connection, tables=tables, relations=relations, count=1, position_of=_nowhere)
    return opened


def _nowhere(_: object) -> Position:
    return P


def keys_of(view: ReadView, table: Table) -> list[str]:
    return [row.key for row in view.row_hashes(Segment(table.name), run_key="k")]


@pytest.mark.parametrize("name", [case.name for case in KEYS])
def test_breaks_are_planted_under_every_key_and_found(
    database: Connection, tables: dict[str, Table], name: str
) -> None:
    table = tables[name]
    work = [Work(table, Segment(name), Segment(name))]
    with closing(view(database, "there", table)) as source, closing(view(database, "there", table)) as copy:
        verdicts = compare_tables(work, source=[source], destination=[copy])
        found = self_test(work, verdicts, source=source, destination=copy)
    assert found.is_passed and found.tables == 1, found


@pytest.mark.parametrize("name", [case.name for case in KEYS])
def test_a_value_that_changed_is_a_break_of_its_row(database: Connection, tables: dict[str, Table], name: str) -> None:
    """Under every key at once, so that each has to be found again on both sides."""
    table = tables[name]
    with postgres(database) as session:
        session.execute(f"UPDATE copied.{name} SET n = 2".encode())
        count = session.execute(f"SELECT count(*) FROM there.{name}".encode()).fetchone()
    with closing(view(database, "there", table)) as source, closing(view(database, "copied", table)) as copy:
        keys = keys_of(source, table)
        assert count == (len(keys),) and len(keys) == len(set(keys))
        for one in (source, copy):
            assert one.rows(name, keys).keys() == set(keys)
        (found,) = compare_tables([Work(table, Segment(name), Segment(name))], source=[source], destination=[copy])
    assert found.verdict is Verdict.BREAK and found.breaks_total == len(keys)
    assert {one.type for one in found.breaks} == {BreakType.VALUE}
    assert all((one.source, one.destination) == ({"n": "1"}, {"n": "2"}) for one in found.breaks)


def test_a_day_before_the_year_1_is_named_as_people_write_it(database: Connection, tables: dict[str, Table]) -> None:
    table = tables["key_day"]
    with postgres(database) as session:
        session.execute("UPDATE copied.key_day SET n = 1")
        session.execute("UPDATE copied.key_day SET n = 2 WHERE v = '4713-01-01 BC'")
    with closing(view(database, "there", table)) as source, closing(view(database, "copied", table)) as copy:
        (found,) = compare_tables(
            [Work(table, Segment("key_day"), Segment("key_day"))], source=[source], destination=[copy]
        )
    assert [one.key for one in found.breaks] == ['{"v": "4713-01-01 BC"}']


# By kind: what only the other side can hold, as a key there. Both are asked for the keys of both.
MARIADB_ONLY = {
    "day": ("date", Kind.DATE, ("'0000-00-00'", "'2026-02-31'", "'0001-01-01'")),
    "at": ("datetime(6)", Kind.DATETIME, ("'0000-00-00'", "'0001-01-01 00:00:00'")),
    "moment": ("timestamp(6)", Kind.INSTANT, ("'0000-00-00'", "'2026-11-20 10:20:30'")),
    "name": (
        "varchar(20) character set latin1 collate latin1_general_cs",
        Kind.STRING,
        ("concat('a', char(0))", "'a'"),
    ),
    "mood": ("enum('glad','sad')", Kind.ENUM, ("'glad'", "'sad'")),
    "span": ("time(6)", Kind.TIME, ("'-838:59:59'", "'10:00:00'")),
    "id128": ("uuid", Kind.UUID, ("'00000000-0000-0000-0000-000000000000'",)),
    "bits": ("bit(9)", Kind.BITS, ("b'100000001'",)),
    "flag": ("bit(1)", Kind.BOOLEAN, ("b'1'",)),
    "big": ("bigint unsigned", Kind.UNSIGNED, ("18446744073709551615",)),
    "raw": ("binary(3)", Kind.BINARY, ("x'000000'",)),
    "money": ("decimal(12,2)", Kind.DECIMAL, ("-0.01",)),
}
POSTGRES_ONLY = {
    "day": ("'infinity'", "'0001-01-01 BC'", "'5874897-12-31'"),
    "at": ("'-infinity'", "'4713-01-01 BC'", "'294276-12-31 23:59:59.999999'"),
    "moment": ("'infinity'", "'4713-01-01 BC'", "'12026-01-01'"),
    "name": ("'漢字'", "E'back\\\\slash'"),
    "mood": ("'neither'", "''"),
    "span": ("'infinity'", "'178000000 years'", "'2562047788:00:54.775807'"),
    "id128": ("'ffffffff-ffff-ffff-ffff-ffffffffffff'",),
    "bits": ("-1", "9223372036854775807"),
    "flag": ("false",),
    "big": ("-1", "'NaN'", "99999999999999999999"),
    "raw": (r"'\x'", r"'\x00ff00ff'"),
    "money": ("'NaN'", "9999999999.99"),
}


def test_each_side_is_asked_for_keys_that_only_the_other_can_hold(database: Connection) -> None:
    with mariadb_database("keys_read_back") as bank, closing(mariadb(bank)) as session, session.cursor() as cursor:
        definitions = {}
        with postgres(database) as copy:
            copy.execute("CREATE SCHEMA bank")
            for name, (kind_there, kind, values) in MARIADB_ONLY.items():
                length = {Kind.BITS: 9, Kind.BINARY: 3, Kind.STRING: 0}.get(kind, 0)
                precision, scale = (12, 2) if kind is Kind.DECIMAL else (6, 0)
                key = Column("v", kind, kind_there, nullable=False, length=length, precision=precision, scale=scale)
                definitions[name] = table = Table(name, (key, NUMBER), ("v",))
                cursor.execute(f"CREATE TABLE {name} (v {kind_there} PRIMARY KEY, n int)")
                cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
                for value in values:
                    cursor.execute(f"INSERT INTO {name} VALUES ({value}, 1)")
                copy.execute(f"CREATE TABLE bank.{name} ({column_definitions(table)})".encode())
                for value in POSTGRES_ONLY[name]:
                    copy.execute(f"INSERT INTO bank.{name} VALUES ({value}, 1)".encode())
        opened = MariaDbReadView(
            open_session(bank),
            database=bank.database,
            tables=list(definitions.values()),
            position=P,
            opened_at=datetime.now(UTC),
        )
        with closing(opened) as there, closing(view(database, "bank", *definitions.values())) as here:
            for name, table in definitions.items():
                sides = {side: keys_of(side, table) for side in (there, here)}
                assert len(sides[there]) == len(MARIADB_ONLY[name][2]) and len(sides[here]) == len(POSTGRES_ONLY[name])
                asked = [*sides[there], *sides[here]]
                assert there.rows(name, asked).keys() == set(sides[there]), name
                # A span of years outgrows what can be written as hours, and the last moment is rounded beyond the end.
                readable = {key for key in sides[here] if not key.startswith(("5617", "9224318016"))}
                assert here.rows(name, asked).keys() == readable, name


def test_a_label_that_the_source_does_not_have_is_an_unexpected_row(
    database: Connection, tables: dict[str, Table]
) -> None:
    table = tables["key_mood"]
    with postgres(database) as session:
        session.execute("UPDATE copied.key_mood SET n = 1")
        session.execute("INSERT INTO copied.key_mood VALUES ('neither', 1)")
    with closing(view(database, "there", table)) as source, closing(view(database, "copied", table)) as copy:
        (found,) = compare_tables(
            [Work(table, Segment("key_mood"), Segment("key_mood"))], source=[source], destination=[copy]
        )
        assert source.rows("key_mood", keys_of(copy, table)).keys() == set(keys_of(source, table))
    assert [(one.type, one.key) for one in found.breaks] == [(BreakType.UNEXPECTED, '{"v": "neither"}')]
    with postgres(database) as session:
        session.execute("DELETE FROM copied.key_mood WHERE v = 'neither'")
