"""The history checker: client history + what the warehouse saw at each commit + its last state → anomalies by class.

Pure: no server, no clock. It never answers "none" from nothing: a history, a list of commits or a dump that is empty
raises `NothingChecked`.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise

from seamline.domain.canonical import inexact_columns
from seamline.domain.catalogue import Kind, Table
from tests.fault.real.history import Attempt, AuditRow, Outcome

Texts = Mapping[str, str | None]


class NothingChecked(AssertionError):
    """A run without commits, attempts or rows proves nothing."""


class Anomaly(StrEnum):
    LOST = "lost"
    PHANTOM = "phantom"
    ABORTED_VISIBLE = "aborted-visible"
    TORN = "torn"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    STALE_EPOCH = "stale-epoch"
    UNEXPLAINED_STOP = "unexplained-stop"


@dataclass(frozen=True, slots=True)
class Found:
    anomaly: Anomaly
    said: str

    def __str__(self) -> str:
        return f"{self.anomaly}: {self.said}"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of the destination as its own trigger saw it. `place` grows with the source's log, `transactions`
    counts what was applied since the first publish.

    `publications`: how many publishes there were with this one; only a publish may take readers back. `owner_epoch`: by
    which epoch it was made, None where it was no stream's. `has_ledger`, `has_rows`: whether it wrote the ledger, and
    whether statements that change live rows were part of it.
    """

    number: int
    epoch: int
    next_offset: int
    place: int
    publications: int
    transactions: int
    wrong_sums: tuple[str, ...] = ()
    torn: tuple[int, ...] = ()
    gaps: tuple[int, ...] = ()
    transfers_checked: int = 0
    owner_epoch: int | None = None
    has_ledger: bool = True
    has_rows: bool = False
    is_catching_up: bool = False
    # Of a lake: tables whose pointers are not those of the ledger's state, in words.
    apart: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leg:
    transfer: int
    leg: int
    legs: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Dump:
    """The destination's rows at one position. `seq`: (writer, number) of its rows."""

    entries: Sequence[Leg]
    seq: Sequence[tuple[int, int]]
    audit: Mapping[AuditRow, int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of a stream's process. `code` as the process ended, `wanted` as whoever ended it wanted."""

    what: str
    code: int
    wanted: tuple[int, ...]


def check_commits(commits: Sequence[Commit]) -> list[Found]:
    """I1, I2 and I6 over commits in their order; the first one is only looked at by itself."""
    if not commits:
        raise NothingChecked("the warehouse has seen no commit")
    found = [one for commit in commits for one in _state(commit)]
    with_ledger = [commit for commit in commits if commit.has_ledger]
    return found + [one for before, after in pairwise(with_ledger) for one in _step(before, after)]


def check_stops(stops: Sequence[Stop]) -> list[Found]:
    return [
        Found(Anomaly.UNEXPLAINED_STOP, f"{stop.what} ended with {stop.code}, wanted {stop.wanted}")
        for stop in stops
        if stop.code not in stop.wanted
    ]


def value_differences(
    table: Table, keys: Sequence[str], wanted: Mapping[str, Texts], found: Mapping[str, Texts]
) -> list[str]:
    """I7: each value of each type in the rows of these keys, as both databases show it. Floating point numbers, whose
    exponents two servers write in two ways, must have the same bits."""
    if not wanted:
        return [f"{table.name}: no row was looked at"]
    return [
        f"{table.name}: row {key} is {found.get(key)}, wanted {wanted.get(key)}"
        for key in keys
        if not _are_alike(table, wanted.get(key), found.get(key))
    ]


def _are_alike(table: Table, wanted: Texts | None, found: Texts | None) -> bool:
    if wanted is None or found is None or wanted.keys() != found.keys():
        return wanted == found
    kinds = {column.name: column.kind for column in inexact_columns(table)}
    return all(
        found[name] == text or (name in kinds and _bits(kinds[name], text) == _bits(kinds[name], found[name]))
        for name, text in wanted.items()
    )


def _bits(kind: Kind, text: str | None) -> bytes:
    return b"" if text is None else struct.pack("f" if kind is Kind.FLOAT else "d", float(text))


def check_rows(history: Sequence[Attempt], dump: Dump) -> list[Found]:
    """I4 and I5: the dump is of a moment when everything that was committed should be there."""
    if not any(attempt.outcome is Outcome.OK for attempt in history):
        raise NothingChecked("no attempt has succeeded")
    if not dump.entries or not dump.seq:
        raise NothingChecked("the dump has no rows")
    return [*_transfers(history, dump), *_numbers(history, dump), *_multiset(history, dump)]


def check_window(attempts: Sequence[Attempt], dump: Dump) -> list[Found]:
    """I4 and I5 of these attempts alone, whose rows, and no others, are in the dump. Rows without a key show nobody's
    attempt: they are held against the whole history at the end."""
    if not any(attempt.outcome is Outcome.OK for attempt in attempts):
        raise NothingChecked("none of these attempts has succeeded")
    return [*_transfers(attempts, dump), *_numbers(attempts, dump)]


def _state(commit: Commit) -> Iterator[Found]:
    where = f"commit {commit.number} at offset {commit.next_offset}"
    if not commit.has_ledger:
        yield Found(Anomaly.TORN, f"commit {commit.number} changed rows and not the ledger")
    elif commit.owner_epoch not in (None, commit.epoch):
        yield Found(Anomaly.STALE_EPOCH, f"{where} was made by epoch {commit.owner_epoch}, the ledger's {commit.epoch}")
    if commit.apart:
        yield Found(Anomaly.TORN, f"{where}: {'; '.join(commit.apart)}")
    if commit.wrong_sums:
        yield Found(Anomaly.TORN, f"{where}: balances of {', '.join(commit.wrong_sums)} do not sum up")
    if commit.torn:
        yield Found(Anomaly.TORN, f"{where}: transfers not whole: {list(commit.torn[:5])}")
    if commit.gaps:
        yield Found(Anomaly.REORDERED, f"{where}: numbers are missing before later ones of writers {commit.gaps}")


def _step(before: Commit, after: Commit) -> Iterator[Found]:
    where = f"commit {after.number} (epoch {after.epoch}) after {before.number} (epoch {before.epoch})"
    if after.epoch < before.epoch:
        yield Found(Anomaly.STALE_EPOCH, where)
    if after.publications != before.publications:
        return
    if after.transactions > before.transactions and after.owner_epoch is None:
        yield Found(
            Anomaly.STALE_EPOCH, f"{where}: transactions were applied, and no session of a stream's owner did it"
        )
    # A worker that takes a new epoch writes the ledger and applies nothing, nor does one that stands for a comparison
    # and says how far it is. While boundaries are open it passes transactions that the snapshot covers: the position
    # stands.
    is_empty = after.transactions == before.transactions and not after.has_rows
    is_covered = after.is_catching_up and not after.has_rows
    steps = (
        ("offset", before.next_offset, after.next_offset, is_empty),
        ("position", before.place, after.place, is_empty or is_covered),
        ("count of transactions", before.transactions, after.transactions, is_empty),
    )
    for name, was, now, may_stand in steps:
        if now < was or (now == was and not may_stand):
            yield Found(Anomaly.REORDERED, f"{where}: the {name} went from {was} to {now}")


def _transfers(history: Sequence[Attempt], dump: Dump) -> Iterator[Found]:
    held: dict[int, list[Leg]] = {}
    for entry in dump.entries:
        held.setdefault(entry.transfer, []).append(entry)
    for attempt in history:
        rows = held.pop(attempt.attempt_id, [])
        if attempt.outcome is Outcome.FAIL and rows:
            yield Found(Anomaly.ABORTED_VISIBLE, f"{attempt.kind} {attempt.attempt_id} has {len(rows)} entries")
        elif attempt.outcome is Outcome.OK and attempt.legs and not rows:
            yield Found(Anomaly.LOST, f"{attempt.kind} {attempt.attempt_id} has no entries of {attempt.legs}")
        elif rows:
            yield from _whole(attempt, rows)
    for transfer, rows in held.items():
        yield Found(Anomaly.PHANTOM, f"nobody made transfer {transfer}, which has {len(rows)} entries")


def _whole(attempt: Attempt, rows: Sequence[Leg]) -> Iterator[Found]:
    numbers = Counter(row.leg for row in rows)
    twice = [leg for leg, copies in numbers.items() if copies > 1]
    if twice:
        yield Found(Anomaly.DUPLICATED, f"{attempt.kind} {attempt.attempt_id} has legs {twice} more than once")
    is_complete = set(numbers) == set(range(attempt.legs)) and all(row.legs == attempt.legs for row in rows)
    if not is_complete or (not twice and sum((row.amount for row in rows), Decimal(0))):
        yield Found(Anomaly.TORN, f"{attempt.kind} {attempt.attempt_id} has {len(rows)} entries of {attempt.legs}")


def _numbers(history: Sequence[Attempt], dump: Dump) -> Iterator[Found]:
    """One row of `seq` per committed transaction, numbered without a gap."""
    held = Counter(dump.seq)
    certain = {(one.writer, one.number) for one in history if one.outcome is Outcome.OK}
    possible = {(one.writer, one.number) for one in history if one.outcome is Outcome.INFO}
    for row, copies in held.items():
        if copies > 1:
            yield Found(Anomaly.DUPLICATED, f"writer {row[0]} has number {row[1]} {copies} times")
        if row not in certain and row not in possible:
            yield Found(Anomaly.PHANTOM, f"writer {row[0]} never committed number {row[1]}")
    for writer, number in sorted(certain - held.keys()):
        yield Found(Anomaly.LOST, f"writer {writer} committed number {number}, which is missing")


def _multiset(history: Sequence[Attempt], dump: Dump) -> Iterator[Found]:
    low, high, written = Counter[AuditRow](), Counter[AuditRow](), set[AuditRow]()
    for attempt in history:
        if attempt.outcome is Outcome.FAIL:
            continue
        for row, copies in attempt.audit.items():
            written.add(row)
            is_sure = attempt.outcome is Outcome.OK
            low[row] += copies if is_sure else min(copies, 0)
            high[row] += copies if is_sure else max(copies, 0)
    for row in sorted(high.keys() | dump.audit.keys()):
        copies = dump.audit.get(row, 0)
        if copies < low[row]:
            yield Found(Anomaly.LOST, f"{copies} rows {row} of {low[row]}")
        elif copies > high[row]:
            kind = Anomaly.DUPLICATED if row in written else Anomaly.PHANTOM
            yield Found(kind, f"{copies} rows {row}, wanted {high[row]}")
