"""The facts that preflight judges of MariaDB and MySQL, asked with the three roles' own sessions.

Changes nothing in the source.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pymysql

from seamline.adapters.connections import Connection
from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.client import Server, Session, query, role
from seamline.databases.mysql.preflight import ForeignKeyAction, RoleFacts, SourceFacts
from seamline.databases.mysql.table_text import foreign_key_actions, show_create
from seamline.plan.model import SourcePlan

AnswerT = TypeVar("AnswerT")

_GRANT = re.compile(r"^GRANT (.+?) ON (\*|`(?:[^`]|``)+`)\.\* TO ", re.IGNORECASE)
# Its INSERT is rolled back, so it never reaches the binlog.
PROBE_ID = "preflight"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a login sees that may read the state of the binlog. The reader sees nothing of it."""

    binlog_do: str = ""
    binlog_ignore: str = ""
    replicates_from: tuple[str, ...] = ()
    prepared_xa: int = 0


@dataclass(frozen=True, slots=True)
class Questions:
    """What a server is asked in its own words. `variables`: their names; `seen`: by the capture's session; `grants`: of
    a session's login and its active roles, as SHOW GRANTS prints them."""

    server: Server
    variables: Sequence[str]
    seen: "Callable[[Session[Any]], Seen]"
    grants: "Callable[[Session[Any]], Iterable[str]]"

    def gather(self, source: SourcePlan, tables: Sequence[str]) -> SourceFacts:
        """Of tables in the source's own database. Errors of the driver come as Seamline's, with the connection that met
        them."""
        reader, capture, marker = (role(source, one) for one in (source.reader, source.capture, source.marker))
        seen = self._asked(capture, self.seen)
        table = source.marker_table
        columns, key, engine = self._asked(reader, lambda session: marker_definition(session, source.database, table))
        return replace(
            self.gather_tables(source.database, tables, reader=reader, capture=capture),
            variables=self._asked(reader, lambda session: self._variables(session, "GLOBAL")),
            prepared_xa=seen.prepared_xa,
            binlog_do=seen.binlog_do,
            binlog_ignore=seen.binlog_ignore,
            replicates_from=seen.replicates_from,
            marker_table=table,
            marker_columns=columns,
            marker_key=key,
            marker_engine=engine,
            brief_lock=source.snapshot_lock == "brief",
            capture=self._role(capture, [*tables, table]),
            marker=self._asked(marker, lambda session: self._marker_role(session, marker, table)),
        )

    def gather_tables(
        self, database: str, tables: Sequence[str], *, reader: Connection, capture: Connection
    ) -> SourceFacts:
        """Of tables in one database of the server, and nothing else."""
        reader, capture = replace(reader, database=database), replace(capture, database=database)
        return self._asked(
            reader,
            lambda session: SourceFacts(
                database=database,
                variables={},
                engines=engines_of(session, database, tables),
                foreign_keys=foreign_keys_of(session, tables),
                reader=self._role(reader, tables),
                capture=self._role(capture, tables),
            ),
        )

    def gather_read(self, database: str, tables: Sequence[str], *, reader: Connection) -> SourceFacts:
        """Of tables that are read and not captured: what the reader sees of the server and of them."""
        reader = replace(reader, database=database)
        return self._asked(
            reader,
            lambda session: SourceFacts(
                database=database,
                variables=self._variables(session, "GLOBAL"),
                engines=engines_of(session, database, tables),
                reader=self._role(reader, tables),
            ),
        )

    def _asked(self, connection: Connection, ask: "Callable[[Session[Any]], AnswerT]") -> AnswerT:
        with closing(self.server.open_session(connection)) as session:
            try:
                return ask(session)
            except pymysql.err.MySQLError as exc:
                raise self.server.translated(exc, connection) from exc

    def _variables(self, session: "Session[Any]", scope: str) -> dict[str, str]:
        names = "','".join(self.variables)
        rows = query(session, f"SHOW {scope} VARIABLES WHERE variable_name IN ('{names}')")
        return {str(name).lower(): str(value) for name, value in rows}

    def _role(self, connection: Connection, tables: Iterable[str]) -> RoleFacts:
        return self._asked(
            connection,
            lambda session: RoleFacts(
                connection.connection_id,
                connection.login,
                *grants_of(self.grants(session), connection.database),
                unreadable=refused_tables(session, tables),
                session=self._variables(session, "SESSION"),
            ),
        )

    def _marker_role(self, session: "Session[Any]", connection: Connection, table: str) -> RoleFacts:
        insert = f"INSERT INTO {quoted(table)} (id, kind, payload) VALUES ('{PROBE_ID}', 'probe', '')"
        return RoleFacts(
            connection.connection_id,
            connection.login,
            marker_error=refusal(session, insert),
            prune_error=refusal(session, f"DELETE FROM {quoted(table)} WHERE id = '{PROBE_ID}'"),
            session=self._variables(session, "SESSION"),
        )


