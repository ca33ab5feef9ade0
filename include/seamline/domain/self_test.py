"""What the self-test of a comparison found: breaks planted in shadow copies of the compared tables, and found again."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from seamline.domain.made_from import PROVEN_BY_KEYS
from seamline.domain.phrase import phrase

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
    lines: list[str] = []
    if found.tables:
        lines.append(
            phrase(
                "%(found)s of %(planted)s planted breaks found, %(others)s others;"
                " %(kinds)s in %(tables)s, seed %(seed)s",
                found=found.found,
                planted=found.planted,
                others=len(found.others),
                kinds=_kinds(len(found.kinds)),
                tables=_tables(found.tables),
                seed=found.seed,
            )
        )
    if found.missed:
        lines.append(phrase("not found: %(breaks)s", breaks=_first_of(found.missed)))
    if found.others:
        lines.append(phrase("found and not planted: %(breaks)s", breaks=_first_of(found.others)))
    if found.by_reference:
        lines.append(phrase("one side computed by the reference: %(tables)s", tables=", ".join(found.by_reference)))
    if by_keys := [one for one in evidence.get(PROVEN_BY_KEYS, ()) if one not in {*found.left_out, *found.failed}]:
        lines.append(
            phrase(
                "planted for the search alone, which did not give the verdict of a table proven by keys: %(tables)s",
                tables=", ".join(by_keys),
            )
        )
    lines += [phrase("%(table)s: came to no end: %(why)s", table=table, why=why) for table, why in found.failed.items()]
    reasons: dict[str, list[str]] = {}
    for table, why in found.left_out.items():
        reasons.setdefault(why, []).append(table)
    lines += [
        phrase("nothing planted in %(tables)s: %(why)s", tables=", ".join(tables), why=why)
        for why, tables in reasons.items()
    ]
    return lines


def _kinds(count: int) -> str:
    return phrase("1 kind") if count == 1 else phrase("%(count)s kinds", count=count)


def _tables(count: int) -> str:
    return phrase("1 table") if count == 1 else phrase("%(count)s tables", count=count)


def _first_of(breaks: Sequence[str]) -> str:
    hidden, shown = len(breaks) - _SHOWN_MAX, "; ".join(breaks[:_SHOWN_MAX])
    return phrase("%(shown)s and %(number)s more", shown=shown, number=f"{hidden:,}") if hidden > 0 else shown
