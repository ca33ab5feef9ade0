"""A small PostgreSQL database of a test's own with its capture: the owner has run the grant script and nothing else."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import psycopg
import pytest

from seamline.adapters.connect.endpoint import CaptureEndpoint
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.kafka.client import client_settings
from seamline.kinds.logins import Logins
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan, TablePlan
from seamline.settings import load
from seamline.sources.postgres.grants import grant_script
from seamline.sources.postgres.source import PostgresSource
from tests.integration.captured import Captured, forget
from tests.integration.databases import postgres, postgres_database
from tests.waiting import wait_until

ACCOUNT = "CREATE TABLE account (id bigint PRIMARY KEY, a int, memo text)"
AUDIT = "CREATE TABLE audit (a int, memo text)"
FULL = "ALTER TABLE audit REPLICA IDENTITY FULL"


@dataclass
class PostgresCaptured(Captured):
    """`execute` runs as the owner of the tables, statement by statement, each in a transaction of its own."""

    @property
    def source(self) -> PostgresSource:
        return PostgresSource(self.source_plan)

    def grant(self, plan: SyncPlan) -> None:
        """Nothing more: the owner has run the script for all tables, and does the rest of a later one by hand."""

    def publishing(self, table: str) -> tuple[str, ...]:
        """What the owner does for one more table, as the script says."""
        plan = self.source_plan
        logins = ", ".join(f'"{resolve(name).login}"' for name in (plan.reader, plan.capture))
        return (f"GRANT SELECT ON {table} TO {logins}", f"ALTER PUBLICATION {plan.publication} ADD TABLE {table}")

    def session(self) -> "psycopg.Connection[Any]":
        return postgres(self.root)

    def execute(self, *statements: str) -> None:
        with closing(self.session()) as session:
            for statement in statements:
                session.execute(statement.encode())

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        with closing(self.session()) as session:
            return list(session.execute(f"SELECT * FROM {table}".encode()).fetchall())


@contextmanager
def captured_postgres(
    name: str,
    *,
    create: Sequence[str] = (ACCOUNT, AUDIT, FULL),
    tables: Sequence[str] = ("account", "audit"),
    destinations: tuple[DestinationPlan, ...] = (),
    client: ConnectClient | None = None,
    secrets_file: str = "",
) -> Iterator[PostgresCaptured]:
    """The logins are those of the test's own; Connect knows the password of the capture's as that of the bank's."""
    secret = resolve("core_bank_capture")
    logins = Logins(capture=f"{name}_capture", reader=f"{name}_reader", marker=f"{name}_marker")
    source = SourcePlan(
        name=name,
        kind="postgres",
        database=name,
        reader=f"{name}_reader",
        capture=f"{name}_capture",
        marker=f"{name}_marker",
        log_topic=f"seamline.{name}.log",
        connector=f"seamline-{name}",
        schema="public",
    )
    plan = SyncPlan(f"{name}_sync", source, destinations, tuple(TablePlan(table) for table in tables))
    # Connect resolves login and password from the file that holds the bank's: so this login is called the same.
    logins = replace(logins, capture=secret.login)
    everyone = (logins.capture, logins.reader, logins.marker)
    with pytest.MonkeyPatch.context() as patch:
        root = replace(resolve("postgres_root"), database=name)
        for role, login in zip(("capture", "reader", "marker"), everyone, strict=True):
            address = f"postgres://{login}:{secret.password}@{root.host}:{root.port}/{name}"
            patch.setenv(f"SEAMLINE_CONNECTION_{name.upper()}_{role.upper()}", address)
        default = str(load().data / "connect" / "secrets.properties")
        endpoint = CaptureEndpoint(
            host=root.host,
            port=root.port,
            connection_id="core_bank_capture",
            secrets_file=secrets_file or default,
            kafka_servers=str(client_settings(resolve("kafka"))["bootstrap.servers"]),
        )
        one = PostgresCaptured(plan, root, client or ConnectClient(resolve("connect")), endpoint)
        _forget(one, everyone)
        try:
            with postgres_database(name):
                script = grant_script(source, tables, logins=logins)
                for login in everyone:
                    script = script.replace(f"<password of {login}>", secret.password)
                one.execute(*create, script)
                try:
                    yield one
                finally:
                    forget(one)
                    wait_until(lambda: _is_slot_free(one), timeout_s=60, what="the slot to be let go")
        finally:
            _drop_logins(one.root, everyone)


def _forget(one: PostgresCaptured, logins: Sequence[str]) -> None:
    """What a run that was killed has left."""
    forget(one)
    with closing(postgres(resolve("postgres_root"))) as session:
        session.execute(f"DROP DATABASE IF EXISTS {one.source_plan.database} WITH (FORCE)")
    _drop_logins(one.root, logins)


def _drop_logins(root: Connection, logins: Sequence[str]) -> None:
    """Roles belong to the whole cluster."""
    with closing(postgres(resolve("postgres_root"))) as session:
        for login in logins:
            with suppress(psycopg.errors.DependentObjectsStillExist):
                session.execute(f'DROP ROLE IF EXISTS "{login}"')


def _is_slot_free(one: PostgresCaptured) -> bool:
    with closing(postgres(resolve("postgres_root"))) as session:
        row = session.execute(
            "SELECT active FROM pg_replication_slots WHERE slot_name = %s", (one.source_plan.slot,)
        ).fetchone()
    return row is None or not row[0]
