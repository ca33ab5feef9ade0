"""Rows that change their keys and lack values: many at once, under another schema, and after their stream."""

from collections.abc import Callable, Iterator

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.canonical import quoted
from seamline.domain.errors import Fenced, SchemaConflict
from tests.contract.unavailable_value_behaviours import assert_stored, numbered, opened
from tests.contract.worlds import PostgresWorld
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


@pytest.mark.parametrize("left", ["DELETE FROM", "DROP TABLE"])
def test_a_change_of_key_of_a_stream_whose_tables_have_joined_another_is_fenced(
    left: str, world: PostgresWorld
) -> None:
    (row,) = numbered(1)
    stream = opened(world, row)
    here = f"{left} settlement.{quoted(NOTE.name)}"
    for statement in ("DELETE FROM seamline.boundary", "DELETE FROM seamline.ledger", here):
        world.session.execute(statement.encode())
    with pytest.raises(Fenced, match="the ledger's is gone"):
        stream.span((row, {**row, "id": 50}))
