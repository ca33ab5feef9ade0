"""One suite over every sink: what the stream builds on, proven for each destination alike."""

from collections.abc import Iterator

import pytest

from tests.contract.behaviours import BEHAVIOURS, Behaviour
from tests.contract.worlds import MemoryWorld, PostgresWorld, World
from tests.log_topic import TABLES


@pytest.fixture(params=["memory", "postgres"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World = (
        MemoryWorld(TABLES)
        if request.param == "memory"
        else PostgresWorld(TABLES, request.getfixturevalue("sink_database"))
    )
    yield made
    made.close()


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_every_sink_keeps_the_contract(behaviour: Behaviour, world: World) -> None:
    behaviour(world)
