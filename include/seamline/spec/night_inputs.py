"""What nights cannot use: cursors, and a system date that the log does not have."""

from seamline.domain.calendar import MOMENTS
from seamline.domain.made_from import MadeFrom
from seamline.spec.document import Document


def check_cursors(document: Document) -> None:
    """Add to a sync's document which cursors would not be used, and why."""
    made_from = document.value(("nightly", "from"))
    for place, column in document.texts("tables[].cursor"):
        entry = place[:2]
        if made_from != MadeFrom.INCREMENTAL:
            cause = f"cursor `{column}` is used by `nightly.from: incremental` alone"
            document.fault(place, cause, "Write `from: incremental`, or leave it out")
        for key, why in (("business_date", "is read by its date"), ("transform", "has a transform, and is read whole")):
            if document.value((*entry, key)) is not None:
                document.fault(place, f"a table with `{key}` {why}", f"Leave out `cursor`, or `{key}`")


def check_dated_transforms(document: Document) -> None:
    """Add to a sync's document which tables keep no rows of later dates: no cut begins with their cut before it."""
    if document.value(("nightly", "from")) != MadeFrom.LOG:
        return
    for place, _ in document.texts("tables[].name"):
        entry = place[:2]
        if all(document.value((*entry, key)) is not None for key in ("business_date", "transform")):
            document.fault(
                (*entry, "transform"),
                "`from: log` cannot make the cuts of a table with `business_date` and a transform, be it for another"
                " destination: it may make another date of it",
                "Write `from: auto`, which reads these dates, or give the table with its transform a sync of its own",
            )


def check_system_date(document: Document) -> None:
    """Add to a sync's document why its log does not show where a date ends that a system date ends, and which tables
    have rows by another end."""
    table = document.value(("nightly", "cut_off", "table"))
    if document.value(("nightly", "from")) != MadeFrom.LOG or not isinstance(table, str):
        return
    entries = [place[:2] for place, name in document.texts("tables[]", "tables[].name") if name == table]
    whole = [
        one
        for one in entries
        if all(document.value((*one, key)) is None for key in ("parked", "business_date", "transform"))
    ]
    if not whole:
        cause = (
            f"`from: log` ends a date where the log moves `{table}` on, and no table of this sync has its rows whole"
        )
        document.fault(
            ("nightly", "cut_off", "table"),
            cause,
            "Add it to `tables`, without `business_date` and `transform`, or write `from: read`",
        )
        return
    for place, holds in document.texts("tables[].business_date.as"):
        if holds in MOMENTS and document.value((*place[:2], "parked")) is None:
            cause = (
                f"`as: {holds}` counts rows by the clock, from midnight to midnight, and `from: log` ends the date"
                f" where the log moves `{table}` on: rows between the two would be in no cut"
            )
            document.fault(place, cause, "Name a column that holds the business date itself, or write `from: read`")
