"""The warehouse of a run in PostgreSQL."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import session_name
from seamline.databases.postgres.read import Relation, open_views
from seamline.domain.catalogue import Table
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.ports import ReadView
from tests.fault.real.anomalies import Commit, Dump, Leg
from tests.fault.real.bank_plus import MODELLED
from tests.fault.real.commit_audit import commits, install, missing
from tests.fault.real.log_replay import Rows
from tests.integration.databases import postgres, writer_of


class PostgresWarehouse:
    """The small questions of those who wait are asked in one session, each of the others in one of its own."""

    def __init__(self, database: Connection, stream: StreamId) -> None:
        self._database = database
        self._asking: psycopg.Connection[Any] | None = None
        self._id = stream
        self._stream = str(stream)

    def audit(self) -> None:
        with self.session() as session:
            install(session, self._stream)

    def forget_all(self) -> None:
        with self.session() as session:
            session.execute("DROP SCHEMA IF EXISTS checked, live, seamline CASCADE")

    @contextmanager
    def session(self) -> Iterator["psycopg.Connection[Any]"]:
        with postgres(self._database) as session:
            yield session

    @contextmanager
    def session_of_writer(self) -> Iterator["psycopg.Connection[Any]"]:
        """By the login that streams have, which may end their sessions."""
        with postgres(writer_of(self._database)) as session:
            yield session

    def close(self) -> None:
        if self._asking is not None:
            self._asking.close()

    def last_marker(self) -> str:
        with suppress(psycopg.OperationalError):
            return str(self._one("SELECT last_marker FROM seamline.ledger WHERE stream = %s", self._stream))
        return ""

    def commits_seen(self) -> int:
        return int(self._one("SELECT count(*) FROM checked.commits"))

    def commits(self, *, after: int = 0) -> list[Commit]:
        with self.session() as session:
            return commits(session, after=after)

    def newest_commit(self) -> Commit:
        return self.commits(after=int(self._one("SELECT max(commit_id) - 1 FROM checked.commits")))[-1]

    def has_queue(self) -> bool:
        """Whether somebody has waited for more than a moment for the lock of all publishes."""
        return bool(
            self._one(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND (wait_event_type, wait_event) = ('Lock', 'advisory')"
                " AND query_start < clock_timestamp() - interval '1 second'"
            )
        )

    def findings(self) -> int:
        return int(self._one("SELECT count(*) FROM seamline.finding"))

    def missing_audit(self) -> list[str]:
        with self.session() as session:
            return missing(session)

    def leftovers(self) -> list[str]:
        """Staged tables; chunks of large transactions are temporary, and gone with their session."""
        with self.session() as session:
            rows = session.execute(
                "SELECT oid::regclass::text FROM pg_class"
                " WHERE relkind = 'r' AND relnamespace = 'live_stage'::regnamespace ORDER BY 1"
            ).fetchall()
        return [str(name) for (name,) in rows]

    def state(self) -> tuple[int, Rows]:
        """The ledger's offset and all rows, of one and the same state."""
        with self.session() as session, session.transaction():
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            row = session.execute(
                "SELECT next_offset FROM seamline.ledger WHERE stream = %s", (self._stream,)
            ).fetchone()
            assert row is not None, "nothing was ever published"
            rows = {table: Counter(session.execute(f"SELECT * FROM live.{table}".encode())) for table in MODELLED}
        return int(row[0]), rows

    def view_of(self, table: Table, *, at: Position) -> ReadView:
        """A live table, as a reconciliation reads it."""
        relations = {table.name: Relation("live", table.name)}
        (view,) = open_views(self._database, tables=[table], relations=relations, count=1, position_of=lambda _: at)
        return view

    def evidence(self) -> str:
        """What the destination's own tables say of progress, boundaries and findings."""
        said = []
        with self.session() as session:
            for table in ("ledger", "boundary", "publication", "finding"):
                rows = session.execute(f"SELECT to_json(t)::text FROM seamline.{table} AS t".encode()).fetchall()
                said += [f"{table}: {row[0]}" for row in rows]
        return "\n".join(said) + "\n"

    def seen_after(self, statement: str, *, owner_epoch: int | None = None) -> Commit:
        """What the trigger says of a state that this statement makes, with the ledger; nothing of it is kept."""
        ledger = f"UPDATE seamline.ledger SET next_offset = next_offset WHERE stream = '{self._stream}'"
        return self._seen_after(owner_epoch, statement, ledger)

    def seen_after_rows(self, *statements: str) -> Commit:
        """The same, without the ledger."""
        return self._seen_after(None, *statements)

    def _seen_after(self, owner_epoch: int | None, *statements: str) -> Commit:
        name = "somebody" if owner_epoch is None else session_name(self._id, owner_epoch)
        with self.session() as session, session.transaction(force_rollback=True):
            session.execute("SELECT set_config('application_name', %s, true)", (name,))
            for statement in statements:
                session.execute(statement.encode())
            session.execute("SET CONSTRAINTS ALL IMMEDIATE")
            return commits(session)[-1]

    def dump(self) -> Dump:
        with self.session() as session:
            entries = session.execute("SELECT tx_id, leg, legs, amount FROM live.entry").fetchall()
            seq = session.execute("SELECT writer, n FROM live.seq").fetchall()
            audit = session.execute("SELECT actor, action, count(*) FROM live.audit GROUP BY 1, 2").fetchall()
        return Dump(
            [Leg(*row) for row in entries],
            [(writer, number) for writer, number in seq],
            {(actor, action): copies for actor, action, copies in audit},
        )

    def dump_of(self, attempts: Sequence[int]) -> Dump:
        """The rows that these attempts have left; of those without a key nobody can say."""
        with self.session() as session:
            entries = session.execute(
                "SELECT tx_id, leg, legs, amount FROM live.entry WHERE tx_id = ANY(%s)", (list(attempts),)
            ).fetchall()
            seq = session.execute(
                "SELECT writer, n FROM live.seq WHERE attempt = ANY(%s)", (list(attempts),)
            ).fetchall()
        return Dump([Leg(*row) for row in entries], [(writer, number) for writer, number in seq])

    def _one(self, statement: str, *values: str) -> Any:
        try:
            return self._asked(statement, values)
        except psycopg.OperationalError:
            # Its server may have gone and come since the last question.
            self.close()
            self._asking = None
            return self._asked(statement, values)

    def _asked(self, statement: str, values: Sequence[str]) -> Any:
        self._asking = self._asking or postgres(self._database)
        row = self._asking.execute(statement.encode(), values or None).fetchone()
        assert row is not None
        return row[0]
