"""What maintenance asks of a destination, and what it lets go there."""

from collections.abc import Sequence

import psycopg

from seamline.adapters.connections import resolve
from seamline.adapters.postgres.client import Session, open_session, translated
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import DestinationPlan


class PostgresMaintenance:
    """One destination, in a session of its publisher, who owns what is there."""

    def __init__(self, destination: DestinationPlan, session: Session) -> None:
        self._destination = destination
        self._session = session

    def close(self) -> None:
        self._session.close()

    def ledgers(self) -> Sequence[LedgerPlace]:
        """Those of all streams and passes in this database; () where nothing was ever published."""
        with translated("read the ledgers"):
            try:
                rows = self._session.execute(
                    "SELECT stream, topic, topic_id, next_offset FROM seamline.ledger ORDER BY stream"
                ).fetchall()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                return ()
        return tuple(LedgerPlace(*row) for row in rows)


def open_maintenance(destination: DestinationPlan) -> PostgresMaintenance:
    session = open_session(resolve(destination.connection), application_name="seamline maintenance")
    return PostgresMaintenance(destination, session)
