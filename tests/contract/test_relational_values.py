"""Every kind's values stand in MariaDB and MySQL exactly, by whichever way they came: read back, its digests are
those of the typed form."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from urllib.parse import quote

import pyarrow as pa
import pytest

from seamline.domain.canonical import exact_columns
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import SchemaConflict
from seamline.domain.log import Span
from seamline.domain.staged_cut import Lateness
from seamline.kinds.bulk import ArrowRows
from seamline.plan.model import DestinationPlan
from seamline.ports import Progress
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.mysql.dialect import MYSQL
from seamline.sinks.relational.cut_lateness import lateness
from seamline.sinks.relational.read_back import open_views
from seamline.sinks.relational.read_view import RelationalReadView
from seamline.sinks.relational.sink import RelationalSink
from seamline.sinks.relational.staging import load, open_area
from seamline.sinks.relational.types import refusals
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of
from seamline.values.digest import bucket_digests, canonical_texts, key_texts, row_hashes, segment_digest
from tests.contract.every_kind import VALUES, column_of
from tests.contract.relational_worlds import RELATIONAL, MariaDbWorld, relational_maker
from tests.log_topic import STREAM, position, publication, sync_plan

RUN_KEY = "key"
DESTINATION = DestinationPlan("warehouse", "mariadb", "settlement", "settlement")
ID = Column("id", Kind.INTEGER, "int", nullable=False, length=32)


COLUMNS = (ID, *VALUES)
KEYED, KEYLESS = Table("kinds", COLUMNS, ("id",)), Table("kinds_keyless", COLUMNS)
ROWS = max(len(values) for values in VALUES.values())


def typed(table: Table) -> pa.RecordBatch:
    """Each column's values in turn; the last row is NULL throughout."""
    held = [VALUES[column] for column in table.columns[1:]]
    rows = [(number, *(values[number % len(values)] for values in held)) for number in range(ROWS)]
    return batch_of(table, [*rows, (ROWS, *[None] * len(held))])


@pytest.fixture(params=[*RELATIONAL])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[MariaDbWorld]:
    most = RELATIONAL[request.param].dialect.decimal_scale_max
    columns = tuple(column for column in COLUMNS if column.scale <= most)
    tables = [replace(table, columns=columns) for table in (KEYED, KEYLESS)]
    with closing(relational_maker(request.param, request)(tables)) as made:
        one = made.publisher
        address = f"{one.login}:{quote(one.password, safe='')}@{one.host}:{one.port}"
        monkeypatch.setenv("SEAMLINE_CONNECTION_SETTLEMENT", f"mysql://{address}/")
        yield made


@pytest.fixture(params=[True, False], ids=["keyed", "keyless"])
def table(request: pytest.FixtureRequest, world: MariaDbWorld) -> Table:
    (found,) = (one.definition for one in world.plan.tables if one.definition.is_keyed is request.param)
    return found


def loaded(world: MariaDbWorld, table: Table, batches: Sequence[pa.RecordBatch]) -> str:
    place = open_area(DESTINATION, world.dialect, run_id="run").create([table])[table.name]
    count = load(DESTINATION, place, ArrowRows(schema_of(table), iter(batches)), world.dialect)
    assert count == sum(batch.num_rows for batch in batches)
    return place.name


def view_of(world: MariaDbWorld, table: Table, database: str, name: str) -> RelationalReadView:
    (view,) = open_views(
        world.publisher, [table], {table.name: (database, name)}, 1, lambda _: position(1), dialect=world.dialect
    )
    return view


def assert_holds(view: RelationalReadView, table: Table, batch: pa.RecordBatch) -> None:
    """By every way in which a comparison looks at it."""
    texts = dict(zip((c.name for c in table.columns), _texts(table, batch), strict=True))
    found = view.row_hashes(Segment(table.name), run_key=RUN_KEY)
    if table.is_keyed:
        keys = key_texts(table, batch).to_pylist()
        rows = view.rows(table.name, keys)
        wrong = {
            name: (found_text, text)
            for name, of_column in texts.items()
            for key, text in zip(keys, of_column, strict=True)
            if (found_text := rows[key][name]) != text and table.column(name) in exact_columns(table)
        }
        assert wrong == {}
    assert sorted(one.hash for one in found for _ in range(one.copies)) == sorted(
        row_hashes(table, batch, run_key=RUN_KEY).to_pylist()
    )
    whole = view.digests(Segment(table.name), run_key=RUN_KEY)
    assert sum(whole.values(), SegmentDigest()) == segment_digest(table, batch, run_key=RUN_KEY)
    for buckets in (16, 10):
        by_bucket = view.digests(Segment(table.name, buckets=buckets), run_key=RUN_KEY)
        assert dict(by_bucket) == bucket_digests(table, batch, buckets=buckets, run_key=RUN_KEY)
    assert view.totals(Segment(table.name), columns=(), by=()) == {(): (batch.num_rows, None)}
    assert view.columns(table.name) == tuple(column.name for column in table.columns)


