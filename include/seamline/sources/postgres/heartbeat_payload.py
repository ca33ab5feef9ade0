"""What a heartbeat says of a PostgreSQL source's catalogue, so that the log can be verified without it (ADR 37)."""

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

import psycopg

from seamline.databases.postgres.canonical import quoted
from seamline.domain.catalogue_fingerprints import CatalogueFingerprints
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.catalogue import survey
from seamline.sources.postgres.client import Session, open_session, role, translated
from seamline.sources.postgres.origin import table_fingerprint
from seamline.sources.postgres.position import PostgresPosition
from seamline.sources.postgres.schema_guard import CATALOGUE_FINGERPRINT, LSN

_ANSWER_S = 10.0
_THERE = (
    "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relname = ANY(%s)"
    " AND relkind IN ('r', 'p') ORDER BY relname"
)


class CataloguePayload:
    """`ports.HeartbeatPayload`. Opens a session per call, and remembers the fingerprints while nothing is
    altered."""

    def __init__(self, source: SourcePlan) -> None:
        self._source = source
        self._fingerprint = ""
        self._fingerprints: Mapping[str, str] = {}

    def payload(self, tables: Collection[str]) -> dict[str, Any]:
        """For a marker that is committed after this. Raises as any question to the source does; TransientError too
        where somebody alters one of the tables: then nothing can be said now.

        In this order, as the guard of a stream asks (ADR 9): the WAL's end, a lock on each table, its catalogue.
        """
        reader = role(self._source, self._source.reader)
        with closing(open_session(reader)) as session, translated(reader), session.watch.limited(_ANSWER_S):
            session.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            with session.transaction():
                return self._read(session, sorted(tables)).to_payload()

    def _read(self, session: Session, tables: list[str]) -> CatalogueFingerprints:
        (end,) = session.execute(LSN).fetchone() or (0,)
        there = [str(name) for (name,) in session.execute(_THERE, (self._source.schema, tables))]
        if there:
            places = ", ".join(f"{quoted(self._source.schema)}.{quoted(name)}" for name in there)
            # Nobody waits for this: who alters a table just now is asked again with the next heartbeat.
            session.execute(f"LOCK TABLE {places} IN ACCESS SHARE MODE NOWAIT".encode())
        asked = {"schema": self._source.schema, "tables": there, "publication": self._source.publication}
        (fingerprint,) = session.execute(CATALOGUE_FINGERPRINT, asked).fetchone() or ("",)
        if (of := f"{' '.join(there)}: {fingerprint}") != self._fingerprint:
            found = survey(session, self._source, there)
            self._fingerprints = {table.name: table_fingerprint(table) for table in found.tables}
            self._fingerprint = of
        return CatalogueFingerprints(PostgresPosition(int(end)), self._fingerprints)


def open_payload(source: SourcePlan) -> CataloguePayload:
    return CataloguePayload(source)
