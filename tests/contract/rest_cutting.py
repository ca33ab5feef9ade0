"""Cuts of tables in a REST catalogue, whoever answers for it."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from seamline.domain.staged_cut import CutMode, Published, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.plan.model import NightlyPlan
from seamline.ports.cuts import PinnedTables
from seamline.sinks.iceberg.kind import Iceberg
from seamline.sinks.iceberg.manifests import read_metadata
from tests.contract.behaviours import Applying, account, published
from tests.contract.rest_world import RestWorld
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, insert, update

KIND = Iceberg()
DAY, RUN, TAG = date(2026, 11, 27), "settlement__nightly/2026-11-27", "cut_2026_11_27_v1"


class Cutting:
    """A stream that goes on, and the cuts of what it has applied."""

    def __init__(self, world: RestWorld) -> None:
        self.world = world
        self.plan = replace(world.plan, nightly=NightlyPlan(keep_days=2, keep_month_ends=0, keep_versions_days=7))
        published(world).span(insert(ACCOUNT, **account(1, "at the cut")), insert(AUDIT, actor="x", action="y"))

    def pin(self, run: str = RUN) -> PinnedTables:
        return KIND.pin_live(self.plan, self.world.destination, 1, run_id=run)

    def publish(
        self, pinned: PinnedTables, day: date = DAY, run: str = RUN, signed_by: str = "", **of: Any
    ) -> Published:
        tables = tuple(
            StagedTable(name, of.get("mode", CutMode.WHOLE), number, 1, of.get("verdict", Verdict.MATCH))
            for name, number in pinned.staged_as.items()
        )
        at = pinned.views[0].position
        cut = StagedCut(run, STREAM.sync, STREAM.destination, day, at, datetime.now(UTC), tables)
        with closing(KIND.open_cuts(self.world.destination)) as cuts:
            return cuts.publish(cut, definitions={}, signed_by=signed_by)

    def changed(self) -> None:
        row = update(ACCOUNT, account(1, "at the cut"), account(1, "behind it"))
        Applying(self.world).span(row, insert(AUDIT, actor="x", action="z"))

    def tags(self, table: str = "account") -> dict[str, int]:
        refs = read_metadata(self.world.seen().heads[table]).refs
        return {name: ref.snapshot_id for name, ref in refs.items() if name != "main"}

    def rows(self, at: date | str) -> list[Any]:
        return KIND.open_tables(self.world.destination, STREAM, at)["account"].arrow().to_pylist()


def a_cut_is_what_stood_when_it_was_compared(cutting: Cutting) -> None:
    pinned = cutting.pin()
    cutting.changed()
    assert cutting.publish(pinned) == Published(1, is_new=True)
    for name, table in KIND.open_tables(cutting.world.destination, STREAM, DAY).items():
        assert cutting.tags(name) == {TAG: table.snapshot_id}, "the run's own tag has gone"  # type: ignore[attr-defined]
    assert {*KIND.open_tables(cutting.world.destination, STREAM, DAY)} == {table.name for table in TABLES}
    assert cutting.rows(DAY) == [account(1, "at the cut")] == cutting.rows("proven") == cutting.rows(TAG)
    assert cutting.rows("live") == [account(1, "behind it")]
