"""Tasks of a real Airflow, each in a process of its own, over a real platform database and a real destination: killed
at every failpoint of a DAG and run again, two of one task side by side, and a wait whose triggerer dies.
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.types import column_definitions
from seamline.domain.position import position_to_json
from seamline.domain.runs import NOT_PUBLISHED, PUBLISH, RunKind, SyncState
from seamline.plan.document import plan_to_json
from seamline.platform import migrate
from seamline.platform.database import CONNECTION_ID, Database
from seamline.platform.store import PlatformStore
from tests.conftest import RunningStack
from tests.dags import results
from tests.dags.places import PLACES
from tests.dags.task_process import DAG_ID, started, state_of
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id, known_by_id
from tests.integration.platform_database import Server, database_of_its_own
from tests.waiting import wait_until

# Where a task's process dies: before its step, behind it; and a triggerer's.
BEFORE, BEHIND, EVENT = "dag.double_run", "dag.state_written", "dag.trigger_event"
ROWS = 3
KILLED = -signal.SIGKILL
_WITHIN_S = 300.0
_NUMBERS = count(1)
_PLAN = results.plan()
_DESTINATION = _PLAN.destinations[0]


@dataclass
class Scene:
    """One run of Airflow's, and the same run in the platform database: its snapshot is staged, nothing is published."""

    run_id: str
    platform: Server
    destination: Connection
    arming: Path
    processes: list[Any] = field(default_factory=list)

    def start(self, work: str, task_id: str) -> Any:
        process = started(work, self.run_id, task_id)
        self.processes.append(process)
        return process

    def close(self) -> None:
        """One that a failed test has left standing would stand for ever."""
        for process in self.processes:
            process.kill()
            process.join()

    @property
    def seamline_run(self) -> str:
        return f"settlement/onboard/-/{self.run_id}"

    def arm(self, text: str) -> None:
        self.arming.write_text(text, encoding="utf-8")
        self.fired_file.unlink(missing_ok=True)

    @property
    def fired_file(self) -> Path:
        return self.arming.with_name(self.arming.name + ".fired")

    @property
    def fired(self) -> list[str]:
        return self.fired_file.read_text(encoding="utf-8").split() if self.fired_file.exists() else []

    def code(self, work: str, task_id: str, arming: str = "") -> int:
        """How a process ended that has done this, armed so."""
        self.arm(arming)
        process = self.start(work, task_id)
        process.join(_WITHIN_S)
        assert process.exitcode is not None, f"{work} {task_id} goes on and on"
        return int(process.exitcode)

    def killed(self, work: str, task_id: str, place: str) -> None:
        assert (self.code(work, task_id, f"{place}=kill9"), self.fired) == (KILLED, [place])

    def written(self) -> Mapping[str, Any]:
        """All that a `publish` and a `start_stream` leave behind; nothing of it may be there twice. Each attempt notes
        when it began."""
        with self.platform.open() as session:
            state = dict(
                result=session.execute(
                    "select result - 'snapshot' - 'stage' from run where run_id = %s", (self.seamline_run,)
                ).fetchall(),
                sync=session.execute("select sync, state from sync_state").fetchall(),
                holds=session.execute("select topic, holder from pruning_hold").fetchall(),
                streams=session.execute("select sync, destination, is_wanted, plan_json from stream").fetchall(),
            )
        with postgres(self.destination) as session:
            if session.execute("SELECT to_regclass('seamline.ledger')").fetchone() == (None,):
                return state
            state["ledger"] = session.execute(
                "SELECT next_offset, epoch, applied_units FROM seamline.ledger"
            ).fetchall()
            state["publications"] = session.execute("SELECT run_id, stream FROM seamline.publication").fetchall()
            state["boundaries"] = session.execute("SELECT table_name, generation FROM seamline.boundary").fetchall()
            for table in _PLAN.tables:
                state[table.name] = session.execute(f"SELECT * FROM settlement.{table.name} ORDER BY 1").fetchall()
        return state


@dataclass(frozen=True)
class Servers:
    platform: Server
    destination: Connection
    arming: Path


