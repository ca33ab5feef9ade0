"""The files of a table: where they lie, under names that no other attempt has, and that they are on the disk.

The warehouse is a folder of this machine. What a commit points to must have come to the disk before: a catalogue that
survives a power cut would else point to nothing.
"""

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seamline.domain.errors import TransientError

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


def url_of(path: Path) -> str:
    """As metadata names a file. Position deletes find their file by this very text."""
    return f"{_SCHEME}{path}"


def path_of(url: str) -> Path:
    """Of a file that any writer named: Spark leaves two slashes out."""
    return Path(url.removeprefix(_SCHEME).removeprefix("file:"))


def new_location(warehouse: str, namespace: str, table: str) -> Path:
    """A folder for one table, which no other table ever has: orphan removal works folder by folder."""
    readable = _PLAIN.sub("-", table)[:_READABLE_MAX]
    return namespace_folder(warehouse, namespace) / f"{readable}-{secrets.token_hex(4)}"


def namespace_folder(warehouse: str, namespace: str) -> Path:
    return Path(warehouse).absolute() / _PLAIN.sub("-", namespace)


class NewFiles:
    """The files that one attempt writes for one table. `mark` stands in each name, for people who look for it."""

    def __init__(self, location: str, mark: str) -> None:
        self._base = path_of(location)
        self._mark = f"{_PLAIN.sub('-', mark)}-{secrets.token_hex(6)}"
        self._made: list[Path] = []

    def data(self, ending: str) -> Path:
        return self._new("data", ending)

    def metadata(self, ending: str) -> Path:
        return self._new("metadata", ending)

    def beside(self, name: str) -> Path:
        """In the table's own folder, under a name that is unique by itself."""
        path = self._base / name
        self._made.append(path)
        return path

    def versioned(self, version: int) -> Path:
        """The name of a metadata file: clients read the version from its beginning."""
        path = self._base / "metadata" / f"{version:05d}-{self._mark}.metadata.json"
        return self._kept(path)

    def written(self, paths: Iterable[Path]) -> None:
        """Files that somebody else has written for this attempt."""
        self._made += paths

    def synced(self) -> None:
        """Return once all that was written is on the disk."""
        # Also the folders above: one of a partition may be new.
        folders = (parent for path in self._made for parent in path.relative_to(self._base).parents)
        for path in (*self._made, *(self._base / folder for folder in dict.fromkeys(folders))):
            sync(path)

    def drop(self, paths: Iterable[Path] | None = None) -> None:
        """Delete what was written: nothing points to it."""
        for path in list(self._made if paths is None else paths):
            with suppress(FileNotFoundError):
                path.unlink()
            self._made.remove(path)

    def _new(self, folder: str, ending: str) -> Path:
        return self._kept(self._base / folder / f"{self._mark}-{len(self._made)}{ending}")

    def _kept(self, path: Path) -> Path:
        # Not the table's own folder: where that is missing, the warehouse is not mounted.
        path.parent.mkdir(exist_ok=True)
        self._made.append(path)
        return path


def sync(path: Path) -> None:
    """Of a file its content, of a folder its names."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
