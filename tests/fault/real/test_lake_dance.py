"""Five Iceberg tables in a real stream host: its task and its driver are killed at any moment, again and again; and
Spark compacts the tables beside it."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from seamline import settings
from seamline.stack.layout import Layout
from tests.conftest import RunningStack
from tests.fault.real.report import Tally, Trouble
from tests.spark.dancing_tables import TABLES
from tests.spark.lake_dance import Dance, dance_of
from tests.waiting import wait_until

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


# ---- compaction beside it -------------------------------------------------------------------------------------------

# A stream that commits each second starves Spark, which takes some seconds for a table.
COMMIT_EVERY_MS = 5_000
ROUNDS = 3
_JARS = ("spark/iceberg-spark-runtime-*.jar", "jdbc/postgresql-*.jar")


@contextmanager
def compacting(dance: Dance, folder: Path, jars: Path) -> Iterator[Callable[[], list[str]]]:
    """Spark's rewrite_data_files of all five tables in turn; asks what it did, a line each, while it runs."""
    folder.mkdir()
    catalogue = dance.catalogue
    lake = {
        "uri": f"jdbc:postgresql://{catalogue.host}:{catalogue.port}/{catalogue.database}",
        "login": catalogue.login,
        "password": catalogue.password,
        "warehouse": f"file://{dict(dance.destination.options)['warehouse']}",
        "jars": ",".join(str(path) for name in _JARS for path in jars.glob(name)),
        "tables": [f"{dance.destination.namespace}.{name}" for name in TABLES],
    }
    (folder / "lake.json").write_text(json.dumps(lake), encoding="utf-8")
    done = folder / "done.jsonl"
    done.touch()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.compacting", str(folder)],
            env=settings.process_environment(),
            stdout=log,
            stderr=log,
        )

        def lines() -> list[str]:
            assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")[-2000:]
            return done.read_text(encoding="utf-8").splitlines()

        try:
            yield lines
        finally:
            (folder / "stop").touch()
            process.wait(timeout=120)
    assert process.returncode == 0, (folder / "log").read_text(encoding="utf-8")[-2000:]


def test_tables_that_spark_compacts_beside_the_stream_keep_every_row(
    stack: RunningStack, tally: Tally, tmp_path: Path
) -> None:
    jars = Layout(stack.settings).jars
    with dance_of("t1_lake_compacted", tmp_path, commit_every_ms=COMMIT_EVERY_MS) as dance:
        dance.goes_on(3)
        with compacting(dance, tmp_path / "compacting", jars) as done:

            def rewritten() -> Counter[str]:
                calls = [json.loads(line) for line in done()]
                return Counter(one["table"] for one in calls if one["files"])

            wait_until(
                lambda: sum(rewritten().values()) >= ROUNDS * len(TABLES) and len(rewritten()) == len(TABLES),
                timeout_s=300,
                what="compactions of all tables",
            )
            compacted = sum(rewritten().values())
        said = dance.wrong_at_the_end()
        what = "postgres into iceberg: a table compacted by Spark beside its stream, no row lost or doubled"
        tally.proven[what] += compacted
        assert said == []
