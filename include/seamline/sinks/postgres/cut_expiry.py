"""Cuts that have served their time leave PostgreSQL: their partitions are dropped, one date in one transaction.

Dropping a partition needs the partitioned table to itself for a moment. All locks of a date are taken by one statement
that ends within 0.8 s, so a reader waits for about as long at most, and none is ended for a deadlock, for which the
server looks after a second (`deadlock_timeout`). Where a lock is not given, the date stays until the next hour.

The row of the cut in `seamline.cut` stays, with position, verdict and signature, and says when it expired.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import psycopg

from seamline.adapters.connections import resolve
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, open_session, seamline_error, translated
from seamline.databases.postgres.read import Relation
from seamline.domain.cut_keep import KeptCut
from seamline.domain.errors import Refused, TransientError
from seamline.plan.model import DestinationPlan
from seamline.sinks.postgres.cut_versions import drop_rows_of_no_cut, drop_version
from seamline.sinks.postgres.cuts import LOCK, create_cut_tables

_LOCKED_WITHIN = "800ms"
_IN_USE = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected)
_CUTS = """
SELECT t.table_name, t.business_date, t.version, c.attached_at, c.published_at, p.version IS NOT NULL, t.is_proven,
    t.partition_name
FROM seamline.cut_table t JOIN seamline.cut c USING (sync, business_date, version)
LEFT JOIN seamline.cut_pointer p USING (sync, table_name, business_date, version)
WHERE t.sync = %(sync)s
"""
# Partitions of a version that was never published have no row yet: they are found by their bounds. Those of a version
# that another sync has under the same number cannot be distinguished while that one is not published either.
_HALF_DONE = """
SELECT parent.relname, c.business_date, c.version, c.attached_at, NULL, false, false, part.relname
FROM seamline.cut c JOIN pg_class parent ON parent.relkind = 'p' AND parent.relnamespace = to_regnamespace(%(schema)s)
JOIN pg_inherits i ON i.inhparent = parent.oid JOIN pg_class part ON part.oid = i.inhrelid
    AND part.relnamespace = parent.relnamespace
WHERE c.sync = %(sync)s AND c.published_at IS NULL AND c.expired_at IS NULL
    AND pg_get_expr(part.relpartbound, part.oid) = format('FOR VALUES FROM (%%L, %%s) TO (%%L, %%s)',
        c.business_date, c.version, c.business_date, c.version + 1)
    AND NOT EXISTS (SELECT FROM seamline.cut_table t WHERE t.partition_name = part.relname)
    AND NOT EXISTS (SELECT FROM seamline.cut o WHERE o.sync <> c.sync AND o.business_date = c.business_date
        AND o.version = c.version AND o.published_at IS NULL AND o.expired_at IS NULL)
"""
# The same of those that are stored as versions: a number is there, and its table has no row yet.
_HALF_STORED = """
SELECT n.table_name, n.business_date, n.version, c.attached_at, NULL, false, false, ''
FROM seamline.cut_number n JOIN seamline.cut c USING (sync, business_date, version)
WHERE n.sync = %(sync)s AND c.published_at IS NULL AND c.expired_at IS NULL
"""
# Nothing is left of it: its tables are gone, and so is whatever was attached and not published.
_MARK_EXPIRED = """
UPDATE seamline.cut c SET expired_at = clock_timestamp()
WHERE sync = %s AND business_date = %s AND version = ANY(%s) AND expired_at IS NULL
    AND NOT EXISTS (SELECT FROM seamline.cut_table t
        WHERE t.sync = c.sync AND t.business_date = c.business_date AND t.version = c.version)
"""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What left with a date: partitions and their bytes."""

    partitions: int
    size_bytes: int


