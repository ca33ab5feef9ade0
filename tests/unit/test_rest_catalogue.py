"""The suite of every sink over Iceberg tables in a REST catalogue: real files, and a server of the tests' own."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.contract.behaviours import BEHAVIOURS, Behaviour
from tests.contract.filter_behaviours import FILTER_BEHAVIOURS
from tests.contract.going_back_behaviours import GOING_BACK_BEHAVIOURS
from tests.contract.joining_behaviours import JOINING_BEHAVIOURS
from tests.contract.rest_world import RestWorld
from tests.contract.truncate_behaviours import TRUNCATE_BEHAVIOURS
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS
from tests.log_topic import TABLES
from tests.toast_log import NOTE

OVER_ALL_TABLES = [*BEHAVIOURS, *FILTER_BEHAVIOURS, *TRUNCATE_BEHAVIOURS, *JOINING_BEHAVIOURS, *GOING_BACK_BEHAVIOURS]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RestWorld]:
    with closing(RestWorld(TABLES, tmp_path)) as world:
        yield world


@pytest.mark.parametrize("behaviour", OVER_ALL_TABLES, ids=lambda behaviour: behaviour.__name__)
def test_a_sink_over_a_rest_catalogue_keeps_the_contract(behaviour: Behaviour, world: RestWorld) -> None:
    behaviour(world)


@pytest.mark.parametrize("behaviour", LEFT_OUT_BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_it_finds_the_values_that_a_log_left_out(behaviour: Behaviour, tmp_path: Path) -> None:
    with closing(RestWorld([NOTE], tmp_path)) as world:
        behaviour(world)
