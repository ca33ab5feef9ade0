"""One reader through the archive and then the log, which whoever reads the log need not know from a reader of it."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Protocol

from seamline.adapters.debezium.envelope import Decoder
from seamline.archive.part_file import ArchivedMessage
from seamline.archive.stored import StoredArchive
from seamline.domain.errors import LogCorrupted, PositionLost
from seamline.domain.log import LogRecord
from seamline.ports import LogReader


class ReaderOfTheLog(LogReader, Protocol):
    """What is read where the archive ends. `decoder` is the one of its records: a transaction may cross the seam."""

    decoder: Decoder

    def begins(self) -> int:
        """The first offset that the log still has."""


class ArchivedLogReader:
    """`ports.LogReader`. The archive is opened only for an offset that the log has no longer.

    A file of the archive that is not the one that was written raises GateFailed, one that is gone PositionLost.
    """

    def __init__(self, log: ReaderOfTheLog, open_archive: Callable[[str], StoredArchive]) -> None:
        self.topic, self.topic_id = log.topic, log.topic_id
        self._log = log
        self._open_archive = open_archive
        self._archive: StoredArchive | None = None
        self._fetched: Iterator[Sequence[ArchivedMessage]] = iter(())
        self._messages: deque[ArchivedMessage] = deque()
        self._next_offset = 0
        self._pending: LogCorrupted | None = None

    def assign(self, offset: int) -> None:
        begins = self._log.begins()
        if offset >= begins:
            self._log.assign(offset)
            return
        self._archive = self._open_archive(self.topic_id)
        found = self._archive.archived()
        if not found.reaches(offset, begins):
            has = f"its archive holds offsets {found.begins} to {found.ends}" if found.parts else "its archive is empty"
            raise PositionLost(
                f"log topic {self.topic} begins at offset {begins}, wanted {offset}, and {has}",
                hint="neither the log nor its archive holds what this stream needs: onboard the sync again",
            )
        self._go_on(offset)

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        if self._pending is not None:
            raise self._pending
        while self._archive is not None:
            if messages := self._taken(records_max):
                return self._decoded(messages)
            self._leave(self._archive)
        return self._log.poll(timeout_s, records_max)

    def end_offset(self) -> int:
        return self._log.end_offset()

    def close(self) -> None:
        with closing(self._log):
            if self._archive is not None:
                self._archive.close()

    def _go_on(self, offset: int) -> None:
        assert self._archive is not None
        self._next_offset = offset
        self._fetched = self._archive.messages(offset)

    def _taken(self, records_max: int) -> list[ArchivedMessage]:
        if not self._messages:
            self._messages.extend(next(self._fetched, ()))
        count = min(records_max, len(self._messages))
        return [self._messages.popleft() for _ in range(count)]

    def _decoded(self, messages: Sequence[ArchivedMessage]) -> list[LogRecord]:
        records: list[LogRecord] = []
        self._next_offset = messages[-1].at + 1
        try:
            self._log.decoder.decode(messages, records)
        except LogCorrupted as exc:
            # What comes before it is handed over first, as from the log.
            self._pending = exc
            if not records:
                raise
        return records

    def _leave(self, archive: StoredArchive) -> None:
        """Go on in the log; or in the archive, if the log was pruned while this was read."""
        begins = self._log.begins()
        if begins <= self._next_offset:
            # First: where the log is away, the next poll comes here again.
            self._log.assign(self._next_offset)
            self._archive = None
            archive.close()
            return
        found = archive.archived()
        if not found.reaches(self._next_offset, begins):
            raise PositionLost(
                f"between the archive of {self.topic}, read up to offset {self._next_offset}, and the log, which begins"
                f" at {begins}, records are missing",
                hint="onboard the sync again",
            )
        self._go_on(self._next_offset)
