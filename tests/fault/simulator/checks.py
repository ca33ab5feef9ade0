"""The invariants (RELIABILITY 1.2), looked at after every commit of the destination."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seamline.domain.catalogue import Table
from seamline.domain.ledger import LedgerRow, StreamId
from tests.bank_history import text_of
from tests.fault.simulator.bank_source import CURRENCIES, OPENING, TABLES, BankSource, State
from tests.fault.simulator.schedule import EndedEarly, Violation
from tests.fault.simulator.topic import Capture
from tests.log_topic import STREAM
from tests.memory_sink import MemoryDestination

COVERED_IN_DISORDER = "covered transactions in disorder are dropped"


@dataclass
class Course:
    """What was seen of one stream. `published`: transactions inside the snapshot that was published last."""

    newest_epoch: int = 0
    published_epoch: int = 0
    published: int = 0
    published_at: int = 0
    farthest: int = 0
    schema: str = ""


class Checks:
    """Compares a destination with the model. `tally` counts what was really compared."""

    def __init__(self, source: BankSource, capture: Capture, destination: MemoryDestination, tally: Counter[str]):
        self._source = source
        self._capture = capture
        self._destination = destination
        self._tally = tally
        self.courses: defaultdict[StreamId, Course] = defaultdict(Course)

    @property
    def published_epoch(self) -> int:
        return self.courses[STREAM].published_epoch

    def after_acquire(self, stream: StreamId, epoch: int) -> None:
        course = self.courses[stream]
        if epoch <= course.newest_epoch:
            raise Violation("I6 epoch", f"epoch {epoch} was given out after {course.newest_epoch}")
        course.newest_epoch = epoch
        self.state(stream)

    def after_publish(self, before: LedgerRow | None, after: LedgerRow, *, schema: str) -> None:
        """Whole tables are put in place: the one step that may take readers back to an earlier state."""
        course, covered = self.courses[after.stream], self._source.covered_by(after.position)
        if before is not None and covered < self._source.covered_by(before.position):
            self._tally["published an earlier position"] += 1
        if before is None:
            # Whoever publishes an incremental snapshot that is over and forgotten begins a new life of it.
            course.newest_epoch = 0
        course.published, course.published_at, course.schema = covered, after.next_offset, schema
        course.published_epoch = after.epoch
        course.farthest = max(course.farthest, after.next_offset)
        self.after_acquire(after.stream, after.epoch)

    def after_join(self, before: LedgerRow, after: LedgerRow) -> None:
        """Tables have entered or left: the stream is where it was, and under a new epoch."""
        if (before.next_offset, before.position) != (after.next_offset, after.position):
            raise Violation("I6 position", f"a joining moved the stream from {before.next_offset} to {after}")
        self.courses[STREAM].published_epoch = after.epoch
        self.after_acquire(STREAM, after.epoch)
        self._tally["joinings compared"] += 1

    def after_commit(self, before: LedgerRow, epoch: int) -> None:
        """A commit of a stream, or of an incremental snapshot, has had its effect."""
        course, after = self.courses[before.stream], self._destination.ledgers[before.stream]
        if epoch != course.newest_epoch or after.epoch < course.newest_epoch:
            raise Violation("I6 epoch", f"a commit of epoch {epoch} took effect under epoch {course.newest_epoch}")
        if after.next_offset < before.next_offset:
            raise Violation("I6 position", f"the offset fell from {before.next_offset} to {after.next_offset}")
        was, now = (self._source.covered_by(row.position) for row in (before, after))
        if now < was:
            raise Violation("I6 position", f"the position fell from transaction {was} to {now}")
        course.farthest = max(course.farthest, after.next_offset)
        if after.next_offset > max(self.courses[STREAM].farthest, course.published_at):
            raise Violation(
                "incremental snapshot ahead",
                f"an incremental snapshot stands at {after.next_offset}, where its stream never was",
            )
        self._nothing_beyond(before, after)
        self.state(before.stream)

    def _nothing_beyond(self, before: LedgerRow, after: LedgerRow) -> None:
        lost_at = self._capture.lost_at
        if lost_at is None or self._capture.is_another_log or not before.next_offset <= lost_at < after.next_offset:
            return
        missing = self._capture.missing
        if missing is not None and self._source.covered_by(before.position) >= missing:
            # It came with the snapshot.
            return
        disordered = self._capture.disordered
        loaded = [0 if found.ended else self._source.covered_by(found.position) for found in before.boundaries]
        if disordered and min(disordered) <= min(loaded):
            # Transactions that the snapshots of all tables cover are dropped, in any order and as often as they come;
            # and what came too early before such a one came in time.
            self.state(before.stream)
            raise EndedEarly(COVERED_IN_DISORDER)
        raise Violation("I9 nothing beyond", f"applied up to {after.next_offset} although the log is lost at {lost_at}")

    def state(self, stream: StreamId) -> None:
        """I1, I2, I3: each table is what the source's was at the ledger's position, or at its own snapshot's where that
        lies further, row for row."""
        ledger = self._destination.ledgers[stream]
        if self._destination.findings:
            raise Violation("findings", f"{self._destination.findings[0]}")
        self._place(ledger)
        held = held_by(self._destination, self.courses[stream].schema)
        # First, while they can still be the ones that see it: rows equal to the source's always sum up.
        self._sums(held)
        self._carried(ledger, held)
        place = self._source.covered_by(ledger.position)
        for boundary in ledger.boundaries:
            number = max(place, self._source.covered_by(boundary.position))
            self.equal({boundary.table: held[boundary.table]}, number, "I3 state")
        self._tally["states compared" if stream == STREAM else "states of an incremental snapshot compared"] += 1

    def _carried(self, ledger: LedgerRow, held: Mapping[str, Any]) -> None:
        """No table stands there that nobody carries, and none is missing that is carried."""
        carried = {boundary.table for boundary in ledger.boundaries}
        if carried != held.keys():
            raise Violation("I3 state", f"{sorted(carried)} are carried, {sorted(held)} are there")

    def equal(self, found: Mapping[str, Any], number: int, check: str) -> None:
        """Whether these tables are what the source's were after transaction `number`."""
        expected = as_held(self._source.states[number])
        for table, rows in found.items():
            if rows != expected[table]:
                raise Violation(check, f"{table} after transaction {number}: {difference(rows, expected[table])}")

    def at_end(self, carried: Collection[str]) -> None:
        """I4, I5: everything that was committed is there, once, in all tables that shall be there."""
        last = len(self._source.commits)
        held = held_by(self._destination)
        if held.keys() != set(carried):
            raise Violation("I4 end", f"{sorted(carried)} were wanted at the end, {sorted(held)} are there")
        self.equal(held, last, "I4 end")
        ledger = self._destination.ledgers[STREAM]
        if self._source.covered_by(ledger.position) != last:
            raise Violation("I4 end", f"the ledger ends at {ledger.position}, the source at transaction {last}")
        if ledger.is_catching_up:
            raise Violation("I4 end", "boundaries are still open although their high marker was passed")
        self._tally["ends compared"] += 1

    def _place(self, ledger: LedgerRow) -> None:
        """Offset and position of the ledger show the same place, once the published snapshot's is passed."""
        if self._capture.is_another_log:
            return
        by_offset = self._capture.applied(ledger.next_offset, published=self.courses[ledger.stream].published)
        by_position = self._source.covered_by(ledger.position)
        if by_offset != by_position:
            raise Violation("I6 position", f"offset says transaction {by_offset}, position says {by_position}")

    def _sums(self, held: Mapping[str, Any]) -> None:
        sums: Counter[str] = Counter()
        for row in held.get("account", {}).values():
            sums[row["ccy"]] += row["balance"]
        if "account" in held and sums != {ccy: OPENING * sum(held_once(self._source, ccy)) for ccy in CURRENCIES}:
            raise Violation("I1 sums", f"balances sum to {dict(sums)}")
        legs: Counter[int] = Counter()
        for row in held.get("entry", {}).values():
            legs[row["tx"]] += row["amount"]
        if any(legs.values()):
            raise Violation("I2 legs", f"entries do not cancel out: {+legs} {-legs}")


