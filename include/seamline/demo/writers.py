"""Seeded writers that keep the demo bank busy: `python -m seamline.demo.writers`.

Eight sessions in one process, until SIGTERM or SIGINT: together about 100 transactions a second, and in a small bank
one for every nine of its accounts. A session that loses its server comes back by itself. Money only moves: the sum of
balances per currency never changes.
"""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pymysql
import pymysql.cursors

from seamline import settings
from seamline.adapters import connections
from seamline.demo.bank import CURRENCIES, RESERVE_ACCOUNTS, connect, currency_of

WRITERS = 8
TRANSACTIONS_PER_S_MAX = 100.0
# So a bank of 1,000 has the whole rate.
ACCOUNTS_PER_TRANSACTION = 9
# Of one writer, at the whole rate.
PAUSE_S_MIN = WRITERS / TRANSACTIONS_PER_S_MAX
TIMEZONE = ZoneInfo("Asia/Shanghai")
RECONNECT_S = 1.0

Cursor = pymysql.cursors.Cursor
Work = Callable[["Writer", Cursor], None]


class Writer:
    """One session with its own random numbers; `counts` says what was committed."""

    def __init__(self, number: int, seed: int) -> None:
        self.number = number
        self.rng = random.Random(seed * 1_000 + number)
        self.counts: Counter[str] = Counter()
        self.accounts: dict[str, list[int]] = {}
        self.orders: list[int] = []

    def learn(self, cursor: Cursor) -> None:
        cursor.execute("SELECT id FROM account WHERE id > %s", (RESERVE_ACCOUNTS,))
        ids = [row[0] for row in cursor.fetchall()]
        self.accounts = {currency: [i for i in ids if currency_of(i) == currency] for currency in CURRENCIES}

    @property
    def pause_s(self) -> float:
        """Between the beginnings of two transactions, at this writer's share of the rate."""
        accounts = sum(map(len, self.accounts.values()))
        return max(PAUSE_S_MIN, WRITERS * ACCOUNTS_PER_TRANSACTION / accounts)

    def one_transaction(self, session: "pymysql.Connection[Cursor]") -> None:
        kind = self.rng.choices(list(MIX), [share for share, _ in MIX.values()])[0]
        with session.cursor() as cursor:
            MIX[kind][1](self, cursor)
        if kind == "rolled_back":
            session.rollback()
        else:
            session.commit()
        self.counts[kind] += 1


def transfer(writer: Writer, cursor: Cursor) -> None:
    """Two to eight legs that add up to zero; accounts are locked in one order, so writers wait and never deadlock."""
    rng = writer.rng
    currency = rng.choice(CURRENCIES)
    accounts = sorted(rng.sample(writer.accounts[currency], rng.choice((2, 2, 2, 3, 4, 8))))
    amounts = [Decimal(rng.randint(1, 1_000_000)).scaleb(-4) for _ in accounts[1:]]
    signed = [-sum(amounts, Decimal(0)), *amounts]
    number = time.time_ns() // 1_000 * WRITERS + writer.number
    for account, amount in zip(accounts, signed, strict=True):
        cursor.execute(
            "UPDATE account SET balance = balance + %s, updated_at = NOW(6) WHERE id = %s", (amount, account)
        )
    memo = rng.choice((None, "", "live", "直播 📈"))
    rows = [(number, account, currency, amount, memo) for account, amount in zip(accounts, signed, strict=True)]
    cursor.executemany(
        "INSERT INTO ledger_entry (transfer_id, account_id, currency, amount, memo) VALUES (%s, %s, %s, %s, %s)", rows
    )


