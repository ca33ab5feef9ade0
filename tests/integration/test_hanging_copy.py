"""A copy whose reading session hangs ends by the name of its table, and one whose writer is slow does not."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection as Pipe

import pytest

from seamline.adapters.children import Message, running, set_table
from seamline.adapters.connections import Connection
from seamline.bulk.copy import why_a_reader_hangs
from seamline.databases.mysql.client import MARIADB, query
from seamline.databases.mysql.one_session import SessionReaders
from seamline.databases.mysql.snapshot_barrier import BarrierLocks, Coordinator
from seamline.databases.mysql.snapshot_sessions import BEGIN_SNAPSHOT, SnapshotLock, close_all
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import TransientError
from seamline.kinds.bulk import BulkRead
from seamline.plan.model import SourcePlan
from seamline.sources.mariadb.bulk import BulkReaders
from seamline.sources.mariadb.sessions import MariaDbSnapshots, open_session
from seamline.sources.postgres import client as source_client
from seamline.sources.postgres.copy_out import CopyOut
from seamline.sources.postgres.sessions import SharedSnapshot, seen_by
from tests.fault.soak.link import Link, link_to
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.hanging import within
from tests.integration.known import known_by_id

SILENCE_S = 2.0
ENDED_S = 60.0
NAME = "hanging_copy"
SOURCE = SourcePlan("s", "mariadb", NAME, NAME, NAME, NAME, "log", "connector")
# More than all buffers on its way hold.
LARGE = Table(
    "large",
    (
        Column("id", Kind.INTEGER, "int(11)", nullable=False, length=32),
        Column("v", Kind.STRING, "varchar(400)", length=400),
    ),
    ("id",),
)
ROWS = 200_000
READ = BulkRead(LARGE, Segment("large"), 0)
NOT_ARRIVED = "none of it arrives"


@pytest.fixture(scope="module")
def bank(stack: object) -> Iterator[Connection]:
    with mariadb_database(NAME) as connection, known_by_id(connection, NAME, "mysql"):
        with closing(mariadb(connection)) as session, session.cursor() as cursor:
            cursor.execute("CREATE TABLE large (id INT PRIMARY KEY, v VARCHAR(400))")
            cursor.execute(f"INSERT INTO large SELECT seq, REPEAT('x', 400) FROM seq_1_to_{ROWS}")
        yield connection


@pytest.fixture(scope="module")
def warehouse(stack: object) -> Iterator[Connection]:
    with postgres_database(NAME) as connection:
        yield connection


def through(link: Link, connection: Connection) -> Connection:
    return replace(connection, host="127.0.0.1", port=link.port)


def reads_all(connection: Connection, locks: BarrierLocks, pipe: Pipe) -> None:
    """A child that says when it has the first rows, and goes on when it gets a word."""
    readers = BulkReaders(connection, [READ], locks=locks, participant=0)
    readers.open_at_barrier()
    set_table(LARGE.name)
    batches = readers.batches(0, proven=lambda _: None)
    rows = next(batches).num_rows
    pipe.send(Message(0, value=rows))
    pipe.recv()
    rows += sum(batch.num_rows for batch in batches)
    pipe.send(Message(0, value=rows))


def copied_by_a_child(bank: Connection, link: Link, *, is_forgotten: bool) -> list[Message]:
    locks = BarrierLocks(f"{NAME} {is_forgotten}")
    sessions = [open_session(bank)]
    snapshots = MariaDbSnapshots(bank, SnapshotLock.BRIEF)
    coordinator = Coordinator(bank, server=MARIADB, snapshots=snapshots, locks=locks, participants=1, sessions=sessions)
    received = []
    with (
        coordinator,
        running(
            [partial(reads_all, through(link, bank), locks)],
            look=partial(why_a_reader_hangs, SOURCE),
            silence_s=SILENCE_S,
        ) as children,
    ):
        coordinator.open_at_barrier(is_alive=lambda: True)
        for message in children.messages():
            received.append(message)
            if len(received) == 1:
                if is_forgotten:
                    link.forget()
                children.send(0, "go on")
    close_all(sessions)
    return received


def test_a_child_of_a_mariadb_copy_whose_rows_stop_coming_is_ended_by_the_name_of_its_table(bank: Connection) -> None:
    with link_to(bank.host, bank.port) as link:
        _, last = within(ENDED_S, lambda: copied_by_a_child(bank, link, is_forgotten=True))
    assert isinstance(last.error, TransientError)
    assert last.error.table == "large"
    assert NOT_ARRIVED in str(last.error)


def test_the_same_copy_whose_rows_come_is_whole(bank: Connection) -> None:
    with link_to(bank.host, bank.port) as link:
        received = within(ENDED_S, lambda: copied_by_a_child(bank, link, is_forgotten=False))
    assert [message.value for message in received][1] == ROWS


def test_an_unbuffered_read_of_mariadb_whose_rows_stop_coming_is_ended_by_name(bank: Connection) -> None:
    with (
        link_to(bank.host, bank.port) as link,
        closing(open_session(through(link, bank), silence_s=SILENCE_S)) as session,
    ):
        query(session, BEGIN_SNAPSHOT)
        rows = SessionReaders(session, bank, [READ], server=MARIADB, proof="").rows(0, proven=lambda _: None)
        next(rows.batches)
        link.forget()
        with pytest.raises(TransientError, match=NOT_ARRIVED):
            within(ENDED_S, lambda: list(rows.batches))


@contextmanager
def copying(warehouse: Connection, link: Link) -> Iterator[Iterator[bytes]]:
    """60 MB of rows, out of a session on a shared snapshot."""
    with closing(source_client.open_session(warehouse)) as holder:
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        ((name,),) = holder.execute("SELECT pg_export_snapshot()").fetchall()
        with closing(
            CopyOut(through(link, warehouse), SharedSnapshot(name, seen_by(holder)), silence_s=SILENCE_S)
        ) as out:
            yield out.blocks(
                "COPY (SELECT n, repeat('x', 300) FROM generate_series(1, 200000) n) TO STDOUT (FORMAT binary)"
            )


def test_a_copy_out_of_postgresql_whose_rows_stop_coming_is_ended_by_name(warehouse: Connection) -> None:
    with link_to(warehouse.host, warehouse.port) as link, copying(warehouse, link) as blocks:
        next(blocks)
        link.forget()
        with pytest.raises(TransientError, match=NOT_ARRIVED):
            within(ENDED_S, lambda: list(blocks))


def test_a_copy_out_of_postgresql_whose_writer_is_slow_is_not_ended(warehouse: Connection) -> None:
    with link_to(warehouse.host, warehouse.port) as link, copying(warehouse, link) as blocks:
        size = len(next(blocks))
        with postgres(warehouse) as elsewhere:
            elsewhere.execute("SELECT pg_sleep(8)")
        assert within(ENDED_S, lambda: size + sum(map(len, blocks))) > 60_000_000
