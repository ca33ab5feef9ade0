"""Places in the binlog of one MySQL server."""

from dataclasses import dataclass
from typing import Any, ClassVar

from seamline.databases.mysql.binlog_address import lies_before
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import LogRules, Position, as_kind
from seamline.sources.mysql.gtid_set import GtidSet


@dataclass(frozen=True, slots=True)
class MySqlPosition:
    """A place in the binlog of one MySQL server.

    As the position *of a snapshot or ledger*: `gtids` are all transactions that are included, those of other servers
    and purged ones too; `offset` is exclusive. As the position *of a transaction*: `gtids` is the transaction's own,
    `file` and `offset` are where one of its events begins. `file` is "" where only the GTID is known.
    """

    KIND: ClassVar[str] = "mysql_gtid"
    # TRUNCATE, DDL and the rows of XA transactions stand alone, outside of BEGIN and END (connector 3.6.1.Final).
    LOG: ClassVar[LogRules] = LogRules(always_ended=True, at_commit=False, names_as_typed=True)

    gtids: GtidSet
    file: str = ""
    offset: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"gtids": str(self.gtids), "file": self.file, "offset": self.offset}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "MySqlPosition":
        return cls(**{**fields, "gtids": GtidSet.parse(fields["gtids"])})

    def covers(self, other: Position) -> bool:
        """Nothing follows from one transaction for others: a gap stays one until it is filled."""
        return self.gtids.contains(as_kind(other, MySqlPosition, beside=self).gtids)

    def sees(self, transaction: Position) -> bool:
        """Its GTID is in this one's set, and where the binlog address is known both must agree: set and address of a
        snapshot are of one instant (`sessions`)."""
        one = as_kind(transaction, MySqlPosition, beside=self)
        by_gtid = self.covers(one)
        if lies_before(one, self) not in (None, by_gtid):
            raise InvariantViolated(f"GTID and binlog address disagree whether {one} lies before {self}")
        return by_gtid

    def reaches(self, place: Position) -> bool:
        return self.covers(place)

    def start_of_log(self) -> "MySqlPosition":
        return MySqlPosition(GtidSet())

    def tracker(self) -> "MySqlTracker":
        return MySqlTracker(self)

    def advanced_by(self, transaction: "MySqlPosition") -> "MySqlPosition":
        """The position after `transaction` was applied on top of this one."""
        newer = transaction if transaction.file else self
        return MySqlPosition(self.gtids.union(transaction.gtids), newer.file, newer.offset)

    def __str__(self) -> str:
        place = f" {self.file}:{self.offset}" if self.file else ""
        return f"{self.gtids or 'empty'}{place}"


class MySqlTracker:
    """`PositionTracker`."""

    def __init__(self, position: MySqlPosition) -> None:
        self._position = position

    @property
    def position(self) -> MySqlPosition:
        return self._position

    def has_passed(self, transaction: Position) -> bool:
        return self._position.covers(transaction)

    def advance_to(self, transaction: Position) -> None:
        if not self.has_passed(transaction):
            self._position = self._position.advanced_by(as_kind(transaction, MySqlPosition, beside=self._position))
