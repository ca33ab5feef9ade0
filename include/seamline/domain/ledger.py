"""What a destination says of itself: the only authority on progress (rule 1)."""

from dataclasses import dataclass

from seamline.domain.cutover import Boundary
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
    """`next_offset` is the first log-topic offset not yet applied; `position` that of the last unit applied."""

    stream: StreamId
    topic: str
    topic_id: str
    next_offset: int
    position: Position
    epoch: int
    applied_units: int
    committed_ms: int
    boundaries: tuple[Boundary, ...] = ()
    last_marker: str = ""

    @property
    def is_catching_up(self) -> bool:
        """Until the largest boundary is passed the tables stand at different positions."""
        return any(not boundary.ended for boundary in self.boundaries)
