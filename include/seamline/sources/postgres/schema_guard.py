"""Whether the tables of a PostgreSQL source still have their planned schema: its log holds no DDL.

A row image does not say what type its values have: after ALTER TABLE … TYPE a date, a timestamp and a number may look
alike. So before a span is committed the catalogue itself is asked, and one answer serves for all of the log before it.
"""

import logging
import math
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import psycopg

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import PARK_IT, Table, alterations
from seamline.domain.errors import ConfigError, InvariantViolated, SchemaConflict, TransientError
from seamline.domain.position import Position
from seamline.kinds.source import SeenOrigins
from seamline.plan.model import SourcePlan, SyncPlan
from seamline.sources.postgres.catalogue import read_catalogue
from seamline.sources.postgres.client import Session, open_session, role, source_error
from seamline.sources.postgres.composites import TYPES_INSIDE
from seamline.sources.postgres.origin import table_fingerprint, undone_alterations
from seamline.sources.postgres.places import WANTED, asked_for, relation_at
from seamline.sources.postgres.position import PostgresPosition

log = logging.getLogger(__name__)

# So long is waited for somebody who alters a table just now; then the stream is tried again later.
_LOCK_TIMEOUT_MS = 10_000
# Beyond that, and as long as a vanished server's silence is borne.
_ANSWER_S = 15.0
# While the platform database is away.
_ASK_AGAIN_S = 30.0
LSN = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
# A row of the catalogue that was altered has another xmin; ANALYZE and VACUUM leave these rows alone. A rewrite gives a
# table another file. That a table was renamed, only its row in pg_type keeps. A label that is renamed alters no table,
# and neither does what is done to the publication or to partitions, so these are asked too.
CATALOGUE_FINGERPRINT = f"""
WITH RECURSIVE here AS (SELECT oid, relfilenode, relreplident, relispartition, reltype, relkind FROM pg_class
  WHERE (relnamespace, relname) IN ({WANTED})),
columns AS (SELECT h.*, a.attnum, a.atttypid, a.xmin AS version
  FROM here h JOIN pg_attribute a ON a.attrelid = h.oid WHERE a.attnum > 0),
base AS (SELECT atttypid AS oid FROM columns
  UNION SELECT x.oid FROM base b JOIN pg_type t ON t.oid = b.oid {TYPES_INSIDE}),
partitions AS (SELECT oid, NULL::xid AS attached FROM here WHERE relkind = 'p'
  UNION ALL SELECT i.inhrelid, i.xmin FROM partitions p JOIN pg_inherits i
   ON i.inhparent = p.oid AND NOT i.inhdetachpending)
SELECT concat_ws(' ', count(*),
  sum(hashtextextended(concat_ws(' ', c.oid, c.relfilenode, c.relreplident, c.relispartition,
   c.attnum, c.version), 0)),
  (SELECT sum(hashtextextended(concat_ws(' ', i.indexrelid, i.xmin), 0)) FROM pg_index i
   WHERE i.indisprimary AND i.indrelid IN (SELECT oid FROM here)),
  (SELECT sum(hashtextextended(concat_ws(' ', t.oid, t.xmin), 0)) FROM pg_type t
   WHERE t.oid IN (SELECT reltype FROM here)),
  (SELECT sum(hashtextextended(concat_ws(' ', e.oid, e.xmin, e.enumlabel), 0)) FROM pg_enum e
   WHERE e.enumtypid IN (SELECT oid FROM base)),
  (SELECT sum(hashtextextended(concat_ws(' ', f.attrelid, f.attnum, f.xmin), 0)) FROM pg_attribute f
   JOIN pg_type t ON t.typrelid = f.attrelid AND t.typtype = 'c'
   WHERE f.attnum > 0 AND t.oid IN (SELECT oid FROM base)),
  (SELECT concat(p.oid, ' ', p.xmin, ' ', (SELECT sum(hashtextextended(concat_ws(' ', r.oid, r.xmin), 0))
   FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid IN (SELECT oid FROM here)))
   FROM pg_publication p WHERE p.pubname = %(publication)s),
  (SELECT sum(hashtextextended(concat_ws(' ', p.oid, p.attached, c.relfilenode, c.relreplident, c.relpersistence), 0))
   FROM partitions p JOIN pg_class c ON c.oid = p.oid))
FROM columns c"""


