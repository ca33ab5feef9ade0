"""A hold: the lease by which a stream stands still for somebody, and how near it has to be before it is asked to.

The lease follows what has to be done under it. Its holder extends it while that goes on, up to a ceiling; a holder that
died extends nothing, so a hold always ends by itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from seamline.domain.ledger import StreamId
from seamline.ports import StreamDirector, StreamReport
from seamline.sync.clock import Clock
from seamline.sync.stream_state import state_in_words

# Of a stream that has not been measured: what even a slow one applies.
_RECORDS_PER_S_AT_LEAST = 100.0


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a stream is behind its source, by its newest report."""

    state: str
    lag_s: float
    records: int
    records_per_s: float
    age_s: float

    @staticmethod
    def of(report: StreamReport) -> "Distance":
        records = max(0, report.log_end_offset - report.next_offset)
        return Distance(report.state, report.lag_s, records, report.records_per_s, report.age_s)

    @property
    def seconds(self) -> float:
        """What the stream needs to come where the source stands now: its records, and those on their way to the log."""
        return self.lag_s + self.records / (self.records_per_s or _RECORDS_PER_S_AT_LEAST)

    @property
    def in_words(self) -> str:
        rate = f"applies {self.records_per_s:,.0f} records/s" if self.records_per_s else "was not measured yet"
        return (
            f"it is {state_in_words(self.state)}, {self.lag_s:.0f} s and {self.records:,} records behind, and {rate}:"
            f" about {self.seconds:.0f} s (reported {self.age_s:.0f} s ago)"
        )


@dataclass(slots=True)
class Taken:
    """Seconds that the steps under a hold took the last time, also if they were given up. `waited_s`: the whole wait
    for the stream."""

    standing_s: float = 1.0
    source_s: float = 1.0
    destination_s: float = 1.0
    waited_s: float = 0.0

    @contextmanager
    def timing(self, step: str, clock: Clock) -> Iterator[None]:
        """`step` is one of the first three."""
        began = clock.now()
        try:
            yield
        finally:
            setattr(self, step, clock.now() - began)

    def with_distance(self, distance: Distance) -> float:
        """What has to be done under a hold: while the source's views open, records come that must be applied too."""
        return distance.seconds + self.standing_s + 2 * self.source_s + self.destination_s


def lease_for(needed_s: float, *, least_s: float, most_s: float) -> float:
    """Twice what is needed, within the bounds."""
    return min(most_s, max(least_s, 2 * needed_s))


class Hold:
    """One hold of a stream, from its asking to `release`. `deadline` by `clock`: never later than the database's."""

    def __init__(
        self, director: StreamDirector, clock: Clock, stream: StreamId, *, lease_s: float, held_max_s: float
    ) -> None:
        """Asks for it. Raises what `StreamDirector.hold` raises."""
        self._director = director
        self._clock = clock
        self._lease_s = lease_s
        self.asked_at = clock.now()
        self._ends_at = self.asked_at + held_max_s
        self.deadline = self.asked_at + lease_s
        self.id = director.hold(stream, lease_s=lease_s)

    @property
    def held_s(self) -> float:
        return self._clock.now() - self.asked_at

    @property
    def is_over(self) -> bool:
        return self._clock.now() >= self.deadline

    @property
    def allowed_s(self) -> float:
        """For how long the stream may stand still, as extended by now."""
        return self.deadline - self.asked_at

    def advanced(self) -> None:
        """There was progress: a lease of which less than half is left is renewed, as far as the ceiling allows. Raises
        what `StreamDirector.extend` raises."""
        now = self._clock.now()
        until = min(now + self._lease_s, self._ends_at)
        if self.deadline - now < self._lease_s / 2 and until > self.deadline:
            self._director.extend(self.id, lease_s=until - now)
            self.deadline = until

    def release(self) -> None:
        self._director.release(self.id)
