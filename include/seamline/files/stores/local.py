"""A folder of this machine, or one that is mounted here. Names are given by hard links, which never overwrite."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from seamline.domain.errors import TransientError
from seamline.files.stores.drafts import draft_of
from seamline.files.stores.store import Sendable, Writable


class LocalStore:
    """`store.Store` below a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> Sequence[str]:
        with self._translated(f"list {folder or 'the folder'}"):
            try:
                return sorted(path.name for path in (self._root / folder).iterdir())
            except FileNotFoundError:
                self._require_root()
                return ()

    def size(self, path: str) -> int | None:
        with self._translated(f"look for {path}"):
            try:
                return (self._root / path).stat().st_size
            except FileNotFoundError:
                self._require_root()
                return None

    def write(self, path: str, content: Sendable) -> None:
        with self._translated(f"write {path}"):
            target = self._made(path)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file)
                file.flush()
                os.fsync(file.fileno())
            _sync(target.parent)

    def read(self, path: str, into: Writable) -> None:
        with self._translated(f"read {path}"), (self._root / path).open("rb") as file:
            shutil.copyfileobj(file, into)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        with self._translated(f"write {path}"):
            target = self._made(path)
            draft = target.with_name(draft_of(target.name))
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            try:
                return _linked(draft, target)
            finally:
                draft.unlink()

    def read_put(self, path: str) -> bytes:
        with self._translated(f"read {path}"):
            return (self._root / path).read_bytes()

    def place(self, source: str, target: str) -> bool:
        with self._translated(f"place {target}"):
            return _linked(self._root / source, self._made(target))

    def remove(self, path: str) -> None:
        with self._translated(f"remove {path}"):
            (self._root / path).unlink(missing_ok=True)

    def remove_folder(self, folder: str) -> None:
        with self._translated(f"remove {folder}"):
            if (self._root / folder).exists():
                shutil.rmtree(self._root / folder)

    def drop_unfinished(self, folder: str, before: datetime) -> int:  # noqa: ARG002
        """None: each is a file of its attempt."""
        return 0

    def close(self) -> None:
        return

    def _made(self, path: str) -> Path:
        """With the folders above it. Not the root: where that is missing, it is not mounted."""
        target = self._root / path
        for folder in [*reversed(target.relative_to(self._root).parents)][1:]:
            if not (self._root / folder).is_dir():
                (self._root / folder).mkdir(exist_ok=True)
                _sync((self._root / folder).parent)
        return target

    def _require_root(self) -> None:
        """Of a place that is away nobody knows what is there."""
        if not self._root.is_dir():
            raise TransientError(f"{self._root} is no folder here", hint="make it, or mount it where it lies")

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            self._require_root()
            raise
        except OSError as exc:
            raise TransientError(
                f"cannot {doing} in {self._root}: {exc}",
                hint="it is tried again; if it stays: is the folder there, is it full, may this login write",
            ) from exc


def _linked(source: Path, target: Path) -> bool:
    try:
        target.hardlink_to(source)
    except FileExistsError:
        return False
    _sync(target.parent)
    return True


def _sync(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
