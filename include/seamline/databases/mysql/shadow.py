"""A shadow copy as a query over the stored rows: it needs no right but SELECT, and works in a transaction that only
reads."""

from collections.abc import Callable, Mapping, Sequence

from seamline.databases.mysql.canonical import quoted
from seamline.domain.canonical import parse_row_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.ports.shadow import ShadowCopy

LiteralOf = Callable[[Column, str], str]
# A text beside a moment would make texts of both.
_TYPED = {
    Kind.DATE: "CAST({text} AS DATE)",
    Kind.DATETIME: "CAST({text} AS DATETIME(6))",
    Kind.INSTANT: "CAST({text} AS DATETIME(6))",
}


def shadow_relation(wanted: ShadowCopy, stored: str, *, literal_of: LiteralOf) -> str:
    """What stands in FROM in the place of `stored`."""
    table = wanted.table
    changed = [_changed(table, column, wanted.changed, literal_of) for column in table.columns]
    copied = f"SELECT {','.join(changed)} FROM {stored} WHERE {_is_among(table, wanted.keys, literal_of)}"
    if wanted.doubled:
        plain = ",".join(quoted(column.name) for column in table.columns)
        copied += f" UNION ALL SELECT {plain} FROM {stored} WHERE {_is_among(table, wanted.doubled, literal_of)}"
    return f"({copied}) AS shadow"


def _changed(
    table: Table, column: Column, changed: Mapping[str, Mapping[str, str | None]], literal_of: LiteralOf
) -> str:
    """The column under its name."""
    name = quoted(column.name)
    arms = [
        f"WHEN {_is_among(table, (key,), literal_of)} THEN {_value(column, values[column.name], literal_of)}"
        for key, values in changed.items()
        if column.name in values
    ]
    return f"CASE {' '.join(arms)} ELSE {name} END AS {name}" if arms else name


def _value(column: Column, text: str | None, literal_of: LiteralOf) -> str:
    if text is None:
        return "NULL"
    return _TYPED.get(column.kind, "{text}").format(text=literal_of(column, text))


def _is_among(table: Table, keys: Sequence[str], literal_of: LiteralOf) -> str:
    """Of a key of several columns in so many conditions: MariaDB finds no index for a list of rows."""
    columns = table.key_columns
    rows = [
        [literal_of(c, text or "") for c, text in zip(columns, parse_row_text(columns, key), strict=True)]
        for key in keys
    ]
    if len(columns) == 1 and rows:
        return f"{quoted(columns[0].name)} IN ({','.join(value for (value,) in rows)})"
    conditions = (
        " AND ".join(f"{quoted(c.name)} = {value}" for c, value in zip(columns, row, strict=True)) for row in rows
    )
    return " OR ".join(f"({condition})" for condition in conditions) or "FALSE"
