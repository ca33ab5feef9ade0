"""What the source now holds of an earlier business date, against the cut that was published of it. Rows come late:
committed for a date after the position of its cut. The next night finds them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from seamline.domain.phrase import joined, phrase

# The name in a reconciliation's evidence.
DATE_BEFORE = "date_before"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table of a published cut, and where the destination keeps it. `has_another_transform`: than the sync has now,
    so other rows say nothing about late ones."""

    table: str
    business_date: date
    version: int
    schema: str
    name: str
    has_another_transform: bool = False


@dataclass(frozen=True, slots=True)
class SinceCut:
    """One table of an earlier date now. `business_date` in ISO 8601; `unknown`: why it could not be compared.
    `changed_in_log`: rows that the log has changed behind its cut, where the source was not asked."""

    table: str
    business_date: str
    version: int
    rows_in_cut: int = 0
    rows_now: int = 0
    is_same: bool = False
    unknown: str = ""
    changed_in_log: int = 0


def date_before_to_json(found: Sequence[SinceCut]) -> list[dict[str, Any]]:
    return [asdict(one) for one in found]


def late_in_words(evidence: Mapping[str, Any]) -> list[str]:
    """A line for each table whose earlier date has changed since its cut, or might have."""
    found = [SinceCut(**document) for document in evidence.get(DATE_BEFORE, ())]
    return [
        joined(": ", [phrase("%(table)s of %(day)s", table=one.table, day=one.business_date), change_in_words(one)])
        for one in found
        if not one.is_same
    ]


def change_in_words(one: SinceCut) -> str:
    if one.unknown:
        version = phrase(", version %(version)s", version=one.version) if one.version else ""
        return phrase(
            "not known whether rows came after its cut%(version)s: %(unknown)s", version=version, unknown=one.unknown
        )
    if one.changed_in_log:
        return phrase(
            "late rows by the log: %(number)s since its cut, version %(version)s; a cut from the log leaves them out:"
            " run that date again with from: read",
            number=f"{one.changed_in_log:,}",
            version=one.version,
        )
    late = one.rows_now - one.rows_in_cut
    if late > 0:
        what = phrase("late rows: %(number)s", number=f"{late:,}")
    else:
        what = phrase("rows gone: %(number)s", number=f"{-late:,}") if late else phrase("rows changed")
    return phrase(
        "%(what)s since its cut, version %(version)s; run that date again for a new version",
        what=what,
        version=one.version,
    )
