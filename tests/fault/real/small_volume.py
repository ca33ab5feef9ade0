"""A small volume under the data of one server of the stack, which a test may fill to its last byte."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from seamline.stack import boot, supervisor
from seamline.stack.components import COMPONENTS
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SmallVolume:
    layout: Layout
    server: str
    folder: Path

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"

    def fill(self) -> None:
        """Take every byte that is free, also what the server has given back since the last time."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in (_MIB, 4096):
                while _is_appended(ballast.fileno(), size):
                    pass

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def start_server(self) -> None:
        """As an administrator does who has made room. MariaDB 11.4.5 may run on and let its commits hang."""
        if self.server == "mariadb":
            supervisor.stop_programs(self.layout, [self.server])
        start(self.layout, self.server)


def _is_appended(file: int, size: int) -> bool:
    try:
        return os.write(file, bytes(size)) == size
    except OSError as exc:
        if exc.errno != errno.ENOSPC:
            raise
        return False


def start(layout: Layout, server: str) -> None:
    """Return when it has answered."""
    boot.up(layout, tuple(part for part in COMPONENTS if part.name == server), Progress())


@contextmanager
def on_a_small_volume(layout: Layout, server: str, *, free_mib: int) -> Iterator[SmallVolume]:
    """The server stands still while its data moves there, and back. A volume is mounted, so this needs root."""
    if os.geteuid() != 0:
        pytest.fail('a small volume is mounted by root only: run as root, or leave these out by -k "not disk"')
    volume = SmallVolume(layout, server, layout.data / server)
    supervisor.stop_programs(layout, [server])
    try:
        with _on_a_volume_of_its_own(volume.folder, free_mib=free_mib):
            try:
                start(layout, server)
                yield volume
            finally:
                volume.empty()
                supervisor.stop_programs(layout, [server])
    finally:
        start(layout, server)


@contextmanager
def _on_a_volume_of_its_own(folder: Path, *, free_mib: int) -> Iterator[None]:
    """What lay there before stays beside it until the copy back is whole; also where no volume could be mounted."""
    before, after = (folder.with_name(f"{folder.name}.{when}") for when in ("before", "after"))
    if before.exists():
        pytest.fail(
            f"a run that was killed left the data in {before}: umount and remove {folder}, rename {before.name}"
        )
    used = sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if not file.is_symlink())
    folder.rename(before)
    kept = before
    try:
        folder.mkdir()
        with _mounted(folder, size=used + free_mib * _MIB):
            _run("cp", "-a", f"{before}/.", str(folder))
            try:
                yield
            finally:
                _run("cp", "-a", str(folder), str(after))
                kept = after
    finally:
        folder.rmdir()
        kept.rename(folder)
        for left in (before, after):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _mounted(folder: Path, *, size: int) -> Iterator[None]:
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield
    finally:
        _run("umount", str(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=120)
