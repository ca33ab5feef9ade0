"""The real host, real Spark, real platform database; streams that do nothing but follow orders."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import pytest

from seamline import settings
from seamline.adapters.connections import resolve
from seamline.adapters.platform import migrate
from seamline.adapters.platform.database import Database, Session, parameters
from seamline.adapters.platform.store import PlatformStore
from seamline.adapters.platform.streams import PlatformStreamDirector
from seamline.domain.ledger import StreamId
from seamline.plan.model import DestinationPlan, SourcePlan, StreamPlan, SyncPlan, TablePlan, plan_to_json
from tests.waiting import wait_until

SCRIPT = Path(__file__).with_name("simple_streams_host.py")
DATABASE = "stream_host_test"
START_S = 60.0


def session_of_root(name: str = "") -> Session:
    root = resolve("postgres_root")
    known = dataclasses.replace(root, database=name or root.database)
    return psycopg.connect(**parameters(known, application_name="tests", statement_timeout_s=30), autocommit=True)


@pytest.fixture
def database() -> Iterator[Callable[[], Session]]:
    with session_of_root() as session:
        session.execute(f"drop database if exists {DATABASE} with (force)")
        session.execute(f"create database {DATABASE}")
    migrate.upgrade(lambda: session_of_root(DATABASE))
    try:
        yield lambda: session_of_root(DATABASE)
    finally:
        with session_of_root() as session:
            session.execute(f"drop database if exists {DATABASE} with (force)")


@dataclasses.dataclass
class Hosts:
    """Starts hosts and looks at what their streams leave in a folder."""

    folder: Path
    environment: dict[str, str]
    director: PlatformStreamDirector
    store: PlatformStore
    started: list[subprocess.Popen[bytes]]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"host{len(self.started)}.log"
        with log.open("wb") as output:
            host = subprocess.Popen(
                [sys.executable, str(SCRIPT), *arguments],
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.started.append(host)
        return host

    def want(self, *syncs: str) -> None:
        for sync in syncs:
            self.director.want(StreamId(sync, "warehouse"), plan_json=plan_json(sync))

    def told(self, sync: str) -> dict[str, int]:
        """What the stream wrote last; {} before its first word."""
        place = self.folder / sync
        return json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}

    def pid(self, sync: str) -> int:
        return wait_until(lambda: self.told(sync).get("pid"), timeout_s=START_S, what=f"{sync} to run") or 0

    def moves_on(self, sync: str) -> None:
        before = self.told(sync)
        wait_until(
            lambda: (now := self.told(sync))["turns"] > before["turns"] and now["pid"] == before["pid"],
            timeout_s=5,
            what=f"{sync} to go on undisturbed",
        )

    def state(self, sync: str) -> str:
        report = self.director.latest_report(StreamId(sync, "warehouse"))
        return report.state if report else ""

    def log(self, number: int = 0) -> str:
        return (self.folder / f"host{number}.log").read_text(encoding="utf-8", errors="replace")


@pytest.fixture
def hosts(tmp_path: Path, database: Callable[[], Session]) -> Iterator[Hosts]:
    root = resolve("postgres_root")
    login = f"{quote(root.login)}:{quote(root.password)}" if root.password else quote(root.login)
    environment = {
        **settings.process_environment(),
        "SEAMLINE_CONNECTION_SEAMLINE_DB": f"postgres://{login}@{root.host}:{root.port}/{DATABASE}",
        "SIMPLE_STREAMS_FOLDER": str(tmp_path),
    }
    with closing(Database(database)) as kept:
        hosts = Hosts(tmp_path, environment, PlatformStreamDirector(kept), PlatformStore(kept), [])
        try:
            yield hosts
        finally:
            left = [process for host in hosts.started for process in session_of(host.pid)]
            for process in left:
                process.kill()
            for host in hosts.started:
                host.wait(timeout=10)


def refuse_all() -> None:
    """Let nobody into the platform database, and put out who is in."""
    with session_of_root() as session:
        session.execute(f"alter database {DATABASE} allow_connections false")
        session.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{DATABASE}'")


def admit_all() -> None:
    with session_of_root() as session:
        session.execute(f"alter database {DATABASE} allow_connections true")


def plan_json(sync: str) -> str:
    return plan_to_json(
        SyncPlan(
            sync=sync,
            source=SourcePlan("bank", "mariadb", "bank", "bank", "bank", "bank", "seamline.bank.log", "seamline-bank"),
            destinations=(DestinationPlan("warehouse", "postgres", "warehouse", "settlement"),),
            tables=(TablePlan("account"),),
            stream=StreamPlan(),
        )
    )


def session_of(leader: int) -> list[psutil.Process]:
    """The living processes of the session that this process leads or led."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_killed_worker_is_replaced_and_the_other_streams_do_not_notice(hosts: Hosts) -> None:
    hosts.want("one", "two", "three")
    hosts.start("--slots", "4")
    killed = hosts.pid("one")
    hosts.pid("two"), hosts.pid("three")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: hosts.told("one")["pid"] != killed, timeout_s=15, what="a new worker")
    hosts.moves_on("two")
    hosts.moves_on("three")


def test_a_stream_ends_alone_when_it_is_no_longer_wanted_and_by_force_when_it_is_deaf(hosts: Hosts) -> None:
    hosts.want("good", "deaf", "other")
    hosts.start("--slots", "4")
    good, deaf = hosts.pid("good"), hosts.pid("deaf")
    hosts.pid("other")
    hosts.director.unwant(StreamId("good", "warehouse"))
    wait_until(lambda: is_gone(good), timeout_s=10, what="the stream to stop")
    hosts.director.unwant(StreamId("deaf", "warehouse"))
    wait_until(lambda: is_gone(deaf), timeout_s=30, what="the deaf stream to be cancelled")
    wait_until(lambda: hosts.state("deaf") == "stopped", timeout_s=10, what="its last report")
    hosts.moves_on("other")
    hosts.want("good")
    wait_until(lambda: hosts.told("good")["pid"] != good, timeout_s=15, what="the stream to be back")


