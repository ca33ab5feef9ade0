"""Whole tables out of MariaDB through one session that stands where it stands.

For a source that commits too often for several sessions to come to one position, and whose owner allows no lock.
"""

from collections.abc import Sequence

from seamline.adapters.connections import Connection
from seamline.databases.mysql import client
from seamline.databases.mysql.canonical import MARIADB
from seamline.databases.mysql.one_session import SessionReaders
from seamline.databases.mysql.watched import WatchedSession
from seamline.domain.table_places import TablePlaces
from seamline.kinds.bulk import BulkRead
from seamline.sources.mariadb.sessions import address_of


class OneSessionReaders(SessionReaders):
    def __init__(
        self,
        session: WatchedSession,
        connection: Connection,
        reads: Sequence[BulkRead],
        *,
        places: TablePlaces | None = None,
    ) -> None:
        super().__init__(
            session,
            connection,
            reads,
            dialect=MARIADB,
            proof=lambda: str(address_of(session)),
            translated=client.translated,
            places=places,
        )
