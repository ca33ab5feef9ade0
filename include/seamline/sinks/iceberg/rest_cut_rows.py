"""The rows of cuts in a REST catalogue: the summary of the newest snapshot of a table of their own, as the ledger's."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from seamline.domain.cut_keep import KeptCut
from seamline.domain.cut_names import tag_of
from seamline.domain.date_before import PublishedTable
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.domain.staged_cut import CutMode, StagedCut
from seamline.domain.verdict import Verdict
from seamline.sinks.lake.cut_rows import Pin


@dataclass(frozen=True, slots=True)
class CutTable:
    """A table of a cut: its snapshot, and what was found of it."""

    snapshot_id: int
    mode: str
    rows: int
    verdict: str
    is_proven: bool


@dataclass(frozen=True, slots=True)
class CutRow:
    """A version of a date. Without `tables` it has expired."""

    business_date: date
    version: int
    run_id: str
    position: Position
    as_of: datetime
    published_at: datetime
    verdict: str
    left_out: Mapping[str, str]
    signed_by: str
    tables: Mapping[str, CutTable]

    @property
    def tag(self) -> str:
        return tag_of(self.business_date, self.version)

    def signed(self, signed_by: str) -> "CutRow":
        """What stands published is proven by whoever signs for it."""
        tables = {name: replace(one, is_proven=True) for name, one in self.tables.items()}
        return replace(self, signed_by=signed_by, tables=tables)


@dataclass(frozen=True, slots=True)
class Held:
    """What a run has looked at and nobody has published yet."""

    pin: Pin
    since: datetime


@dataclass(frozen=True, slots=True)
class CutRows:
    """All of one stream. `held`: by run."""

    held: Mapping[str, Held] = field(default_factory=dict)
    cuts: Sequence[CutRow] = ()

    def of_run(self, run_id: str) -> CutRow | None:
        return next((one for one in self.cuts if one.run_id == run_id), None)

    def next_version(self, business_date: date) -> int:
        return max((one.version for one in self.cuts if one.business_date == business_date), default=0) + 1

    def holding(self, run_id: str, pin: Pin) -> "CutRows":
        return replace(self, held={**self.held, run_id: Held(pin, datetime.now(UTC))})

    def without(self, run_id: str) -> "CutRows":
        return replace(self, held={name: one for name, one in self.held.items() if name != run_id})

    def with_cut(self, cut: CutRow) -> "CutRows":
        """In place of the same version, where there is one."""
        others = [one for one in self.cuts if (one.business_date, one.version) != (cut.business_date, cut.version)]
        return replace(self, cuts=(*others, cut))

    def newest_of(self, business_date: date) -> CutRow | None:
        """The version of a date that counts."""
        found = [one for one in self.cuts if one.business_date == business_date and one.tables]
        return max(found, key=lambda one: one.version, default=None)

    def newest_proven(self) -> CutRow | None:
        """The newest date that reconciled or that a person signed."""
        found = [one for one in self.cuts if any(table.is_proven for table in one.tables.values())]
        return max(found, key=lambda one: (one.business_date, one.version), default=None)

    def date_before(self, business_date: date, schema: str) -> list[PublishedTable]:
        """The tables by business date of the newest date before this one, each of its newest version."""
        earlier = [one for one in self.cuts if one.tables and one.business_date < business_date]
        newest = max((one.business_date for one in earlier), default=None)
        of_day = sorted((one for one in earlier if one.business_date == newest), key=lambda one: one.version)
        return list(
            {
                name: PublishedTable(name, cut.business_date, cut.version, schema, cut.tag)
                for cut in of_day
                for name, table in cut.tables.items()
                if table.mode == CutMode.DATE.value
            }.values()
        )

    def kept(self) -> Iterator[KeptCut]:
        counts = {
            (name, cut.business_date): cut.version
            for cut in sorted(self.cuts, key=lambda one: one.version)
            for name in cut.tables
        }
        for cut in self.cuts:
            for name, table in cut.tables.items():
                is_current = counts[name, cut.business_date] == cut.version
                at = cut.published_at
                yield KeptCut(name, cut.business_date, cut.version, at, at, is_current, table.is_proven)

    def without_tables(self, business_date: date, gone: Sequence[tuple[str, int]]) -> "CutRows":
        """`gone`: table and version."""
        after = self
        for cut in self.cuts:
            if cut.business_date == business_date:
                left = {name: one for name, one in cut.tables.items() if (name, cut.version) not in gone}
                after = after.with_cut(replace(cut, tables=left))
        return after


def cut_row(cut: StagedCut, version: int, snapshots: Mapping[str, int], signed_by: str) -> CutRow:
    # Of the whole cut: beside a table that is not clean the others stand for a date that nobody has signed.
    is_proven = cut.verdict is Verdict.MATCH or bool(signed_by)
    tables = {
        one.table: CutTable(snapshots[one.table], one.mode.value, one.rows, one.verdict.value, is_proven)
        for one in cut.tables
    }
    return CutRow(
        cut.business_date,
        version,
        cut.run_id,
        cut.position,
        cut.as_of,
        datetime.now(UTC),
        cut.verdict.value,
        dict(cut.left_out),
        signed_by,
        tables,
    )


def rows_to_text(rows: CutRows) -> str:
    held = {
        run_id: {
            "position": position_to_json(one.pin.position),
            "snapshots": dict(one.pin.snapshots),
            "kept_for_s": one.pin.kept_for.total_seconds(),
            "since": one.since.isoformat(),
        }
        for run_id, one in rows.held.items()
    }
    return json.dumps({"held": held, "cuts": [_cut_to_json(one) for one in rows.cuts]})


def rows_from_text(text: str) -> CutRows:
    """Without any where `text` is empty."""
    if not text:
        return CutRows()
    said = json.loads(text)
    held = {
        run_id: Held(
            Pin(position_from_json(one["position"]), one["snapshots"], timedelta(seconds=one["kept_for_s"])),
            datetime.fromisoformat(one["since"]),
        )
        for run_id, one in said["held"].items()
    }
    return CutRows(held, tuple(_cut_from_json(one) for one in said["cuts"]))


def _cut_to_json(cut: CutRow) -> dict[str, Any]:
    return {
        **{name: value for name, value in asdict(cut).items() if name not in ("position", "tables")},
        "business_date": cut.business_date.isoformat(),
        "position": position_to_json(cut.position),
        "as_of": cut.as_of.isoformat(),
        "published_at": cut.published_at.isoformat(),
        "tables": {name: asdict(one) for name, one in cut.tables.items()},
    }


def _cut_from_json(said: Mapping[str, Any]) -> CutRow:
    return CutRow(
        **{
            **said,
            "business_date": date.fromisoformat(said["business_date"]),
            "position": position_from_json(said["position"]),
            "as_of": datetime.fromisoformat(said["as_of"]),
            "published_at": datetime.fromisoformat(said["published_at"]),
            "tables": {name: CutTable(**one) for name, one in said["tables"].items()},
        }
    )
