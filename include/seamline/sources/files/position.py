"""What was read of a source of files: a delivery of a business date, by the checksum of what describes it."""

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from seamline.domain.errors import InvariantViolated
from seamline.domain.position import LogRules, Position, PositionTracker, as_kind

# By so much of a checksum people distinguish two deliveries.
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class FilesPosition:
    """`checksum`: SHA-256 of the control file; without one, of the names and checksums of the files. `version` is 0
    where deliveries have no numbers."""

    KIND: ClassVar[str] = "files"
    LOG: ClassVar[LogRules] = LogRules(always_ended=True, at_commit=True, names_as_typed=False)

    business_date: str
    version: int
    checksum: str

    def to_json(self) -> dict[str, Any]:
        return {"business_date": self.business_date, "version": self.version, "checksum": self.checksum}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "FilesPosition":
        return cls(**fields)

    def covers(self, other: Position) -> bool:
        """Of another delivery it says nothing."""
        return self == as_kind(other, FilesPosition, beside=self)

    def sees(self, transaction: Position) -> bool:
        return self.covers(transaction)

    def reaches(self, place: Position) -> bool:
        return self.covers(place)

    def start_of_log(self) -> NoReturn:
        raise _no_log(self)

    def tracker(self) -> PositionTracker:
        raise _no_log(self)

    def why_not_after(self, taken: Position) -> str:
        """`domain.position.OfDelivery`."""
        other = as_kind(taken, FilesPosition, beside=self)
        if other == self:
            return ""
        if self.version and self.version == other.version:
            return f"version {self.version} of {self.business_date} was rewritten after it was taken as the {taken}"
        if self.version < other.version:
            return f"version {other.version} of {self.business_date} was taken before, and {self.version} is older"
        return ""

    def __str__(self) -> str:
        version = f" version {self.version}" if self.version else ""
        return f"delivery of {self.business_date}{version}, sha256 {self.checksum[:_SHOWN]}"


def _no_log(position: FilesPosition) -> InvariantViolated:
    return InvariantViolated(f"files have no log: no stream stands at {position}")
