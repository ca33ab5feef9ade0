"""Writers that keep a captured database busy: small and large transactions, updates, key changes, roll-backs."""

import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pymysql

from seamline.adapters.connections import Connection
from tests.integration.databases import mariadb, postgres

# One change in so many has so many rows. Each row is read, sent, applied and compared by all who take part in a test.
_LARGE_EVERY, _LARGE = 200, 1_000


class Writers:
    """Errors of a writer are kept and raised at the end: a writer that died would make a test too easy."""

    def __init__(
        self, open_session: Callable[[], Any], *, tables: Sequence[str], count: int, first_id: int, pause_max_s: float
    ) -> None:
        self._open_session = open_session
        self._tables = tables
        self._pause_max_s = pause_max_s
        self._stop = threading.Event()
        self._ids = itertools.count(first_id)
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(count)]
        self._errors: list[BaseException] = []
        self.committed = 0

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _write(self, number: int) -> None:
        chance = random.Random(number)
        # In the first seconds somebody's change is a large one.
        changes = itertools.count(number * _LARGE_EVERY // len(self._threads))
        try:
            with closing(self._open_session()) as session:
                while not self._stop.is_set():
                    self._transact(session, chance, changes)
                    # Commits wait for no disk: without a pause they outrun whoever has to apply and compare them.
                    self._stop.wait(chance.random() * self._pause_max_s)
        except (pymysql.err.MySQLError, psycopg.Error) as exc:
            self._errors.append(exc)

    def _transact(self, session: Any, chance: random.Random, changes: Iterator[int]) -> None:
        with session.cursor() as cursor:
            for table in chance.sample(self._tables, chance.randint(1, len(self._tables))):
                is_large = next(changes) % _LARGE_EVERY == _LARGE_EVERY - 1
                self._change(cursor, table, chance, _LARGE if is_large else chance.randint(1, 5))
        if chance.random() < 0.1:
            session.rollback()
        else:
            session.commit()
            self.committed += 1

    def _change(self, cursor: Any, table: str, chance: random.Random, rows: int) -> None:
        if table == "audit":
            cursor.executemany("INSERT INTO audit VALUES (%s, %s)", [(chance.randint(1, 9), "m")] * rows)
            return
        ids = [next(self._ids) for _ in range(rows)]
        cursor.executemany(
            f"INSERT INTO {table} VALUES (%s, %s, %s)", [(i, 0, "x" * chance.randint(1, 99)) for i in ids]
        )
        if chance.random() < 0.5:
            cursor.execute(f"UPDATE {table} SET a = a + 1 WHERE id = %s", (ids[0],))
        if chance.random() < 0.2:
            cursor.execute(f"UPDATE {table} SET id = %s WHERE id = %s", (next(self._ids), ids[0]))
        elif chance.random() < 0.2:
            cursor.execute(f"DELETE FROM {table} WHERE id = %s", (ids[0],))


def in_mariadb(root: Connection) -> Any:
    session = mariadb(root)
    session.autocommit(False)
    return session


def in_postgres(root: Connection) -> Any:
    session = postgres(root)
    session.autocommit = False
    return session


@contextmanager
def writing(
    root: Connection,
    *,
    tables: Sequence[str],
    count: int = 4,
    first_id: int = 1,
    session_of: Callable[[Connection], Any] = in_mariadb,
    pause_max_s: float = 0.04,
) -> Iterator[Writers]:
    """`pause_max_s`: each writer waits for up to so long after each transaction."""
    writers = Writers(lambda: session_of(root), tables=tables, count=count, first_id=first_id, pause_max_s=pause_max_s)
    writers.start()
    try:
        yield writers
    finally:
        writers.stop()
