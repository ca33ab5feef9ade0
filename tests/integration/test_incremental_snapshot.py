"""Tables enter and leave a stream that goes on, on real servers and under writers; the others are untouched."""

import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from seamline import registry
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.failpoints import ArmedFailpoints
from seamline.domain.errors import CommitUnknown, Fenced, Refused, SchemaConflict, TransientError
from seamline.domain.ledger import StreamId
from seamline.plan.list_change import ListChange, entering_only, list_change
from seamline.plan.model import ParkedTable, Run
from seamline.ports import Commit, Marker, Orders, StreamReport
from seamline.sync.incremental_snapshot import JoinTools, join_stream
from seamline.sync.snapshot import take_snapshot
from tests.conftest import RunningStack
from tests.integration.bank_writers import Writers, in_mariadb, in_postgres, writing
from tests.integration.captured import LATER, Captured, captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.snapshot_run import Records, run_of, tools_of
from tests.integration.streamed import DESTINATION, HeldOrders, Streamed, streamed
from tests.once_more import ONCE_MORE
from tests.opened_sink import postgres_sink
from tests.waiting import wait_until

ALL = ("account", "audit", "later")
RUNS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Bank:
    one: Captured
    session_of: Callable[[Connection], Any]

    def let_in(self, table: str) -> None:
        """What the owner of the tables does before a table can be captured."""
        self.one.execute(*self.one.publishing(table))

    def busy(self, first_id: int = 1) -> AbstractContextManager[Writers]:
        return writing(self.one.root, tables=ALL, session_of=self.session_of, first_id=first_id)


@contextmanager
def _in_mariadb() -> Iterator[Bank]:
    with captured("pass_any") as one:
        yield Bank(one, in_mariadb)


@contextmanager
def _in_postgres() -> Iterator[Bank]:
    with captured_postgres("pass_any") as one:
        one.execute(LATER.replace("INT,", "int,"))
        yield Bank(one, in_postgres)


MARIADB, POSTGRES = pytest.param(_in_mariadb, id="mariadb"), pytest.param(_in_postgres, id="postgres")


