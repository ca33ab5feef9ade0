"""Which streams are declared no more, as one look at the folder of declarations has it. Pure.

Who deletes the file of a sync, or takes a destination out of it, means the stream too. A file that is only wrong, and a
file system that is away for a moment, mean nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import Enum, auto

from seamline.domain.calendar import moment_in_words
from seamline.domain.ledger import StreamId
from seamline.domain.phrase import phrase


@dataclass(frozen=True, slots=True)
class DeclaredNow:
    """`syncs`: those of which a file stands, right or wrong. `source_of`: from which source the file of its sync brings
    the stream; "" where it does not name the destination, None where what it names is not known. `settled_s`: for how
    long something has to be gone before that counts; None: what is not seen may be there, and `why`."""

    syncs: frozenset[str]
    source_of: Callable[[StreamId], str | None]
    settled_s: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class StreamMark:
    """A stream that is wanted, or was until it was declared no more, and the source that it reads. `since`: the first
    look that did not find it, `age_s` ago; None where the newest one has found it."""

    stream: StreamId
    source: str
    is_wanted: bool
    since: datetime | None = None
    age_s: float = 0.0

    def in_words(self, zone: tzinfo = UTC) -> str:
        """Of one that is not declared, behind the stream's name."""
        since = moment_in_words(self.since, zone) if self.since else ""
        if self.is_wanted:
            return phrase(
                "not declared any more since %(since)s; its stream ends within minutes if that stays so", since=since
            )
        return phrase(
            "not declared any more since %(since)s; its stream has ended, and goes on from its position once it is"
            " declared again. The log keeps what it needs for that: `%(command)s` lets go of it",
            since=since,
            command=f"./seamline stream forget {self.stream.sync} {self.stream.destination}",
        )


class Step(Enum):
    """What is to be done about a stream."""

    NOTE = auto()  # it is not declared: a later look decides
    END = auto()
    GO_ON = auto()  # it is declared again


def steps(marks: Sequence[StreamMark], now: DeclaredNow) -> list[tuple[StreamId, Step]]:
    """No stream ends by the look that misses it first."""
    return [(one.stream, step) for one in marks if (step := _step(one, now)) is not None]


def _step(mark: StreamMark, now: DeclaredNow) -> Step | None:
    source = now.source_of(mark.stream) if mark.stream.sync in now.syncs else ""
    if now.settled_s is None or source is None:
        return None
    if source:
        # A new sync under an old name is another one: what has ended would bring the rows of the old source.
        is_that_one = mark.is_wanted or source == mark.source
        return Step.GO_ON if mark.since is not None and is_that_one else None
    if mark.since is None:
        return Step.NOTE
    return Step.END if mark.is_wanted and mark.age_s >= now.settled_s else None
