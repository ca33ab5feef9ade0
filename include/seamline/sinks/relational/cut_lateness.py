"""Staged rows against an earlier version of the same date, inside the server."""

from collections.abc import Sequence

from seamline.databases.mysql.canonical import quoted
from seamline.domain.staged_cut import Lateness
from seamline.sinks.relational.cut_columns import StoredColumn, stored_columns
from seamline.sinks.relational.places import Place, relation
from seamline.sinks.relational.session import Session, query

# A value of these may be as long as a packet; two of them in one text would be longer, and the text NULL.
_LONG = ("text", "blob", "json")


def lateness(session: Session, *, staged: Place, before: Place) -> Lateness:
    """Whole rows are compared, byte by byte, identical ones by their number. Of a table that has another definition
    since, whole is what both have."""
    new, old = stored_columns(session, staged), stored_columns(session, before)
    shared = [new[name] for name in new if name in old and new[name].type == old[name].type]
    row = row_hash(shared)
    parts = " UNION ALL ".join(
        f"SELECT {row} AS h, {sign} AS n FROM {relation(*place)}" for place, sign in ((staged, 1), (before, -1))
    )
    ((late, gone),) = query(
        session,
        f"SELECT COALESCE(SUM(GREATEST(n, 0)), 0), COALESCE(SUM(GREATEST(-n, 0)), 0)"
        f" FROM (SELECT SUM(n) AS n FROM ({parts}) AS rows_of_both GROUP BY h) AS differences",
    )
    return Lateness(int(late), int(gone))


def row_hash(columns: Sequence[StoredColumn | None], *, of: str = "") -> str:
    """Each value with its length before it, so that two rows have one text only where all values are equal. None: a
    column that the rows do not have is NULL. `of`: the alias of the rows."""
    fields = ",".join(_field(column, f"{of}." if of else "") if column else "'~'" for column in columns) or "''"
    return f"UNHEX(SHA2(CONCAT({fields}), 256))"


def _field(column: StoredColumn, of: str) -> str:
    name = f"{of}{quoted(column.name)}"
    # A FLOAT is printed with six digits, which others have too.
    exact = f"CAST({name} AS DOUBLE)" if column.data_type == "float" else name
    value = f"CAST({exact} AS BINARY)"
    if column.data_type.endswith(_LONG):
        return f"IF({name} IS NULL, '~', SHA2({value}, 256))"
    return f"IF({name} IS NULL, '~', CONCAT(LENGTH({value}), ':', {value}))"