def engines_of(session: "Session[Any]", database: str, names: Iterable[str]) -> dict[str, str]:
    """Table → engine, of those that are there."""
    rows = query(
        session, "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = %s", (database,)
    )
    known = {name: str(engine or "none") for name, engine in rows}
    return {name: known[name] for name in names if name in known}


def foreign_keys_of(session: "Session[Any]", names: Iterable[str]) -> tuple[ForeignKeyAction, ...]:
    """What the foreign keys of these tables do by themselves."""
    return tuple(
        ForeignKeyAction(table, *key) for table in names for key in foreign_key_actions(show_create(session, table))
    )


def marker_definition(
    session: "Session[Any]", database: str, table: str
) -> tuple[dict[str, str], tuple[str, ...], str]:
    """Column → type, primary key and engine; empty where there is no such table."""
    columns = query(
        session,
        "SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
        (database, table),
    )
    key = query(
        session,
        "SELECT column_name FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s"
        " AND index_name = 'PRIMARY' ORDER BY seq_in_index",
        (database, table),
    )
    return (
        {str(name): str(column_type) for name, column_type in columns},
        tuple(str(row[0]) for row in key),
        engines_of(session, database, [table]).get(table, ""),
    )


def refusal(session: "Session[Any]", statement: str) -> str:
    """The server's words against a statement, which is rolled back; "" when it is allowed."""
    try:
        session.begin()
        query(session, statement)
        session.rollback()
    except pymysql.err.MySQLError as exc:
        return str(exc.args[-1])
    return ""


def grants_of(lines: Iterable[str], database: str) -> tuple[frozenset[str], frozenset[str]]:
    """(privileges ON *.*, privileges ON the database's `.*`) in the lines of SHOW GRANTS, upper case."""
    everywhere: set[str] = set()
    here: set[str] = set()
    for line in lines:
        match = _GRANT.match(line)
        if match is None:
            continue
        privileges = {name.strip().upper() for name in match[1].split(",")}
        if match[2] == "*":
            everywhere |= privileges
        elif _is_like(match[2].strip("`").replace("``", "`"), database):
            here |= privileges
    return frozenset(everywhere), frozenset(here)


def granted_somewhere(lines: Iterable[str]) -> frozenset[str]:
    """Privileges ON the `.*` of any database, in the lines of SHOW GRANTS, upper case."""
    found = (match for line in lines if (match := _GRANT.match(line)) and match[2] != "*")
    return frozenset(name.strip().upper() for match in found for name in match[1].split(","))


def _is_like(pattern: str, database: str) -> bool:
    """A database in a grant is a pattern: `_` and `%` are wild unless a backslash stands before them."""
    parts = re.findall(r"\\[_%\\]|.", pattern, re.DOTALL)
    wild = {"_": ".", "%": ".*"}
    return re.fullmatch("".join(wild.get(part) or re.escape(part[-1]) for part in parts), database) is not None


def refused_tables(session: "Session[Any]", tables: Iterable[str]) -> dict[str, str]:
    """Table → why the session may not read it."""
    refusals: dict[str, str] = {}
    for table in tables:
        try:
            query(session, f"SELECT 1 FROM {quoted(table)} LIMIT 0")
        except pymysql.err.MySQLError as exc:
            refusals[table] = str(exc.args[-1])
    return refusals
