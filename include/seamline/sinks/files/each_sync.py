"""Maintenance of a place that several syncs have: what is wrong with one of them keeps no other from it."""

from collections.abc import Callable, Iterable

from seamline.domain.errors import SeamlineError


def of_each(syncs: Iterable[str], maintain: Callable[[str], int]) -> tuple[int, tuple[SeamlineError, ...]]:
    """How many files left, and why single syncs were not maintained to the end, each by name."""
    gone, failed = 0, list[SeamlineError]()
    for sync in syncs:
        try:
            gone += maintain(sync)
        except SeamlineError as exc:
            exc.sync = exc.sync or sync
            failed.append(exc)
    return gone, tuple(failed)
