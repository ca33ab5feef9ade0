"""Read views of MySQL stand at the position that they say, under writers: every row names its transaction."""

import itertools
import random
import threading
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any

import pymysql
import pytest

from seamline.adapters import connections
from seamline.adapters.connections import Connection
from seamline.databases.mysql import snapshot_sessions
from seamline.databases.mysql.barrier_readers import BarrierReaders
from seamline.databases.mysql.client import query
from seamline.databases.mysql.mysql_client import MYSQL
from seamline.databases.mysql.snapshot_barrier import BarrierLocks, Coordinator
from seamline.databases.mysql.snapshot_sessions import BEGIN_SNAPSHOT, SnapshotLock, begin
from seamline.domain.cutover import is_covered
from seamline.domain.digest import Segment
from seamline.domain.errors import Refused, TransientError
from seamline.plan.model import SourcePlan
from seamline.sources.mysql import sessions
from seamline.sources.mysql.gtid_set import GtidSet
from seamline.sources.mysql.position import MySqlPosition
from seamline.sources.mysql.read import MySqlReadView
from seamline.sources.mysql.sessions import (
    READING,
    SnapshotsBetweenCommits,
    SnapshotsUnderLock,
    open_session,
    open_views,
    position_now,
)
from tests.mysql_server import mysql, mysql_database
from tests.waiting import wait_until

DATABASE, READER = "snap_exact", "mysql_exact_reader"
ROUNDS, VIEWS, WRITERS = 3, 4, 6
TABLES = ("one", "two")
GRANTS = {
    SnapshotLock.BRIEF: "RELOAD, REPLICATION CLIENT, PROCESS",
    # Neither lock nor log: what reads `log_status`.
    SnapshotLock.NONE: "BACKUP_ADMIN",
}


def source_of(lock: SnapshotLock) -> SourcePlan:
    return SourcePlan(
        name="exact",
        kind="mysql",
        database=DATABASE,
        reader=READER,
        capture=READER,
        marker=READER,
        log_topic="seamline.exact.log",
        connector="seamline-exact",
        snapshot_lock=lock.value,
    )


@pytest.fixture(scope="module")
def database(mysql_root: Connection) -> Iterator[Connection]:
    with mysql_database(mysql_root, DATABASE) as connection:
        with closing(mysql(connection)) as session:
            for table in TABLES:
                query(session, f"CREATE TABLE {table} (id BIGINT AUTO_INCREMENT PRIMARY KEY, gtid VARCHAR(99))")
        yield connection


@pytest.fixture
def reader(
    database: Connection, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Connection]:
    """A login with SELECT on the database and the right to what its way of reading needs, no more."""
    lock = request.param
    with closing(mysql(database)) as session:
        query(session, "DROP USER IF EXISTS exact_reader")
        query(session, "CREATE USER exact_reader IDENTIFIED BY 'pw'")
        query(session, f"GRANT SELECT ON {DATABASE}.* TO exact_reader")
        query(session, f"GRANT {GRANTS[lock]} ON *.* TO exact_reader")
        if lock is SnapshotLock.NONE:
            query(session, "GRANT SELECT ON performance_schema.log_status TO exact_reader")
        monkeypatch.setenv(
            f"SEAMLINE_CONNECTION_{READER.upper()}",
            f"mysql://exact_reader:pw@{database.host}:{database.port}/{DATABASE}",
        )
        yield database
        query(session, "DROP USER exact_reader")


class Writers:
    """Each transaction inserts its own GTID into one or both tables. Some are rolled back, which leaves gaps; some have
    a tag. An error of a writer is raised at the end."""

    def __init__(self, root: Connection) -> None:
        self._root = root
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]
        self._errors: list[BaseException] = []
        self.written: list[str] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def await_more(self) -> None:
        enough = len(self.written) + 40
        wait_until(lambda: self._errors or len(self.written) > enough, timeout_s=30, what="more transactions")

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _write(self, number: int) -> None:
        chance = random.Random(number)
        server = f"{uuid.uuid4()}:night" if number % 3 == 2 else str(uuid.uuid4())
        try:
            with closing(mysql(self._root)) as session:
                for count in itertools.count(1):
                    if self._stop.wait(chance.random() * 0.004):
                        return
                    self._transact(session, f"{server}:{count}", chance)
        except pymysql.err.MySQLError as exc:
            self._errors.append(exc)

    def _transact(
        self, session: "pymysql.Connection[pymysql.cursors.Cursor]", gtid: str, chance: random.Random
    ) -> None:
        query(session, "SET gtid_next = %s", (gtid,))
        session.begin()
        for table in TABLES if chance.random() < 0.7 else TABLES[:1]:
            query(session, f"INSERT INTO {table} (gtid) VALUES (%s)", (gtid,))
        if chance.random() < 0.1:
            session.rollback()
        else:
            # Before the commit: what a view may see is among these.
            self.written.append(gtid)
            session.commit()
        query(session, "SET gtid_next = 'AUTOMATIC'")


