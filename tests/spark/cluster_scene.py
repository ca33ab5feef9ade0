"""One sync on a cluster of two machines: a captured bank, a warehouse, and Airflow's workers, each with own folders."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import psutil
import pytest

from seamline import registry, settings
from seamline.adapters.connections import Connection, parsed
from seamline.plan.document import plan_to_json
from seamline.plan.model import DerivedTablePlan, NightlyPlan, SyncPlan, TablePlan
from seamline.platform.store import PlatformStore
from seamline.sync.onboard import publish
from seamline_spark.stream_host.spark_streams import iceberg_jars
from tests.integration.bank_writers import Writers, writing
from tests.integration.captured import Captured, captured
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id, destination_plan, destination_variables
from tests.spark.chains import SCRIPT, Chain, LakeChain, lake_written_by_spark
from tests.spark.cluster import PROGRAMS, Cluster, Worker, standalone_cluster
from tests.spark.empty_sync import publish_empty_into
from tests.spark.hosts import START_S, Failpoints, hosts_of, uri
from tests.waiting import wait_until

NAME = "on_cluster"
TABLES = ("account", "audit")
JOB_WITHIN_S = 120
# A variable of executors that is no secret: where it cannot be seen, none could.
MARK = "mark-that-everybody-sees"
_VARIABLE = "SEAMLINE_CONNECTION_"


@dataclasses.dataclass
class Scene:
    """`connections`: the file of every machine of the cluster. `failpoints`: those of executors. `catalogue`: of a
    lake."""

    chain: Chain
    cluster: Cluster
    folder: Path
    connections: Path
    failpoints: Failpoints
    catalogue: Connection
    said: list[str] = dataclasses.field(default_factory=list)

    @property
    def bank(self) -> Captured:
        return self.chain.bank

    @property
    def plan(self) -> SyncPlan:
        return self.chain.plan

    @property
    def store(self) -> PlatformStore:
        return self.chain.hosts.store

    def add_worker(self) -> Worker:
        return self.cluster.add_worker(**{"SEAMLINE_CONNECTIONS": "/nowhere: Spark's setting wins"})

    def open_run(self, kind: str, number: str, *, plan: SyncPlan | None = None, **rest: object) -> str:
        run_id, by = f"{self.plan.sync}/{kind}/-/{number}", plan_to_json(plan or self.plan)
        self.store.start_run(run_id=run_id, sync=self.plan.sync, kind=kind, plan_json=by, **rest)  # type: ignore[arg-type]
        return run_id

    def start(self, job: str, run_id: str, *, airflow_worker: str) -> "subprocess.Popen[str]":
        """The task of this job, as that Airflow worker runs it, which has nothing in common with another one but what
        its owner has configured."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.spark.submit", f"spark_jobs/{job}.py", run_id, "cluster"],
            env=self.environment_of(airflow_worker),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, job: str, run_id: str, *, airflow_worker: str) -> None:
        """The task, until it has succeeded."""
        task = self.start(job, run_id, airflow_worker=airflow_worker)
        said, _ = task.communicate(timeout=JOB_WITHIN_S)
        assert task.returncode == 0, said
        self.said.append(said)

    def start_host(self, *, machine: str) -> "subprocess.Popen[bytes]":
        """A stream host whose driver runs there."""
        self.chain.hosts.environment = self.environment_of(machine)
        python = f"spark.pyspark.driver.python={sys.executable}"
        submit = str(PROGRAMS / "spark-submit")
        jars = ",".join(map(str, iceberg_jars()))
        self.chain.hosts.runner = (submit, "--master", self.cluster.master, "--conf", python, "--jars", jars)
        return self.chain.hosts.start("--slots", "4")

    def stream_is_up(self) -> None:
        is_up = ("streaming", "catching_up")
        wait_until(lambda: self.chain.hosts.state(self.plan.sync) in is_up, timeout_s=START_S, what="the stream to run")

    @contextmanager
    def writing(self) -> Iterator[Writers]:
        """One writer at the bank: with more of them, one machine that is two has no CPU left for Spark."""
        highest = max((row[0] for row in self.bank.rows("account")), default=0)
        with writing(self.bank.root, tables=TABLES, count=1, first_id=highest + 1_000_000) as writers:
            yield writers

    def emptied_into_a_lake(self) -> LakeChain:
        """Another sync of the bank, which has no rows now: its stream is one that Spark writes by statements."""
        self.bank.execute(*(f"DELETE FROM {table}" for table in TABLES))
        warehouse = self.folder / "lake"
        warehouse.mkdir()
        destination = lake_written_by_spark(self.catalogue, warehouse)
        plan = publish_empty_into(self.bank, destination, sync=f"{NAME}_lake", tables=TABLES)
        self.chain.hosts.director.want(plan.stream_id("warehouse"), plan_json=plan_to_json(plan))
        return LakeChain(self.bank, plan, self.catalogue, self.chain.hosts)

    def tasks_done(self) -> int:
        """By executors, as Spark has recorded it: in a cluster no task runs in the driver. A stream's never ends."""
        lines = (line for path in (self.folder / "events").rglob("*") if path.is_file() for line in path.open())
        ended = [json.loads(line) for line in lines if '"Event":"SparkListenerTaskEnd"' in line]
        return sum(one["Task End Reason"]["Reason"] == "Success" for one in ended)

    def assert_every_row_is_there_once(self) -> None:
        self.chain.assert_equal_in_the_end()
        self.chain.assert_no_surprise()

    def environment_of(self, airflow_worker: str) -> dict[str, str]:
        home = self.folder / airflow_worker
        if not home.exists():
            home.mkdir()
            own = home / "connections.json"
            own.write_bytes(self.connections.read_bytes())
            own.chmod(0o600)
        inherited = {k: v for k, v in settings.process_environment().items() if not k.startswith("SEAMLINE_")}
        master = {"conn_type": "spark", "host": f"spark://{self.cluster.host}", "port": self.cluster.port}
        return {
            **inherited,
            "PATH": f"{PROGRAMS}:{settings.search_path()}",
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SEAMLINE_HOME": str(settings.load().home),
            "SEAMLINE_DATA": str(home),
            "AIRFLOW_HOME": str(home / "airflow"),
            "AIRFLOW_CONN_CLUSTER": json.dumps(master),
        }

    def secrets(self) -> set[str]:
        """Every password that a machine of the cluster may use."""
        known = json.loads(self.connections.read_text(encoding="utf-8"))
        return {one["password"] for one in known.values() if isinstance(one, dict) and one.get("password")}

    def shown_by_spark(self) -> dict[str, str]:
        """What people see who may look at Spark: events, logs, pages, the code that travels."""
        folders = [self.folder / "events", *self.folder.glob("machine[0-9]*"), *self.folder.glob("*/drivers")]
        files = [path for folder in folders for path in folder.rglob("*")]
        shown = {str(path): path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()}
        shown["the logs of the tasks, with their arguments"] = "".join(self.said)
        return shown | {page: httpx.get(page, trust_env=False, timeout=60).text for page in self.cluster.pages()}

    def has_sessions(self, processes: Sequence[psutil.Process]) -> bool:
        """Whether any of these is connected to the destination."""
        return any(self._has_session(process) for process in processes)

    def _has_session(self, process: psutil.Process) -> bool:
        try:
            return any(one.raddr and one.raddr.port == self.chain.warehouse.port for one in process.net_connections())
        except psutil.NoSuchProcess:
            return False

    def published(self) -> int:
        """Rows of the destination's ledger."""
        ((count,),) = self.chain.destination_says("select count(*) from pg_tables where schemaname = 'live'")
        return int(count)

    def publish(self, run_id: str) -> None:
        with closing(registry.sink(self.plan, "warehouse")) as sink:
            publish(self.store.run(run_id), "warehouse", sink=sink)


