"""COPY out of a session on a shared snapshot, in blocks, at the speed of libpq.

The server sends a row at a time. Two psycopg 3 sessions that pass rows on take 1.4 times as long as a pipe of two
psqls, because every row crosses Python; psycopg2 hands rows to a file in C, and here that file is an OS pipe, read in
blocks: 0.9 to 1.1 times as fast as the two psqls (`bench.postgres_copy`, 2 M rows of 14 columns, PostgreSQL 18.4).
"""

import os
import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import psycopg
import psycopg2

from seamline.adapters.connections import Connection
from seamline.adapters.hanging import QUESTION_S, SILENCE_S, SocketWatch
from seamline.databases.postgres.watched import watch_of
from seamline.sources.postgres.client import libpq_arguments, source_error
from seamline.sources.postgres.sessions import READ_SETTINGS, SharedSnapshot, late_settings

_BLOCK_BYTES = 256 << 10


class CopyOut:
    """One session. Its tables must be locked by another one that lives for as long: this one only reads."""

    def __init__(self, connection: Connection, shared: SharedSnapshot, *, silence_s: float = SILENCE_S) -> None:
        self._connection = connection
        self._session: Any = None
        self._watch: SocketWatch | None = None
        arguments = libpq_arguments(connection, settings=READ_SETTINGS)
        try:
            self._session = psycopg2.connect(**arguments)
            fileno, pid = self._session.fileno(), self._session.info.backend_pid
            self._watch = watch_of(arguments, fileno=fileno, pid=pid, silence_s=silence_s, limit_s=QUESTION_S)
            with self._watch.waiting():
                self.seen = self._joined(shared)
        except psycopg2.Error as exc:
            self.close()
            raise self._translated(exc) from exc

    def blocks(self, statement: str) -> Iterator[bytes]:
        """What `COPY … TO STDOUT` gives, in chunks of any size."""
        outlet, inlet = os.pipe()
        failed: list[psycopg2.Error] = []
        thread = threading.Thread(target=self._copy, args=(statement, inlet, failed), daemon=True)
        thread.start()
        is_read = False
        try:
            with os.fdopen(outlet, "rb", buffering=0) as blocks:
                while block := blocks.read(_BLOCK_BYTES):
                    yield block
            is_read = True
        finally:
            # Whoever stops reading early has closed the pipe: the thread ends at its next block, or with its session.
            # psycopg2 keeps Python's lock while it asks a server to cancel, for ever where something swallows that.
            if not is_read and self._watch is not None:
                self._watch.stop()
            thread.join()
        if failed:
            raise self._translated(failed[0]) from failed[0]

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        if self._watch is not None:
            self._watch.close()

    def _joined(self, shared: SharedSnapshot) -> str:
        """The snapshot that the session says it stands on, once it has imported the shared one."""
        self._session.autocommit = True
        with self._session.cursor() as cursor:
            for setting in late_settings(self._session.server_version):
                cursor.execute(setting)
        self._session.set_session(isolation_level="REPEATABLE READ", readonly=True, autocommit=False)
        with self._session.cursor() as cursor:
            cursor.execute("SET TRANSACTION SNAPSHOT %s", (shared.name,))
            cursor.execute("SELECT pg_current_snapshot()::text")
            return str(cursor.fetchone()[0])

    def _copy(self, statement: str, inlet: int, failed: list[psycopg2.Error]) -> None:
        # The reader went away: it knows why.
        with suppress(BrokenPipeError), os.fdopen(inlet, "wb", buffering=_BLOCK_BYTES) as pipe:
            try:
                with self._watch.waiting() if self._watch else nullcontext(), self._session.cursor() as cursor:
                    cursor.copy_expert(statement, pipe)
            except psycopg2.Error as exc:
                failed.append(exc)

    def _translated(self, exc: psycopg2.Error) -> Exception:
        """As the other driver's error of the same kind."""
        ended = self._watch.ended if self._watch else ""
        said = (ended or exc.diag.message_primary or str(exc)).strip()
        kind = psycopg.errors.lookup(exc.pgcode) if exc.pgcode else psycopg.OperationalError
        return source_error(kind(said), self._connection)
