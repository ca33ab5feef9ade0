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
    Chore(
        "cuts",
        "Let cuts end",
        "Drops the dates of each sync that `nightly.keep` does not keep, and old versions of those that it does, one"
        " date in one transaction. The newest proven cut of a table never goes; a date that somebody's view builds on"
        " stays and is named.",
    ),
)
