"""A platform database of a test's own, which can be cut off, and the plan of one sync."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg

from seamline.adapters.connections import resolve
from seamline.domain.break_id import keyed_id
from seamline.domain.errors import TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.verdict import Break
from seamline.plan.model import DestinationPlan, SourcePlan, StreamPlan, SyncPlan, TablePlan
from seamline.platform.database import Session, parameters

STREAM = StreamId("settlement", "warehouse")
# With it a test knows the identities of breaks before they are stored.
SECRET = "5" * 64


class Server:
    """One database of its own on the stack's server; sessions of it can be cut and refused."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._root = resolve("postgres_root")
        self._is_open = True

    def admin(self, statement: str) -> None:
        with psycopg.connect(
            **parameters(self._root, application_name="tests", statement_timeout_s=30), autocommit=True
        ) as session:
            session.execute(statement)  # type: ignore[arg-type]

    def open(self) -> Session:
        if not self._is_open:
            raise TransientError("the platform database does not answer: cut by the test")
        known = replace(self._root, database=self.name)
        return psycopg.connect(**parameters(known, application_name="tests", statement_timeout_s=3), autocommit=True)

    def cut(self) -> None:
        """End every session and refuse new ones."""
        self._is_open = False
        self.admin(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{self.name}'")

    def mend(self) -> None:
        self._is_open = True


@contextmanager
def database_of_its_own(name: str) -> Iterator[Server]:
    server = Server(name)
    server.admin(f"drop database if exists {name} with (force)")
    server.admin(f"create database {name}")
    try:
        yield server
    finally:
        server.admin(f"drop database if exists {name} with (force)")


def know_secret(server: Server) -> None:
    with server.open() as session:
        session.execute("update identity_secret set secret = %s", (SECRET,))


def stored_id(found: Break) -> str:
    """Of a break of the sync, as it is stored where the secret is known."""
    return keyed_id(SECRET, STREAM.sync, STREAM.destination, found)


def empty_tables(server: Server) -> None:
    """Let it be reached again, and forget what was written into it."""
    server.mend()
    with server.open() as session:
        session.execute(
            "truncate capture_tables, pruning_hold, sync_state, run, receipt, cut, reconciliation, table_verdict,"
            " control_total, break, break_work, break_act, tolerance, stream, stream_hold, stream_report, stream_event,"
            " stream_lag, host_lease, alarm, driver_run, repair, repair_row, late_watch, late_posting"
        )
        # Or what was written is missed: the log of acts only grows, but for whoever passes its triggers by.
        session.execute("set session_replication_role = replica")
        session.execute("truncate sign_off, attachment")
        session.execute("delete from audit_entry where number > 1")


def plan(*, lag_max_s: float = 60.0) -> SyncPlan:
    return SyncPlan(
        sync="settlement",
        source=SourcePlan(
            "core_bank", "mariadb", "bank", "core_bank", "core_bank", "core_bank", "seamline.core_bank.log", "x"
        ),
        destinations=(DestinationPlan("warehouse", "postgres", "warehouse", "settlement"),),
        tables=(TablePlan("account"),),
        stream=StreamPlan(lag_max_s=lag_max_s),
    )
