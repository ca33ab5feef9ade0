"""Where a stream runs whose changes Spark writes, with which classes, and what becomes of one that has no session."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkConf

from seamline import registry
from seamline.domain.errors import Refused
from seamline_spark.stream_host.spark_streams import configured
from tests.contract.behaviours import Applying, account, published
from tests.contract.lake_worlds import MemoryCatalogueWorld
from tests.log_topic import ACCOUNT, TABLES, insert, sync_plan

JARS = (Path("/jars/one.jar"), Path("/jars/two.jar"))


class WithoutIceberg:
    """`Frames` of a Spark that was started without Iceberg's jar."""

    def has(self, class_name: str) -> bool:  # noqa: ARG002
        return False

    def configure(self, options: Mapping[str, str]) -> None:
        raise AssertionError(options)

    def show(self, view: str, rows: pa.Table) -> None:
        raise AssertionError(view)

    def run(self, statement: str) -> pa.Table:
        raise AssertionError(statement)


def said(master: str) -> dict[str, str]:
    conf = SparkConf(loadDefaults=False).setMaster(master)
    return dict(configured(conf, "default", slots=4, jars=JARS).getAll())


def test_the_jars_of_destinations_are_on_the_class_path_of_one_jvm_and_sent_to_a_cluster() -> None:
    here, there = said("local[4]"), said("spark://master:7077")
    assert here["spark.driver.extraClassPath"] == "/jars/one.jar:/jars/two.jar"
    assert "spark.jars" not in here
    assert there["spark.jars"] == "/jars/one.jar,/jars/two.jar"
    assert "spark.driver.extraClassPath" not in there


@pytest.mark.parametrize(
    ("kind", "write", "needs"), [("iceberg", "spark", True), ("iceberg", "native", False), ("postgres", "", False)]
)
def test_a_stream_runs_where_the_session_is_only_if_spark_writes_its_changes(
    kind: str, write: str, needs: bool
) -> None:
    plan = sync_plan()
    options = (("catalog", "lake"), ("warehouse", "/srv"), ("write", write))
    destination = replace(plan.destinations[0], kind=kind, options=options)
    assert registry.needs_frames(replace(plan, destinations=(destination,)), destination.name) is needs


def test_who_has_no_session_publishes_and_commits_no_change(tmp_path: Path) -> None:
    stream = published(MemoryCatalogueWorld(TABLES, tmp_path, options={"write": "spark"}))
    stream.span()
    with pytest.raises(Refused, match="here is no session of it"):
        stream.span(insert(ACCOUNT, **account(1)))


def test_a_spark_without_iceberg_s_jar_is_refused_with_the_way_to_give_it(tmp_path: Path) -> None:
    world = MemoryCatalogueWorld(TABLES, tmp_path, frames=WithoutIceberg())
    stream: Applying = published(world)
    with pytest.raises(Refused, match="--jars"):
        stream.span(insert(ACCOUNT, **account(1)))
