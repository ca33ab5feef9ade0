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

import psycopg

from seamline.adapters.connections import Connection
from seamline.domain.errors import SeamlineError
from seamline.stack import supervisor
from seamline.stack.layout import Layout
from tests.fault.real.bank_under_fire import KILLED, BankUnderFire
from tests.fault.real.worker import FENCED, TRANSIENT
from tests.fault.soak.link import Link, State
from tests.integration.databases import mariadb, postgres
from tests.waiting import wait_until

_STREAM_FAILPOINTS = ("app.epoch_taken", "app.fetched", "app.dml_half", "app.commit_sent", "app.commit_acked")
_BOTH = ("mariadb", "postgres")
_LINK, _CAPTURE_LINK = attrgetter("link"), attrgetter("capture_link")


@dataclass(frozen=True, slots=True)
class Scene:
    """A bank whose stream runs, and what a fault may lay hands on."""

    bank: BankUnderFire
    # To the destination, of the stream; and to the source, of the capture.
    link: Link
    capture_link: Link
    chance: random.Random
    layout: Layout

    def lasting(self, least_s: float, most_s: float) -> None:
        """The fault is there for this long, and the stream is looked after as its host would."""
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


# ---- the stream -----------------------------------------------------------------------------------------------------


def kill_stream(scene: Scene) -> None:
    worker = scene.bank.workers[-1]
    worker.process.kill()
    scene.bank.ended(worker, within_s=20, wanted=(KILLED,))
    scene.bank.start("stream")


def kill_stream_at_a_failpoint(scene: Scene) -> None:
    _restart_armed(scene, _STREAM_FAILPOINTS, "kill9", KILLED)


def fail_stream_at_a_failpoint(scene: Scene) -> None:
    # An error of a COMMIT that was sent is a lost answer, which ends no stream.
    _restart_armed(scene, [name for name in _STREAM_FAILPOINTS if name != "app.commit_sent"], "error", TRANSIENT)


def _restart_armed(scene: Scene, failpoints: Sequence[str], mode: str, code: int) -> None:
    bank, name = scene.bank, scene.chance.choice(failpoints)
    hit = 1 if name == "app.epoch_taken" else scene.chance.randint(1, 20)
    old = bank.workers[-1]
    old.process.terminate()
    bank.ended(old, within_s=20, wanted=(-signal.SIGTERM,))
    armed = bank.start("stream", f"{name}={mode}@{hit}")
    bank.ended(armed, within_s=60, wanted=(code,))
    assert armed.fired == [name], f"{name} did not fire: {armed.fired}"
    bank.start("stream")


def suspend_stream(scene: Scene) -> None:
    worker = scene.bank.workers[-1]
    with suspended(worker.process.pid):
        scene.lasting(5, 15)


def overtake_stream(scene: Scene) -> None:
    """The old worker sleeps, another one takes over, the old one wakes up: it must find itself fenced."""
    bank, old = scene.bank, scene.bank.workers[-1]
    with suspended(old.process.pid):
        before = bank.warehouse.commits_seen()
        bank.start("stream")
        wait_until(
            lambda: bank.keep_streaming() and bank.warehouse.commits_seen() > before + 3,
            timeout_s=60,
            what="commits of the one that took over",
        )
    bank.ended(old, within_s=60, wanted=(FENCED, TRANSIENT))


def lose_the_answer_of_a_commit(scene: Scene) -> None:
    """A COMMIT arrives and its answer never does: the same process has to ask the ledger, under a new epoch."""
    bank = scene.bank
    worker = bank.workers[-1]
    times = len(worker.fired)
    worker.arming.write_text("app.dml_done=wait", encoding="utf-8")
    wait_until(lambda: len(worker.fired) > times, timeout_s=60, what="a transaction before its COMMIT")
    before = bank.warehouse.newest_commit()
    scene.link.state = State.NO_ANSWERS
    worker.arming.write_text("", encoding="utf-8")
    wait_until(lambda: bank.warehouse.newest_commit().number > before.number, timeout_s=20, what="the commit itself")
    scene.link.reset()
    wait_until(lambda: scene.link.has_reset, timeout_s=20, what="the session to be reset")
    scene.link.state = State.OPEN
    wait_until(
        lambda: bank.warehouse.newest_commit().epoch > before.epoch,
        timeout_s=60,
        what="a new epoch after the lost answer",
    )
    assert worker.process.poll() is None, f"the stream ended: {worker.said()}"
    assert bank.workers[-1] is worker


# ---- the ways to the destination and from the source ---------------------------------------------------------------


def cutting(link: Callable[[Scene], Link]) -> Callable[[Scene], None]:
    return partial(_in_state, link, State.CUT)


def silencing(link: Callable[[Scene], Link]) -> Callable[[Scene], None]:
    return partial(_in_state, link, State.SILENT)


def _in_state(link: Callable[[Scene], Link], state: State, scene: Scene) -> None:
    link(scene).state = state
    scene.lasting(3, 12)
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
                scene.bank.warehouse.session(),
                "datname = current_database() AND starts_with(application_name, 'seamline:')",
            ),
            scene,
        )
        scene.lasting(0.5, 2)


def _end_until_one_has_ended(end: Callable[[], int], scene: Scene) -> None:
    """A session that is just being made anew is waited for: what ended nobody's session was no fault."""
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
        os.kill(pid, signal.SIGCONT)


FAULTS = (
    Fault("stream killed", kill_stream),
    Fault("stream killed at a failpoint", kill_stream_at_a_failpoint),
    Fault("stream fails at a failpoint", fail_stream_at_a_failpoint),
    Fault("stream suspended", suspend_stream),
    Fault("stream overtaken while suspended", overtake_stream),
    Fault("answer of a COMMIT lost", lose_the_answer_of_a_commit),
    Fault("link to the destination cut", cutting(_LINK)),
    Fault("link to the destination silent", silencing(_LINK)),
    Fault("link to the destination slow", slowing(_LINK)),
    Fault("link of the capture cut", cutting(_CAPTURE_LINK)),
    Fault("link of the capture silent", silencing(_CAPTURE_LINK)),
    Fault("link of the capture slow", slowing(_CAPTURE_LINK)),
    Fault("sessions of the destination ended", end_sessions_of_stream),
    Fault("capture's task restarted", restart_task),
    Fault("capture stopped and resumed", stop_and_resume_capture),
    Fault("capture's session ended", end_sessions_of_capture),
    Fault("Connect killed", killing("connect")),
    Fault("Connect suspended", suspending("connect")),
    Fault("Kafka killed", killing("kafka")),
    Fault("Kafka suspended", suspending("kafka")),
    Fault("PostgreSQL killed", killing("postgres")),
    Fault("PostgreSQL restarted", restart_destination_fast),
    Fault("MariaDB killed", killing("mariadb"), ("mariadb",)),
    Fault("MariaDB suspended", suspending("mariadb"), ("mariadb",)),
)
