"""Tables as wide as PostgreSQL has them, and columns named as our own statements name what they add. Only a real server
has these limits, and most of them are met at a change that comes long after the load.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.read import PostgresReadView, Relation, open_views
from seamline.domain.canonical import canonical_row, digest_of
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.digest import Segment
from seamline.domain.log import Span
from seamline.domain.unavailable_values import UNAVAILABLE
from seamline.ports import Progress
from seamline.sinks.postgres.limits import COLUMNS_MAX, KEYLESS_COLUMNS_MAX
from tests.contract.worlds import PostgresWorld
from tests.log_topic import STREAM, position, publication

ID = Column("id", Kind.INTEGER, "integer", nullable=False, length=32)
TEXT = Column("c", Kind.STRING, "text", toastable=True)
# Of subqueries, aliases and functions in our statements; none of them may be taken for the table's own column.
OURS = (
    "s", "t", "w", "p", "l", "v", "age", "first_met", "key_0", "action", "met", "log_offset", "merged", "identity",
    "hash", "copies", "copy", "place", "found", "gone", "images", "generate_series", "b", "h", "bucket",
)  # fmt: skip


def table_of(name: str, columns: int, *, is_keyed: bool = True) -> Table:
    """With the names of `OURS` first among its texts."""
    names = [*OURS, *(f"c{number}" for number in range(columns))][: columns - 1]
    return Table(name, (ID, *(replace(TEXT, name=one) for one in names)), ("id",) if is_keyed else ())


WIDE = table_of("wide", COLUMNS_MAX)
HEAP = table_of("heap", KEYLESS_COLUMNS_MAX, is_keyed=False)


@pytest.fixture
def world(sink_database: Connection) -> Iterator[PostgresWorld]:
    made = PostgresWorld((WIDE, HEAP), sink_database)
    made.plan = replace(made.plan, source=replace(made.plan.source, kind="postgres"))
    loads = [made.load(table, []) for table in (WIDE, HEAP)]
    made.sink().publish(STREAM, loads, publication=publication((WIDE, HEAP)))
    yield made
    made.close()


def row(table: Table, number: int, **changed: str | None) -> dict[str, int | str | None]:
    values = {column.name: f"{number}" for column in table.columns}
    return {**values, "id": number, **changed}


def lacking(given: Mapping[str, str]) -> dict[str, int | str | None]:
    """An update of row 1 that says of the first 250 values only these: a page holds no more that lie out of line."""
    return {**row(WIDE, 1), **dict.fromkeys([column.name for column in WIDE.columns[1:251]], UNAVAILABLE), **given}


def image(values: Mapping[str, int | str | None]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


def written(values: Mapping[str, int | str | None], *, met: bool = True) -> KeyedChange:
    return KeyedChange(b"{}", False, met, image(values), 1)


def apply(world: PostgresWorld, *batches: TableChanges) -> None:
    """One span."""
    with closing(world.sink()) as sink:
        lease = sink.acquire(STREAM)
        start = lease.ledger.next_offset
        progress = Progress(Span(start, start + 1, 1, position(start + 1), 0))
        commit = sink.commit(lease, [sink.stage(lease, batch) for batch in batches], progress=progress)
        assert not commit.findings_total


def view_of(world: PostgresWorld, connection: Connection, table: Table) -> PostgresReadView:
    place = {table.name: Relation("settlement", table.name)}
    (view,) = open_views(connection, tables=[table], relations=place, count=1, position_of=lambda _: position(1))
    return view


def assert_stored(
    world: PostgresWorld, connection: Connection, table: Table, *rows: Mapping[str, int | str | None]
) -> None:
    """By the digest and by what names a row that differs, both of which must take so many columns too."""
    texts = [canonical_row(table, values) for values in rows]
    with closing(view_of(world, connection, table)) as view:
        assert view.digests(Segment(table.name), run_key="k") == {0: digest_of(texts, run_key="k")}
        keys = [found.key for found in view.row_hashes(Segment(table.name), run_key="k")]
        assert view.rows(table.name, keys).keys() == set(keys)


def test_a_table_of_all_columns_that_postgresql_has_is_changed_in_every_way(
    world: PostgresWorld, sink_database: Connection
) -> None:
    apply(world, TableChanges("wide", [written(row(WIDE, n), met=False) for n in (1, 2)]))
    first = {**row(WIDE, 1), "age": "new"}
    apply(world, TableChanges("wide", [written(lacking({"age": "new"}))]))
    assert_stored(world, sink_database, WIDE, first, row(WIDE, 2))
    # In chunks: some of what the second leaves out, the first one has; the rest is in the stored row.
    apply(
        world,
        TableChanges("wide", [written(lacking({"s": "chunk", "t": "chunk"}))], chunk=1),
        TableChanges("wide", [written(lacking({"t": "later", "hash": "x"})), written(row(WIDE, 3), met=False)]),
    )
    first |= {"s": "chunk", "t": "later", "hash": "x"}
    assert_stored(world, sink_database, WIDE, first, row(WIDE, 2), row(WIDE, 3))
    # Written again: somebody's index is checked row by row, and two rows exchange its value.
    world.session.execute("CREATE UNIQUE INDEX row_by_row ON settlement.wide (found)")
    second = row(WIDE, 2, found="1")
    apply(world, TableChanges("wide", [written(lacking({"found": "2"})), written(second)]))
    assert_stored(world, sink_database, WIDE, {**first, "found": "2"}, second, row(WIDE, 3))
    apply(
        world, TableChanges("wide", [KeyedChange(b"{}", True, True, image(dict.fromkeys(row(WIDE, 1)) | {"id": 3}), 1)])
    )
    assert_stored(world, sink_database, WIDE, {**first, "found": "2"}, second)


def test_a_keyless_table_of_all_columns_that_postgresql_has_is_changed_in_every_way(
    world: PostgresWorld, sink_database: Connection
) -> None:
    one, two = row(HEAP, 1), row(HEAP, 2)
    apply(world, TableChanges("heap", net={image(one): 2, image(two): 1}))
    apply(world, TableChanges("heap", net={image(one): -1}))
    assert_stored(world, sink_database, HEAP, one, two)
    apply(world, TableChanges("heap", net={image(one): 1}, chunk=1), TableChanges("heap", net={image(two): -1}))
    assert_stored(world, sink_database, HEAP, one, one)


def test_a_wide_table_is_published_over_the_one_that_people_use(
    world: PostgresWorld, sink_database: Connection
) -> None:
    """What differs is merged into it."""
    apply(world, TableChanges("wide", [written(row(WIDE, n), met=False) for n in (1, 2)]))
    apply(world, TableChanges("heap", net={image(row(HEAP, 1)): 1}))
    changed = row(WIDE, 2, age="new")
    loads = [world.load(WIDE, [row(WIDE, 1), changed]), world.load(HEAP, [row(HEAP, 2)])]
    with closing(world.sink()) as sink:
        sink.publish(STREAM, loads, publication=publication((WIDE, HEAP), run_id="run-2"))
    assert_stored(world, sink_database, WIDE, row(WIDE, 1), changed)
    assert_stored(world, sink_database, HEAP, row(HEAP, 2))


def test_a_thousand_floats_are_summed_up(world: PostgresWorld, sink_database: Connection) -> None:
    # Of MariaDB: those of PostgreSQL are compared exactly, and not by their sums.
    floats = tuple(Column(f"f{number}", Kind.DOUBLE, "double") for number in range(1_000))
    world.session.execute(f"CREATE TABLE settlement.floats ({', '.join(f'{one.name} float8' for one in floats)})")
    world.session.execute("INSERT INTO settlement.floats (f0, f999) VALUES (1.5, 2.5)")
    with closing(view_of(world, sink_database, Table("floats", floats))) as view:
        found = view.float_summaries(Segment("floats"))
    assert (len(found), found["f0"].least, found["f998"].count, found["f999"].least) == (1_000, 1.5, 0, 2.5)