def _texts(table: Table, batch: pa.RecordBatch) -> list[list[str | None]]:
    return [canonical_texts(c, batch.column(place)).to_pylist() for place, c in enumerate(table.columns)]


def test_a_loaded_table_reads_back_as_it_was_typed(world: MariaDbWorld, table: Table) -> None:
    batch = typed(table)
    name = loaded(world, table, [batch.slice(0, 3), batch.slice(3)])
    with closing(view_of(world, table, "settlement_stage", name)) as view:
        assert_holds(view, table, batch)


def test_a_staged_table_in_which_a_float_changes_is_another_one(world: MariaDbWorld, table: Table) -> None:
    """Also where its digests do not hold that column."""
    name = loaded(world, table, [typed(table)])
    with closing(view_of(world, table, "settlement_stage", name)) as view:
        before = view.whole_digest(table.name, run_key=RUN_KEY)
    with world.session.cursor() as cursor:
        assert cursor.execute(f"UPDATE settlement_stage.`{name}` SET f64 = 7 WHERE id = 1") == 1
    with closing(view_of(world, table, "settlement_stage", name)) as view:
        assert view.whole_digest(table.name, run_key=RUN_KEY) != before


def test_a_row_is_late_although_the_server_prints_its_float_as_that_of_another(world: MariaDbWorld) -> None:
    """Six digits of it, where both have more."""
    table = Table("late", (ID, column_of("f", Kind.FLOAT, "float")), ("id",))
    first, again = (world.load(table, [{"id": 1, "f": value}]).staged_as for value in (16_777_215.0, 16_777_216.0))
    found = lateness(world.session, staged=("settlement_stage", again), before=("settlement_stage", first))
    assert found == Lateness(1, 1)


class TypedDecoder:
    """values.changes.ChangeDecoder of rows that stand for themselves: their images are their numbers."""

    def __init__(self, batches: Mapping[Table, pa.RecordBatch]) -> None:
        self._batches = {table.name: batch for table, batch in batches.items()}

    def rows(self, table: Table, images: Sequence[bytes]) -> tuple[pa.RecordBatch, None]:
        taken = self._batches[table.name].take(pa.array([int(image) for image in images], pa.int64()))
        return pa.RecordBatch.from_arrays(taken.columns, schema=schema_of(table)), None


def test_a_streamed_table_reads_back_as_it_was_typed_and_every_row_is_found_again(
    world: MariaDbWorld, table: Table
) -> None:
    batch = typed(table)
    sink = RelationalSink(
        world.plan,
        DESTINATION,
        decoder=TypedDecoder({table: batch}),
        dialect=world.dialect,
        resolve=lambda _: world.publisher,
    )
    tables = tuple(one.definition for one in world.plan.tables)
    loads = [world.load(one, []) for one in tables]
    sink.publish(STREAM, loads, publication=publication(tables))
    images = [b"%d" % number for number in range(ROWS + 1)]

    def span(*, add: bool) -> None:
        lease = sink.acquire(STREAM)
        keyed = [KeyedChange(image, not add, not add, image, 1) for image in images]
        net = dict.fromkeys(images, 2 if add else -2)
        changes = TableChanges(table.name, keyed) if table.is_keyed else TableChanges(table.name, net=net)
        start = lease.ledger.next_offset
        progress = Progress(Span(start, start + 1, 1, position(start + 1), 0))
        if table.is_keyed and not add:
            changes = TableChanges(table.name, [KeyedChange(i, True, True, i, 1) for i in images])
        assert not sink.commit(lease, [sink.stage(lease, changes)], progress=progress).findings_total

    with closing(sink):
        span(add=True)
        with closing(view_of(world, table, "settlement", table.name)) as view:
            assert_holds(view, table, batch if table.is_keyed else pa.concat_batches([batch, batch]))
        span(add=False)
        with closing(view_of(world, table, "settlement", table.name)) as view:
            assert view.digests(Segment(table.name), run_key=RUN_KEY) == {}


