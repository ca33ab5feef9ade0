"""The tasks of a bulk read without Spark: `bulk_read.Copying` for small tables."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from seamline.bulk.copy import Copied, CopyGroup, copy_group


class CopyingHere:
    """The tasks of a read as threads of this process; their readers are child processes all the same."""

    def __init__(self, groups: Sequence[CopyGroup]) -> None:
        self._groups = groups
        self._pool = ThreadPoolExecutor(len(groups))
        self._futures: list[Future[list[Copied]]] = []

    def start(self) -> None:
        self._futures = [self._pool.submit(copy_group, group) for group in self._groups]

    def is_running(self) -> bool:
        return any(not future.done() for future in self._futures)

    def wait(self, timeout_s: float) -> None:
        wait(self._futures, timeout=timeout_s)

    def result(self) -> list[Copied]:
        return [one for future in self._futures for one in future.result()]

    def cancel(self) -> None:
        self._pool.shutdown(wait=True)
