"""The exact-cutover rule: which changes came with the snapshot and which come from the log.

A snapshot is read at a position P. Every committed transaction of the source is either inside that read view or after
it, never both and never neither, and `is_covered` says which. The stream drops a covered change and applies every
other one; so each change reaches the destination exactly once. The decision is made by the *transaction*, never by a
row's own log address or a clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from seamline.domain.errors import LogCorrupted
from seamline.domain.position import Position


def is_covered(transaction: Position, snapshot: Position) -> bool:
    """Whether the transaction is inside the read view taken at `snapshot`. Each kind of position says so of itself."""
    return snapshot.sees(transaction)


@dataclass(frozen=True, slots=True)
class Boundary:
    """Per table and destination: changes covered by `position` came with the snapshot, the others come from the log.

    `high_marker` is the id of the marker committed after the last read view was open: once its transaction is applied
    nothing can be covered any more, the boundary has `ended` and the position rule is not asked again. `fingerprint` is
    that of the table as it was loaded; "" where an earlier version has loaded it.
    """

    table: str
    position: Position
    generation: int = 1
    high_marker: str = ""
    ended: bool = False
    fingerprint: str = ""


@dataclass(slots=True)
class BoundaryGate:
    """Decides transaction by transaction, in log order, which tables' changes to keep; ends each boundary at its high
    marker.

    Coverage flips once per table: a covered transaction after an uncovered one is `LogCorrupted`.
    """

    boundaries: Mapping[str, Boundary]
    _passed: set[str] = field(default_factory=set)
    _ended: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._ended.update(name for name, boundary in self.boundaries.items() if boundary.ended)

    @property
    def is_open(self) -> bool:
        """Whether at least one boundary still asks the position rule."""
        return len(self._ended) < len(self.boundaries)

    def expects_covered(self, position: Position) -> bool:
        """Whether a stream at `position` may still get transactions from before it.

        It may if every table came with a snapshot that covers them. Otherwise, as beside tables that joined later, they
        would count twice.
        """
        return self.is_open and all(
            name not in self._ended and boundary.position.covers(position) for name, boundary in self.boundaries.items()
        )

    def keeps(self, table: str, transaction: Position) -> bool:
        """Whether changes of `table` in this transaction come from the log."""
        boundary = self.boundaries[table]
        if table in self._ended:
            return True
        if is_covered(transaction, boundary.position):
            if table in self._passed:
                raise LogCorrupted(
                    f"transaction {transaction} lies before boundary {boundary.position} although a later one was"
                    f" already applied",
                    hint="the log topic holds transactions out of order; onboard the sync again",
                    table=table,
                )
            return False
        self._passed.add(table)
        return True

    def end_at_marker(self, marker: str) -> tuple[str, ...]:
        """The tables whose boundary ends because this high marker was reached, each once."""
        ending = tuple(
            name
            for name, boundary in self.boundaries.items()
            if boundary.high_marker == marker and name not in self._ended
        )
        self._ended.update(ending)
        return ending
