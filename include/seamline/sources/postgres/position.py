"""Places in the WAL of one PostgreSQL cluster."""

from dataclasses import dataclass
from typing import Any, ClassVar

from seamline.domain.errors import InvariantViolated
from seamline.domain.position import LogRules, Position, as_kind


@dataclass(frozen=True, slots=True)
class PostgresPosition:
    """A place in the WAL of one PostgreSQL cluster.

    As the position *of a snapshot*: `xmin`, `xmax`, `in_progress` are those of `pg_current_snapshot()` and `lsn` is the
    slot's consistent point. As the position *of a transaction*: `xid` is its 32-bit transaction id, `lsn` its commit
    end.
    """

    KIND: ClassVar[str] = "postgres"
    LOG: ClassVar[LogRules] = LogRules(always_ended=True, at_commit=True, names_as_typed=False)

    lsn: int
    xid: int | None = None
    xmin: int = 0
    xmax: int = 0
    in_progress: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "lsn": self.lsn,
            "xid": self.xid,
            "xmin": self.xmin,
            "xmax": self.xmax,
            "in_progress": list(self.in_progress),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "PostgresPosition":
        return cls(**{**fields, "in_progress": tuple(fields["in_progress"])})

    def covers(self, other: Position) -> bool:
        """By transaction where known, else by commit LSN."""
        one = as_kind(other, PostgresPosition, beside=self)
        if one.xid is not None and self.xmax:
            return self.sees_xid(one.xid)
        return self.lsn >= one.lsn

    def sees(self, transaction: Position) -> bool:
        """It is visible in the snapshot that the replication slot exported."""
        one = as_kind(transaction, PostgresPosition, beside=self)
        if one.xid is None:
            raise InvariantViolated("a PostgreSQL transaction without its transaction id cannot be placed")
        return self.sees_xid(one.xid)

    def reaches(self, place: Position) -> bool:
        """By the LSN: a snapshot's view of transactions says nothing of the place."""
        return self.lsn >= as_kind(place, PostgresPosition, beside=self).lsn

    def start_of_log(self) -> "PostgresPosition":
        return PostgresPosition(0)

    def tracker(self) -> "WalTracker":
        return WalTracker(self)

    def sees_xid(self, xid32: int) -> bool:
        """Whether a committed transaction is visible in this snapshot; MVCC visibility is this predicate."""
        return self.sees_wide(widen_xid(xid32, self.xmax))

    def sees_wide(self, xid: int) -> bool:
        """The same for a 64-bit id, asked in PostgreSQL's own order (XidInMVCCSnapshot): what lies below xmin is seen.

        A snapshot that a slot exports may have an xmax below its xmin: xmin follows every record of running
        transactions, xmax only commits that were decoded (PostgreSQL 18.4 said `2444:2443:` and saw 2443).
        """
        return xid < self.xmin or (xid < self.xmax and xid not in self.in_progress)

    def __str__(self) -> str:
        return f"{self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}"


def widen_xid(xid32: int, near: int) -> int:
    """The 64-bit transaction id that ends in `xid32` and lies nearest to `near`.

    Debezium's `txId` has 32 bits, `pg_current_snapshot()` 64. Right while both lie within 2^31 of each other, which
    is why the rule is used only until a boundary has been passed.
    """
    xid = (near & ~0xFFFFFFFF) | (xid32 & 0xFFFFFFFF)
    if xid - near > 2**31:
        return xid - 2**32
    if near - xid > 2**31:
        return xid + 2**32
    return xid


class WalTracker:
    """`PositionTracker`."""

    def __init__(self, position: PostgresPosition) -> None:
        self._position = position

    @property
    def position(self) -> PostgresPosition:
        return self._position

    def has_passed(self, transaction: Position) -> bool:
        return self._position.covers(transaction)

    def advance_to(self, transaction: Position) -> None:
        if not self.has_passed(transaction):
            self._position = PostgresPosition(lsn=as_kind(transaction, PostgresPosition, beside=self._position).lsn)
