"""Where a destination keeps what: live tables in its own database, everything else in databases beside it.

The ledger has a database of its own for each destination, `<database>_seamline`: one server may hold several
destinations, also of several installations, and each is dumped, restored and granted together with its own ledger.
"""

from seamline.databases.mysql.canonical import quoted
from seamline.plan.model import DestinationPlan
from seamline.ports import Load

# (database, name)
Place = tuple[str, str]
_STAGE = "_stage"


def ledger_database(destination: DestinationPlan) -> str:
    """Of an incremental snapshot, that of the destination itself: it stages where the destination does."""
    return f"{destination.staged_in.removesuffix(_STAGE) or destination.namespace}_seamline"


def ledger_place(destination: DestinationPlan) -> str:
    """The same in quotes, before a table's name."""
    return quoted(ledger_database(destination))


def staged_place(load: Load, destination: DestinationPlan) -> Place:
    """(database, name) of a staged table; `staged_as` may carry the database."""
    database, dot, name = load.staged_as.rpartition(".")
    return (database, name) if dot else (destination.stage_namespace, name)


def relation(database: str, name: str) -> str:
    return f"{quoted(database)}.{quoted(name)}"
