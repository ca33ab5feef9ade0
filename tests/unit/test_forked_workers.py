"""Of a process that the fault layer disturbs: its end, whom it leaves behind, and whether it sleeps."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seamline import settings
from tests.fault.real.worker import work_in_a_fork
from tests.fault.real.workers import FORKED, Worker
from tests.waiting import wait_until


def leave_a_child() -> None:
    os.setsid()
    if os.fork():
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def sleep_once() -> None:
    os.setsid()
    os.kill(os.getpid(), signal.SIGSTOP)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[Callable[[], None]], Worker]]:
    workers: list[Worker] = []

    def start(target: Callable[[], None]) -> Worker:
        process = FORKED.Process(target=target)
        process.start()
        workers.append(Worker("stream", process, tmp_path / "failpoints", tmp_path / "log"))
        return workers[-1]

    yield start
    for worker in workers:
        for process in worker.left():
            process.kill()
        worker.kill()


def test_whom_a_killed_process_has_left_behind_is_found(started: Callable[[Callable[[], None]], Worker]) -> None:
    worker = started(leave_a_child)
    assert worker.ended(60) == -signal.SIGKILL
    (left,) = worker.left()
    left.kill()
    wait_until(lambda: not worker.left(), timeout_s=20, what="the end of who was left")


def test_a_process_that_sleeps_is_woken_and_goes_on(started: Callable[[Callable[[], None]], Worker]) -> None:
    worker = started(sleep_once)
    wait_until(worker.asleep, timeout_s=60, what="it to sleep")
    assert not worker.is_over
    worker.wake()
    assert worker.ended(60) == 0
    assert worker.asleep() == []


def test_a_fork_has_the_environment_that_it_is_given_and_says_all_into_its_own_log(tmp_path: Path) -> None:
    """The bug's name is no bug, which only this environment has."""
    log = tmp_path / "said"
    given = settings.process_environment() | {"SEAMLINE_T1_PLANT": "no_such_bug"}
    process = FORKED.Process(target=work_in_a_fork, args=("stream", str(tmp_path), str(log), given))
    process.start()
    process.join(60)
    assert process.exitcode == 1
    assert "KeyError: 'no_such_bug'" in log.read_text(encoding="utf-8")
