"""Files that only their owner reads."""

import os
from pathlib import Path


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
