"""The demo bank in MariaDB: seeded, so that the same seed and day give the same rows."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pymysql
import pymysql.cursors

from seamline.adapters.tls import pymysql_tls

CURRENCIES = ("CNY", "EUR", "USD")
OPENING_BALANCE = Decimal("1000000.0000")
# Accounts up to this id and everything seeded for them are never touched by the writers.
RESERVE_ACCOUNTS = 100
ROWS_PER_INSERT = 2_000
DAYS_BACK = 7

TABLES = {
    "account": """
        CREATE TABLE IF NOT EXISTS account (
          id BIGINT NOT NULL PRIMARY KEY, owner VARCHAR(80) NOT NULL, currency CHAR(3) NOT NULL,
          balance DECIMAL(20,4) NOT NULL, status ENUM('open','frozen','closed') NOT NULL DEFAULT 'open',
          opened DATE NOT NULL, updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))""",
    "ledger_entry": """
        CREATE TABLE IF NOT EXISTS ledger_entry (
          id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, transfer_id BIGINT NOT NULL, account_id BIGINT NOT NULL,
          currency CHAR(3) NOT NULL, amount DECIMAL(20,4) NOT NULL,
          booked_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), memo VARCHAR(140) NULL,
          KEY by_booked_at (booked_at))""",
    "payment_order": """
        CREATE TABLE IF NOT EXISTS payment_order (
          id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, account_id BIGINT NOT NULL, currency CHAR(3) NOT NULL,
          amount DECIMAL(20,4) NOT NULL, status ENUM('new','sent','settled','rejected') NOT NULL,
          business_date DATE NOT NULL, reference VARCHAR(40) NOT NULL, created_at DATETIME(6) NOT NULL,
          KEY by_business_date (business_date))""",
    "access_audit": """
        CREATE TABLE IF NOT EXISTS access_audit (
          actor VARCHAR(40) NOT NULL, action VARCHAR(20) NOT NULL, object VARCHAR(60) NULL, at DATETIME NOT NULL)""",
    "seamline_marker": """
        CREATE TABLE IF NOT EXISTS seamline_marker (
          id VARCHAR(64) NOT NULL PRIMARY KEY, kind VARCHAR(16) NOT NULL, payload TEXT NOT NULL,
          at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))""",
}

OWNERS = ("Ines Díaz", "李小龍", "O'Brien & Sons", "Zoë Müller", "Łukasz Nowak", "Ιωάννα 💶", 'Grace "Amazing" Hopper')
MEMOS = (None, "", "rent", "salary 工资", "invoice, part 2", "refund \\ partial", "gift 🎁", "fee\tQ3")


@dataclass(frozen=True, slots=True)
class BankSize:
    accounts: int = 1_000
    transfers: int = 100_000
    payment_orders: int = 20_000
    audit_rows: int = 5_000


FULL = BankSize()
SMALL = BankSize(accounts=300, transfers=5_000, payment_orders=2_000, audit_rows=1_000)


def connect(connection: Any) -> pymysql.Connection:
    """A session of the bank's own application, in UTC, without autocommit."""
    return pymysql.connect(
        host=connection.host,
        port=connection.port,
        user=connection.login,
        password=connection.password,
        database=connection.database,
        charset="utf8mb4",
        init_command="SET time_zone='+00:00'",
        connect_timeout=10,
        autocommit=False,
        **pymysql_tls(connection),
    )


def fill(
    session: "pymysql.Connection[Any]",
    size: BankSize,
    *,
    now: datetime,
    timezone: str,
    seed: int = 7,
    progress: Callable[[str], None] = lambda line: None,
) -> bool:
    """Create the tables and fill them once. False when the bank was already filled: then nothing is changed.

    `now` is an aware instant; entries and orders are spread over the `DAYS_BACK` days before it. Everything is one
    transaction, so a crash in the middle leaves an empty bank.
    """
    with session.cursor() as cursor:
        for statement in TABLES.values():
            cursor.execute(statement)
        cursor.execute("SELECT EXISTS (SELECT 1 FROM account)")
        if cursor.fetchone() == (1,):
            return False
        rng = random.Random(seed)
        entries, balances = _entries(rng, size, now)
        _insert(cursor, "account", _accounts(rng, size, now, balances))
        progress(f"{size.accounts:,} accounts")
        _insert(cursor, "ledger_entry", entries)
        progress(f"{len(entries):,} ledger entries")
        _insert(cursor, "payment_order", _orders(rng, size, now, ZoneInfo(timezone)))
        progress(f"{size.payment_orders:,} payment orders")
        _insert(cursor, "access_audit", _audit(rng, size, now))
        progress(f"{size.audit_rows:,} audit rows without a key")
    session.commit()
    return True


