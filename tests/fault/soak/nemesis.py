"""The faults of a soak, one at a time: each is made, lasts, and is over; whatever has to go on, goes on by itself."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import psutil
import psycopg

from seamline.adapters.connections import Connection
from seamline.domain.errors import SeamlineError
from seamline.stack import supervisor
from seamline.stack.layout import Layout
from tests.fault.real.hosted import HostedBank, kill_daemon, kill_host, kill_jvm, overtake_host
from tests.fault.real.window import Window
from tests.fault.soak.kafka_links import KafkaLinks
from tests.fault.soak.large_transaction import commit_large_transaction
from tests.fault.soak.link import Link, State
from tests.integration.databases import mariadb, postgres
from tests.spark.hosts import is_gone
from tests.waiting import wait_until

_STREAM_FAILPOINTS = ("app.epoch_taken", "app.fetched", "app.dml_half", "app.commit_sent", "app.commit_acked")
_BOTH = ("mariadb", "postgres")
# Whoever gives up a silent server, worker or lease has given it up before this.
LONGER_THAN_PATIENCE_S = (35.0, 75.0)
_LINK, _CAPTURE_LINK = attrgetter("link"), attrgetter("capture_link")
_STREAM_KAFKA, _CONNECT_KAFKA = attrgetter("kafka.stream"), attrgetter("kafka.connect")


@dataclass(frozen=True, slots=True)
class Scene:
    """A bank whose stream runs in a stream host, and what a fault may lay hands on."""

    bank: HostedBank
    # To the destination, of the stream; and to the source, of the capture.
    link: Link
    capture_link: Link
    kafka: KafkaLinks
    window: Window
    chance: random.Random
    layout: Layout

    def lasting(self, least_s: float, most_s: float) -> None:
        """The fault is there for this long, and the host is looked after as Supervisor would."""
        until = time.monotonic() + self.chance.uniform(least_s, most_s)
        wait_until(
            lambda: self.bank.keep_streaming() and time.monotonic() >= until,
            timeout_s=most_s + 60,
            what="the fault to have lasted",
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """`make` returns when the fault is over. `kinds`: the sources at which it can happen."""

    name: str
    make: Callable[[Scene], None]
    kinds: tuple[str, ...] = _BOTH


# ---- the stream and its host ----------------------------------------------------------------------------------------


def kill_worker(scene: Scene) -> None:
    worker = scene.bank.worker()
    worker.kill()
    wait_until(lambda: is_gone(worker.pid), timeout_s=20, what="the worker to be gone")


def kill_worker_at_a_failpoint(scene: Scene) -> None:
    _come_to(scene, _STREAM_FAILPOINTS, "kill9")


def kill_worker_amid_a_large_transaction(scene: Scene) -> None:
    """It has spilled a chunk of it."""
    commit_large_transaction(scene.bank)
    scene.bank.come_to("app.chunk_staged", "kill9", within_s=120)


def fail_worker_at_a_failpoint(scene: Scene) -> None:
    # An error of a COMMIT that was sent is a lost answer, which ends no stream.
    _come_to(scene, [name for name in _STREAM_FAILPOINTS if name != "app.commit_sent"], "error")


def _come_to(scene: Scene, failpoints: Sequence[str], mode: str) -> None:
    name = scene.chance.choice(failpoints)
    if name == "app.epoch_taken":
        # Only a worker that begins comes to it.
        kill_worker(scene)
    scene.bank.come_to(name, mode)


def suspending_worker(least_s: float, most_s: float) -> Callable[[Scene], None]:
    def suspend(scene: Scene) -> None:
        with suspended(scene.bank.worker().pid):
            scene.lasting(least_s, most_s)

    return suspend


def lose_the_answer_of_a_commit(scene: Scene) -> None:
    """A COMMIT arrives and its answer never does: the same process has to ask the ledger, under a new epoch."""
    bank, worker = scene.bank, scene.bank.worker()
    times = bank.failpoints.fired()["app.dml_done"]
    bank.failpoints.arm("app.dml_done=wait")
    wait_until(
        lambda: bank.failpoints.fired()["app.dml_done"] > times, timeout_s=60, what="a transaction before its COMMIT"
    )
    before = bank.warehouse.newest_commit()
    scene.link.state = State.NO_ANSWERS
    bank.failpoints.arm("")
    wait_until(lambda: bank.warehouse.newest_commit().number > before.number, timeout_s=20, what="the commit itself")
    scene.link.reset()
    wait_until(lambda: scene.link.has_reset, timeout_s=20, what="the session to be reset")
    scene.link.state = State.OPEN
    wait_until(
        lambda: bank.warehouse.newest_commit().epoch > before.epoch,
        timeout_s=60,
        what="a new epoch after the lost answer",
    )
    assert not is_gone(worker.pid), "the stream's worker ended"


def disturbing(trouble: Callable[[HostedBank], None]) -> Callable[[Scene], None]:
    return lambda scene: trouble(scene.bank)


def refuse_platform_database(scene: Scene) -> None:
    """Streams go on without it, whatever becomes of the lease."""
    bank = scene.bank
    bank.hosts.refuse_all()
    try:
        before = bank.warehouse.commits_seen()
        wait_until(lambda: bank.warehouse.commits_seen() > before, timeout_s=60, what="a commit without the platform")
        scene.lasting(5, 20)
    finally:
        bank.hosts.admit_all()


# ---- the ways to the destination and from the source ---------------------------------------------------------------


def cutting(link: Callable[[Scene], Link]) -> Callable[[Scene], None]:
    return partial(_in_state, link, State.CUT, (3, 12))


def silencing(link: Callable[[Scene], Link], lasting_s: tuple[float, float] = (3, 12)) -> Callable[[Scene], None]:
    return partial(_in_state, link, State.SILENT, lasting_s)


def _in_state(link: Callable[[Scene], Link], state: State, lasting_s: tuple[float, float], scene: Scene) -> None:
    link(scene).state = state
    scene.lasting(*lasting_s)
    link(scene).state = State.OPEN


def slowing(link: Callable[[Scene], Link]) -> Callable[[Scene], None]:
    def slow(scene: Scene) -> None:
        link(scene).delay_s = 0.05
        scene.lasting(5, 15)
        link(scene).delay_s = 0.0

    return slow


def end_sessions_of_stream(scene: Scene) -> None:
    for _ in range(scene.chance.randint(1, 5)):
        _end_until_one_has_ended(
            lambda: _ended_at(
                scene.bank.warehouse.session_of_writer(),
                "datname = current_database() AND starts_with(application_name, 'seamline:')",
            ),
            scene,
        )
        scene.lasting(0.5, 2)


def _end_until_one_has_ended(end: Callable[[], int], scene: Scene) -> None:
    """A session that is just being made again is waited for: what ended nobody's session was no fault."""
    wait_until(lambda: scene.bank.keep_streaming() and end(), timeout_s=60, what="a session that could be ended")


