"""Five Iceberg tables whose stream is killed: the short version of what `./seamline test fault` does at length."""

import random
from pathlib import Path

from tests.conftest import RunningStack
from tests.spark.lake_dance import dance_of


def test_five_tables_are_at_one_position_after_each_kill_of_task_or_driver(stack: RunningStack, tmp_path: Path) -> None:
    chance = random.Random(26)
    with dance_of("lake_dance", tmp_path) as dance:
        for is_driver in (False, True, False):
            dance.kill(chance, driver=is_driver)
            assert dance.wrong() == []
        assert dance.wrong_at_the_end() == []
