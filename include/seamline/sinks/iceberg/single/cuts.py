"""Cuts of tables whose catalogue commits single tables: `lake.cuts`, whose tags the catalogue shows one by one.

Rows of the cut and the ledger's pointers to the tagged tables are one transaction, so whether there is a cut is decided
at once. A client of the catalogue alone sees the tag on one table before it sees it on the next.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta

from seamline import settings
from seamline.adapters import failpoints as armed_failpoints
from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session
from seamline.domain.catalogue import Table
from seamline.domain.ledger import StreamId
from seamline.domain.staged_cut import Published, StagedCut
from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.derived import cut_derived
from seamline.sinks.iceberg.io import warehouse_io
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.single.following import Following
from seamline.sinks.iceberg.single.opening import following
from seamline.sinks.iceberg.single.pointers import LedgerPointers
from seamline.sinks.iceberg.tags import IcebergTags
from seamline.sinks.lake.cut_rows import Pin
from seamline.sinks.lake.cuts import LakeCuts
from seamline.sinks.lake.store import PointerMove, Seen
from seamline.sinks.lake.tagging import TableTags


class SingleCuts(LakeCuts):
    """The catalogue shows what the ledger names before a table is held, and after each commit."""

    def __init__(self, destination: DestinationPlan, session: Session, followed: Following) -> None:
        options = options_of(destination)
        super().__init__(
            destination,
            LedgerPointers(options.catalog),
            session,
            IcebergTags(warehouse_io(options)),
            None,
            cut_derived(options),
            failpoints=armed_failpoints.from_environment(settings.process_environment()),
        )
        self._followed = followed

    def pin(self, stream: StreamId, tables: Sequence[str], *, run_id: str, kept_for: timedelta) -> tuple[Seen, Pin]:
        """As `LakeCuts.pin`. Diverged: somebody else has changed a table beside the ledger."""
        self._followed.require_settled(self._session)
        return super().pin(stream, tables, run_id=run_id, kept_for=kept_for)

    def publish(self, cut: StagedCut, *, definitions: Mapping[str, Table], signed_by: str = "") -> Published:
        # Also what an attempt before has committed and not shown.
        self._followed.settled(self._session)
        return super().publish(cut, definitions=definitions, signed_by=signed_by)

    @contextmanager
    def _tagged(
        self,
        heads: Mapping[str, str],
        wanted: Mapping[str, TableTags],
        stream: StreamId,
        made: Sequence[PointerMove] = (),
    ) -> Iterator[Mapping[str, str]]:
        with super()._tagged(heads, wanted, stream, made) as locations:
            yield locations
        self._followed.settled(self._session)


def open_cuts(destination: DestinationPlan) -> SingleCuts:
    """In a session of their own."""
    session = open_session(resolve(destination.connection), application_name="seamline cuts")
    return SingleCuts(destination, session, following(destination))
