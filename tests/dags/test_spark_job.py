"""A Spark job of a run starts once, is found again by whoever comes next, and runs again when it is cleared."""

import json
import shlex
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from seamline import settings
from seamline.cluster import spark_conf
from seamline.domain.driver_run import DriverStatus
from seamline_airflow import parts
from seamline_airflow.operators import spark_job
from seamline_airflow.operators.spark_job import SparkJobOperator
from seamline_airflow.recorded_launcher import driver_of
from seamline_airflow.run_ends import failure
from tests.integration.platform_database import Server
from tests.waiting import wait_until

_RUN = "settlement/nightly/2026-11-19/manual__1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_of_drivers: Server) -> Path:
    """A data folder of its own, and a Python that notes its arguments and does what `driver` says."""
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path / "data"))
    programs = tmp_path / "bin"
    programs.mkdir()
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/argv\nenv > {tmp_path}/env\n. {tmp_path}/driver\n')
    python.chmod(stat.S_IRWXU)
    monkeypatch.setattr(spark_job, "_PYTHON", str(python))
    return tmp_path


def _operator(**kwargs: Any) -> SparkJobOperator:
    return SparkJobOperator(task_id="cut", job="spark_jobs/nightly_cut.py", run=_RUN, **kwargs)


def _context(state_store: Any, run: str = "manual__1") -> dict[str, Any]:
    ti = SimpleNamespace(
        dag_id="settlement__nightly", run_id=run, task_id="cut", map_index=-1, stats_tags={}, try_number=1
    )
    return {"ti": ti, "task_state_store": state_store}


def _drive(folder: Path, script: str) -> None:
    (folder / "driver").write_text(f"echo started >> {folder}/starts\n{script}\n")


def _starts(folder: Path) -> int:
    return (folder / "starts").read_text().count("started") if (folder / "starts").exists() else 0


def test_a_job_that_succeeds_leaves_no_handle_behind(folder: Path, state_store: Any) -> None:
    _drive(folder, "echo done")
    _operator().execute(_context(state_store))
    assert state_store.values == {}
    assert _starts(folder) == 1


def test_a_cleared_task_really_runs_again(folder: Path, state_store: Any) -> None:
    _drive(folder, "true")
    _operator().execute(_context(state_store))
    _operator().execute(_context(state_store))
    assert _starts(folder) == 2


def test_a_failed_driver_fails_the_task_and_the_retry_starts_another(folder: Path, state_store: Any) -> None:
    _drive(folder, "exit 1")
    with pytest.raises(AirflowException, match="exit code 1") as raised:
        _operator().execute(_context(state_store))
    assert not isinstance(raised.value, AirflowFailException)
    _drive(folder, "true")
    _operator().execute(_context(state_store))
    assert _starts(folder) == 2


@pytest.mark.parametrize("code", [2, 3])
def test_a_final_error_of_the_driver_is_not_retried(folder: Path, state_store: Any, code: int) -> None:
    _drive(folder, f"exit {code}")
    with pytest.raises(AirflowFailException, match=f"exit code {code}"):
        _operator().execute(_context(state_store))


def test_the_error_of_the_driver_is_the_cause_of_the_tasks(folder: Path, state_store: Any) -> None:
    _drive(folder, "echo INFO read; echo 'nightly_cut: the slot is gone'; echo '  → onboard again'; exit 3")
    with pytest.raises(AirflowFailException) as raised:
        _operator().execute(_context(state_store))
    kept = failure("cut", raised.value)
    assert (kept["error"], kept["cure"]) == ("the slot is gone", "onboard again")


def test_a_killed_task_leaves_its_driver_to_the_next_attempt(folder: Path, state_store: Any) -> None:
    _drive(folder, f"while [ ! -e {folder}/go ]; do sleep 0.1; done")
    first = _operator()
    first._hook = first._get_hook()
    first.application = "x"
    # The first attempt's worker dies (kill -9) after it stored the handle: nothing of it runs on, the driver does.
    state_store.set(first.external_id_key, first.submit_job(_context(state_store)))
    (folder / "go").touch()
    _operator().execute(_context(state_store))
    assert _starts(folder) == 1


def test_a_task_killed_before_its_handle_was_stored_is_adopted_all_the_same(folder: Path, state_store: Any) -> None:
    _drive(folder, f"while [ ! -e {folder}/go ]; do sleep 0.1; done")
    first = _operator()
    first._hook = first._get_hook()
    first.application = "x"
    handle = first.submit_job(_context(state_store))
    second = _operator()
    second._hook = second._get_hook()
    second.application = "x"
    assert second.submit_job(_context(state_store)) == handle
    (folder / "go").touch()
    second.poll_until_complete(handle, _context(state_store))
    assert _starts(folder) == 1


def test_a_driver_that_ended_while_nobody_watched_is_not_started_again(folder: Path, state_store: Any) -> None:
    _drive(folder, "true")
    first = _operator()
    first._hook = first._get_hook()
    first.application = "x"
    handle = first.submit_job(_context(state_store))
    state_store.set(first.external_id_key, handle)
    wait_until(lambda: _status(handle) is not DriverStatus.RUNNING, timeout_s=10, what="the driver to end")
    _operator().execute(_context(state_store))
    assert _starts(folder) == 1
    assert state_store.values == {}


def test_a_kill_by_a_person_ends_the_driver(folder: Path, state_store: Any) -> None:
    _drive(folder, "exec tail -f /dev/null")
    operator = _operator()
    operator._hook = operator._get_hook()
    operator.application = "x"
    handle = operator.submit_job(_context(state_store))
    operator.on_kill()
    assert _status(handle) is not DriverStatus.RUNNING


