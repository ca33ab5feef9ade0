"""Which process this is, distinguished from every other one, also from those of containers.

Two containers may have one host name and one process id. A process id says something only inside its PID namespace, and
a namespace is named by a number of the kernel's that no other has until it is gone, with every process in it.
"""

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


def space() -> str:
    """Where this process's ids mean something: the kernel's boot and the namespaces. "" where /proc shows another's."""
    try:
        if (_PROC / "self").readlink() != Path(str(os.getpid())):
            return ""
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # Start times are counted by the time namespace's clock.
        names = [str((_PROC / "self/ns" / kind).readlink()).strip("pidtme:[]") for kind in ("pid", "time")]
    except OSError:
        return ""
    return ".".join([boot, *names])


def started_ticks(process: int) -> int | None:
    """The kernel's start time of a process of this `space`; None where there is none, or only its zombie."""
    found = _living(process)
    return found.started if found is not None else None


def session_members(leader: int) -> dict[int, int]:
    """The living processes of a session, also where its leader is gone: the start time of each."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal())
    found = ((pid, process) for pid in pids if (process := _living(pid)) is not None)
    return {pid: process.started for pid, process in found if process.session == leader}


@dataclass(frozen=True, slots=True)
class _Process:
    session: int
    started: int


def _living(process: int) -> _Process | None:
    try:
        text = (_PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name is in brackets and may hold anything; the fields after it are plain.
    fields = text.rsplit(")", 1)[1].split()
    return None if fields[0] in "ZX" else _Process(session=int(fields[3]), started=int(fields[19]))