def new_order(writer: Writer, cursor: Cursor) -> None:
    account = writer.rng.choice(writer.accounts[writer.rng.choice(CURRENCIES)])
    now = datetime.now(UTC)
    cursor.execute(
        "INSERT INTO payment_order (account_id, currency, amount, status, business_date, reference, created_at) "
        "VALUES (%s, %s, %s, 'new', %s, %s, %s)",
        (
            account,
            currency_of(account),
            Decimal(writer.rng.randint(1, 9_000_000)).scaleb(-4),
            now.astimezone(TIMEZONE).date(),
            f"LIVE-{writer.number}-{now:%H%M%S%f}",
            now.replace(tzinfo=None),
        ),
    )
    writer.orders = [*writer.orders[-99:], int(cursor.lastrowid or 0)]


def advance_order(writer: Writer, cursor: Cursor) -> None:
    if not writer.orders:
        new_order(writer, cursor)
        return
    status = writer.rng.choice(("sent", "settled", "rejected"))
    cursor.execute("UPDATE payment_order SET status = %s WHERE id = %s", (status, writer.rng.choice(writer.orders)))


def audit(writer: Writer, cursor: Cursor) -> None:
    """Adds a few identical rows, or takes exactly one of identical rows away."""
    row = (f"teller-{writer.number + 10}", writer.rng.choice(("login", "view", "export")))
    if writer.rng.random() < 0.3:
        cursor.execute("DELETE FROM access_audit WHERE actor = %s AND action = %s LIMIT 1", row)
    else:
        at = datetime.now(UTC).replace(minute=0, second=0, microsecond=0, tzinfo=None)
        cursor.executemany(
            "INSERT INTO access_audit VALUES (%s, %s, NULL, %s)", [(*row, at)] * writer.rng.randint(1, 3)
        )


def new_key(writer: Writer, cursor: Cursor) -> None:
    """An order changes its primary key: a delete and an insert in the log, inside one transaction."""
    if not writer.orders:
        new_order(writer, cursor)
    old = writer.orders.pop()
    fresh = time.time_ns() // 1_000 * WRITERS + writer.number
    cursor.execute("UPDATE payment_order SET id = %s WHERE id = %s", (fresh, old))


def reinsert(writer: Writer, cursor: Cursor) -> None:
    """Delete and insert of one key in one transaction."""
    if not writer.orders:
        new_order(writer, cursor)
    order = writer.rng.choice(writer.orders)
    cursor.execute("SELECT * FROM payment_order WHERE id = %s FOR UPDATE", (order,))
    row = cursor.fetchone()
    if row is not None:
        cursor.execute("DELETE FROM payment_order WHERE id = %s", (order,))
        cursor.execute(f"INSERT INTO payment_order VALUES ({','.join(['%s'] * len(row))})", row)


MIX: dict[str, tuple[float, Work]] = {
    "transfer": (70, transfer),
    "new_order": (10, new_order),
    "advance_order": (8, advance_order),
    "audit": (5, audit),
    "rolled_back": (4, transfer),
    "new_key": (1.5, new_key),
    "reinsert": (1.5, reinsert),
}


def write_until(stop: threading.Event, writer: Writer, *, pause_s: float | None = None) -> None:
    """Commit every `pause_s` (None: at the writer's share of the rate); a lost server or a deadlock costs a pause,
    never the writer."""
    while not stop.is_set():
        try:
            session = connect(connections.resolve("bank_app"))
            try:
                with session.cursor() as cursor:
                    writer.learn(cursor)
                session.commit()
                due = time.monotonic()
                while not stop.is_set():
                    writer.one_transaction(session)
                    due = max(due + (pause_s or writer.pause_s), time.monotonic() - 1)
                    stop.wait(max(0.0, due - time.monotonic()))
            finally:
                session.close()
        except pymysql.MySQLError:
            writer.counts["lost"] += 1
            stop.wait(RECONNECT_S)


def main() -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    settings.load()
    writers = [Writer(number, seed=7) for number in range(WRITERS)]
    threads = [
        threading.Thread(target=write_until, args=(stop, writer), name=f"writer-{writer.number}") for writer in writers
    ]
    for thread in threads:
        thread.start()
    while not stop.wait(10):
        print(dict(sum((writer.counts for writer in writers), Counter())), flush=True)
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
