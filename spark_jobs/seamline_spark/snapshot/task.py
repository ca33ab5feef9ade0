"""What a Spark task of a snapshot does. Runs in a Python worker on an executor."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyspark import TaskContext

from seamline.bulk.copy import Copied, CopyGroup, copy_group
from seamline.domain.errors import SeamlineError, TransientError


@dataclass(frozen=True, slots=True)
class Outcome:
    """Failure is a result: raised, Spark would run the task again, and its sessions cannot be opened a second time."""

    copied: tuple[Copied, ...] = ()
    error: SeamlineError | None = None


def copy_partition(groups: Iterable[CopyGroup]) -> Iterator[Outcome]:
    for group in groups:
        yield _copied(group)


def _copied(group: CopyGroup) -> Outcome:
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        return Outcome(
            error=TransientError(
                "a worker of this read was lost, and with it its sessions at the one position",
                hint="the task reads again at a new position; nothing of this attempt was published",
            )
        )
    try:
        return Outcome(tuple(copy_group(group)))
    except SeamlineError as exc:
        return Outcome(error=exc)
