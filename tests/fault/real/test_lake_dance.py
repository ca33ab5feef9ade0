"""Five Iceberg tables in a real stream host whose task and driver are killed at any moment, again and again."""

import random
from pathlib import Path

from tests.conftest import RunningStack
from tests.fault.real.report import Tally, Trouble
from tests.spark.lake_dance import dance_of

TASKS, DRIVERS = 18, 6


def test_five_tables_are_at_one_position_after_each_of_many_kills(
    stack: RunningStack, tally: Tally, tmp_path: Path
) -> None:
    chance = random.Random(f"{tally.seed}/lake dance")
    kills = [False] * TASKS + [True] * DRIVERS
    chance.shuffle(kills)
    with dance_of("t1_lake_dance", tmp_path) as dance:
        said = []
        for is_driver in kills:
            dance.kill(chance, driver=is_driver)
            said += dance.wrong()
        said += dance.wrong_at_the_end()
        what = (
            f"five Iceberg tables under kills ({dance.kills['task']} of the task, {dance.kills['driver']} of the"
            f" driver), {dance.dancer.committed} transactions of all five"
        )
        tally.troubles.append(Trouble("postgres into iceberg", what, dance.slowest_s, dance.commits(), tuple(said)))
        assert said == []
