"""What a PostgreSQL server says of itself and of the login of a connection, before anything is declared."""

from contextlib import closing
from typing import Any

import psycopg

from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import cannot_connect, libpq_arguments, translated
from seamline.databases.postgres.watched import WatchedSession, connect
from seamline.domain.server_found import CAPTURES, MAKES, READS, ServerFound, Use

# As preflight of a source and of a destination asks for it.
_SOURCE_VERSION, _DESTINATION_VERSION = 150_000, 170_000
_ASKED = (
    "SELECT current_setting('server_version'), current_setting('wal_level'), current_setting('TimeZone'),"
    " r.rolsuper, r.rolreplication, has_database_privilege(current_database(), 'CREATE'), s.ssl,"
    " coalesce(s.version, '') FROM pg_roles r, pg_stat_ssl s"
    " WHERE r.rolname = current_user AND s.pid = pg_backend_pid()"
)
_TABLES = (
    "SELECT count(*), count(*) FILTER (WHERE has_schema_privilege(n.oid, 'USAGE') AND"
    " has_table_privilege(c.oid, 'SELECT')) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname <> 'information_schema'"
    " AND NOT starts_with(n.nspname, 'pg_')"
)


def examined(connection: Connection) -> ServerFound:
    """Changes nothing. ConfigError: the server refuses the session; TransientError: it cannot be reached."""
    arguments = libpq_arguments(connection, application_name="seamline connect")
    try:
        session = connect(autocommit=True, **arguments)
    except psycopg.Error as exc:
        raise cannot_connect(connection, exc) from exc
    with closing(session), translated("ask the server what it is"):
        return _found(session)


def _found(session: WatchedSession) -> ServerFound:
    version, wal, zone, is_super, replicates, creates, is_encrypted, tls = _one(session, _ASKED)
    tables, readable = _one(session, _TABLES)
    number, database = session.info.server_version, session.info.dbname
    # Of an empty database, as that of a destination, nothing can be lacking yet.
    reads = [] if readable or not tables else ["SELECT on the tables, and USAGE on their schema"]
    captures = [] if replicates or is_super else ["the attribute REPLICATION"]
    logs = () if wal == "logical" else (f"wal_level is {wal}, wanted logical: a restart of the server sets it",)
    makes = [] if creates else [f"CREATE on database {database}"]
    return ServerFound(
        f"PostgreSQL {version}",
        f"encrypted ({tls})" if is_encrypted else "in the clear",
        "postgres",
        (
            Use(READS, tuple(reads), f"{readable} of {tables} in database {database}", _older(number, _SOURCE_VERSION)),
            Use(CAPTURES, tuple(captures), unfit=(*_older(number, _SOURCE_VERSION), *logs)),
            Use(MAKES, tuple(makes), unfit=_older(number, _DESTINATION_VERSION)),
        ),
        str(zone),
    )


def _older(version: int, wanted: int) -> tuple[str, ...]:
    return () if version >= wanted else (f"it needs PostgreSQL {wanted // 10_000} or newer",)


def _one(session: WatchedSession, question: str) -> tuple[Any, ...]:
    row = session.execute(question).fetchone()
    assert row is not None, "each question has one row"
    return tuple(row)
