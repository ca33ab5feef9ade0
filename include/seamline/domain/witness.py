"""What the source's log says of a break: which side has moved, and the last changes of the row. It holds no value of a
row, so it is shown to everybody who may see that there is a break."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Any

from seamline.domain.calendar import moment_in_words

# The name in a reconciliation's evidence: of each table that is a BREAK what the log was asked, and what it could say.
THIRD_WITNESS = "third_witness"
# And of a table why the log could not be asked.
NOT_ASKED = "not_asked"


class Moved(StrEnum):
    """The side that holds what the log does not have."""

    DESTINATION = "destination"
    SOURCE = "source"
    UNKNOWN = "unknown"


IN_WORDS = {
    Moved.DESTINATION: "the destination was changed outside Seamline",
    Moved.SOURCE: "the source holds what its log does not have",
    Moved.UNKNOWN: "which side has moved is not known",
}


@dataclass(frozen=True, slots=True)
class Mention:
    """One change of the row in the log, with the position and the commit time of its transaction; None where the time
    is not known."""

    operation: str
    position: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Witness:
    """`changes`: how many the log has of the row since the last comparison that matched; `last`: the newest of them,
    the newest first."""

    moved: Moved
    why: str
    changes: int = 0
    last: tuple[Mention, ...] = ()

    @property
    def in_words(self) -> str:
        return f"{IN_WORDS[self.moved]}: {self.why}"


def witness_to_json(witness: Witness | None) -> dict[str, Any] | None:
    if witness is None:
        return None
    return {
        "moved": witness.moved.value,
        "why": witness.why,
        "changes": witness.changes,
        "last": [
            {"operation": one.operation, "position": one.position, "at": one.at.isoformat() if one.at else None}
            for one in witness.last
        ],
    }


def witness_from_json(document: Mapping[str, Any] | None) -> Witness | None:
    if document is None:
        return None
    last = tuple(
        Mention(one["operation"], one["position"], datetime.fromisoformat(one["at"]) if one["at"] else None)
        for one in document["last"]
    )
    return Witness(Moved(document["moved"]), document["why"], document["changes"], last)


def mentioned(operation: str, position: object, committed_ms: int) -> Mention:
    """`committed_ms`: milliseconds since the epoch; 0 where it is not known."""
    at = datetime.fromtimestamp(committed_ms / 1000, UTC) if committed_ms else None
    return Mention(operation, str(position), at)


def third_witness_in_words(evidence: Mapping[str, Any], zone: tzinfo = UTC) -> Iterator[str]:
    """What a report says of it, by table; nothing of a comparison that had no break or asked no log."""
    for table, of in (evidence.get(THIRD_WITNESS) or {}).items():
        if reason := of.get(NOT_ASKED):
            yield f"{table}: which side has moved is not known: {reason}"
            continue
        counts = [f"{IN_WORDS[side]}: {of[side.value]}" for side in Moved if of.get(side.value)]
        at = moment_in_words(datetime.fromisoformat(of["since_at"]), zone)
        yield f"{table}: {', '.join(counts)}; by the log since {of['since']}, committed {at}"
