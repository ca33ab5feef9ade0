"""MySQL's catalogue as kinds, and its canonical texts: what its own SQL digests is what `domain.canonical` digests."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from seamline.adapters.connections import Connection
from seamline.databases.mysql.snapshot_sessions import SnapshotLock, bring_together
from seamline.domain.canonical import (
    FLOAT_KINDS,
    bucket_of,
    canonical_row,
    canonical_text,
    digest_of,
    exact_columns,
    is_exact,
    row_hash,
    row_text,
)
from seamline.domain.catalogue import Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import SchemaConflict
from seamline.ports import ReadView
from seamline.sources.mysql.catalogue import read_catalogue, survey
from seamline.sources.mysql.edge_values import edge_values
from seamline.sources.mysql.sessions import READING, open_session, views_at
from tests.integration.mysql_types import NAMES, TYPES
from tests.mysql_server import mysql, mysql_database

RUN_KEY = "a 'key' with \\ and %s"
WANTED = ("embedded1", "embedded", "measured", "seen", "made", "zoned", "keyless")
# The server refuses them in some character sets and ranges; of each type more than this must be left.
_LEAST_VALUES = 2
Rows = Sequence[dict[str, Any]]


@pytest.fixture(scope="module")
def database(mysql_root: Connection) -> Iterator[Connection]:
    with mysql_database(mysql_root, "snap_values") as connection:
        with closing(mysql(connection)) as session, session.cursor() as cursor:
            for of, name in NAMES.items():
                cursor.execute(f"CREATE TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, v {of} NULL)")
            for table in read_catalogue(session, connection.database, list(NAMES.values())):
                column = table.column("v")
                # No strict session takes an ENUM's error value, and none that is not refuses what it cannot keep.
                mode = "" if column.kind is Kind.ENUM else "STRICT_ALL_TABLES"
                cursor.execute("SET SESSION sql_mode = %s", (mode,))
                for literal in edge_values(column):
                    with suppress(pymysql.err.DataError, pymysql.err.OperationalError):
                        cursor.execute(f"INSERT INTO {table.name} (v) VALUES ({literal})")
        yield connection


@pytest.fixture(scope="module")
def view(database: Connection) -> Iterator[ReadView]:
    with viewed(database) as view:
        yield view


@contextmanager
def viewed(database: Connection, *tables: Table) -> Iterator[ReadView]:
    with closing(open_session(database)) as session:
        position = bring_together([session], READING.snapshots(database, SnapshotLock.NONE))
        (view,) = views_at([session], connection=database, position=position, tables=tables)
        yield view


@pytest.fixture(scope="module")
def tables(database: Connection) -> Mapping[str, Table]:
    with closing(mysql(database)) as session:
        found = read_catalogue(session, database.database, list(NAMES.values()))
    return dict(zip(TYPES, found, strict=True))


def rows_of(database: Connection, table: Table) -> Rows:
    """As the driver reads them: a way of its own from the server to Python."""
    with closing(mysql(database)) as session, session.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute(f"SELECT * FROM {table.name}")
        rows = [dict(row) for row in cursor.fetchall()]
    if table.column("v").kind is Kind.BITS:
        return [{**row, "v": row["v"] if row["v"] is None else int.from_bytes(row["v"])} for row in rows]
    return rows


@pytest.mark.parametrize("of", TYPES)
def test_every_type_is_read_from_the_catalogue_as_its_kind(tables: Mapping[str, Table], of: str) -> None:
    column = tables[of].column("v")
    assert (column.kind, column.length or column.precision) == TYPES[of]
    assert tables[of].key == ("id",)
    assert column.nullable
    assert not tables[of].column("id").nullable


@pytest.mark.parametrize("of", TYPES)
def test_a_value_has_one_text_and_one_digest(
    of: str, tables: Mapping[str, Table], view: ReadView, database: Connection
) -> None:
    table = tables[of]
    rows = rows_of(database, table)
    assert len(rows) > _LEAST_VALUES
    assert None in [row["v"] for row in rows]
    texts = {str(row["id"]): canonical_row(table, row) for row in rows}
    shown = {
        key: row_text(exact_columns(table), [row[column.name] for column in exact_columns(table)])
        for key, row in view.rows(table.name, list(texts)).items()
    }
    assert shown == texts
    hashes = {key: row_hash(text, run_key=RUN_KEY) for key, text in texts.items()}
    assert {row.key: row.hash for row in view.row_hashes(Segment(table.name), run_key=RUN_KEY)} == hashes
    assert view.digests(Segment(table.name), run_key=RUN_KEY) == {0: digest_of(texts.values(), run_key=RUN_KEY)}


@pytest.mark.parametrize("of", [of for of, (kind, _) in TYPES.items() if kind not in FLOAT_KINDS])
def test_a_row_falls_into_the_bucket_that_python_finds(
    of: str, tables: Mapping[str, Table], database: Connection
) -> None:
    """With the value itself as key, and without a key."""
    whole, name = tables[of], f"keyed_{NAMES[of]}"
    with closing(mysql(database)) as session, session.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} LIKE {whole.name}")
        cursor.execute(f"INSERT INTO {name} SELECT * FROM {whole.name} WHERE v IS NOT NULL")
    for key in (("v",), ("v", "id"), ()):
        table = replace(whole, name=name, key=key)
        expected: dict[int, list[str]] = {}
        for row in rows_of(database, table):
            number = bucket_of(table, row, buckets=1_000, run_key=RUN_KEY)
            expected.setdefault(number, []).append(canonical_row(table, row))
        wanted = tuple(list(expected)[:3])
        with viewed(database, table) as view:
            found = view.digests(Segment(name, buckets=1_000), run_key=RUN_KEY)
            some = view.digests(Segment(name, among=wanted, among_of=1_000), run_key=RUN_KEY)
        assert found == {number: digest_of(texts, run_key=RUN_KEY) for number, texts in expected.items()}
        assert some == {0: digest_of([text for number in wanted for text in expected[number]], run_key=RUN_KEY)}


# MySQL takes no document as a key.
@pytest.mark.parametrize("of", [of for of, (kind, _) in TYPES.items() if kind not in (*FLOAT_KINDS, Kind.JSON)])
def test_a_row_is_found_by_the_text_of_its_key(of: str, tables: Mapping[str, Table], database: Connection) -> None:
    """Also among neighbours that the column's collation joins."""
    table = replace(tables[of], key=("v",))
    column = table.column("v")
    rows = [row for row in rows_of(database, table) if row["v"] is not None]
    keys = {row_text([column], [canonical_text(column, row["v"])]): str(row["id"]) for row in rows}
    with viewed(database, table) as view:
        found = view.rows(table.name, list(keys))
    assert {key: row["id"] for key, row in found.items()} == keys


