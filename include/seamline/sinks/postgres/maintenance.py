"""What maintenance reads from a destination, and what it deletes there."""

from collections.abc import Sequence

from seamline.adapters.connections import resolve
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.ledger import forget
from seamline.databases.postgres.ledger_maintenance import delete_old_findings, end_dead_snapshots, ledger_places
from seamline.domain.ledger import StreamId
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports.maintenance import LetGo
from seamline.sinks.postgres.staging import drop_abandoned


class PostgresMaintenance:
    """One destination, in a session of its publisher, who owns what is there."""

    def __init__(self, destination: DestinationPlan, session: Session) -> None:
        self._destination = destination
        self._session = session

    def close(self) -> None:
        self._session.close()

    def ledgers(self) -> Sequence[LedgerPlace]:
        return ledger_places(self._session)

    def let_go(self) -> LetGo:
        """Drop what dead runs have left and findings that are long over. A repeat finds nothing."""
        with translated("let go what nobody needs any more"):
            return LetGo(
                findings=delete_old_findings(self._session),
                incremental_snapshots=end_dead_snapshots(self._session, self._destination.name, self._end),
                staged=drop_abandoned(self._session, self._destination.stage_namespace),
            )

    def _end(self, stream: StreamId) -> None:
        schema = self._destination.incremental_namespace(stream.sync.partition(INCREMENTAL)[2])
        forget(self._session, stream)
        self._session.execute(f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE".encode())


def open_maintenance(destination: DestinationPlan) -> PostgresMaintenance:
    session = open_session(resolve(destination.connection), application_name="seamline maintenance")
    return PostgresMaintenance(destination, session)
