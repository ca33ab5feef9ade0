"""A whole sync read by Spark tasks at one position, while writers move money."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
from pyspark.sql import SparkSession

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.bulk.read import RunReader, SourceAtOnePosition
from seamline.databases.mysql.client import query
from seamline.demo.bank import SMALL, connect, fill
from seamline.demo.writers import PAUSE_S_MIN, Writer, write_until
from seamline.domain.digest import Segment
from seamline.domain.errors import Refused, SchemaConflict, TransientError
from seamline.domain.runs import RunKind, RunState
from seamline.domain.verdict import BreakType, Verdict
from seamline.plan.model import DestinationPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.ports import Load, TableRead
from seamline.sources.mariadb.catalogue import read_catalogue
from seamline.sync.comparison import Work, compare_tables
from seamline_spark.session import Application, open_session
from seamline_spark.snapshot.bulk_read import SparkCopying, run_reader
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.waiting import wait_until

NAME = "snap_read"
TABLES = ("account", "ledger_entry", "payment_order", "access_audit", "empty_one")
DESTINATION = DestinationPlan("warehouse", "postgres", f"{NAME}_warehouse", "settlement")
WRITERS = 4
ROUNDS = 3


@pytest.fixture(scope="module")
def bank() -> Iterator[Connection]:
    with mariadb_database(NAME) as connection, _known(connection, f"{NAME}_source", "mysql"):
        with closing(connect(connection)) as session:
            fill(session, SMALL, now=datetime.now(UTC), timezone="UTC")
            with session.cursor() as cursor:
                cursor.execute("CREATE TABLE empty_one (id INT PRIMARY KEY, at TIMESTAMP(6) NULL)")
        yield connection


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Connection]:
    with postgres_database(NAME) as connection, _known(connection, DESTINATION.connection, "postgres"):
        yield connection


@contextmanager
def _known(connection: Connection, connection_id: str, kind: str) -> Iterator[None]:
    """A test's database by a connection id, as driver and tasks resolve any other."""
    where = f"{connection.login}:{quote(connection.password)}@{connection.host}:{connection.port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"SEAMLINE_CONNECTION_{connection_id.upper()}", f"{kind}://{where}/{connection.database}")
        yield


