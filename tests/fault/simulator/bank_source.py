"""The model source: a bank that a seed determines, which knows its tables after every transaction it committed."""

import random
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.position import Position
from seamline.ports import Marker
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.postgres.position import PostgresPosition
from tests.bank_history import text_of
from tests.fault.simulator.unavailable_values import BODIES, NOTE
from tests.log_topic import Change, delete, insert, position, update

Row = dict[str, Any]


def _integer(name: str) -> Column:
    return Column(name, Kind.INTEGER, "bigint", nullable=False, length=64)


_CCY = Column("ccy", Kind.CHAR, "char(3)", nullable=False, length=3)
ACCOUNT = Table("account", (_integer("id"), _CCY, _integer("balance")), ("id",))
ENTRY = Table("entry", (_integer("tx"), _integer("leg"), _CCY, _integer("amount")), ("tx", "leg"))
AUDIT = Table("audit", (Column("action", Kind.STRING, "text"),))
TABLES = (ACCOUNT, ENTRY, AUDIT, NOTE)

_NAMES = {table.name for table in TABLES}

ACCOUNTS_PER_CURRENCY = 3
CURRENCIES = ("EUR", "CNY")
OPENING = 1_000
LARGE_ROWS = 24
NOTES_MAX = 6
WIDTH = 1 << 32


class Log(Enum):
    BINLOG = "binlog"
    WAL = "wal"


@dataclass(slots=True)
class State:
    """The source's tables at one moment, as a destination in memory keeps them."""

    account: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    entry: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    audit: Counter[str] = field(default_factory=Counter)
    note: dict[tuple[Any, ...], Row] = field(default_factory=dict)

    def copy(self) -> "State":
        # Rows are never changed in place.
        return State(dict(self.account), dict(self.entry), Counter(self.audit), dict(self.note))


@dataclass(frozen=True, slots=True)
class Transaction:
    """Number `n` of the source, in commit order. `xid` and the LSNs are of a WAL, where rows lie before the commit."""

    number: int
    changes: tuple[Change, ...]
    marker: Marker | None = None
    truncated: str = ""
    xid: int = 0
    row_lsn: int = 0
    commit_lsn: int = 0

    @property
    def rows(self) -> int:
        return sum(change.table in _NAMES for change in self.changes)


