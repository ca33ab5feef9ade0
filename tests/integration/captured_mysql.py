"""A small MySQL database of a test's own with its capture: the owner has run the grant script and nothing else."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from seamline.adapters.connect.endpoint import CaptureEndpoint
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.kafka.client import client_settings
from seamline.databases.mysql.grants import statements_of
from seamline.kinds.logins import Logins
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan, TablePlan
from seamline.settings import load
from seamline.sources.mysql.grants import script_of
from seamline.sources.mysql.source import MySqlSource
from tests.integration.captured import ACCOUNT, AUDIT, LATER, Captured, forget
from tests.mysql_server import mysql, mysql_database


@dataclass
class MySqlCaptured(Captured):
    @property
    def source(self) -> MySqlSource:
        return MySqlSource(self.source_plan)

    def grant(self, plan: SyncPlan) -> None:
        source = plan.source
        roles = {role: resolve(getattr(source, role)).login for role in ("reader", "capture", "marker")}
        tables = [source.places.captured(table.name) for table in plan.tables]
        script = script_of(source, tables, logins=Logins(**roles))
        for role, login in roles.items():
            script = script.replace(f"<password of {login}>", resolve(getattr(source, role)).password)
        self.execute(*statements_of(script))

    def execute(self, *statements: str) -> None:
        with closing(mysql(self.root)) as session, session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows_of(self, query: str) -> list[tuple[Any, ...]]:
        with closing(mysql(self.root)) as session, session.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())


@contextmanager
def captured_mysql(
    server: Connection,
    name: str,
    *,
    create: Sequence[str] = (ACCOUNT, AUDIT, LATER),
    tables: Sequence[str] = ("account", "audit"),
    destinations: tuple[DestinationPlan, ...] = (),
    lock: str = "none",
    client: ConnectClient | None = None,
    secrets_file: str = "",
) -> Iterator[MySqlCaptured]:
    """The logins are those of the test's own; Connect knows the password of the capture's as that of the bank's."""
    secret = resolve("core_bank_capture")
    logins = Logins(capture=secret.login, reader=f"{name}_reader", marker=f"{name}_marker")
    source = SourcePlan(
        name=name,
        kind="mysql",
        database=name,
        reader=f"{name}_reader",
        capture=f"{name}_capture",
        marker=f"{name}_marker",
        log_topic=f"seamline.{name}.log",
        connector=f"seamline-{name}",
        snapshot_lock=lock,
    )
    plan = SyncPlan(f"{name}_sync", source, destinations, tuple(TablePlan(table) for table in tables))
    endpoint = CaptureEndpoint(
        host=server.host,
        port=server.port,
        connection_id="core_bank_capture",
        secrets_file=secrets_file or str(load().data / "connect" / "secrets.properties"),
        kafka_servers=str(client_settings(resolve("kafka"))["bootstrap.servers"]),
    )
    with pytest.MonkeyPatch.context() as patch, mysql_database(server, name) as root:
        for role in ("capture", "reader", "marker"):
            address = f"mysql://{getattr(logins, role)}:{secret.password}@{root.host}:{root.port}/{name}"
            patch.setenv(f"SEAMLINE_CONNECTION_{name.upper()}_{role.upper()}", address)
        one = MySqlCaptured(plan, root, client or ConnectClient(resolve("connect")), endpoint)
        forget(one)
        one.execute(*create)
        one.grant(plan)
        try:
            yield one
        finally:
            forget(one)
            for login in (logins.capture, logins.reader, logins.marker):
                one.execute(f"DROP USER IF EXISTS '{login}'@'%'")


def as_writer(root: Connection) -> Any:
    """A session for `bank_writers.writing`."""
    session = mysql(replace(root))
    session.autocommit(False)
    return session