def test_a_worker_without_the_drivers_folder_follows_it_to_its_end(
    folder: Path, state_store: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one on another machine: the retry there shares the driver, and has its result and last lines from the row."""
    _drive(folder, f"while [ ! -e {folder}/go ]; do sleep 0.1; done\necho 'nightly_cut: the slot is gone'\nexit 3")
    first = _operator()
    first._hook = first._get_hook()
    first.application = "x"
    handle = first.submit_job(_context(state_store))
    monkeypatch.setenv("SEAMLINE_DATA", str(folder / "another disk"))
    second = _operator()
    second._hook = second._get_hook()
    second.application = "x"
    assert second.submit_job(_context(state_store)) == handle
    (folder / "go").touch()
    with pytest.raises(AirflowFailException, match="exit code 3") as raised:
        second.poll_until_complete(handle, _context(state_store))
    assert failure("cut", raised.value)["error"] == "the slot is gone"
    assert "the slot is gone" in capsys.readouterr().out
    assert _starts(folder) == 1


def test_the_drivers_log_is_shown_in_the_tasks_log(
    folder: Path, state_store: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _drive(folder, "echo rows staged: 1000")
    _operator().execute(_context(state_store))
    assert "rows staged: 1000" in capsys.readouterr().out


def test_the_driver_gets_the_run_and_no_secret(folder: Path, state_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "canary-key")
    connections = folder / "data" / "connections.json"
    connections.parent.mkdir()
    connections.write_text('{"warehouse": {"password": "canary-password"}}')
    connections.chmod(0o600)
    _drive(folder, "true")
    _operator().execute(_context(state_store))
    argv, environment = (folder / "argv").read_text(), (folder / "env").read_text()
    assert argv.splitlines()[-2:] == ["--run", _RUN]
    assert "canary" not in argv + environment
    assert f"SEAMLINE_CONNECTIONS={connections}" in environment
    assert "AIRFLOW" not in environment


def test_a_connections_file_open_to_others_stops_the_task(folder: Path, state_store: Any) -> None:
    connections = folder / "data" / "connections.json"
    connections.parent.mkdir()
    connections.write_text("{}")
    connections.chmod(0o644)
    with pytest.raises(AirflowFailException, match="chmod 600"):
        _operator().execute(_context(state_store))


def test_a_cluster_job_keeps_the_providers_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_CLUSTER",
        '{"conn_type": "spark", "host": "spark://master", "port": 7077, "extra": {"deploy-mode": "cluster"}}',
    )
    operator = _operator(conn_id="cluster")
    operator._hook = operator._get_hook()
    assert operator._hook._should_track_driver_status
    assert operator.is_job_succeeded("FINISHED")
    assert not operator.is_job_succeeded(DriverStatus.SUCCEEDED)


def test_the_rendered_arguments_are_the_reviewed_ones(folder: Path, checkout: Path, state_store: Any) -> None:
    _drive(folder, "true")
    _operator().execute(_context(state_store))
    environment = dict(line.split("=", 1) for line in (folder / "env").read_text().splitlines() if "=" in line)
    submitted = "".join(f"{one}\n" for one in shlex.split(environment["PYSPARK_SUBMIT_ARGS"]))
    shown = submitted + (folder / "argv").read_text().replace(str(checkout), "<checkout>")
    assert shown == (Path(__file__).parent / "argv" / "nightly_cut.txt").read_text()


CLUSTERS = {
    "standalone": {"host": "spark://spark-master", "port": 7077},
    "yarn": {"host": "yarn", "extra": {"queue": "nightly"}},
    "yarn_cluster": {"host": "yarn", "extra": {"queue": "nightly", "deploy-mode": "cluster"}},
    "kubernetes": {"host": "k8s://https://kubernetes", "port": 6443, "extra": {"namespace": "spark"}},
    "kubernetes_cluster": {
        "host": "k8s://https://kubernetes",
        "port": 6443,
        "extra": {"namespace": "spark", "deploy-mode": "cluster"},
    },
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_what_is_submitted_to_a_cluster_is_what_was_reviewed(
    name: str, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arguments, and what a driver beside Airflow adds to them for its executors."""
    monkeypatch.setenv("SEAMLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", **CLUSTERS[name]}))
    # Without Airflow's provider for Kubernetes the hook refuses such a master before it renders anything.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    hook = _operator(conn_id="cluster")._get_hook()
    argv = hook._build_spark_submit_command(str(checkout / "spark_jobs" / "nightly_cut.py"))
    confs = [argv[at + 1].partition("=") for at, one in enumerate(argv) if one == "--conf"]
    said = {name: value for name, _, value in confs} | {
        "spark.master": argv[argv.index("--master") + 1],
        "spark.submit.deployMode": argv[argv.index("--deploy-mode") + 1] if "--deploy-mode" in argv else "client",
    }
    added = spark_conf.for_executors(said, settings.load(), task_mb=512)
    lines = [*argv, "", "and by the driver:", *(f"{key}={value}" for key, value in added.items())]
    (archive,) = (tmp_path / "home" / "code").iterdir()
    shown = "".join(f"{line}\n" for line in lines)
    for place, words in (
        (archive.stem, "seamline-<version>-<hash>"),
        (str(tmp_path / "home"), "<SEAMLINE_HOME>"),
        (str(tmp_path / "data"), "<SEAMLINE_DATA>"),
        (sys.executable, "<python>"),
        (str(checkout), "<checkout>"),
    ):
        shown = shown.replace(place, words)
    reviewed = Path(__file__).parent / "argv" / f"{name}.txt"
    assert shown == reviewed.read_text()


def _status(handle: Any) -> DriverStatus:
    with parts.driver_runs() as runs:
        return runs.read(driver_of(handle)).status
