"""The invariants (RELIABILITY 1.2), looked at after every commit of the destination."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from seamline.adapters.memory_sink import MemoryDestination
from seamline.domain.ledger import LedgerRow
from tests.fault.simulator.bank_source import CURRENCIES, OPENING, BankSource, State
from tests.fault.simulator.schedule import KnownGap, Violation
from tests.fault.simulator.topic import Capture
from tests.log_topic import STREAM


class Checks:
    """Compares a destination with the model. `tally` counts what was really compared."""

    def __init__(self, source: BankSource, capture: Capture, destination: MemoryDestination, tally: Counter[str]):
        self._source = source
        self._capture = capture
        self._destination = destination
        self._tally = tally
        self.newest_epoch = 0
        self.published_epoch = 0

    def after_acquire(self, epoch: int) -> None:
        if epoch <= self.newest_epoch:
            raise Violation("I6 epoch", f"epoch {epoch} was given out after {self.newest_epoch}")
        self.newest_epoch = epoch
        self.state()

    def after_publish(self, before: LedgerRow | None, after: LedgerRow) -> None:
        """Whole tables are put in place: the one step that may take readers back to an earlier state."""
        if before is not None and self._source.covered_by(after.position) < self._source.covered_by(before.position):
            self._tally["published an earlier position"] += 1
        self.published_epoch = after.epoch
        self.after_acquire(after.epoch)

    def after_commit(self, before: LedgerRow, epoch: int) -> None:
        """A commit of the stream has had its effect."""
        after = self._destination.ledgers[STREAM]
        if epoch != self.newest_epoch or after.epoch < self.newest_epoch:
            raise Violation("I6 epoch", f"a commit of epoch {epoch} took effect under epoch {self.newest_epoch}")
        if after.next_offset < before.next_offset:
            raise Violation("I6 position", f"the offset fell from {before.next_offset} to {after.next_offset}")
        was, now = (self._source.covered_by(row.position) for row in (before, after))
        if now < was:
            raise Violation("I6 position", f"the position fell from transaction {was} to {now}")
        self._nothing_beyond(before, after)
        self.state()

    def _nothing_beyond(self, before: LedgerRow, after: LedgerRow) -> None:
        lost_at = self._capture.lost_at
        if lost_at is None or self._capture.is_another_log or not before.next_offset <= lost_at < after.next_offset:
            return
        said = f"applied up to {after.next_offset} although the log is lost at {lost_at}"
        disordered = self._capture.disordered
        if disordered and before.is_catching_up and max(disordered) <= self._snapshot(after):
            # Units that the snapshot covers are dropped, in any order and as often as they come.
            raise KnownGap("covered units in disorder are dropped", said)
        raise Violation("I9 nothing beyond", said)

    def state(self) -> None:
        """I1, I2, I3: the destination is what the source was at the ledger's position, row for row."""
        ledger = self._destination.ledgers[STREAM]
        if self._is_torn(ledger):
            return
        if self._destination.findings:
            raise Violation("findings", f"{self._destination.findings[0]}")
        self._place(ledger)
        self.equal(held_by(self._destination), self._source.covered_by(ledger.position), "I3 state")
        self._sums()
        self._tally["states compared"] += 1

    def equal(self, found: Mapping[str, Any], number: int, check: str) -> None:
        expected = as_held(self._source.states[number])
        for table, rows in expected.items():
            if found[table] != rows:
                raise Violation(check, f"{table} after transaction {number}: {difference(found[table], rows)}")

    def at_end(self) -> None:
        """I4, I5: everything that was committed is there, once."""
        last = len(self._source.commits)
        self.equal(held_by(self._destination), last, "I4 end")
        ledger = self._destination.ledgers[STREAM]
        if self._source.covered_by(ledger.position) != last:
            raise Violation("I4 end", f"the ledger ends at {ledger.position}, the source at transaction {last}")
        if ledger.is_catching_up:
            raise Violation("I4 end", "boundaries are still open although their high marker was passed")
        self._tally["ends compared"] += 1

    def _is_torn(self, ledger: LedgerRow) -> bool:
        torn_from = self._capture.torn_from
        return torn_from is not None and ledger.next_offset > torn_from

    def _place(self, ledger: LedgerRow) -> None:
        """Offset and position of the ledger tell the same place, once the snapshot's is passed."""
        if self._capture.is_another_log:
            return
        by_offset = max(self._snapshot(ledger), self._capture.applied(ledger.next_offset))
        by_position = self._source.covered_by(ledger.position)
        if by_offset != by_position:
            raise Violation("I6 position", f"offset says transaction {by_offset}, position says {by_position}")

    def _snapshot(self, ledger: LedgerRow) -> int:
        return max(self._source.covered_by(boundary.position) for boundary in ledger.boundaries)

    def _sums(self) -> None:
        held: Counter[str] = Counter()
        for row in self._destination.keyed["account"].values():
            held[row["ccy"]] += row["balance"]
        if held != {ccy: OPENING * sum(held_once(self._source, ccy)) for ccy in CURRENCIES}:
            raise Violation("I1 sums", f"balances sum to {dict(held)}")
        legs: Counter[int] = Counter()
        for row in self._destination.keyed["entry"].values():
            legs[row["tx"]] += row["amount"]
        if any(legs.values()):
            raise Violation("I2 legs", f"entries do not cancel out: {+legs} {-legs}")


def held_once(source: BankSource, ccy: str) -> list[int]:
    """One for each account that the bank opened in a currency."""
    return [1 for row in source.states[0].account.values() if row["ccy"] == ccy]


def held_by(destination: MemoryDestination) -> dict[str, Any]:
    return {
        "account": destination.keyed.get("account", {}),
        "entry": destination.keyed.get("entry", {}),
        "audit": +destination.keyless.get("audit", Counter()),
    }


def as_held(state: State) -> dict[str, Any]:
    return {"account": state.account, "entry": state.entry, "audit": +state.audit}


def difference(found: Mapping[Any, Any], rows: Mapping[Any, Any]) -> str:
    wrong = [key for key in found.keys() | rows.keys() if found.get(key) != rows.get(key)]
    key = min(wrong, key=str)
    return f"{len(wrong)} differ, first {key}: holds {found.get(key)}, the source had {rows.get(key)}"
