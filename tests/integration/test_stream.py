"""The whole way of a change on real servers, from each kind of source: its capture, the log topic, the span loop,
PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import SchemaConflict
from seamline.plan.model import StreamPlan
from seamline.ports import Orders
from tests.conftest import RunningStack
from tests.integration.bank_writers import Writers, in_mariadb, in_postgres, writing
from tests.integration.captured import Captured, captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres, postgres_database
from tests.integration.streamed import streamed
from tests.once_more import ONCE_MORE
from tests.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Bank:
    """A captured database. `numbers` is what selects the whole numbers from 1 on as `n`, `some` limits a DELETE to some
    rows that are all alike."""

    one: Captured
    session_of: Callable[[Connection], Any]
    numbers: str
    some: str

    def busy(self) -> AbstractContextManager[Writers]:
        return writing(self.one.root, tables=("account", "audit"), session_of=self.session_of)

    def in_one_transaction(self, *statements: str) -> None:
        with closing(self.session_of(self.one.root)) as session, session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            session.commit()


@contextmanager
def _in_mariadb() -> Iterator[Bank]:
    with captured("stream_any") as one:
        yield Bank(one, in_mariadb, "(SELECT seq AS n FROM seq_1_to_{}) AS s", "LIMIT {}")


@contextmanager
def _in_postgres() -> Iterator[Bank]:
    with captured_postgres("stream_any") as one:
        some = "AND ctid IN (SELECT ctid FROM audit WHERE memo = 'identical' LIMIT {})"
        yield Bank(one, in_postgres, "generate_series(1, {}) AS n", some)


MARIADB, POSTGRES = pytest.param(_in_mariadb, id="mariadb"), pytest.param(_in_postgres, id="postgres")


@pytest.fixture(params=[pytest.param(_in_mariadb, id="mariadb", marks=ONCE_MORE), POSTGRES])
def bank(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[Bank]:
    with request.param() as made:
        yield made


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("stream_any_warehouse") as connection:
        yield connection


@pytest.mark.parametrize("bank", [MARIADB, POSTGRES], indirect=True)
def test_the_destination_follows_writers_through_stops_and_equals_the_source(bank: Bank, warehouse: Connection) -> None:
    with streamed(bank.one, warehouse, "account", "audit") as stream:
        stream.start()
        with bank.busy() as writers:
            for goal in (150, 300, 450):
                wait_until(lambda goal=goal: writers.committed > goal, timeout_s=120, what=f"{goal} transactions")
                stream.stop()
                assert stream.error is None
                stream.start()
        bank.one.execute(
            f"INSERT INTO audit SELECT 7, 'identical' FROM {bank.numbers.format(3000)}",
            f"DELETE FROM audit WHERE memo = 'identical' {bank.some.format(1234)}",
            "UPDATE account SET id = id + 10000000 WHERE id % 7 = 0",
        )
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}
        assert stream.findings() == 0
        assert not stream.ledger().is_catching_up
        stream.stop()
        assert stream.error is None


def test_a_barrier_holds_the_stream_at_one_position_of_the_source(bank: Bank, warehouse: Connection) -> None:
    with streamed(bank.one, warehouse, "account", "audit") as stream:
        stream.start()
        with bank.busy() as writers:
            wait_until(lambda: writers.committed > 100, timeout_s=120, what="writers at work")
            stream.control.given = Orders(hold_id="h", hold_until_s=2e9)
            wait_until(lambda: stream.control.reports[-1].state == "held", timeout_s=30, what="the stream to stand")
            (view,) = bank.one.source.open_views(1)
            with closing(view):
                position = view.position
                stream.control.given = Orders(hold_id="h", hold_until_s=2e9, apply_to=position)
                wait_until(lambda: stream.ledger().position == position, timeout_s=60, what="the position asked for")
                assert stream.differences("account", "audit", source=view) == {}
                transactions = stream.ledger().applied_transactions
                before = writers.committed
                wait_until(lambda: writers.committed > before + 30, timeout_s=60, what="writers beyond the position")
                assert stream.ledger().applied_transactions == transactions, "it stands still"
            stream.control.given = Orders()
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}


def test_unique_values_that_change_places_in_a_transaction_block_nothing(bank: Bank, warehouse: Connection) -> None:
    bank.one.execute("ALTER TABLE account ADD CONSTRAINT only_once UNIQUE (a)")
    with streamed(bank.one, warehouse, "account") as stream:
        stream.start()
        bank.one.execute("INSERT INTO account VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')")
        stream.wait_until_applied()
        with postgres(warehouse) as session:
            session.execute("ALTER TABLE live.account ADD UNIQUE (a) DEFERRABLE INITIALLY DEFERRED")
        bank.in_one_transaction(
            "UPDATE account SET a = -1 WHERE id = 1",
            "UPDATE account SET a = 10 WHERE id = 2",
            "UPDATE account SET a = 20 WHERE id = 1",
            "DELETE FROM account WHERE id = 3",
            "INSERT INTO account VALUES (4, 30, 'd')",
        )
        stream.wait_until_applied()
        assert stream.differences("account") == {}
        assert stream.query("SELECT id, a FROM live.account ORDER BY id") == [(1, 20), (2, 10), (4, 30)]
        with postgres(warehouse) as session:
            session.execute("CREATE UNIQUE INDEX row_by_row ON live.account (a)")
        bank.in_one_transaction(
            "UPDATE account SET a = -1 WHERE id = 1",
            "UPDATE account SET a = 20 WHERE id = 2",
            "UPDATE account SET a = 10 WHERE id = 1",
        )
        stream.wait_until_applied()
        assert stream.differences("account") == {}
        # Three transactions that are one span: each is right after the one before, the order of their rows is not.
        stream.stop()
        assert stream.error is None
        for statement in (
            "INSERT INTO account VALUES (5, 50, 'e')",
            "UPDATE account SET a = 11 WHERE id = 1",
            "UPDATE account SET a = 10 WHERE id = 5",
        ):
            bank.in_one_transaction(statement)
        stream.start()
        stream.wait_until_applied()
        assert stream.query("SELECT id, a FROM live.account ORDER BY id") == [(1, 11), (2, 20), (4, 30), (5, 10)]
        assert stream.findings() == 0


def test_a_unique_index_that_the_source_does_not_keep_stops_the_stream_by_name(
    bank: Bank, warehouse: Connection
) -> None:
    with streamed(bank.one, warehouse, "account") as stream:
        stream.start()
        bank.one.execute("INSERT INTO account VALUES (1, 10, 'a'), (2, 20, 'b')")
        stream.wait_until_applied()
        with postgres(warehouse) as session:
            session.execute("CREATE UNIQUE INDEX row_by_row ON live.account (a)")
        bank.one.execute("UPDATE account SET a = 10 WHERE id = 2")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert "row_by_row" in str(stream.error)
        assert stream.query("SELECT id, a FROM live.account ORDER BY id") == [(1, 10), (2, 20)]


def test_a_transaction_larger_than_a_span_and_than_memory_is_seen_whole(bank: Bank, warehouse: Connection) -> None:
    options = StreamPlan(span_changes_max=1000)
    with streamed(bank.one, warehouse, "account", "audit", options=options) as stream:
        stream.start()
        bank.in_one_transaction(
            f"INSERT INTO account SELECT n, 1, 'large' FROM {bank.numbers.format(20000)}",
            f"INSERT INTO audit SELECT 1, 'large' FROM {bank.numbers.format(5000)}",
            "UPDATE account SET memo = 'twice' WHERE id % 2 = 0",
        )
        seen = set()

        def is_there() -> bool:
            counts = stream.query("SELECT (SELECT count(*) FROM live.account), (SELECT count(*) FROM live.audit)")
            seen.add(tuple(counts))
            return counts == [(20000, 5000)]

        wait_until(is_there, timeout_s=120, what="the large transaction")
        assert seen <= {((0, 0),), ((20000, 5000),)}
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}
