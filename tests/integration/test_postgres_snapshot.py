"""Snapshots of a PostgreSQL source under writers: what is staged is what the log says, and the rest comes by it."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.domain.cutover import is_covered
from seamline.domain.digest import Segment
from seamline.domain.errors import InvariantViolated, Refused, SchemaConflict, SeamlineError, TransientError
from seamline.domain.position import position_from_json
from seamline.ports import Marker, Problem, ReadView
from seamline.sources.postgres import bulk, sessions
from seamline.sources.postgres.client import Session, role
from seamline.sources.postgres.copy_out import CopyOut
from seamline.sources.postgres.position import PostgresPosition
from seamline.sources.postgres.sessions import SharedSnapshot, join_snapshot, views_at_one_snapshot
from seamline.sources.postgres.source import PostgresSource
from seamline.sync.snapshot import take_snapshot
from tests.conftest import RunningStack
from tests.integration.bank_writers import in_postgres, writing
from tests.integration.captured import Replayed, apply_transaction
from tests.integration.captured_postgres import ACCOUNT, AUDIT, FULL, PostgresCaptured, captured_postgres
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.postgres_kinds import CASES, TYPES, create_table, rows
from tests.integration.snapshot_run import (
    RATES,
    Records,
    Rows,
    by_row_address,
    caught_before_publish,
    found_by,
    run_of,
    snapshot_amid,
    staged_as_the_log_says,
    staged_names,
    tools_of,
    transactions_of,
)
from tests.once_more import ONCE_MORE
from tests.waiting import wait_until

# Each reads the log of all before it. Of those with an added table the fault layer makes twelve.
ROUNDS = [*range(4), *(pytest.param(number, marks=ONCE_MORE) for number in range(4, 12))]
WRITERS = 8
TABLES = ("account", "audit")
WAREHOUSE = destination_plan("snap_pg_warehouse", "bank")
# Each test's writers make keys of their own.
FIRST_IDS = itertools.count(1, 1_000_000)
NUMBERS = itertools.count()
busy = partial(writing, session_of=in_postgres, count=WRITERS)


@pytest.fixture(scope="module")
def bank(stack: RunningStack) -> Iterator[PostgresCaptured]:
    tables = (*TABLES, "kinds")
    create = (ACCOUNT, AUDIT, FULL, *TYPES, create_table("kinds", key="id int PRIMARY KEY, "))
    with captured_postgres("snap_pg", create=create, tables=tables, destinations=(WAREHOUSE,)) as one:
        one.ensure()
        yield one


@pytest.fixture(scope="module")
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    name = WAREHOUSE.connection
    with postgres_database(name) as connection, destination_known_by_id(connection, name):
        yield connection


@pytest.fixture(autouse=True)
def small_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rounds share one database: its transactions stay small enough that it does."""
    monkeypatch.setattr("tests.integration.bank_writers._LARGE", 300)


@pytest.fixture(autouse=True)
def no_slot_is_left(bank: PostgresCaptured) -> Iterator[None]:
    yield
    wait_until(lambda: not temporary_slots(bank), timeout_s=10, what="the end of every temporary slot")


@pytest.fixture
def later(bank: PostgresCaptured) -> str:
    """A keyed table that is neither published nor granted to anybody."""
    name = f"later_{next(NUMBERS)}"
    bank.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, a int, memo text)")
    return name


@pytest.fixture
def three(bank: PostgresCaptured, later: str) -> Table:
    """The same with three rows, for the reader to read."""
    bank.execute(f"INSERT INTO {later} VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')", grant(bank, later))
    return bank.source.catalogue([later])[0]


@pytest.fixture
def published(bank: PostgresCaptured, three: Table) -> Table:
    """The same, as its owner leaves it for an onboarding."""
    bank.execute(f'ALTER PUBLICATION "{bank.source_plan.publication}" ADD TABLE {three.name}')
    return three