@pytest.fixture(scope="module")
def spark(bank: Connection, warehouse: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder: Path = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        said = "--master local[2,3] --driver-memory 512m"
        # Spark looks once more for slots that are missing.
        said += " --conf spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures=2"
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{said} --conf spark.sql.warehouse.dir={folder} pyspark-shell")
        session = open_session("snapshot test")
    for name, value in settings.process_environment().items():
        if name.startswith(f"SEAMLINE_CONNECTION_{NAME.upper()}"):
            session.sparkContext.environment[name] = value
    yield session
    session.stop()


@pytest.fixture
def writers(bank: Connection) -> Iterator[list[Writer]]:
    stop = threading.Event()
    made = [Writer(number, seed=11) for number in range(WRITERS)]
    with _known(bank, "bank_app", "mysql"):
        threads = [
            threading.Thread(target=write_until, kwargs={"pause_s": PAUSE_S_MIN}, args=(stop, writer))
            for writer in made
        ]
        for thread in threads:
            thread.start()
        yield made
        stop.set()
        for thread in threads:
            thread.join()


def run_of(bank: Connection, *, lock: str, names: tuple[str, ...] = TABLES) -> Run:
    source_id = f"{NAME}_source"
    source = SourcePlan(
        NAME, "mariadb", bank.database, source_id, source_id, source_id, "log", "connector", snapshot_lock=lock
    )
    with closing(mariadb(bank)) as session:
        definitions = read_catalogue(session, bank.database, names)
    tables = tuple(TablePlan(definition.name, table=definition) for definition in definitions)
    plan = SyncPlan(NAME, source, (DESTINATION,), tables)
    return Run(f"{NAME}/onboard/-/1", NAME, RunKind.ONBOARD, None, plan, RunState.RUNNING)


def reads_of(run: Run) -> list[TableRead]:
    return [TableRead(table.definition, Segment(table.name)) for table in run.plan.tables]


def verdicts_of(
    reader: RunReader, read: SourceAtOnePosition, loads: list[Load]
) -> dict[str, tuple[Verdict, list[tuple[BreakType, str]]]]:
    work = [Work(load.table, Segment(load.table.name), Segment(load.table.name)) for load in loads]
    views = read.views_for(DESTINATION)
    with reader.open_staged(DESTINATION, loads, len(views)) as staged:
        found = compare_tables(work, source=views, destination=staged)
    return {one.table: (one.verdict, [(b.type, b.key) for b in one.breaks]) for one in found}


@pytest.mark.parametrize("lock", ["brief", "none"])
def test_all_tables_stand_at_one_position_while_money_moves(
    lock: str, spark: SparkSession, bank: Connection, warehouse: Connection, writers: list[Writer]
) -> None:
    wait_until(lambda: all(writer.counts["transfer"] for writer in writers), timeout_s=30, what="every writer to write")
    run = run_of(bank, lock=lock)
    seen = set()
    for _ in range(ROUNDS):
        reader = run_reader(Application.of(spark), run)
        with reader.open_read(reads_of(run)) as read:
            loads = list(read.stage(DESTINATION))
            assert {load.table.name for load in loads} == set(TABLES)
            assert {verdict for verdict, _ in verdicts_of(reader, read, loads).values()} == {Verdict.MATCH}
            seen.add(read.position.offset)
            assert read.digest(Segment("account"), DESTINATION).rows == SMALL.accounts
        _check_books(warehouse, {load.table.name: load.staged_as for load in loads})
        assert {load.table.name: load.rows for load in loads}["empty_one"] == 0
    assert len(seen) == ROUNDS


def _check_books(warehouse: Connection, staged: dict[str, str]) -> None:
    """A balance is what its entries add up to: true at every moment of the source, over two tables."""
    account, entry = (f'settlement_stage."{staged[name]}"' for name in ("account", "ledger_entry"))
    with postgres(warehouse) as session:
        wrong = session.execute(
            f"SELECT a.id FROM {account} a LEFT JOIN (SELECT account_id, sum(amount) AS moved FROM {entry}"
            " GROUP BY account_id) e ON e.account_id = a.id WHERE a.balance <> 1000000 + coalesce(e.moved, 0)".encode()
        ).fetchall()
        assert wrong == []
        torn = session.execute(
            f"SELECT transfer_id FROM {entry} GROUP BY transfer_id HAVING sum(amount) <> 0".encode()
        ).fetchall()
        assert torn == []
        keys = session.execute(
            "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'settlement_stage'"
        ).fetchone()
        assert keys == (len(TABLES),)


def test_a_row_of_nulls_alone_is_no_empty_table(spark: SparkSession, bank: Connection, warehouse: Connection) -> None:
    """The rows come joined to the proof of their position: a table without rows gives one of NULLs too."""
    with closing(mariadb(bank)) as session, session.cursor() as cursor:
        cursor.execute("CREATE TABLE no_row (a INT NULL, b VARCHAR(9) NULL)")
        cursor.execute("CREATE TABLE one_row LIKE no_row")
        cursor.execute("INSERT INTO one_row VALUES (NULL, NULL)")
    run = run_of(bank, lock="brief", names=("no_row", "one_row"))
    reader = run_reader(Application.of(spark), run)
    with reader.open_read(reads_of(run)) as read:
        loads = list(read.stage(DESTINATION))
        assert {load.table.name: load.rows for load in loads} == {"no_row": 0, "one_row": 1}
        assert {verdict for verdict, _ in verdicts_of(reader, read, loads).values()} == {Verdict.MATCH}


def test_a_changed_staged_row_is_named_while_the_views_are_open(
    spark: SparkSession, bank: Connection, warehouse: Connection, writers: list[Writer]
) -> None:
    run = run_of(bank, lock="brief")
    reader = run_reader(Application.of(spark), run)
    with reader.open_read(reads_of(run)) as read:
        loads = list(read.stage(DESTINATION))
        staged = {load.table.name: f'settlement_stage."{load.staged_as}"' for load in loads}
        with postgres(warehouse) as session:
            session.execute(f"UPDATE {staged['account']} SET balance = balance + 0.0001 WHERE id = 7".encode())
            session.execute(f"DELETE FROM {staged['ledger_entry']} WHERE id = 11".encode())
            session.execute(f"INSERT INTO {staged['access_audit']} VALUES ('me', 'saw', '', '2026-01-01')".encode())
        found = verdicts_of(reader, read, loads)
    assert found["account"] == (Verdict.BREAK, [(BreakType.VALUE, '{"id": "7"}')])
    assert found["ledger_entry"] == (Verdict.BREAK, [(BreakType.MISSING, '{"id": "11"}')])
    assert found["access_audit"][0] is Verdict.BREAK
    assert found["payment_order"][0] is Verdict.MATCH


def test_a_killed_reader_ends_the_attempt_and_the_next_one_doubles_nothing(
    spark: SparkSession, bank: Connection, warehouse: Connection
) -> None:
    run = run_of(bank, lock="brief")
    reader = run_reader(Application.of(spark), run)
    with pytest.raises(TransientError), reader.open_read(reads_of(run)) as read:
        worker = wait_until(_a_python_worker, timeout_s=30, what="a worker of Spark")
        os.kill(worker.pid, signal.SIGKILL)
        read.stage(DESTINATION)
        pytest.fail("a lost worker went unnoticed")
    with reader.open_read(reads_of(run)) as read:
        loads = list(read.stage(DESTINATION))
        assert all(verdict is Verdict.MATCH for verdict, _ in verdicts_of(reader, read, loads).values())
    with postgres(warehouse) as session:
        left = session.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'settlement_stage'").fetchone()
        assert left == (len(TABLES),)
    with closing(mariadb(bank)) as session:
        wait_until(lambda: _open_readers(session) == 0, timeout_s=30, what="the killed reader's sessions to end")


def test_a_reader_that_stands_still_ends_the_attempt_by_the_name_of_its_tables(
    spark: SparkSession, bank: Connection, warehouse: Connection
) -> None:
    run = run_of(bank, lock="brief")
    reader = run_reader(Application.of(spark), run, still_s=4.0)
    with (
        pytest.raises(TransientError, match="the copy has not moved for 4 s, at table .*"),
        reader.open_read(reads_of(run)) as read,
    ):
        worker = wait_until(_a_python_worker, timeout_s=30, what="a worker of Spark")
        worker.suspend()
        read.stage(DESTINATION)
        pytest.fail("a worker that stands still went unnoticed")
    wait_until(lambda: not worker.is_running(), timeout_s=30, what="the worker to be killed")


def test_a_small_read_stands_still_by_the_same_words_without_spark(bank: Connection, warehouse: Connection) -> None:
    """Its threads would wait for their readers for ever."""
    run = run_of(bank, lock="brief")
    application = Application("snapshot test")
    reader = run_reader(application, run, still_s=4.0)
    with (
        pytest.raises(TransientError, match="the copy has not moved for 4 s, at table .*"),
        reader.open_read(reads_of(run)) as read,
    ):
        child = wait_until(_a_reader, timeout_s=30, what="a reader of this process")
        child.suspend()
        read.stage(DESTINATION)
        pytest.fail("a reader that stands still went unnoticed")
    assert not application.is_open
    wait_until(lambda: not child.is_running(), timeout_s=30, what="the reader to be killed")


def _a_reader() -> psutil.Process | None:
    children = multiprocessing.active_children()
    return psutil.Process(children[0].pid) if children else None


def _a_python_worker() -> psutil.Process | None:
    """The workers are children of Spark's daemon, their readers children of theirs."""
    daemons = [p for p in psutil.Process().children(recursive=True) if _is_daemon(p)]
    return next((p for p in daemons if _is_daemon(p.parent()) and p.children()), None)


def _is_daemon(process: psutil.Process | None) -> bool:
    try:
        return process is not None and "pyspark.daemon" in " ".join(process.cmdline())
    except psutil.Error:
        return False  # it has just ended


def _open_readers(session: object) -> int:
    others = "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"
    ((count,),) = query(session, others)  # type: ignore[arg-type]
    return int(count)


@pytest.mark.parametrize(
    ("ddl", "value", "message"),
    [("DATE", "'0000-00-00'", "an invalid date"), ("VARCHAR(9)", "'a\0b'", "NUL")],
    ids=["zero date", "NUL character"],
)
def test_a_value_that_the_destination_cannot_hold_is_refused_by_name(
    ddl: str, value: str, message: str, spark: SparkSession, bank: Connection, warehouse: Connection
) -> None:
    with closing(mariadb(bank)) as session, session.cursor() as cursor:
        cursor.execute(f"CREATE OR REPLACE TABLE odd (id INT PRIMARY KEY, v {ddl})")
        cursor.execute(f"INSERT INTO odd VALUES (1, NULL), (2, {value})")
    run = run_of(bank, lock="brief", names=("account", "odd"))
    with (
        pytest.raises(SchemaConflict, match="odd") as caught,
        run_reader(Application.of(spark), run).open_read(reads_of(run)) as read,
    ):
        read.stage(DESTINATION)
    assert message in str(caught.value)
    with postgres(warehouse) as session:
        left = session.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'settlement_stage'").fetchall()
        assert left == []


def test_a_source_without_enough_connections_is_refused_before_anything_waits(
    spark: SparkSession, bank: Connection, warehouse: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamline.databases.mysql.parallel_snapshot._SPARE", 100_000)
    run = run_of(bank, lock="none")
    with (
        pytest.raises(Refused, match="more connections"),
        run_reader(Application.of(spark), run).open_read(reads_of(run)),
    ):
        pytest.fail("it opened")


def test_a_read_that_needs_more_slots_than_spark_has_ends_with_both_numbers(
    spark: SparkSession, bank: Connection, warehouse: Connection
) -> None:
    run = run_of(bank, lock="none")
    reader = RunReader(
        run, tasks=lambda _: 3, copying_of=lambda groups, name: SparkCopying(spark.sparkContext, groups, name=name)
    )
    with (
        pytest.raises(TransientError, match="needs 3 slots of Spark at the same time, and it has 2") as caught,
        reader.open_read(reads_of(run)),
    ):
        pytest.fail("it opened")
    assert "spark.cores.max" in caught.value.hint
