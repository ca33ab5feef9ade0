"""What an application of Spark is given where it runs on a cluster."""

from dataclasses import replace
from pathlib import Path

import pytest

from seamline import settings
from seamline.cluster import spark_conf
from seamline.settings import Settings

STANDALONE = {"spark.master": "spark://spark-master:7077"}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    home = tmp_path_factory.mktemp("home")
    uris = {"warehouse": "postgres://canary-login:canary-password@db:5432/bank"}
    return replace(settings.load(), home=home, connections=home / "connections.json", connection_uris=uris)


@pytest.mark.parametrize("master", ["local", "local[4]", "local[2,3]", "local[*]"])
def test_a_local_spark_is_given_nothing_and_no_archive_is_made(known: Settings, tmp_path: Path, master: str) -> None:
    untouched = replace(known, home=tmp_path / "home")
    assert spark_conf.for_executors({"spark.master": master}, untouched, task_mb=1) == {}
    assert not untouched.home.exists()


@pytest.mark.parametrize("master", ["spark://m:7077", "yarn", "k8s://https://m:6443", "local-cluster[2,1,1024]"])
def test_executors_get_the_code_and_the_place_of_their_connections_and_no_secret(known: Settings, master: str) -> None:
    given = spark_conf.for_executors({"spark.master": master}, known, task_mb=100)
    (archive,) = (known.home / "code").iterdir()
    assert given == {
        "spark.archives": f"{archive.as_uri()}#{archive.stem}",
        "spark.executorEnv.PYTHONPATH": archive.stem,
        "spark.executorEnv.SEAMLINE_CONNECTIONS": str(known.connections),
        "spark.executor.memoryOverhead": "612m",
    }
    assert "canary" not in str(given) + archive.read_text(encoding="latin-1")


def test_what_the_owner_of_the_cluster_says_stays(known: Settings) -> None:
    said = {
        **STANDALONE,
        "spark.archives": "hdfs:///environment.tar.gz#environment",
        "spark.executorEnv.SEAMLINE_CONNECTIONS": "/etc/seamline/connections.json",
        "spark.executor.memoryOverhead": "3g",
    }
    given = spark_conf.for_executors(said, known, task_mb=100)
    assert given["spark.archives"].split(",")[0] == "hdfs:///environment.tar.gz#environment"
    assert "#seamline-" in given["spark.archives"].split(",")[1]
    assert given["spark.executorEnv.SEAMLINE_CONNECTIONS"] == "/etc/seamline/connections.json"
    assert given["spark.executor.memoryOverhead"] == "3g"


def test_a_driver_that_is_configured_twice_sends_its_code_once(known: Settings) -> None:
    once = spark_conf.for_executors(STANDALONE, known, task_mb=100)
    assert spark_conf.for_executors({**STANDALONE, **once}, known, task_mb=100) == once


def test_the_overhead_grows_with_the_tasks_that_an_executor_runs_at_once(known: Settings) -> None:
    given = spark_conf.for_executors({**STANDALONE, "spark.executor.cores": "4"}, known, task_mb=100)
    assert given["spark.executor.memoryOverhead"] == "912m"


def test_a_driver_on_the_cluster_sends_nothing_of_its_own(known: Settings) -> None:
    said = {"spark.master": "yarn", "spark.submit.deployMode": "cluster"}
    assert spark_conf.for_executors(said, known, task_mb=100) == {"spark.executor.memoryOverhead": "612m"}


@pytest.mark.parametrize(
    ("master", "prefix"),
    [("yarn", "spark.yarn.appMasterEnv."), ("k8s://https://m:6443", "spark.kubernetes.driverEnv.")],
)
def test_a_driver_that_the_cluster_runs_gets_the_same_variables_as_its_executors(
    known: Settings, master: str, prefix: str
) -> None:
    ours = spark_conf.travelling(known)
    given = spark_conf.for_driver_on_cluster(master, ours, {f"{prefix}PYTHONPATH": "said"})
    assert given == {
        "spark.executorEnv.PYTHONPATH": ours.environment["PYTHONPATH"],
        "spark.executorEnv.SEAMLINE_CONNECTIONS": str(known.connections),
        f"{prefix}PYTHONPATH": "said",
        f"{prefix}SEAMLINE_CONNECTIONS": str(known.connections),
    }
