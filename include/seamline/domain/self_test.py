"""What the self-test of a comparison found: breaks planted in shadow copies of the compared tables, and found again."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

# The name in a reconciliation's evidence.
SELF_TEST = "self_test"
_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class SelfTest:
    """`seed` decides which rows and values are changed. `kinds`: the kinds of break that were planted.

    `missed` and `others`: breaks that were planted and not found, and that were found and not planted, in words.
    `by_reference`: tables of which the reference stood for a server on a side. `left_out`: table → why nothing was
    planted. `failed`: table → why its self-test came to no end.
    """

    seed: str
    planted: int = 0
    found: int = 0
    tables: int = 0
    kinds: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    by_reference: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_passed(self) -> bool:
        return not (self.missed or self.others or self.failed)


def self_test_to_json(found: SelfTest) -> dict[str, Any]:
    return asdict(found)


def is_passed(evidence: Mapping[str, Any]) -> bool:
    """Also where there was none."""
    document = evidence.get(SELF_TEST)
    return not document or SelfTest(**document).is_passed


def self_test_in_words(evidence: Mapping[str, Any]) -> list[str]:
    """What a report says of it; nothing of a comparison that had none."""
    document = evidence.get(SELF_TEST)
    if not document:
        return []
    found = SelfTest(**document)
    lines = []
    if found.tables:
        kinds, tables = _counted(len(found.kinds), "kind"), _counted(found.tables, "table")
        lines.append(
            f"{found.found} of {found.planted} planted breaks found, {len(found.others)} others;"
            f" {kinds} in {tables}, seed {found.seed}"
        )
    if found.missed:
        lines.append(f"not found: {_first_of(found.missed)}")
    if found.others:
        lines.append(f"found and not planted: {_first_of(found.others)}")
    if found.by_reference:
        lines.append(f"one side computed by the reference: {', '.join(found.by_reference)}")
    lines += [f"{table}: came to no end: {why}" for table, why in found.failed.items()]
    reasons: dict[str, list[str]] = {}
    for table, why in found.left_out.items():
        reasons.setdefault(why, []).append(table)
    lines += [f"nothing planted in {', '.join(tables)}: {why}" for why, tables in reasons.items()]
    return lines


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _first_of(breaks: Sequence[str]) -> str:
    hidden = len(breaks) - _SHOWN_MAX
    return "; ".join(breaks[:_SHOWN_MAX]) + (f" and {hidden:,} more" if hidden > 0 else "")
