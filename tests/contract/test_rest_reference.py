"""A sync into a REST catalogue that Iceberg's own adapter answers for: the specification as its authors read it.

It takes the tables of one call one by one, so nothing is said here of what comes in between.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from seamline.kinds.sink import ReadsBack
from seamline.sinks.iceberg.kind import KIND
from seamline.sinks.iceberg.rest_opening import open_client
from tests import reference_rest
from tests.conftest import RunningStack
from tests.contract.behaviours import (
    Behaviour,
    a_second_publish_replaces_rows_fences_the_stream_and_begins_a_generation,
    a_truncate_alone_empties_the_table,
    account,
    an_older_lease_can_never_commit_again,
    inserts_updates_and_deletes_reach_their_rows,
    published,
)
from tests.contract.joining_behaviours import (
    a_snapshot_given_up_lets_no_old_rows_in_and_is_gone_after_the_next_joining,
    a_table_enters_a_stream_that_stands_where_its_incremental_snapshot_does_and_the_others_are_untouched,
    a_table_that_leaves_is_carried_no_more_and_comes_back_as_another_generation,
)
from tests.contract.rest_cutting import Cutting, a_cut_is_what_stood_when_it_was_compared
from tests.contract.rest_world import RestWorld
from tests.log_topic import ACCOUNT, AUDIT, TABLES, insert


@pytest.fixture(scope="module")
def address(stack: RunningStack, sink_database: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with reference_rest.running(stack.settings, sink_database, tmp_path_factory.mktemp("rest")) as address:
        yield address


@pytest.fixture
def world(address: str, tmp_path: Path) -> Iterator[RestWorld]:
    """A catalogue of its own."""
    with closing(RestWorld(TABLES, tmp_path, f"{address}/{tmp_path.name}")) as world:
        yield world


# Between them every call that a sink makes. All others that need no lost answer have passed too.
EVERY_CALL = [
    an_older_lease_can_never_commit_again,
    a_second_publish_replaces_rows_fences_the_stream_and_begins_a_generation,
    inserts_updates_and_deletes_reach_their_rows,
    a_truncate_alone_empties_the_table,
    a_table_enters_a_stream_that_stands_where_its_incremental_snapshot_does_and_the_others_are_untouched,
    a_table_that_leaves_is_carried_no_more_and_comes_back_as_another_generation,
    a_snapshot_given_up_lets_no_old_rows_in_and_is_gone_after_the_next_joining,
]


@pytest.mark.parametrize("behaviour", EVERY_CALL, ids=lambda behaviour: behaviour.__name__)
def test_iceberg_s_own_adapter_takes_the_calls_of_a_sink(behaviour: Behaviour, world: RestWorld) -> None:
    behaviour(world)


def test_it_lists_the_calls_that_preflight_asks_for_and_its_tables_are_read_back(world: RestWorld) -> None:
    with closing(open_client(world.destination)) as client:
        assert client.missing_calls() == []
    assert KIND.problems(world.plan, world.destination) == ()
    commit = published(world).span(insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y"))
    assert KIND.problems(world.plan, world.destination) == ()
    assert isinstance(KIND, ReadsBack)
    (view,) = KIND.open_live(world.plan, world.destination, 1)
    assert view.position == commit.ledger.position
    with closing(KIND.open_maintenance(world.destination)) as maintenance:
        assert [one.next_offset for one in maintenance.ledgers()] == [commit.ledger.next_offset]
        assert maintenance.let_go().orphan_files == 0


def test_it_tags_a_cut_by_the_call_that_writes_its_rows(world: RestWorld) -> None:
    a_cut_is_what_stood_when_it_was_compared(Cutting(world))