def currency_of(account: int) -> str:
    return CURRENCIES[account % len(CURRENCIES)]


def _moment(rng: random.Random, now: datetime) -> datetime:
    """Some moment of the last days, naive UTC."""
    moment = now - timedelta(seconds=rng.uniform(60, DAYS_BACK * 86_400))
    return moment.astimezone(ZoneInfo("UTC")).replace(tzinfo=None)


def _entries(rng: random.Random, size: BankSize, now: datetime) -> tuple[list[tuple[object, ...]], dict[int, Decimal]]:
    by_currency = {
        currency: [account for account in range(1, size.accounts + 1) if currency_of(account) == currency]
        for currency in CURRENCIES
    }
    balances: dict[int, Decimal] = dict.fromkeys(range(1, size.accounts + 1), OPENING_BALANCE)
    moments = sorted(_moment(rng, now) for _ in range(size.transfers))
    entries: list[tuple[object, ...]] = []
    for transfer, moment in enumerate(moments, 1):
        currency = rng.choice(CURRENCIES)
        payer, payee = rng.sample(by_currency[currency], 2)
        amount = Decimal(rng.randint(1, 50_000_000)).scaleb(-4)
        memo = rng.choice(MEMOS)
        for account, signed in ((payer, -amount), (payee, amount)):
            balances[account] += signed
            entries.append((len(entries) + 1, transfer, account, currency, signed, moment, memo))
    return entries, balances


def _accounts(
    rng: random.Random, size: BankSize, now: datetime, balances: dict[int, Decimal]
) -> Iterable[Sequence[object]]:
    for account, balance in balances.items():
        opened = date(2015, 1, 1) + timedelta(days=rng.randint(0, 4_000))
        status = rng.choices(("open", "frozen", "closed"), (96, 3, 1))[0]
        yield account, rng.choice(OWNERS), currency_of(account), balance, status, opened, _moment(rng, now)


def _orders(rng: random.Random, size: BankSize, now: datetime, zone: ZoneInfo) -> Iterable[Sequence[object]]:
    for order in range(1, size.payment_orders + 1):
        created = _moment(rng, now)
        account = rng.randint(1, size.accounts)
        business_date = created.replace(tzinfo=ZoneInfo("UTC")).astimezone(zone).date()
        amount = Decimal(rng.randint(1, 90_000_000)).scaleb(-4)
        status = rng.choice(("new", "sent", "settled", "rejected"))
        yield order, account, currency_of(account), amount, status, business_date, f"PO-{order:08d}", created


def _audit(rng: random.Random, size: BankSize, now: datetime) -> Iterable[Sequence[object]]:
    """Few distinct rows, each many times: a multiset, not a set."""
    hour = now.astimezone(ZoneInfo("UTC")).replace(minute=0, second=0, microsecond=0, tzinfo=None)
    for _ in range(size.audit_rows):
        seen_at = hour - timedelta(hours=rng.randint(1, 12))
        yield (
            f"teller-{rng.randint(1, 5)}",
            rng.choice(("login", "view", "export")),
            rng.choice((None, "account")),
            seen_at,
        )


def _insert(cursor: "pymysql.cursors.Cursor", table: str, rows: Iterable[Sequence[object]]) -> None:
    batch: list[Sequence[object]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == ROWS_PER_INSERT:
            _insert_batch(cursor, table, batch)
            batch = []
    if batch:
        _insert_batch(cursor, table, batch)


def _insert_batch(cursor: "pymysql.cursors.Cursor", table: str, rows: list[Sequence[object]]) -> None:
    marks = "(" + ",".join(["%s"] * len(rows[0])) + ")"
    cursor.execute(
        f"INSERT INTO {table} VALUES {','.join([marks] * len(rows))}",  # table names are this module's own
        [value for row in rows for value in row],
    )
