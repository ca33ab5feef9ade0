"""The rows of a table, read once and handed to several loads at the same time. One that fails ends no other."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Generic, TypeVar

from seamline.domain.errors import SeamlineError
from seamline.kinds.bulk import ArrowRows, PostgresCopy, TableRows
from seamline.sync.outcomes import outcome_of

if TYPE_CHECKING:
    import pyarrow as pa

PartT = TypeVar("PartT")
Load = Callable[[TableRows], int]
# Parts (batches, blocks) that may wait for one load. The slowest sets the pace, and no row is kept longer than that.
_AHEAD = 2
_LOOK_EVERY_S = 0.5


class _Ended(Exception):
    """The read has failed: this load ends as well, and its own end says nothing."""


class _Branch(Generic[PartT]):
    """What one load reads: the parts as they come, until the last, or until the read has failed."""

    def __init__(self) -> None:
        self._queue: Queue[PartT | None] = Queue(_AHEAD)
        self._is_over = False

    def put(self, part: PartT | None, *, load: "Future[int]") -> None:
        """Waits while the load is behind; returns at once where it has ended."""
        while not load.done():
            try:
                self._queue.put(part, timeout=_LOOK_EVERY_S)
            except Full:
                continue
            return

    def end(self) -> None:
        self._is_over = True

    def parts(self) -> Iterator[PartT]:
        while True:
            try:
                part = self._queue.get(timeout=_LOOK_EVERY_S)
            except Empty:
                if self._is_over:
                    raise _Ended from None
                continue
            if part is None:
                return
            yield part


def load_each(rows: TableRows, loads: Sequence[Load]) -> list[int | SeamlineError]:
    """What each load returns for all of `rows`, which is read once, or the error that ended it.

    Raised: an error of the read, InvariantViolated, and what is no error of Seamline. Where every load has ended by an
    error, the rest is not read. Loads of several destinations run in threads; a single one runs here, as if it had been
    called.
    """
    if len(loads) == 1:
        return [_alone(rows, loads[0])]
    if isinstance(rows, PostgresCopy):
        return _in_threads(rows.blocks, [partial(_load_blocks, load) for load in loads])
    return _in_threads(rows.batches, [partial(_load_batches, load, rows) for load in loads])


class _Read(Generic[PartT]):
    """The parts as they come, and whether they have ended by an error."""

    def __init__(self, parts: Iterator[PartT]) -> None:
        self._parts = parts
        self.has_failed = False

    def parts(self) -> Iterator[PartT]:
        while True:
            try:
                part = next(self._parts, None)
            except BaseException:
                self.has_failed = True
                raise
            if part is None:
                return
            yield part


def _alone(rows: TableRows, load: Load) -> int | SeamlineError:
    read: _Read[bytes] | _Read[pa.RecordBatch]
    if isinstance(rows, PostgresCopy):
        read = blocks = _Read(rows.blocks)
        outcome = outcome_of(lambda: load(PostgresCopy(blocks.parts())))
    else:
        read = batches = _Read(rows.batches)
        outcome = outcome_of(lambda: load(replace(rows, batches=batches.parts())))
    if read.has_failed and isinstance(outcome, SeamlineError):
        raise outcome
    return outcome


def _load_blocks(load: Load, blocks: Iterator[bytes]) -> int:
    return load(PostgresCopy(blocks))


def _load_batches(load: Load, rows: ArrowRows, batches: "Iterator[pa.RecordBatch]") -> int:
    return load(replace(rows, batches=batches))


def _in_threads(parts: Iterator[PartT], loads: Sequence[Callable[[Iterator[PartT]], int]]) -> list[int | SeamlineError]:
    branches: list[_Branch[PartT]] = [_Branch() for _ in loads]
    with ThreadPoolExecutor(len(loads), thread_name_prefix="load") as pool:
        running = [pool.submit(load, branch.parts()) for load, branch in zip(loads, branches, strict=True)]
        try:
            for part in parts:
                _hand_over(part, branches, running)
                if all(load.done() for load in running):
                    break  # no load ends before its last part, but by an error
            else:
                _hand_over(None, branches, running)
            wait(running)
        finally:
            for branch in branches:
                branch.end()
    return _results(running)


def _hand_over(part: PartT | None, branches: Sequence[_Branch[PartT]], running: "Sequence[Future[int]]") -> None:
    for branch, load in zip(branches, running, strict=True):
        branch.put(part, load=load)


def _results(running: "Sequence[Future[int]]") -> list[int | SeamlineError]:
    return [outcome_of(load.result) for load in running]
