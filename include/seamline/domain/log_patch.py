"""What the log says of a table between two positions, row by row, and what a comparison by it leaves behind (mode
"log", ADR 66)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Texts = Mapping[str, str | None]

# The mode of such a reconciliation, and the name in its evidence.
LOG = "log"
LOG_BETWEEN = "log_between"


@dataclass(frozen=True, slots=True)
class PatchedRow:
    """A row as the log leaves it: canonical texts by column; None where it is gone.

    `missing`: columns that the log left out because they had not changed. Their values are those of the row that has
    the key `taken_from` before.
    """

    texts: Texts | None
    missing: tuple[str, ...] = ()
    taken_from: str = ""


@dataclass(frozen=True, slots=True)
class TablePatch:
    """The net of the log's changes of one table. `emptied`: nothing that was there before them is left.

    A table with a key has `rows` by canonical key, one without has `copies`: by row text the row, and how many of it
    come, or go where negative.
    """

    rows: Mapping[str, PatchedRow] = field(default_factory=dict)
    copies: Mapping[str, tuple[Texts, int]] = field(default_factory=dict)
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class LogBetween:
    """What lay between both sides of a comparison: the source's views at `source`, the destination's at `destination`,
    and the transactions and row changes of the log from there to the source."""

    source: str
    destination: str
    transactions: int
    changes: int

    @property
    def in_words(self) -> str:
        return (
            f"log-patched: source at {self.source}, destination at {self.destination}, {self.changes:,} changes of the"
            f" log in {self.transactions:,} transactions between"
        )


def log_between_to_json(between: LogBetween) -> dict[str, Any]:
    return {
        "source": between.source,
        "destination": between.destination,
        "transactions": between.transactions,
        "changes": between.changes,
    }


def log_between_in_words(evidence: Mapping[str, Any]) -> list[str]:
    """What a report says of it; nothing of a comparison that was not made by the log."""
    document = evidence.get(LOG_BETWEEN)
    if not document:
        return []
    return [
        f"{LogBetween(**document).in_words}. The destination was compared as it stands once these changes are applied"
        " to what it held; nobody held the stream, and nobody waited for a match."
    ]
