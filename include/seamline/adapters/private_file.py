"""Files that only their owner reads."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """One process at a time reads a file of this folder and writes it back."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def others_may_read(file: Path) -> bool:
    """By libpq's rule: one that root owns may be read by its group, as secrets of a container are."""
    found = file.stat()
    return bool(found.st_mode & (0o027 if found.st_uid == 0 else 0o077))


def write_private(path: Path, content: str | bytes) -> None:
    """Replace a file in one step; at no moment can another user read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)
