"""Bring the platform database to the schema of this version. Needs no file of this machine."""

from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.pool import NullPool

from seamline.domain.errors import ConfigError
from seamline.platform import audit
from seamline.platform.database import OpenSession, open_session, translated

# "seamline" in ASCII: two processes that start at once migrate one after the other.
_LOCK = 0x7365616D6C696E65
_SCRIPTS = Path(__file__).parent / "migrations"


def _open_for_migration() -> psycopg.Connection[Any]:
    # A migration may rewrite a large table, and it may wait for another process that is migrating.
    return open_session(application_name="seamline migrate", statement_timeout_s=600)


def upgrade(open_one: OpenSession = _open_for_migration, *, to: str = "head") -> str:
    """Run the missing migrations up to `to` (inclusive) in one transaction; returns the revision. A repeat does
    nothing."""
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: _plain(open_one()), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            # Of the session, not of the transaction: Alembic commits its own.
            connection.exec_driver_sql(f"select pg_advisory_lock({_LOCK})")
            connection.exec_driver_sql("create schema if not exists seamline")
            connection.commit()
            command.upgrade(_config(connection), to)
            connection.commit()
            if (reached := _revision(connection)) == latest():
                _open_log_of_acts(connection)
                connection.commit()
            return reached
    except psycopg.Error as exc:
        raise translated(exc) from exc
    except sqlalchemy.exc.DBAPIError as exc:
        if isinstance(exc.orig, psycopg.Error):
            raise translated(exc.orig) from exc
        raise


def revisions() -> tuple[str, ...]:
    """All of them, the oldest first."""
    return tuple(script.revision for script in reversed([*ScriptDirectory.from_config(_config(None)).walk_revisions()]))


def latest() -> str:
    """The revision that this version of the code needs."""
    return revisions()[-1]


def _open_log_of_acts(connection: sqlalchemy.Connection) -> None:
    """Behind all migrations, because the code of this version reads what the log adopts."""
    session = connection.connection.driver_connection
    assert isinstance(session, psycopg.Connection)
    session.execute("set local search_path = seamline")
    audit.adopt(session)


def _plain(session: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    session.autocommit = False
    return session


def _config(connection: Any) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _revision(connection: sqlalchemy.Connection) -> str:
    context = MigrationContext.configure(
        connection, opts={"version_table": "schema_version", "version_table_schema": "seamline"}
    )
    revision = context.get_current_revision()
    if revision is None:
        raise ConfigError("the platform database has no revision after its migration", hint="look at its log")
    return revision
