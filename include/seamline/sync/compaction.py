"""Transactions → what one span does to each table: the newest change of every key, the net of every row without one.

Only changes beyond their table's boundary count. Keyed: newest in log order; a key change arrives as delete + insert.
Keyless: +1 for each row image that appears, -1 for each that disappears; sums commute, so order inside the span does
not matter. Rows that are equal but written differently stay apart here and meet in the sink, whose identity is the
canonical text of the stored row; this sum only saves work.
"""

from collections.abc import Iterable, Mapping

from seamline.domain.catalogue import PARK_IT, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.cutover import BoundaryGate
from seamline.domain.errors import LogCorrupted, SchemaConflict, SeamlineError
from seamline.domain.log import RowChange, Transaction
from seamline.domain.unavailable_values import filled, lacks_values

_FULL_IMAGES = (
    "the source must write full row images (binlog_row_image=FULL; REPLICA IDENTITY FULL for a table without a key);"
    " onboard the sync again once it does"
)


def compact(
    transactions: Iterable[Transaction], *, tables: Mapping[str, Table], gate: BoundaryGate, chunk: int = 0
) -> dict[str, TableChanges]:
    """Changes per table, tables in the order of their first change; tables without any are absent.

    `transactions` come in log order. The gate moves on with them, so each transaction is given once (chunks of one
    transaction count as that transaction).
    """
    found: dict[str, TableChanges] = {}
    keyed: dict[str, dict[bytes, KeyedChange]] = {name: {} for name, table in tables.items() if table.is_keyed}
    says_what_was_met = True
    for transaction in transactions:
        says_what_was_met = not transaction.position.LOG.is_of_rows_alone
        dropped = _dropped_tables(transaction, gate) if gate.is_open else frozenset()
        for emptied in transaction.truncated:
            _empty(emptied, dropped, found, keyed, chunk)
        try:
            _take_in(transaction.rows, dropped, found, keyed, chunk)
        except SeamlineError as error:
            error.position = str(transaction.position)
            raise
    _finish(found, keyed)
    if not says_what_was_met:
        _forget_what_was_met(keyed)
    return found


def _take_in(
    rows: Iterable[RowChange],
    dropped: frozenset[str],
    found: dict[str, TableChanges],
    keyed: Mapping[str, dict[bytes, KeyedChange]],
    chunk: int,
) -> None:
    name, changes, newest = "", TableChanges(""), None
    for row in rows:
        # Rows of one table come in runs.
        if row.table != name:
            name = row.table
            changes = found[name] if name in found else TableChanges(name, chunk=chunk)
            if name not in dropped:
                found[name] = changes
            newest = keyed.get(name)
        if name in dropped:
            continue
        changes.changes_in += 1
        if newest is None:
            _add_images(changes.net, row)
        else:
            _keep_newest(newest, row)


def _empty(
    name: str,
    dropped: frozenset[str],
    found: dict[str, TableChanges],
    keyed: Mapping[str, dict[bytes, KeyedChange]],
    chunk: int,
) -> None:
    if name not in dropped:
        found[name] = TableChanges(name, truncate_first=True, changes_in=1, chunk=chunk)
        if name in keyed:
            keyed[name].clear()


def _finish(found: Mapping[str, TableChanges], keyed: Mapping[str, dict[bytes, KeyedChange]]) -> None:
    for name, changes in found.items():
        if name in keyed:
            changes.keyed = list(keyed[name].values())
        else:
            changes.net = {row: copies for row, copies in changes.net.items() if copies}


def _forget_what_was_met(keyed: Mapping[str, dict[bytes, KeyedChange]]) -> None:
    for newest in keyed.values():
        for change in newest.values():
            change.met_row = None


def _dropped_tables(transaction: Transaction, gate: BoundaryGate) -> frozenset[str]:
    names = {row.table for row in transaction.rows}.union(transaction.truncated)
    return frozenset(name for name in names if not gate.keeps(name, transaction.position))


def _keep_newest(newest: dict[bytes, KeyedChange], row: RowChange) -> None:
    offset, _, op, key, before, after, is_partial, _ = row
    is_delete = op == "d"
    image = before if is_delete else after
    if key is None or image is None:
        raise _without_image(row, "key" if key is None else "row image")
    known = newest.get(key)
    if is_partial:
        _keep_partial(newest, key, row, image)
    elif known is None:
        newest[key] = KeyedChange(key, is_delete, op != "c", image, offset)
    else:
        if is_delete:
            known.replaced = None if known.is_delete else known.row
        known.is_delete, known.row, known.offset = is_delete, image, offset


def _keep_partial(newest: dict[bytes, KeyedChange], key: bytes, row: RowChange, image: bytes) -> None:
    """As `_keep_newest`, for an insert or update whose image lacks values."""
    known = newest.get(key)
    if row.op == "c" and row.old_key is None and lacks_values(image):
        raise _without_image(row, "all values of the row and the key it had before")
    if known is None:
        known = newest[key] = KeyedChange(key, False, row.op != "c", image, row.offset)  # noqa: FBT003 (a field)
    else:
        known.row = image if known.is_delete else filled(image, known.row)
        known.is_delete, known.offset = False, row.offset
    if row.old_key is not None:
        _take_from_old_key(known, newest.get(row.old_key), row.old_key)


def _take_from_old_key(change: KeyedChange, old: KeyedChange | None, old_key: bytes) -> None:
    """A change of key left values out: they are those of the row under its old key, in this span or as it is stored."""
    change.taken_from = old_key
    if old is not None and old.replaced is not None:
        change.row = filled(change.row, old.replaced)
        change.taken_from = old.taken_from or old_key
    if not lacks_values(change.row):
        change.taken_from = None


def _add_images(net: dict[bytes, int], row: RowChange) -> None:
    _, _, op, _, before, after, is_partial, _ = row
    if op != "c":
        if before is None:
            raise _without_image(row, "row image before the change")
        net[before] = net.get(before, 0) - 1
    if is_partial and after is not None and lacks_values(after):
        raise _without_image(row, "all values of the row")
    if op != "d":
        if after is None:
            raise _without_image(row, "row image after the change")
        net[after] = net.get(after, 0) + 1


def _without_image(row: RowChange, what: str) -> SeamlineError:
    if row.before is None and row.after is None:
        # So our connectors send it (RowsThatFit.java): whatever a source leaves out, one of the two is there.
        return SchemaConflict(
            f"offset {row.offset}: a row of {row.table} is larger than a record of the log may be (32 MiB, as JSON,"
            " bytes as base64, an update of a table without a key with the row before it)",
            hint=f"let it become smaller at the source, or leave the table out. {PARK_IT}",
            table=row.table,
        )
    return LogCorrupted(
        f"offset {row.offset}: a change of kind {row.op} without {what}",
        hint=_FULL_IMAGES,
        table=row.table,
    )
