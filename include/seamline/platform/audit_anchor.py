"""The head of the log of acts outside of the database: a line per anchor, in a file of each machine that writes one,
and in a Kafka topic where one is named.

Whoever writes the chain again from some entry on cannot change what these lines say. A line: number, hash, moment.
"""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from seamline.domain.audit import moment_text
from seamline.platform.audit import Head

_LINE = re.compile(r"([1-9][0-9]{0,17}) ([0-9a-f]{64}) \S+")
_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class AnchorLine:
    """`head` is None where the line cannot be read."""

    place: str
    head: Head | None


class Anchors(Protocol):
    """A place with anchors."""

    def lines(self) -> Iterator[AnchorLine]:
        """The oldest first."""


class Lines(Protocol):
    """A place outside that only grows, as `adapters.kafka.lines.KafkaLines`."""

    topic: str

    def end(self) -> int: ...
    def last(self) -> str: ...
    def append(self, text: str) -> int: ...
    def read(self, end: int, *, since: int = 0) -> Iterator[tuple[int, str]]: ...


@dataclass(frozen=True, slots=True)
class AnchorTopic:
    """`end`: what counts, as the size of a file does."""

    kept: Lines
    end: int

    def lines(self) -> Iterator[AnchorLine]:
        for offset, text in self.kept.read(self.end):
            yield _line(f"topic {self.kept.topic} offset {offset}", text)


@dataclass(frozen=True, slots=True)
class AnchorFile:
    """`size`: what counts. Lines that are written behind it may name entries that a reader does not see yet."""

    path: Path
    size: int

    def lines(self) -> Iterator[AnchorLine]:
        """The oldest first; one in memory."""
        left = self.size
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                left -= len(line)
                if left < 0:
                    return
                yield _line(f"{self.path.name} line {number}", line.decode(errors="replace").rstrip("\n"))


def anchor_files(folder: Path) -> tuple[AnchorFile, ...]:
    """Those of every machine, as long as they are now."""
    return tuple(AnchorFile(path, path.stat().st_size) for path in sorted(folder.glob("head-*.log")))


def write_anchor(folder: Path, head: Head) -> Path:
    """Append the head to this machine's file, unless its last line has it already. OSError: it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"head-{socket.gethostname()}.log"
    if _last_words(path)[:2] != [str(head.number), head.hash]:
        # One write of a short line: two processes do not tear each other's.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{_text(head)}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return path


def send_anchor(kept: Lines, head: Head) -> str:
    """Append the head, unless the last line has it already; says where."""
    if kept.last().split()[:2] != [str(head.number), head.hash]:
        kept.append(_text(head))
    return f"topic {kept.topic}"


def _text(head: Head) -> str:
    return f"{head.number} {head.hash} {moment_text(datetime.now(UTC))}"


def _line(place: str, text: str) -> AnchorLine:
    found = _LINE.fullmatch(text)
    return AnchorLine(place, Head(int(found[1]), found[2]) if found else None)


def _last_words(path: Path) -> Sequence[str]:
    if not path.exists():
        return ()
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return lines[-1].split() if lines else ()
