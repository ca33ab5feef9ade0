"""A registry of three small jars, in memory."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from seamline.stack import jars
from seamline.stack.jars import LockedFile

CONTENT = {"kafka/a-1.jar": b"alpha", "kafka/b-2.jar": b"beta", "spark/c-3.jar": b"gamma"}
LOCKED = tuple(LockedFile(path, hashlib.sha256(body).hexdigest(), len(body)) for path, body in CONTENT.items())


class Registry:
    """Serves files as Ivy would; `spoiled` names those that arrive wrong, and how many times."""

    def __init__(self, spoiled: dict[str, int] | None = None) -> None:
        self.asked: list[list[str]] = []
        self._spoiled = dict(spoiled or {})

    def __call__(self, configurations: Iterable[str], into: Path) -> None:
        self.asked.append(list(configurations))
        for path, content in CONTENT.items():
            if path.split("/")[0] not in self.asked[-1]:
                continue
            target = into / path
            target.parent.mkdir(parents=True, exist_ok=True)
            is_spoiled = self._spoiled.get(path, 0) > 0
            self._spoiled[path] = self._spoiled.get(path, 0) - 1
            target.write_bytes(b"tampered" if is_spoiled else content)


def on_disk(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != jars.RECEIPT]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
