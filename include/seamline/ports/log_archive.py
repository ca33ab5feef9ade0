"""The archive of one log topic, as maintenance and readers of the log need it."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from seamline.domain.log_archive import Archived, ArchivedPart, LogMessage


class RawLog(Protocol):
    """The messages of one log topic as they stand there."""

    def read(self, begins: int, ends: int) -> Iterator[Sequence[LogMessage]]:
        """All that are in `[begins, ends)`, in order and some at a time; `ends` is at most the log's own.

        PositionLost: the log no longer has the first of them. TransientError: they do not come in time.
        """


class LogArchive(Protocol):
    """TransientError: its place does not answer. ConfigError: nothing leads to it."""

    def archived(self) -> Archived:
        """What is committed now."""

    def extend(self, log_begins: int, below: int) -> Archived:
        """Write all records of the log below an offset (exclusive) that are not archived yet; what is then committed
        was read back. It may end before `below`, where no record is between.

        A repeat goes on where the last attempt was ended, at whatever point that was. PositionLost: between archive and
        log records are missing; GateFailed: what was read back is not what was written.
        """

    def expire(self, *, keep_days: float, needed_from: int) -> Sequence[ArchivedPart]:
        """Remove the oldest parts that are older than the keep (0: none) and end at or before the offset that somebody
        still needs. Which they were; a repeat finds none."""

    def close(self) -> None: ...