@dataclass(slots=True)
class BankSource:
    """`states[n]`: the tables after transaction n; `states[0]` before the first."""

    dice: random.Random
    log: Log
    commits: list[Transaction] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    markers: dict[str, int] = field(default_factory=dict)
    now: State = field(default_factory=State)
    _running: list[tuple[int, int]] = field(default_factory=list)
    _next_xid: int = 0
    _lsn: int = 0
    _transfers: int = 0

    def __post_init__(self) -> None:
        # Some sources stand just before the 32 bits of an xid begin again.
        self._next_xid = self.dice.choice([700, 3 * WIDTH - 8])
        self._lsn = 0x5000_0000
        for number in range(ACCOUNTS_PER_CURRENCY * len(CURRENCIES)):
            row = {"id": number, "ccy": CURRENCIES[number % len(CURRENCIES)], "balance": OPENING}
            self.now.account[(number,)] = row
        for action in ("a", "a", "b"):
            self.now.audit[text_of({"action": action})] += 1
        for number in range(3):
            self.now.note[(number,)] = {"id": number, "title": "a", "body": self.dice.choice(BODIES)}
        self.states.append(self.now.copy())

    def position(self) -> Position:
        """Of a read view that is opened now."""
        if self.log is Log.BINLOG:
            return position(len(self.commits))
        running = tuple(sorted(xid for xid, _ in self._running))
        xmin = min(running, default=self._next_xid)
        # A slot's snapshot takes its xmax from the commits that it decoded: with nothing running it may lie below xmin.
        xmax = self._next_xid if running else xmin - self.dice.choice([0, 0, 1, 2])
        return PostgresPosition(self._lsn, None, xmin, xmax, running)

    def covered_by(self, at: Position) -> int:
        """How many transactions a position includes: the model's own reckoning, which asks the product nothing."""
        if isinstance(at, BinlogPosition):
            return int(at.gtid.rpartition("-")[2] or 0)
        if at.xmax:
            return sum(
                one.xid < at.xmin or (one.xid < at.xmax and one.xid not in at.in_progress) for one in self.commits
            )
        return sum(one.commit_lsn <= at.lsn for one in self.commits)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def commit_marker(self, marker: Marker) -> None:
        if marker.id not in self.markers:
            self.markers[marker.id] = len(self.commits) + 1
            self._commit((), marker=marker)

    def commit_any(self) -> None:
        """Commit a transaction of a kind that the dice choose."""
        kind = self.dice.choices(list(_KINDS), weights=list(_KINDS.values()))[0]
        if kind == "truncate":
            emptied = self.dice.choice(["audit", "note"])
            getattr(self.now, emptied).clear()
            self._commit((), truncated=emptied)
        elif kind == "marker":
            # Of another sync: every stream of the source reads it.
            number = len(self.commits)
            self.commit_marker(Marker(f"other-{number}", self.dice.choice(["low", "high", "heartbeat", "barrier"])))
        else:
            changes: list[Change] = []
            getattr(self, f"_{kind}")(changes)
            self._commit(tuple(changes))

    def commit_nothing(self) -> None:
        self._commit(())

    def _commit(self, changes: tuple[Change, ...], *, marker: Marker | None = None, truncated: str = "") -> None:
        xid, row_lsn = self._run_transactions()
        self._lsn += self.dice.randint(8, 200)
        number = len(self.commits) + 1
        self.commits.append(Transaction(number, changes, marker, truncated, xid, row_lsn, self._lsn))
        self.states.append(self.now.copy())

    def _run_transactions(self) -> tuple[int, int]:
        """Begin some, roll some back; gives the one that commits now, which need not be the oldest."""
        for _ in range(self.dice.choice([0, 1, 1, 2]) + (not self._running)):
            self._lsn += self.dice.randint(8, 200)
            self._running.append((self._next_xid, self._lsn))
            self._next_xid += 1
        while len(self._running) > 4:
            self._running.pop(self.dice.randrange(len(self._running)))
        return self._running.pop(self.dice.randrange(len(self._running)))

    # ---- kinds of transactions --------------------------------------------------------------------------------------

    def _transfer(self, changes: list[Change]) -> None:
        ccy = self.dice.choice(CURRENCIES)
        keys = [key for key, row in self.now.account.items() if row["ccy"] == ccy]
        legs = self.dice.sample(keys, min(len(keys), self.dice.randint(2, 4)))
        self._transfers += 1
        amounts = [self.dice.randint(-90, 90) for _ in legs[1:]]
        for leg, (key, amount) in enumerate(zip(legs, [-sum(amounts), *amounts], strict=True)):
            known = self.now.account[key]
            self._put_account(changes, known, {**known, "balance": known["balance"] + amount})
            self._insert_entry(changes, {"tx": self._transfers, "leg": leg, "ccy": ccy, "amount": amount})
        self._write_audit(changes)

    def _move(self, changes: list[Change]) -> None:
        """Changes of key, one after the other into the place that the one before has left."""
        free = max(key[0] for key in self.now.account) + 1
        for key in self.dice.sample(list(self.now.account), 2):
            known = self.now.account[key]
            self._put_account(changes, known, {**known, "id": free})
            free = key[0]

    def _reinsert(self, changes: list[Change]) -> None:
        known = self._any_entry()
        if known is not None:
            changes += [delete(ENTRY, **known), insert(ENTRY, **known)]

    def _erase(self, changes: list[Change]) -> None:
        known = self._any_entry()
        for key in [key for key in self.now.entry if known is not None and key[0] == known["tx"]]:
            changes.append(delete(ENTRY, **self.now.entry.pop(key)))

    def _same(self, changes: list[Change]) -> None:
        known = self.dice.choice(list(self.now.account.values()))
        changes.append(update(ACCOUNT, known, known))

    def _note(self, changes: list[Change]) -> None:
        """One of several identical rows goes, or is changed."""
        known = sorted(self.now.audit)
        if known:
            action = self.dice.choice(known)
            self.now.audit -= Counter([action])
            row = {"action": action.split('"')[3]}
            if self.dice.random() < 0.5:
                changes.append(delete(AUDIT, **row))
            else:
                changes.append(update(AUDIT, row, {"action": "c"}))
                self.now.audit[text_of({"action": "c"})] += 1
        self._write_audit(changes)

    def _large(self, changes: list[Change]) -> None:
        of_money = [self._transfer, self._transfer, self._note, self._reinsert]
        of_notes = [self._write_note, self._rename]
        kinds = self.dice.choice([of_money, of_money, [*of_money, *of_notes], of_notes])
        while len(changes) < LARGE_ROWS:
            self.dice.choice(kinds)(changes)

    def _notes(self, changes: list[Change]) -> None:
        for _ in range(self.dice.randint(1, 3)):
            self._write_note(changes)

    def _rename(self, changes: list[Change]) -> None:
        """Notes change their keys, some one after the other, some with each other, some after a change of a value."""
        free = sorted({(number,) for number in range(NOTES_MAX)} - self.now.note.keys())
        if not free or not self.now.note:
            return
        if self.dice.random() < 0.5:
            self._change_note(changes, self.dice.choice(list(self.now.note)))
        first = self.dice.choice(list(self.now.note))
        self._move_note(changes, first, free[0])
        if self.dice.random() < 0.5 and len(self.now.note) > 1:
            second = self.dice.choice([key for key in self.now.note if key != free[0]])
            self._move_note(changes, second, first)
            first = second
        if self.dice.random() < 0.5:
            self._move_note(changes, free[0], first)

    def _write_note(self, changes: list[Change]) -> None:
        """A note is written, changed, or torn up; of a changed one the large body mostly stays what it was."""
        kind = self.dice.choice(["insert", "change", "change", "delete"])
        free = [number for number in range(NOTES_MAX) if (number,) not in self.now.note]
        if free and (kind == "insert" or not self.now.note):
            row = {"id": self.dice.choice(free), "title": "a", "body": self.dice.choice(BODIES)}
            changes.append(insert(NOTE, **row))
            self.now.note[(row["id"],)] = row
            return
        key = self.dice.choice(list(self.now.note))
        if kind == "delete":
            changes.append(delete(NOTE, **self.now.note.pop(key)))
        else:
            self._change_note(changes, key)

    def _change_note(self, changes: list[Change], key: tuple[Any, ...]) -> None:
        known = self.now.note[key]
        body = self.dice.choice(BODIES) if self.dice.random() < 0.3 else known["body"]
        row = self.now.note[key] = {**known, "title": self.dice.choice("abc"), "body": body}
        changes.append(update(NOTE, known, row))

    def _move_note(self, changes: list[Change], key: tuple[Any, ...], free: tuple[Any, ...]) -> None:
        known = self.now.note.pop(key)
        row = self.now.note[free] = {**known, "id": free[0], "title": self.dice.choice("abc")}
        changes.append(update(NOTE, known, row))

    def _nothing(self, changes: list[Change]) -> None:
        return

    def _foreign(self, changes: list[Change]) -> None:
        changes.append(Change("elsewhere", after={"x": 1}))
        if self.dice.random() < 0.5:
            self._write_audit(changes)

    def _any_entry(self) -> Row | None:
        return self.dice.choice(list(self.now.entry.values())) if self.now.entry else None

    def _put_account(self, changes: list[Change], known: Row, row: Row) -> None:
        changes.append(update(ACCOUNT, known, row))
        del self.now.account[(known["id"],)]
        self.now.account[(row["id"],)] = row

    def _insert_entry(self, changes: list[Change], row: Row) -> None:
        changes.append(insert(ENTRY, **row))
        self.now.entry[(row["tx"], row["leg"])] = row

    def _write_audit(self, changes: list[Change]) -> None:
        row = {"action": self.dice.choice("aab")}
        changes.append(insert(AUDIT, **row))
        self.now.audit[text_of(row)] += 1


_KINDS = {
    "transfer": 10,
    "move": 3,
    "reinsert": 2,
    "erase": 1,
    "same": 1,
    "note": 3,
    "notes": 3,
    "rename": 3,
    "large": 1,
    "nothing": 2,
    "foreign": 2,
    "truncate": 1,
    "marker": 2,
}
