"""Which tables a capture carries, and leases against pruning of its log topic."""

import contextlib
import uuid
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import errors

from seamline.domain.errors import InvariantViolated, TransientError
from seamline.platform.database import Database, OpenSession, Session, open_session, translated


class PlatformCaptureRegistry:
    """`CaptureRegistry` of ports."""

    def __init__(self, database: Database, open_one: OpenSession = open_session) -> None:
        self._database = database
        self._open = open_one

    def close(self) -> None:
        self._database.close()

    @contextlib.contextmanager
    def locked(self, source: str) -> Iterator[None]:
        """Alone with this source's capture. Held by a session of its own, so it ends with this process at the latest.

        TransientError names the holder when it is not free within the statement time-out.
        """
        session = self._open()
        try:
            with contextlib.closing(session):
                self._lock(session, source)
                yield
        except psycopg.Error as exc:
            raise translated(exc) from exc

    def _lock(self, session: Session, source: str) -> None:
        session.execute("select set_config('application_name', %s, false)", (f"seamline capture of {source}"[:63],))
        try:
            session.execute("select pg_advisory_lock(hashtextextended(%s, 0))", (_lock_name(source),))
        except (errors.QueryCanceled, errors.LockNotAvailable) as exc:
            raise TransientError(
                f"the capture of source {source} is being changed by {self._holder(session, source)}",
                hint="wait for it to end and try again",
            ) from exc

    def _holder(self, session: Session, source: str) -> str:
        row = session.execute(
            "select string_agg(format('process %%s at %%s since %%s', a.pid, coalesce(host(a.client_addr), 'local'),"
            " date_trunc('second', a.backend_start)), ', ')"
            " from pg_locks l join pg_stat_activity a using (pid)"
            " where l.locktype = 'advisory' and l.granted and l.objsubid = 1"
            " and (l.classid::bigint << 32) | l.objid::bigint = hashtextextended(%s, 0)",
            (_lock_name(source),),
        ).fetchone()
        return str(row[0]) if row and row[0] else "somebody who has just ended"

    def tables(self, source: str) -> tuple[int, tuple[str, ...]]:
        def work(session: Session) -> tuple[int, tuple[str, ...]]:
            row = session.execute(
                "select generation, tables from capture_tables where source = %s order by generation desc limit 1",
                (source,),
            ).fetchone()
            return (0, ()) if row is None else (int(row[0]), tuple(row[1]))

        return self._database.transact(work)

    def set_tables(self, source: str, *, generation: int, tables: Sequence[str]) -> None:
        """Write the next generation. A repeat with the same tables is a no-op; any other number is a lost lock."""

        def work(session: Session) -> None:
            session.execute(
                "insert into capture_tables (source, generation, tables)"
                " select %s, %s, %s where %s - 1 = coalesce((select max(generation) from capture_tables"
                " where source = %s), 0) on conflict (source, generation) do nothing",
                (source, generation, list(tables), generation, source),
            )
            row = session.execute(
                "select generation, tables from capture_tables where source = %s order by generation desc limit 1",
                (source,),
            ).fetchone()
            if row is None or (row[0], list(row[1])) != (generation, list(tables)):
                raise InvariantViolated(
                    f"generation {generation} of the tables of source {source} was to follow, but {row} is in force",
                    hint="two processes changed this capture at once: was the lock's session lost? run it again",
                )

        self._database.transact(work)


class PlatformPruningHolds:
    """`PruningHolds` of ports. A holder has one hold per topic: asking again renews it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def hold_log(self, topic: str, *, holder: str, offset: int, lease_s: float) -> str:
        def work(session: Session) -> str:
            row = session.execute(
                "insert into pruning_hold (hold_id, topic, holder, next_offset, expires_at)"
                " values (%s, %s, %s, %s, clock_timestamp() + make_interval(secs => %s))"
                " on conflict (topic, holder) do update set next_offset = excluded.next_offset,"
                " expires_at = excluded.expires_at returning hold_id",
                (uuid.uuid4().hex, topic, holder, offset, lease_s),
            ).fetchone()
            if row is None:
                raise InvariantViolated("an upsert gave no row back")
            return str(row[0])

        return self._database.transact(work)

    def release_log(self, hold_id: str) -> None:
        def work(session: Session) -> None:
            session.execute("delete from pruning_hold where hold_id = %s", (hold_id,))

        self._database.transact(work)

    def lowest_held(self, topic: str) -> int | None:
        """The first offset that a living hold protects; None when nobody holds the topic."""

        def work(session: Session) -> int | None:
            row = session.execute(
                "select min(next_offset) from pruning_hold where topic = %s and expires_at > clock_timestamp()",
                (topic,),
            ).fetchone()
            return None if row is None else row[0]

        return self._database.transact(work)


def _lock_name(source: str) -> str:
    return f"seamline capture {source}"
