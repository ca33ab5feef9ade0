"""What a server holds, read into the typed form, has the texts and digests that the server itself makes in SQL: every
kind and edge value, of MariaDB and of PostgreSQL."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from seamline.adapters.connections import Connection
from seamline.databases.mysql import edge_values as mariadb_edges
from seamline.databases.postgres.read import Relation, open_views
from seamline.domain.canonical import inexact_columns
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import SchemaConflict
from seamline.plan.model import SourcePlan
from seamline.ports import ReadView
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mariadb.read import MariaDbReadView
from seamline.sources.mariadb.sessions import open_session
from seamline.sources.postgres import edge_values as postgres_edges
from seamline.sources.postgres.catalogue import survey
from seamline.values import digest
from seamline.values.build import batch_of, rows_of
from seamline.values.digest import bucket_digests, float_summaries, key_texts, row_hashes
from tests.integration import kinds, postgres_kinds
from tests.integration.binary_values import printed, read_rows
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database

RUN_KEY = "a 'key' with \\ and %s"
P = BinlogPosition("0-1-1")
SOURCE = SourcePlan("there", "postgres", "values_in_sql", "r", "c", "m", "t", "c", schema="public")
MARIADB = (*kinds.CASES, *kinds.INEXACT_CASES)
# Behind it PostgreSQL's own extract(epoch) rounds to tens of microseconds: two values, one text.
LAST_EXACT = "294247-01-10 04:00:54.775806"


@dataclass(frozen=True)
class Held:
    """One server's rows, by table, and the view that makes their digests."""

    view: ReadView
    tables: dict[str, Table]
    batches: dict[str, pa.RecordBatch]


@pytest.fixture(scope="module")
def mariadb_holds() -> Iterator[Held]:
    tables = {case.column.name: _of_case(case) for case in MARIADB}
    batches = {}
    with mariadb_database("values_in_sql") as connection:
        with closing(mariadb(connection)) as session, session.cursor() as cursor:
            for case in MARIADB:
                table = tables[case.column.name]
                cursor.execute(f"CREATE TABLE {table.name} (id INT PRIMARY KEY, v {case.mariadb_type})")
                for number, literal in enumerate(_literals(case)):
                    cursor.execute(f"{kinds.LENIENT} INSERT INTO {table.name} VALUES ({number}, {literal})")
                if case.column.kind is Kind.INSTANT:
                    # 11.5 has moments up to 2106; to 11.4 they are invalid, and so stored as zero.
                    cursor.execute(f"DELETE FROM {table.name} WHERE v = 0")
                # Of a FLOAT the server prints six digits.
                shown = "CAST(v AS DOUBLE)" if case.column.kind is Kind.FLOAT else "v"
                cursor.execute(f"SELECT id, {shown} FROM {table.name}")
                batches[case.column.name] = batch_of(table, cursor.fetchall())
        view = MariaDbReadView(
            open_session(connection),
            database=connection.database,
            tables=list(tables.values()),
            position=P,
            opened_at=datetime.now(UTC),
        )
        with closing(view):
            yield Held(view, tables, batches)


def _of_case(case: kinds.KindCase) -> Table:
    return Table(case.table.name, (case.table.columns[0], replace(case.column, name="v")), ("id",))


def _literals(case: kinds.KindCase) -> Sequence[str]:
    of_certify = () if case.column.kind is Kind.BOOLEAN else mariadb_edges.edge_values(case.column)
    return list(dict.fromkeys(["NULL", *(edge.mariadb for edge in case.edges), *of_certify]))


@pytest.fixture(scope="module")
def postgres_holds() -> Iterator[Held]:
    with postgres_database(SOURCE.database) as connection:
        tables, batches = _fill_postgres(connection)
        relations = {table.name: Relation("public", table.name) for table in tables.values()}
        (view,) = open_views(
            connection, tables=list(tables.values()), relations=relations, count=1, position_of=lambda _: P
        )
        with closing(view):
            yield Held(view, tables, batches)


def _fill_postgres(connection: Connection) -> tuple[dict[str, Table], dict[str, pa.RecordBatch]]:
    tables, batches = {}, {}
    with postgres(connection) as session:
        for statement in postgres_kinds.TYPES:
            session.execute(statement.encode())
        # A table has a type of its own name, and some types have the names of their cases.
        names = [f"of_{case.name}" for case in postgres_kinds.CASES]
        for name, case in zip(names, postgres_kinds.CASES, strict=True):
            session.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v {case.type})".encode())
        found = survey(session, SOURCE, names).whole()
        for case, table in zip(postgres_kinds.CASES, found, strict=True):
            column, name = table.column("v"), table.name
            for number, value in enumerate(dict.fromkeys(("NULL", *case.edges, *_edges(column)))):
                session.execute(f"INSERT INTO {name} VALUES ({number}, {value})".encode())
            if column.kind in (Kind.DATETIME, Kind.INSTANT):
                session.execute(f"DELETE FROM {name} WHERE v > '{LAST_EXACT}' AND isfinite(v)".encode())
            shown = printed("v") if column.kind is Kind.ENUM or column.native else "v"
            tables[case.name] = table
            batches[case.name] = batch_of(table, read_rows(session, f"SELECT id, {shown} FROM {name}"))
    return tables, batches


