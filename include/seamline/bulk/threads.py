"""The tasks of a bulk read without Spark: `bulk_read.Copying` for small tables."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from seamline.adapters.children import Children
from seamline.bulk.copy import Copied, CopyGroup, copy_group

# Two processes copy so many in a second or two; a local Spark takes eight to start.
_SMALL_ROWS = 200_000


def is_small(groups: Sequence[CopyGroup]) -> bool:
    """Whether all tables together have few rows, as far as their source knows."""
    items = (item for group in groups for items in group.participants for item in items)
    return sum(item.read.table.rows_estimate for item in items) <= _SMALL_ROWS


class CopyingHere:
    """The tasks of a read as threads of this process; their readers are child processes all the same."""

    def __init__(self, groups: Sequence[CopyGroup]) -> None:
        self._groups = groups
        self._pool = ThreadPoolExecutor(len(groups))
        self._futures: list[Future[list[Copied]]] = []
        self._children: list[Children] = []
        self._is_cancelled = False

    def start(self) -> None:
        self._futures = [self._pool.submit(copy_group, group, began=self._began) for group in self._groups]

    def is_running(self) -> bool:
        return any(not future.done() for future in self._futures)

    def wait(self, timeout_s: float) -> None:
        wait(self._futures, timeout=timeout_s)

    def result(self) -> list[Copied]:
        return [one for future in self._futures for one in future.result()]

    def cancel(self) -> None:
        self._is_cancelled = True
        for children in list(self._children):
            children.kill()
        self._pool.shutdown(wait=True)

    def _began(self, children: Children) -> None:
        self._children.append(children)
        if self._is_cancelled:
            children.kill()