def grant(bank: PostgresCaptured, table: str) -> str:
    plan = bank.source_plan
    logins = ", ".join(f'"{role(plan, one).login}"' for one in (plan.reader, plan.capture))
    return f"GRANT SELECT ON {table} TO {logins}"


def temporary_slots(bank: PostgresCaptured) -> list[tuple[Any, ...]]:
    with closing(bank.session()) as session:
        return session.execute("SELECT * FROM pg_replication_slots WHERE temporary").fetchall()


def rows_seen(view: ReadView, table: str) -> int:
    return sum(digest.rows for digest in view.digests(Segment(table), run_key="k").values())


def as_reader(bank: PostgresCaptured) -> Connection:
    return role(bank.source_plan, bank.source_plan.reader)


def last_marker(bank: PostgresCaptured) -> str:
    marker = Marker(id=f"last-{next(NUMBERS)}-", kind="heartbeat")
    bank.source.commit_marker(marker)
    return marker.id


def goes_on_to_the_source(bank: PostgresCaptured, snapshot: Mapping[str, Any], staged: Rows) -> None:
    """Staged rows and the log behind their position make what the source holds now: nothing is lost, nothing twice."""
    position = position_from_json(snapshot["position"])
    keyed = {table: {key_of(row): row for row in found} for table, found in staged.items() if table != "audit"}
    state = Replayed(keyed, {"audit": Counter(staged["audit"])})
    for end, transaction, changes in transactions_of(bank, last_marker(bank)):
        assert isinstance(end.position, PostgresPosition)
        assert isinstance(position, PostgresPosition)
        assert (end.position.lsn <= position.lsn) == is_covered(transaction, position), (
            "a snapshot is a prefix of the log"
        )
        for row in changes:
            if row.table in staged and not is_covered(transaction, position):
                is_known = row.key is None or row.key in state.keyed[row.table]
                assert row.key is None or is_known == (row.op != "c"), f"{row.op} of {row.table} {row.key!r}"
                apply_transaction(state, [row])
    for table in staged:
        assert state.holds(table) == sorted(bank.rows(table), key=repr), f"{table} after {position}"


def key_of(row: tuple[Any, ...]) -> bytes:
    return json.dumps({"id": row[0]}, separators=(",", ":")).encode()


@pytest.mark.parametrize("number", ROUNDS)
def test_staged_tables_are_what_the_position_rule_says_and_the_log_goes_on_from_there(
    number: int, bank: PostgresCaptured, warehouse: Connection
) -> None:
    run = run_of(bank, TABLES, number=number)
    records = Records()
    with busy(bank.root, tables=TABLES, first_id=next(FIRST_IDS)) as writers:
        snapshot = snapshot_amid(writers, run, tools_of(bank, run, records))
    staged = staged_as_the_log_says(bank, warehouse, snapshot, TABLES)
    assert {one.table: one.rows for one in records.receipts} == {table: len(found) for table, found in staged.items()}
    goes_on_to_the_source(bank, snapshot, staged)


@pytest.mark.parametrize("number", ROUNDS[:1])
def test_a_table_that_is_published_amid_writers_is_staged_whole_and_the_log_goes_on_from_there(
    number: int, bank: PostgresCaptured, warehouse: Connection, later: str
) -> None:
    a_table_is_published_amid_writers(bank, warehouse, later, number=number)


def a_table_is_published_amid_writers(
    bank: PostgresCaptured, warehouse: Connection, later: str, *, number: int
) -> None:
    tables = (*TABLES, later)
    with busy(bank.root, tables=tables, first_id=next(FIRST_IDS)) as writers:
        wait_until(lambda: writers.committed > 50, timeout_s=60, what="writers at work")
        assert bank.rows(later), "changes that the log will never hold"
        bank.execute(grant(bank, later), f"ALTER PUBLICATION {bank.source_plan.publication} ADD TABLE {later}")
        state = bank.ensure(bank.with_tables(*tables))
        assert state.changed
        run = run_of(bank, tables, number=number)
        snapshot = snapshot_amid(writers, run, tools_of(bank, run, Records()))
    staged = staged_as_the_log_says(bank, warehouse, snapshot, TABLES)
    assert staged[later]
    goes_on_to_the_source(bank, snapshot, staged)


