"""Delivered files as views of a comparison: as a partner finds them, not as they were staged."""

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from seamline.domain.date_before import PublishedTable
from seamline.domain.errors import Refused
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.files.cuts import open_cuts
from seamline.sinks.files.state import HeldCut, HeldTable, LogState
from seamline.sinks.lake.read_view import Batches, LakeView


def open_published(
    plan: SyncPlan, destination: DestinationPlan, tables: Sequence[PublishedTable], *, position: Position
) -> LakeView:
    """Refused: the cut is gone, or the table has other columns by now."""
    with closing(open_cuts(destination)) as cuts:
        state = cuts.state(plan.sync)
    found = {}
    for one in tables:
        cut, held = _held(state, one)
        definition = plan.table(one.table).definition
        if held.definition.columns != definition.columns:
            raise Refused(f"the columns of {one.table} were altered since its cut", table=one.table)
        found[definition] = _rows(plan.sync, destination, cut, held)
    return LakeView(position, found)


def _held(state: LogState, published: PublishedTable) -> tuple[HeldCut, HeldTable]:
    cut = state.version(published.business_date, published.version)
    if cut is None or published.table not in cut.tables:
        raise Refused(
            f"version {published.version} of {published.table} of {published.business_date} is gone",
            hint="trigger that date again for a new version",
            table=published.table,
        )
    return cut, cut.tables[published.table]


def _rows(sync: str, destination: DestinationPlan, cut: HeldCut, held: HeldTable) -> Batches:
    def batches() -> Iterator[pa.RecordBatch]:
        with closing(open_cuts(destination)) as cuts:
            yield from cuts.rows_of(sync, cut, held)

    return batches
