"""Fills unavailable values of a change of key: from the row under the old key."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import orjson

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.client import Session, translated
from seamline.databases.postgres.native_types import comes_as_bytes
from seamline.domain.catalogue import Column, Kind
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import Diverged
from seamline.domain.unavailable_values import STAND_INS, filled_row, lacks_values
from seamline.sinks.postgres.statements import (
    CHUNK,
    DELETED,
    JSON_PARAMETER,
    LAST_CHUNK,
    TableStatements,
    as_client_text,
)

# How much of them one table's batch holds in memory; the log, by whose size batches are bounded, does not have them.
PART_BYTES = 8 * 2**20
_NUMBER = quoted("seamline.number")

_Row = dict[str, Any]


def with_old_values(
    session: Session, on: TableStatements, changes: TableChanges, *, spill: Callable[[TableChanges], None]
) -> TableChanges:
    """The changes, with the unavailable values that only the row under the old key has. Most spans have none.

    Changes that become too large are given to `spill` part by part, as chunks; the rest is returned.

    To be called before anything of the span is written: the rows under the old keys are still there. What the same
    transaction did to them before stands in its chunks.
    """
    wanting = [change for change in changes.keyed if _is_wanting(change)]
    if not wanting:
        return changes
    # All are looked up before the first part is spilled: its rows must not count as older ones.
    places = _places_in_chunks(session, on, [change.taken_from or b"" for change in wanting])
    numbers = {id(change): number for number, change in enumerate(wanting, 1)}
    part = replace(changes, keyed=[])
    fetched = 0
    for change in changes.keyed:
        number = numbers.get(id(change))
        done = change if number is None else _completed(session, on, change, places.get(number, ()))
        part.keyed.append(done)
        fetched += len(done.row) - len(change.row)
        if fetched > PART_BYTES:
            spill(replace(part, chunk=changes.chunk or LAST_CHUNK))
            part, fetched = replace(changes, keyed=[]), 0
    return part


def _is_wanting(change: KeyedChange) -> bool:
    return change.taken_from is not None and not change.is_delete and lacks_values(change.row)


def _places_in_chunks(session: Session, on: TableStatements, old_keys: Sequence[bytes]) -> dict[int, list[str]]:
    """Number of an old key, from 1 → where chunks before this one hold its row. Keys are written alike everywhere."""
    names = ", ".join(quoted(name) for name in on.table.key)
    same = " AND ".join(f"p.{quoted(name)} = w.{quoted(name)}" for name in on.table.key)
    statement = as_client_text(
        f"SELECT w.{_NUMBER}, array_agg(p.ctid::text) FROM {on.chunks} AS p, ROWS FROM (json_to_recordset("
        f"{JSON_PARAMETER}::json) AS ({on.wire.staging_definitions(on.table.key_columns)})) WITH ORDINALITY "
        f"AS w({names}, {_NUMBER}) WHERE {same} GROUP BY 1"
    )
    with translated("look for old keys in the chunks of a large transaction", table=on.table.name):
        if session.execute("SELECT to_regclass(%s)", (on.chunks,)).fetchone() == (None,):
            return {}
        keys = (b"[" + b",".join(old_keys) + b"]").decode()
        return {int(number): list(places) for number, places in session.execute(statement.encode(), (keys,))}


def _completed(session: Session, on: TableStatements, change: KeyedChange, places: Sequence[str]) -> KeyedChange:
    row: _Row = orjson.loads(change.row)
    row, is_deleted = _filled_from_chunks(session, on, row, places)
    columns = _lacking(on, row)
    if columns and not is_deleted:
        with translated("read the values that a change of key left out", table=on.table.name):
            found = session.execute(_stored(on, columns).encode(), _parameter(change)).fetchone()
        if found is not None:
            row.update(zip((column.name for column in columns), found, strict=True))
            columns = []
    if columns:
        raise Diverged(
            f"a row of {on.table.name} changes its key and leaves out values that did not change, and the destination"
            " has no row under the old key",
            hint="somebody changed the table in the destination: reconcile it, then onboard it again",
            table=on.table.name,
            position=f"offset {change.offset}",
        )
    return replace(change, row=orjson.dumps(row), taken_from=None)


def _filled_from_chunks(session: Session, on: TableStatements, row: _Row, places: Sequence[str]) -> tuple[_Row, bool]:
    """Two results: the row with the values that the newest chunks hold, and True if they delete it by its old key."""
    columns = _lacking(on, row)
    if not places or not columns:
        return row, False
    texts = ", ".join(f"p.{quoted(column.name)}::text" for column in columns)
    statement = as_client_text(
        f"SELECT {DELETED}, {texts} FROM {on.chunks} AS p WHERE p.ctid = ANY ({JSON_PARAMETER}::tid[]) "
        f"ORDER BY {CHUNK} DESC"
    )
    with translated("read the values that a change of key left out", table=on.table.name):
        for is_deleted, *values in session.execute(statement.encode(), (places,)):
            if is_deleted:
                return row, True
            row = filled_row(row, {column.name: value for column, value in zip(columns, values, strict=True)})
            if not _lacking(on, row):
                break
    return row, False


def _lacking(on: TableStatements, row: _Row) -> list[Column]:
    """Columns whose value is unavailable. The encoder reports columns that the row does not have."""
    return [column for column in on.table.columns if row.get(column.name) in STAND_INS]


def _stored(on: TableStatements, columns: list[Column]) -> str:
    """The values of the row under the old key in their wire forms, which are texts."""
    selected = ", ".join(_wire_text(column) for column in columns)
    same = " AND ".join(
        f"t.{quoted(column.name)} = {on.wire.cast(column, of=f'w.{quoted(column.name)}')}"
        for column in on.table.key_columns
    )
    return as_client_text(f"SELECT {selected} FROM {on.live} AS t, {_old_key(on)} WHERE {same}")


def _old_key(on: TableStatements) -> str:
    """The old key, which comes as a JSON parameter, as a row `w` of wire forms."""
    return f"json_to_record({JSON_PARAMETER}::json) AS w({on.wire.staging_definitions(on.table.key_columns)})"


def _parameter(change: KeyedChange) -> tuple[str]:
    return ((change.taken_from or b"").decode(),)


def _wire_text(column: Column) -> str:
    name = f"t.{quoted(column.name)}"
    if comes_as_bytes(column):
        return f"encode(convert_to({name}::text,'UTF8'),'base64')"
    return f"encode({name},'base64')" if column.kind is Kind.BYTES else f"{name}::text"
