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
    Chore(
        "destinations",
        "Clear the destinations",
        "Drops what dead runs have left in each destination: staging tables after 14 days, an incremental snapshot"
        " that has not moved"
        " for 7 days, which would hold the log; and findings of rows that were loaded again 100 days ago.",
    ),
    Chore(
        "records",
        "Clear the platform database",
        "Deletes runs with their receipts after 400 days, changes of state of streams and ended alarms after 200, ended"
        " holds after one. Reconciliations and signatures stay, and the runs of kept cuts and of decisions. Anchors the"
        " log of acts.",
    ),
    Chore(
        "audit",
        "Verify the log of acts",
        "Holds the chain of hashes with its anchors, and what is stored of one sync after another, against each other,"
        " as `./seamline audit verify` does: begun for two minutes at most, with another sync first each hour. Raises"
        " an alarm for each sync of which something is ALTERED or could not be verified.",
    ),
)
