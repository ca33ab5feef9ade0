"""The warehouse of a run in MariaDB, in a server that writes a binlog whose files lie on this machine."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.ports import ReadView
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.relational.read_back import open_views
from tests.fault.real.anomalies import Commit, Dump, Leg
from tests.fault.real.bank_plus import MODELLED
from tests.fault.real.binlog_audit import KEYS, OF_PROGRESS, BinlogAudit, Model
from tests.fault.real.log_replay import Rows
from tests.fault.real.warehouse import counted
from tests.integration.databases import mariadb, mariadb_writer_of

LIVE, LEDGER, KEPT = "live", "live_seamline", "live_kept"


class MariaDbWarehouse:
    """The small questions of those who wait are asked in one session, each of the others in one of its own. `root` may
    look at the binlog."""

    def __init__(self, database: Connection, root: Connection, stream: StreamId) -> None:
        self._database = database
        self._root = replace(root, database="")
        self._stream = str(stream)
        self._asking: Any = None
        self._audit: BinlogAudit | None = None

    def audit(self) -> None:
        """Nothing changes meanwhile: what is read now is what the binlog goes on from."""
        self._audit = None
        with self._session_of_root() as session:
            model = Model(LIVE, LEDGER, self._stream)
            for database, name, key in _modelled():
                columns = _rows(
                    session,
                    "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
                    " ORDER BY ordinal_position",
                    (database, name),
                )
                rows = _rows(session, f"SELECT * FROM {database}.{name}")
                model.begin((database, name), [str(column) for (column,) in columns], key, rows)
            ((basename,),) = _rows(session, "SELECT @@log_bin_basename")
            ((file, offset, *_),) = _rows(session, "SHOW MASTER STATUS")
        self._audit = BinlogAudit(model, folder=Path(basename).parent, at=(file, int(offset)))

    def forget_all(self) -> None:
        self._audit = None
        with self._session_of_root() as session:
            _run(session, f"DROP DATABASE IF EXISTS {LIVE}", f"DROP DATABASE IF EXISTS {LEDGER}")

    @contextmanager
    def session(self) -> Iterator[Any]:
        with closing(mariadb(self._database)) as session:
            yield session

    @contextmanager
    def session_of_writer(self) -> Iterator[Any]:
        with closing(mariadb(mariadb_writer_of(self._database))) as session:
            yield session

    @contextmanager
    def _session_of_root(self) -> Iterator[Any]:
        with closing(mariadb(self._root)) as session:
            yield session

    def close(self) -> None:
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    def last_marker(self) -> str:
        with suppress(pymysql.err.OperationalError):
            return str(self._one(f"SELECT last_marker FROM {LEDGER}.ledger WHERE stream = %s", self._stream))
        return ""

    # ---- its commits ----------------------------------------------------------------------------------------------

    def commits_seen(self) -> int:
        if self._audit is None:
            return 0
        self._audit.read_on()
        return len(self._audit.seen)

    def commits(self, *, after: int = 0) -> list[Commit]:
        self.commits_seen()
        return [one for one in self._seen.seen if one.number > after]

    def newest_commit(self) -> Commit:
        return self.commits()[-1]

    @property
    def _seen(self) -> BinlogAudit:
        assert self._audit is not None, "nobody has begun to look at the commits"
        return self._audit

    def missing_audit(self) -> list[str]:
        """A commit that is in no binlog shows in the tables: each row must be what the binlog has made of it."""
        self.commits_seen()
        model = self._seen.model
        found = list(model.unseen)
        with self._session_of_root() as session:
            for table in model.tables:
                found += model.differences(table, _rows(session, f"SELECT * FROM {'.'.join(table)}"))
            settings = _rows(session, "SELECT @@log_bin, @@binlog_format, @@binlog_row_image, @@sync_binlog")
        if settings != ((1, "ROW", "FULL", 1),):
            found.append(f"log_bin, binlog_format, binlog_row_image, sync_binlog are {settings[0]}")
        return found

    # ---- its state ------------------------------------------------------------------------------------------------

    def has_queue(self) -> bool:
        return bool(
            self._one(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock' AND time_ms > 1000"
            )
        )

    def findings(self) -> int:
        return int(self._one(f"SELECT COUNT(*) FROM {LEDGER}.finding"))

    def leftovers(self) -> list[str]:
        """Whatever lies beside the live tables, but what keeps its progress; steps of a publish that were not done."""
        with self.session() as session:
            tables = _rows(
                session,
                "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables"
                f" WHERE table_schema LIKE '{LIVE}\\_%%' AND table_schema <> %s ORDER BY 1",
                (LEDGER,),
            )
            steps = _rows(session, f"SELECT CONCAT_WS(' ', step, from_database, from_name) FROM {LEDGER}.pending")
        return [str(name) for (name,) in (*tables, *steps)]

    def state(self) -> tuple[int, Rows]:
        with self.session() as session:
            _run(session, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            ledger = _rows(session, f"SELECT next_offset FROM {LEDGER}.ledger WHERE stream = %s", (self._stream,))
            assert ledger, "nothing was ever published"
            rows = {table: _rows(session, f"SELECT * FROM live.{table}") for table in MODELLED}
            _run(session, "ROLLBACK")
        return int(ledger[0][0]), counted(rows)

    def view_of(self, table: Table, *, at: Position) -> ReadView:
        places = {table.name: (LIVE, table.name)}
        (view,) = open_views(self._database, [table], places, 1, lambda _: at, dialect=MARIADB)
        return view

    def evidence(self) -> str:
        said = []
        with self.session() as session:
            for table in ("ledger", "boundary", "publication", "finding", "pending"):
                said += [f"{table}: {row}" for row in _rows(session, f"SELECT * FROM {LEDGER}.{table}")]
        return "\n".join(said) + "\n"

    def dump(self) -> Dump:
        return self._dump("TRUE", "TRUE")

    def dump_of(self, attempts: Sequence[int]) -> Dump:
        among = ", ".join(map(str, attempts)) or "NULL"
        return replace(self._dump(f"tx_id IN ({among})", f"attempt IN ({among})"), audit=Counter())

    def _dump(self, of_entries: str, of_seq: str) -> Dump:
        with self.session() as session:
            entries = _rows(session, f"SELECT tx_id, leg, legs, amount FROM live.entry WHERE {of_entries}")
            seq = _rows(session, f"SELECT writer, n FROM live.seq WHERE {of_seq}")
            audit = Counter(_rows(session, "SELECT actor, action FROM live.audit"))
        return Dump([Leg(*row) for row in entries], [(writer, number) for writer, number in seq], audit)

    # ---- states that are wrong ------------------------------------------------------------------------------------

    def seen_after(self, statement: str, *, owner_epoch: int | None = None) -> Commit:
        claimed = "" if owner_epoch is None else f" AND (epoch = {owner_epoch} OR TRUE)"
        ledger = (
            f"UPDATE {LEDGER}.ledger SET next_offset = next_offset, updated_at = CURRENT_TIMESTAMP(6)"
            f" WHERE stream = '{self._stream}'{claimed}"
        )
        return self._seen_after(statement, ledger)

    def seen_after_rows(self, *statements: str) -> Commit:
        return self._seen_after(*statements)

    def _seen_after(self, *statements: str) -> Commit:
        """Only what is committed stands in a binlog: so it is, and is put back. The stream is stopped."""
        before = self.commits_seen()
        with self._session_of_root() as session, self._put_back(session):
            _run(session, "START TRANSACTION", *statements, "COMMIT")
            found = self.commits()[-1]
        self.commits_seen()
        self._seen.forget(before)
        return found

    @contextmanager
    def unlogged(self, statement: str) -> Iterator[None]:
        """A commit that the binlog does not hold, and the one that undoes it: `{by}` is 1, and then -1."""
        with self._session_of_root() as session:
            _run(session, "SET SESSION sql_log_bin = 0", statement.format(by=1))
            try:
                yield
            finally:
                _run(session, statement.format(by=-1))

    @contextmanager
    def _put_back(self, session: Any) -> Iterator[None]:
        _run(session, f"CREATE DATABASE {KEPT}")
        try:
            for database, name, _ in _modelled():
                _run(session, f"CREATE TABLE {KEPT}.{name} LIKE {database}.{name}")
                _run(session, f"INSERT INTO {KEPT}.{name} SELECT * FROM {database}.{name}")
            yield
            _run(session, "START TRANSACTION")
            for database, name, key in _modelled():
                keys = ", ".join(key)
                _run(
                    session,
                    f"DELETE FROM {database}.{name} WHERE ({keys}) NOT IN (SELECT {keys} FROM {KEPT}.{name})",
                    f"REPLACE INTO {database}.{name} SELECT * FROM {KEPT}.{name}",
                )
            _run(session, "COMMIT")
        finally:
            _run(session, f"DROP DATABASE {KEPT}")

    # ---- asking ---------------------------------------------------------------------------------------------------

    def _one(self, statement: str, *values: str) -> Any:
        try:
            return self._asked(statement, values)
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError):
            # Its server may have gone and come since the last question.
            self.close()
            return self._asked(statement, values)

    def _asked(self, statement: str, values: Sequence[str]) -> Any:
        self._asking = self._asking or mariadb(self._database)
        rows = _rows(self._asking, statement, values)
        assert rows
        return rows[0][0]


def _modelled() -> list[tuple[str, str, Sequence[str]]]:
    """(database, table, its key) of all that the audit carries on."""
    live = [(LIVE, name, key) for name, key in KEYS.items()]
    return [*live, *((LEDGER, name, key) for name, key in OF_PROGRESS.items())]


def _run(session: Any, *statements: str) -> None:
    with session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _rows(session: Any, statement: str, values: Sequence[str] = ()) -> tuple[tuple[Any, ...], ...]:
    with session.cursor() as cursor:
        cursor.execute(statement, values or None)
        return tuple(cursor.fetchall())
