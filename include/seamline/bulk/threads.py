"""The tasks of a bulk read without Spark: `bulk_read.Copying` for small tables."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from seamline.adapters.children import Children
from seamline.bulk.copy import Copied, CopyGroup, CopyItem, copy_group

# At the same time. Each of them begins as many processes as it has tables, up to a bound.
READERS_HERE = 2
# Two processes copy so many in a second or two; a local Spark takes eight to start.
_SMALL_ROWS = 200_000


def is_small(items: Iterable[CopyItem]) -> bool:
    """Whether all tables together have few rows, as far as their source knows."""
    return sum(item.read.table.rows_estimate for item in items) <= _SMALL_ROWS


class CopyingHere:
    """The tasks of a read as threads of this process; their readers are child processes all the same."""

    def __init__(self, groups: Sequence[CopyGroup]) -> None:
        self._groups = groups
        self._pool = ThreadPoolExecutor(len(groups))
        self._futures: list[Future[list[Copied]]] = []
        self._children: list[Children] = []
        self._is_cancelled = False
        self._first_error: BaseException | None = None

    def start(self) -> None:
        self._futures = [self._pool.submit(copy_group, group, began=self._began) for group in self._groups]
        for future in self._futures:
            future.add_done_callback(self._ended)

    def is_running(self) -> bool:
        return any(not future.done() for future in self._futures)

    def wait(self, timeout_s: float) -> None:
        wait(self._futures, timeout=timeout_s)

    def result(self) -> list[Copied]:
        """What was copied, or the error that came first: those behind it are of readers that were ended for it."""
        if self._first_error is not None:
            raise self._first_error
        return [one for future in self._futures for one in future.result()]

    def cancel(self) -> None:
        self._kill()
        self._pool.shutdown(wait=True)

    def _kill(self) -> None:
        self._is_cancelled = True
        for children in list(self._children):
            children.kill()

    def _ended(self, future: Future[list[Copied]]) -> None:
        """The others wait for one that has failed, or copy what nobody will publish."""
        if future.exception() is not None and not self._is_cancelled:
            self._first_error = future.exception()
            self._kill()

    def _began(self, children: Children) -> None:
        self._children.append(children)
        if self._is_cancelled:
            children.kill()
