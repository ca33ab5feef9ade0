"""The position of a read of a source whose log nobody reads: it says which read it was, and covers nothing else."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from seamline.domain.errors import InvariantViolated
from seamline.domain.position import LogRules, Position, PositionTracker

# The mode of a reconciliation at such a position, and of one with files that were delivered.
UNLOGGED, DELIVERED = "unlogged", "delivered"


@dataclass(frozen=True, slots=True)
class UnloggedPosition:
    """`read`: name of the attempt, unique. `at`: the source's clock just after the snapshot was open, UTC. `snapshot`:
    what the source itself calls that snapshot, or the session that holds it."""

    KIND: ClassVar[str] = UNLOGGED
    # Nobody reads such a log.
    LOG: ClassVar[LogRules] = LogRules(always_ended=True, at_commit=True, names_as_typed=True)

    read: str
    at: datetime
    snapshot: str

    def covers(self, other: Position) -> bool:
        """Nothing but itself: without a log nobody knows what was committed between two reads."""
        return self == other

    def sees(self, transaction: Position) -> bool:
        raise self._asked(transaction)

    def reaches(self, place: Position) -> bool:
        return self == place

    def start_of_log(self) -> Position:
        raise self._asked(self)

    def tracker(self) -> PositionTracker:
        raise self._asked(self)

    def to_json(self) -> dict[str, Any]:
        return {"read": self.read, "at": self.at.isoformat(), "snapshot": self.snapshot}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "UnloggedPosition":
        return cls(fields["read"], datetime.fromisoformat(fields["at"]), fields["snapshot"])

    def _asked(self, beside: Position) -> InvariantViolated:
        return InvariantViolated(f"a read without a log has no place among transactions, and was asked about {beside}")

    def __str__(self) -> str:
        moment = self.at.isoformat(sep=" ", timespec="milliseconds")
        return f"this read alone ({moment}, {self.snapshot})"
