"""Values that the log left out of the new row of a change of key: those of the stored row under the old key."""

from dataclasses import replace

import orjson

from seamline.adapters.postgres.canonical import quoted
from seamline.adapters.postgres.client import Session, translated
from seamline.adapters.postgres.statements import TableStatements
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import Diverged, Refused
from seamline.domain.left_out import STAND_INS, lacks_values


def with_old_values(session: Session, on: TableStatements, changes: TableChanges) -> TableChanges:
    """The changes, each with all its values but those that its own stored row has. Seldom anything is to be done.

    To be called before anything of the span is written: the rows under the old keys are still there.
    """
    if not any(_is_wanting(change) for change in changes.keyed):
        return changes
    if changes.piece:
        raise Refused(
            f"a transaction larger than memory changes keys of {changes.table} and leaves out values that did not"
            " change",
            hint=f"ALTER TABLE {changes.table} REPLICA IDENTITY FULL at the source, then onboard the sync again",
            table=changes.table,
        )
    keyed = [_completed(session, on, change) if _is_wanting(change) else change for change in changes.keyed]
    return replace(changes, keyed=keyed)


def _is_wanting(change: KeyedChange) -> bool:
    return change.taken_from is not None and not change.is_delete and lacks_values(change.row)


def _completed(session: Session, on: TableStatements, change: KeyedChange) -> KeyedChange:
    row = orjson.loads(change.row)
    columns = [column for column in on.table.columns if row[column.name] in STAND_INS]
    with translated("read the values that a change of key left out", table=on.table.name):
        found = session.execute(_statement(on, columns).encode(), ((change.taken_from or b"").decode(),)).fetchone()
    if found is None:
        raise Diverged(
            f"a row of {on.table.name} changes its key and leaves out values that did not change, and the destination"
            " has no row under the old key",
            hint="somebody changed the table in the destination: reconcile it, then onboard it again",
            table=on.table.name,
        )
    row.update(zip((column.name for column in columns), found, strict=True))
    return replace(change, row=orjson.dumps(row), taken_from=None)


def _statement(on: TableStatements, columns: list[Column]) -> str:
    """The stored values in their wire forms, which are texts. The parameter is the old key's JSON."""
    selected = ", ".join(_wire_text(column) for column in columns)
    keys = on.wire.staging_definitions(on.table.key_columns)
    return f"SELECT {selected} FROM {on.live} AS t, json_to_record(%s::json) AS w({keys}) WHERE {_same_key(on)}"


def _same_key(on: TableStatements) -> str:
    table: Table = on.table
    return " AND ".join(
        f"t.{quoted(column.name)} = {on.wire.cast(column, of=f'w.{quoted(column.name)}')}"
        for column in table.key_columns
    )


def _wire_text(column: Column) -> str:
    name = f"t.{quoted(column.name)}"
    return f"encode({name},'base64')" if column.kind is Kind.BYTES else f"{name}::text"
