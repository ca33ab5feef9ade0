"""The rows of drivers on a real PostgreSQL: one driver at a time over all machines, followed and ended from any."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from seamline import settings
from seamline.adapters.process_identity import session_members
from seamline.domain.driver_run import LOST_AFTER_S, ClaimResult, DriverId, DriverState, DriverStatus, Order
from seamline.platform import migrate
from seamline.platform.database import CONNECTION_ID, Database
from seamline.platform.driver_runs import PlatformDriverRuns, beat, begin, finish
from seamline.platform.host_lease import Holder, this_process
from seamline_airflow.launcher import DetachedLauncher, DriverJob, driver_environment
from seamline_airflow.recorded_launcher import RecordedLauncher
from tests.conftest import RunningStack
from tests.integration.known import known_by_id
from tests.integration.platform_database import Server, database_of_its_own
from tests.waiting import wait_until

HERE, THERE = Holder("node", 7, 1, "boot-a.1.2"), Holder("node", 7, 1, "boot-b.1.2")
FOR_EVER = "tail -f /dev/null"


@pytest.fixture(scope="module")
def server(stack: RunningStack) -> Iterator[Server]:
    with database_of_its_own("driver_runs_test") as made:
        migrate.upgrade(made.open)
        with known_by_id(replace(stack.connection("postgres_root"), database=made.name), CONNECTION_ID, "postgres"):
            yield made


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"dag/run/{request.node.name}/-1"


@pytest.fixture
def asking(server: Server) -> Iterator[Callable[[Holder], PlatformDriverRuns]]:
    opened = []

    def of(holder: Holder) -> PlatformDriverRuns:
        opened.append(PlatformDriverRuns(Database(server.open), holder=holder))
        return opened[-1]

    yield of
    for runs in opened:
        runs.close()


Asking = Callable[[Holder], PlatformDriverRuns]


def age(server: Server, driver: DriverId) -> None:
    """As if nothing had been heard of it for longer than a driver may be silent."""
    with server.open() as session:
        session.execute(
            "update driver_run set heartbeat_at = heartbeat_at - make_interval(secs => %s)"
            " where name = %s and attempt = %s",
            (LOST_AFTER_S + 1, driver.name, driver.attempt),
        )


# ---- the rows ------------------------------------------------------------------------------------------------------


def test_of_two_machines_that_claim_at_once_one_starts_and_both_have_the_same_driver(asking: Asking, name: str) -> None:
    both = [asking(HERE), asking(THERE)]
    with ThreadPoolExecutor(2) as pool:
        claims = list(pool.map(lambda runs: runs.claim(name), both))
    assert {claim.result for claim in claims} == {ClaimResult.NEW, ClaimResult.LIVING}
    assert {claim.driver for claim in claims} == {DriverId(name, 1)}


def test_a_driver_has_its_result_on_every_machine(server: Server, asking: Asking, name: str) -> None:
    driver = asking(HERE).claim(name).driver
    with server.open() as session:
        assert begin(session, driver, holder=HERE, log="/disk of one/driver.log") is Order.GO_ON
        assert asking(THERE).read(driver).status is DriverStatus.RUNNING
        finish(session, driver, holder=HERE, exit_code=3, last_lines=["cut: no slot", "  → onboard"])
    found = asking(THERE).read(driver)
    assert (found.status, found.exit_code, found.last_lines) == (
        DriverStatus.FAILED,
        3,
        ("cut: no slot", "  → onboard"),
    )
    assert asking(THERE).claim(name).driver == DriverId(name, 2)


def test_a_driver_of_which_nothing_is_heard_counts_as_alive_up_to_its_bound_and_is_fenced_behind_it(
    server: Server, asking: Asking, name: str
) -> None:
    driver = asking(HERE).claim(name).driver
    with server.open() as session:
        begin(session, driver, holder=HERE, log="")
        assert asking(THERE).claim(name).result is ClaimResult.LIVING
        age(server, driver)
        assert asking(THERE).read(driver).status is DriverStatus.LOST
        assert asking(THERE).claim(name).result is ClaimResult.NEW
        # The old one is still there, after a sleep of its machine: it changes nothing any more.
        assert beat(session, driver, holder=HERE) is Order.FENCED
        finish(session, driver, holder=HERE, exit_code=0, last_lines=[])
    assert asking(HERE).read(driver).state is DriverState.LOST


def test_a_driver_that_was_fenced_before_it_began_never_begins(server: Server, asking: Asking, name: str) -> None:
    driver = asking(HERE).claim(name).driver
    age(server, driver)
    assert asking(THERE).claim(name).result is ClaimResult.NEW
    with server.open() as session:
        assert begin(session, driver, holder=HERE, log="") is Order.FENCED


def test_a_driver_that_was_ordered_to_end_before_it_began_never_begins(
    server: Server, asking: Asking, name: str
) -> None:
    driver = asking(HERE).claim(name).driver
    asking(THERE).order_end(driver, by="a task")
    with server.open() as session:
        assert begin(session, driver, holder=HERE, log="") is Order.FENCED
    assert asking(THERE).read(driver).status is DriverStatus.FAILED


def test_no_driver_starts_beside_one_that_has_its_order_to_end(server: Server, asking: Asking, name: str) -> None:
    driver = asking(HERE).claim(name).driver
    with server.open() as session:
        begin(session, driver, holder=HERE, log="")
        asking(THERE).order_end(driver, by="a task")
        assert asking(THERE).claim(name).result is ClaimResult.ENDING
        assert beat(session, driver, holder=HERE) is Order.END
        finish(session, driver, holder=HERE, exit_code=143, last_lines=[])
    assert asking(THERE).claim(name).result is ClaimResult.NEW


def test_only_a_process_of_this_machine_is_known_to_be_dead_at_once(server: Server, asking: Asking, name: str) -> None:
    mine = this_process()
    dead = replace(mine, started=mine.started - 1000)
    for holder, expected in ((replace(dead, space=f"{dead.space}0"), "RUNNING"), (dead, "LOST")):
        driver = asking(mine).claim(name).driver
        with server.open() as session:
            begin(session, driver, holder=holder, log="")
        assert asking(mine).read(driver).status == expected
        asking(mine).fence(driver)


def test_attempts_grow_beyond_those_whose_folders_are_left(asking: Asking, name: str) -> None:
    """A platform database that was put back knows less than the disk."""
    assert asking(HERE).claim(name, above=4).driver.attempt == 5


# ---- the processes -------------------------------------------------------------------------------------------------


@pytest.fixture
def machines(server: Server, tmp_path: Path) -> Iterator[tuple[RecordedLauncher, RecordedLauncher]]:
    """Two launchers without a common folder."""
    with (
        closing(PlatformDriverRuns(Database(server.open), holder=this_process())) as one,
        closing(PlatformDriverRuns(Database(server.open), holder=this_process())) as other,
    ):
        yield (
            RecordedLauncher(one, DetachedLauncher(tmp_path / "one", grace_s=5)),
            RecordedLauncher(other, DetachedLauncher(tmp_path / "other", grace_s=5)),
        )


Machines = tuple[RecordedLauncher, RecordedLauncher]


def job(name: str, script: str) -> DriverJob:
    return DriverJob(name, ["sh", "-c", script], driver_environment(settings.process_environment()))


def running(launcher: RecordedLauncher, driver: DriverId) -> Holder:
    """Its supervisor, once the row is its own."""
    wait_until(
        lambda: launcher.read(driver).state is DriverState.RUNNING, timeout_s=20, what="the driver to begin by its row"
    )
    machine, process, started, space = launcher.read(driver).holder.split("/")
    return Holder(machine, int(process), int(started), space)


def ended(launcher: RecordedLauncher, driver: DriverId) -> DriverStatus:
    return wait_until(
        lambda: status if (status := launcher.read(driver).status) is not DriverStatus.RUNNING else None,
        timeout_s=30,
        what="the driver to end",
    )


def session_of(supervisor: Holder) -> int:
    return os.getsid(supervisor.process)


def test_an_order_from_another_machine_ends_all_that_the_driver_started(machines: Machines, name: str) -> None:
    one, other = machines
    driver = one.submit(job(name, f"setsid -w true; {FOR_EVER} & {FOR_EVER}"))
    session = session_of(running(one, driver))
    assert other.submit(job(name, "exit 1")) == driver
    other.end(driver, by="a test on another machine")
    assert other.read(driver).exit_code == 143
    wait_until(lambda: not session_members(session), timeout_s=30, what="the wrapper to end behind its driver")
    again = other.submit(job(name, "echo 'all is well'"))
    assert (again.attempt, ended(one, again)) == (2, DriverStatus.SUCCEEDED)
    assert one.read(again).last_lines == ("all is well",)


def test_a_driver_that_was_fenced_in_its_sleep_ends_when_it_wakes(
    server: Server, machines: Machines, name: str
) -> None:
    one, other = machines
    driver = one.submit(job(name, FOR_EVER))
    session = session_of(running(one, driver))
    for pid in session_members(session):
        os.kill(pid, signal.SIGSTOP)
    age(server, driver)
    replaced = other.submit(job(name, "true"))
    assert replaced != driver
    for pid in session_members(session):
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not session_members(session), timeout_s=20, what="the fenced driver to end")
    assert ended(one, replaced) is DriverStatus.SUCCEEDED


def test_a_driver_dies_with_its_supervisor_and_is_replaced_at_once_on_its_machine(
    machines: Machines, name: str
) -> None:
    one, _ = machines
    driver = one.submit(job(name, f"exec {FOR_EVER}"))
    supervisor = running(one, driver)
    session = session_of(supervisor)
    os.kill(supervisor.process, signal.SIGKILL)
    assert ended(one, driver) is DriverStatus.LOST
    wait_until(lambda: not session_members(session), timeout_s=30, what="the driver to die")
    assert ended(one, one.submit(job(name, "true"))) is DriverStatus.SUCCEEDED


def test_a_driver_whose_row_cannot_be_reached_is_ended_before_others_take_it_for_lost(
    server: Server, tmp_path: Path, name: str, asking: Asking
) -> None:
    driver = asking(THERE).claim(name).driver
    supervise = (
        "import sys; from pathlib import Path; from seamline.domain.driver_run import DriverId\n"
        "from seamline.platform.driver_supervisor import DriverSupervisor\n"
        f"one = DriverSupervisor(DriverId({name!r}, 1), log_file=Path('driver.log'), gives_up_after_s=2)\n"
        f"one.run({FOR_EVER.split()!r})\n"
    )
    local = DetachedLauncher(tmp_path)
    handle = local.submit(
        DriverJob(name, [sys.executable, "-c", supervise], driver_environment(settings.process_environment()))
    )
    wait_until(lambda: asking(THERE).read(driver).state is DriverState.RUNNING, timeout_s=20, what="the beginning")
    server.admin(f"alter database {server.name} allow_connections false")
    try:
        server.admin(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{server.name}'")
        wait_until(
            lambda: not [pid for pid in session_members(handle.pid) if "tail" in command(pid)],
            timeout_s=20,
            what="the driver to be ended",
        )
    finally:
        server.admin(f"alter database {server.name} allow_connections true")
    assert ended_by_row(asking(THERE), driver) is DriverStatus.FAILED


def ended_by_row(runs: PlatformDriverRuns, driver: DriverId) -> DriverStatus:
    return wait_until(
        lambda: status if (status := runs.read(driver).status) is not DriverStatus.RUNNING else None,
        timeout_s=20,
        what="the end to be written down",
    )


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8")
    except OSError:
        return ""
