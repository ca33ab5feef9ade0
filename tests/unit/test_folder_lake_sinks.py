"""The suite of every sink over tables of Delta and Hudi whose ledger is in memory: real files, and no server."""

from pathlib import Path

import pytest

from tests.contract.behaviours import BEHAVIOURS, Behaviour
from tests.contract.filter_behaviours import FILTER_BEHAVIOURS
from tests.contract.going_back_behaviours import GOING_BACK_BEHAVIOURS
from tests.contract.joining_behaviours import JOINING_BEHAVIOURS
from tests.contract.lake_worlds import DELTA, HUDI, Lake, MemoryCatalogueWorld
from tests.contract.truncate_behaviours import TRUNCATE_BEHAVIOURS
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS
from tests.log_topic import TABLES
from tests.toast_log import NOTE

OVER_ALL_TABLES = [*BEHAVIOURS, *FILTER_BEHAVIOURS, *TRUNCATE_BEHAVIOURS, *JOINING_BEHAVIOURS, *GOING_BACK_BEHAVIOURS]
BOTH = pytest.mark.parametrize("lake", [DELTA, HUDI], ids=lambda lake: lake.name)


@BOTH
@pytest.mark.parametrize("behaviour", OVER_ALL_TABLES, ids=lambda behaviour: behaviour.__name__)
def test_the_sink_keeps_the_contract(behaviour: Behaviour, lake: Lake, tmp_path: Path) -> None:
    behaviour(MemoryCatalogueWorld(TABLES, tmp_path, lake=lake))


@BOTH
@pytest.mark.parametrize("behaviour", LEFT_OUT_BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_the_sink_finds_the_values_that_a_log_left_out(behaviour: Behaviour, lake: Lake, tmp_path: Path) -> None:
    behaviour(MemoryCatalogueWorld([NOTE], tmp_path, lake=lake))
