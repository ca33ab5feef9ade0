"""What the newest manifest of a sync says: the cuts that are there, and what became of those that are not."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from typing import Any

from seamline.domain.catalogue import Table, table_from_json, table_to_json
from seamline.domain.digest import KeyedDigest, keyed_digest_from_json, keyed_digest_to_json
from seamline.domain.errors import Refused
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.domain.staged_cut import CutMode
from seamline.files.dialect import Dialect
from seamline.sinks.files.two_phase import DeliveredFile


@dataclass(frozen=True, slots=True)
class FoundTotal:
    """A control total of a table. `groups`: the values of the columns `by`, rows, and the sum as text; without `by` one
    group at most, none where there are no rows."""

    sum: str
    by: tuple[str, ...]
    groups: tuple[tuple[tuple[str | None, ...], int, str], ...]


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A table of a cut, and its files in the folder of the cut."""

    definition: Table
    mode: CutMode
    rows: int
    digest: KeyedDigest | None
    is_proven: bool
    files: tuple[DeliveredFile, ...]
    totals: tuple[FoundTotal, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldCut:
    """A version of a business date. `format`, `dialect`: of its files, whatever is declared by now. `gone`: tables of
    it that have expired; where there are any it has no flag, and its control file names what is left."""

    run_id: str
    business_date: date
    version: int
    position: Position
    as_of: datetime
    verdict: str
    left_out: Mapping[str, str]
    signed_by: str
    decided_at: datetime
    folder: str
    format: str
    dialect: Dialect
    tables: Mapping[str, HeldTable]
    control_file: str
    flag_file: str
    gone: tuple[str, ...] = ()

    def paths_of(self, table: str) -> list[str]:
        return [f"{self.folder}/{file.name}" for file in self.tables[table].files]


@dataclass(frozen=True, slots=True)
class ExpiredCut:
    run_id: str
    business_date: date
    version: int
    position: Position


@dataclass(frozen=True, slots=True)
class LogState:
    """`versions`: of each date the greatest that was ever given. `leaving`: files of cuts that have expired, which may
    still be there."""

    cuts: tuple[HeldCut, ...] = ()
    versions: Mapping[date, int] = field(default_factory=dict)
    expired: tuple[ExpiredCut, ...] = ()
    leaving: tuple[str, ...] = ()

    def of_run(self, run_id: str) -> HeldCut | None:
        return next((cut for cut in self.cuts if cut.run_id == run_id), None)

    def expired_of_run(self, run_id: str) -> ExpiredCut | None:
        return next((cut for cut in self.expired if cut.run_id == run_id), None)

    def version(self, business_date: date, version: int) -> HeldCut | None:
        return next((cut for cut in self.cuts if (cut.business_date, cut.version) == (business_date, version)), None)

    def current(self, table: str, business_date: date) -> HeldCut | None:
        """The newest version of a date that holds the table."""
        held = [cut for cut in self.cuts if cut.business_date == business_date and table in cut.tables]
        return max(held, key=lambda cut: cut.version, default=None)

    def date_before(self, business_date: date) -> Iterator[tuple[str, HeldCut]]:
        """Tables by business date of the newest date before this one, each with the version that counts."""
        before = [cut.business_date for cut in self.cuts if cut.business_date < business_date]
        if not before:
            return
        newest = max(before)
        for table in sorted({name for cut in self.cuts if cut.business_date == newest for name in cut.tables}):
            cut = self.current(table, newest)
            if cut is not None and cut.tables[table].mode is CutMode.DATE:
                yield table, cut

    def next_version(self, business_date: date) -> int:
        return self.versions.get(business_date, 0) + 1

    def with_cut(self, cut: HeldCut) -> "LogState":
        return replace(self, cuts=(*self.cuts, cut), versions={**self.versions, cut.business_date: cut.version})

    def signed(self, run_id: str, signed_by: str) -> "LogState":
        """What stands published is proven by whoever signs for it."""
        return replace(
            self,
            cuts=tuple(
                cut
                if cut.run_id != run_id
                else replace(
                    cut,
                    signed_by=signed_by,
                    tables={name: replace(held, is_proven=True) for name, held in cut.tables.items()},
                )
                for cut in self.cuts
            ),
        )

    def without(self, business_date: date, gone: Collection[tuple[str, int]]) -> "LogState":
        """Without these (table, version) of a date."""
        cuts, expired, leaving = list[HeldCut](), list(self.expired), list(self.leaving)
        for cut in self.cuts:
            lost = [name for name in cut.tables if (name, cut.version) in gone and cut.business_date == business_date]
            left = {name: held for name, held in cut.tables.items() if name not in lost}
            # In front: the flag of a delivery goes before what of it was to go already.
            leaving = [*paths_that_leave(cut, lost), *leaving]
            if not lost:
                cuts.append(cut)
            elif left:
                cuts.append(replace(cut, tables=left, gone=(*cut.gone, *lost)))
            else:
                expired.append(ExpiredCut(cut.run_id, cut.business_date, cut.version, cut.position))
        return replace(self, cuts=tuple(cuts), expired=tuple(expired), leaving=tuple(leaving))

    def may_go(self, wanted: Collection[tuple[str, int]], business_date: date) -> Collection[tuple[str, int]]:
        """Of these (table, version) of a date those that go now. A delivery goes whole, so it stays while a table of it
        stays; but what nothing keeps except being the newest proven of a parked table keeps no other table."""
        gone = set[tuple[str, int]]()
        for cut in self.cuts:
            names = {
                name for name in cut.tables if (name, cut.version) in wanted and cut.business_date == business_date
            }
            if all(self._newest_proven(name) is cut for name in cut.tables.keys() - names):
                gone |= {(name, cut.version) for name in names}
        return gone

    def _newest_proven(self, table: str) -> HeldCut | None:
        proven = [cut for cut in self.cuts if table in cut.tables and cut.tables[table].is_proven]
        return max(proven, key=lambda cut: (cut.business_date, cut.version), default=None)

    def in_folder(self, folder: str) -> HeldCut | None:
        return next((cut for cut in self.cuts if cut.folder == folder), None)

    def swept(self, removed: Sequence[str]) -> "LogState":
        """Without what was to leave, if it is still the same: else the next maintenance removes all of it once more."""
        return replace(self, leaving=()) if self.leaving == tuple(removed) else self


def paths_that_leave(cut: HeldCut, tables: Sequence[str]) -> list[str]:
    """Files that go with these tables of a cut, in this order: the flag first, then the control file; where tables are
    left, another one is written in its place."""
    if not tables:
        return []
    files = [path for name in tables for path in cut.paths_of(name)]
    return [f"{cut.folder}/{cut.flag_file}", f"{cut.folder}/{cut.control_file}", *files]


def state_to_json(state: LogState) -> dict[str, Any]:
    return {
        "cuts": [_cut_to_json(cut) for cut in state.cuts],
        "versions": {day.isoformat(): version for day, version in state.versions.items()},
        "expired": [
            {
                "run_id": cut.run_id,
                "business_date": cut.business_date.isoformat(),
                "version": cut.version,
                "position": position_to_json(cut.position),
            }
            for cut in state.expired
        ],
        "leaving": list(state.leaving),
    }


def state_from_json(document: Mapping[str, Any]) -> LogState:
    """The inverse of `state_to_json`; of {} where nothing was ever decided. Refused: it is of change files."""
    if not document:
        return LogState()
    if "cuts" not in document:
        raise Refused(
            "change files lie at this place, and no cuts are delivered there",
            hint="`mode` was changed to `cuts`: give the destination another `location`, or name a new destination",
        )
    return LogState(
        tuple(map(_cut_from_json, document["cuts"])),
        {date.fromisoformat(day): version for day, version in document["versions"].items()},
        tuple(
            ExpiredCut(
                one["run_id"],
                date.fromisoformat(one["business_date"]),
                one["version"],
                position_from_json(one["position"]),
            )
            for one in document["expired"]
        ),
        tuple(document["leaving"]),
    )


def _cut_to_json(cut: HeldCut) -> dict[str, Any]:
    return {
        "run_id": cut.run_id,
        "business_date": cut.business_date.isoformat(),
        "version": cut.version,
        "position": position_to_json(cut.position),
        "as_of": cut.as_of.isoformat(),
        "verdict": cut.verdict,
        "left_out": dict(cut.left_out),
        "signed_by": cut.signed_by,
        "decided_at": cut.decided_at.isoformat(),
        "folder": cut.folder,
        "format": cut.format,
        "dialect": asdict(cut.dialect),
        "tables": [_table_to_json(held) for held in cut.tables.values()],
        "control_file": cut.control_file,
        "flag_file": cut.flag_file,
        "gone": list(cut.gone),
    }


def _cut_from_json(document: Mapping[str, Any]) -> HeldCut:
    tables = [_table_from_json(one) for one in document["tables"]]
    return HeldCut(
        **{
            **document,
            "business_date": date.fromisoformat(document["business_date"]),
            "position": position_from_json(document["position"]),
            "as_of": datetime.fromisoformat(document["as_of"]),
            "decided_at": datetime.fromisoformat(document["decided_at"]),
            "dialect": Dialect(**document["dialect"]),
            "tables": {held.definition.name: held for held in tables},
            # Manifests of earlier versions do not have it.
            "gone": tuple(document.get("gone", ())),
        }
    )


def _table_to_json(held: HeldTable) -> dict[str, Any]:
    return {
        "definition": table_to_json(held.definition),
        "mode": held.mode.value,
        "rows": held.rows,
        "digest": keyed_digest_to_json(held.digest),
        "is_proven": held.is_proven,
        "files": [asdict(file) for file in held.files],
        "totals": [asdict(total) for total in held.totals],
    }


def _table_from_json(document: Mapping[str, Any]) -> HeldTable:
    return HeldTable(
        table_from_json(document["definition"]),
        CutMode(document["mode"]),
        document["rows"],
        keyed_digest_from_json(document["digest"]),
        document["is_proven"],
        tuple(DeliveredFile(**file) for file in document["files"]),
        tuple(
            FoundTotal(
                total["sum"],
                tuple(total["by"]),
                tuple((tuple(values), rows, found) for values, rows, found in total["groups"]),
            )
            for total in document["totals"]
        ),
    )
