"""The work of `seamline__maintenance`, in the words that its DAG and `explain` both print."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chore:
    """One kind of work, a task of its own."""

    id: str
    title: str
    does: str


CHORES = (
    Chore(
        "log",
        "Give the log's space back",
        "Deletes the records of each source's log that lie below every ledger, every hold and `log.keep_days`, and says"
        " who needs the rest. Deletes nothing while one of the ledgers is not known, and alarms then.",
    ),
)
