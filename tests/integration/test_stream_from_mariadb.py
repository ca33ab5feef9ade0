"""The whole way of a change on real servers: MariaDB, its capture, the log topic, the span loop, PostgreSQL."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import SchemaConflict
from seamline.plan.model import StreamPlan
from seamline.ports import Orders
from tests.conftest import RunningStack
from tests.integration.bank_writers import writing
from tests.integration.captured import Captured, captured
from tests.integration.databases import mariadb, postgres_database
from tests.integration.kinds import CASES
from tests.integration.streamed import streamed
from tests.waiting import wait_until


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured("stream_test") as one:
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("stream_test") as connection:
        yield connection


def test_the_destination_follows_writers_through_stops_and_equals_the_source(
    bank: Captured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        with writing(bank.root, tables=("account", "audit")) as writers:
            for goal in (150, 300, 450):
                wait_until(lambda goal=goal: writers.committed > goal, timeout_s=120, what=f"{goal} transactions")
                stream.stop()
                assert stream.error is None
                stream.start()
        bank.execute("INSERT INTO audit SELECT 7, 'identical' FROM seq_1_to_3000")
        bank.execute("DELETE FROM audit WHERE memo = 'identical' LIMIT 1234")
        bank.execute("UPDATE account SET id = id + 10000000 ORDER BY id DESC LIMIT 50")
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}
        assert stream.findings() == 0
        assert not stream.ledger().is_catching_up
        stream.stop()
        assert stream.error is None


def test_every_kind_of_column_arrives_as_the_source_holds_it(bank: Captured, warehouse: Connection) -> None:
    columns = ", ".join(f"`{case.column.name}` {case.mariadb_type}" for case in CASES)
    bank.execute(f"CREATE TABLE kinds (id INT PRIMARY KEY, {columns}, f32 FLOAT, f64 DOUBLE)")
    bank.execute(f"CREATE TABLE kinds_keyless ({columns}, f32 FLOAT, f64 DOUBLE)")
    with streamed(bank, warehouse, "kinds", "kinds_keyless") as stream:
        stream.start()
        rows = max(len(case.edges) for case in CASES)
        for number in range(rows):
            values = [case.edges[number % len(case.edges)].mariadb for case in CASES]
            listed = ", ".join([*values, "0.1", "1.732224012649634e-300"])
            bank.execute(f"INSERT INTO kinds VALUES ({number}, {listed})")
            bank.execute(*[f"INSERT INTO kinds_keyless VALUES ({listed})"] * 3)
        nothing = ", ".join(["NULL"] * (len(CASES) + 2))
        bank.execute(f"INSERT INTO kinds VALUES ({rows}, {nothing})", f"INSERT INTO kinds_keyless VALUES ({nothing})")
        stream.wait_until_applied()
        assert stream.differing_columns("kinds", [str(number) for number in range(rows + 1)]) == {}
        assert stream.differences("kinds", "kinds_keyless") == {}
        # Every row is found again by every one of its values.
        bank.execute("DELETE FROM kinds_keyless", "UPDATE kinds SET id = id + 100", "DELETE FROM kinds WHERE id > 103")
        stream.wait_until_applied()
        assert stream.differences("kinds", "kinds_keyless") == {}
        assert stream.query("SELECT count(*) FROM live.kinds_keyless") == [(0,)]
        assert stream.query("SELECT DISTINCT f32, f64 FROM live.kinds WHERE f32 IS NOT NULL") == [
            (pytest.approx(0.1, rel=1e-7), 1.732224012649634e-300)
        ]
        assert stream.findings() == 0


def test_a_truncate_and_foreign_ddl_pass_and_own_ddl_stops_with_the_statement(
    bank: Captured, warehouse: Connection
) -> None:
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 1, 'before')", "INSERT INTO audit VALUES (1, 'before')")
        bank.execute("CREATE TABLE elsewhere (x INT)", "ALTER TABLE elsewhere ADD y INT", "TRUNCATE TABLE audit")
        bank.execute("INSERT INTO audit VALUES (2, 'after')")
        stream.wait_until_applied()
        assert stream.query("SELECT a, memo FROM live.audit") == [(2, "after")]
        bank.execute("INSERT INTO account VALUES (2, 2, 'last')", "ALTER TABLE account ADD COLUMN later INT")
        bank.execute("INSERT INTO account VALUES (3, 3, 'beyond', 3)")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert "ADD COLUMN later INT" in str(stream.error)
        assert stream.query("SELECT id FROM live.account ORDER BY id") == [(1,), (2,)]


def test_a_barrier_holds_the_stream_at_one_position_of_the_source(bank: Captured, warehouse: Connection) -> None:
    with streamed(bank, warehouse, "account", "audit") as stream:
        stream.start()
        with writing(bank.root, tables=("account", "audit")) as writers:
            wait_until(lambda: writers.committed > 100, timeout_s=120, what="writers at work")
            stream.control.given = Orders(hold_id="h", hold_until_s=2e9)
            wait_until(lambda: stream.control.reports[-1].state == "held", timeout_s=30, what="the stream to stand")
            (view,) = bank.source.open_views(1)
            with closing(view):
                position = view.position
                stream.control.given = Orders(hold_id="h", hold_until_s=2e9, apply_to=position)
                wait_until(lambda: stream.ledger().position == position, timeout_s=60, what="the position asked for")
                units = stream.ledger().applied_units
                before = writers.committed
                wait_until(lambda: writers.committed > before + 30, timeout_s=60, what="writers beyond the position")
                assert stream.ledger().applied_units == units, "it stands still"
            stream.control.given = Orders()
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}


def test_a_transaction_larger_than_a_span_and_than_memory_is_seen_whole(bank: Captured, warehouse: Connection) -> None:
    options = StreamPlan(span_changes_max=1000)
    with streamed(bank, warehouse, "account", "audit", options=options) as stream:
        stream.start()
        with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
            session.autocommit(False)
            cursor.execute("INSERT INTO account SELECT seq, 1, 'large' FROM seq_1_to_20000")
            cursor.execute("INSERT INTO audit SELECT 1, 'large' FROM seq_1_to_5000")
            cursor.execute("UPDATE account SET memo = 'twice' WHERE id % 2 = 0")
            session.commit()
        seen = set()

        def is_there() -> bool:
            seen.add(
                tuple(stream.query("SELECT (SELECT count(*) FROM live.account), (SELECT count(*) FROM live.audit)"))
            )
            return stream.ledger().applied_units > 0 and stream.query("SELECT count(*) FROM live.audit") == [(5000,)]

        wait_until(is_there, timeout_s=120, what="the large transaction")
        assert seen <= {((0, 0),), ((20000, 5000),)}
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}
