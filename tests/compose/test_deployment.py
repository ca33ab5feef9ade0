"""docker-compose.yml as its operator meets it, in the order in which it happens: each test goes on from the one before.

The file is unchanged; the images of others are stand-ins with their names (tests/compose/images.py).
"""

import subprocess
from pathlib import Path

import pytest

from seamline.cli.demo import SYNC
from seamline.demo.story import Story
from seamline.domain.verdict import Verdict
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.spec.load import load_declarations
from seamline.stack.progress import Progress
from tests.compose.deployment import Deployment
from tests.waiting import wait_until

KILLED = ("kafka", "connect", "postgres", "stream_host")
ALWAYS_ON = {
    "airflow-api", "airflow-dags", "airflow-scheduler", "airflow-triggerer", "connect", "kafka", "mariadb", "postgres",
    "stream_host",
}  # fmt: skip


@pytest.fixture(scope="module")
def running(deployment: Deployment) -> Deployment:
    deployment.build()
    deployment.up()
    return deployment


def test_nothing_is_pulled_where_our_own_images_are_not_built_yet(deployment: Deployment) -> None:
    answer = deployment.ask("up", "--no-build", "--no-start", "airflow-api")
    said = (answer.stdout + answer.stderr).decode()
    assert answer.returncode != 0
    assert "seamline/airflow:0.2.0" in said
    assert "pull access denied" not in said and "registry" not in said.lower()


def test_every_service_comes_up_and_is_well(running: Deployment) -> None:
    states = running.states()
    assert {name for name, one in states.items() if one["State"]["Running"]} == ALWAYS_ON
    assert {one["State"]["ExitCode"] for name, one in states.items() if name not in ALWAYS_ON} == {0}
    assert running.are_well()


def test_the_superusers_are_in_no_container_that_runs_and_no_password_in_a_log(running: Deployment) -> None:
    secrets = dict(line.split("=", 1) for line in running.env_file.read_text().splitlines() if "=" in line)
    own = [one for name, one in running.states().items() if "seamline/airflow" in one["Config"]["Image"]]
    for one in own:
        if one["State"]["Running"]:
            environment = " ".join(one["Config"]["Env"])
            assert secrets["POSTGRES_ROOT_PASSWORD"] not in environment
            assert secrets["CORE_BANK_ROOT_PASSWORD"] not in environment
    said = running.compose("logs")
    assert [name for name, value in secrets.items() if len(value) > 20 and value in said] == []
    assert "passwords.json" in running.compose("logs", "init")


def test_a_connect_task_has_its_time_to_end(running: Deployment) -> None:
    """Debezium's entrypoint writes its own 10 s over the setting with the prefix."""
    settings = running.compose("exec", "-T", "connect", "cat", "/tmp/connect.properties")
    assert "\ntask.shutdown.graceful.timeout.ms=30000\n" in settings


def test_doctor_and_status_know_where_they_are(running: Deployment) -> None:
    assert "Kafka Connect answers" in running.compose("exec", "-T", "stream_host", "./seamline", "doctor")
    shown = running.compose("exec", "-T", "stream_host", "./seamline", "status")
    assert shown.startswith("the servers run in containers of their own")


def test_a_sync_is_onboarded_with_match(running: Deployment, checkout: Path) -> None:
    running.compose("exec", "-T", "stream_host", "python", "-m", "seamline.demo.fill", "--size", "small")
    with running.airflow() as airflow:
        story = Story(airflow, _plan(checkout), Progress())
        story.wait_for_dags()
        story.onboard()
    assert "MATCH" in running.compose("exec", "-T", "stream_host", "./seamline", "status")


def test_four_services_killed_at_once_under_load_end_in_match(running: Deployment, checkout: Path) -> None:
    before = {name: one["State"]["StartedAt"] for name, one in running.states().items()}
    # Ends by itself: nothing of it is left, whatever becomes of this test.
    writers = ("timeout", "45", "python", "-m", "seamline.demo.writers")
    running.compose("exec", "-T", "--detach", "airflow-triggerer", *writers)
    running.kill(KILLED)

    def are_back() -> bool:
        states = running.states()
        return running.are_well() and all(states[name]["State"]["StartedAt"] != before[name] for name in KILLED)

    wait_until(are_back, timeout_s=300, every_s=2, what="all services to be well again")
    with running.airflow() as airflow:
        Story(airflow, _plan(checkout), Progress()).reconcile()
    shown = running.compose("exec", "-T", "stream_host", "./seamline", "status")
    assert str(Verdict.MATCH) in shown and str(Verdict.BREAK) not in shown


def test_a_rotated_login_of_a_capture_is_taken_up_as_the_page_says(running: Deployment, checkout: Path) -> None:
    change = (
        "from seamline.adapters.connections import resolve; from seamline.databases.mysql import client;"
        " client.query(client.open_session(resolve('core_bank_capture')), \"SET PASSWORD = PASSWORD('rotated0')\")"
    )
    running.compose("exec", "-T", "stream_host", "python", "-c", change)
    running.put_secret("CORE_BANK_CAPTURE_PASSWORD", "rotated0")
    running.up()
    running.compose("up", "--wait", "--force-recreate", "connect")
    held = running.compose("exec", "-T", "connect", "cat", "/var/lib/seamline/connect/secrets.properties")
    assert "core_bank_capture.password=rotated0\n" in held
    with running.airflow() as airflow:
        Story(airflow, _plan(checkout), Progress()).reconcile()
    shown = running.compose("exec", "-T", "stream_host", "./seamline", "status")
    assert str(Verdict.MATCH) in shown and str(Verdict.BREAK) not in shown


def test_a_task_of_a_killed_scheduler_is_taken_up_long_before_airflows_own_five_minutes(
    running: Deployment,
) -> None:
    with running.airflow() as airflow:
        run = airflow.trigger(f"{SYNC}__reconcile", run_id="killed-scheduler")

        def task_runs() -> bool:
            return any(task.state == "running" for task in airflow.tasks(run.dag_id, run.run_id))

        wait_until(task_runs, timeout_s=120, every_s=0.5, what="a task to run")
        running.kill(["airflow-scheduler"])
        ended = airflow.wait(run.dag_id, run.run_id, timeout_s=200, on_change=lambda _: None)
        assert ended.state == "success"


def test_what_the_engine_left_in_the_kernel_is_taken_away(running: Deployment) -> None:
    """The last: it ends the engine."""
    running.take_down()
    running.engine.stop()
    assert running.engine.left() == []
    mounted = subprocess.run(["cat", "/proc/self/mounts"], capture_output=True, text=True, check=True).stdout
    assert str(running.engine.folder) not in mounted


def _plan(checkout: Path) -> SyncPlan:
    return compile_plan(load_declarations(checkout / "include"), SYNC)
