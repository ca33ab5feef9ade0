"""The stop conditions of a stream: a change of structure, a capture that no longer carries a table."""

import json
from collections.abc import Collection

from seamline.domain.catalogue import PARK_IT
from seamline.domain.cutover import BoundaryGate
from seamline.domain.errors import PositionLost, SchemaConflict, SeamlineError
from seamline.domain.log import LogRecord, RecordKind, RowChange, Transaction, touched
from seamline.domain.table_places import TablePlaces


def stands_alone(transaction: Transaction) -> bool:
    """TRUNCATE, DDL and the rest of a large transaction are spans of their own; so is a transaction with markers: it
    may stop us."""
    return bool(transaction.truncated or transaction.ddl or transaction.markers or transaction.chunks)


def stop_condition(
    transaction: Transaction, tables: Collection[str], gate: BoundaryGate, *, places: TablePlaces
) -> SeamlineError | None:
    """Why the stream must stop before this transaction, or None. Only a transaction that stands alone can be the
    cause. `places`: of the tables."""
    if transaction.ddl is not None:
        return _changed_structure(transaction, transaction.ddl, tables, gate)
    for marker in transaction.markers:
        row = marker_fields(marker)
        if row["kind"] == "tables":
            return _lost_tables(transaction, marker, json.loads(row["payload"] or "{}"), tables, places)
    return None


def marker_fields(marker: RowChange) -> dict[str, str]:
    """`id`, `kind` and `payload` of a row of the marker table."""
    row = json.loads(marker.after or b"{}")
    return {name: str(row.get(name) or "") for name in ("id", "kind", "payload")}


def _changed_structure(
    transaction: Transaction, ddl: LogRecord, tables: Collection[str], gate: BoundaryGate
) -> SeamlineError | None:
    changed = [name for name in touched(ddl, tables) if gate.keeps(name, transaction.position)]
    if not changed:
        return None
    what = f"the source changed the structure of {', '.join(changed)}: {ddl.statement}"
    if ddl.kind is RecordKind.TRUNCATE:
        what = f"the source ran TRUNCATE TABLE {ddl.table}, which may be {', '.join(changed)}: the log does not say"
    return SchemaConflict(
        f"offset {ddl.offset}: {what}",
        hint=f"everything before it is applied. {PARK_IT}",
        table=changed[0],
        position=str(transaction.position),
    )


def _lost_tables(
    transaction: Transaction,
    marker: RowChange,
    payload: dict[str, object],
    tables: Collection[str],
    places: TablePlaces,
) -> SeamlineError | None:
    listed = payload.get("tables")
    if not isinstance(listed, list):
        return None
    missing = sorted(name for name in tables if places.captured(name) not in listed)
    if not missing:
        return None
    return PositionLost(
        f"offset {marker.offset}: from here on the capture no longer carries {', '.join(missing)} "
        f"(table list {payload.get('generation')})",
        hint="its later changes are not in the log: add the table to the capture and onboard the sync again",
        table=missing[0],
        position=str(transaction.position),
    )
