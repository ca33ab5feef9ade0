"""Chunks of a transaction that is larger than memory, in files until its commit."""

import pickle
import tempfile
from pathlib import Path

from seamline.values.changes import ChangeBatch


class SpilledBatches:
    """In a folder that goes with this object."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def put(self, batch: ChangeBatch) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="seamline-changes-")
        self._count += 1
        path = Path(self._folder.name, str(self._count))
        path.write_bytes(pickle.dumps(batch, pickle.HIGHEST_PROTOCOL))
        return path

    def drop(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def read_spilled(path: Path) -> ChangeBatch:
    """Written by this process into a folder of its own."""
    batch = pickle.loads(path.read_bytes())
    assert isinstance(batch, ChangeBatch)
    return batch
