"""What is written as Hudi is read by Hudi's own reader in its own Spark, at every instant that the ledger named."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from seamline import settings
from seamline.domain.catalogue import Table
from seamline.sinks.hudi import retention
from seamline.sinks.hudi.instants import text_of
from seamline.sinks.hudi.pointer import Pointer
from seamline.sinks.hudi.retention import Kept, sweep_table
from seamline.sinks.hudi.types import typed
from seamline.sinks.lake import edit as lake_edit
from seamline.stack import hudi_environment
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress
from seamline.values.digest import row_texts
from tests.contract.behaviours import Applying, account, published
from tests.contract.lake_worlds import HUDI, MemoryCatalogueWorld
from tests.log_topic import ACCOUNT, AUDIT, TABLES, TRANSFER, delete, insert, update
from tests.unit.delta_lake import EVERY_KIND, KEPT_ROWS
from tests.unit.hudi_lake import HudiLake


class Spark:
    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._folder = folder

    def texts(self, table: Table, folder: Path, instant: int | None = None) -> list[str]:
        into = self._folder / "rows"
        said = None if instant is None else text_of(instant)
        self._ask({"read": str(folder), "instant": said, "into": str(into)})
        found = pq.read_table(into, partitioning=None).combine_chunks()
        return sorted(row_texts(table, typed(table, found)).to_pylist())

    def _ask(self, what: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        assert "read\n" in self._process.stdout, "Spark has ended"


@contextmanager
def spark_of(folder: Path) -> Iterator[Spark]:
    layout = Layout(settings.load())
    made = hudi_environment.prepare(layout, Progress())
    folder.mkdir()
    program = layout.settings.root / "tests" / "spark" / "hudi_reader.py"
    command = [str(made.python), str(program), str(made.jar), str(folder)]
    variables = {**settings.process_environment(), "PYSPARK_PYTHON": str(made.python)}
    for name in ("SPARK_HOME", "PYTHONPATH"):
        variables.pop(name, None)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env=variables
    ) as process:
        try:
            yield Spark(process, folder)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)


def logged(table: Table, world: MemoryCatalogueWorld) -> list[str]:
    """The rows of a table where the ledger has it, as texts of a comparison."""
    batches = HUDI.live(table, world.seen().heads[table.name])()
    return sorted(text for batch in batches for text in row_texts(table, batch).to_pylist())


def test_hudi_reads_the_rows_of_every_instant_and_after_maintenance_those_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_edit, "FILES_JOINED", 3)
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    world = MemoryCatalogueWorld(TABLES, warehouse, lake=HUDI)
    stream, expected = published(world), dict[tuple[str, int], list[str]]()

    def keep() -> None:
        for table in TABLES:
            at = Pointer.parsed(world.seen().heads[table.name])
            expected[table.name, at.instant] = logged(table, world)

    for number in range(2):
        stream.span(
            *[insert(ACCOUNT, **account(key, f"n{key}")) for key in range(number * 10, number * 10 + 10)],
            insert(TRANSFER, tx=number, leg=1, amount=f"{number}.2500"),
            *[insert(AUDIT, actor="x", action=None)] * 3,
        )
        keep()
        stream.span(
            update(ACCOUNT, account(number * 10, f"n{number * 10}"), account(number * 10, "ü€😀")),
            delete(ACCOUNT, **account(number * 10 + 1, f"n{number * 10 + 1}")),
            delete(AUDIT, actor="x", action=None),
        )
        keep()
        stream = Applying(world)
    every = HudiLake(EVERY_KIND, tmp_path)
    every.commit(every.put(*KEPT_ROWS))
    folder = {name: Pointer.parsed(text).folder for name, text in world.seen().heads.items()}
    with spark_of(tmp_path / "spark") as spark:
        for (name, instant), rows in expected.items():
            if name == ACCOUNT.name:
                assert spark.texts(ACCOUNT, folder[name], instant) == rows, f"{name} at instant {instant}"
        for table in TABLES:
            assert spark.texts(table, folder[table.name]) == logged(table, world), "the head as well"
        assert spark.texts(EVERY_KIND, every.folder) == every.texts()
        # What maintenance leaves: an instant of a cut, and the newest one.
        monkeypatch.setattr(retention, "YOUNG_S", -60)
        instants = sorted(instant for name, instant in expected if name == ACCOUNT.name)
        assert sweep_table(Kept(Pointer(folder["account"], instants[-1]), held={instants[1]})) > 0
        for instant in (instants[1], instants[-1]):
            assert spark.texts(ACCOUNT, folder["account"], instant) == expected["account", instant]
        assert spark.texts(ACCOUNT, folder["account"]) == logged(ACCOUNT, world)
