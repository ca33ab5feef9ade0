"""A session of ours that connectorx uses as if it were a server.

connectorx runs in a process of its own: a child that is forked from one in which it has run dies of what it left.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from typing import Any

import connectorx
import pyarrow as pa
import pymysql
import pytest

from seamline.adapters.connections import Connection
from seamline.databases.mysql.client import query
from seamline.databases.mysql.snapshot_sessions import BEGIN_SNAPSHOT
from seamline.databases.mysql.watched import WatchedSession
from seamline.sources.mariadb.relay import SessionRelay
from seamline.sources.mariadb.sessions import open_session
from tests.integration.databases import mariadb, mariadb_database

NAME = "session_relay"
NUMBER = "SELECT CONNECTION_ID() AS n"


@pytest.fixture(scope="module")
def bank(stack: object) -> Iterator[Connection]:
    with mariadb_database(NAME) as connection:
        yield connection


@pytest.fixture
def lent(bank: Connection) -> Iterator[tuple[WatchedSession, SessionRelay]]:
    with closing(open_session(bank)) as session:
        query(session, "CREATE OR REPLACE TABLE entry (id INT PRIMARY KEY)")
        query(session, BEGIN_SNAPSHOT)
        with closing(SessionRelay(session)) as relay:
            yield session, relay


def number_of(session: WatchedSession) -> int:
    return int(session.thread_id())  # type: ignore[no-untyped-call]


def asked(relay: SessionRelay, statement: str) -> list[object]:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(answer_of, relay.url, statement).result()


def answer_of(url: str, statement: str) -> list[object]:
    table: pa.Table = connectorx.read_sql(url, statement, return_type="arrow")
    return list(table.column(0).to_pylist())


def error_after_the_end(url: str, login: dict[str, Any], number: int) -> str:
    endless = "SELECT seq FROM seq_1_to_100000000"
    batches = iter(connectorx.read_sql(url, endless, return_type="arrow_stream", batch_size=1000))
    assert next(batches).num_rows
    with closing(pymysql.connect(**login)) as killer, killer.cursor() as cursor:
        cursor.execute(f"KILL {number}")
    # connectorx panics, with a class of its own that is no Exception: `bulk` makes an error of ours of it.
    with pytest.raises(BaseException, match="cx writer failed") as raised:
        list(batches)
    return type(raised.value).__name__


def test_every_query_is_answered_by_the_one_session_at_its_snapshot(
    bank: Connection, lent: tuple[WatchedSession, SessionRelay]
) -> None:
    session, relay = lent
    with closing(mariadb(bank)) as writer, writer.cursor() as cursor:
        cursor.execute("INSERT INTO entry VALUES (1), (2)")
    assert asked(relay, "SELECT COUNT(*) AS n FROM entry") == [0]
    assert asked(relay, NUMBER) == [number_of(session)]


def test_nobody_else_is_let_in(lent: tuple[WatchedSession, SessionRelay]) -> None:
    session, relay = lent
    for password in ("", "wrong"):
        with pytest.raises(pymysql.err.OperationalError, match="not for you"):
            pymysql.connect(host="127.0.0.1", port=relay.port, user="seamline", password=password)
    assert asked(relay, NUMBER) == [number_of(session)]


def test_the_end_of_the_session_is_an_error_of_the_read(
    bank: Connection, lent: tuple[WatchedSession, SessionRelay]
) -> None:
    session, relay = lent
    login = {"host": bank.host, "port": bank.port, "user": bank.login, "password": bank.password}
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        error = pool.submit(error_after_the_end, relay.url, login, number_of(session)).result()
    assert error == "PanicException"
