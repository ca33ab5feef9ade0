"""A bank whose log nobody may read: one login has the rights of the printed script, and money moves meanwhile."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from seamline.adapters.connections import Connection, resolve
from seamline.databases.mysql.grants import statements_of
from seamline.kinds.found import source_kind
from seamline.kinds.logins import logins_of
from seamline.plan.model import SourcePlan
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.known import known_by_id
from tests.mysql_server import mysql, mysql_database

PASSWORD = "of the reader"
ACCOUNTS, EACH = 200, Decimal("1000.00")
TOTAL = ACCOUNTS * EACH
TABLES = ("account", "entry", "audit")
_CREATED = (
    "CREATE TABLE account (id int PRIMARY KEY, owner varchar(40) NOT NULL, balance decimal(18,2) NOT NULL)",
    "CREATE TABLE entry (id int PRIMARY KEY, account_id int NOT NULL, amount decimal(18,2), booked date NOT NULL)",
    "CREATE TABLE audit (who varchar(40), said text)",
)


@dataclass(frozen=True)
class Bank:
    """`source` is its declaration, `plan` what a sync of it runs by; `reader` the one login, as statements name it."""

    name: str
    source: str
    plan: SourcePlan
    reader: str
    execute: Callable[[str], None]
    open_session: Callable[[], Any]

    @contextmanager
    def money_moves(self) -> Iterator[None]:
        """Between the accounts, in transactions of two updates: of any snapshot the sum is the same."""
        stop, moved = threading.Event(), threading.Event()

        def move() -> None:
            with closing(self.open_session()) as session, session.cursor() as cursor:
                number = 0
                while not stop.is_set():
                    number = number % (ACCOUNTS - 1) + 1
                    cursor.execute("BEGIN")
                    cursor.execute(f"UPDATE account SET balance = balance - 1 WHERE id = {number}")
                    cursor.execute(f"UPDATE account SET balance = balance + 1 WHERE id = {number + 1}")
                    cursor.execute(f"INSERT INTO audit VALUES ('writer', '{number}')")
                    cursor.execute("COMMIT")
                    moved.set()

        thread = threading.Thread(target=move)
        thread.start()
        try:
            assert moved.wait(20), "nothing was written"
            yield
        finally:
            stop.set()
            thread.join()


def _filled(day: date) -> Iterator[str]:
    yield from _CREATED
    yield "INSERT INTO account VALUES " + ", ".join(f"({n}, '户名 {n}', {EACH})" for n in range(1, ACCOUNTS + 1))
    yield "INSERT INTO entry VALUES " + ", ".join(f"({n}, {n % 9 + 1}, {n}.25, '{day}')" for n in range(1, 301))
    yield "INSERT INTO audit VALUES ('one', NULL), ('one', NULL), (NULL, 'it''s')"


@contextmanager
def unlogged_bank(kind: str, name: str, day: date, *, server: Connection | None = None) -> Iterator[Bank]:
    """`day`: of its entries. `server`: as root, of a kind that the local stack has no server of."""
    with ExitStack() as around:
        root, open_session = _database(around, kind, name, server)
        session = around.enter_context(closing(open_session()))

        def execute(statement: str) -> None:
            with session.cursor() as cursor:
                cursor.execute(statement)

        for statement in _filled(day):
            execute(statement)
        plan = SourcePlan(name, kind, name, name, "", "", "", "", schema="public" if kind == "postgres" else "")
        reader = logins_of(name).reader
        _drop_login(execute, kind, reader)
        script = source_kind(kind).grant_script(plan, TABLES, logins=logins_of(name))
        for statement in statements_of(script.replace(f"<password of {reader}>", PASSWORD)):
            execute(statement)
        around.callback(_drop_login, execute, kind, reader)
        conn_type = "postgres" if kind == "postgres" else "mysql"
        known = replace(root, login=reader, password=PASSWORD, connection_id=name)
        around.enter_context(known_by_id(known, name, conn_type))
        declared = f"source: {name}\nkind: {kind}\nconnection: {name}\ndatabase: {name}\nlog: none\n"
        yield Bank(name, declared, plan, _account(kind, reader), execute, open_session)


def _database(
    around: ExitStack, kind: str, name: str, server: Connection | None
) -> tuple[Connection, Callable[[], Any]]:
    if kind == "postgres":
        around.enter_context(postgres_database(name))
        root = replace(resolve("postgres_root"), database=name)
        return root, lambda: postgres(root)
    opens: Mapping[str, Callable[..., Any]] = {"mariadb": mariadb, "mysql": mysql}
    database = mysql_database(server, name) if server is not None else mariadb_database(name)
    root = around.enter_context(database)
    return root, lambda: opens[kind](root)


def _account(kind: str, login: str) -> str:
    return f'"{login}"' if kind == "postgres" else f"'{login}'@'%'"


def _drop_login(execute: Callable[[str], None], kind: str, login: str) -> None:
    if kind != "postgres":
        execute(f"DROP USER IF EXISTS '{login}'@'%'")
        return
    execute(
        f"DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{login}') THEN"
        f" EXECUTE 'DROP OWNED BY \"{login}\"'; EXECUTE 'DROP ROLE \"{login}\"'; END IF; END $$"
    )
