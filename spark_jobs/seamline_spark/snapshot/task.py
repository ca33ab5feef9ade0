"""What a Spark task of a snapshot does. Runs in a Python worker on an executor."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from seamline.bulk.copy import Copied, CopyGroup, copy_group
from seamline.domain.errors import SeamlineError


@dataclass(frozen=True, slots=True)
class Outcome:
    """Failure is a result: raised, it would be a text of Spark's, and no error of ours any more."""

    copied: tuple[Copied, ...] = ()
    error: SeamlineError | None = None


def copy_partition(groups: Iterable[CopyGroup]) -> Iterator[Outcome]:
    for group in groups:
        try:
            yield Outcome(tuple(copy_group(group)))
        except SeamlineError as exc:
            yield Outcome(error=exc)
