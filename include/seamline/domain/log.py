"""The log topic's records, decoded far enough to be ordered, counted and placed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from seamline.domain.position import Position


class RecordKind(IntEnum):
    BEGIN = 1
    ROWS = 2
    END = 3
    TRUNCATE = 4
    DDL = 5
    HEARTBEAT = 6


class RowChange(NamedTuple):
    """What one record of the log topic says of one row. `op` is c, u or d; `key` and the images are raw JSON.

    A message in a WAL counts as a row, because END counts it: op m, of a table that does not exist.

    `is_partial`: `after` may lack values that the update did not change; `old_key` is then the key that the row had
    before a change of key.
    """

    offset: int
    table: str
    op: str
    key: bytes | None = None
    before: bytes | None = None
    after: bytes | None = None
    is_partial: bool = False
    old_key: bytes | None = None


@dataclass(slots=True)
class LogRecord:
    """One record of the log topic; of kind ROWS, records of one transaction's rows that follow each other.

    Nearly all records are of rows. Rows are tuples, which are made faster than objects; what they share is kept once,
    here. The class is mutable only because a frozen one takes longer to make: do not change one.

    `transaction_id` is the part of the transaction id that BEGIN, its rows and END share (the GTID; for PostgreSQL the
    xid). BEGIN: `is_whole` says that all of the transaction follows it, also where a part was sent before; `follows` is
    what the capture sent before it, None where it does not say. END: `counts` maps every captured table to its number
    of rows and `total` is their sum.
    DDL: `statement` and the `tables` it names, or WHOLE_DATABASE. TRUNCATE: `total` is what END counts for it.
    `ts_ms`: milliseconds since the epoch, of all but rows.
    """

    offset: int
    kind: RecordKind
    transaction_id: str = ""
    position: Position | None = None
    rows: Sequence[RowChange] = ()
    table: str = ""
    total: int = 0
    counts: dict[str, int] | None = None
    statement: str = ""
    ts_ms: int = 0
    tables: tuple[str, ...] = ()
    is_whole: bool = False
    follows: "PrecedingTransaction | None" = None

    @property
    def end(self) -> int:
        """The offset behind it."""
        return (self.rows[-1].offset if self.rows else self.offset) + 1


# What `tables` of a statement is that takes the whole database away: no table has this name.
WHOLE_DATABASE = ("",)


def touched(ddl: LogRecord, tables: Collection[str]) -> tuple[str, ...]:
    """Those of these tables that a statement drops or changes.

    A name in another case counts too: only the server knows whether it is another table, and a needless stop does no
    harm. If two tables differ by case alone, the statement means the one that it names exactly.
    """
    if ddl.tables == WHOLE_DATABASE:
        return tuple(sorted(tables))
    known: dict[str, list[str]] = {}
    for name in sorted(tables):
        known.setdefault(name.casefold(), []).append(name)
    meant = ([name] if name in tables else known.get(name.casefold(), ()) for name in ddl.tables)
    return tuple(dict.fromkeys(one for names in meant for one in names))


@dataclass(frozen=True, slots=True)
class PrecedingTransaction:
    """The transaction before a BEGIN, and whether an END closed it. `records`: its TRUNCATE and DDL, if none did."""

    position: Position
    has_end: bool
    records: int = 0


@dataclass(slots=True)
class Transaction:
    """The smallest thing applied: the rows between BEGIN and END, or one standalone TRUNCATE or DDL.

    Offsets are half-open: `end` is the offset after the transaction's last record. `committed_ms` is the source's
    commit time (END's `ts_ms`), milliseconds since the epoch. `markers` are the inserts into the marker table, apart
    from `rows`. `truncated`: tables that were emptied before `rows`; `rows` has no earlier change of them.
    `chunks`: how many were taken out of a transaction larger than memory; `rows` is then the rest.
    `follows`: the transaction that its BEGIN names. `row_bytes`: the size of the images of `rows`.
    """

    id: str
    start: int
    end: int
    position: Position
    rows: list[RowChange]
    committed_ms: int = 0
    truncated: tuple[str, ...] = ()
    ddl: LogRecord | None = None
    markers: tuple[RowChange, ...] = ()
    chunks: int = 0
    follows: Position | None = None
    row_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing for this stream."""
        return not (self.rows or self.chunks or self.truncated or self.ddl or self.markers)


@dataclass(frozen=True, slots=True)
class Span:
    """Log-topic offsets `[start, end)` of whole transactions."""

    start: int
    end: int
    transactions: int
    position: Position
    committed_ms: int
