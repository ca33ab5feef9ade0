"""The files of a table: where they lie, under names that no other attempt has, and that they are on the disk.

What a commit points to must have come to the disk before: a catalogue that survives a power cut would else point to
nothing. A store (`stores.py`) has what it has once a file is closed.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from seamline.domain.errors import Refused, TransientError
from seamline.sinks.lake.stores import FilePath, Status, StoredPath, is_stored, opened

_SCHEME = "file://"
_PLAIN = re.compile(r"[^A-Za-z0-9_]+")
_READABLE_MAX = 40


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Errors of the file system leave as Seamline's: a disk that is full or away may recover."""
    try:
        yield
    except OSError as exc:
        raise TransientError(
            f"cannot {doing}: {exc}",
            hint="it is tried again; if it stays, look at the warehouse: is it there, is it full, may this login write",
        ) from exc


def root_of(warehouse: str | FilePath, connection: str = "") -> FilePath:
    """The warehouse of a declaration. `connection`: id of what leads to a store."""
    if not isinstance(warehouse, str):
        return warehouse
    return opened(warehouse, connection) if is_stored(warehouse) else Path(warehouse).absolute()


def local(path: FilePath) -> Path:
    """For what needs a folder of this machine, as hard links. Refused: it lies in a store."""
    if isinstance(path, StoredPath):
        raise Refused(f"{path} lies in a store", hint="tables of this format lie in a folder")
    return path


def url_of(path: FilePath) -> str:
    """As metadata names a file. Position deletes find their file by this very text."""
    return f"{_SCHEME}{path}" if isinstance(path, Path) else str(path)


def path_of(url: str) -> Path:
    """Of a file that any writer named: Spark leaves two slashes out."""
    return Path(url.removeprefix(_SCHEME).removeprefix("file:"))


def new_location(warehouse: str | FilePath, namespace: str, table: str) -> FilePath:
    """A folder for one table, which no other table ever has: orphan removal works folder by folder."""
    readable = _PLAIN.sub("-", table)[:_READABLE_MAX]
    return namespace_folder(warehouse, namespace) / f"{readable}-{secrets.token_hex(4)}"


def namespace_folder(warehouse: str | FilePath, namespace: str) -> FilePath:
    return root_of(warehouse) / _PLAIN.sub("-", namespace)


class NewFiles:
    """The files that one attempt writes for one table. `mark` stands in each name, for people who look for it."""

    def __init__(self, location: str | FilePath, mark: str) -> None:
        self._folder = path_of(location) if isinstance(location, str) else location
        self._mark = f"{_PLAIN.sub('-', mark)}-{secrets.token_hex(6)}"
        self._made: list[FilePath] = []

    def data(self, ending: str) -> FilePath:
        return self._new("data", ending)

    def metadata(self, ending: str) -> FilePath:
        return self._new("metadata", ending)

    def beside(self, name: str) -> FilePath:
        """In the table's own folder, under a name that is unique by itself."""
        path = self._folder / name
        self._made.append(path)
        return path

    def versioned(self, version: int) -> FilePath:
        """The name of a metadata file: clients read the version from its beginning."""
        path = self._folder / "metadata" / f"{version:05d}-{self._mark}.metadata.json"
        return self._kept(path)

    def written(self, paths: Iterable[FilePath]) -> None:
        """Files that somebody else has written for this attempt."""
        self._made += paths

    def synced(self) -> None:
        """Return once all that was written is on the disk."""
        if isinstance(self._folder, StoredPath):
            return
        made = list(map(local, self._made))
        # Also the folders above: one of a partition may be new.
        folders = (parent for path in made for parent in path.relative_to(self._folder).parents)
        for path in (*made, *(self._folder / folder for folder in dict.fromkeys(folders))):
            sync(path)

    def drop(self, paths: Iterable[FilePath] | None = None) -> None:
        """Delete what was written: nothing points to it."""
        for path in list(self._made if paths is None else paths):
            remove(path)
            self._made.remove(path)

    def _new(self, folder: str, ending: str) -> FilePath:
        return self._kept(self._folder / folder / f"{self._mark}-{len(self._made)}{ending}")

    def _kept(self, path: FilePath) -> FilePath:
        # Not the table's own folder: where that is missing, the warehouse is not mounted.
        if isinstance(path, Path):
            path.parent.mkdir(exist_ok=True)
        self._made.append(path)
        return path


def make_folder(path: FilePath) -> None:
    """With those above it. A store has folders by their files."""
    if isinstance(path, Path):
        path.mkdir(parents=True, exist_ok=True)


def remove(path: FilePath) -> None:
    """A repeat changes nothing."""
    if isinstance(path, Path):
        path.unlink(missing_ok=True)
    else:
        path.remove()


def remove_folder(path: FilePath) -> None:
    """With all that lies in it, as far as it goes."""
    if isinstance(path, Path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.remove_folder()


def remove_marked(folder: FilePath, mark: str) -> bool:
    """A folder with all that lies in it, the file `mark` last: what is left of it, also by a process that was killed,
    is known by that. Whether all of it is gone."""
    for path in content(folder):
        if path.name == mark:
            continue
        if path.is_dir():
            remove_folder(path)
        else:
            remove(path)
    if any(path.name != mark for path in content(folder)):
        return False
    remove(folder / mark)
    remove_empty(folder)
    return True


def draft_name(name: str) -> str:
    """Under which `write_whole` writes a file before it has its name."""
    return f".{name}"


def content(folder: FilePath) -> list[FilePath]:
    """What lies right there, nothing where it is missing."""
    return list(folder.iterdir()) if folder.is_dir() else []


def files_in(folder: FilePath) -> Iterator[tuple[FilePath, os.stat_result | Status]]:
    """The files right there, with size and time. One that goes meanwhile is left out."""
    if isinstance(folder, StoredPath):
        yield from folder.files()
        return
    for path in content(folder):
        with suppress(FileNotFoundError):
            yield path, path.stat()


def remove_empty(folder: FilePath) -> None:
    """One in which something lies stays."""
    if isinstance(folder, StoredPath):
        if not any(folder.iterdir()):
            folder.remove_folder()
        return
    with suppress(OSError):
        folder.rmdir()


def write_whole(path: FilePath, text: str) -> None:
    """Whole or not at all, in place of what was there."""
    if isinstance(path, StoredPath):
        path.write_whole(text)
        return
    draft = path.with_name(draft_name(path.name))
    draft.write_text(text, encoding="utf-8")
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def for_arrow(path: FilePath) -> tuple[Any, Any]:
    """The file and its file system, as functions of pyarrow take them."""
    return (path, None) if isinstance(path, Path) else (path.path, path.filesystem)


def sync(path: FilePath) -> None:
    """Of a file its content, of a folder its names."""
    if isinstance(path, StoredPath):
        return
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
