"""The bank's notes: PostgreSQL's log leaves their large bodies out where a change has not touched them."""

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.log import RowChange
from seamline.domain.unavailable_values import may_lack_values
from tests.log_topic import Change
from tests.toast_log import as_logged, key_of, to_json

NOTE = Table(
    "note",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("title", Kind.STRING, "text"),
        Column("body", Kind.STRING, "text", toastable=True),
    ),
    ("id",),
)
BODIES = ("large one", "large two", "small", None)


def as_in_log(change: Change, row: RowChange) -> RowChange:
    """What a WAL holds otherwise of a row of this change: no row before it but its key, and no value that stayed."""
    if change.table != NOTE.name:
        return row
    if row.op == "d":
        assert change.before is not None
        key_alone = {name: change.before[name] if name in NOTE.key else None for name in change.before}
        return row._replace(before=to_json(key_alone))
    if change.before is None or change.after is None:
        return row
    image = to_json(as_logged(change.before, change.after))
    is_moved = change.before["id"] != change.after["id"]
    is_partial = may_lack_values(image)
    # The reader asks for the old key only where something was left out.
    old_key = key_of(change.before["id"]) if is_partial and is_moved else None
    return row._replace(before=None, after=image, is_partial=is_partial, old_key=old_key)
