"""The boundaries of a stream, from its ledger. They decide which changes it applies."""

from collections.abc import Mapping

from seamline.domain.cutover import BoundaryGate
from seamline.domain.errors import SchemaConflict
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.plan.model import TablePlan


def gate_of(stream: StreamId, ledger: LedgerRow, tables: Mapping[str, TablePlan]) -> BoundaryGate:
    """SchemaConflict where the ledger carries other tables than these, or others of the same name."""
    boundaries = {boundary.table: boundary for boundary in ledger.boundaries}
    missing = sorted(tables.keys() - boundaries.keys())
    if missing:
        raise SchemaConflict(
            f"the ledger of {stream} has no boundary for {', '.join(missing)}: never onboarded there",
            hint="onboard the sync so that the table is loaded and its boundary written",
            table=missing[0],
        )
    unplanned = sorted(boundaries.keys() - tables.keys())
    if unplanned:
        # Its changes would be skipped, and nothing would show it later.
        raise SchemaConflict(
            f"the ledger of {stream} carries {', '.join(unplanned)}, and the plan by which this stream was"
            " started does not: the plan is an older one",
            hint="the run that let the tables join starts the stream by its plan: clear its task `join`",
            table=unplanned[0],
        )
    altered = sorted(name for name, one in boundaries.items() if one.fingerprint not in ("", tables[name].fingerprint))
    if altered:
        raise SchemaConflict(
            f"{', '.join(altered)} of {stream} was loaded with other columns or another key than the plan by"
            " which this stream was started says: the plan is an older one",
            hint="the run that loaded it starts the stream by its plan: clear its last task that failed",
            table=altered[0],
        )
    return BoundaryGate(boundaries)
