"""Where the probe rows of a certificate arrive in PostgreSQL: `ProbeDestination` of sync.certify."""

from collections.abc import Mapping, Sequence
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.databases.postgres import ledger as ledger_tables
from seamline.databases.postgres.canonical import quoted, text_literal
from seamline.databases.postgres.client import Session, open_session, translated
from seamline.databases.postgres.findings import read_findings
from seamline.databases.postgres.types import destination_type
from seamline.domain.catalogue import Column
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.errors import Refused
from seamline.domain.probe import KEY, Probe, StoredUnlike
from seamline.plan.model import DestinationPlan, SyncPlan


class PostgresProbed:
    """The schemas of the probes' live and staged tables, which are the certificate's alone."""

    def __init__(self, plan: SyncPlan, destination: DestinationPlan) -> None:
        self._destination = destination
        self._stream = plan.stream_id(destination.name)
        self._mark = f"made by seamline for {self._stream}"

    def version(self) -> str:
        with self._session() as session, translated("read the server's version"):
            row = session.execute("SHOW server_version").fetchone()
        return f"PostgreSQL {row[0] if row else ''}"

    def type_of(self, column: Column) -> str:
        return destination_type(column)

    def without_place(self, column: Column, literals: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002
        """None: what it has no place for ends a path, and the certificate says so."""
        return {}

    def prepare(self) -> None:
        with self._session() as session, translated("make the schemas of a certificate"):
            ledger_tables.create_tables(session)
            for schema in self._schemas():
                if self._comment(session, schema) is not None:
                    raise Refused(
                        f"schema {schema} is in the way in destination {self._destination.name} and was not made by"
                        " `seamline certify`",
                        hint="rename or drop it",
                    )
                with session.transaction():
                    session.execute(f"CREATE SCHEMA {quoted(schema)}".encode())
                    session.execute(f"COMMENT ON SCHEMA {quoted(schema)} IS {text_literal(self._mark)}".encode())

    def unlike(self, probe: Probe) -> Sequence[StoredUnlike]:
        """Every value whose stored bytes are not those that came with the snapshot: -0 is not 0, 1.0 is not 1.00."""
        place, row_key = f"{quoted(self._destination.namespace)}.{quoted(probe.name)}", quoted(KEY)
        keys = ",".join(map(str, probe.keys))
        found = []
        with self._session() as session, translated("compare the paths", table=probe.of.name):
            for column in probe.columns:
                name = quoted(column.name)
                rows = session.execute(
                    f"SELECT wanted.k, s.{name}::text, l.{name}::text FROM unnest('{{{keys}}}'::int[]) AS wanted(k)"
                    f" LEFT JOIN {place} AS s ON s.{row_key} = mod(wanted.k - 1, {probe.rows}) + 1"
                    f" LEFT JOIN {place} AS l ON l.{row_key} = wanted.k"
                    f" WHERE l.{row_key} IS NULL OR s.{row_key} IS NULL"
                    f" OR ROW(s.{name})::record OPERATOR(pg_catalog.*<>) ROW(l.{name})::record"
                    " ORDER BY wanted.k".encode()
                ).fetchall()
                found += [StoredUnlike(column.name, key, *texts) for key, *texts in rows]
        return found

    def findings(self) -> Sequence[Finding]:
        with self._session() as session:
            return read_findings(session, self._stream, after=FindingsReported())[0]

    def remove(self) -> None:
        """Schemas, and what the ledger says of the stream. A repeat changes nothing."""
        with self._session() as session, translated("remove what a certificate has made"):
            for schema in self._schemas():
                if self._comment(session, schema) == self._mark:
                    session.execute(f"DROP SCHEMA {quoted(schema)} CASCADE".encode())
            if session.execute("SELECT to_regclass('seamline.finding')").fetchone() != (None,):
                ledger_tables.forget(session, self._stream)
                session.execute("DELETE FROM seamline.finding WHERE stream = %s", (str(self._stream),))

    def _schemas(self) -> tuple[str, str]:
        return self._destination.namespace, self._destination.stage_namespace

    def _comment(self, session: Session, schema: str) -> str | None:
        """None where there is no such schema."""
        row = session.execute(
            "SELECT coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = %s", (schema,)
        ).fetchone()
        return None if row is None else str(row[0])

    def _session(self) -> "closing[Session]":
        return closing(open_session(resolve(self._destination.connection), application_name="seamline certificate"))


def open_probed(plan: SyncPlan, destination: DestinationPlan) -> PostgresProbed:
    return PostgresProbed(plan, destination)
