"""What a task reads the tables of a MySQL source with."""

from collections.abc import Sequence

from seamline.databases.mysql.barrier_readers import BarrierReaders
from seamline.databases.mysql.client import role
from seamline.databases.mysql.snapshot_barrier import BarrierLocks
from seamline.kinds.bulk import BulkRead, TableReaders
from seamline.plan.model import SourcePlan
from seamline.sources.mysql.sessions import READING


def open_readers(source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str, participant: int) -> TableReaders:
    """`SourceKind.open_readers`."""
    return BarrierReaders(
        role(source, source.reader),
        reads,
        server=READING.server,
        snapshots=READING.snapshots_of(source),
        locks=BarrierLocks(barrier),
        participant=participant,
        places=source.places,
    )
