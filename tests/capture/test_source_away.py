"""A PostgreSQL is away and a stream has its log: what the log proves arrives, the rest waits and says for what."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from seamline.adapters.connect.debezium_capture import open_probe
from seamline.adapters.connections import Connection
from seamline.ports import Orders
from seamline.sources.postgres import client, schema_guard
from seamline.sources.postgres.heartbeat_payload import open_payload
from seamline.sync.source_watch import SourceWatch
from tests.conftest import RunningStack
from tests.integration.captured import marker_in_log
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.replicated import QUICK, Backup, Server, restorable_postgres
from tests.integration.streamed import Streamed, streamed
from tests.integration.watched import Alarms, watched
from tests.waiting import wait_until


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    server.end(QUICK)
    yield
    server.start()


@contextmanager
def suspended(server: Server) -> Iterator[None]:
    """With all its sessions: the kernel goes on to take what is sent to them."""
    assert server.process is not None
    first = server.process.pid
    os.kill(first, signal.SIGSTOP)
    everybody = (first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text(encoding="ascii").split()))
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in everybody:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    """On the stack's server; behind it the names lead to the test's own."""
    with postgres_database("away_warehouse") as connection:
        yield connection


@pytest.fixture
def server(warehouse: Connection) -> Iterator[Server]:  # noqa: ARG001
    with restorable_postgres() as backup:
        assert isinstance(backup, Backup)
        yield backup.server


@pytest.fixture
def bank(server: Server) -> Iterator[PostgresCaptured]:  # noqa: ARG001
    with captured_postgres("away") as one:
        yield one


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_guard, "_ANSWER_S", 2.0)
    monkeypatch.setattr(client, "_CONNECT_TIMEOUT_S", 2)


def heartbeats(bank: PostgresCaptured) -> Callable[[], None]:
    """Each call commits one, as the stream host's watch does."""
    plan, turns = bank.source_plan, iter(range(0, 10_000, 100))
    watch = SourceWatch(
        plan,
        open_source=lambda: bank.source,
        open_probe=lambda: open_probe(plan),
        alarms=Alarms(),
        payload_source=open_payload(plan),
    )
    watch.carry(frozenset({"account", "audit"}))
    return lambda: watch.beat(now_s=float(next(turns)))


def stands(stream: Streamed, state: str) -> bool:
    if stream.error is not None:
        raise stream.error
    return stream.control.reports[-1].state == state


@pytest.mark.parametrize("away", [stopped, suspended])
def test_what_the_log_proves_arrives_while_the_source_is_away_and_the_rest_when_it_is_back(
    away: Callable[[Server], AbstractContextManager[None]],
    bank: PostgresCaptured,
    server: Server,
    warehouse: Connection,
) -> None:
    beat = heartbeats(bank)
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.open_log = bank.open_log
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 1, 'before')")
        stream.wait_until_applied()
        stream.control.given = Orders(hold_id="h", hold_until_s=9e9)
        wait_until(lambda: stands(stream, "held"), timeout_s=30, what="the stream to stand")
        for first in (10, 20):
            bank.execute(f"INSERT INTO account SELECT n, n, 'held back' FROM generate_series({first}, {first + 9}) n")
            bank.execute("INSERT INTO audit VALUES (1, 'held back')")
            beat()
        bank.execute("DELETE FROM account WHERE id = 10", "INSERT INTO audit VALUES (2, 'behind the newest heartbeat')")
        marker_in_log(bank)
        if away is stopped:
            # Nothing that a worker keeps in memory is needed: the next one has never had an answer.
            stream.stop()
        with away(server):
            stream.control.given = Orders()
            if away is stopped:
                stream.start()
            wait_until(lambda: stands(stream, "waiting"), timeout_s=60, what="the stream to wait")
            assert stream.query("SELECT id FROM live.account ORDER BY id") == [(1,), *((n,) for n in range(10, 30))]
            assert stream.query("SELECT a FROM live.audit") == [(1,), (1,)]
            at = f"PostgreSQL at {bank.root.host}:{bank.root.port} (connection `away_reader`)"
            assert f"behind position {stream.ledger().position} cannot be verified without it: {at}" in (
                stream.control.reports[-1].error
            )
        with watched(bank):
            stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}
        assert stream.query("SELECT count(*) FROM live.audit") == [(3,)]
        assert stream.findings() == 0
