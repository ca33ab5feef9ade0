"""Late postings: changes of rows of a business date whose cut is signed, as the stream into its destination has
committed them behind the cut's position."""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from seamline.domain.calendar import moment_in_words
from seamline.domain.phrase import joined, phrase
from seamline.domain.position import Position


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where the ledger of a stream stood: `next_offset` of the log topic of this id is the first one not applied."""

    topic_id: str
    next_offset: int
    position: Position


@dataclass(frozen=True, slots=True)
class WatchedTake:
    """A signed `version` of a date in one destination.

    `cut_position`: what it sees is in the cut. `place`: so far the log was looked at for it. `is_begun`: it was looked
    at before, so that `place` is no longer where the watch began.
    """

    run_id: str
    business_date: str
    cut_position: Position
    place: LogPlace
    is_begun: bool
    version: int


@dataclass(frozen=True, slots=True)
class LatePosting:
    """What one transaction changed in a table's rows of a watched date; of very many, what several did.

    `business_date` in ISO 8601. `rows`: changes, at least one. `key`: of the first of them, JSON of column and text as
    that of a break; "" of a table without a key, and where the table was emptied. `position`: of the transaction, of
    several that of the last, as a text. `committed_at`: in the source; None where the log does not say it.
    """

    run_id: str
    business_date: str
    table: str
    key: str
    rows: int
    position: str
    committed_at: datetime | None
    transactions: int = 1


@dataclass(frozen=True, slots=True)
class LateInTable:
    """All late postings of one table for one take. `rows`: changes; `last_at`: commit time of the newest one."""

    table: str
    rows: int
    transactions: int
    last_at: datetime | None

    @property
    def in_words(self) -> str:
        return phrase(
            "%(table)s: %(rows)s in %(transactions)s transactions",
            table=self.table,
            rows=f"{self.rows:,}",
            transactions=f"{self.transactions:,}",
        )


@dataclass(frozen=True, slots=True)
class StreamWatch:
    """What the stream has found of one take. `looked_at`: up to then, None where nobody has looked yet; `unknown`: of
    which part of the log nobody knows, "" of none."""

    tables: tuple[LateInTable, ...] = ()
    looked_at: datetime | None = None
    unknown: str = ""

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.tables)

    @property
    def in_words(self) -> str:
        """ "" where no change came."""
        if not self.tables:
            return ""
        number = phrase("late postings since its cut: %(number)s", number=f"{self.rows:,}")
        return joined("; ", [number, *(one.in_words for one in self.tables)])

    def looked_in_words(self, zone: tzinfo = UTC) -> str:
        if self.looked_at is None:
            return phrase("the stream's log was not looked at for late postings yet")
        at = moment_in_words(self.looked_at, zone)
        if self.unknown:
            return phrase(
                "the stream's log was looked at for late postings until %(at)s, and not all of it: %(why)s",
                at=at,
                why=self.unknown,
            )
        return phrase("the stream's log was looked at for late postings until %(at)s", at=at)


def gap_of(take: WatchedTake) -> str:
    """Why something may have been missed between the cut and the first look; "" where nothing was."""
    if take.is_begun or take.cut_position.reaches(take.place.position):
        return ""
    return f"the watch began behind the cut's position, at {take.place.position}"
