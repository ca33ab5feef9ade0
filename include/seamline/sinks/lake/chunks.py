"""Chunks of a transaction that is larger than memory, on this machine's disk until the transaction's one commit.

They lie beside no table: a worker that dies takes them along, and the transaction is read again.
"""

import pickle
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from seamline.domain.errors import TransientError
from seamline.values.changes import ChangeBatch


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """A batch in memory, or where it lies; and by what it is ordered."""

    chunk: int
    truncate_first: bool
    held: ChangeBatch | Path

    @classmethod
    def of(cls, batch: ChangeBatch, *, at: Path | None = None) -> "StagedBatch":
        return cls(batch.chunk, batch.truncate_first, at or batch)

    def read(self) -> ChangeBatch:
        if isinstance(self.held, ChangeBatch):
            return self.held
        try:
            return cast(ChangeBatch, pickle.loads(self.held.read_bytes()))
        except FileNotFoundError as exc:
            raise TransientError("spilled rows are gone", hint="the span is read again") from exc


class ChunkFolder:
    """Those of one stream's owner."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def put(self, batch: ChangeBatch) -> StagedBatch:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="seamline-chunks-")
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}"
        path.write_bytes(pickle.dumps(batch, protocol=pickle.HIGHEST_PROTOCOL))
        return StagedBatch.of(batch, at=path)

    @staticmethod
    def drop(staged: Iterable[StagedBatch]) -> None:
        """Those that are committed. Others may have been staged meanwhile."""
        for one in staged:
            if isinstance(one.held, Path):
                one.held.unlink(missing_ok=True)

    def empty(self) -> None:
        """Drop all: they are of an older epoch."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def in_order(staged: Iterable[StagedBatch]) -> Iterator[ChangeBatch]:
    """The batches of one table: chunks of a transaction in their order, then what comes behind them; one in memory at a
    time.

    A truncate undoes every chunk before it, so these are not looked at.
    """
    ordered = sorted(staged, key=lambda one: (one.chunk == 0, one.chunk))
    first = max((number for number, one in enumerate(ordered) if one.truncate_first), default=0)
    for one in ordered[first:]:
        yield one.read()