@pytest.mark.parametrize("is_passed", [False, True], ids=["read with the table", "read before that"])
def test_of_a_transaction_amid_which_its_table_is_published_the_snapshot_holds_all_and_the_log_holds_the_rest(
    is_passed: bool, bank: PostgresCaptured, warehouse: Connection, later: str
) -> None:
    """Its rows before that moment are never reported, those behind it are: a delete of a row nobody inserted. Of one
    that the connector reads before it has the table, nothing is."""
    tables = (*TABLES, later)
    publish = (grant(bank, later), f"ALTER PUBLICATION {bank.source_plan.publication} ADD TABLE {later}")
    if not is_passed:
        bank.connector.stop()
    with closing(in_postgres(bank.root)) as writer:
        writer.execute(f"INSERT INTO {later} VALUES (1, 1, 'a'), (2, 2, 'b')")
        bank.execute(*publish)
        writer.execute(f"DELETE FROM {later} WHERE id = 1")
        writer.commit()
    if is_passed:
        assert list(transactions_of(bank, last_marker(bank)))
    assert bank.ensure(bank.with_tables(*tables)).changed
    logged = [row for _, _, rows in transactions_of(bank, last_marker(bank)) for row in rows if row.table == later]
    assert [(row.op, row.key) for row in logged] == ([] if is_passed else [("d", key_of((1,)))])
    run = run_of(bank, tables)
    snapshot = take_snapshot(run, tools_of(bank, run, Records()))
    staged = staged_as_the_log_says(bank, warehouse, snapshot, TABLES)
    assert staged[later] == [(2, 2, "b")]
    goes_on_to_the_source(bank, snapshot, staged)


BETWEEN = {
    "truncated": ("TRUNCATE {0}",),
    "truncated and filled again": ("TRUNCATE {0}", "INSERT INTO {0} VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')"),
    "rewritten": ("ALTER TABLE {0} ALTER COLUMN a TYPE bigint",),
    "made again": ("DROP TABLE {0}", "CREATE TABLE {0} (id bigint, a int, memo text)", "GRANT SELECT ON {0} TO PUBLIC"),
    "another by this name": ("ALTER TABLE {0} RENAME TO {0}_old", "ALTER TABLE {0}_other RENAME TO {0}"),
}


@pytest.mark.parametrize("what", BETWEEN)
def test_a_table_that_is_another_since_the_snapshot_was_opened_is_not_read(
    what: str, bank: PostgresCaptured, three: Table
) -> None:
    name, source = three.name, bank.source_plan
    bank.execute(f"CREATE TABLE {name}_other (LIKE {name} INCLUDING ALL)", f"GRANT SELECT ON {name}_other TO PUBLIC")
    with views_at_one_snapshot(source, 1, tables=()) as opened:
        bank.execute(*[statement.format(name) for statement in BETWEEN[what]])
        with pytest.raises(TransientError, match=f"{name} was truncated, rewritten or replaced") as caught:
            join_snapshot(as_reader(bank), opened.shared, tables=[*map(source.places.of, ("account", name))])
        assert caught.value.table == name
        with pytest.raises(TransientError, match=name):
            rows_seen(opened.views[0], name)
        join_snapshot(as_reader(bank), opened.shared, tables=[source.places.of("account")]).close()


