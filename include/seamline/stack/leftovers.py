"""Finds the processes of one stack without trusting any pid file, so that nothing survives its parent unseen.

Everything that the stack starts carries three variables, which its children inherit: which data folder, which
program, and which session it began in. A process that later made its own session (a detached Spark driver) is found
by that.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psutil

from seamline.stack.layout import Layout
from seamline.stack.waiting import wait_until

STACK = "SEAMLINE_STACK"
PROGRAM = "SEAMLINE_PROGRAM"
SESSION = "SEAMLINE_SESSION"

TERM_WITHIN_S = 5.0
KILL_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class StackProcess:
    pid: int
    program: str
    is_detached: bool
    command: str


def marks(layout: Layout, program: str) -> dict[str, str]:
    """The variables that a program of this stack is started with."""
    return {
        STACK: str(layout.data),
        PROGRAM: program,
        SESSION: str(os.getsid(0)),
        # Airflow's processes set their titles; without this that overwrites the variables one reads here.
        "SPT_NOENV": "1",
    }


def processes(layout: Layout) -> tuple[StackProcess, ...]:
    """Every process of this stack that runs now, except the caller and those above it."""
    above = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return tuple(found for found in _scan(layout) if found.pid not in above)


def _scan(layout: Layout) -> Iterator[StackProcess]:
    for process in psutil.process_iter():
        try:
            found = _describe(process, layout)
        except (psutil.Error, OSError):
            continue
        if found is not None:
            yield found


def _describe(process: psutil.Process, layout: Layout) -> StackProcess | None:
    if process.status() == psutil.STATUS_ZOMBIE:
        return None
    environment = process.environ()
    if environment.get(STACK) == str(layout.data):
        began_in = environment.get(SESSION, "")
        is_detached = began_in.isdecimal() and os.getsid(process.pid) != int(began_in)
        program = environment.get(PROGRAM, "")
    elif process.name() == "postgres" and process.cwd() == str(layout.postgres):
        # PostgreSQL writes its titles over the variables; its working folder is its data.
        program, is_detached = "postgres", False
    else:
        return None
    return StackProcess(process.pid, program, is_detached, " ".join(process.cmdline()))


def end(found: Iterable[StackProcess]) -> int:
    """End these processes, first by asking, then by force; return how many there were."""
    alive = [one for one in found if _signal(one.pid, signal.SIGTERM)]
    if not wait_until(lambda: not _running(alive), timeout_s=TERM_WITHIN_S):
        kill(_running(alive))
    return len(alive)


def kill(found: Iterable[StackProcess]) -> None:
    """End these processes by force and wait until they are gone."""
    alive = [one for one in found if _signal(one.pid, signal.SIGKILL)]
    wait_until(lambda: not _running(alive), timeout_s=KILL_WITHIN_S)


def kill_previous_life(layout: Layout, program: str) -> None:
    """Kill what an earlier life of `program` left behind, before it starts again.

    A scheduler that was killed leaves its workers for ever, and a task that runs on would soon run twice. Detached
    processes are not touched: they are meant to outlive it.
    """
    kill(one for one in processes(layout) if one.program == program and not one.is_detached)


def _running(found: Iterable[StackProcess]) -> list[StackProcess]:
    return [one for one in found if _is_running(one.pid)]


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
