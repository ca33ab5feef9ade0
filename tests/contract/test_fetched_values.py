"""Values that the log left out and a change of key fetches are no part of the log, by whose size spans are bounded."""

from collections.abc import Iterator

import pytest

from seamline.adapters.connections import Connection
from seamline.adapters.postgres import left_out
from seamline.domain.errors import Refused
from tests.contract.left_out_behaviours import assert_stored, numbered, opened
from tests.contract.worlds import PostgresWorld
from tests.toast_log import NOTE


@pytest.fixture
def world(sink_database: Connection) -> Iterator[PostgresWorld]:
    one = PostgresWorld([NOTE], sink_database)
    yield one
    one.close()


def test_a_span_that_would_fetch_more_values_than_memory_should_hold_stops_and_names_the_cure(
    world: PostgresWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**row, "body": row["body"] * 100} for row in numbered(20)]
    stream = opened(world, *rows)
    changes = [(row, {**row, "id": row["id"] + 100}) for row in rows]
    monkeypatch.setattr(left_out, "FETCHED_MAX_BYTES", 10_000)
    with pytest.raises(Refused, match=NOTE.name) as caught:
        stream.span(*changes)
    assert "REPLICA IDENTITY FULL" in caught.value.hint
    assert caught.value.position.startswith("offset ")
    assert_stored(world, *rows)
    monkeypatch.setattr(left_out, "FETCHED_MAX_BYTES", 1_000_000)
    stream.span(*changes)
    assert_stored(world, *(after for _, after in changes))
