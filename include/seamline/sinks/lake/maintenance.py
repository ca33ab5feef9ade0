"""What maintenance reads from a lake's ledger, and what it deletes there."""

from collections.abc import Sequence
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.ledger_maintenance import delete_old_findings, end_dead_snapshots, ledger_places
from seamline.domain.ledger import StreamId
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import DestinationPlan
from seamline.ports.maintenance import LetGo
from seamline.sinks.lake import state as lake_state
from seamline.sinks.lake.files import translated as on_disk
from seamline.sinks.lake.lake import Lake
from seamline.sinks.lake.loads import drop_abandoned
from seamline.sinks.lake.postgres_store import end_incremental_snapshot


class LakeMaintenance:
    """`DestinationMaintenance` of one destination, in a session of its publisher."""

    def __init__(self, destination: DestinationPlan, lake: Lake, session: Session) -> None:
        self._destination = destination
        self._lake = lake
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
        with on_disk("drop the files that nothing needs"):
            orphans = self._lake.sweep(self._session)
        return LetGo(findings, ended, staged, orphan_files=orphans)

    def close(self) -> None:
        self._session.close()

    def _end(self, stream: StreamId) -> None:
        end_incremental_snapshot(self._session, self._lake.catalogue, self._destination, stream)

    def _drop_abandoned(self) -> int:
        """What loads have staged and runs have held, and nobody has published for long; how many."""
        with closing(self._lake.open_cuts()) as cuts:
            return drop_abandoned(self._lake.warehouse, self._lake.loads_in) + cuts.drop_old_pins()


def open_maintenance(destination: DestinationPlan, lake: Lake) -> LakeMaintenance:
    session = open_session(resolve(destination.connection), application_name="seamline maintenance")
    return LakeMaintenance(destination, lake, session)