def _edges(column: Column) -> Sequence[str]:
    """Those of `seamline certify`; a domain's own check may refuse some."""
    refuses = column.kind is Kind.ENUM or column.source_type == "amount"
    return () if refuses else postgres_edges.edge_values(column)


@pytest.mark.parametrize("name", [case.column.name for case in MARIADB])
def test_values_of_mariadb_have_the_texts_and_digests_of_its_sql(mariadb_holds: Held, name: str) -> None:
    _require_equal(mariadb_holds, name)


@pytest.mark.parametrize("name", [case.name for case in postgres_kinds.CASES])
def test_values_of_postgresql_have_the_texts_and_digests_of_its_sql(postgres_holds: Held, name: str) -> None:
    _require_equal(postgres_holds, name)


def _require_equal(held: Held, name: str) -> None:
    table, batch = held.tables[name], held.batches[name]
    assert batch.num_rows > 1
    segment = Segment(table.name, buckets=8)
    assert _hashes(table, batch) == {row.key: row.hash for row in held.view.row_hashes(segment, run_key=RUN_KEY)}
    assert bucket_digests(table, batch, buckets=8, run_key=RUN_KEY) == held.view.digests(segment, run_key=RUN_KEY)
    mine, theirs = float_summaries(table, [batch]), held.view.float_summaries(segment)
    assert mine.keys() == theirs.keys()
    assert all(mine[column].agrees_with(theirs[column], kind=table.column(column).kind) for column in mine)
    again = batch_of(table, rows_of(table, batch))
    assert again.schema == batch.schema
    assert [_bits(one) for one in again.columns] == [_bits(one) for one in batch.columns]


def _bits(values: pa.Array) -> pa.Array:
    """NaN is no other NaN's equal, but their bits are."""
    whole = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(values.type)
    return values if whole is None else values.view(whole)


def _hashes(table: Table, batch: pa.RecordBatch) -> dict[str, str]:
    keys = key_texts(table, batch).to_pylist()
    return dict(zip(keys, row_hashes(table, batch, run_key=RUN_KEY).to_pylist(), strict=True))


@pytest.mark.parametrize("side", ["mariadb_holds", "postgres_holds"])
def test_a_planted_wrong_text_of_any_kind_is_caught(
    side: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one value in each column, the last one that is not NULL, one letter more."""
    held: Held = request.getfixturevalue(side)
    made = digest.canonical_texts

    def wrong(column: Column, values: pa.Array) -> pa.Array:
        texts = made(column, values).to_pylist()
        last = max(number for number, text in enumerate(texts) if text is not None)
        if column.name == "v":
            texts[last] += "0"
        return pa.array(texts, pa.large_utf8())

    monkeypatch.setattr(digest, "canonical_texts", wrong)
    missed = [
        name
        for name, table in held.tables.items()
        if bucket_digests(table, held.batches[name], buckets=1, run_key=RUN_KEY)
        == held.view.digests(Segment(table.name), run_key=RUN_KEY)
    ]
    assert missed == [name for name, table in held.tables.items() if inexact_columns(table)]


DATES_THAT_ARE_NONE = {"date": Kind.DATE, "datetime(6)": Kind.DATETIME, "timestamp null": Kind.INSTANT}


@pytest.mark.parametrize("of", DATES_THAT_ARE_NONE)
def test_a_date_of_mariadb_that_is_none_is_refused_by_name(of: str) -> None:
    table = Table("zero_dates", (Column("due", DATES_THAT_ARE_NONE[of], of),))
    with (
        mariadb_database("values_zero_dates") as connection,
        closing(mariadb(connection)) as session,
        session.cursor() as cursor,
    ):
        cursor.execute(f"CREATE TABLE zero_dates (due {of})")
        cursor.execute(f"{kinds.LENIENT} INSERT INTO zero_dates VALUES ('0000-00-00')")
        cursor.execute("SELECT due FROM zero_dates")
        with pytest.raises(SchemaConflict, match="column due .* holds '0000-00-00"):
            batch_of(table, cursor.fetchall())
