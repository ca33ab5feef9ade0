"""The origins of a source's tables as the streams of a sync last saw them: what the catalogue keeps beside the
schema."""

from collections.abc import Mapping, Sequence

from seamline.domain.catalogue import Table
from seamline.platform.database import Database, Session


class PlatformOrigins:
    """`postgres_source.schema_guard.SeenOrigins` of one sync. Whatever is lost here makes a stream stop, never go
    on. A table has a row for each of its loads: two destinations may have loaded it at different times."""

    def __init__(self, database: Database, sync: str) -> None:
        self._database = database
        self._sync = sync

    def read(self, planned: Sequence[Table]) -> Mapping[str, str]:
        """By table; nothing of one that was loaded at another time."""
        origins = {table.name: table.origin for table in planned}

        def work(session: Session) -> Mapping[str, str]:
            rows = session.execute(
                "select table_name, planned, seen from seen_origin where sync = %s", (self._sync,)
            ).fetchall()
            return {str(name): str(seen) for name, of, seen in rows if origins.get(str(name)) == of}

        return self._database.transact(work)

    def keep(self, planned: Table, seen: str) -> None:
        def work(session: Session) -> None:
            session.execute(
                "insert into seen_origin (sync, table_name, planned, seen) values (%s, %s, %s, %s)"
                " on conflict (sync, table_name, md5(planned)) do update set seen = excluded.seen,"
                " seen_at = clock_timestamp()",
                (self._sync, planned.name, planned.origin, seen),
            )

        self._database.transact(work)

    def close(self) -> None:
        self._database.close()