@contextmanager
def writing(root: Connection) -> Iterator[Writers]:
    writers = Writers(root)
    writers.start()
    try:
        writers.await_more()
        yield writers
    finally:
        writers.stop()


def wrong(seen: set[str], position: MySqlPosition, candidates: Sequence[str]) -> set[str]:
    """Transactions of which the rows say one thing and the position another."""
    return {gtid for gtid in candidates if (gtid in seen) != position.sees(MySqlPosition(GtidSet.parse(gtid)))}


def seen_by(view: MySqlReadView) -> set[str]:
    return {str(row["gtid"]) for table in TABLES for row in view.rows(table, keys_of(view, table)).values()}


def keys_of(view: MySqlReadView, table: str) -> list[str]:
    return [row.key for row in view.row_hashes(Segment(table), run_key="k")]


def transactions_of(root: Connection, file: str) -> list[MySqlPosition]:
    """Those of a binlog file, each where it begins."""
    with closing(mysql(root)) as session:
        events = query(session, f"SHOW BINLOG EVENTS IN '{file}'")
    begun = [(str(event[5]), int(event[1])) for event in events if str(event[2]).startswith("Gtid")]
    return [MySqlPosition(GtidSet.parse(text.split("'")[1]), file, offset) for text, offset in begun]


@pytest.mark.parametrize("reader", SnapshotLock, indirect=True, ids=str)
def test_views_stand_together_and_see_exactly_the_transactions_of_their_position(
    reader: Connection, request: pytest.FixtureRequest
) -> None:
    lock = request.node.callspec.params["reader"]
    for _ in range(ROUNDS):
        with writing(reader) as writers:
            views = open_views(source_of(lock), VIEWS)
            writers.await_more()
        try:
            (position,) = {view.position for view in views}
            assert [wrong(seen_by(view), position, writers.written) for view in views] == [set()] * VIEWS
            assert not position.sees(MySqlPosition(GtidSet.parse(writers.written[-1])))
            # The addresses say the same, or this raises.
            logged = transactions_of(reader, position.file)
            covered = [is_covered(one, position) for one in logged]
            assert covered == [position.covers(one) for one in logged]
            assert set(covered) == {True, False}
            (digests,) = {str([view.digests(Segment(table), run_key="k") for table in TABLES]) for view in views}
            assert "rows=0" not in digests
        finally:
            for view in views:
                view.close()
        with closing(mysql(reader)) as session:
            for table in TABLES:
                query(session, f"TRUNCATE {table}")


def test_a_position_that_is_asked_before_the_view_is_caught(database: Connection) -> None:
    """What the test above would say of a source that asks once."""
    found: set[str] = set()
    for _ in range(50):
        with writing(database) as writers, closing(open_session(database)) as session:
            position = position_now(session)
            begin([session])
            rows = [gtid for table in TABLES for (gtid,) in query(session, f"SELECT gtid FROM {table}")]
        found |= wrong(set(rows), position, writers.written)
        if found:
            return
    pytest.fail("fifty positions that were asked once were all exact: the writers are too slow to prove anything")


@pytest.mark.parametrize("reader", [SnapshotLock.NONE], indirect=True, ids=str)
def test_a_source_that_commits_too_often_and_allows_no_lock_is_refused_with_the_cure(
    reader: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "ATTEMPTS_MAX", 0)
    with pytest.raises(Refused, match="did not come to stand at one binlog position") as raised:
        open_views(source_of(SnapshotLock.NONE), 2)
    assert "lock: brief" in str(raised.value.hint)