@pytest.fixture(params=[pytest.param(_in_mariadb, id="mariadb", marks=ONCE_MORE), POSTGRES])
def bank(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[Bank]:
    with request.param() as made:
        yield made


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    name = DESTINATION.connection
    with postgres_database("pass_any_warehouse") as connection, destination_known_by_id(connection, name):
        yield connection


class DirectorByHand:
    """StreamDirector over the orders of a stream in this process."""

    def __init__(self, control: HeldOrders) -> None:
        self._control = control
        self.holds = 0
        self.wanted: list[str] = []

    def want(self, stream: StreamId, *, plan_json: str) -> None:
        self.wanted.append(plan_json)

    def unwant(self, stream: StreamId) -> None:
        raise NotImplementedError

    def extend(self, hold_id: str, *, lease_s: float) -> None: ...

    def apply_up_to(self, hold_id: str, position: object) -> None:
        raise NotImplementedError

    def latest_report(self, stream: StreamId) -> StreamReport | None:
        return self._control.reports[-1] if self._control.reports else None

    def hold(self, stream: StreamId, *, lease_s: float) -> str:
        self.holds += 1
        hold_id = f"hold-{self.holds}"
        self._control.given = Orders(hold_id=hold_id, hold_until_s=2e9)
        return hold_id

    def release(self, hold_id: str) -> None:
        if self._control.given.hold_id == hold_id:
            self._control.given = Orders()


@dataclass
class Joiner:
    """Brings a running stream to other tables, as the job and the tasks of a run do."""

    bank: Bank
    stream: Streamed
    warehouse: Connection

    def run(self, *tables: str, again: Sequence[str] = ()) -> tuple[Run, ListChange]:
        """A run by the plan of these tables, with its snapshot taken."""
        one = self.bank.one
        run = run_of(one, tables, number=next(RUNS))
        run = replace(run, plan=replace(run.plan, destinations=(DESTINATION,)))
        change = list_change(run.plan, {DESTINATION.name: self.stream.ledger()}, again=again)
        if change.entering:
            one.ensure(one.with_tables(*tables))
            part = entering_only(run, change)
            run.result["snapshot"] = take_snapshot(part, tools_of(one, part, Records()))
        return run, change

    def join(self, run: Run, change: ListChange, failpoints: ArmedFailpoints | None = None) -> Commit:
        armed = failpoints or ArmedFailpoints()
        return join_stream(
            run,
            DESTINATION.name,
            change,
            tools=JoinTools(
                director=DirectorByHand(self.stream.control),
                open_log=self.bank.one.open_log,
                open_sink=lambda plan: postgres_sink(plan, plan.destinations[0], failpoints=armed),
                open_schema_guard=registry.schema_guard,
                failpoints=armed,
            ),
        )

    def go_on(self, run: Run) -> None:
        """The stream of before is fenced at its next commit; the host starts it by the plan of the run."""
        self.bank.one.source.commit_marker(Marker(id=f"on-{uuid.uuid4().hex}", kind="barrier"))
        wait_until(lambda: self.stream.error is not None, timeout_s=60, what="the old stream to be fenced")
        assert isinstance(self.stream.error, Fenced)
        self.restart(run)

    def restart(self, run: Run) -> None:
        self.stream.stop()
        self.stream.plan = run.plan
        self.stream.tables = tuple(table.definition for table in run.plan.tables)
        self.stream.start()


@contextmanager
def joiner_of(bank: Bank, warehouse: Connection, *tables: str) -> Iterator[Joiner]:
    with streamed(bank.one, warehouse, *tables) as stream:
        stream.start()
        stream.wait_until_it_runs()
        yield Joiner(bank, stream, warehouse)


@pytest.mark.parametrize("bank", [MARIADB, POSTGRES], indirect=True)
def test_a_table_is_added_under_writers_and_every_commit_goes_on_from_where_the_stream_stood(
    bank: Bank, warehouse: Connection
) -> None:
    with joiner_of(bank, warehouse, "account", "audit") as joiner:
        stream = joiner.stream
        with bank.busy() as writers:
            wait_until(lambda: writers.committed > 100, timeout_s=60, what="writers at work")
            assert bank.one.rows("later"), "it has rows that the log will never hold"
            bank.let_in("later")
            run, change = joiner.run(*ALL)
            assert change == ListChange(added=("later",))
            transactions = stream.ledger().applied_transactions
            before = writers.committed
            wait_until(lambda: writers.committed > before + 100, timeout_s=60, what="changes behind the snapshot")
            assert stream.ledger().applied_transactions > transactions, "the stream went on meanwhile"
            commit = joiner.join(run, change)
            assert {b.table: b.generation for b in commit.ledger.boundaries} == dict.fromkeys(ALL, 1)
            joiner.go_on(run)
            before = writers.committed
            wait_until(lambda: writers.committed > before + 100, timeout_s=60, what="changes of all three")
        stream.wait_until_applied()
        assert stream.differences(*ALL) == {}
        assert stream.findings() == 0
        assert not stream.ledger().is_catching_up
        assert stream.query("SELECT nspname FROM pg_namespace WHERE nspname LIKE '%pass%'") == []


def test_tables_are_loaded_again_in_place_and_those_who_read_them_are_undisturbed(
    bank: Bank, warehouse: Connection
) -> None:
    with joiner_of(bank, warehouse, "account", "audit") as joiner:
        stream = joiner.stream
        with bank.busy() as writers:
            wait_until(lambda: writers.committed > 100, timeout_s=60, what="writers at work")
            stream.wait_until_applied()
            spoil(warehouse)
            run, change = joiner.run("account", "audit", again=["account", "audit"])
            commit = joiner.join(run, change)
            assert {b.table: b.generation for b in commit.ledger.boundaries} == {"account": 2, "audit": 2}
            joiner.go_on(run)
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}
        assert stream.query("SELECT n FROM live.of_somebody") == stream.query("SELECT count(*) FROM live.account")


