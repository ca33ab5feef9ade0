"""The columns of a table's cuts. One that came or left since the first is NULL in those that were made without it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seamline.domain.cut_names import CUT_COLUMNS
from seamline.sinks.relational.dialect import OWN_PREFIX
from seamline.sinks.relational.places import Place
from seamline.sinks.relational.session import Session, query


class ColumnsMisfit(Exception):
    """Why a cut cannot stand beside the earlier ones of its table."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """`type` as the server prints it, with the collation of letters; `data_type` is its first word."""

    name: str
    type: str
    data_type: str


def stored_columns(session: Session, place: Place) -> Mapping[str, StoredColumn]:
    """In the order of the table or view, by lower-case name, for the server compares them so; empty where none is.

    Without those that a table without a key has of ours."""
    rows = query(
        session,
        "SELECT column_name, CONCAT(column_type, COALESCE(CONCAT(' COLLATE ', collation_name), '')), data_type"
        " FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        place,
    )
    columns = (StoredColumn(str(column), _text(shown), _text(word)) for column, shown, word in rows)
    return {column.name.lower(): column for column in columns if not column.name.startswith(OWN_PREFIX)}


def require_fit(new: Mapping[str, StoredColumn], earlier: Sequence[Mapping[str, StoredColumn]]) -> None:
    """ColumnsMisfit where a column that a new cut shares with an earlier one has another type now."""
    misfits = {
        name: f"{column.name} is {column.type} now and {known[name].type} there"
        for known in earlier
        for name, column in new.items()
        if name in known and known[name].type != column.type
    }
    if misfits:
        raise ColumnsMisfit("; ".join(misfits[name] for name in sorted(misfits)))


def shown_columns(known: Mapping[str, StoredColumn], versions: Sequence[Mapping[str, StoredColumn]]) -> list[str]:
    """The columns of a table's cut views: those `known`, which people read already, then what versions have beyond."""
    names = {key: column.name for key, column in known.items()}
    for number, columns in enumerate(versions):
        names |= {key: column.name for key, column in columns.items() if key not in names}
        if not number:
            names |= {name: name for name in CUT_COLUMNS}
    return list(names.values())


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
