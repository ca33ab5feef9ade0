"""What an attempt of a run's load says of it: written down only while no later attempt has begun (ADR 112).

A load without splits has no lease in its destinations. An attempt that was thought dead and lives would replace the
manifest and the verdict of the next one behind the checks of that one's rows, and its own rows would be published with
checks that nobody has made of them.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from seamline.domain.runs import ATTEMPT, Receipt, Reconciliation
from seamline.kinds.split_rules import LoadTakenOver
from seamline.platform.database import Session


def require_newest(session: Session, run_id: str, attempt: str) -> None:
    """No other attempt begins before this transaction ends. LoadTakenOver: one has. "": nobody's load is asked for."""
    if not attempt:
        return
    row = session.execute(
        "select result ->> %s from run where run_id = %s for no key update", (ATTEMPT, run_id)
    ).fetchone()
    if row is None or row[0] != attempt:
        raise LoadTakenOver


class _Store(Protocol):
    def put_result(self, run_id: str, key: str, value: Any, *, attempt: str = "") -> None: ...

    def put_receipt(self, run_id: str, receipt: Receipt, *, attempt: str = "") -> None: ...

    def save_reconciliation(self, reconciliation: Reconciliation, *, attempt: str = "") -> None: ...


@dataclass(frozen=True, slots=True)
class RecordsOfAttempt:
    """The records of one attempt. LoadTakenOver, and nothing is written: a later attempt of the run has begun."""

    store: _Store
    attempt: str

    def begin(self, run_id: str) -> None:
        """Of all attempts of the run's load this one is the newest from here on."""
        self.store.put_result(run_id, ATTEMPT, self.attempt)

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        self.store.put_result(run_id, key, value, attempt=self.attempt)

    def put_receipt(self, run_id: str, receipt: Receipt) -> None:
        self.store.put_receipt(run_id, receipt, attempt=self.attempt)

    def save_reconciliation(self, reconciliation: Reconciliation) -> None:
        self.store.save_reconciliation(reconciliation, attempt=self.attempt)
