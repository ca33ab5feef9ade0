"""Files of a delivery as they lie here: fetched once, and the same ever after, whatever becomes of them there."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from seamline.domain.errors import GateFailed
from seamline.files.stores.store import Store


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """`path`: where it was delivered, below the place of the source. `here`: its copy."""

    path: str
    here: Path
    size_bytes: int
    sha256: str


class _Hashed:
    """`Writable` that knows what was written."""

    def __init__(self, target: Path) -> None:
        self._file = target.open("wb")
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, content: bytes, /) -> int:
        self._hash.update(content)
        self.size += len(content)
        return self._file.write(content)

    def close(self) -> str:
        self._file.close()
        return self._hash.hexdigest()


def fetch(store: Store, paths: Iterable[str], into: Path) -> Mapping[str, FetchedFile]:
    """By path; one that is not there is missing."""
    found = dict[str, FetchedFile]()
    for number, path in enumerate(paths):
        here = into / f"{number:05d}"
        content = _Hashed(here)
        try:
            store.read(path, content)
        except FileNotFoundError:
            content.close()
            continue
        found[path] = FetchedFile(path, here, content.size, content.close())
    return found


def require_same(fetched: FetchedFile | None, *, path: str, sha256: str) -> FetchedFile:
    """GateFailed: the file is another one by now than when it was checked."""
    if fetched is None or fetched.sha256 != sha256:
        what = "is gone" if fetched is None else f"was rewritten: its sha256 was {sha256}, and is {fetched.sha256}"
        raise GateFailed(
            f"{path} {what} after it was checked",
            hint="nothing was published. A delivery must not change behind its flag: ask for a whole one, then clear"
            " the task",
        )
    return fetched
