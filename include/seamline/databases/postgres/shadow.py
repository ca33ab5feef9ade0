"""A shadow copy as a query over the stored rows: it needs no right but SELECT, and works in a transaction that only
reads."""

from collections.abc import Mapping

from seamline.databases.postgres.canonical import comparable, literal, quoted
from seamline.domain.canonical import parse_row_text
from seamline.domain.catalogue import Column, Table
from seamline.ports.shadow import ShadowCopy


def shadow_relation(wanted: ShadowCopy, stored: str) -> str:
    """What stands in FROM in the place of `stored`."""
    table = wanted.table
    changed = [_changed(table, column, wanted.changed) for column in table.columns]
    copied = f"SELECT {','.join(changed)} FROM {stored} WHERE {_is_among(table, wanted.keys)}"
    if wanted.doubled:
        plain = ",".join(quoted(column.name) for column in table.columns)
        copied += f" UNION ALL SELECT {plain} FROM {stored} WHERE {_is_among(table, wanted.doubled)}"
    return f"({copied}) AS shadow"


def _changed(table: Table, column: Column, changed: Mapping[str, Mapping[str, str | None]]) -> str:
    """The column under its name. Literals take its type: they stand in one expression with it."""
    name = quoted(column.name)
    arms = [
        f"WHEN {_is_among(table, (key,))} THEN {_value(column, values[column.name])}"
        for key, values in changed.items()
        if column.name in values
    ]
    return f"CASE {' '.join(arms)} ELSE {name} END AS {name}" if arms else name


def _value(column: Column, text: str | None) -> str:
    return "NULL" if text is None else literal(column, text)


def _is_among(table: Table, keys: tuple[str, ...]) -> str:
    rows = []
    for key in keys:
        texts = parse_row_text(table.key_columns, key)
        rows.append(f"({','.join(literal(c, t or '') for c, t in zip(table.key_columns, texts, strict=True))})")
    return f"({','.join(map(comparable, table.key_columns))}) IN ({','.join(rows)})" if rows else "FALSE"
