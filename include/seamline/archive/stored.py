"""The archive of one log topic in a folder or on S3: `ports.log_archive.LogArchive` (ADR 85)."""

import logging
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from seamline.adapters.debezium.envelope import Decoder
from seamline.archive.described import Described, Describer, fill_in_commits
from seamline.archive.manifest import Manifest, at_the_same_time
from seamline.archive.part_file import ArchivedMessage, read_part, write_part
from seamline.domain.errors import LogCorrupted, PositionLost, TransientError
from seamline.domain.log_archive import (
    Archived,
    ArchivedPart,
    LogMessage,
    MessagesDigest,
    may_go,
    require_no_gap,
    require_same,
)
from seamline.files.stores.store import Store
from seamline.ports.log_archive import RawLog

log = logging.getLogger(__name__)

# RFC 4648, section 5.
_FOR_NAMES = str.maketrans("+/", "-_")


@dataclass(frozen=True, slots=True)
class PartLimits:
    """How much of the log becomes one file; a transaction ends in it where one ends at all."""

    bytes_max: int = 64 << 20
    records_max: int = 250_000


class StoredArchive:
    """`topic` and `topic_id` name its folder: a topic that is made again has an archive of its own. That asks the store
    where the id has a slash."""

    def __init__(
        self,
        store: Store,
        topic: str,
        topic_id: str,
        *,
        log: RawLog,
        open_decoder: Callable[[], Decoder],
        limits: PartLimits | None = None,
    ) -> None:
        self._store = store
        self._topic = topic
        self._log = log
        self._open_decoder = open_decoder
        self._limits = limits or PartLimits()
        self._manifest = Manifest(store, _folder(store, topic, topic_id))

    def archived(self) -> Archived:
        return self._manifest.archived()

    def extend(self, log_begins: int, below: int) -> Archived:
        found = self.archived()
        require_no_gap(self._topic, found, log_begins)
        at = found.ends if found.parts else log_begins
        at = self._clean(at, below)
        describer = Describer(self._open_decoder)
        for part in _parts(self._messages(describer, at, below), self._limits):
            ends = part[-1].message.offset() or 0
            at = self._write(part, at, ends + 1)
        return self.archived()

    def expire(self, *, keep_days: float, needed_from: int) -> Sequence[ArchivedPart]:
        if not keep_days:
            return ()
        gone = []
        beginnings = self._manifest.beginnings()
        newest = self._manifest.part(beginnings[-1]) if beginnings else None
        for begins in beginnings:
            part = self._manifest.part(begins)
            if newest is None or not may_go(part, newest, keep_days=keep_days, needed_from=needed_from):
                break
            self._manifest.remove(part)
            gone.append(part)
        return gone

    def close(self) -> None:
        self._store.close()

    # ---- reading ---------------------------------------------------------------------------------------------------

    def messages(self, since: int) -> Iterator[Sequence[ArchivedMessage]]:
        """All that is archived from this offset on, some at a time. GateFailed: a file is not the one that was written;
        nothing of that file was handed over then. PositionLost: a file is gone."""
        for part in self._manifest.parts(since):
            file = self._manifest.file_of(part.begins, part.ends)
            with self._fetched(file) as path:
                require_same(part, _digest_of(read_part(path)), file)
                for some in read_part(path):
                    if wanted := [message for message in some if message.at >= since]:
                        yield wanted

    # ---- writing ---------------------------------------------------------------------------------------------------

    def _clean(self, at: int, below: int) -> int:
        """Remove what dead attempts have left. A whole file that only lacks its entry is taken; returns where the
        archive goes on."""
        self._store.remove_folder(self._manifest.drafts)
        beginnings = self._manifest.beginnings()
        committed = set(zip(beginnings, [*beginnings[1:], at], strict=True)) if beginnings else set()
        for begins, ends in self._manifest.files():
            if (begins, ends) in committed:
                continue
            if begins == at and ends <= below:
                at = self._taken_in(begins, ends)
            elif begins < at:
                self._store.remove(self._manifest.file_of(begins, ends))
        return at

    def _taken_in(self, begins: int, ends: int) -> int:
        """A file without an entry, if it holds what the log holds; else it is removed, and written anew from the log.
        Returns where the archive goes on."""
        file, of_log = self._manifest.file_of(begins, ends), _digest_of(self._log.read(begins, ends))
        if self._holds(file, of_log):
            return self._commit(of_log, begins, ends)
        log.warning("%s of the archive is removed: it has no entry, and the log holds something else", file)
        self._store.remove(file)
        return begins

    def _holds(self, file: str, of_log: MessagesDigest) -> bool:
        with self._fetched(file) as path:
            try:
                found = _digest_of(read_part(path))
            except LogCorrupted:
                return False
        return (found.records, found.hex()) == (of_log.records, of_log.hex())

    def _messages(self, describer: Describer, begins: int, ends: int) -> Iterator[Described]:
        if begins < ends:
            for some in self._log.read(begins, ends):
                yield from map(describer.describe, some)

    def _write(self, part: Sequence[Described], begins: int, ends: int) -> int:
        fill_in_commits(part)
        draft = f"{self._manifest.drafts}/{secrets.token_hex(8)}.parquet"
        with _temporary() as path:
            with _on_this_disk():
                write_part(part, path)
            with path.open("rb") as content:
                self._store.write(draft, content)
        try:
            self._store.place(draft, self._manifest.file_of(begins, ends))
        except FileNotFoundError as exc:
            raise at_the_same_time(self._manifest.folder) from exc
        self._store.remove(draft)
        return self._commit(_digest_of([[one.message for one in part]]), begins, ends)

    def _commit(self, of_log: MessagesDigest, begins: int, ends: int) -> int:
        """Read the file back as it lies there, and let it count if it holds what the log holds."""
        file = self._manifest.file_of(begins, ends)
        size = self._store.size(file) or 0
        part = ArchivedPart(
            begins,
            ends,
            of_log.records,
            of_log.first,
            of_log.last,
            of_log.hex(),
            of_log.newest_ms,
            size,
            size + self._bytes_so_far(),
        )
        with self._fetched(file) as path:
            require_same(part, _digest_of(read_part(path)), file)
        self._manifest.commit(part)
        return ends

    def _bytes_so_far(self) -> int:
        beginnings = self._manifest.beginnings()
        return self._manifest.part(beginnings[-1]).bytes_so_far if beginnings else 0

    @contextmanager
    def _fetched(self, file: str) -> Iterator[Path]:
        with _temporary() as path:
            with _on_this_disk(), path.open("wb") as into:
                try:
                    self._store.read(file, into)
                except FileNotFoundError as exc:
                    raise PositionLost(f"{file} of the archive is gone", hint="put it back from a copy") from exc
            yield path


