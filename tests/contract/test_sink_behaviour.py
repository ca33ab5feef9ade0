"""One suite over every sink: what the stream builds on, proven for each destination alike."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.sinks.iceberg.single.hive import open_hive
from tests.contract.behaviours import BEHAVIOURS, Behaviour
from tests.contract.change_files_world import ChangeFilesWorld
from tests.contract.filter_behaviours import FILTER_BEHAVIOURS
from tests.contract.going_back_behaviours import GOING_BACK_BEHAVIOURS
from tests.contract.joining_behaviours import JOINING_BEHAVIOURS
from tests.contract.kafka_world import OVER_TOPICS, WITHOUT_TRANSACTIONS, KafkaWorld
from tests.contract.lake_worlds import LAKES, SINGLE, PostgresLakeWorld
from tests.contract.relational_worlds import RELATIONAL, relational_maker
from tests.contract.repair_behaviours import REPAIR_BEHAVIOURS
from tests.contract.single_world import SingleWorld
from tests.contract.truncate_behaviours import TRUNCATE_BEHAVIOURS
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS
from tests.contract.worlds import APPENDED, MemoryWorld, PostgresWorld, World, WorldMaker
from tests.log_topic import TABLES
from tests.toast_log import NOTE

# A commit into a topic or a file does not look at what it holds: what changes met, the comparison finds.
NOT_LOOKED_AT = {
    "what_meets_the_unexpected_is_applied_counted_and_kept",
    "a_full_update_of_a_row_that_is_not_there_is_a_finding_beside_changes_that_lack_values",
}


@pytest.fixture(params=["memory", "postgres", *APPENDED, WITHOUT_TRANSACTIONS, *RELATIONAL, *LAKES, SINGLE.name])
def make_world(request: pytest.FixtureRequest, tmp_path: Path) -> WorldMaker:
    if request.param == "memory":
        return MemoryWorld
    if (
        request.param in (*APPENDED, WITHOUT_TRANSACTIONS)
        and request.node.callspec.params["behaviour"].__name__ in NOT_LOOKED_AT
    ):
        pytest.skip("what is appended to is written without a look at what it holds")
    if request.param in OVER_TOPICS:
        return lambda tables: KafkaWorld(tables, guarantee=OVER_TOPICS[request.param])
    if request.param == "change_files":
        return lambda tables: ChangeFilesWorld(tables, tmp_path)
    if request.param in RELATIONAL:
        return relational_maker(request.param, request)
    database = request.getfixturevalue("sink_database")
    if request.param in LAKES:
        return lambda tables: PostgresLakeWorld(tables, database, tmp_path, lake=LAKES[request.param])
    if request.param == SINGLE.name:
        metastore = request.getfixturevalue("hive").metastore
        return lambda tables: SingleWorld(tables, database, tmp_path / "warehouse", partial(open_hive, metastore))
    return lambda tables: PostgresWorld(tables, database)


@contextmanager
def opened(make_world: WorldMaker, tables: Sequence[Table]) -> Iterator[World]:
    world = make_world(tables)
    try:
        yield world
    finally:
        world.close()


@pytest.mark.parametrize(
    "behaviour", (*BEHAVIOURS, *FILTER_BEHAVIOURS, *REPAIR_BEHAVIOURS), ids=lambda behaviour: behaviour.__name__
)
def test_every_sink_keeps_the_contract(behaviour: Behaviour, make_world: WorldMaker) -> None:
    with opened(make_world, TABLES) as world:
        behaviour(world)


@pytest.mark.parametrize("behaviour", TRUNCATE_BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_every_sink_empties_a_table_amid_a_large_transaction(behaviour: Behaviour, make_world: WorldMaker) -> None:
    with opened(make_world, TABLES) as world:
        behaviour(world)


@pytest.mark.parametrize("behaviour", LEFT_OUT_BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_every_sink_finds_the_values_that_a_log_left_out(
    behaviour: Behaviour, make_world: WorldMaker, request: pytest.FixtureRequest
) -> None:
    if request.node.callspec.params["make_world"] == SINGLE.name:
        pytest.skip("a metastore takes no name as this table has: preflight refuses it")
    with opened(make_world, [NOTE]) as world:
        behaviour(world)


@pytest.mark.parametrize("behaviour", JOINING_BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_every_sink_lets_tables_enter_and_leave_a_stream(behaviour: Behaviour, make_world: WorldMaker) -> None:
    with opened(make_world, TABLES) as world:
        behaviour(world)


# Where both roles have a part.
OF_BOTH_ROLES = [
    *JOINING_BEHAVIOURS,
    *(one for one in BEHAVIOURS if "publish" in one.__name__ or one.__name__.startswith("chunks_")),
]


@pytest.mark.parametrize("behaviour", OF_BOTH_ROLES, ids=lambda behaviour: behaviour.__name__)
def test_one_login_for_both_roles_keeps_the_contract_too(behaviour: Behaviour, one_login_database: Connection) -> None:
    with closing(PostgresWorld(TABLES, one_login_database, resolve=lambda _: one_login_database)) as world:
        behaviour(world)


@pytest.mark.parametrize("behaviour", GOING_BACK_BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_every_sink_names_a_destination_that_went_back(behaviour: Behaviour, make_world: WorldMaker) -> None:
    with opened(make_world, TABLES) as world:
        behaviour(world)
