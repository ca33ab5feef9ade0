"""Files that the checkouts of one user have in common, by their sha256: one fetch and one place on the disk for all.

Nothing in the store is trusted: a file is hashed before it is taken. Where the disk can do that, checkouts and store
have names of one file; so a file is put in place, and never written in place. All of it can be made again: whoever
needs the space may delete the store at any time.
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from seamline.stack.jars import Fetch, LockedFile, sha256_of


class SharedFiles:
    """The store in `folder`; None is a store that holds nothing. One that cannot be read or written is as good as none:
    setting up goes on without it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def take(self, sha256: str, target: Path) -> bool:
        """Put the file with this hash at `target`, where nothing is yet. False: the store lacks it, or has another."""
        if self._folder is None:
            return False
        with contextlib.suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True)
            _put(self._folder / sha256, target)
            if sha256_of(target) == sha256:
                return True
        with contextlib.suppress(OSError):
            target.unlink()
        return False

    def share(self, path: Path) -> None:
        """Make the file one with its like in the store, which has it from now on."""
        if self._folder is None:
            return
        sha256 = sha256_of(path)
        kept = self._folder / sha256
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            # One file has one mode: a program and a plain file are not shared.
            if kept.is_file() and kept.stat().st_mode == path.stat().st_mode and sha256_of(kept) == sha256:
                _replace(path, by=kept)
            else:
                _replace(kept, by=path)


def fetch_once(store: SharedFiles, files: Iterable[LockedFile], fetch: Fetch) -> Fetch:
    """A fetch that looks into `store` first, and asks only for the configurations that lack a file there."""
    locked = tuple(files)

    def fetch_what_lacks(configurations: Iterable[str], into: Path) -> None:
        lacking = []
        for name in configurations:
            wanted = [file for file in locked if file.configuration == name]
            if not all(store.take(file.sha256, into / file.path) for file in wanted):
                # What is fetched must not be written into a file of the store.
                shutil.rmtree(into / name, ignore_errors=True)
                lacking.append(name)
        if lacking:
            fetch(lacking, into)
        for file in locked:
            came = into / file.path
            if file.configuration in lacking and came.is_file() and sha256_of(came) == file.sha256:
                store.share(came)

    return fetch_what_lacks


def _put(source: Path, target: Path) -> None:
    """One name more for the file where that is possible, else a copy. There must be nothing at `target`."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError:
        shutil.copy(source, target)


def _replace(target: Path, *, by: Path) -> None:
    """At once: whoever reads `target` has the old file or the new one."""
    # Not a name that another process, or one that was killed, may have given: there may be a file of the store.
    fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        _put(by, fresh)
        fresh.replace(target)
    finally:
        # To rename one name of a file to another of its names does nothing.
        fresh.unlink(missing_ok=True)
