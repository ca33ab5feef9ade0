"""How long commits of a source stand still for a read: no longer than its owner allowed, whatever the reader does."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.mysql.client import query
from seamline.domain.errors import TransientError
from seamline.sources.mariadb import sessions
from seamline.sources.mariadb.sessions import commits_held
from tests.integration.databases import mariadb, mariadb_database
from tests.waiting import wait_until

WAITING = (
    "SELECT count(*) FROM information_schema.processlist"
    " WHERE info LIKE '%DO GET_LOCK(''seamline.held.%, 200%' AND id <> CONNECTION_ID()"
)
COMMIT = "INSERT INTO t VALUES ()"
# Many times what is promised, so that only a wait without a bound of the server's own is longer.
NOT_FOR_EVER_S = 20


@pytest.fixture(scope="module")
def source() -> Iterator[Connection]:
    with mariadb_database("held") as connection:
        with closing(mariadb(connection)) as session:
            query(session, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)")
        yield connection


def test_a_reader_that_stands_still_holds_no_commit_for_longer_than_the_server_was_asked_for(
    source: Connection,
) -> None:
    with closing(mariadb(source)) as writer, commits_held(source):
        since = time.monotonic()
        # In the thread that should let them go: it does nothing else until this commit has been answered.
        query(writer, COMMIT)
        assert time.monotonic() - since < NOT_FOR_EVER_S


def test_a_reader_that_is_done_lets_the_commits_go_at_once(source: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sessions._COMMITS_END_S + sessions.HELD_MAX_S <= 0.2
    monkeypatch.setattr(sessions, "HELD_MAX_S", 10 * NOT_FOR_EVER_S)
    with closing(mariadb(source)) as writer, closing(mariadb(source)) as observer, ThreadPoolExecutor(1) as pool:
        ((number,),) = query(writer, "SELECT CONNECTION_ID()")
        state = f"SELECT state FROM information_schema.processlist WHERE id = {number}"
        with commits_held(source):
            answer = pool.submit(query, writer, COMMIT)
            wait_until(
                lambda: query(observer, state) == (("Waiting for backup lock",),), timeout_s=30, what="the commit waits"
            )
            assert not answer.done()
            # Who waits for us is the server: it would end the stage by itself.
            assert query(observer, WAITING) == ((1,),)
        answer.result(NOT_FOR_EVER_S)


def test_commits_go_on_where_the_stage_is_not_to_be_had(source: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_STAGE_ATTEMPTS", 1)
    with closing(mariadb(source)) as writer, closing(mariadb(source)) as backup:
        query(backup, "BACKUP STAGE START")
        with pytest.raises(TransientError, match="another backup runs"), commits_held(source):
            pass
        query(writer, COMMIT)
        query(backup, "BACKUP STAGE END")
        with commits_held(source):
            pass
        query(writer, COMMIT)


@contextmanager
def commits_that_wait_for_a_replica(source: Connection) -> Iterator[None]:
    """Each commit is in flight for as long as the server is set to wait for a replica, and there is none."""
    with closing(mariadb(source)) as session:
        query(session, f"SET GLOBAL rpl_semi_sync_master_timeout = {1000 * NOT_FOR_EVER_S}")
        query(session, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
        try:
            yield
        finally:
            query(session, "SET GLOBAL rpl_semi_sync_master_enabled = OFF")
            query(session, "SET GLOBAL rpl_semi_sync_master_timeout = DEFAULT")


def test_new_commits_do_not_queue_for_long_behind_one_that_does_not_end(
    source: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_STAGE_ATTEMPTS", 2)
    monkeypatch.setattr(sessions, "PAUSE_S", 0.0)
    with closing(mariadb(source)) as writer, closing(mariadb(source)) as observer, ThreadPoolExecutor(1) as pool:
        ((number,),) = query(writer, "SELECT CONNECTION_ID()")
        state = f"SELECT state FROM information_schema.processlist WHERE id = {number}"
        with commits_that_wait_for_a_replica(source):
            answer = pool.submit(query, writer, COMMIT)
            wait_until(lambda: "semi-sync" in str(query(observer, state)), timeout_s=30, what="the commit is in flight")
            with (
                pytest.raises(TransientError, match="in 2 attempts: commits take longer than 50 ms") as caught,
                commits_held(source),
            ):
                pass
            assert "lock: none" in caught.value.hint
            assert not answer.done()
        answer.result(NOT_FOR_EVER_S)