@pytest.mark.parametrize("of", ["float", "float(7,3)", "double"])
def test_floating_point_numbers_are_summed_up_as_the_driver_reads_them(
    of: str, tables: Mapping[str, Table], view: ReadView
) -> None:
    table = tables[of]
    assert not is_exact(table.column("v"))
    summary = view.float_summaries(Segment(table.name))["v"]
    assert summary.count > _LEAST_VALUES
    assert summary.agrees_with(summary, kind=table.column("v").kind)


def test_texts_that_collations_join_are_kept_apart(database: Connection) -> None:
    """The server's default collation has no case and no accents; that of `padded` no trailing spaces either."""
    values = ("a", "A", "á", "a ", "a\n")
    with closing(mysql(database)) as session, session.cursor() as cursor:
        cursor.execute("CREATE TABLE joined (v VARCHAR(9), padded VARCHAR(9) COLLATE utf8mb4_bin)")
        cursor.executemany("INSERT INTO joined VALUES (%s, %s)", [(value, value) for value in values])
        (table,) = read_catalogue(session, database.database, ["joined"])
    with viewed(database, table) as view:
        rows = view.row_hashes(Segment("joined"), run_key=RUN_KEY)
        assert {row.key for row in rows} == {canonical_row(table, {"v": one, "padded": one}) for one in values}
        assert all(row.copies == 1 for row in rows)
        for column in ("v", "padded"):
            assert view.totals(Segment("joined"), columns=(), by=[column]) == {(one,): (1, None) for one in values}


def test_what_cannot_be_kept_is_refused_by_name_and_all_at_once(database: Connection) -> None:
    with closing(mysql(database)) as session, session.cursor() as cursor:
        for statement in (
            "CREATE TABLE embedded (id INT PRIMARY KEY, at VECTOR(3), place POINT, old VARCHAR(9) CHARACTER SET ujis)",
            "CREATE TABLE measured (at DOUBLE PRIMARY KEY)",
            "CREATE VIEW seen AS SELECT * FROM measured",
            "CREATE TABLE made (id INT PRIMARY KEY, hidden INT INVISIBLE DEFAULT 5, mark VARCHAR(36) DEFAULT (UUID()),"
            " born DATE, ts TIMESTAMP NULL, twice INT AS (id * 2) VIRTUAL, thrice INT AS (id * 3) STORED,"
            " said VARCHAR(90) AS (CONCAT('it''s \\\\ ', YEAR(born))) VIRTUAL)",
            "CREATE TABLE zoned (id INT PRIMARY KEY, ts TIMESTAMP NULL, day DATE AS (CAST(ts AS DATE)) VIRTUAL)",
            "SET SESSION sql_generate_invisible_primary_key = ON",
            "CREATE TABLE keyless (v INT)",
        ):
            cursor.execute(statement)
        found = survey(
            session, database.database, ["embedded1", "embedded", "measured", "seen", "made", "zoned", "keyless"]
        )
        with pytest.raises(SchemaConflict, match="vectors are not supported yet"):
            read_catalogue(session, database.database, ["embedded"])
    assert [table.name for table in found.tables] == ["made", "keyless"]
    # The server has made a key by itself, and the log has its values.
    assert found.tables[1].key == ("my_row_id",)
    assert [column.name for column in found.tables[0].columns if column.name in ("hidden", "twice", "said")] == [
        "hidden",
        "twice",
        "said",
    ]
    said = "\n".join(problem.what for problem in found.problems)
    for expected in (
        "there is no table `embedded1`, did you mean `embedded`?",
        "`embedded`.`at` vector(3): vectors",
        "`embedded`.`place` point: geometry",
        "`embedded`.`old` varchar(9): the connector may read letters of the character set ujis otherwise",
        "`measured`.`at` double: a floating point number is no exact key",
        "`seen` is a view",
        "`zoned`.`day` date: it is VIRTUAL, which is computed for each reader, and reads `ts`, a TIMESTAMP",
    ):
        assert expected in said
