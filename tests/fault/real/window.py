"""I4 while the writers go on: of the attempts since the last look each that was committed is there, whole and once,
and none of those that were rolled back."""

from collections.abc import Sequence
from typing import Protocol

from tests.fault.real.anomalies import Dump, check_window
from tests.fault.real.history import History


class Rows(Protocol):
    def dump_of(self, attempts: Sequence[int]) -> Dump: ...


class Window:
    """Only attempts that were reported before all of theirs had to be visible may be looked at."""

    def __init__(self, history: History, warehouse: Rows) -> None:
        self._history = history
        self._warehouse = warehouse
        self._looked_at = 0

    def wrong_before(self, end: int) -> list[str]:
        """Of the attempts that nobody looked at yet, up to the one before `end`. The committed ones must be visible."""
        attempts = self._history.between(self._looked_at, end)
        dump = self._warehouse.dump_of([attempt.attempt_id for attempt in attempts])
        self._looked_at = end
        return [str(one) for one in check_window(attempts, dump)]
