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
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from seamline.domain.calendar import last_ended
from seamline.domain.load_splits import Splitting
from seamline.domain.runs import Scope
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from tests.conftest import RunningStack
from tests.integration.databases import postgres
from tests.spark.cluster import kill_tree
from tests.spark.cluster_scene import MARK, TABLES, Scene, scene_of
from tests.waiting import wait_until

SPLITS = Splitting().parts_max
# Of them, in a load that is interrupted at 80 %.
DONE = SPLITS * 8 // 10 + 1


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
    """Of a load by splits: one table is said to be large. The other is said to have more rows than a split, so that it
    is read before the last ones."""
    sizes = {"account": SPLITS * Splitting().rows, "audit": 2 * Splitting().rows}
    sized = {one.name: replace(one.definition, rows_estimate=sizes[one.name]) for one in scene.plan.tables}
    tables = tuple(replace(one, table=sized[one.name]) for one in scene.plan.tables)
    return scene.open_run("onboard", "1", plan=replace(scene.plan, tables=tables))


def drivers_of(run_id: str, task: "subprocess.Popen[str]") -> list[psutil.Process]:
    """What runs a job of this run, but for the task that has started it: a driver outlives its task."""
    running = psutil.process_iter(["cmdline"])
    return [one for one in running if run_id in (one.info["cmdline"] or ()) and one.pid != task.pid]


@contextlib.contextmanager
def at_80_percent(scene: Scene) -> Iterator[None]:
    """Once they are there: the other splits of the load wait for somebody who has written their records first."""
    places = "FROM live_stage.staged_load WHERE table_name = 'account'"
    others = f"SELECT staged_as, generate_series({DONE}, {SPLITS - 1}), '', '', 0 {places}"
    staged = "SELECT count(*) FROM live_stage.staged_split WHERE row_count > 0"
    with postgres(scene.chain.warehouse) as session, session.transaction(force_rollback=True):
        session.execute(f"INSERT INTO live_stage.staged_split {others}".encode())
        scene.failpoints.arm("")
        # The table without a key is one split more.
        wait_until(lambda: scene.chain.destination_says(staged) == [(DONE + 1,)], timeout_s=60, what="80 % of them")
        yield


@pytest.mark.parametrize("what", ["an executor", "a machine", "the application"])
def test_what_dies_in_mid_snapshot_ends_the_attempt_and_a_retry_may_help(scene: Scene, run_id: str, what: str) -> None:
    scene.failpoints.arm("snap.chunk_read=wait")
    reading = scene.failpoints.fired()["snap.chunk_read"] + len(TABLES)
    task = scene.start("snapshot_load", run_id, airflow_worker="first")
    wait_until(
        lambda: task.poll() is not None or scene.failpoints.fired()["snap.chunk_read"] >= reading,
        timeout_s=90,
        what="tables to be read",
    )
    assert task.poll() is None, task.communicate()
    with at_80_percent(scene) if what == "an executor" else contextlib.nullcontext():
        worker = next(one for one in scene.cluster.living_workers if one.at_work())
        if what == "a machine":
            worker.kill()
            scene.add_worker()
        elif what == "an executor":
            kill_tree(worker.at_work()[0].pid)
        else:
            for process in (*drivers_of(run_id, task), *scene.cluster.at_work()):
                kill_tree(process.pid)
        said, _ = task.communicate(timeout=60)
    scene.failpoints.arm("")
    assert task.returncode == 1, said
    if what != "the application":
        assert "snapshot_load: Spark ended the copy: ExecutorLostFailure" in said, said
    assert scene.published() == 0


def test_the_retry_of_another_airflow_worker_goes_on_with_the_splits_and_stages_every_row_once(
    scene: Scene, run_id: str
) -> None:
    # Rows of splits that are staged, and of others.
    scene.bank.execute(
        "UPDATE account SET memo = 'later' WHERE id IN (3, 500, 999)", "DELETE FROM account WHERE id = 7"
    )
    scene.run("snapshot_load", run_id, airflow_worker="second")
    (kept,) = re.findall(rf"account goes on in warehouse: (\d+) of {SPLITS} splits are staged", scene.said[-1])
    # A reader of an attempt that has ended may have come to the end of its split.
    assert int(kept) >= DONE, "more than a quarter is read again"
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
