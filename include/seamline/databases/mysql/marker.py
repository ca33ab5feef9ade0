"""Marker rows: committed in the source, found again in the log topic."""

from typing import Any

import pymysql
from pymysql.constants import ER

from seamline.adapters.marker_row import marker_row
from seamline.databases.mysql.canonical import quoted
from seamline.databases.mysql.client import Session
from seamline.ports import Marker

# The owner of the source's database creates it.
CREATE = """CREATE TABLE IF NOT EXISTS {table} (
  id varchar(64) NOT NULL PRIMARY KEY,
  kind varchar(16) NOT NULL,
  payload text NOT NULL,
  at timestamp(6) NOT NULL DEFAULT current_timestamp(6)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"""


def create_statement(table: str) -> str:
    return CREATE.format(table=quoted(table))


def insert_marker(session: "Session[Any]", table: str, marker: Marker) -> None:
    """Returns after the commit. A repeat with the same id is a no-op. The driver's errors come through."""
    try:
        with session.cursor() as cursor:
            cursor.execute(f"INSERT INTO {quoted(table)} (id, kind, payload) VALUES (%s, %s, %s)", marker_row(marker))
    except pymysql.err.IntegrityError as exc:
        if exc.args[0] != ER.DUP_ENTRY:
            raise


def delete_markers(session: "Session[Any]", table: str, *, older_than_s: float, rows_max: int) -> int:
    """Delete markers of that age, at most so many in one transaction; returns how many. The driver's errors come
    through."""
    with session.cursor() as cursor:
        # There is no index by time: on a stricter level every row looked at would stay locked.
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        statement = f"DELETE FROM {quoted(table)} WHERE at < now(6) - INTERVAL %s SECOND LIMIT %s"
        return int(cursor.execute(statement, (older_than_s, rows_max)))
