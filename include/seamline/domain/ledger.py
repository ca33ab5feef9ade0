"""What a destination says of itself: the only authority on progress (rule 1)."""

from dataclasses import dataclass

from seamline.domain.cutover import Boundary
from seamline.domain.errors import WentBack
from seamline.domain.position import Position


@dataclass(frozen=True, slots=True)
class StreamId:
    """One sync into one destination. Its text is the ledger's key."""

    sync: str
    destination: str

    def __str__(self) -> str:
        return f"{self.sync}@{self.destination}"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """`next_offset` is the first log-topic offset not yet applied; `position` that of the last transaction applied."""

    stream: StreamId
    topic: str
    topic_id: str
    next_offset: int
    position: Position
    epoch: int
    applied_transactions: int
    committed_ms: int
    boundaries: tuple[Boundary, ...] = ()
    last_marker: str = ""

    @property
    def is_catching_up(self) -> bool:
        """Until the largest boundary is passed the tables stand at different positions."""
        return any(not boundary.ended for boundary in self.boundaries)


def refuse_one_that_went_back(found: LedgerRow, *, confirmed: LedgerRow) -> None:
    """WentBack if `found` stands before `confirmed`, a row that the destination reported earlier.

    A ledger never lowers its epoch, nor its offset within one. So the destination was restored, or it failed over to a
    replica that was behind.
    """
    if (found.epoch, found.next_offset) < (confirmed.epoch, confirmed.next_offset):
        stream = found.stream
        raise WentBack(
            f"destination {stream.destination} went back: the ledger of {stream} stands at offset {found.next_offset}"
            f" under epoch {found.epoch}, and it had confirmed offset {confirmed.next_offset} under epoch"
            f" {confirmed.epoch}",
            hint="nothing of the source is lost: once the restore or the failover is over, `seamline stream restart"
            f" {stream.sync} {stream.destination}` goes on from this ledger, as far as the log is kept; then reconcile",
            sync=stream.sync,
            position=str(found.position),
        )
