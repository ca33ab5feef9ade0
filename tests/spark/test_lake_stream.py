"""A stream into a lake that Spark writes: it runs on the host's driver, which dies by kill -9 in mid-commit.

A bank on MariaDB with writers at work, its capture, Kafka, the stream host, a catalogue in PostgreSQL: no part is a
fake.
"""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from seamline.plan.document import plan_to_json
from tests.conftest import RunningStack
from tests.integration.captured import captured
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id
from tests.spark.chains import SCRIPT, TABLES, LakeChain, lake_written_by_spark
from tests.spark.empty_sync import publish_empty_into
from tests.spark.hosts import Failpoints, hosts_of, is_gone, session_of, uri
from tests.waiting import wait_until

NAME = "lake_stream_test"


@pytest.fixture(scope="module")
def failpoints(tmp_path_factory: pytest.TempPathFactory) -> Failpoints:
    return Failpoints(tmp_path_factory.mktemp("failpoints") / "failpoints")


@pytest.fixture(scope="module")
def chain(stack: RunningStack, failpoints: Failpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeChain]:
    folder = tmp_path_factory.mktemp("lake")
    (folder / "warehouse").mkdir()
    layouts = {"account": {"partitioned_by": ["bucket(2, id)"], "sorted_by": ["id desc"]}}
    with (
        captured(NAME) as bank,
        postgres_database(f"{NAME}_catalogue") as catalogue,
        destination_known_by_id(catalogue, catalogue.database),
        pytest.MonkeyPatch.context() as patch,
    ):
        bank.ensure()
        destination = lake_written_by_spark(catalogue, folder / "warehouse", layouts=json.dumps(layouts))
        plan = publish_empty_into(bank, destination, sync=bank.plan.sync, tables=TABLES)
        environment = {"SEAMLINE_FAILPOINTS_FILE": str(failpoints.file)}
        with hosts_of(SCRIPT, folder, name=f"{NAME}_platform", **environment) as hosts:
            patch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(hosts.platform))
            hosts.director.want(plan.stream_id("warehouse"), plan_json=plan_to_json(plan))
            yield LakeChain(bank, plan, catalogue, hosts)


def test_a_host_that_writes_a_lake_and_is_killed_in_mid_commit_loses_nothing_and_doubles_nothing(
    chain: LakeChain, failpoints: Failpoints
) -> None:
    pid = chain.host_is_up()
    with chain.writing() as writers:
        for place in ("app.dml_half", "app.commit_sent"):
            failpoints.arm(f"{place}=wait")
            wait_until(lambda place=place: failpoints.fired()[place], timeout_s=60, what="the stream to stand there")
            everything = [process.pid for process in session_of(pid)]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda gone=everything: all(map(is_gone, gone)), timeout_s=20, what="every process to be gone")
            failpoints.arm("")
            before = chain.applied_transactions()
            pid = chain.host_is_up()
            wait_until(
                lambda seen=before: chain.applied_transactions() > seen, timeout_s=60, what="the stream to go on"
            )
        writers.stop()
        chain.assert_equal_in_the_end()
    chain.assert_no_surprise()
    assert len(chain.destination_rows("account")) > 50
    assert [field.name for field in chain.head("account").spec().fields] == ["id_bucket"]
    for table in TABLES:
        summaries = [snapshot.summary for snapshot in chain.head(table).snapshots()]
        assert {summary["engine-name"] for summary in summaries if summary} == {"seamline", "spark"}
