"""Rows that change their keys and lack values: many at once, under another schema, and after their stream."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.canonical import quoted
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import Fenced, SchemaConflict
from seamline.domain.log import Span
from seamline.domain.unavailable_values import UNAVAILABLE
from seamline.ports import Progress
from tests.contract.unavailable_value_behaviours import assert_stored, numbered, opened
from tests.contract.worlds import PostgresWorld
from tests.log_topic import STREAM, position, publication
from tests.toast_log import NOTE, NoteStream, Row, compacted, note


@pytest.fixture
def world(sink_database: Connection) -> Iterator[PostgresWorld]:
    one = PostgresWorld([NOTE], sink_database)
    yield one
    one.close()


def moves(rows: list[Row]) -> tuple[list[tuple[Row, Row]], list[Row]]:
    """Rows that take the keys of others, which have moved on. With the rows as they then are."""
    half = len(rows) // 2
    away = [{**row, "id": row["id"] + 2_000} for row in rows[:half]]
    instead = [{**row, "id": row["id"] - half} for row in rows[half:]]
    further = [{**row, "id": row["id"] + 3_000} for row in rows[:half]]
    changes = [
        *zip(rows, away, strict=False),
        *zip(rows[half:], instead, strict=True),
        *zip(away, further, strict=True),
    ]
    return changes, [*instead, *further]


def in_one_span(stream: NoteStream, changes: list[tuple[Row, Row]]) -> None:
    stream.span(*changes)


def in_a_chunk(stream: NoteStream, changes: list[tuple[Row, Row]]) -> None:
    stream.chunks([], changes, [(None, note(10_000))])


def behind_chunks(stream: NoteStream, changes: list[tuple[Row, Row]]) -> None:
    stream.chunks([(None, note(10_000))], changes)


@pytest.mark.parametrize("bring", [in_one_span, in_a_chunk, behind_chunks])
def test_rows_that_take_each_other_s_keys_take_their_own_values_along(
    bring: Callable[[NoteStream, list[tuple[Row, Row]]], None], world: PostgresWorld
) -> None:
    rows = numbered(400)
    stream = opened(world, *rows)
    changes, stored = moves(rows)
    bring(stream, changes)
    assert_stored(world, *stored, *([] if bring is in_one_span else [note(10_000)]))


@pytest.mark.parametrize("renamed", ["title", "body"])
def test_a_change_of_key_under_another_schema_of_the_table_stops_by_name(renamed: str, world: PostgresWorld) -> None:
    first, *others = numbered(3)
    stream = opened(world, first, *others)
    (before,) = compacted(stream.log.transaction((first, {**first, "title": "x"})), chunk=1)
    (moved,) = compacted(stream.log.transaction((first, {**first, "id": 50})), chunk=2)
    for change in moved.keyed:
        change.row = change.row.replace(f'"{renamed}"'.encode(), b'"headline"')
    with pytest.raises(SchemaConflict, match="headline"):
        stream.batches(before, moved)
    assert_stored(world, first, *others)


@pytest.mark.parametrize("chunk", [0, 1], ids=["in one span", "in a chunk"])
@pytest.mark.parametrize(
    ("native", "old", "new"),
    [("inet", "10.0.0.1", "2001:db8::1"), ("macaddr", "08:00:2b:01:02:03", "08:00:2b:01:02:04")],
)
def test_a_key_of_a_type_that_only_postgresql_has_may_change(
    native: str, old: str, new: str, chunk: int, sink_database: Connection
) -> None:
    at = Column("at", Kind.NATIVE, native, nullable=False, native=native)
    table = Table("host", (at, Column("body", Kind.STRING, "text", toastable=True)), ("at",))
    world = PostgresWorld([table], sink_database)
    world.plan = replace(world.plan, source=replace(world.plan.source, kind="postgres"))
    sink = world.sink()
    sink.publish(STREAM, [world.load(table, [])], publication=publication([table]))
    lease = sink.acquire(STREAM)
    keys = [json.dumps({"at": one}).encode() for one in (old, new)]

    def image(value: str, body: str | None) -> bytes:
        return json.dumps({"at": value, "body": body}).encode()

    came = KeyedChange(keys[0], False, False, image(old, "large"), 1)
    gone = KeyedChange(keys[0], True, True, image(old, None), 2)
    moved = KeyedChange(keys[1], False, False, image(new, UNAVAILABLE), 3, taken_from=keys[0])
    start = lease.ledger.next_offset
    for number, changes in enumerate((TableChanges("host", [came]), TableChanges("host", [gone, moved], chunk=chunk))):
        progress = Progress(Span(start + number, start + number + 1, 1, position(start + number + 1), 0))
        assert not sink.commit(lease, [sink.stage(lease, changes)], progress=progress).findings_total
    assert world.session.execute("SELECT at::text, body FROM settlement.host").fetchall() == [
        (f"{new}/128" if native == "inet" else new, "large")
    ]
    world.close()


@pytest.mark.parametrize("left", ["DELETE FROM", "DROP TABLE"])
def test_a_change_of_key_of_a_stream_whose_tables_have_joined_another_is_fenced(
    left: str, world: PostgresWorld
) -> None:
    (row,) = numbered(1)
    stream = opened(world, row)
    here = f"{left} settlement.{quoted(NOTE.name)}"
    for statement in ("DELETE FROM seamline.boundary", "DELETE FROM seamline.ledger", here):
        world.session.execute(statement.encode())
    with pytest.raises(Fenced, match="its ledger is gone"):
        stream.span((row, {**row, "id": 50}))
