"""A cut as it stands staged in a destination, before readers see it: the manifest that a run hands on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from seamline.domain.digest import KeyedDigest, keyed_digest_from_json, keyed_digest_to_json
from seamline.domain.phrase import phrase
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.domain.verdict import Verdict, worst

# In a reconciliation's evidence: tables by business date that have no row of this one.
WITHOUT_ROWS = "without_rows"


class CutSource(StrEnum):
    """What a kind of destination makes its cuts of."""

    ROWS = "rows"  # rows of the source that were read for the cut and staged
    LIVE = "live"  # its live tables, as they stand at one position; the cut holds each of them whole


class CutMode(StrEnum):
    """What a table of a cut holds."""

    DATE = "date"  # the rows of the business date
    WHOLE = "whole"  # every row, as of P
    DERIVED = "derived"  # computed from the staged cut
    AHEAD = "ahead"  # rows of later dates, with which the next cut begins


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A table of a cut as it stands staged in the destination; readers see nothing of it.

    `late_rows`: rows that the previous version of this date did not have (committed or changed since), `gone_rows`:
    rows that only the previous version has. Both None where there is no previous version or the table is read whole.
    `digest`: of its rows as they were compared; None where they could not be.
    """

    table: str
    mode: CutMode
    staged_as: str
    rows: int
    verdict: Verdict
    late_rows: int | None = None
    gone_rows: int | None = None
    digest: KeyedDigest | None = None


@dataclass(frozen=True, slots=True)
class Lateness:
    """Staged rows against the version of the same date that counts now. A row that changed counts in both."""

    late_rows: int
    gone_rows: int


@dataclass(frozen=True, slots=True)
class StagedCut:
    """The manifest of a staged cut: what `publish_cut` publishes, and what the checks before it look at.

    `checks`: their verdict, known when it is published; it stands beside the manifest, not in it.
    """

    run_id: str
    sync: str
    destination: str
    business_date: date
    position: Position
    as_of: datetime
    tables: tuple[StagedTable, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    checks: Verdict = Verdict.MATCH

    @property
    def verdict(self) -> Verdict:
        """Of what is in it and of its checks. A table that was left out makes it partial, not wrong."""
        return worst([self.checks, *(table.verdict for table in self.tables)]) if self.tables else Verdict.NOT_RUN

    @property
    def is_partial(self) -> bool:
        return bool(self.left_out)


@dataclass(frozen=True, slots=True)
class Published:
    """A cut as the destination has it. `is_new` is False when this run had published it before. `signed_by`: who signed
    last, which may have been for an earlier attempt of this run."""

    version: int
    is_new: bool
    signed_by: str = ""


def without_rows(cut: StagedCut) -> list[str]:
    """Its tables by business date that have no row. That is no error: some dates have none."""
    return [table.table for table in cut.tables if table.mode is CutMode.DATE and not table.rows]


def without_rows_in_words(evidence: Mapping[str, Any]) -> list[str]:
    names = evidence.get(WITHOUT_ROWS)
    return [phrase("no rows for this date: %(tables)s", tables=", ".join(names))] if names else []


def cut_to_json(cut: StagedCut) -> dict[str, Any]:
    return {
        "run_id": cut.run_id,
        "sync": cut.sync,
        "destination": cut.destination,
        "business_date": cut.business_date.isoformat(),
        "position": position_to_json(cut.position),
        "as_of": cut.as_of.isoformat(),
        "verdict": cut.verdict.value,
        "partial": cut.is_partial,
        "left_out": dict(cut.left_out),
        "tables": [
            {
                "table": table.table,
                "mode": table.mode.value,
                "staged_as": table.staged_as,
                "rows": table.rows,
                "verdict": table.verdict.value,
                "late_rows": table.late_rows,
                "gone_rows": table.gone_rows,
                "digest": keyed_digest_to_json(table.digest),
            }
            for table in cut.tables
        ],
    }


def cut_from_json(document: Mapping[str, Any]) -> StagedCut:
    """The inverse of `cut_to_json`."""
    return StagedCut(
        run_id=document["run_id"],
        sync=document["sync"],
        destination=document["destination"],
        business_date=date.fromisoformat(document["business_date"]),
        position=position_from_json(document["position"]),
        as_of=datetime.fromisoformat(document["as_of"]),
        tables=tuple(
            StagedTable(
                table=entry["table"],
                mode=CutMode(entry["mode"]),
                staged_as=entry["staged_as"],
                rows=entry["rows"],
                verdict=Verdict(entry["verdict"]),
                late_rows=entry["late_rows"],
                gone_rows=entry["gone_rows"],
                digest=keyed_digest_from_json(entry.get("digest")),
            )
            for entry in document["tables"]
        ),
        left_out=dict(document["left_out"]),
    )
