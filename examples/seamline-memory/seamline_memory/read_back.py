"""The destination's tables as views, and what its streams met: the power `ReadsBack`."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.plan.model import SyncPlan
from seamline.ports import Load
from seamline.values.build import batch_of
from seamline_memory.read_view import MemoryView
from seamline_memory.store import State, Store, batch_of_rows


def open_live(plan: SyncPlan, stream: StreamId, store: Store, count: int) -> list[MemoryView]:
    """All over one committed state."""
    state = store.state
    if stream not in state.ledgers:
        raise Refused(f"{stream} was never published", hint="onboard the sync first", sync=plan.sync)
    tables = [entry.definition for entry in plan.tables]
    held = {table: batch_of_rows(table, state.tables.get(table.name, {})) for table in tables}
    return [MemoryView(state.ledgers[stream].position, held)] * count


def open_staged(store: Store, loads: Sequence[Load], count: int, *, position: Position) -> list[MemoryView]:
    return [MemoryView(position, _staged(store.state, loads))] * count


def _staged(state: State, loads: Sequence[Load]) -> Mapping[Table, pa.RecordBatch]:
    found = {}
    for load in loads:
        if load.staged_as not in state.staged:
            raise Refused(f"the staged table {load.staged_as} is gone", table=load.table.name)
        found[load.table] = pa.concat_batches([batch_of(load.table, ()), *state.staged[load.staged_as]])
    return found


def findings_of(
    store: Store, stream: StreamId, *, after: FindingsReported
) -> tuple[tuple[Finding, ...], FindingsReported]:
    """Those that are not over, beyond `after`."""
    found = store.state.findings
    new = [one.finding for one in found[after.number :] if one.stream == stream and not one.is_over]
    return tuple(new), FindingsReported(len(found))