def test_a_second_host_names_the_first_and_exits_with_its_own_code(hosts: Hosts) -> None:
    hosts.want("one")
    first = hosts.start("--slots", "4")
    hosts.pid("one")
    second = hosts.start("--slots", "4")
    assert second.wait(timeout=30) == 4
    assert f"process {first.pid}" in hosts.log(1)
    hosts.moves_on("one")


def test_a_killed_host_leaves_no_process_and_the_next_one_takes_over_at_once(hosts: Hosts) -> None:
    hosts.want("one", "two")
    first = hosts.start("--slots", "4")
    workers = [hosts.pid("one"), hosts.pid("two")]
    everything = [process.pid for process in session_of(first.pid)]
    assert set(workers) <= set(everything)
    first.kill()
    wait_until(lambda: all(is_gone(pid) for pid in everything), timeout_s=15, what="every process to be gone")
    hosts.start("--slots", "4")
    wait_until(lambda: hosts.told("one")["pid"] != workers[0], timeout_s=START_S, what="the stream under the new host")


def test_a_killed_jvm_or_daemon_takes_its_workers_along(hosts: Hosts) -> None:
    hosts.want("one")
    host = hosts.start("--slots", "4")
    worker = hosts.pid("one")
    daemon = psutil.Process(worker).ppid()
    assert daemon != host.pid
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: is_gone(worker), timeout_s=10, what="the worker to follow its daemon")
    again = wait_until(
        lambda: pid if (pid := hosts.told("one")["pid"]) != worker else None, timeout_s=20, what="the stream again"
    )
    jvm = next(process for process in session_of(host.pid) if "java" in process.name())
    jvm.kill()
    wait_until(lambda: is_gone(again), timeout_s=15, what="the worker to follow the JVM")
    assert host.wait(timeout=30) == 1


def test_a_stop_signal_to_the_whole_group_ends_every_stream_in_order(hosts: Hosts) -> None:
    hosts.want("one", "two")
    host = hosts.start("--slots", "4")
    hosts.pid("one"), hosts.pid("two")
    everything = [process.pid for process in session_of(host.pid)]
    os.killpg(host.pid, signal.SIGTERM)
    assert host.wait(timeout=30) == 0
    assert [hosts.state("one"), hosts.state("two")] == ["stopped", "stopped"]
    assert [pid for pid in everything if not is_gone(pid)] == []
    next_one = hosts.start("--slots", "4")
    hosts.pid("one")
    assert next_one.poll() is None


def test_more_streams_than_slots_is_a_state_that_alarms_and_heals(hosts: Hosts) -> None:
    hosts.want("one", "two")
    hosts.start("--slots", "2", "--reserve", "1")
    hosts.pid("one")
    wait_until(lambda: hosts.state("two") == "no_slot", timeout_s=10, what="the state without a slot")
    assert [(alarm.kind, alarm.subject) for alarm in hosts.store.open_alarms()] == [("no_slot", "two@warehouse")]
    hosts.director.unwant(StreamId("one", "warehouse"))
    hosts.pid("two")
    wait_until(lambda: hosts.store.open_alarms() == (), timeout_s=10, what="the alarm to end")


def test_a_fenced_stream_stays_down_until_somebody_wants_it_anew(hosts: Hosts) -> None:
    hosts.want("fenced", "one")
    hosts.start("--slots", "4")
    hosts.pid("one")
    wait_until(lambda: hosts.state("fenced") == "failed", timeout_s=10, what="the failed state")
    assert "attempt=2" not in hosts.log()
    hosts.want("fenced")
    wait_until(lambda: "stream=fenced@warehouse attempt=2" in hosts.log(), timeout_s=10, what="another attempt")


def test_streams_and_restarts_go_on_while_the_platform_database_is_away(hosts: Hosts) -> None:
    hosts.want("one", "two")
    host = hosts.start("--slots", "4")
    killed = hosts.pid("one")
    hosts.pid("two")
    refuse_all()
    os.kill(killed, signal.SIGKILL)
    again = wait_until(
        lambda: pid if (pid := hosts.told("one")["pid"]) != killed else None, timeout_s=20, what="a new worker"
    )
    hosts.moves_on("two")
    wait_until(lambda: "is away" in hosts.log(), timeout_s=20, what="the host to notice")
    admit_all()
    hosts.director.unwant(StreamId("one", "warehouse"))
    wait_until(lambda: is_gone(again), timeout_s=20, what="the stream to hear that it is no longer wanted")
    hosts.moves_on("two")
    assert host.poll() is None


def test_a_host_that_cannot_hear_the_database_still_ends_when_it_is_told_to(hosts: Hosts) -> None:
    hosts.want("one")
    host = hosts.start("--slots", "4")
    worker = hosts.pid("one")
    refuse_all()
    host.terminate()
    assert host.wait(timeout=40) == 0
    assert is_gone(worker)


def test_a_host_waits_for_the_platform_database_and_stops_waiting_when_told_to(hosts: Hosts) -> None:
    refuse_all()
    host = hosts.start("--slots", "4")
    wait_until(lambda: "cannot be taken yet" in hosts.log(), timeout_s=20, what="the host to wait")
    host.terminate()
    assert host.wait(timeout=20) == 0
