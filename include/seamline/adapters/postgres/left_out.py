"""Values that the log left out of the new row of a change of key: those of the stored row under the old key."""

from dataclasses import replace

import orjson

from seamline.adapters.postgres.canonical import quoted
from seamline.adapters.postgres.client import Session, translated
from seamline.adapters.postgres.statements import JSON_PARAMETER, TableStatements, as_client_text
from seamline.domain.catalogue import Column, Kind
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.errors import Diverged, Refused
from seamline.domain.left_out import STAND_INS, lacks_values


def with_old_values(session: Session, on: TableStatements, changes: TableChanges) -> TableChanges:
    """The changes, each with all its values but those that its own stored row has. Seldom anything is to be done.

    To be called before anything of the span is written: the rows under the old keys are still there. Earlier changes of
    the same unit may stand in pieces: what they changed is in no row yet.
    """
    wanting = [change for change in changes.keyed if _is_wanting(change)]
    if not wanting:
        return changes
    if changes.piece or _are_in_pieces(session, on, wanting):
        raise Refused(
            f"a transaction larger than memory changes rows of {changes.table} and their keys, and leaves out values"
            " that did not change",
            hint=f"ALTER TABLE {changes.table} REPLICA IDENTITY FULL at the source, then onboard the sync again",
            table=changes.table,
        )
    keyed = [_completed(session, on, change) if _is_wanting(change) else change for change in changes.keyed]
    return replace(changes, keyed=keyed)


def _is_wanting(change: KeyedChange) -> bool:
    return change.taken_from is not None and not change.is_delete and lacks_values(change.row)


def _are_in_pieces(session: Session, on: TableStatements, changes: list[KeyedChange]) -> bool:
    """Whether pieces of this unit hold a row under one of the old keys, which are written alike everywhere."""
    same = " AND ".join(f"p.{quoted(name)} = w.{quoted(name)}" for name in on.table.key)
    statement = as_client_text(f"SELECT EXISTS (SELECT FROM {on.pieces} AS p, {_old_key(on)} WHERE {same})").encode()
    with translated("look for old keys in the pieces of a large transaction", table=on.table.name):
        if session.execute("SELECT to_regclass(%s)", (on.pieces,)).fetchone() == (None,):
            return False
        return any(session.execute(statement, _parameter(change)).fetchone() == (True,) for change in changes)


def _completed(session: Session, on: TableStatements, change: KeyedChange) -> KeyedChange:
    row = orjson.loads(change.row)
    columns = [column for column in on.table.columns if row[column.name] in STAND_INS]
    with translated("read the values that a change of key left out", table=on.table.name):
        found = session.execute(_stored(on, columns).encode(), _parameter(change)).fetchone()
    if found is None:
        raise Diverged(
            f"a row of {on.table.name} changes its key and leaves out values that did not change, and the destination"
            " has no row under the old key",
            hint="somebody changed the table in the destination: reconcile it, then onboard it again",
            table=on.table.name,
        )
    row.update(zip((column.name for column in columns), found, strict=True))
    return replace(change, row=orjson.dumps(row), taken_from=None)


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
    return f"encode({name},'base64')" if column.kind is Kind.BYTES else f"{name}::text"