@contextmanager
def _temporary() -> Iterator[Path]:
    """Where a file may be made, in a folder that is gone afterwards."""
    with ExitStack() as around:
        with _on_this_disk():
            folder = around.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        yield Path(folder) / "part.parquet"


@contextmanager
def _on_this_disk() -> Iterator[None]:
    """TransientError: it is full, or cannot be written to."""
    try:
        yield
    except OSError as exc:
        raise TransientError(
            f"a file of the archive cannot be kept for a moment on this machine: {exc}",
            hint="make room where its temporary files lie; the next maintenance goes on",
        ) from exc


def _folder(store: Store, topic: str, topic_id: str) -> str:
    """The id as Kafka's own tools show it, in the alphabet of base64 for names; its client may have `/` in it, and
    readers of S3 take no path with two of them. An archive that was begun under such a path goes on there."""
    named = f"{topic}/{topic_id.translate(_FOR_NAMES)}"
    begun = f"{topic}/{topic_id}"
    return begun if begun != named and Manifest(store, begun).beginnings() else named


def _digest_of(batches: Iterable[Sequence[LogMessage]]) -> MessagesDigest:
    found = MessagesDigest()
    for messages in batches:
        for message in messages:
            found.add(message)
    return found


def _parts(messages: Iterator[Described], limits: PartLimits) -> Iterator[list[Described]]:
    """Files' worth of messages. Each ends with a transaction, but the last, and one that is all of one transaction."""
    held: list[Described] = []
    size = 0
    for one in messages:
        held.append(one)
        size += one.size_bytes
        if size < limits.bytes_max and len(held) < limits.records_max:
            continue
        ended = [number for number, each in enumerate(held, start=1) if each.ends_transaction]
        count = ended[-1] if ended else len(held)
        yield held[:count]
        held = held[count:]
        size = sum(each.size_bytes for each in held)
    if held:
        yield held
