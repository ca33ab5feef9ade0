"""Jobs and streams on a standalone cluster of two machines, through Airflow's Spark connection, while machines die.

The machines are processes with own addresses, work folders and environments, in network namespaces of their own where
this account may make them; they have no checkout.
"""

import contextlib
import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from seamline.domain.calendar import last_ended
from seamline.domain.runs import Scope
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from tests.conftest import RunningStack
from tests.spark.cluster import kill_tree
from tests.spark.cluster_scene import MARK, TABLES, Scene, scene_of
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def scene(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene_of(tmp_path_factory.mktemp("cluster")) as one:
        for _ in range(2):
            one.add_worker()
        one.bank.execute(
            "INSERT INTO account SELECT seq, 1, 'x' FROM seq_1_to_1000",
            "INSERT INTO audit SELECT seq % 7, 'x' FROM seq_1_to_1000",
        )
        yield one


@pytest.fixture(scope="module")
def run_id(scene: Scene) -> str:
    return scene.open_run("onboard", "1")


@pytest.mark.parametrize("what", ["an executor", "a machine"])
def test_what_dies_in_mid_snapshot_ends_the_attempt_and_a_retry_may_help(scene: Scene, run_id: str, what: str) -> None:
    scene.failpoints.arm("snap.chunk_read=wait")
    reading = scene.failpoints.fired()["snap.chunk_read"] + len(TABLES)
    task = scene.start("snapshot_load", run_id, airflow_worker="first")
    wait_until(
        lambda: task.poll() is not None or scene.failpoints.fired()["snap.chunk_read"] >= reading,
        timeout_s=90,
        what="every table to be read",
    )
    assert task.poll() is None, task.communicate()
    worker = next(one for one in scene.cluster.living_workers if one.at_work())
    if what == "a machine":
        worker.kill()
        scene.add_worker()
    else:
        kill_tree(worker.at_work()[0].pid)
    said, _ = task.communicate(timeout=60)
    scene.failpoints.arm("")
    assert task.returncode == 1, said
    assert "snapshot_load: Spark ended the copy: ExecutorLostFailure" in said, said
    assert scene.published() == 0


def test_the_retry_of_another_airflow_worker_stages_every_row_once(scene: Scene, run_id: str) -> None:
    scene.run("snapshot_load", run_id, airflow_worker="second")
    ran = [
        path for folder in scene.cluster.executor_folders() for path in folder.glob("seamline-*/seamline/bulk/*/copy.*")
    ]
    assert ran, "the executors' code came from elsewhere"
    scene.publish(run_id)
    assert all(Counter(scene.bank.rows(one)) == Counter(scene.chain.destination_rows(one)) for one in TABLES)


def test_no_secret_is_in_what_a_job_is_given_or_in_what_spark_shows(scene: Scene, run_id: str) -> None:
    shown = scene.shown_by_spark()
    assert any("spark-submit --master" in text for text in shown.values()), "the arguments are not looked at"
    assert any(MARK in text for text in shown.values()), "what executors are given is not looked at"
    assert any(place.startswith("http") for place in shown)
    secrets = scene.secrets()
    assert len(secrets) >= 3
    assert not [place for place, text in shown.items() if any(secret in text for secret in secrets)]


@pytest.fixture(scope="module")
def host(scene: Scene) -> "subprocess.Popen[bytes]":
    scene.chain.hosts.director.want(scene.plan.stream_id("warehouse"), plan_json=plan_to_json(scene.plan))
    host = scene.start_host(machine="first")
    scene.stream_is_up()
    return host


def goes_on(scene: Scene, *, but_not_in: Sequence[psutil.Process]) -> None:
    """The stream runs, and commits, in an executor that is none of these."""
    before = scene.chain.applied_transactions()
    wait_until(lambda: [one for one in scene.cluster.at_work() if one not in but_not_in], timeout_s=90, what="a stream")
    wait_until(lambda: scene.chain.applied_transactions() > before, timeout_s=60, what="a commit")


def wake(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


@contextlib.contextmanager
def overheard(process: psutil.Process) -> Iterator[Callable[[], str]]:
    """What it writes to its stderr, in place of whoever listens there and is asleep now."""
    with Path(f"/proc/{process.pid}/fd/2").open("rb", buffering=0) as pipe:
        os.set_blocking(pipe.fileno(), False)
        heard = bytearray()

        def said() -> str:
            heard.extend(pipe.read() or b"")
            return heard.decode(errors="replace")

        yield said


def test_a_stream_goes_on_elsewhere_when_its_executor_dies(scene: Scene, host: Any) -> None:
    assert "serving: pool=default slots=4" in scene.chain.hosts.log(), "of the cluster's cores, as many as --slots says"
    with scene.writing():
        (executor,) = scene.cluster.at_work()
        kill_tree(executor.pid)
        goes_on(scene, but_not_in=[executor])
    scene.assert_every_row_is_there_once()


def test_a_stream_goes_on_elsewhere_when_its_machine_dies(scene: Scene, host: Any) -> None:
    with scene.writing():
        (worker,) = [one for one in scene.cluster.living_workers if one.at_work()]
        gone = worker.at_work()
        worker.kill()
        scene.add_worker()
        goes_on(scene, but_not_in=gone)
    scene.assert_every_row_is_there_once()


def test_an_executor_that_slept_until_another_took_its_stream_commits_nothing(scene: Scene, host: Any) -> None:
    (executor,) = scene.cluster.at_work()
    (worker,) = [one for one in scene.cluster.living_workers if one.at_work()]
    python = executor.children(recursive=True)
    # The whole machine: its daemon of Spark would end the executor when it is asked to.
    asleep = [psutil.Process(worker.daemon.pid), executor, *python]
    with scene.writing():
        for process in asleep:
            process.suspend()
        try:
            goes_on(scene, but_not_in=[executor])
            # Its stream wakes up before the JVM, which would end it: what is to be seen is that it need not.
            with overheard(python[0]) as said:
                wake(python)
                wait_until(lambda: "error=Fenced" in said(), timeout_s=60, what="the zombie's stream to be fenced")
            wait_until(lambda: not scene.has_sessions(python), timeout_s=60, what="the zombie's sessions to end")
        finally:
            wake(asleep)
    scene.assert_every_row_is_there_once()


def test_a_machine_that_is_cut_off_until_another_has_its_stream_commits_nothing(scene: Scene, host: Any) -> None:
    if not scene.cluster.network.has_links:
        pytest.skip("this account may not make network namespaces here")
    (executor,) = scene.cluster.at_work()
    (worker,) = [one for one in scene.cluster.living_workers if one.at_work()]
    said = Path(executor.cwd()) / "stderr"
    python = executor.children(recursive=True)
    with scene.writing():
        with worker.machine.cut_off():
            goes_on(scene, but_not_in=[executor])
            assert executor.is_running(), "nobody could end it"
        wait_until(lambda: not scene.has_sessions(python), timeout_s=60, what="the zombie's stream to end")
    # Without Kafka it has given up, or it came back to a ledger of another owner.
    ended = re.findall(r"stream ended: .* error=(\w+)", said.read_text(errors="replace"))
    assert ended in (["TransientError"], ["Fenced"], []), ended
    scene.assert_every_row_is_there_once()


def test_a_night_is_read_and_compared_beside_the_stream(scene: Scene, host: Any) -> None:
    day = last_ended(datetime.now(UTC), timezone="UTC")
    night = scene.open_run("nightly", "1", business_date=day)
    scene.run("nightly_cut", night, airflow_worker="second")
    found = scene.store.reconciliation(night, Scope.CUT, "warehouse")
    assert found is not None
    assert {one.table: one.verdict for one in found.tables} == dict.fromkeys((*TABLES, "by_memo"), Verdict.MATCH)
    live = scene.open_run("reconcile", "1")
    scene.run("table_compare", live, airflow_worker="first")
    found = scene.store.reconciliation(live, Scope.LIVE, "warehouse")
    assert found is not None
    assert found.verdict is Verdict.MATCH


def test_a_driver_that_is_started_on_another_machine_goes_on_where_the_dead_one_stood(
    scene: Scene, host: "subprocess.Popen[bytes]"
) -> None:
    with scene.writing():
        before = scene.cluster.at_work()
        kill_tree(host.pid)
        scene.start_host(machine="second")
        goes_on(scene, but_not_in=before)
    scene.assert_every_row_is_there_once()


def test_changes_are_merged_into_a_lake_by_executors_one_of_which_dies(scene: Scene, host: Any) -> None:
    done, lake = scene.tasks_done(), scene.emptied_into_a_lake()
    with scene.writing():
        wait_until(lambda: scene.tasks_done() > done, timeout_s=90, what="executors to do a part of a statement")
        for executor in scene.cluster.at_work():
            kill_tree(executor.pid)
        before = lake.applied_transactions()
        wait_until(lambda: lake.applied_transactions() > before, timeout_s=90, what="the lake's stream to go on")
    lake.assert_equal_in_the_end()
    lake.assert_no_surprise()
    scene.assert_every_row_is_there_once()
