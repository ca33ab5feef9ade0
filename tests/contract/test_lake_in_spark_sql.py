"""A cut by Spark's own SQL, as the how-to has it: by its tag, and by the views that show it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.stack.layout import Layout
from tests.conftest import RunningStack
from tests.contract.behaviours import Applying, account, published
from tests.contract.lake_worlds import PostgresLakeWorld
from tests.contract.test_lake_cuts import Cutting, a_cut_is_what_stood_when_it_was_compared, resolved
from tests.documented import block
from tests.log_topic import ACCOUNT, AUDIT, TABLES, insert

PAGE = "docs/how-to/read-a-lake.md"
JARS = ("spark/iceberg-spark-runtime-*.jar", "jdbc/postgresql-*.jar")
VIEWS = ("payment_order_2026_11_27", "payment_order_proven")


@pytest.fixture
def cutting(sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cutting]:
    """With a cut in which the ids of `account` add up to 1, and a head in which they do not."""
    resolved(monkeypatch, sink_database)
    with closing(PostgresLakeWorld(TABLES, sink_database, tmp_path / "warehouse")) as world:
        published(world).span(insert(ACCOUNT, **account(1, "at the cut")), insert(AUDIT, actor="x", action="y"))
        cutting = Cutting(world)
        with closing(cutting.cuts):
            a_cut_is_what_stood_when_it_was_compared(cutting)
            Applying(world).span(insert(ACCOUNT, **account(70)))
            yield cutting


def program_of(checkout: Path, catalogue: Connection, warehouse: Path, jars: str) -> str:
    """The page's block, and the same sum of each of its two views and of the head."""
    page = (checkout / PAGE).read_text(encoding="utf-8")
    (extensions,) = re.findall(r"`(\S+IcebergSparkSessionExtensions)`", page)
    assert all(f"`lake.settlement_cut.{view}`" in page for view in VIEWS)
    names = [*(f"lake.settlement_cut.{view}" for view in VIEWS), "lake.settlement.payment_order"]
    asked = [f'spark.sql("SELECT sum(amount) FROM {name}").show()\n' for name in names]
    program = "".join((block(checkout, PAGE, "from pyspark"), *asked))
    for theirs, ours in {
        "<iceberg-spark-runtime>.jar,<postgresql>.jar": jars,
        "catalogue.example:5432/lake": f"{catalogue.host}:{catalogue.port}/{catalogue.database}",
        '"reader"': repr(catalogue.login),
        '"secret"': repr(catalogue.password),
        "/srv/warehouse": str(warehouse),
        "payment_order": "account",
        "sum(amount)": "sum(id)",
        "    .getOrCreate()": f'    .config("spark.sql.extensions", "{extensions}")\n    .getOrCreate()',
    }.items():
        assert theirs in program, theirs
        program = program.replace(theirs, ours)
    return program


def test_spark_s_sql_reads_a_cut_by_its_tag_and_by_its_views_with_the_sum_of_the_other_readers(
    cutting: Cutting, sink_database: Connection, stack: RunningStack, checkout: Path, tmp_path: Path
) -> None:
    folder = Layout(stack.settings).jars
    jars = ",".join(str(path) for name in JARS for path in folder.glob(name))
    (tmp_path / "page.py").write_text(program_of(checkout, sink_database, tmp_path / "warehouse", jars))
    small = "--master local[1] --conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1 pyspark-shell"
    ended = subprocess.run(
        [sys.executable, tmp_path / "page.py"],
        env={**settings.process_environment(), "PYSPARK_SUBMIT_ARGS": small},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    by_tag, by_date, proven, head = map(int, re.findall(r"^\| +(\d+)\|$", ended.stdout, re.MULTILINE))
    assert (by_tag, by_date, proven) == (1, 1, 1), "Seamline's reader, pyiceberg and DuckDB: test_lake_cuts.py"
    assert head == 71
