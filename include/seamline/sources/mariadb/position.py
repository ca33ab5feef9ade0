"""Places in the binlog of one MariaDB server."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from seamline.databases.mysql.binlog_address import lies_before
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import LogRules, Position, as_kind

_GTID = re.compile(r"^(\d+)-(\d+)-(\d+)$")


def gtid_sequences(gtid: str) -> dict[int, int]:
    """MariaDB GTID text (`0-7-123,1-7-9`, may be empty) as {domain: sequence number}; the server part is ignored.

    Ignoring the server is right only under `gtid_strict_mode=1`, which preflight demands.
    """
    sequences: dict[int, int] = {}
    for part in filter(None, (chunk.strip() for chunk in gtid.split(","))):
        match = _GTID.match(part)
        if match is None:
            raise InvariantViolated(f"not a MariaDB GTID: {part!r}")
        sequences[int(match[1])] = int(match[3])
    return sequences


@dataclass(frozen=True, slots=True)
class BinlogPosition:
    """A place in the binlog of one MariaDB server.

    As the position *of a snapshot or ledger*: everything of `gtid`'s sequences is included, `offset` is exclusive.
    As the position *of a transaction*: `gtid` is the transaction's own, `file` and `offset` are where one of its events
    begins. `file` is "" where only the GTID is known (a transaction without rows).
    """

    KIND: ClassVar[str] = "binlog"
    # TRUNCATE and DDL come after a BEGIN that no END closes (MariaDB 3.5.0.Final).
    LOG: ClassVar[LogRules] = LogRules(always_ended=False, at_commit=False, names_as_typed=True)

    gtid: str
    file: str = ""
    offset: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"gtid": self.gtid, "file": self.file, "offset": self.offset}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "BinlogPosition":
        return cls(**fields)

    def covers(self, other: Position) -> bool:
        mine = gtid_sequences(self.gtid)
        theirs = gtid_sequences(as_kind(other, BinlogPosition, beside=self).gtid)
        return all(mine.get(domain, 0) >= sequence for domain, sequence in theirs.items())

    def sees(self, transaction: Position) -> bool:
        """Its GTID's sequence is not beyond this one's, and where the binlog address is known both must agree: `START
        TRANSACTION WITH CONSISTENT SNAPSHOT` gives read view and address of one instant (25 of 25 under writers)."""
        one = as_kind(transaction, BinlogPosition, beside=self)
        by_gtid = self.covers(one)
        if lies_before(one, self) not in (None, by_gtid):
            raise InvariantViolated(f"GTID and binlog address disagree whether {one} lies before {self}")
        return by_gtid

    def reaches(self, place: Position) -> bool:
        return self.covers(place)

    def start_of_log(self) -> "BinlogPosition":
        return BinlogPosition("")

    def tracker(self) -> "BinlogTracker":
        return BinlogTracker(self)

    def advanced_by(self, transaction: "BinlogPosition") -> "BinlogPosition":
        """The position after `transaction` was applied on top of this one; other domains keep their sequence."""
        parts = {domain: gtid for gtid in self.gtid.split(",") if gtid for domain in gtid_sequences(gtid)}
        parts.update({domain: gtid for gtid in transaction.gtid.split(",") if gtid for domain in gtid_sequences(gtid)})
        newer = transaction if transaction.file else self
        return BinlogPosition(",".join(parts[d] for d in sorted(parts)), newer.file, newer.offset)

    def __str__(self) -> str:
        place = f" {self.file}:{self.offset}" if self.file else ""
        return f"{self.gtid or 'empty'}{place}"


class BinlogTracker:
    """`PositionTracker`. Only the newest transaction of each GTID domain matters; they are joined on demand."""

    def __init__(self, position: BinlogPosition) -> None:
        self._position = position
        self._sequences = gtid_sequences(position.gtid)
        self._newest: dict[int, BinlogPosition] = {}

    @property
    def position(self) -> BinlogPosition:
        for transaction in self._newest.values():
            self._position = self._position.advanced_by(transaction)
        self._newest.clear()
        return self._position

    def has_passed(self, transaction: Position) -> bool:
        domain, sequence = _single_gtid(as_kind(transaction, BinlogPosition, beside=self._position).gtid)
        return self._sequences.get(domain, 0) >= sequence

    def advance_to(self, transaction: Position) -> None:
        if self.has_passed(transaction):
            return
        one = as_kind(transaction, BinlogPosition, beside=self._position)
        domain, sequence = _single_gtid(one.gtid)
        self._sequences[domain] = sequence
        self._newest[domain] = one


# Several questions are asked of each transaction.
@lru_cache(maxsize=16)
def _single_gtid(gtid: str) -> tuple[int, int]:
    """(domain, sequence number) of one transaction's GTID."""
    domain, _, rest = gtid.partition("-")
    sequence = rest.partition("-")[2]
    if not (domain.isdigit() and sequence.isdigit()):
        raise InvariantViolated(f"not the GTID of one transaction: {gtid!r}")
    return int(domain), int(sequence)
