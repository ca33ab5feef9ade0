"""What a comparison leaves behind whose sides stand at two places (mode "separate"), and what a report says of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, ClassVar

from seamline.domain.errors import InvariantViolated
from seamline.domain.phrase import phrase
from seamline.domain.position import LogRules, Position, PositionTracker

# The mode of such a reconciliation, and the name in its evidence.
SEPARATE = "separate"
READINGS = "readings"
# The state of a sync whose tables another tool carries, for people.
COMPARED_ONLY = phrase("compared only")


@dataclass(frozen=True, slots=True)
class Stand:
    """Where one side was read. `place`: in its own log, "" where its server does not say. `at`: by that server's clock.
    `mark`: openings with the same mark have nothing committed between them; "" where that cannot be known."""

    place: str
    at: datetime
    mark: str = ""

    @property
    def in_words(self) -> str:
        moment = self.at.isoformat(timespec="milliseconds")
        return f"{self.place} at {moment}" if self.place else f"a place that its server does not say, at {moment}"


class _Nowhere:
    """The position of a view of a side that no log of ours has a place for: it may be asked nothing."""

    KIND: ClassVar[str] = "nowhere"
    LOG: ClassVar[LogRules] = LogRules(always_ended=True, at_commit=True, names_as_typed=True)

    def covers(self, other: Position) -> bool:
        raise self._asked(other)

    def sees(self, transaction: Position) -> bool:
        raise self._asked(transaction)

    def reaches(self, place: Position) -> bool:
        raise self._asked(place)

    def start_of_log(self) -> Position:
        return self

    def tracker(self) -> PositionTracker:
        raise self._asked(self)

    def to_json(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Position:  # noqa: ARG003
        return NOWHERE

    def _asked(self, beside: Position) -> InvariantViolated:
        return InvariantViolated(f"a side of another tool has no position, and was asked about {beside}")

    def __str__(self) -> str:
        return self.KIND


NOWHERE: Position = _Nowhere()


@dataclass(frozen=True, slots=True)
class Reading:
    """Both sides, opened once."""

    source: Stand
    destination: Stand

    @property
    def in_words(self) -> str:
        return f"source {self.source.in_words}; destination {self.destination.in_words}"


def readings_to_json(first: Reading, second: Reading | None, *, in_flight_max_s: float) -> dict[str, Any]:
    """`second`: what differed was read again there."""
    return {
        "first": _to_json(first),
        "second": _to_json(second) if second else None,
        "in_flight_max_s": in_flight_max_s,
        "is_source_quiet": is_quiet(first.source, second.source) if second else None,
    }


def is_quiet(first: Stand, second: Stand) -> bool | None:
    """Whether the side committed nothing between the two; None where that is not known."""
    return first.mark == second.mark if first.mark and second.mark else None


def separate_in_words(evidence: Mapping[str, Any]) -> list[str]:
    """What a report says of it; nothing of a comparison at one position."""
    document = evidence.get(READINGS)
    if not document:
        return []
    lines = [
        "Another tool carries these tables, so both sides were read at positions of their own. MATCH: every row of the"
        " one view is in the other, and no other row is there. BREAK: a difference stood unchanged on both sides when"
        f" it was read again after {document['in_flight_max_s']:g} s or more. INCONCLUSIVE: what differed was in"
        f" flight. Read: {_in_words(document['first'])}."
    ]
    if second := document["second"]:
        quiet = {True: "; the source committed nothing between both readings", False: "", None: ""}
        lines.append(f"What differed was read again: {_in_words(second)}{quiet[document['is_source_quiet']]}.")
    return lines


def _to_json(reading: Reading) -> dict[str, Any]:
    return {name: {**side, "at": side["at"].isoformat()} for name, side in asdict(reading).items()}


def _in_words(document: Mapping[str, Any]) -> str:
    stands = {
        name: Stand(side["place"], datetime.fromisoformat(side["at"]), side["mark"]) for name, side in document.items()
    }
    return Reading(**stands).in_words
