"""The last steps of a load, in an order in which a kill between any two of them costs no row that is staged (ADR 112).

What a run has staged is first written down in the platform database, then that this load is through, and only then let
go of in the destinations. An attempt before the second step goes on with all splits; one behind it has nothing to read.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from seamline.bulk.read import RunReader
from seamline.domain.runs import LOADED, Receipt
from seamline.plan.document import plan_to_json
from seamline.plan.model import Run

TakenT = TypeVar("TakenT")


class Results(Protocol):
    """Where a run's results are kept."""

    def put_result(self, run_id: str, key: str, value: Any) -> None: ...


class LoadRecords(Results, Protocol):
    """What a load needs of the platform database."""

    def put_receipt(self, run_id: str, receipt: Receipt) -> None: ...


@dataclass(frozen=True, slots=True)
class RecordsWhileHeld:
    """Results of an attempt that has what it has staged. LoadTakenOver: another one has it, and stages it at a position
    of its own; what this one would say of it is over.

    `readers`: all that this attempt has read by; a list that may grow.
    """

    kept: LoadRecords
    readers: Sequence[RunReader]

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        with all_held(self.readers):
            self.kept.put_result(run_id, key, value)

    def put_receipt(self, run_id: str, receipt: Receipt) -> None:
        self.kept.put_receipt(run_id, receipt)


@contextmanager
def all_held(readers: Sequence[RunReader]) -> Iterator[None]:
    """As `RunReader.held`, of several."""
    with ExitStack() as held:
        for reader in readers:
            held.enter_context(reader.held())
        yield


def is_loaded(run: Run) -> bool:
    """Whether an attempt of the task that loads was interrupted behind its load: all that is left is to let go of
    it. Once a later task has begun, nobody says so any more, and a task that is cleared loads anew."""
    return bool(run.result.get(LOADED) == _made_by(run))


def load(run: Run, records: Results, readers: Sequence[RunReader], take: Callable[[], TakenT]) -> TakenT:
    """Let `take` stage and write down all there is, then say that it has, then let go of it. `records`: only while what
    is staged is held."""
    taken = take()
    records.put_result(run.run_id, LOADED, _made_by(run))
    for reader in readers:
        reader.forget()
    return taken


def _made_by(run: Run) -> str:
    return hashlib.sha256(plan_to_json(run.plan).encode()).hexdigest()
