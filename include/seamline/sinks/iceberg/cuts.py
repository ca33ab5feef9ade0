"""Cuts of Iceberg tables: `lake.cuts` with Iceberg's tags and views."""

from contextlib import closing

from seamline.domain.cut_keep import CutKeep
from seamline.domain.errors import Refused
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports.cuts import PinnedTables
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.read_back import view_of
from seamline.sinks.iceberg.tags import IcebergTags
from seamline.sinks.iceberg.views import IcebergViewFiles
from seamline.sinks.lake import cuts as lake_cuts
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.cuts import LakeCuts


def open_cuts(destination: DestinationPlan) -> LakeCuts:
    options = options_of(destination)
    views = IcebergViewFiles(options, destination)
    return lake_cuts.open_cuts(destination, Catalogue(options.catalog), IcebergTags(), views)


def pin_live(plan: SyncPlan, destination: DestinationPlan, count: int, *, run_id: str) -> PinnedTables:
    """`kinds.sink.CutsLiveTables`."""
    if plan.nightly is None:
        raise Refused(f"sync {plan.sync} declares no nightly cut", hint="add `nightly:` to the sync", sync=plan.sync)
    keep = CutKeep(plan.nightly.keep_days, plan.nightly.keep_month_ends, plan.nightly.keep_versions_days)
    stream, tables = plan.stream_id(destination.name), [table.name for table in plan.tables]
    with closing(open_cuts(destination)) as cuts:
        seen, pin = cuts.pin(stream, tables, run_id=run_id, kept_for=keep.at_most)
    staged_as = {name: str(number) for name, number in pin.snapshots.items()}
    return PinnedTables([view_of(plan, seen)] * count, staged_as)
