"""Facts that preflight asks of MariaDB and MySQL in the same words. Changes nothing in the source."""

import re
from collections.abc import Iterable
from typing import Any

import pymysql

from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.client import Session, query
from seamline.databases.mysql.preflight import ForeignKeyAction
from seamline.databases.mysql.table_text import foreign_key_actions, show_create

_GRANT = re.compile(r"^GRANT (.+?) ON (\*|`(?:[^`]|``)+`)\.\* TO ", re.IGNORECASE)
# Its INSERT is rolled back, so it never reaches the binlog.
PROBE_ID = "preflight"


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
