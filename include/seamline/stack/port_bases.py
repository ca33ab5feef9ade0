"""The blocks of ports that sessions of tests, and tests with servers of their own, take from one another.

Each holds a lock in a folder that is named by its base: a server that is stopped for a while leaves its port free.
"""

import fcntl
import random
import shutil
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from seamline.domain.errors import ConfigError
from seamline.settings import Ports
from seamline.stack.components import COMPONENTS
from seamline.stack.folder_lock import lock_after_waiting

# Below the range from which systems hand out ports to clients.
_BASES = range(22_000, 32_000, 100)


@contextmanager
def held_port_base(home: Path) -> Iterator[int]:
    """A base whose ports are free now; until the end nobody under `home` is given it."""
    with drawing(home):
        base = free_port_base(home)
        folder = folder_of_base(home, base)
        lock = hold(folder)
    with lock:
        try:
            yield base
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def drawing(home: Path) -> AbstractContextManager[None]:
    """From a draw until its folder is locked: meanwhile nobody else draws."""
    return lock_after_waiting(home, "test-session", on_wait=lambda: None)


def folder_of_base(home: Path, base: int) -> Path:
    return home / "test" / str(base)


def hold(folder: Path) -> TextIO:
    """Make this folder anew and lock it; until the file that is returned is closed its base is taken.

    For a base that was free, so what lies here is what a failed session has kept.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lock = (folder / "lock").open("w", encoding="utf-8")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@contextmanager
def locked_unless_at_work(folder: Path) -> Iterator[bool]:
    """False where somebody else holds this folder."""
    with (folder / "lock").open("a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def free_port_base(home: Path) -> int:
    """A base whose ports are all free now and which nobody under `home` holds; another one each time."""
    taken = _held_bases(home)
    bases = [base for base in _BASES if base not in taken]
    random.shuffle(bases)
    for base in bases:
        if all(_is_free(port) for part in COMPONENTS for port in part.ports(Ports(base)).values()):
            return base
    raise ConfigError("no free block of ports from 22000 to 32000", hint="stop some of the servers on this machine")


def _held_bases(home: Path) -> list[int]:
    """Their servers may not have taken their ports yet, or be down for a while."""
    found = []
    for folder in (home / "test").glob("*"):
        # One that ends just now takes its folder along.
        with suppress(FileNotFoundError), locked_unless_at_work(folder) as is_locked:
            if not is_locked:
                found.append(int(folder.name))
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
