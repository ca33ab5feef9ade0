"""The workload: a bank whose writers transfer, roll back, change keys, delete and insert again, and say nothing twice.

Every committed transaction leaves one row of `seq`, numbered without a gap per writer; every transfer leaves its legs
in `entry`, each with how many there are; `audit` has no key and many rows that are alike; `typ` has a column of each
type, with values at its edges.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from decimal import Decimal
from itertools import accumulate
from typing import Any

import psycopg
import pymysql

from seamline.domain.catalogue import Kind
from tests.fault.real.history import Attempt, AuditRow, History, Outcome
from tests.integration import postgres_kinds
from tests.integration.kinds import CASES, INEXACT_CASES, LENIENT, Edge, KindCase

# Whose rows a model can derive from the log. Those of the types are held against the source itself.
MODELLED = ("account", "entry", "seq", "audit")
TYPED = "typ"
TYPED_CASES = (*CASES, *INEXACT_CASES)
TABLES = (*MODELLED, TYPED)
CURRENCIES = ("CHF", "EUR", "JPY")
ACCOUNTS = 1_000
OPENING = Decimal("1000000.0000")
WRITERS = 16
BATCH_LEGS = 1_000
# How long a writer pauses at most between two attempts, unless a run says otherwise.
PAUSE_S_MAX = 0.24
_ACTIONS = ("look", "look", "sign", "hold ü€")
_TYPED_ROWS_PER_WRITER = 8
_MOVING_KEYS = [str(number) for number in range(WRITERS * _TYPED_ROWS_PER_WRITER)]
_STILL_FROM = 1_000
_MEMOS = ("", "rent", "Löhne €", "'quoted' \\ back", "x" * 90)
# An attempt has at most so many ids of entries; those whose key was changed lie in the upper half.
_IDS_PER_ATTEMPT = 10_000
ATTEMPTS_PER_WRITER = 10_000_000
_DEADLOCK, _LOCK_TIMEOUT = 1213, 1205
# PyMySQL: not reached, gone away, lost in a query, packet out of order, shutting down; a session that is closed has 0.
_SERVER_GONE = (2003, 2006, 2013, 2014, 1053, 0)
# Of MariaDB: disk full, error on write, error 28 of a storage engine, table is full.
_NO_ROOM = (1021, 1026, 1030, 1114)
_AWAY_S = 0.3
_SHARES = {
    "transfer": 82.0,
    "roll back": 3.0,
    "savepoint": 2.0,
    "change of key": 4.0,
    "delete and insert": 3.0,
    "no change": 3.0,
    "batch": 0.2,
}
_BATCHES = {"batch": 2.0}

# MySQL has no type for UUIDs, and takes a document apart: one number fits none of its own.
_DOCUMENTS = ('{"b":1, "a":[1.5,null]}', "null", '"s"', "[18446744073709551615]", '{"n":"ü,"}')
MYSQL_TYPED_CASES = tuple(
    replace(case, edges=[Edge(f"'{text}'", text) for text in _DOCUMENTS]) if case.column.kind is Kind.JSON else case
    for case in TYPED_CASES
    if case.column.kind is not Kind.UUID
)


def _binlog_typed(cases: Sequence[KindCase]) -> str:
    columns = ", ".join(f"`{case.column.name}` {case.mariadb_type}" for case in cases)
    return f"CREATE TABLE {TYPED} (id BIGINT PRIMARY KEY, {columns})"


def _binlog_rows(cases: Sequence[KindCase]) -> list[str]:
    """As many rows of literals as the type with the most edges has; then one of NULLs."""
    most = max(len(case.edges) for case in cases)
    edges = [", ".join(case.edges[number % len(case.edges)].mariadb for case in cases) for number in range(most)]
    return [*edges, ", ".join("NULL" for _ in cases)]


_MONEY_IN_BINLOGS = (
    "CREATE TABLE account (id BIGINT PRIMARY KEY, ccy CHAR(3) NOT NULL, balance DECIMAL(20,4) NOT NULL, "
    "ver INT NOT NULL)",
    "CREATE TABLE entry (id BIGINT PRIMARY KEY, tx_id BIGINT NOT NULL, leg INT NOT NULL, legs INT NOT NULL, "
    "account_id BIGINT NOT NULL, ccy CHAR(3) NOT NULL, amount DECIMAL(20,4) NOT NULL, "
    "booked_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), memo VARCHAR(100))",
    "CREATE TABLE seq (writer INT NOT NULL, n BIGINT NOT NULL, attempt BIGINT NOT NULL, PRIMARY KEY (writer, n))",
    "CREATE TABLE audit (actor VARCHAR(20), action VARCHAR(4000))",
)
SCHEMA_MARIADB = (*_MONEY_IN_BINLOGS, _binlog_typed(TYPED_CASES))
SCHEMA_MYSQL = (*_MONEY_IN_BINLOGS, _binlog_typed(MYSQL_TYPED_CASES))
SCHEMA_POSTGRES = (
    *postgres_kinds.TYPES,
    "CREATE TABLE account (id bigint PRIMARY KEY, ccy char(3) NOT NULL, balance numeric(20,4) NOT NULL, "
    "ver int NOT NULL)",
    "CREATE TABLE entry (id bigint PRIMARY KEY, tx_id bigint NOT NULL, leg int NOT NULL, legs int NOT NULL, "
    "account_id bigint NOT NULL, ccy char(3) NOT NULL, amount numeric(20,4) NOT NULL, "
    "booked_at timestamptz NOT NULL DEFAULT clock_timestamp(), memo varchar(100))",
    "CREATE TABLE seq (writer int NOT NULL, n bigint NOT NULL, attempt bigint NOT NULL, PRIMARY KEY (writer, n))",
    "CREATE TABLE audit (actor text, action text)",
    "ALTER TABLE audit REPLICA IDENTITY FULL",
    postgres_kinds.create_table(TYPED, key="id bigint PRIMARY KEY, "),
)
_TYPED_ROWS = {
    "mariadb": _binlog_rows(TYPED_CASES),
    "mysql": _binlog_rows(MYSQL_TYPED_CASES),
    "postgres": postgres_kinds.rows(),
    **dict.fromkeys(("lake", "delta"), postgres_kinds.rows(postgres_kinds.fits_a_lake)),
}
_OF_POSTGRES = ("postgres", "lake", "delta")
# Into a row that may be there: its new values, and which of them it takes then.
_TYPED_COLUMNS = {
    **{
        kind: [f"`{case.column.name}` = VALUES(`{case.column.name}`)" for case in cases]
        for kind, cases in (("mariadb", TYPED_CASES), ("mysql", MYSQL_TYPED_CASES))
    },
    **dict.fromkeys(_OF_POSTGRES, [f"{case.name} = EXCLUDED.{case.name}" for case in postgres_kinds.CASES]),
}
# A session of MySQL is lenient as a whole.
_TYPED_INSERT = {
    "mariadb": f"{LENIENT} INSERT INTO {TYPED}",
    "mysql": f"INSERT INTO {TYPED}",
    **dict.fromkeys(_OF_POSTGRES, f"INSERT INTO {TYPED}"),
}
_TYPED_THERE = {
    **dict.fromkeys(("mariadb", "mysql"), "ON DUPLICATE KEY UPDATE"),
    **dict.fromkeys(_OF_POSTGRES, "ON CONFLICT (id) DO UPDATE SET"),
}
# Of rows that are alike one goes: the two servers say that differently.
ONE_AUDIT_ROW = {
    **dict.fromkeys(("mariadb", "mysql"), "DELETE FROM audit WHERE actor = %s AND action = %s LIMIT 1"),
    **dict.fromkeys(
        _OF_POSTGRES,
        "DELETE FROM audit WHERE ctid IN (SELECT ctid FROM audit WHERE actor = %s AND action = %s LIMIT 1)",
    ),
}


def opening_totals() -> dict[str, Decimal]:
    counted = Counter(_currency(number) for number in range(ACCOUNTS))
    return {ccy: OPENING * counted[ccy] for ccy in CURRENCIES}


def open_accounts(session: Any) -> None:
    with session.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO account (id, ccy, balance, ver) VALUES (%s, %s, %s, 0)",
            [(number, _currency(number), OPENING) for number in range(ACCOUNTS)],
        )
    session.commit()


def open_types(session: Any, kind: str) -> None:
    """Rows with every edge of every type that nobody writes again: whatever loads the table brings them."""
    with session.cursor() as cursor:
        for key, values in zip(still_keys(kind), _TYPED_ROWS[kind], strict=True):
            cursor.execute(f"{_TYPED_INSERT[kind]} VALUES ({key}, {values})")
    session.commit()


def still_keys(kind: str) -> list[str]:
    """Of the rows of `open_types`."""
    return [str(_STILL_FROM + number) for number in range(len(_TYPED_ROWS[kind]))]


def typed_keys(kind: str) -> list[str]:
    return [*_MOVING_KEYS, *still_keys(kind)]


def _currency(account: int) -> str:
    return CURRENCIES[account % len(CURRENCIES)]


class BankWriters:
    """`open_session` gives sessions without autocommit. Other errors than a server's absence are raised by `stop`."""

    def __init__(
        self, kind: str, open_session: Callable[[], Any], history: History, *, seed: str, pause_s_max: float
    ) -> None:
        self.history = history
        self._stop = threading.Event()
        self._may_write = threading.Event()
        self._may_write.set()
        self._writers = [_Writer(n, kind, open_session, history, random.Random(f"{seed}/{n}")) for n in range(WRITERS)]
        self._threads = [
            threading.Thread(target=one.write_until, args=(self._stop, self._may_write, pause_s_max))
            for one in self._writers
        ]

    @property
    def committed(self) -> int:
        return sum(one.number for one in self._writers)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """None of them begins another transaction."""
        self._may_write.clear()
        try:
            yield
        finally:
            self._may_write.set()

    @contextmanager
    def with_batches(self) -> Iterator[None]:
        """Now and then there is one anyway; here one comes within a second or two."""
        for one in self._writers:
            one.shares = _SHARES | _BATCHES
        try:
            yield
        finally:
            for one in self._writers:
                one.shares = _SHARES

    @contextmanager
    def still(self) -> Iterator[None]:
        """None of them is in a transaction: each knows what became of its last one, and begins no other."""
        with ExitStack() as held:
            for one in self._writers:
                held.enter_context(one.at_work)
            yield

    def stop(self) -> None:
        """Repeatable."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for one in self._writers:
            if one.error is not None:
                raise one.error


class RowGoneError(Exception):
    """Another writer deleted the account and inserted it again while this one waited for its lock: PostgreSQL's UPDATE
    then finds no row, and money would be lost if the transfer went on."""


class _Writer:
    def __init__(
        self, writer: int, kind: str, open_session: Callable[[], Any], history: History, chance: random.Random
    ) -> None:
        self.number = 0
        self.error: BaseException | None = None
        # How often it does what, out of all of them.
        self.shares = _SHARES
        # Held during each attempt, until its outcome is reported.
        self.at_work = threading.Lock()
        self._writer = writer
        self._open_session = open_session
        self._history = history
        self._chance = chance
        self._one_audit_row = ONE_AUDIT_ROW[kind]
        self._kind = kind
        self._typed_rows = [row.replace("%", "%%") for row in _TYPED_ROWS[kind]]
        self._attempts = 0
        # Entries of mine that still have their first key.
        self._movable: list[int] = []

    def write_until(self, stop: threading.Event, may_write: threading.Event, pause_s_max: float) -> None:
        while self.error is None and not stop.is_set():
            try:
                self._write_in_one_session(stop, may_write, pause_s_max)
            except (pymysql.err.MySQLError, psycopg.Error) as exc:
                if not _asks_again(exc):
                    self.error = exc
                stop.wait(_AWAY_S)

    def _write_in_one_session(self, stop: threading.Event, may_write: threading.Event, pause_s_max: float) -> None:
        with closing(self._open_session()) as session:
            self.number = self._committed(session)
            while not stop.is_set():
                shares = self.shares
                kind = self._chance.choices(list(shares), cum_weights=list(accumulate(shares.values())))[0]
                with self.at_work:
                    self._attempt(session, kind)
                stop.wait(self._chance.random() * pause_s_max)
                may_write.wait()

    def _committed(self, session: Any) -> int:
        """What the source says of a COMMIT whose answer never came, or was an error that leaves it open."""
        with session.cursor() as cursor:
            cursor.execute("SELECT coalesce(max(n), 0) FROM seq WHERE writer = %s", (self._writer,))
            (number,) = cursor.fetchone()
        session.commit()
        return int(number)

    def _next_id(self) -> int:
        self._attempts += 1
        return self._writer * ATTEMPTS_PER_WRITER + self._attempts

    def _attempt(self, session: Any, kind: str) -> None:
        attempt_id, audit = self._next_id(), Counter[AuditRow]()
        legs = 0
        try:
            with session.cursor() as cursor:
                legs = self._change(cursor, kind, attempt_id, audit)
                cursor.execute(
                    "INSERT INTO seq (writer, n, attempt) VALUES (%s, %s, %s)",
                    (self._writer, self.number + 1, attempt_id),
                )
        except (RowGoneError, pymysql.err.MySQLError, psycopg.Error) as exc:
            self._report(attempt_id, kind, Outcome.FAIL, legs, audit)
            if not _is_expected(exc):
                raise
            session.rollback()
            return
        if kind == "roll back":
            with session.cursor() as cursor:
                self._make_a_draft(cursor)
            session.rollback()
            self._report(attempt_id, kind, Outcome.FAIL, legs, audit)
            return
        self._commit(session, attempt_id, kind, legs, audit)

    def _commit(self, session: Any, attempt_id: int, kind: str, legs: int, audit: Counter[AuditRow]) -> None:
        try:
            session.commit()
        except (pymysql.err.MySQLError, psycopg.Error):
            self._report(attempt_id, kind, Outcome.INFO, legs, audit)
            raise
        self.number += 1
        self._report(attempt_id, kind, Outcome.OK, legs, audit)
        if legs and legs != BATCH_LEGS:
            self._movable.append(attempt_id * _IDS_PER_ATTEMPT)

    def _report(self, attempt_id: int, kind: str, outcome: Outcome, legs: int, audit: Counter[AuditRow]) -> None:
        number = self.number if outcome is Outcome.OK else self.number + 1
        self._history.append(Attempt(attempt_id, self._writer, kind, outcome, number, legs, audit))

    # ---- what a transaction does ----------------------------------------------------------------------------------

    def _change(self, cursor: Any, kind: str, attempt_id: int, audit: Counter[AuditRow]) -> int:
        """Returns the number of legs that the attempt wrote."""
        self._audit(cursor, audit)
        if self._chance.random() < 0.2:
            self._write_types(cursor)
        match kind:
            case "change of key" if self._movable:
                first = self._movable.pop(self._chance.randrange(len(self._movable)))
                cursor.execute("UPDATE entry SET id = %s WHERE id = %s", (first + _IDS_PER_ATTEMPT // 2, first))
                return 0
            case "delete and insert":
                self._insert_again(cursor)
                return 0
            case "no change":
                cursor.execute("UPDATE account SET ver = ver WHERE id = %s", (self._chance.randrange(ACCOUNTS),))
                return 0
            case "batch":
                return self._transfer(cursor, attempt_id, BATCH_LEGS)
            case "savepoint":
                self._take_back(cursor)
        return self._transfer(cursor, attempt_id, self._chance.randint(2, 8))

    def _take_back(self, cursor: Any) -> None:
        """A transfer that is rolled back inside a transaction that goes on."""
        ghost = self._next_id()
        cursor.execute("SAVEPOINT before_the_ghost")
        legs = self._transfer(cursor, ghost, self._chance.randint(2, 4))
        self._make_a_draft(cursor)
        cursor.execute("ROLLBACK TO SAVEPOINT before_the_ghost")
        self._history.append(Attempt(ghost, self._writer, "ghost", Outcome.FAIL, legs=legs))

    def _make_a_draft(self, cursor: Any) -> None:
        """After it a MariaDB leaves what is rolled back in its binlog."""
        if self._chance.random() < 0.5:
            cursor.execute("CREATE TEMPORARY TABLE IF NOT EXISTS draft (a INT)")
            cursor.execute("DROP TABLE draft" if self._kind in _OF_POSTGRES else "DROP TEMPORARY TABLE draft")

    def _transfer(self, cursor: Any, attempt_id: int, legs: int) -> int:
        ccy = self._chance.randrange(len(CURRENCIES))
        mine = range(ccy, ACCOUNTS, len(CURRENCIES))
        # In the order of their ids, so that writers wait for each other and seldom meet in a deadlock.
        accounts = sorted(self._chance.choices(mine, k=legs) if legs > len(mine) else self._chance.sample(mine, legs))
        amounts = [Decimal(self._chance.randint(-9_999_999, 9_999_999)).scaleb(-4) for _ in range(legs - 1)]
        amounts.append(-sum(amounts, Decimal(0)))
        net = dict.fromkeys(accounts, Decimal(0))
        for account, amount in zip(accounts, amounts, strict=True):
            net[account] += amount
        for account, change in net.items():
            cursor.execute("UPDATE account SET balance = balance + %s, ver = ver + 1 WHERE id = %s", (change, account))
            if cursor.rowcount != 1:
                raise RowGoneError
        cursor.executemany(
            "INSERT INTO entry (id, tx_id, leg, legs, account_id, ccy, amount, memo) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            [
                (attempt_id * _IDS_PER_ATTEMPT + leg, attempt_id, leg, legs, *where, self._chance.choice(_MEMOS))
                for leg, where in enumerate(self._placed(accounts, amounts))
            ],
        )
        return legs

    @staticmethod
    def _placed(accounts: Sequence[int], amounts: Sequence[Decimal]) -> Iterator[tuple[int, str, Decimal]]:
        for account, amount in zip(accounts, amounts, strict=True):
            yield account, _currency(account), amount

    def _insert_again(self, cursor: Any) -> None:
        account = self._chance.randrange(ACCOUNTS)
        cursor.execute("SELECT ccy, balance, ver FROM account WHERE id = %s FOR UPDATE", (account,))
        found = cursor.fetchone()
        if found is None:
            raise RowGoneError
        ccy, balance, ver = found
        cursor.execute("DELETE FROM account WHERE id = %s", (account,))
        cursor.execute(
            "INSERT INTO account (id, ccy, balance, ver) VALUES (%s, %s, %s, %s)", (account, ccy, balance, ver + 1)
        )

    def _write_types(self, cursor: Any) -> None:
        """One row of mine goes, comes, comes back with other values, or gets some of them where it stands."""
        row = self._writer * _TYPED_ROWS_PER_WRITER + self._chance.randrange(_TYPED_ROWS_PER_WRITER)
        if self._chance.random() < 0.4:
            cursor.execute(f"DELETE FROM {TYPED} WHERE id = %s", (row,))
        if self._chance.random() < 0.8:
            columns = _TYPED_COLUMNS[self._kind]
            some = ", ".join(self._chance.sample(columns, self._chance.randint(1, len(columns))))
            cursor.execute(
                f"{_TYPED_INSERT[self._kind]} VALUES (%s, {self._chance.choice(self._typed_rows)})"
                f" {_TYPED_THERE[self._kind]} {some}",
                (row,),
            )

    def _audit(self, cursor: Any, audit: Counter[AuditRow]) -> None:
        row = (f"desk {self._writer % 3}", self._chance.choice(_ACTIONS))
        if self._chance.random() < 0.05:
            cursor.execute(self._one_audit_row, row)
            if cursor.rowcount:
                audit[row] -= 1
        elif self._chance.random() < 0.5:
            copies = self._chance.randint(1, 3)
            cursor.executemany("INSERT INTO audit VALUES (%s, %s)", [row] * copies)
            audit[row] += copies


def _is_expected(error: Exception) -> bool:
    if isinstance(error, pymysql.err.OperationalError):
        return error.args[0] in (_DEADLOCK, _LOCK_TIMEOUT)
    return isinstance(error, RowGoneError | psycopg.errors.DeadlockDetected)


def _asks_again(error: Exception) -> bool:
    """What a client does whose server, or the way to it, is lost, or has no room."""
    if isinstance(error, pymysql.err.OperationalError | pymysql.err.InterfaceError):
        return error.args[0] in (*_SERVER_GONE, *_NO_ROOM)
    return isinstance(error, psycopg.OperationalError)


@contextmanager
def bank_writers(
    kind: str, open_session: Callable[[], Any], history: History, *, seed: str, pause_s_max: float
) -> Iterator[BankWriters]:
    writers = BankWriters(kind, open_session, history, seed=seed, pause_s_max=pause_s_max)
    writers.start()
    try:
        yield writers
    finally:
        writers.stop()
