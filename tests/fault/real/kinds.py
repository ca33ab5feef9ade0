"""The two kinds of source of a bank, captured, and a writer's session in each."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from seamline.adapters.connections import Connection
from tests.fault.real.bank_plus import SCHEMA_MARIADB, SCHEMA_POSTGRES, TABLES
from tests.integration.bank_writers import in_mariadb, in_postgres
from tests.integration.captured import Captured, captured
from tests.integration.captured_postgres import captured_postgres


@contextmanager
def _in_mariadb() -> Iterator[Captured]:
    with captured("t1_mariadb") as one:
        one.execute("DROP TABLE account, audit, later", *SCHEMA_MARIADB)
        yield one


@contextmanager
def _in_postgres() -> Iterator[Captured]:
    with captured_postgres("t1_postgres", create=SCHEMA_POSTGRES, tables=TABLES) as one:
        yield one


def _mariadb_session(root: Connection) -> Any:
    """Under REPEATABLE READ a search in a table without an index locks all of it."""
    session = in_mariadb(root)
    with session.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 5")
    return session


KINDS: dict[str, Callable[[], Any]] = {"mariadb": _in_mariadb, "postgres": _in_postgres}
SESSIONS: dict[str, Callable[[Connection], Any]] = {"mariadb": _mariadb_session, "postgres": in_postgres}
