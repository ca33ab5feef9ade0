"""A stream's worker killed, stopped, cut off and doubled at every bad moment: the destination never shows a torn or
doubled transaction, and goes on from its own ledger."""

import signal
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess

import psutil
import pytest

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.domain.ledger import LedgerRow
from tests.contract.behaviours import Applying
from tests.contract.worlds import PostgresWorld
from tests.integration.databases import postgres, postgres_database, writer_of
from tests.integration.known import destination_variables
from tests.integration.stream_worker import AWAY, FENCED, TRANSACTIONS, bank_log, started
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, publication
from tests.waiting import wait_until

POINTS = ["app.epoch_taken", "app.fetched", "app.dml_half", "app.commit_sent", "app.commit_acked"]


class Bench:
    """A destination, and workers that stream the same log into it."""

    def __init__(self, connection: Connection) -> None:
        self.world = PostgresWorld(TABLES, connection)
        self.world.sink().publish(STREAM, [self.world.load(t, []) for t in TABLES], publication=publication())
        self.states = bank_log()[1]
        self.connection = connection
        self._workers: list[ForkServerProcess] = []

    def start(self, arming: str = "") -> ForkServerProcess:
        environment = {
            **settings.process_environment(),
            **destination_variables(self.connection, "warehouse"),
            "SEAMLINE_FAILPOINTS": arming,
        }
        worker = started(environment)
        self._workers.append(worker)
        return worker

    def finish(self, worker: ForkServerProcess) -> int:
        worker.join(120)
        assert worker.exitcode is not None, "the worker lives on"
        return worker.exitcode

    @property
    def ledger(self) -> LedgerRow:
        row = self.world.sink().read_ledger(STREAM)
        assert row is not None
        return row

    def assert_whole(self) -> None:
        """The rows are those of the source after exactly the transactions that the ledger says."""
        with self.world.session.transaction():
            self.world.session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            transactions = self.world.session.execute("SELECT applied_units FROM seamline.ledger").fetchone()
            assert transactions is not None
            found = {table.name: self.world.rows(table) for table in (ACCOUNT, AUDIT)}
        assert found == self.states[transactions[0]]

    def assert_done(self) -> None:
        assert self.ledger.applied_transactions == TRANSACTIONS
        self.assert_whole()
        assert self.world.findings() == []

    def close(self) -> None:
        for worker in self._workers:
            if worker.exitcode is None:
                worker.kill()
                worker.join()
        self.world.close()


@pytest.fixture(scope="module")
def database(stack: object) -> Iterator[Connection]:
    with postgres_database("stream_faults") as connection:
        yield connection


@pytest.fixture
def bench(database: Connection) -> Iterator[Bench]:
    made = Bench(database)
    yield made
    made.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at_any_moment_loses_and_doubles_nothing(bench: Bench, point: str) -> None:
    for hit in (1, 3):
        assert bench.finish(bench.start(f"{point}=kill9@{hit}")) == (
            0 if point == "app.epoch_taken" and hit > 1 else -signal.SIGKILL
        )
        bench.assert_whole()
    assert bench.finish(bench.start()) == 0
    bench.assert_done()


@pytest.mark.parametrize("point", ["app.dml_half", "app.commit_sent"])
def test_a_worker_that_wakes_up_after_another_took_over_never_writes_again(bench: Bench, point: str) -> None:
    sleeper = bench.start(f"{point}=stop@2")
    wait_until(
        lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_STOPPED, timeout_s=60, what="the worker to stop"
    )
    # It may hold the ledger's row lock inside its transaction; the new owner does not wait for its time-out.
    assert bench.finish(bench.start()) == 0
    bench.assert_done()
    before = bench.ledger
    psutil.Process(sleeper.pid).resume()
    assert bench.finish(sleeper) == FENCED
    assert bench.ledger == before
    bench.assert_done()


def test_of_two_workers_at_once_one_is_fenced_and_nothing_is_doubled(bench: Bench) -> None:
    workers = [bench.start("app.fetched=error@40"), bench.start()]
    codes = sorted(bench.finish(worker) for worker in workers)
    assert set(codes) <= {0, FENCED, AWAY}
    bench.assert_whole()
    assert bench.finish(bench.start()) == 0
    bench.assert_done()


def test_a_worker_whose_sessions_are_cut_ends_as_transient_and_its_successor_goes_on(bench: Bench) -> None:
    worker = bench.start("app.dml_half=stop@2")
    wait_until(
        lambda: psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED, timeout_s=60, what="the worker to stop"
    )
    with postgres(writer_of(bench.connection)) as session:
        session.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'seamline:%'"
        )
    psutil.Process(worker.pid).resume()
    assert bench.finish(worker) == AWAY
    bench.assert_whole()
    assert bench.finish(bench.start()) == 0
    bench.assert_done()


def test_a_session_carries_its_stream_and_epoch(bench: Bench) -> None:
    stream = Applying(bench.world)
    names = bench.world.session.execute(
        "SELECT application_name FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name LIKE 'seamline:%'"
    ).fetchall()
    assert names == [(f"seamline:{STREAM}:e{stream.lease.epoch}",)]
