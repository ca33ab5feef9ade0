"""Places in the log of a bank in memory: the number of its last transaction."""

from dataclasses import dataclass
from typing import Any, ClassVar

from seamline.domain.position import LogRules, Position, as_kind


@dataclass(frozen=True, slots=True)
class MemoryPosition:
    """Everything up to transaction `number` is included; 0 lies before the first."""

    KIND: ClassVar[str] = "memory"
    LOG: ClassVar[LogRules] = LogRules(always_ended=True, at_commit=True, names_as_typed=False)

    number: int

    def to_json(self) -> dict[str, Any]:
        return {"number": self.number}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "MemoryPosition":
        return cls(**fields)

    def covers(self, other: Position) -> bool:
        return self.number >= as_kind(other, MemoryPosition, beside=self).number

    def sees(self, transaction: Position) -> bool:
        return self.covers(transaction)

    def reaches(self, place: Position) -> bool:
        return self.covers(place)

    def start_of_log(self) -> "MemoryPosition":
        return MemoryPosition(0)

    def tracker(self) -> "MemoryTracker":
        return MemoryTracker(self)

    def __str__(self) -> str:
        return f"transaction {self.number}"


class MemoryTracker:
    """`PositionTracker`."""

    def __init__(self, position: MemoryPosition) -> None:
        self._position = position

    @property
    def position(self) -> MemoryPosition:
        return self._position

    def has_passed(self, transaction: Position) -> bool:
        return self._position.covers(transaction)

    def advance_to(self, transaction: Position) -> None:
        if not self.has_passed(transaction):
            self._position = as_kind(transaction, MemoryPosition, beside=self._position)
