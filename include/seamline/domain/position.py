"""Positions: places in one source's log. Partly ordered: ask `covers`, never `<`.

Each kind of source has its own; nobody else knows what is inside. Positions of two kinds never meet: any question about
two of them raises InvariantViolated.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, cast, runtime_checkable

from seamline.domain import installed
from seamline.domain.errors import InvariantViolated


@dataclass(frozen=True, slots=True)
class LogRules:
    """How the log of a kind of source is written.

    `always_ended`: each BEGIN has its END. `at_commit`: a transaction stands where its commit ends, else where its
    first row begins. `names_as_typed`: a TRUNCATE names its table as somebody typed it, in either case.
    `is_of_rows_alone`: it says what a row is from now on, and nothing of what was there before: a change may come
    twice.
    """

    always_ended: bool
    at_commit: bool
    names_as_typed: bool
    is_of_rows_alone: bool = False


class PositionTracker(Protocol):
    """The position that a stream stands at while it passes transactions, kept cheap for millions of them."""

    @property
    def position(self) -> "Position": ...

    def has_passed(self, transaction: "Position") -> bool:
        """Whether this transaction lies at or before the position."""

    def advance_to(self, transaction: "Position") -> None:
        """Never moves backwards."""


class Position(Protocol):
    """Of a snapshot or a ledger it says what is included; of a transaction, which one it is."""

    KIND: ClassVar[str]
    LOG: ClassVar[LogRules]

    def covers(self, other: "Position") -> bool:
        """Whether everything up to `other` is included in this position."""

    def sees(self, transaction: "Position") -> bool:
        """Whether the transaction is inside the read view that was taken here: the cutover rule (`domain.cutover`)."""

    def reaches(self, place: "Position") -> bool:
        """Whether the log, read up to here, has come to `place`. By the place alone, not by what a view sees."""

    def start_of_log(self) -> "Position":
        """One of this kind that lies before all others."""

    def tracker(self) -> PositionTracker:
        """Starts here."""

    def to_json(self) -> dict[str, Any]: ...

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Position": ...


@runtime_checkable
class OfDelivery(Protocol):
    """A position that stands for a delivery of a business date, which is taken once."""

    def why_not_after(self, taken: Position) -> str:
        """Why this delivery is not taken where the other one of its date was, as a whole sentence; "" where it is, and
        where both are the same one."""


PositionT = TypeVar("PositionT")


def as_kind(position: Position, kind: type[PositionT], *, beside: object) -> PositionT:
    """For the classes themselves: the other position as one of theirs."""
    if not isinstance(position, kind):
        raise InvariantViolated(f"positions of different sources: {position} and {beside}")
    return position


def position_to_json(position: Position) -> dict[str, Any]:
    """A JSON object with a `kind`, for ledger, platform database and plan."""
    return {"kind": position.KIND, **position.to_json()}


def position_from_json(document: dict[str, Any]) -> Position:
    """The inverse of `position_to_json`."""
    fields = dict(document)
    kind = fields.pop("kind", None)
    if kind not in installed.names(installed.POSITIONS):
        raise InvariantViolated(f"unknown kind of position: {kind!r}")
    return cast(type[Position], installed.load(installed.POSITIONS, kind)).from_json(fields)


def is_same_place(one: Position, other: Position) -> bool:
    """Whether two positions include exactly the same transactions."""
    if type(one) is not type(other):
        return False
    return one.covers(other) and other.covers(one)
