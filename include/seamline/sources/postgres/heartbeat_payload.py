"""What a heartbeat says of a PostgreSQL source's catalogue, so that the log can be verified without it (ADR 37)."""

from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

import psycopg

from seamline.domain.catalogue_fingerprints import CatalogueFingerprints
from seamline.domain.table_places import TablePlace
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.catalogue import survey_at
from seamline.sources.postgres.client import Session, open_session, role, translated
from seamline.sources.postgres.origin import table_fingerprint
from seamline.sources.postgres.places import WANTED, asked_for, relation_at
from seamline.sources.postgres.position import PostgresPosition
from seamline.sources.postgres.schema_guard import CATALOGUE_FINGERPRINT, LSN

_ANSWER_S = 10.0
_THERE = (
    "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE (c.relnamespace, c.relname) IN ({WANTED}) AND c.relkind IN ('r', 'p') ORDER BY 1, 2"
)


class CataloguePayload:
    """`ports.HeartbeatPayload`. Opens a session per call, and remembers the fingerprints while nothing is
    altered."""

    def __init__(self, source: SourcePlan) -> None:
        self._source = source
        self._fingerprint = ""
        self._fingerprints: Mapping[str, str] = {}

    def payload(self, tables: Collection[str]) -> dict[str, Any]:
        """For a marker that is committed after this; `tables` as the capture calls them. Raises as any question to the
        source does; TransientError too where somebody alters one of the tables: then nothing can be said now.

        In this order, as the guard of a stream asks (ADR 9): the WAL's end, a lock on each table, its catalogue.
        """
        reader = role(self._source, self._source.reader)
        with closing(open_session(reader)) as session, translated(reader), session.watch.limited(_ANSWER_S):
            session.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            with session.transaction():
                return self._read(session, sorted(tables)).to_payload()

    def _read(self, session: Session, tables: list[str]) -> CatalogueFingerprints:
        (end,) = session.execute(LSN).fetchone() or (0,)
        captured = {self._source.places.of_captured(name): name for name in tables}
        there = [TablePlace(schema, name) for schema, name in session.execute(_THERE, asked_for(captured))]
        if there:
            relations = ", ".join(str(relation_at(place)) for place in there)
            # Nobody waits for this: who alters a table just now is asked again with the next heartbeat.
            session.execute(f"LOCK TABLE {relations} IN ACCESS SHARE MODE NOWAIT".encode())
        asked = {**asked_for(there), "publication": self._source.publication}
        (fingerprint,) = session.execute(CATALOGUE_FINGERPRINT, asked).fetchone() or ("",)
        if (of := f"{' '.join(place.text for place in there)}: {fingerprint}") != self._fingerprint:
            found = survey_at(session, self._source.publication, {captured[place]: place for place in there})
            self._fingerprints = {table.name: table_fingerprint(table) for table in found.tables}
            self._fingerprint = of
        return CatalogueFingerprints(PostgresPosition(int(end)), self._fingerprints)


def open_payload(source: SourcePlan) -> CataloguePayload:
    return CataloguePayload(source)
