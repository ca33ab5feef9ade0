"""A night that is delivered as files, and a partner who fetches it, wherever the place is."""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import KeyedDigest, Segment
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.files.stores.opening import open_store
from seamline.files.stores.store import Store
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import HoldsCuts, ReadsBack, SinkKind
from seamline.plan.model import DestinationPlan, TablePlan
from seamline.ports import Load
from seamline.sinks.files.cuts import OWN, FilesCuts
from seamline.sinks.files.spec import FilesDestination
from seamline.values.build import batch_of
from seamline.values.digest import segment_digest
from tests.contract.file_places import Place
from tests.log_topic import position, sync_plan

DAY, RUN = date(2026, 11, 27), "settlement__nightly/2026-11-27"
# Of a column without a zone.
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC).replace(tzinfo=None)
ACCOUNT = Table(
    "account",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("Name", Kind.STRING, "varchar(40)"),
        Column("currency", Kind.CHAR, "char(3)", length=3),
        Column("balance", Kind.DECIMAL, "decimal(18,2)", precision=18, scale=2),
        Column("at", Kind.DATETIME, "datetime(6)"),
    ),
    ("id",),
)
AUDIT = Table("audit", (Column("actor", Kind.STRING, "text"),))
EMPTY = Table("nothing", (Column("id", Kind.INTEGER, "int", nullable=False, length=32),), ("id",))
TABLES = (ACCOUNT, AUDIT, EMPTY)
Rows = Sequence[tuple[Any, ...]]
NUMBERS = itertools.count()


class Killed(BaseException):
    """As a SIGKILL: nothing of the publisher goes on."""


class Night:
    """One sync into one place."""

    def __init__(self, place: Place, staging: Path, tables: Sequence[Table] = TABLES, **declared: Any) -> None:
        self.place, self.tables = place, tables
        spec = FilesDestination.model_validate(
            {
                "destination": "partner",
                "kind": "files",
                "location": place.location,
                "staging": str(staging),
                **({"connection": place.connection} if place.connection else {}),
                **declared,
            }
        )
        self.destination = DestinationPlan(
            "partner",
            "files",
            spec.connection,
            spec.namespace,
            options=tuple(spec.options.items()),
            cuts_only=True,
        )
        self.sync = f"settlement_{next(NUMBERS)}"
        self.plan = replace(
            sync_plan(tables),
            sync=self.sync,
            destinations=(self.destination,),
            tables=tuple(TablePlan(table.name, None, table) for table in tables),
        )
        kind = sink_kind("files")
        assert isinstance(kind, ReadsBack)
        assert isinstance(kind, HoldsCuts)
        self.kind, self.reads, self.holds = cast(SinkKind, kind), cast(ReadsBack, kind), cast(HoldsCuts, kind)

    def opened(self) -> FilesCuts:
        found = self.holds.open_cuts(self.destination)
        assert isinstance(found, FilesCuts)
        return found

    def store(self) -> Store:
        return open_store(self.place.location, self.place.connection)

    def staged(self, table: Table, rows: Rows, mode: CutMode = CutMode.WHOLE) -> StagedTable:
        """Loaded, and read back as a comparison does."""
        place = self.kind.load_area(self.destination, run_id=RUN).create([table])[table.name]
        batch = batch_of(table, list(rows))
        count = self.kind.load(self.destination, place, ArrowRows(batch.schema, iter([batch])))
        load = Load(table, place.name, count)
        (view,) = self.reads.open_staged(self.plan, self.destination, [load], 1, position=position(1))
        nothing = segment_digest(table, batch[:0], run_key="k")
        found = sum(view.digests(Segment(table.name), run_key="k").values(), nothing)
        assert found == segment_digest(table, batch, run_key="k")
        return StagedTable(table.name, mode, place.name, count, Verdict.MATCH, digest=KeyedDigest("k", found))

    def cut_of(self, rows: Mapping[Table, Rows], *, run: str = RUN, day: date = DAY) -> StagedCut:
        staged = tuple(self.staged(table, some) for table, some in rows.items())
        return StagedCut(run, self.sync, "partner", day, position(1), datetime.now(UTC), staged)

    def cut(self, mark: str, *, run: str = RUN, day: date = DAY) -> StagedCut:
        """All tables staged with rows that bear the mark."""
        accounts = [(1, mark, "CNY", Decimal("10.00"), NOON), (2, None, "USD", Decimal("-0.50"), None)]
        return self.cut_of({ACCOUNT: accounts, AUDIT: [(mark,), (mark,)], EMPTY: []}, run=run, day=day)

    def publish(self, cut: StagedCut, *, by: FilesCuts | None = None, signed_by: str = "") -> int:
        definitions = {table.name: table for table in self.tables}
        with closing(by or self.opened()) as cuts:
            return cuts.publish(cut, definitions=definitions, signed_by=signed_by).version

    # ---- the partner ------------------------------------------------------------------------------------------------

    def fetched(self, version: int = 1, day: date = DAY) -> dict[str, bytes] | None:
        """What a partner fetches: nothing without the flag, and all of it as the control file says."""
        folder = f"{self.sync}/{day}/v{version}/"
        found = {path.removeprefix(folder): content for path, content in self.place.seen(folder).items()}
        if "_SUCCESS" not in found:
            return None
        control = json.loads(found["control.json"])
        for file in (file for table in control["tables"] for file in table["files"]):
            content = found[file["name"]]
            assert len(content) == file["bytes"]
            assert hashlib.sha256(content).hexdigest() == file["sha256"]
        return found

    def own(self) -> set[str]:
        """What lies there that no partner needs."""
        folder = f"{OWN}/{self.sync}/"
        return {path.removeprefix(folder) for path in self.place.seen(folder)}


STORE_STEPS = ("write", "put_if_absent", "place", "remove", "remove_folder")


def steps_of(store: Store, patch: pytest.MonkeyPatch, *, dies_before: int) -> list[str]:
    """From here on every change of the store is counted, and its client dies before one of them."""
    taken: list[str] = []

    def watched(name: str) -> None:
        real = getattr(store, name)

        def step(*args: Any, **kwargs: Any) -> Any:
            if len(taken) == dies_before:
                raise Killed(name)
            taken.append(name)
            return real(*args, **kwargs)

        patch.setattr(store, name, step)

    for name in STORE_STEPS:
        watched(name)
    return taken