class CatalogueGuard:
    """`ports.SchemaGuard`. One session, opened when it is first needed and again after it was lost.

    What was done to a table is looked for since the last look, not since the plan: a default that was set and a VACUUM
    FULL weeks later are two harmless things, and only together they look like an alteration (ADR 32).
    """

    def __init__(self, source: SourcePlan, tables: Sequence[Table], seen: SeenOrigins) -> None:
        self._source = source
        self._tables = tuple(tables)
        self._places = {table.name: source.places.of(table.name) for table in tables}
        self._captured = {table.name: source.places.captured(table.name) for table in tables}
        self._kept = seen
        self._seen = {table.name: table.origin for table in tables}
        self._has_asked = False
        self._asked_in_vain_s = -math.inf
        self._session: Session | None = None
        self._verified_lsn = -1
        self._fingerprint = ""

    def verify(self, through: Position) -> None:
        """Every change up to `through` was made while the tables had their planned schema.

        The WAL's end is read first, then the tables are locked for a moment (ACCESS SHARE), then the catalogue is read,
        in statements of their own. An ALTER whose commit lies before that end lets go of its lock only when it is
        visible, which may be long after its commit stands in the log (synchronous replication).
        """
        if not isinstance(through, PostgresPosition):
            raise InvariantViolated(f"{through} is no position of a PostgreSQL source")
        if through.lsn <= self._verified_lsn:
            return
        end, fingerprint = self._looked()
        if end < through.lsn:
            raise InvariantViolated(
                f"the source's log ends at {PostgresPosition(end)}, and {through} was read from the log topic: this is"
                " not the server that the log came from, or it was restored from a backup",
                hint="find out which server answers at the reader's connection; after a restore give the"
                " capture up (`seamline capture reset`) and onboard again",
            )
        self._fingerprint, self._verified_lsn = fingerprint, end

    @property
    def verified(self) -> PostgresPosition | None:
        return PostgresPosition(self._verified_lsn) if self._verified_lsn >= 0 else None

    def is_as_planned(self, fingerprints: Mapping[str, str]) -> bool:
        if self._has_fingerprints(fingerprints):
            return True
        if not self._has_asked and time.monotonic() - self._asked_in_vain_s > _ASK_AGAIN_S:
            # Another process may have seen what was done, and have found it harmless.
            try:
                self._ask()
            except TransientError as exc:
                self._asked_in_vain_s = time.monotonic()
                log.warning("what was seen of the tables before cannot be asked: %s", exc.message)
        return self._has_fingerprints(fingerprints)

    def _has_fingerprints(self, fingerprints: Mapping[str, str]) -> bool:
        """Of the plan: nothing was ever done. Of the last look: nothing since."""
        return all(
            (found := fingerprints.get(self._captured[one.name], ""))
            and found in (table_fingerprint(one), table_fingerprint(replace(one, origin=self._seen[one.name])))
            for one in self._tables
        )

    def _looked(self) -> tuple[int, str]:
        """(the WAL's end, the catalogue's fingerprint at least from then), once the tables are known to be as
        planned."""
        reader = role(self._source, self._source.reader)
        try:
            session = self._opened(reader)
            try:
                with session.watch.limited(_ANSWER_S):
                    end, fingerprint = self._asked(session)
            except psycopg.errors.UndefinedTable:
                self._close_session()
                self._compare(self._opened(reader))
                raise
            if fingerprint != self._fingerprint:
                self._compare(self._opened(reader))
        except psycopg.Error as exc:
            self._close_session()
            raise source_error(exc, reader) from exc
        return end, fingerprint

    def close(self) -> None:
        self._kept.close()
        self._close_session()

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _opened(self, reader: Connection) -> Session:
        """The session of before, if it still answers: a quiet stream's may have been ended meanwhile."""
        if self._session is not None and not self._is_alive(self._session):
            self._close_session()
        if self._session is None:
            self._session = open_session(reader, settings=(f"lock_timeout={_LOCK_TIMEOUT_MS}",))
            # Each statement sees what is visible when it begins, whatever the login's default is.
            self._session.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return self._session

    @staticmethod
    def _is_alive(session: Session) -> bool:
        """Whether nothing came from the server unasked; without a round trip."""
        return not session.closed and not select.select([session.fileno()], [], [], 0)[0]

    def _asked(self, session: Session) -> tuple[int, str]:
        relations = ", ".join(str(relation_at(place)) for place in self._places.values())
        with session.pipeline(), session.transaction():
            end = session.execute(LSN)
            session.execute(f"LOCK TABLE {relations} IN ACCESS SHARE MODE".encode())
            asked = {**asked_for(self._places.values()), "publication": self._source.publication}
            fingerprint = session.execute(CATALOGUE_FINGERPRINT, asked)
        (lsn,), (text,) = end.fetchone() or (0,), fingerprint.fetchone() or ("",)
        return int(lsn), str(text)

    def _compare(self, session: Session) -> None:
        """Something was altered since the last look: is it anything that matters?"""
        with session.watch.limited(_ANSWER_S):
            now = read_catalogue(session, self._source, [table.name for table in self._tables])
        pairs = list(zip(self._tables, now, strict=True))
        self._refuse({old.name: alterations(old, new) for old, new in pairs}, hint=f"Undo the change. Or: {PARK_IT}")
        undone = self._undone(pairs)
        if any(undone.values()) and not self._has_asked:
            # Only now: a stream does not wait for the platform database in order to begin.
            self._ask()
            undone = self._undone(pairs)
        self._refuse(undone, hint=PARK_IT)
        self._keep(pairs)

    def _undone(self, pairs: Sequence[tuple[Table, Table]]) -> dict[str, list[str]]:
        return {old.name: undone_alterations(replace(old, origin=self._seen[old.name]), new) for old, new in pairs}

    def _ask(self) -> None:
        try:
            self._seen |= self._kept.read(self._tables)
        except ConfigError as exc:
            log.warning("what was seen of the tables before is not known, the plan alone counts: %s", exc.message)
        self._has_asked = True

    def _keep(self, pairs: Sequence[tuple[Table, Table]]) -> None:
        """For the looks to come, also those of another process. One of a plan without an origin has none to go by."""
        for old, new in pairs:
            if old.origin and self._seen[old.name] != new.origin:
                self._seen[old.name] = new.origin
                try:
                    self._kept.keep(old, new.origin)
                except (TransientError, ConfigError) as exc:
                    log.warning("what %s looks like now is not kept: %s", old.name, exc.message)

    def _refuse(self, changed: Mapping[str, list[str]], *, hint: str) -> None:
        texts = [text for found in changed.values() for text in found]
        if texts:
            raise SchemaConflict(
                f"tables of source {self._source.name} were altered: {'; '.join(texts)}",
                hint=hint,
                table=next(name for name, found in changed.items() if found),
            )


def open_guard(plan: SyncPlan, seen: SeenOrigins) -> CatalogueGuard:
    return CatalogueGuard(plan.source, [table.definition for table in plan.tables], seen)
