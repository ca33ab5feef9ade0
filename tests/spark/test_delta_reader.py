"""What is written as Delta is read by Delta's own reader in Spark, and what Spark compacts or restores is taken up."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seamline import settings
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.errors import Diverged
from seamline.plan.model import DestinationPlan
from seamline.sinks.delta import tables as delta_tables
from seamline.sinks.delta.log import DeltaLog
from seamline.sinks.delta.pointer import Pointer
from seamline.sinks.delta.separate import DeltaSide
from seamline.sinks.delta.types import typed
from seamline.stack import jars
from seamline.stack.layout import Layout
from seamline.values.digest import row_texts
from seamline.values.segments import texts_of
from tests.contract.behaviours import Applying, account, published
from tests.contract.lake_worlds import DELTA, MemoryCatalogueWorld
from tests.log_topic import ACCOUNT, AUDIT, TABLES, TRANSFER, delete, insert, update
from tests.unit.delta_lake import EVERY_KIND, KEPT_ROWS, DeltaLake


class Spark:
    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._folder = folder

    def sql(self, statement: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._asked({"sql": statement}))
        return found

    def read(self, folder: Path, version: int | None = None) -> pa.Table:
        into = self._folder / "rows.arrow"
        self._asked({"read": str(folder), "version": version, "into": str(into)})
        with pa.memory_map(str(into)) as file:
            return pa.ipc.open_file(file).read_all()

    def texts(self, table: Table, folder: Path, version: int | None = None) -> list[str]:
        found = self.read(folder, version).combine_chunks()
        return sorted(row_texts(table, typed(table, found)).to_pylist())

    def _asked(self, what: dict[str, Any]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("answer: "):
                return line.removeprefix("answer: ").strip()
        raise AssertionError("Spark has ended")


@contextmanager
def spark_of(folder: Path) -> Iterator[Spark]:
    layout = Layout(settings.load())
    locked = [
        one for one in jars.read_lock(layout.settings.root / "jars" / "jars.lock") if one.configuration == jars.DELTA
    ]
    files = layout.settings.env / "delta"
    jars.ensure(locked, files, fetch=jars.ivy(layout, settings.process_environment()))
    paths = ",".join(str(files / one.path) for one in locked)
    folder.mkdir()
    command = [sys.executable, "-m", "tests.spark.delta_reader", paths, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=layout.settings.root
    ) as process:
        try:
            yield Spark(process, folder)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)


def logged(table: Table, world: MemoryCatalogueWorld) -> list[str]:
    """The rows of a table where the ledger has it, as texts of a comparison."""
    batches = DELTA.live(table, world.seen().heads[table.name])()
    return sorted(text for batch in batches for text in row_texts(table, batch).to_pylist())


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    with spark_of(tmp_path_factory.mktemp("spark") / "own") as found:
        yield found


def test_spark_reads_every_version_that_is_kept_and_its_compaction_is_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Spark
) -> None:
    monkeypatch.setattr(delta_tables, "CHECKPOINT_EVERY", 3)
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    world = MemoryCatalogueWorld(TABLES, warehouse, lake=DELTA)
    stream, expected = published(world), dict[tuple[str, int], list[str]]()

    def keep() -> None:
        for table in TABLES:
            at = Pointer.parsed(world.seen().heads[table.name])
            expected[table.name, at.version] = logged(table, world)

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
        if number == 0:
            stream = Applying(world)
    every = DeltaLake(EVERY_KIND, tmp_path)
    every.commit(every.put(*KEPT_ROWS))
    folder = {name: Pointer.parsed(text).folder for name, text in world.seen().heads.items()}
    for (name, version), rows in expected.items():
        if name == ACCOUNT.name:
            assert spark.texts(ACCOUNT, folder[name], version) == rows, f"{name} at version {version}"
    for table in TABLES:
        assert spark.texts(table, folder[table.name]) == logged(table, world), "the head as well"
    assert spark.texts(EVERY_KIND, every.folder) == every.texts()
    spark.sql(f"OPTIMIZE delta.`{folder['account']}`")
    before = logged(ACCOUNT, world)
    stream = Applying(world)
    stream.span(insert(ACCOUNT, **account(1_000)), delete(ACCOUNT, **account(2, "n2")))
    assert spark.texts(ACCOUNT, folder["account"]) == logged(ACCOUNT, world)
    assert len(logged(ACCOUNT, world)) == len(before)
    spark.sql(f"DELETE FROM delta.`{folder['account']}` WHERE id = 1000")
    with pytest.raises(Diverged, match="account: DELETE of version"):
        stream.span(insert(ACCOUNT, **account(1_001)))
    at = Pointer.parsed(world.seen().heads["account"]).version
    spark.sql(f"RESTORE TABLE delta.`{folder['account']}` TO VERSION AS OF {at}")
    Applying(world).span(insert(ACCOUNT, **account(1_001)))
    assert spark.texts(ACCOUNT, folder["account"]) == logged(ACCOUNT, world)


def test_a_table_that_spark_writes_is_compared_as_spark_reads_it(tmp_path: Path, spark: Spark) -> None:
    place = f"delta.`{tmp_path}/bank/payment`"
    (tmp_path / "bank").mkdir()
    for statement in (
        f"CREATE TABLE {place} (id short, amount decimal(18,4), rate float, is_open boolean, mark binary, paid_at"
        " timestamp, booked_at timestamp_ntz, day date, branch int) USING delta PARTITIONED BY (day, branch)"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '3')",
        f"INSERT INTO {place} SELECT n, n + 0.25, n / 7, n % 2 = 1, cast(cast(n as string) as binary), timestamp"
        " '1890-01-01 00:00:00.000001Z' + make_interval(n * 10), timestamp_ntz '2026-03-29 02:30:00',"
        " date_add(date '2026-03-01', n % 3), nullif(n % 2, 0) FROM (SELECT cast(id as int) AS n FROM range(1, 60))",
        f"ALTER TABLE {place} ADD COLUMN memo string",
        f"INSERT INTO {place} VALUES (100, 1, null, null, null, null, null, null, 7, '付款 ')",
        f"DELETE FROM {place} WHERE id % 5 = 0 AND id < 100",
        f"UPDATE {place} SET amount = -1 WHERE id = 3",
    ):
        spark.sql(statement)
    side = DeltaSide(DestinationPlan("copy", "delta", "", "bank", options=(("warehouse", str(tmp_path)),)))
    survey = side.survey(["payment"])
    assert survey.problems == ()
    table = replace(survey.tables[0], key=("id",))
    opened = side.open([table], 1)
    hashes = opened.views[0].row_hashes(Segment("payment"), run_key="k")
    rows = opened.views[0].rows("payment", [one.key for one in hashes])
    known = spark.read(tmp_path / "bank" / "payment").combine_chunks()
    expected = [
        dict(zip([column.name for column in table.columns], texts, strict=True))
        for texts in texts_of(table.columns, typed(table, known))
    ]
    assert len(expected) == 49
    assert sorted(map(str, (dict(row) for row in rows.values()))) == sorted(map(str, expected))
    assert opened.stand.place == f"payment at version {len(DeltaLog(tmp_path / 'bank' / 'payment').versions()) - 1}"
