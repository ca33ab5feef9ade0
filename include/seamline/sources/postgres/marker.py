"""Marker rows: committed in the source, found again in the log topic."""

from contextlib import closing

from seamline.adapters.connections import Connection
from seamline.adapters.marker_row import marker_row
from seamline.databases.postgres.canonical import quoted
from seamline.ports import Marker
from seamline.sources.postgres.client import open_session, translated

# The owner of the source's tables creates it.
CREATE = """CREATE TABLE IF NOT EXISTS {table} (
  id varchar(64) NOT NULL PRIMARY KEY,
  kind varchar(16) NOT NULL,
  payload text NOT NULL,
  at timestamptz(6) NOT NULL DEFAULT now()
)"""


def create_statement(schema: str, table: str) -> str:
    return CREATE.format(table=_place(schema, table))


def commit_marker(connection: Connection, schema: str, table: str, marker: Marker) -> None:
    """Commit the row; returns after the commit. A repeat with the same id is a no-op."""
    row = marker_row(marker)
    with closing(open_session(connection)) as session, translated(connection):
        session.execute(
            f"INSERT INTO {_place(schema, table)} (id, kind, payload) VALUES (%s, %s, %s) ON CONFLICT (id) DO NOTHING",
            row,
        )


def prune_markers(connection: Connection, schema: str, table: str, *, older_than_s: float, rows_max: int) -> int:
    """Delete markers of that age, at most so many in one transaction; returns how many."""
    place = _place(schema, table)
    with closing(open_session(connection)) as session, translated(connection):
        return session.execute(
            f"DELETE FROM {place} WHERE id IN"
            f" (SELECT id FROM {place} WHERE at < now() - make_interval(secs => %s) LIMIT %s)",
            (older_than_s, rows_max),
        ).rowcount


def _place(schema: str, table: str) -> str:
    return f"{quoted(schema)}.{quoted(table)}"