def test_a_table_that_is_truncated_amid_the_opening_ends_the_opening(
    bank: PostgresCaptured, three: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = sessions.lock_tables

    def lock_too_late(session: Session, tables: Sequence[Any]) -> None:
        bank.execute(f"TRUNCATE {three.name}")
        lock(session, tables)

    with monkeypatch.context() as patch:
        patch.setattr(sessions, "lock_tables", lock_too_late)
        with (
            pytest.raises(TransientError, match=three.name),
            views_at_one_snapshot(bank.source_plan, 2, tables=[three]),
        ):
            pass
    with views_at_one_snapshot(bank.source_plan, 2, tables=[three]) as opened:
        assert [rows_seen(view, three.name) for view in opened.views] == [0, 0], "it is empty indeed"


def test_without_the_look_at_its_file_a_truncated_table_would_be_read_as_empty(
    bank: PostgresCaptured, three: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "lock_tables", lambda session, tables: None)
    with views_at_one_snapshot(bank.source_plan, 2, tables=[three]) as opened:
        bank.execute(f"TRUNCATE {three.name}")
        assert [rows_seen(view, three.name) for view in opened.views] == [0, 0], (
            "three rows were committed before it was opened"
        )


def test_a_table_is_not_altered_while_a_view_of_it_is_open(bank: PostgresCaptured, three: Table) -> None:
    with closing(bank.session()) as owner:
        owner.execute("SET lock_timeout = '200ms'")
        alter = f"ALTER TABLE {three.name} ADD COLUMN b int"
        with views_at_one_snapshot(bank.source_plan, 2, tables=[three]) as opened:
            for statement in (alter, f"TRUNCATE {three.name}"):
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    owner.execute(statement.encode())
            assert rows_seen(opened.views[1], three.name) == 3
        wait_until(lambda: is_done(owner, alter), timeout_s=30, what="the table to be let go")


def is_done(session: "psycopg.Connection[Any]", statement: str) -> bool:
    try:
        session.execute(statement.encode())
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def test_a_transaction_that_writes_and_stays_open_is_named_and_leaves_no_slot(
    bank: PostgresCaptured, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Again and again while it is waited for, and in the error at the end."""
    monkeypatch.setattr("seamline.sources.postgres.slots._QUIET_S", 0.1)
    monkeypatch.setattr("seamline.sources.postgres.slots._REPORTED_EVERY_S", 0.1)
    first_id = next(FIRST_IDS)
    with closing(in_postgres(bank.root)) as writer, closing(in_postgres(bank.root)) as reader:
        reader.execute("SELECT count(*) FROM account")
        writer.execute("SET application_name = 'night batch'")
        writer.execute("INSERT INTO account VALUES (%s, 1, 'open')", (first_id,))
        with (
            pytest.raises(TransientError, match=rf"pid {writer.info.backend_pid}\b") as caught,
            views_at_one_snapshot(bank.source_plan, 1, tables=(), patience_s=1.0),
        ):
            pass
        assert f"pid {reader.info.backend_pid}" not in str(caught.value), "who only reads is not waited for"
        who = f"pid {writer.info.backend_pid}, user {writer.info.user}, application night batch, "
        logged = [one.message for one in caplog.records if who in one.message]
        assert who in str(caught.value) and len(logged) > 1
        assert all("at most 1 s" in one for one in logged)
        wait_until(lambda: not temporary_slots(bank), timeout_s=10, what="the slot to be gone")
        writer.commit()
        with views_at_one_snapshot(bank.source_plan, 1, tables=(), patience_s=10.0) as opened:
            wait_until(lambda: not temporary_slots(bank), timeout_s=10, what="a snapshot without its slot")
            assert opened.views[0].rows("account", [str(first_id)])


def test_views_outlive_the_timeouts_that_an_administrator_gave_the_role(bank: PostgresCaptured, three: Table) -> None:
    login = as_reader(bank).login
    names = ("idle_in_transaction_session_timeout", "statement_timeout")
    bank.execute(*[f"ALTER ROLE {login} IN DATABASE snap_pg SET {name} = '200ms'" for name in names])
    try:
        with views_at_one_snapshot(bank.source_plan, 2, tables=[three]) as opened:
            wait_until(lambda: not reading(bank, idle_for_less_than_s=1.0), timeout_s=30, what="idle or ended views")
            assert [rows_seen(view, three.name) for view in opened.views] == [3, 3]
    finally:
        bank.execute(*[f"ALTER ROLE {login} IN DATABASE snap_pg RESET {name}" for name in names])


def test_rows_that_a_policy_hides_from_the_reader_are_refused_and_not_left_out(
    bank: PostgresCaptured, published: Table
) -> None:
    run = run_of(bank, (published.name,))
    bank.execute(f"ALTER TABLE {published.name} ENABLE ROW LEVEL SECURITY")
    with pytest.raises(Refused, match="row security shows .* only some rows"):
        take_snapshot(run, tools_of(bank, run, Records()))


def test_a_policy_that_comes_behind_the_preflight_is_met_by_the_read(
    bank: PostgresCaptured, warehouse: Connection, published: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = PostgresSource.preflight

    def check_and_hide(self: PostgresSource, tables: Sequence[Table]) -> Sequence[Problem]:
        found = check(self, tables)
        bank.execute(f"ALTER TABLE {published.name} ENABLE ROW LEVEL SECURITY")
        return found

    monkeypatch.setattr(PostgresSource, "preflight", check_and_hide)
    run = run_of(bank, (published.name,))
    with pytest.raises(Refused, match="row-level security"):
        take_snapshot(run, tools_of(bank, run, Records()))


def reading(bank: PostgresCaptured, *, idle_for_less_than_s: float) -> int:
    with closing(bank.session()) as session:
        row = session.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = %s AND datname = 'snap_pg'"
            " AND clock_timestamp() - state_change < make_interval(secs => %s)",
            (as_reader(bank).login, idle_for_less_than_s),
        ).fetchone()
    return int(row[0]) if row else -1


class Deaf:
    """A session that hears everything but the order to stand on a snapshot."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def execute(self, statement: Any, *arguments: Any) -> Any:
        if not bytes(statement if isinstance(statement, bytes) else b"").startswith(b"SET TRANSACTION SNAPSHOT"):
            return self._session.execute(statement, *arguments)
        return None

    def close(self) -> None:
        self._session.close()


def test_a_session_that_stands_elsewhere_is_found_out_before_it_reads(
    bank: PostgresCaptured, three: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin: Callable[[Connection], Session] = sessions.begin_reading
    with views_at_one_snapshot(bank.source_plan, 1, tables=[three]) as opened:
        bank.execute(f"INSERT INTO {three.name} VALUES (4, 4, 'beyond')")
        monkeypatch.setattr(sessions, "begin_reading", lambda connection: Deaf(begin(connection)))
        with pytest.raises(InvariantViolated, match="stands on snapshot"):
            join_snapshot(as_reader(bank), opened.shared, tables=[bank.source_plan.places.of(three.name)])


def test_a_table_that_a_task_read_elsewhere_is_found_out_by_what_its_session_says(
    bank: PostgresCaptured, warehouse: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stand_apart(connection: Connection, shared: SharedSnapshot) -> CopyOut:
        bank.execute("INSERT INTO audit VALUES (0, 'between two snapshots')")
        with closing(sessions.begin_reading(connection)) as other:
            seen = sessions.seen_by(other)
            row = other.execute("SELECT pg_export_snapshot()").fetchone()
            assert row is not None
            return CopyOut(connection, SharedSnapshot(str(row[0]), seen))

    monkeypatch.setattr(bulk, "CopyOut", stand_apart)
    with postgres(warehouse) as session:
        session.execute("DROP SCHEMA IF EXISTS bank_stage CASCADE")
    run = run_of(bank, TABLES)
    with pytest.raises(InvariantViolated, match="was read at"):
        take_snapshot(run, tools_of(bank, run, Records()))
    with postgres(warehouse) as session:
        left = session.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'bank_stage'").fetchone()
    assert left == (0,), "what was staged is dropped"


def test_every_type_of_column_is_staged_as_the_source_holds_it(bank: PostgresCaptured, warehouse: Connection) -> None:
    bank.execute(*[f"INSERT INTO kinds VALUES ({number}, {values})" for number, values in enumerate(rows())])
    run = run_of(bank, ("kinds",))
    names = staged_names(take_snapshot(run, tools_of(bank, run, Records())))
    staged_as = names["kinds"]
    with closing(bank.session()) as source, postgres(warehouse) as destination:
        for case in CASES:
            texts = f'SELECT id, {case.name}::text FROM {{}}."{{}}" ORDER BY id'
            here = source.execute(texts.format("public", "kinds").encode()).fetchall()
            assert destination.execute(texts.format("bank_stage", staged_as).encode()).fetchall() == here, case.type


def test_a_changed_float_is_caught_while_staged_and_once_more_before_it_is_published(
    bank: PostgresCaptured, warehouse: Connection
) -> None:
    full = "ALTER TABLE quote REPLICA IDENTITY FULL"
    bank.execute(*RATES, full, *bank.publishing("rate"), *bank.publishing("quote"))
    caught_before_publish(
        bank,
        warehouse,
        reported={"rate": r'rate BREAK 1 value value \{"id": "2"\}', "quote": "quote BREAK 1 missing, 1 unexpected"},
    )


ALTERED = {
    "wider": ("ALTER TABLE {0} ADD COLUMN b int", "b integer is new"),
    "there and back": (
        "ALTER TABLE {0} ALTER COLUMN a TYPE bigint; ALTER TABLE {0} ALTER COLUMN a TYPE int",
        "rewritten",
    ),
}


@pytest.mark.parametrize("how", ALTERED)
def test_a_table_that_was_altered_between_the_plan_and_its_snapshot_is_refused(
    how: str, bank: PostgresCaptured, warehouse: Connection, published: Table
) -> None:
    statement, said = ALTERED[how]
    run = run_of(bank, (published.name,))
    bank.execute(statement.format(published.name))
    with pytest.raises(SchemaConflict, match=f"since this run was planned: .*{said}"):
        take_snapshot(run, tools_of(bank, run, Records()))


def test_a_table_that_was_emptied_between_the_plan_and_its_snapshot_is_staged(
    bank: PostgresCaptured, warehouse: Connection, published: Table
) -> None:
    run = run_of(bank, (published.name,))
    bank.execute(f"TRUNCATE {published.name}")
    take_snapshot(run, tools_of(bank, run, records := Records()))
    assert [receipt.rows for receipt in records.receipts] == [0]


def test_rows_larger_than_a_chunk_of_the_copy_are_staged_whole(
    bank: PostgresCaptured, warehouse: Connection, published: Table
) -> None:
    table = published.name
    bank.execute(f"UPDATE {table} SET memo = (SELECT string_agg(n::text, memo) FROM generate_series(1, 200000) n)")
    run = run_of(bank, (table,))
    names = staged_names(take_snapshot(run, tools_of(bank, run, Records())))
    with postgres(warehouse) as destination:
        staged = destination.execute(f'SELECT * FROM bank_stage."{names[table]}"'.encode()).fetchall()
    assert sorted(staged) == sorted(bank.rows(table))
    assert min(len(row[2]) for row in staged) > 1_000_000


def waiting_for(bank: PostgresCaptured, pid: int) -> bool:
    """Whether the making of a slot waits for the transaction of this session."""
    with closing(bank.session()) as session:
        row = session.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE backend_type = 'walsender' AND %s = ANY(pg_blocking_pids(pid))",
            (pid,),
        ).fetchone()
    return row is not None and row[0] > 0


INSERT = "INSERT INTO account VALUES (%s, 1, 'in order')"


@contextmanager
def opening_amid(bank: PostgresCaptured, first_id: int) -> Iterator[tuple[Future[Sequence[ReadView]], Any]]:
    """Views that are just being opened, and the open transaction that their slot waits for.

    A slot waits twice: for who wrote as it began, then for who began meanwhile.
    """
    with (
        closing(in_postgres(bank.root)) as first,
        closing(in_postgres(bank.root)) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        first.execute(INSERT, (first_id,))
        opening: Future[Sequence[ReadView]] = pool.submit(sessions.open_views, bank.source_plan, 1)
        wait_until(lambda: waiting_for(bank, first.info.backend_pid), timeout_s=15, what="the slot to wait")
        second.execute(INSERT, (first_id + 1,))
        first.commit()
        wait_until(lambda: waiting_for(bank, second.info.backend_pid), timeout_s=15, what="the slot to wait again")
        yield opening, second


@contextmanager
def commits_that_hang(bank: PostgresCaptured) -> Iterator[None]:
    """Commits that ask for a standby stand in the log and do not end; there is none. Sessions opened now do not ask."""
    bank.execute("ALTER ROLE ALL SET synchronous_commit = 'local'")
    bank.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        bank.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        bank.execute("ALTER ROLE ALL RESET synchronous_commit")


def test_no_row_is_read_before_every_transaction_that_the_snapshot_sees_has_ended(
    bank: PostgresCaptured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commit is in the log, so the slot's snapshot sees it; to the server it is running."""
    monkeypatch.setattr(sessions, "_VIEWS_S", 5.0)
    first_id = next(FIRST_IDS)
    with closing(in_postgres(bank.root)) as third, ThreadPoolExecutor(1) as pool:
        with commits_that_hang(bank), opening_amid(bank, first_id) as (opening, second):
            third.execute("SET synchronous_commit = on")
            third.execute(INSERT, (first_id + 2,))
            row = third.execute("SELECT pg_current_xact_id()").fetchone()
            assert row
            hanging = pool.submit(third.commit)
            wait_until(lambda: is_waiting_for_a_standby(bank, third), timeout_s=15, what="a commit that hangs")
            second.commit()
            with pytest.raises(TransientError, match=f"transactions {row[0]} are committed in the source's log"):
                opening.result(timeout=30)
            assert not hanging.done()
        hanging.result(timeout=30)
    (view,) = sessions.open_views(bank.source_plan, 1)
    with closing(view):
        assert len(view.rows("account", [str(first_id + number) for number in range(3)])) == 3


def test_a_table_that_cannot_be_read_ends_no_view_that_others_are_read_in(bank: PostgresCaptured) -> None:
    first_id, reader = next(FIRST_IDS), role(bank.source_plan, bank.source_plan.reader).login
    bank.execute(f"INSERT INTO account VALUES ({first_id}, 1, 'x')", f'REVOKE SELECT ON audit FROM "{reader}"')
    try:
        (view,) = sessions.open_views(bank.source_plan, 1)
        with closing(view):
            with pytest.raises(SeamlineError, match="audit"):
                view.digests(Segment("audit"), run_key="k")
            assert len(view.rows("account", [str(first_id)])) == 1
    finally:
        bank.execute(f'GRANT SELECT ON audit TO "{reader}"')


def is_waiting_for_a_standby(bank: PostgresCaptured, session: "psycopg.Connection[Any]") -> bool:
    with closing(bank.session()) as other:
        row = other.execute(
            "SELECT wait_event FROM pg_stat_activity WHERE pid = %s", (session.info.backend_pid,)
        ).fetchone()
    return row == ("SyncRep",)


def test_a_change_is_placed_by_its_transaction_and_not_by_the_address_of_its_row(bank: PostgresCaptured) -> None:
    """Who writes while the slot waits the second time has rows before its consistent point, is not waited for, and
    commits behind it."""
    first_id = next(FIRST_IDS)
    with closing(in_postgres(bank.root)) as third:
        with opening_amid(bank, first_id) as (opening, second):
            third.execute(INSERT, (first_id + 2,))
            second.commit()
            (view,) = opening.result(timeout=30)
        third.commit()
    with closing(view):
        seen = view.rows("account", [str(first_id + number) for number in range(3)])
        position = view.position
    assert len(seen) == 2, "the snapshot holds what was waited for and not the third"
    by_transaction, by_address = found_by(bank, last_marker(bank), position, TABLES, is_covered, by_row_address)
    found = [key_of((first_id + number,)) for number in range(3)]
    assert [key in by_transaction.keyed["account"] for key in found] == [True, True, False]
    assert [key in by_address.keyed["account"] for key in found] == [True, True, True], "it would be in neither"
