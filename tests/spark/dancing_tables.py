"""Five tables of a PostgreSQL that every transaction changes, all by one rule: the number of the newest transaction
says what each row of each table must be.

`account`: keyed; its balances sum up to the same at all times. `booking`: its key changes. `audit`: without a key, with
rows that are alike. `day`: all of it is new in each transaction, now and then behind a TRUNCATE. `wide`: a column of
each type.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.integration import postgres_kinds

TABLES = ("account", "audit", "booking", "day", "wide")
ACCOUNTS, WIDE_ROWS, DAY_ROWS = 20, 8, 3
OPENING = Decimal("1000.0000")
# A booking's key changes behind so many transactions, and the row goes behind so many.
_MOVES_AFTER, _GOES_AFTER, _MOVED_BY = 5, 40, 1_000_000
# A transaction with a TRUNCATE is a span of its own, hence a commit.
_TRUNCATED_EVERY = 25
_WIDE = postgres_kinds.rows(postgres_kinds.fits_a_lake)
SCHEMA = (
    *postgres_kinds.TYPES,
    "CREATE TABLE account (id bigint PRIMARY KEY, balance numeric(20,4) NOT NULL, tx bigint NOT NULL)",
    "CREATE TABLE booking (code varchar(20), n bigint, tx bigint NOT NULL, amount numeric(20,4) NOT NULL,"
    " PRIMARY KEY (code, n))",
    "CREATE TABLE audit (tx bigint, said text)",
    "ALTER TABLE audit REPLICA IDENTITY FULL",
    "CREATE TABLE day (id int PRIMARY KEY, tx bigint NOT NULL)",
    postgres_kinds.create_table("wide", key="id bigint PRIMARY KEY, tx bigint NOT NULL, "),
)
Row = tuple[Any, ...]


@dataclass
class DancingTables:
    """The tables behind transaction `number`."""

    number: int = 0
    _account: dict[int, Row] = field(default_factory=dict)
    _booking: dict[tuple[str, int], Row] = field(default_factory=dict)
    _audit: Counter[Row] = field(default_factory=Counter)
    _wide: dict[int, Row] = field(default_factory=dict)

    def rows(self) -> Mapping[str, Counter[Row]]:
        """Of `wide` only key and transaction: its other columns are held against the source."""
        day = [(number, self.number) for number in range(DAY_ROWS)] if self.number else []
        return {
            "account": Counter(self._account.values()),
            "audit": +self._audit,
            "booking": Counter(self._booking.values()),
            "day": Counter(day),
            "wide": Counter(self._wide.values()),
        }

    def step(self) -> list[str]:
        """The statements of the next transaction, which is applied here."""
        self.number += 1
        return [*self._accounts(), *self._bookings(), *self._audits(), *self._days(), *self._wides()]

    def advance(self, number: int) -> None:
        while self.number < number:
            self.step()

    def _accounts(self) -> Iterator[str]:
        now = self.number
        if now == 1:
            for one in range(ACCOUNTS):
                self._account[one] = (one, OPENING, now)
                yield f"INSERT INTO account VALUES ({one}, {OPENING}, {now})"
            return
        dice = random.Random(now)
        amount = Decimal(dice.randrange(1, 50_000)) / 10_000
        for one, change in zip(dice.sample(range(ACCOUNTS), 2), (amount, -amount), strict=True):
            balance = self._account[one][1] + change
            self._account[one] = (one, balance, now)
            yield f"UPDATE account SET balance = {balance}, tx = {now} WHERE id = {one}"

    def _bookings(self) -> Iterator[str]:
        now = self.number
        self._booking["ü", now] = ("ü", now, now, Decimal(now))
        yield f"INSERT INTO booking VALUES ('ü', {now}, {now}, {now})"
        if (moved := now - _MOVES_AFTER) > 0:
            code, n, tx, amount = self._booking.pop(("ü", moved))
            self._booking[code, n + _MOVED_BY] = (code, n + _MOVED_BY, tx, amount)
            yield f"UPDATE booking SET n = n + {_MOVED_BY} WHERE code = 'ü' AND n = {moved}"
        if (gone := now - _GOES_AFTER) > 0:
            del self._booking["ü", gone + _MOVED_BY]
            yield f"DELETE FROM booking WHERE code = 'ü' AND n = {gone + _MOVED_BY}"

    def _audits(self) -> Iterator[str]:
        """Three copies of each; one goes with the next transaction, the others later."""
        now = self.number
        self._audit[now, "same"] += 3
        yield f"INSERT INTO audit VALUES ({now}, 'same'), ({now}, 'same'), ({now}, 'same')"
        if now > 1:
            self._audit[now - 1, "same"] -= 1
            where = f"tx = {now - 1} LIMIT 1"
            yield f"DELETE FROM audit WHERE ctid IN (SELECT ctid FROM audit WHERE {where})"
        if (gone := now - _GOES_AFTER) > 0:
            del self._audit[gone, "same"]
            yield f"DELETE FROM audit WHERE tx = {gone}"

    def _days(self) -> Iterator[str]:
        yield "TRUNCATE day" if self.number % _TRUNCATED_EVERY == 0 else "DELETE FROM day"
        values = ", ".join(f"({number}, {self.number})" for number in range(DAY_ROWS))
        yield f"INSERT INTO day VALUES {values}"

    def _wides(self) -> Iterator[str]:
        now = self.number
        key = now % WIDE_ROWS
        self._wide[key] = (key, now)
        names = ["tx", *(case.name for case in postgres_kinds.CASES)]
        values = _WIDE[now % len(_WIDE)]
        there = ", ".join(f"{name} = EXCLUDED.{name}" for name in names)
        yield f"INSERT INTO wide VALUES ({key}, {now}, {values}) ON CONFLICT (id) DO UPDATE SET {there}"
