"""The processes of the local stack: state, pid, port, memory, time since the start."""

import argparse
import time
from dataclasses import asdict
from typing import Any

import psutil

from seamline import settings
from seamline.cli.answer import give
from seamline.stack import leftovers, supervisor
from seamline.stack.components import COMPONENTS
from seamline.stack.layout import Layout

_MIB = 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    """Print one line per program. Exit code 1 if the stack is not running or a program has given up."""
    layout = Layout(settings.load())
    alive = leftovers.processes(layout)
    detached = [{"pid": one.pid, "command": one.command} for one in alive if one.is_detached]
    if not supervisor.is_running(layout):
        print(f"the stack in {layout.data} is not running; ./seamline up starts it")
        _print_detached(alive)
        give(args, {"data": str(layout.data), "running": False, "programs": [], "detached": detached})
        return 1
    states, programs = supervisor.states(layout), list[dict[str, Any]]()
    print(_line("program", "state", "pid", "port", "MiB", "up"))
    for part in COMPONENTS:
        ports = part.ports(layout.settings.ports)
        for program in part.programs:
            state = states[program.name]
            port = next(iter(ports.values()), "") if program is part.programs[0] else ""
            size = sum(_resident(one.pid) for one in alive if one.program == program.name and not one.is_detached)
            up = _duration(time.time() - state.since) if state.is_running else state.said
            print(_line(program.name, state.state.lower(), state.pid or "", port, size // _MIB or "", up))
            programs.append({**asdict(state), "port": port or None, "bytes": size})
    _print_detached(alive)
    give(args, {"data": str(layout.data), "running": True, "programs": programs, "detached": detached})
    return 1 if any(state.state == "FATAL" for state in states.values()) else 0


def _print_detached(alive: tuple[leftovers.StackProcess, ...]) -> None:
    for one in alive:
        if one.is_detached:
            command = " ".join(one.command.split())[:80]
            print(_line("(detached)", "running", one.pid, "", _resident(one.pid) // _MIB, command))


def _line(program: str, state: str, pid: object, port: object, mib: object, up: str) -> str:
    return f"{program:<18} {state:<9} {pid!s:>7} {port!s:>6} {mib!s:>6}  {up}"


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