@pytest.mark.parametrize("reader", [SnapshotLock.BRIEF], indirect=True, ids=str)
@pytest.mark.parametrize("seen", [True, False], ids=["seen", "not seen"])
def test_a_statement_that_runs_for_long_ends_the_wait_for_the_lock_and_holds_up_nobody(
    reader: Connection, monkeypatch: pytest.MonkeyPatch, *, seen: bool
) -> None:
    """Where it was not seen in advance, the lock holds up others for its second, and what they ask of its table."""
    table = "one"
    if not seen:
        monkeypatch.setattr(sessions, "_RUN_FOR_LONG", "SELECT 1 FROM DUAL WHERE FALSE")
        table = "two"
    with closing(mysql(reader)) as session, closing(mysql(reader)) as writer:
        query(session, "INSERT INTO one (gtid) VALUES ('long')")
        busy = threading.Thread(target=_sleep_until_killed, args=(session,))
        busy.start()
        wait_until(lambda: _is_asleep(writer), timeout_s=10, what="a long statement")
        monkeypatch.setattr(sessions, "_LOCK_ATTEMPTS", 1)
        with closing(MYSQL.open_session(connections.resolve(READER))) as locking:
            with pytest.raises(TransientError, match="gave no read lock in 1 attempts: a statement"):
                sessions._take_lock(locking, reader)
            query(writer, f"INSERT INTO {table} (gtid) VALUES ('next')")
            assert _is_asleep(writer)
        query(writer, f"KILL QUERY {session.thread_id()}")
        busy.join()


def _sleep_until_killed(session: "pymysql.Connection[pymysql.cursors.Cursor]") -> None:
    with suppress(pymysql.err.OperationalError):
        query(session, "SELECT SLEEP(60) FROM one LIMIT 1")


def _is_asleep(session: "pymysql.Connection[pymysql.cursors.Cursor]") -> bool:
    return bool(query(session, "SELECT 1 FROM performance_schema.processlist WHERE state = 'User sleep' AND time >= 1"))


@pytest.mark.parametrize("reader", [SnapshotLock.BRIEF], indirect=True, ids=str)
def test_a_lock_that_the_server_lets_go_of_while_sessions_open_is_taken_again(
    reader: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends the session that holds it, once that is silent for a second."""
    slow: list[bool] = [True]

    def begin_slowly(opened: Sequence[Any]) -> None:
        begin(opened)
        if slow and slow.pop():
            # Waits until the server lets it through: nobody else does.
            query(writer, "INSERT INTO one (gtid) VALUES ('between')")

    monkeypatch.setattr(snapshot_sessions, "begin", begin_slowly)
    with closing(mysql(reader)) as writer:
        (view,) = open_views(source_of(SnapshotLock.BRIEF), 1)
        with closing(view):
            assert "between" in seen_by(view)
            # Nothing was committed since.
            assert view.position == position_now(writer)
    assert "did not hold its commits for as long as sessions opened" in caplog.text


def test_a_session_proves_no_position_where_a_commit_came_near_its_snapshot(database: Connection) -> None:
    near = SnapshotsBetweenCommits()
    opening = (*near.before, BEGIN_SNAPSHOT, *near.after)
    with closing(mysql(database)) as writer:
        for number in range(len(opening)):
            with closing(open_session(database)) as session:
                for statement in opening[:number]:
                    query(session, statement)
                query(writer, "INSERT INTO one (gtid) VALUES ('near')")
                for statement in opening[number:]:
                    query(session, statement)
                ((proof,),) = query(session, f"SELECT {near.proof}")
                assert proof == ("" if number else near.proof_of(position_now(writer)))


@pytest.mark.parametrize("reader", [SnapshotLock.BRIEF], indirect=True, ids=str)
def test_a_participant_that_opens_when_commits_go_on_is_let_open_again(reader: Connection) -> None:
    """It reads the same GTIDs, but proves nothing: a commit is visible before its GTID is."""

    class Late(BarrierReaders):
        def _open(self, attempt: int) -> None:
            self._session = open_session(reader)
            for statement in self._locks.opening(self._snapshots, attempt=attempt, participant=0):
                if statement == BEGIN_SNAPSHOT and attempt == 0:
                    # Waits until the server lets it through, and leaves no GTID.
                    query(writer, "INSERT INTO one (gtid) VALUES ('rolled back')")
                    writer.rollback()
                query(self._session, statement)

    locks = BarrierLocks("late")
    about: Any = {"server": READING.server, "locks": locks}
    with closing(mysql(reader)) as writer, closing(open_session(reader)) as session, ThreadPoolExecutor(1) as pool:
        writer.autocommit(False)
        coordinator = Coordinator(
            reader, snapshots=SnapshotsUnderLock(reader), participants=1, sessions=[session], **about
        )
        late = Late(reader, [], snapshots=SnapshotsUnderLock(reader), participant=0, **about)
        with closing(late), coordinator:
            met = pool.submit(late.open_at_barrier)
            position = coordinator.open_at_barrier(is_alive=lambda: not met.done())
            met.result()
        assert coordinator.attempts == 2
        assert position == position_now(session)
