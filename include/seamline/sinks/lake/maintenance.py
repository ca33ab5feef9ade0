"""What maintenance reads from a lake's ledger, and what it deletes there."""

from collections.abc import Callable, Sequence

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.ledger_maintenance import delete_old_findings, end_dead_snapshots, ledger_places
from seamline.domain.ledger import StreamId
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import DestinationPlan
from seamline.ports.maintenance import LetGo
from seamline.sinks.lake import state as lake_state
from seamline.sinks.lake.pointers import Pointers
from seamline.sinks.lake.postgres_store import end_incremental_snapshot


class LakeMaintenance:
    """`DestinationMaintenance` of one destination, in a session of its publisher."""

    def __init__(
        self,
        destination: DestinationPlan,
        catalogue: Pointers,
        session: Session,
        drop_abandoned: Callable[[], int],
        drop_orphans: Callable[[Session], int],
    ) -> None:
        self._drop_abandoned = drop_abandoned
        self._drop_orphans = drop_orphans
        self._destination = destination
        self._catalogue = catalogue
        self._session = session

    def ledgers(self) -> Sequence[LedgerPlace]:
        return ledger_places(self._session)

    def let_go(self) -> LetGo:
        """Findings that are long over, incremental snapshots that nobody goes on with, old rows of `lake_state`, and
        files that nothing names any more."""
        with translated("let go what nobody needs any more"):
            findings = delete_old_findings(self._session)
            ended = end_dead_snapshots(self._session, self._destination.name, self._end)
            lake_state.prune(self._session)
        staged = self._drop_abandoned()
        return LetGo(findings, ended, staged, orphan_files=self._drop_orphans(self._session))

    def close(self) -> None:
        self._session.close()

    def _end(self, stream: StreamId) -> None:
        end_incremental_snapshot(self._session, self._catalogue, self._destination, stream)


def open_maintenance(
    destination: DestinationPlan,
    catalogue: Pointers,
    *,
    drop_abandoned: Callable[[], int],
    drop_orphans: Callable[[Session], int] = lambda _: 0,
) -> LakeMaintenance:
    """`drop_abandoned`: drops what loads have staged and nobody has published for long; how many. `drop_orphans`: drops
    files that nothing in the catalogue leads to; how many."""
    session = open_session(resolve(destination.connection), application_name="seamline maintenance")
    return LakeMaintenance(destination, catalogue, session, drop_abandoned, drop_orphans)
