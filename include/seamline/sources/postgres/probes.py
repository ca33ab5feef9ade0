"""Probe tables in a PostgreSQL source, made and dropped by the owner of its tables: `ProbeSource` of sync.certify."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import psycopg

from seamline.adapters.connections import resolve
from seamline.adapters.probe_statements import default_of, transactions
from seamline.databases.postgres.canonical import quoted, text_literal
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import Refused
from seamline.domain.probe import KEY, Default, Probe, ProbePath
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.client import Session, open_session, role, source_error
from seamline.sources.postgres.edge_values import edge_values
from seamline.sources.postgres.grants import publication_statement
from seamline.sources.postgres.marker import create_statement
from seamline.sources.postgres.places import relation_at
from seamline.sources.postgres.slots import drop_slot

_TRIAL = "pg_temp.seamline_certify_trial"


class PostgresProbes:
    """One session of the owner, whose connection is the plan's reader. It holds a lock: one certificate at a time."""

    def __init__(self, source: SourcePlan) -> None:
        self._source = source
        self._connection = role(source, source.reader)
        self._mark = f"made by seamline {source.name}"
        self._session = self._opened()
        try:
            self._take_lock()
        except BaseException:
            self.close()
            raise

    def version(self) -> str:
        return f"PostgreSQL {self._rows('SHOW server_version')[0][0]}"

    def edge_values(self, table: Table) -> Mapping[str, Sequence[str]]:
        return {column.name: edge_values(column, labels=self._labels(table, column)) for column in table.columns}

    def defaults(self, table: Table) -> Mapping[str, Default]:
        """A domain's default is none of its column: no connector sees it, and the probe has it by its type."""
        rows = self._rows(
            "SELECT a.attname, pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d"
            " JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum"
            f" WHERE d.adrelid = {text_literal(self._place(table.name))}::regclass AND a.attgenerated = ''"
        )
        return {str(name): default_of(str(text)) for name, text in rows}

    def limits(self) -> Mapping[Kind, Sequence[tuple[str, str]]]:
        return {}

    def refusals(self, table: Table, column: Column, literals: Sequence[str]) -> Mapping[str, str]:
        """Literal → why the server refuses it. A temporary table is not in the log."""
        name, found = quoted(column.name), {}
        self._execute(
            f"CREATE TEMPORARY TABLE seamline_certify_trial AS SELECT {name} FROM {self._place(table.name)} LIMIT 0"
        )
        for literal in literals:
            try:
                self._session.execute(f"INSERT INTO {_TRIAL} ({name}) VALUES ({literal})".encode())
            except (psycopg.DataError, psycopg.IntegrityError) as exc:
                found[literal] = exc.diag.message_primary or "refused"
            except psycopg.Error as exc:
                raise source_error(exc, self._connection) from exc
        self._execute(f"DROP TABLE {_TRIAL}")
        return found

    def make(self, probes: Sequence[Probe]) -> None:
        """One table per probe, with the columns of the user's and their defaults: no key but its own, no check or
        trigger."""
        marker = self._place(self._source.marker_table)
        login = quoted(resolve(self._source.capture).login)
        self._execute(
            "BEGIN",
            create_statement(self._source.schema, self._source.marker_table),
            f"COMMENT ON TABLE {marker} IS {text_literal(self._mark)}",
            f"GRANT SELECT ON {marker} TO {login}",
            "COMMIT",
        )
        for probe in probes:
            place = self._place(probe.name)
            if self._rows(f"SELECT to_regclass({text_literal(place)})") != [(None,)]:
                raise Refused(
                    f"table {place} is in the way and was not made by `seamline certify`", hint="rename or drop it"
                )
            left_out = [column.name for column in probe.of.columns if column not in probe.columns]
            without = [column.name for column in probe.columns if _is_left_out(probe.defaults.get(column.name))]
            self._execute(
                "BEGIN",
                f"CREATE TABLE {place} ({quoted(KEY)} integer PRIMARY KEY,"
                f" LIKE {self._place(probe.of.name)} INCLUDING STORAGE INCLUDING DEFAULTS)",
                f"COMMENT ON TABLE {place} IS {text_literal(self._mark)}",
                *(f"ALTER TABLE {place} DROP COLUMN {quoted(name)}" for name in left_out),
                *(f"ALTER TABLE {place} ALTER COLUMN {quoted(name)} DROP DEFAULT" for name in without),
                f"GRANT SELECT ON {place} TO {login}",
                "COMMIT",
            )
        self._execute(publication_statement(self._source, [probe.name for probe in probes]))

    def write(self, probe: Probe, path: ProbePath) -> None:
        for statements in transactions(probe, path, place=self._place(probe.name), quoted=quoted):
            self._execute("BEGIN", *statements, "COMMIT")

    def drop(self) -> None:
        """Every table that was made for this sync, also by a certificate that was killed; publication and slot."""
        with ExitStack() as leaving:
            # A slot that nobody reads from keeps the server's log: it goes whatever else fails.
            leaving.callback(drop_slot, role(self._source, self._source.capture), self._source.slot)
            self._recover_session()
            self._drop_tables()

    def _drop_tables(self) -> None:
        rows = self._rows(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE n.nspname = {text_literal(self._source.schema)} AND c.relkind = 'r'"
            f" AND obj_description(c.oid, 'pg_class') = {text_literal(self._mark)}"
        )
        self._execute(
            f"DROP PUBLICATION IF EXISTS {quoted(self._source.publication)}",
            *(f"DROP TABLE {self._place(str(name))}" for (name,) in rows),
        )

    def close(self) -> None:
        self._session.close()

    def _take_lock(self) -> None:
        if self._rows(f"SELECT pg_try_advisory_lock(hashtextextended({text_literal(self._mark)}, 0))") != [(True,)]:
            raise Refused("a certificate of this sync is being written just now", hint="wait until it is there")

    def _opened(self) -> Session:
        return open_session(self._connection, settings=("statement_timeout=0",))

    def _recover_session(self) -> None:
        """An interrupt leaves the session within a transaction; a limit of the server may have ended it."""
        try:
            self._session.execute("ROLLBACK")
        except psycopg.Error:
            self._session.close()
            self._session = self._opened()

    def _labels(self, table: Table, column: Column) -> Sequence[str]:
        if column.kind is not Kind.ENUM:
            return ()
        rows = self._rows(
            "WITH RECURSIVE base AS (SELECT a.atttypid AS oid FROM pg_attribute a"
            f" WHERE a.attrelid = {text_literal(self._place(table.name))}::regclass"
            f" AND a.attname = {text_literal(column.name)}"
            " UNION ALL SELECT t.typbasetype FROM base JOIN pg_type t ON t.oid = base.oid WHERE t.typtype = 'd')"
            " SELECT enumlabel FROM pg_enum WHERE enumtypid IN (SELECT oid FROM base) ORDER BY enumsortorder"
        )
        return [str(label) for (label,) in rows]

    def _place(self, table: str) -> str:
        return str(relation_at(self._source.places.of(table)))

    def _execute(self, *statements: str) -> None:
        try:
            for statement in statements:
                self._session.execute(statement.encode())
        except psycopg.Error as exc:
            raise source_error(exc, self._connection) from exc

    def _rows(self, statement: str) -> list[tuple[object, ...]]:
        try:
            return self._session.execute(statement.encode()).fetchall()
        except psycopg.Error as exc:
            raise source_error(exc, self._connection) from exc


def _is_left_out(default: Default | None) -> bool:
    return default is not None and bool(default.left_out)


def open_probes(source: SourcePlan) -> PostgresProbes:
    return PostgresProbes(source)
