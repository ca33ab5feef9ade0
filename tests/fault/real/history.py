"""What the clients of a source did, attempt by attempt, as they know it themselves: append-only, written as it happens.

A pure value: the checker reads it, the writers of a run write it.
"""

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

AuditRow = tuple[str, str]


class Outcome(StrEnum):
    """`info`: the client never heard whether its COMMIT counted."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One transaction, or the part of one that was rolled back to a savepoint.

    `number` is the writer's count of its committed transactions with this one; `legs` how many entries it wrote (0: it
    moved no money); `audit` which keyless rows it added (positive) and took away (negative).
    """

    attempt_id: int
    writer: int
    kind: str
    outcome: Outcome
    number: int = 0
    legs: int = 0
    audit: Counter[AuditRow] = field(default_factory=Counter)


class History:
    """Attempts in the order in which their outcomes became known; each is appended to `file` at once."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._attempts: list[Attempt] = []

    def append(self, attempt: Attempt) -> None:
        with self._lock:
            self._attempts.append(attempt)
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as lines:
                    lines.write(_line(attempt))

    def __len__(self) -> int:
        with self._lock:
            return len(self._attempts)

    def between(self, first: int, end: int) -> Sequence[Attempt]:
        """From the `first` on, which counts from 0, to the one before `end`."""
        with self._lock:
            return tuple(self._attempts[first:end])

    @property
    def attempts(self) -> Sequence[Attempt]:
        with self._lock:
            return tuple(self._attempts)


def _line(attempt: Attempt) -> str:
    audit = [[*row, copies] for row, copies in attempt.audit.items()]
    return json.dumps({**asdict(attempt), "audit": audit}) + "\n"