def held_once(source: BankSource, ccy: str) -> list[int]:
    """One for each account that the bank opened in a currency."""
    return [1 for row in source.states[0].account.values() if row["ccy"] == ccy]


def held_by(destination: MemoryDestination, schema: str = "") -> dict[str, Any]:
    """The tables in a schema of the destination, "" for the live ones; those that left have other names."""
    found: dict[str, Any] = {}
    for table in TABLES:
        place = f"{schema}.{table.name}" if schema else table.name
        if place in destination.state.tables:
            found[table.name] = as_rows(table, destination.state.tables[place].values())
    return found


def as_rows(table: Table, rows: Iterable[tuple[tuple[Any, ...], int]]) -> Any:
    """Rows and their copies as the model holds them: by their keys, or counted."""
    names = [column.name for column in table.columns]
    named = [(dict(zip(names, row, strict=True)), copies) for row, copies in rows]
    if table.is_keyed:
        return {tuple(row[name] for name in table.key): row for row, _ in named}
    return Counter({text_of(row): copies for row, copies in named})


def as_held(state: State) -> dict[str, Any]:
    return {"account": state.account, "entry": state.entry, "audit": +state.audit, "note": state.note}


def difference(found: Mapping[Any, Any], rows: Mapping[Any, Any]) -> str:
    wrong = [key for key in found.keys() | rows.keys() if found.get(key) != rows.get(key)]
    key = min(wrong, key=str)
    return f"{len(wrong)} differ, first {key}: holds {found.get(key)}, the source had {rows.get(key)}"