def test_of_two_tables_one_is_loaded_again_and_the_other_views_grants_and_readers_are_undisturbed(
    bank: Bank, warehouse: Connection
) -> None:
    """No writers: so whatever row is another one was written by the incremental snapshot or its joining."""
    with joiner_of(bank, warehouse, "account", "audit") as joiner, granted_to_a_reader(warehouse) as reader:
        stream = joiner.stream
        bank.one.execute(
            "INSERT INTO account VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, 'd'), (5, 5, 'e')",
            "INSERT INTO audit VALUES (1, 'a'), (1, 'a'), (2, 'b')",
        )
        stream.wait_until_applied()
        spoil(warehouse)
        untouched = [f"SELECT {ROW} FROM live.audit ORDER BY ctid", f"SELECT {ROW} FROM live.account WHERE id = 4"]
        before = [stream.query(statement) for statement in untouched]
        tables = stream.query(TABLES_THERE)
        run, change = joiner.run("account", "audit", again=["account"])
        assert change == ListChange(again=("account",))
        with postgres(reader) as reading, reading.transaction():
            reading.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            seen = reading.execute("SELECT n FROM live.of_somebody").fetchall()
            open_rows = reading.cursor("open_rows")
            open_rows.execute("SELECT id, memo FROM live.account ORDER BY id")
            first = open_rows.fetchmany(1)
            joiner.join(run, change)
            assert [*first, *open_rows.fetchall()] == [(1, "by hand"), (2, "by hand"), (3, "by hand"), (4, "d")]
            assert reading.execute("SELECT n FROM live.of_somebody").fetchall() == seen == [(4,)]
        with postgres(reader) as reading:
            assert reading.execute("SELECT n FROM live.of_somebody").fetchall() == [(5,)]
            assert reading.execute("SELECT memo FROM live.account ORDER BY id").fetchall() == [*zip("abcde")]
        joiner.go_on(run)
        stream.wait_until_applied()
        assert stream.query(TABLES_THERE) == tables, "the same relations with the same grants"
        assert [stream.query(statement) for statement in untouched] == before, (
            "also what a hand has spoilt in the other"
        )
        assert stream.differences("account", "audit").keys() == {"audit"}
        bank.one.execute("INSERT INTO account VALUES (6, 6, 'f')", "DELETE FROM audit WHERE a = 2")
        stream.wait_until_applied()
        assert stream.query("SELECT count(*) FROM live.account") == [(6,)]


# A row's own place and the transaction that wrote it: another one is another row, whatever it holds.
ROW = "ctid::text, xmin::text"
TABLES_THERE = (
    "SELECT oid, relname, relacl::text FROM pg_class WHERE relnamespace = 'live'::regnamespace"
    " AND relkind IN ('r', 'v') ORDER BY relname"
)


@contextmanager
def granted_to_a_reader(warehouse: Connection) -> Iterator[Connection]:
    """A login of somebody's own, who may read what is live."""
    login = "pass_any_somebody"
    with postgres(replace(resolve("postgres_root"), database=warehouse.database)) as session:
        session.execute(f"DROP ROLE IF EXISTS {login}")
        session.execute(f"CREATE ROLE {login} LOGIN PASSWORD 'pw'")
        session.execute(f"GRANT CONNECT ON DATABASE {warehouse.database} TO {login}")
        session.execute(f"GRANT USAGE ON SCHEMA live TO {login}")
        session.execute(f"GRANT SELECT ON live.account, live.audit TO {login}")
        session.execute(
            f"ALTER DEFAULT PRIVILEGES FOR ROLE {warehouse.login} IN SCHEMA live GRANT SELECT ON TABLES TO {login}"
        )
        try:
            yield replace(warehouse, login=login, password="pw")
        finally:
            session.execute(f"DROP OWNED BY {login}")
            session.execute(f"DROP ROLE {login}")


def spoil(warehouse: Connection) -> None:
    """Somebody's hand in the destination, and somebody's view over it."""
    with postgres(warehouse) as session:
        session.execute("CREATE VIEW live.of_somebody AS SELECT count(*) AS n FROM live.account")
        session.execute("UPDATE live.account SET memo = 'by hand' WHERE id IN (SELECT id FROM live.account LIMIT 3)")
        session.execute("DELETE FROM live.account WHERE id IN (SELECT max(id) FROM live.account)")
        session.execute("INSERT INTO live.audit SELECT * FROM live.audit LIMIT 5")


def test_a_table_is_parked_and_comes_back_and_its_rows_of_before_are_kept(bank: Bank, warehouse: Connection) -> None:
    with joiner_of(bank, warehouse, "account", "audit") as joiner:
        stream = joiner.stream
        with bank.busy() as writers:
            wait_until(lambda: writers.committed > 60, timeout_s=60, what="writers at work")
            stream.wait_until_applied()
            run, change = joiner.run("account")
            run = replace(run, plan=replace(run.plan, parked=(ParkedTable("audit", "loaded again on Monday"),)))
            assert change == list_change(run.plan, {DESTINATION.name: stream.ledger()}, again=())
            assert change == ListChange(removed=("audit",))
            joiner.join(run, change)
            joiner.go_on(run)
            stream.wait_until_applied()
            kept = stream.query("SELECT relname FROM pg_class WHERE relname LIKE 'audit%removed%' AND relkind = 'r'")
            assert stream.query(f"SELECT count(*) > 0 FROM live.{kept[0][0]}") == [(True,)]
            assert stream.query("SELECT to_regclass('live.audit')") == [(None,)]
            run, change = joiner.run("account", "audit")
            assert change == ListChange(added=("audit",))
            commit = joiner.join(run, change)
            assert {b.table: b.generation for b in commit.ledger.boundaries} == {"account": 1, "audit": 2}
            joiner.go_on(run)
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}


