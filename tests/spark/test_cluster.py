"""A stream host of a Spark cluster: submitted as any application is, its streams run in executors."""

import sys
from pathlib import Path

from tests.conftest import RunningStack
from tests.spark.chains import chain_of
from tests.spark.cluster import PROGRAMS, standalone_cluster
from tests.waiting import wait_until


def test_a_submitted_host_runs_its_streams_on_the_cluster(stack: RunningStack, tmp_path: Path) -> None:
    with (
        chain_of("cluster_test", tmp_path, PYSPARK_PYTHON=sys.executable) as chain,
        standalone_cluster(tmp_path) as cluster,
        chain.writing() as writers,
    ):
        master = f"spark://{cluster.host}:{cluster.port}"
        chain.hosts.runner = (str(PROGRAMS / "spark-submit"), "--master", master)
        chain.host_is_up()
        assert "serving: pool=default slots=4" in chain.hosts.log(), "of the cluster's cores, as many as --slots says"
        before = writers.committed
        wait_until(lambda: writers.committed > before + 50, timeout_s=30, what="writers to go on")
        writers.stop()
        chain.assert_equal_in_the_end()
        chain.assert_no_surprise()
        assert cluster.executors(), "no executor of the cluster was asked"
