"""What a sync that only compares cannot declare, and where it can read."""

from collections.abc import Mapping

from seamline.spec.document import Document, Path_
from seamline.spec.kinds import kinds_read_alone

KEY = "reconcile_only"
# What belongs to tables that the sync carries itself.
_OF_CARRIED = (
    ("guarantee",),
    ("stream",),
    ("nightly",),
    ("derived",),
    ("reconcile", "rules"),
    ("reconcile", "expectations"),
    ("reconcile", "on_break"),
    ("reconcile", "approvers"),
    ("reconcile", "mode"),
    ("reconcile", "wait_max_s"),
    ("reconcile", "attempts"),
    ("reconcile", "repair"),
)
_OF_CARRIED_TABLES = ("transform", "business_date", "cut_storage")


def is_reconcile_only(document: Document) -> bool:
    """As it stands in the file, right or wrong."""
    return isinstance(document.data, dict) and KEY in document.data


def check_reconcile_only(document: Document, destinations: Mapping[str, Document]) -> None:
    """Add to a sync's document what is wrong of it because it only compares."""
    if not is_reconcile_only(document):
        return
    entries = document.value(("tables",))
    numbers = range(len(entries)) if isinstance(entries, list) else ()
    of_tables: list[Path_] = [("tables", number, key) for number in numbers for key in _OF_CARRIED_TABLES]
    for place in (*_OF_CARRIED, *of_tables):
        if document.value(place) is not None and document.is_right(place):
            cause = "this sync carries no tables: it compares those that another tool carries"
            document.fault(place, cause, f"Leave it out, or take `{KEY}` out")
    for place, name in document.texts("destinations[]"):
        kind = destinations[name].value(("kind",)) if name in destinations else None
        if isinstance(kind, str) and kind not in kinds_read_alone() and document.is_right(place):
            cause = f"destination `{name}` ({kind}) cannot be read without a ledger of ours"
            document.fault(place, cause, f"Such kinds can: {', '.join(kinds_read_alone())}")
