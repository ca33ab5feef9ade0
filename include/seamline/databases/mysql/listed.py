"""The tables of a database of MariaDB or MySQL, before any of them is declared."""

from collections.abc import Sequence
from contextlib import closing

import pymysql

from seamline.databases.mysql.client import Server, query, role
from seamline.domain.server_found import ListedTable
from seamline.plan.model import SourcePlan

_LISTED = (
    "SELECT table_schema, table_name, table_rows, data_length + index_length FROM information_schema.tables"
    " WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY table_name"
)


def list_tables(server: Server, source: SourcePlan) -> Sequence[ListedTable]:
    """Those that the reader has any right on: a server shows no others."""
    reader = role(source, source.reader)
    with closing(server.open_session(reader)) as session:
        try:
            rows = query(session, _LISTED, (source.database,))
        except pymysql.err.MySQLError as exc:
            raise server.translated(exc, reader) from exc
    return [ListedTable(str(place), str(name), rows, size) for place, name, rows, size in rows]