class PostgresCutExpiry:
    """ports of `sync.cut_expiry`: the cuts of one destination, in a session of their owner."""

    def __init__(self, destination: DestinationPlan, session: Session) -> None:
        self._destination = destination
        self._session = session

    def close(self) -> None:
        self._session.close()

    def kept_cuts(self, sync: str) -> tuple[Sequence[KeptCut], datetime]:
        """Every table of every version that is there, and the time by this server's clock."""
        with translated(f"read the cuts of {sync}"):
            now = self._one("SELECT clock_timestamp()")
            if self._one("SELECT to_regclass('seamline.cut')") is None:
                return (), now
            with self._session.transaction():
                self._session.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                create_cut_tables(self._session)
            return tuple(self._kept(sync)), now

    def _kept(self, sync: str) -> dict[KeptCut, str]:
        """Each with the name of its partition."""
        wanted = {"sync": sync, "schema": quoted(self._destination.cut_namespace)}
        rows = [
            row
            for query in (_CUTS, _HALF_DONE, _HALF_STORED)
            for row in self._session.execute(query, wanted).fetchall()
        ]
        return {KeptCut(*fields): str(partition) for *fields, partition in rows}

    def expire(self, sync: str, business_date: date, cuts: Sequence[KeptCut]) -> Dropped:
        """Drop these tables of a date, in one transaction; a repeat finds them gone. What became of one since it was
        judged, as that it was published after all, is for the next hour: it stays.

        TransientError: readers did not let the date go in time. Refused: somebody's view or table builds on a
        partition; it is named. Nothing of the date has changed then. A partition that somebody has detached stays, as
        a table.
        """
        cuts = sorted(cuts, key=lambda one: (one.table, one.version))
        try:
            with self._session.transaction():
                self._session.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                kept = self._kept(sync)
                cuts = [cut for cut in cuts if cut in kept]
                there = [place for cut in cuts if (place := self._attached(kept[cut])) is not None]
                self._lock(there, {cut.table for cut in cuts})
                size = sum(self._one("SELECT pg_total_relation_size(%s::regclass)", (str(place),)) for place in there)
                for place in there:
                    self._session.execute(f"DROP TABLE {place}".encode())
                versions, freed = self._drop_versions(sync, business_date, cuts)
                self._forget(sync, business_date, cuts)
        except _IN_USE as exc:
            raise TransientError(
                f"the cuts of {business_date} of {sync} are being read: {exc.diag.message_primary}",
                hint="it is tried again in an hour; a reader that never ends its transaction has to be ended",
                sync=sync,
            ) from exc
        except psycopg.errors.DependentObjectsStillExist as exc:
            raise Refused(
                f"the cut of {business_date} of {sync} stays: {exc.diag.message_detail or exc.diag.message_primary}",
                hint="let it read the table of all cuts, or its `_current` view, in place of one partition",
                sync=sync,
            ) from exc
        except psycopg.Error as exc:
            raise seamline_error(exc, f"let the cut of {business_date} of {sync} expire") from exc
        return Dropped(len(there) + versions, int(size) + freed)

    def _drop_versions(self, sync: str, day: date, cuts: Sequence[KeptCut]) -> tuple[int, int]:
        """Of tables whose cuts are stored as versions: how many cuts, and the bytes of the rows that went with them."""
        self._session.execute(f"SET LOCAL lock_timeout = '{_LOCKED_WITHIN}'")
        found = [drop_version(self._session, self._destination, sync, cut.table, day, cut.version) for cut in cuts]
        places = [place for place in found if place is not None]
        return len(places), sum(drop_rows_of_no_cut(self._session, place) for place in dict.fromkeys(places))

    def expired(self, sync: str) -> Sequence[tuple[date, int]]:
        """(business date, version) of every cut of which nothing is left."""
        with translated(f"read the expired cuts of {sync}"):
            if self._one("SELECT to_regclass('seamline.cut')") is None:
                return ()
            rows = self._session.execute(
                "SELECT business_date, version FROM seamline.cut WHERE sync = %s AND expired_at IS NOT NULL", (sync,)
            ).fetchall()
        return [(day, int(version)) for day, version in rows]

    def _attached(self, partition: str) -> Relation | None:
        """None where it is gone, or was detached by somebody who wants to keep it."""
        place = Relation(self._destination.cut_namespace, partition)
        is_partition = self._one("SELECT relispartition FROM pg_class WHERE oid = to_regclass(%s)", (str(place),))
        return place if is_partition else None

    def _lock(self, partitions: Iterable[Relation], tables: Iterable[str]) -> None:
        parents = [self._parent(place) for place in partitions]
        names = ", ".join(f"ONLY {name}" for name in dict.fromkeys([*parents, *map(str, partitions)]))
        if names:
            self._session.execute(f"SET LOCAL statement_timeout = '{_LOCKED_WITHIN}'")
            self._session.execute(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE".encode())
            self._session.execute("SET LOCAL statement_timeout = 0")

    def _parent(self, partition: Relation) -> str:
        """Not by the table's name: earlier cuts may have been put aside under another one."""
        return str(
            self._one(
                "SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = %s::regclass", (str(partition),)
            )
        )

    def _forget(self, sync: str, business_date: date, cuts: Sequence[KeptCut]) -> None:
        for cut in cuts:
            of_table = (sync, cut.table, business_date, cut.version)
            for table in ("cut_pointer", "cut_table"):
                self._session.execute(
                    f"DELETE FROM seamline.{table}"
                    " WHERE sync = %s AND table_name = %s AND business_date = %s AND version = %s",
                    of_table,
                )
        versions = sorted({cut.version for cut in cuts})
        self._session.execute(_MARK_EXPIRED, (sync, business_date, versions))

    def _one(self, query: str, arguments: Sequence[object] = ()) -> Any:
        row = self._session.execute(query.encode(), arguments).fetchone()
        return None if row is None else row[0]


def open_cut_expiry(destination: DestinationPlan) -> PostgresCutExpiry:
    session = open_session(resolve(destination.connection), application_name="seamline cut expiry")
    return PostgresCutExpiry(destination, session)