def _ended_at(server: AbstractContextManager[Any], condition: str) -> int:
    with server as session:
        return int(
            session.execute(
                f"SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {condition}"
            ).fetchone()[0]
        )


# ---- the capture ----------------------------------------------------------------------------------------------------


def restart_task(scene: Scene) -> None:
    scene.bank.source.client.restart_all(scene.bank.source.connector.name)


def stop_and_resume_capture(scene: Scene) -> None:
    connector = scene.bank.source.connector
    connector.stop()
    scene.lasting(0, 5)
    connector.start()


def end_sessions_of_capture(scene: Scene) -> None:
    """The server ends the connector's own session; its task fails, and the watch of the source starts it again."""
    root = scene.bank.source.root
    if scene.bank.kind == "postgres":
        _end_until_one_has_ended(lambda: _ended_at(postgres(root), "backend_type = 'walsender'"), scene)
    else:
        _end_until_one_has_ended(lambda: _ended_dumps(root), scene)


def _ended_dumps(root: Connection) -> int:
    with mariadb(root) as session, session.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'")
        found = cursor.fetchall()
        for (number,) in found:
            cursor.execute(f"KILL CONNECTION {number}")
        return len(found)


# ---- servers --------------------------------------------------------------------------------------------------------


def killing(program: str) -> Callable[[Scene], None]:
    """`kill -9`; Supervisor starts it again."""

    def kill(scene: Scene) -> None:
        before = supervisor.state(scene.layout, program).pid
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: _is_up_again(scene, program, before), timeout_s=60, what=f"{program} to run again")

    return kill