# `tests/fault/real/test_table_kills.py` has each place in each mode from each kind of source: here is one of each.
@pytest.mark.parametrize(
    ("bank", "place"),
    [
        # Each place of `fault` is met there in both; here one before the table joins, and one behind it.
        pytest.param(_in_mariadb, "app.commit_sent", id="mariadb-app.commit_sent"),
        pytest.param(_in_postgres, "addtable.joined", id="postgres-addtable.joined"),
    ],
    indirect=["bank"],
)
def test_an_incremental_snapshot_that_fails_anywhere_is_run_again_and_the_stream_goes_on_meanwhile(
    place: str, bank: Bank, warehouse: Connection
) -> None:
    with joiner_of(bank, warehouse, "account", "audit") as joiner:
        stream = joiner.stream
        with bank.busy() as writers:
            wait_until(lambda: writers.committed > 60, timeout_s=60, what="writers at work")
            bank.let_in("later")
            run, change = joiner.run(*ALL)
            before = writers.committed
            wait_until(lambda: writers.committed > before + 60, timeout_s=60, what="changes behind the snapshot")
            armed = ArmedFailpoints(f"{place}=error")
            # An answer that is lost in mid-stream is found again by the incremental snapshot itself.
            with suppress(TransientError, CommitUnknown):
                joiner.join(run, change, armed)
                assert place == "app.commit_sent"
            assert armed.hits[place]
            joiner.join(run, change)
            joiner.go_on(run)
        stream.wait_until_applied()
        assert stream.differences(*ALL) == {}
        assert stream.findings() == 0


@pytest.mark.parametrize("bank", [POSTGRES], indirect=True)
def test_tables_enter_no_stream_that_stands_on_purpose(bank: Bank, warehouse: Connection) -> None:
    with joiner_of(bank, warehouse, "account", "audit") as joiner:
        bank.let_in("later")
        run, change = joiner.run(*ALL)
        joiner.stream.stop()
        with pytest.raises(Refused, match="resume or start it first"):
            joiner.join(run, change)
        joiner.stream.start()
        joiner.stream.wait_until_it_runs()
        joiner.join(run, change)
        joiner.go_on(run)
        joiner.stream.wait_until_applied()
        assert joiner.stream.differences(*ALL) == {}


def test_a_table_that_was_altered_is_parked_and_comes_back_in_its_new_schema_while_the_others_go_on(
    bank: Bank, warehouse: Connection
) -> None:
    bank.let_in("later")
    with joiner_of(bank, warehouse, *ALL) as joiner:
        stream = joiner.stream
        bank.one.execute("INSERT INTO later VALUES (1, 1, 'before')")
        stream.wait_until_applied()
        bank.one.execute("ALTER TABLE later ADD COLUMN b int", "INSERT INTO later VALUES (2, 2, 'after', 2)")
        bank.one.execute("INSERT INTO account VALUES (1, 1, 'waits behind it')")
        wait_until(lambda: stream.error is not None, timeout_s=60, what="the stream to stop")
        assert isinstance(stream.error, SchemaConflict)
        assert "__tables" in stream.error.hint
        run, change = joiner.run("account", "audit")
        assert change == ListChange(removed=("later",))
        joiner.join(run, change)
        joiner.restart(run)
        stream.wait_until_applied()
        assert stream.differences("account", "audit") == {}
        assert stream.query("SELECT memo FROM live.account") == [("waits behind it",)]
        run, change = joiner.run(*ALL)
        joiner.join(run, change)
        joiner.go_on(run)
        bank.one.execute("INSERT INTO later VALUES (3, 3, 'new', 3)")
        stream.wait_until_applied()
        assert stream.differences(*ALL) == {}
        assert stream.query("SELECT b FROM live.later ORDER BY id") == [(None,), (2,), (3,)]
