"""Values that the log left out and a change of key fetches are no part of the log, by whose size spans are bounded."""

from collections.abc import Callable, Iterator

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.canonical import quoted
from seamline.domain.changes import TableChanges
from seamline.domain.errors import Fenced, SchemaConflict
from seamline.ports import Lease, Staged
from seamline.sinks.postgres import fill_unavailable
from seamline.sinks.postgres.sink import PostgresSink
from tests.contract.behaviours import Behaviour
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS, assert_stored, numbered, opened
from tests.contract.worlds import PostgresWorld
from tests.toast_log import NOTE, NoteStream, Row, compacted, note


@pytest.fixture
def world(sink_database: Connection) -> Iterator[PostgresWorld]:
    one = PostgresWorld([NOTE], sink_database)
    yield one
    one.close()


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """In how many parts each batch was staged, where one holds 10 kB of fetched values."""
    monkeypatch.setattr(fill_unavailable, "PART_BYTES", 10_000)
    counts: list[int] = []
    right = PostgresSink.stage

    def counted(sink: PostgresSink, lease: Lease, changes: TableChanges) -> Staged:
        staged = right(sink, lease, changes)
        counts.append(len(staged.batch))
        return staged

    monkeypatch.setattr(PostgresSink, "stage", counted)
    return counts


def moves(rows: list[Row]) -> tuple[list[tuple[Row, Row]], list[Row]]:
    """Rows that take the keys of others, which have moved on: what one part holds stands under the old key of what
    another one has. With the rows as they then are."""
    half = len(rows) // 2
    away = [{**row, "id": row["id"] + 200} for row in rows[:half]]
    instead = [{**row, "id": row["id"] - half} for row in rows[half:]]
    further = [{**row, "id": row["id"] + 300} for row in rows[:half]]
    changes = [
        *zip(rows, away, strict=False),
        *zip(rows[half:], instead, strict=True),
        *zip(away, further, strict=True),
    ]
    return changes, [*instead, *further]


def in_one_span(stream: NoteStream, changes: list[tuple[Row, Row]]) -> None:
    stream.span(*changes)


def in_a_chunk(stream: NoteStream, changes: list[tuple[Row, Row]]) -> None:
    stream.chunks([], changes, [(None, note(1000))])


def behind_chunks(stream: NoteStream, changes: list[tuple[Row, Row]]) -> None:
    stream.chunks([(None, note(1000))], changes)


@pytest.mark.parametrize("bring", [in_one_span, in_a_chunk, behind_chunks])
def test_more_fetched_values_than_memory_should_hold_are_staged_in_parts_and_committed_once(
    bring: Callable[[NoteStream, list[tuple[Row, Row]]], None], world: PostgresWorld, parts: list[int]
) -> None:
    rows = [{**row, "body": row["body"] * 100} for row in numbered(40)]
    stream = opened(world, *rows)
    parts.clear()
    changes, stored = moves(rows)
    bring(stream, changes)
    assert_stored(world, *stored, *([] if bring is in_one_span else [note(1000)]))
    assert max(parts) > 2


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


@pytest.mark.parametrize("behaviour", LEFT_OUT_BEHAVIOURS, ids=lambda one: one.__name__)
def test_a_part_for_each_row_leaves_every_behaviour_as_it_is(
    behaviour: Behaviour, world: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill_unavailable, "PART_BYTES", -1)
    behaviour(world)


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