def suspending(program: str) -> Callable[[Scene], None]:
    def suspend(scene: Scene) -> None:
        with suspended(supervisor.state(scene.layout, program).pid):
            scene.lasting(5, 15)

    return suspend


def suspend_postgres(scene: Scene) -> None:
    """With every session: the destination's, the platform database's, and the source's where it is one."""
    with all_suspended(psutil.Process(supervisor.state(scene.layout, "postgres").pid)):
        scene.lasting(5, 15)


def restart_destination_fast(scene: Scene) -> None:
    """As an administrator does: every session is ended, nothing has to be recovered."""
    before = supervisor.state(scene.layout, "postgres").pid
    os.kill(before, signal.SIGINT)
    wait_until(lambda: _is_up_again(scene, "postgres", before), timeout_s=60, what="postgres to run again")


def _is_up_again(scene: Scene, program: str, before: int) -> bool:
    with suppress(SeamlineError):
        state = supervisor.state(scene.layout, program)
        if not state.pid or state.pid == before:
            return False
        return program != "postgres" or _answers(scene)
    return False


def _answers(scene: Scene) -> bool:
    with suppress(psycopg.OperationalError), scene.bank.warehouse.session():
        return True
    return False


@contextmanager
def suspended(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        # Who sleeps for long may have been ended meanwhile.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def all_suspended(leader: psutil.Process) -> Iterator[None]:
    """A process and all that come from it. The leader sleeps first: what it forks before that is there to be found."""
    asleep: list[psutil.Process] = []
    try:
        while awake := [one for one in (leader, *leader.children(recursive=True)) if one not in asleep]:
            for process in awake:
                asleep.append(process)
                with suppress(psutil.NoSuchProcess):
                    process.suspend()
        yield
    finally:
        for process in reversed(asleep):
            with suppress(psutil.NoSuchProcess):
                process.resume()


def _faults_of(name: str, link: Callable[[Scene], Link]) -> Iterator[Fault]:
    yield Fault(f"{name} cut", cutting(link))
    yield Fault(f"{name} silent", silencing(link))
    yield Fault(f"{name} silent for long", silencing(link, LONGER_THAN_PATIENCE_S))
    yield Fault(f"{name} slow", slowing(link))


FAULTS = (
    Fault("stream's worker killed", kill_worker),
    Fault("stream's worker killed at a failpoint", kill_worker_at_a_failpoint),
    Fault("stream's worker killed amid a transaction larger than memory", kill_worker_amid_a_large_transaction),
    Fault("stream fails at a failpoint", fail_worker_at_a_failpoint),
    Fault("stream's worker suspended", suspending_worker(5, 15)),
    Fault("stream's worker suspended for long", suspending_worker(*LONGER_THAN_PATIENCE_S)),
    Fault("answer of a COMMIT lost", lose_the_answer_of_a_commit),
    Fault("stream host killed", disturbing(kill_host)),
    Fault("JVM of the stream host killed", disturbing(kill_jvm)),
    Fault("daemon of Spark's workers killed", disturbing(kill_daemon)),
    Fault("stream host overtaken in its sleep", disturbing(overtake_host)),
    Fault("platform database refuses everybody", refuse_platform_database),
    *_faults_of("link to the destination", _LINK),
    *_faults_of("link of the capture", _CAPTURE_LINK),
    *_faults_of("link of the stream to Kafka", _STREAM_KAFKA),
    *_faults_of("link of Connect to Kafka", _CONNECT_KAFKA),
    Fault("sessions of the destination ended", end_sessions_of_stream),
    Fault("capture's task restarted", restart_task),
    Fault("capture stopped and resumed", stop_and_resume_capture),
    Fault("capture's session ended", end_sessions_of_capture),
    Fault("Connect killed", killing("connect")),
    Fault("Connect suspended", suspending("connect")),
    Fault("Kafka killed", killing("kafka")),
    Fault("Kafka suspended", suspending("kafka")),
    Fault("PostgreSQL killed", killing("postgres")),
    Fault("PostgreSQL suspended", suspend_postgres),
    Fault("PostgreSQL restarted", restart_destination_fast),
    Fault("MariaDB killed", killing("mariadb"), ("mariadb",)),
    Fault("MariaDB suspended", suspending("mariadb"), ("mariadb",)),
)