@contextmanager
def scene_of(folder: Path) -> Iterator[Scene]:
    """The bank is captured and empty, the cluster has no worker yet."""
    with ExitStack() as stack:
        bank = stack.enter_context(captured(NAME))
        bank.plan = replace(bank.plan, source=replace(bank.source_plan, snapshot_lock="brief"))
        bank.ensure()
        warehouse = stack.enter_context(postgres_database(f"{NAME}_warehouse"))
        stack.enter_context(destination_known_by_id(warehouse, warehouse.database))
        catalogue = stack.enter_context(postgres_database(f"{NAME}_catalogue"))
        stack.enter_context(destination_known_by_id(catalogue, catalogue.database))
        hosts = stack.enter_context(hosts_of(SCRIPT, folder, name=f"{NAME}_platform"))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv(f"{_VARIABLE}SEAMLINE_DB", uri(hosts.platform))
        cluster = stack.enter_context(standalone_cluster(folder))
        scene = Scene(
            Chain(bank, _plan_of(bank, warehouse), warehouse, hosts),
            cluster,
            folder,
            folder / "machines" / "connections.json",
            Failpoints(folder / "failpoints"),
            catalogue,
        )
        _write_connections(scene.connections, hosts.platform, warehouse, catalogue)
        _write_conf(scene)
        yield scene


def _plan_of(bank: Captured, warehouse: Connection) -> SyncPlan:
    planned = tuple(TablePlan(table.name, table=table) for table in bank.source.catalogue(TABLES))
    destination = destination_plan(warehouse.database, "live")
    return replace(
        bank.plan,
        destinations=(destination,),
        tables=planned,
        nightly=NightlyPlan("UTC", as_of_max_s=26 * 3600),
        derived=(DerivedTablePlan("by_memo", "account", "a", ("memo",)),),
    )


def _write_connections(path: Path, platform: Connection, *destinations: Connection) -> None:
    """What the owner of a machine puts there: what the stack has, and the databases of this test."""
    known = json.loads(settings.load().connections.read_text(encoding="utf-8"))
    ours = {f"{_VARIABLE}SEAMLINE_DB": uri(platform)}
    for one in destinations:
        ours |= destination_variables(one, one.database)
    for name, given in ours.items():
        one = parsed(given)
        known[name.removeprefix(_VARIABLE).lower()] = {
            "conn_type": one.kind, "host": one.host, "port": one.port, "login": one.login, "password": one.password,
            "schema": one.database,
        }  # fmt: skip
    path.parent.mkdir()
    path.write_text(json.dumps(known), encoding="utf-8")
    path.chmod(0o600)


def _write_conf(scene: Scene) -> None:
    """What the owner of the cluster says of it, in the file that every spark-submit reads."""
    said = {
        "spark.pyspark.python": scene.cluster.python,
        "spark.executorEnv.SEAMLINE_CONNECTIONS": scene.connections,
        "spark.executorEnv.SEAMLINE_FAILPOINTS_FILE": scene.failpoints.file,
        "spark.executor.memory": "512m",
        # So that a machine that says nothing is given up within a test's patience.
        "spark.network.timeout": "10s",
        "spark.network.timeoutInterval": "1s",
        "spark.executor.heartbeatInterval": "1s",
        "spark.driver.memory": "512m",
        "spark.driver.host": scene.cluster.host,
        "spark.executorEnv.SEAMLINE_MARK": MARK,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (scene.folder / "events").as_uri(),
    }
    (scene.folder / "events").mkdir()
    (scene.folder / "conf").mkdir()
    lines = "".join(f"{name} {value}\n" for name, value in said.items())
    (scene.folder / "conf" / "spark-defaults.conf").write_text(lines, encoding="utf-8")
