"""Rows of PostgreSQL read in the typed form hold what the server holds, every type and edge value, and go on as they
are into a destination that takes them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from seamline.adapters.connections import Connection
from seamline.bulk.copy import CopyItem, CopyTarget, copy_one
from seamline.databases.postgres import typed_rows
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import SeamlineError
from seamline.domain.table_places import TablePlaces
from seamline.kinds.bulk import ArrowRows, BulkRead
from seamline.plan.model import DestinationPlan, SourcePlan
from seamline.sinks.postgres.staging import StagingArea
from seamline.sources.postgres.bulk import SnapshotReaders
from seamline.sources.postgres.catalogue import survey
from seamline.sources.postgres.client import open_session
from seamline.sources.postgres.sessions import SharedSnapshot, SourceReadView, position_at, seen_by
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of
from seamline.values.digest import canonical_texts
from tests.integration.binary_values import exact, printed, read_rows
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import known_by_id
from tests.integration.postgres_kinds import TYPES, create_table, rows

NAME = "typed_rows"
SOURCE = SourcePlan("there", "postgres", NAME, "r", "c", "m", "t", "c", schema="public")
DESTINATION = DestinationPlan("warehouse", "postgres", NAME, "typed")


@dataclass(frozen=True)
class Held:
    """A server's table of all types, and its rows by another way: through a client, value by value."""

    server: Connection
    table: Table
    rows: pa.RecordBatch


@pytest.fixture(scope="module")
def held() -> Iterator[Held]:
    with postgres_database(NAME) as server, known_by_id(server, NAME, "postgres"), postgres(server) as session:
        for statement in (*TYPES, create_table("kinds", key="id int PRIMARY KEY, ")):
            session.execute(statement.encode())
        for number, values in enumerate(rows()):
            session.execute(f"INSERT INTO kinds VALUES ({number}, {values})".encode())
        (table,) = survey(session, SOURCE, ["kinds"]).whole()
        names = ", ".join(printed(c.name) if c.kind is Kind.ENUM or c.native else c.name for c in table.columns)
        yield Held(server, table, batch_of(table, read_rows(session, f"SELECT {names} FROM kinds ORDER BY id")))


@contextmanager
def reading(held: Held, table: Table) -> Iterator[SnapshotReaders]:
    with closing(open_session(held.server)) as holder:
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        seen = seen_by(holder)
        row = holder.execute("SELECT pg_export_snapshot()").fetchone()
        shared = SharedSnapshot(str(row[0]) if row else "", seen)
        with closing(
            SnapshotReaders(held.server, TablePlaces("public"), [BulkRead(table, Segment(table.name), 0)], shared)
        ) as one:
            one.open_at_barrier()
            yield one


def differing(table: Table, found: pa.RecordBatch, wanted: pa.RecordBatch) -> list[str]:
    found = found.sort_by("id")
    pairs = zip(table.columns, found.columns, wanted.columns, strict=True)
    return [c.name for c, a, b in pairs if not canonical_texts(c, a).equals(canonical_texts(c, b))]


def read_typed(held: Held) -> pa.RecordBatch:
    with reading(held, held.table) as readers:
        read = readers.rows(0, proven=lambda _: None)
        assert isinstance(read, ArrowRows)
        batches = list(read.batches)
    assert all(batch.schema.equals(schema_of(held.table), check_metadata=True) for batch in batches)
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def test_every_value_of_every_type_is_read_as_the_server_holds_it(held: Held) -> None:
    assert differing(held.table, read_typed(held), held.rows) == []


@pytest.mark.parametrize("kind", sorted(typed_rows._TYPED))
def test_a_planted_fault_in_any_kind_is_caught(held: Held, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """Each value in the place of the one before it."""
    right = typed_rows._TYPED[kind]

    def moved(column: Column, values: pa.Array) -> pa.Array:
        return right(column, pa.concat_arrays([values[1:], values[:1]]))

    monkeypatch.setitem(typed_rows._TYPED, kind, moved)
    assert differing(held.table, read_typed(held), held.rows) == [
        column.name for column in held.table.columns if column.kind is kind
    ]


def test_typed_rows_are_staged_in_a_destination_of_postgresql_as_they_are(held: Held) -> None:
    place = StagingArea(held.server, DESTINATION, run_id="typed").create([held.table])["kinds"]
    item = CopyItem(BulkRead(held.table, Segment("kinds"), 0), (CopyTarget(place, DESTINATION),))
    with reading(held, held.table) as readers:
        (copied,) = copy_one(readers, 0, item, {})
    assert (copied.rows, copied.proof != "") == (held.rows.num_rows, True)
    with postgres(held.server) as session:
        stored = read_rows(session, f'SELECT {exact(held.table)} FROM {place.schema}."{place.name}"')
    assert differing(held.table, batch_of(held.table, stored), held.rows) == []


def test_an_error_in_the_midst_of_one_table_leaves_the_view_to_the_others(held: Held) -> None:
    """As where rows of a table are read to be transformed: the tables after it are still compared."""
    broken = replace(held.table, columns=(*held.table.columns, Column("gone", Kind.INTEGER, "int", length=32)))
    with closing(open_session(held.server)) as session:
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        position = position_at(0, seen_by(session))
        view = SourceReadView(session, source=replace(SOURCE, reader=NAME), tables=[held.table], position=position)
        with pytest.raises(SeamlineError, match="gone"):
            list(view.typed_rows(broken, Segment("kinds")))
        whole = pa.Table.from_batches(list(view.typed_rows(held.table, Segment("kinds"))))
        assert whole.num_rows == held.rows.num_rows
        # One that is left half read does no harm either.
        with closing(view.typed_rows(held.table, Segment("kinds"))) as half:
            next(half)
        assert sum(one.rows for one in view.digests(Segment("kinds"), run_key="k").values()) == whole.num_rows