@pytest.fixture(scope="module")
def servers(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    arming = tmp_path_factory.mktemp("failpoints") / "armed"
    arming.write_text("", encoding="utf-8")
    with ExitStack() as opened:
        platform = opened.enter_context(database_of_its_own("platform_of_tasks"))
        migrate.upgrade(platform.open)
        root = replace(stack.connection("postgres_root"), database=platform.name)
        opened.enter_context(known_by_id(root, CONNECTION_ID, "postgres"))
        destination = opened.enter_context(postgres_database("warehouse_of_tasks"))
        opened.enter_context(destination_known_by_id(destination, _DESTINATION.connection))
        # Processes are forked from one that was started with this environment.
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SEAMLINE_FAILPOINTS_FILE", str(arming))
        yield Servers(platform, destination, arming)


@pytest.fixture
def scene(servers: Servers, airflow_database: Path, checkout: Path) -> Iterator[Scene]:
    made = Scene(f"run-{next(_NUMBERS)}", servers.platform, servers.destination, servers.arming)
    _stage(made)
    _open_airflow_run(checkout, made)
    yield made
    made.close()


def _stage(scene: Scene) -> None:
    """What a snapshot has left: staged tables of some rows each, and its manifest as a result of the run."""
    loads = []
    with postgres(scene.destination) as session:
        session.execute(f"CREATE SCHEMA IF NOT EXISTS {_DESTINATION.stage_namespace}")
        for table in _PLAN.tables:
            name = f"{table.name}_{scene.run_id.replace('-', '_')}"
            place = f"{_DESTINATION.stage_namespace}.{name}"
            session.execute(f"CREATE TABLE {place} ({column_definitions(table.definition)})")
            session.execute(f"INSERT INTO {place} SELECT n, n * 1.5 FROM generate_series(1, {ROWS}) AS n")
            loads.append({"table": table.name, "staged_as": name, "rows": ROWS})
    snapshot = {
        "position": position_to_json(results.POSITION),
        "high_marker": f"high-{scene.run_id}",
        "topic": _PLAN.source.log_topic,
        "topic_id": "topic-1",
        "next_offset": 7,
        "loads": {_DESTINATION.name: loads},
    }
    with closing(PlatformStore(Database(scene.platform.open))) as store:
        store.start_run(run_id=scene.seamline_run, sync=_PLAN.sync, kind=RunKind.ONBOARD, plan_json=plan_to_json(_PLAN))
        store.put_result(scene.seamline_run, "snapshot", snapshot)


def _open_airflow_run(checkout: Path, scene: Scene) -> None:
    """A run of the DAG whose `preflight` has said by which name it goes on."""
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    from tests.dags.test_dag_run import dag_of

    dag_of(checkout, DAG_ID)
    with create_session() as session:
        dag = SerializedDagModel.get_dag(DAG_ID, session=session)
        assert dag is not None
        dag.create_dagrun(
            run_id=scene.run_id,
            run_after=datetime.now(UTC),
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            session=session,
        )
        session.flush()
        XComModel.set(
            key="return_value",
            value=scene.seamline_run,
            dag_id=DAG_ID,
            task_id="preflight",
            run_id=scene.run_id,
            # As a task's own word stands there.
            serialize=False,
            session=session,
        )


def test_every_failpoint_of_a_dag_has_a_case() -> None:
    assert {BEFORE, BEHIND, EVENT} == PLACES.keys()


@pytest.mark.parametrize("task_id", ["publish", "start_stream"])
def test_a_task_that_is_killed_before_its_step_and_behind_it_is_done_once(scene: Scene, task_id: str) -> None:
    _do_what_comes_before(scene, task_id)
    before = scene.written()
    scene.killed("run_task", task_id, BEFORE)
    assert scene.written() == before
    scene.killed("run_task", task_id, BEHIND)
    done = scene.written()
    assert done != before
    assert state_of(scene.run_id, task_id) != "success", "Airflow knows nothing of it"
    assert scene.code("run_task", task_id) == 0
    assert state_of(scene.run_id, task_id) == "success"
    assert scene.written() == done
    _assert_whole(scene, task_id)


@pytest.mark.parametrize("task_id", ["publish", "start_stream"])
def test_two_attempts_at_a_task_side_by_side_do_it_once(scene: Scene, task_id: str) -> None:
    _do_what_comes_before(scene, task_id)
    scene.arm(f"{BEFORE}=wait")
    both = []
    for number in (1, 2):
        # Airflow takes the first for dead and queues the task again.
        both.append(scene.start("run_task", task_id))
        wait_until(lambda n=number: len(scene.fired) == n, timeout_s=_WITHIN_S, what=f"{number} attempts at their step")  # type: ignore[misc]
    scene.arming.write_text("", encoding="utf-8")
    for process in both:
        process.join(_WITHIN_S)
    # What Airflow makes of the second one's word is its own affair; the process must not have died of the first.
    assert [process.exitcode for process in both] == [0, 0]
    done = scene.written()
    _assert_whole(scene, task_id)
    assert scene.code("run_task", task_id) == 0
    assert scene.written() == done


def test_a_wait_whose_event_dies_with_its_triggerer_is_made_again_by_the_next(scene: Scene) -> None:
    assert scene.code("run_task", "publish") == 0
    assert scene.code("run_task", "cutover") == 0
    assert state_of(scene.run_id, "cutover") == "deferred"
    with postgres(scene.destination) as session:
        session.execute("UPDATE seamline.boundary SET ended_at = clock_timestamp()")
    scene.killed("run_trigger", "cutover", EVENT)
    assert state_of(scene.run_id, "cutover") == "deferred"
    assert scene.code("run_trigger", "cutover") == 0
    assert state_of(scene.run_id, "cutover") == "scheduled"
    assert scene.code("run_task", "cutover") == 0
    assert state_of(scene.run_id, "cutover") == "success"


def _do_what_comes_before(scene: Scene, task_id: str) -> None:
    """A stream is asked for where the tables were published, and for no other destination."""
    if task_id == "start_stream":
        with closing(PlatformStore(Database(scene.platform.open))) as store:
            store.put_result(scene.seamline_run, PUBLISH, {_DESTINATION.name: str(results.POSITION)})


def _assert_whole(scene: Scene, task_id: str) -> None:
    """What the task is there for has been done, and nothing of it twice."""
    written = scene.written()
    if task_id == "start_stream":
        assert written["streams"] == [("settlement", "warehouse", True, plan_to_json(_PLAN.of_stream("warehouse")))]
        return
    assert written["result"] == [({PUBLISH: {"warehouse": str(results.POSITION)}, NOT_PUBLISHED: {}},)]
    assert written["sync"] == [("settlement", SyncState.ONBOARDING)]
    assert written["holds"] == []
    assert written["publications"].count((scene.seamline_run, str(results.STREAM))) == 1
    assert len(written["boundaries"]) == len(_PLAN.tables) * len(written["publications"])
    assert written["ledger"][0][1] == len(written["publications"])
    for table in _PLAN.tables:
        assert len(written[table.name]) == ROWS
