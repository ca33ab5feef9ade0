"""What of a log topic lies in its archive. Pure.

Offsets are those of the log topic and half-open, as everywhere: a part holds all records in `[begins, ends)`. Parts
follow each other without a gap: each begins where the one before it ends.
"""

import hashlib
import struct
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from seamline.domain.errors import GateFailed, PositionLost

_DAY_MS = 86_400_000


class LogMessage(Protocol):
    """One message of the log topic as it stands there, from Kafka's client or from the archive."""

    def offset(self) -> int | None: ...

    def timestamp(self) -> tuple[int, int]:
        """(What it is of, milliseconds since the epoch)."""

    def key(self) -> bytes | None: ...

    def value(self) -> bytes | None: ...

    def headers(self) -> Any:
        """(name, value) pairs, or None."""


@dataclass(frozen=True, slots=True)
class ArchivedPart:
    """One file of the archive, as it was found to be when it was read back.

    `first`, `last`: offsets of its first and its last record; the log has holes between records. `digest`: of all of
    its messages, in hex. `newest_ms`: the youngest time that Kafka has for one of them. `bytes_so_far`: of this file
    and all before it, also of those that are gone by now.
    """

    begins: int
    ends: int
    records: int
    first: int
    last: int
    digest: str
    newest_ms: int
    size_bytes: int
    bytes_so_far: int


@dataclass(frozen=True, slots=True)
class Archived:
    """The whole archive of one log topic. `begins` is `ends` where nothing was archived yet."""

    begins: int
    ends: int
    parts: int = 0
    size_bytes: int = 0

    def reaches(self, offset: int, log_begins: int) -> bool:
        """Whether a reader comes from this offset on to the log without missing a record."""
        return self.begins <= offset < self.ends and log_begins <= self.ends


def part_to_json(part: ArchivedPart) -> dict[str, Any]:
    return asdict(part)


def part_from_json(document: dict[str, Any]) -> ArchivedPart:
    """KeyError, TypeError: it is none."""
    return ArchivedPart(**document)


class MessagesDigest:
    """Of messages in their order: sha256 over offset, time, key, value and headers of each."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.records = 0
        self.first = self.last = -1
        self.newest_ms = 0

    def add(self, message: LogMessage) -> None:
        offset, (_, time_ms) = message.offset() or 0, message.timestamp()
        self._hash.update(struct.pack(">qq", offset, time_ms))
        headers = message.headers() or ()
        for content in (message.key(), message.value()):
            self._add(content)
        self._hash.update(struct.pack(">i", len(headers)))
        for name, content in headers:
            self._add(name.encode())
            self._add(content)
        self.first = offset if self.first < 0 else self.first
        self.last = offset
        self.newest_ms = max(self.newest_ms, time_ms)
        self.records += 1

    def hex(self) -> str:
        return self._hash.hexdigest()

    def _add(self, content: bytes | None) -> None:
        self._hash.update(struct.pack(">i", -1 if content is None else len(content)))
        self._hash.update(content or b"")


def require_same(part: ArchivedPart, found: MessagesDigest, file: str) -> None:
    """GateFailed: a file holds other records than are expected of it."""
    wanted = (part.records, part.first, part.last, part.digest)
    if wanted == (found.records, found.first, found.last, found.hex()):
        return
    raise GateFailed(
        f"{file} of the archive holds {found.records} records from offset {found.first} to {found.last}, with other"
        f" content than the log had: {part.records} records from {part.first} to {part.last} were expected",
        hint="keep the file as evidence and put it back from a copy. If its records are still in the log, move it away:"
        " the next maintenance writes it again",
    )


def require_no_gap(topic: str, archived: Archived, log_begins: int) -> None:
    """PositionLost: between the archive and the log records are missing."""
    if archived.parts and archived.ends < log_begins:
        raise PositionLost(
            f"the archive of {topic} ends before offset {archived.ends} and the log begins at {log_begins}: the"
            f" {log_begins - archived.ends} offsets between them are in neither",
            hint="the log was pruned without its archive. Declare another `log.archive.location`, or move the folder of"
            " this topic id away: a new archive begins where the log begins",
        )


def may_go(part: ArchivedPart, newest: ArchivedPart, *, keep_days: float, needed_from: int) -> bool:
    """Whether all records of a part are older than the keep, measured back from the newest archived record, and nobody
    needs one. The newest part never goes: it says where the archive goes on."""
    if not keep_days or part.begins == newest.begins:
        return False
    return part.newest_ms < newest.newest_ms - keep_days * _DAY_MS and part.ends <= needed_from