def test_a_column_of_every_kind_can_be_the_key(world: MariaDbWorld) -> None:
    """Its rows are written, found, changed, read back by their keys and deleted."""
    batches = {}
    for number, (column, values) in enumerate(VALUES.items()):
        key = replace(column, nullable=False)
        table = Table(f"keyed_{number}", (key, Column("n", Kind.INTEGER, "int", length=32)), (key.name,))
        if list(refusals(table, world.dialect)):
            continue
        batch = batch_of(table, [(value, place) for place, value in enumerate(values)])
        # Zeros of both signs are one key, on both sides.
        zero = {text: place for place, text in enumerate(key_texts(table, batch).to_pylist())}
        kept = [place for text, place in zero.items() if text != "-0" and len(text) < 700]
        batches[table] = batch.take(pa.array(kept, pa.int64()))
    assert len(batches) > len(VALUES) - 2
    plan = sync_plan(tuple(batches))
    sink = RelationalSink(
        plan, DESTINATION, decoder=TypedDecoder(batches), dialect=world.dialect, resolve=lambda _: world.publisher
    )
    sink.publish(STREAM, [world.load(table, []) for table in batches], publication=publication(tuple(batches)))
    lease = sink.acquire(STREAM)

    def span(at: int, *, met: bool, gone: bool) -> None:
        changes = [
            TableChanges(table.name, [KeyedChange(b"", gone, met, b"%d" % place, 1) for place in range(batch.num_rows)])
            for table, batch in batches.items()
        ]
        progress = Progress(Span(at, at + 1, 1, position(at + 1), 0))
        found = sink.commit(lease, [sink.stage(lease, one) for one in changes], progress=progress)
        assert found.findings == ()

    with closing(sink):
        span(0, met=False, gone=False)
        span(1, met=True, gone=False)
        for table, batch in batches.items():
            if table.columns[0] not in exact_columns(table):
                continue  # of a float of MariaDB, a comparison has no text that both sides write alike
            with closing(view_of(world, table, "settlement", table.name)) as view:
                assert_holds(view, table, batch)
        span(2, met=True, gone=True)
        assert {world.fetch(f"SELECT COUNT(*) FROM settlement.{table.name}") for table in batches} == {((0,),)}


SHORT = Column("v", Kind.STRING, "varchar(3)", False, 3)
NO_PLACE = {
    "a text that is too long": (SHORT, "abcd"),
    "trailing spaces beyond the length": (SHORT, "abc "),
    "an infinite date": (column_of("v", Kind.DATE, "date"), float("inf")),
    "a date before the year 1": (column_of("v", Kind.DATE, "date"), -719_163),
    "a moment after 9999": (column_of("v", Kind.INSTANT, "timestamptz", precision=6), 2**60),
    "NaN of a decimal": (column_of("v", Kind.DECIMAL, "numeric(5,2)", precision=5, scale=2), Decimal("NaN")),
    "NaN of a float": (column_of("v", Kind.DOUBLE, "double precision"), float("nan")),
}


@pytest.mark.parametrize("what", NO_PLACE)
def test_a_value_without_a_place_is_refused_by_column_and_never_changed(world: MariaDbWorld, what: str) -> None:
    column, value = NO_PLACE[what]
    table = Table("short", (ID, column), ("id",))
    with pytest.raises(SchemaConflict, match=r"\bv\b") as refused:
        loaded(world, table, [batch_of(table, [(1, value)])])
    assert refused.value.table == "short"


def test_a_value_without_a_place_ends_a_load_that_has_other_batches_on_their_way(world: MariaDbWorld) -> None:
    table = Table("short", (ID, SHORT), ("id",))
    batches = [batch_of(table, [(number, "abcd" if number == 2 else "abc")]) for number in range(6)]
    with pytest.raises(SchemaConflict, match=r"\bv\b"):
        loaded(world, table, batches)


def test_types_without_a_place_are_refused_by_name() -> None:
    faulty = (
        column_of("free", Kind.DECIMAL, "numeric"),
        column_of("wide", Kind.DECIMAL, "numeric(76,3)", precision=76, scale=3),
        column_of("beyond", Kind.DECIMAL, "numeric(3,5)", precision=3, scale=5),
        column_of("b99", Kind.BITS, "bit(99)", length=99),
        column_of("seamline.hash", Kind.INTEGER, "int", length=32),
    )
    reported = [what for what, _ in refusals(Table("t", (ID, *faulty)), MARIADB)]
    assert len(reported) == len(faulty)
    assert all(any(f"column {column.name} of table t" in what for what in reported) for column in faulty)
    assert list(refusals(KEYED, MARIADB)) == []
    (only,) = refusals(KEYED, MYSQL)
    assert "p_fraction" in only[0]
