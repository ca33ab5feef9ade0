"""What batches of changes do to the rows of one table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import Diverged
from seamline.values.build import rows_of, values_of
from seamline.values.changes import ChangeBatch
from seamline_memory.store import Row, Rows, identity, identity_of, key_of


@dataclass(frozen=True, slots=True)
class Applied:
    rows: Rows
    findings: tuple[Finding, ...] = ()


def apply(table: Table, rows: Rows, batches: Sequence[ChangeBatch]) -> Applied:
    """The batches one after another: chunks of a transaction in their order, then what comes behind them.

    A truncate undoes every chunk before it, so these are not looked at.
    """
    in_order = sorted(batches, key=lambda batch: (batch.chunk == 0, batch.chunk))
    first = max((number for number, batch in enumerate(in_order) if batch.truncate_first), default=0)
    found = Applied(rows)
    for batch in in_order[first:]:
        before = {} if batch.truncate_first else found.rows
        after = _keyed(table, before, batch) if table.is_keyed else _keyless(table, before, batch)
        found = replace(after, findings=(*found.findings, *after.findings))
    return found


def _keyed(table: Table, before: Rows, batch: ChangeBatch) -> Applied:
    after, findings = dict(before), []
    lacking, old_keys = _lacking(batch), origins(table, batch)
    beside = (_beside(values) for values in (batch.deleted, batch.offset, batch.met))
    for number, (row, is_deleted, offset, met) in enumerate(zip(rows_of(table, batch.rows), *beside, strict=True)):
        key = identity_of(table, row)
        if met is not None and met != (key in before):
            kind = _finding_kind(is_deleted=is_deleted, met=met)
            findings.append(Finding(table.name, kind, _key_text(table, row), offset))
        if is_deleted:
            after.pop(key, None)
            continue
        if lacking[number]:
            row = filled(table, row, lacking[number], stored_row(before, key, old_keys[number]))
        after[key] = row, 1
    return Applied(after, tuple(findings))


def _beside(values: pa.Array | None) -> list[Any]:
    """A batch of keyed rows has no copies, one of rows without a key has nothing else."""
    return [] if values is None else values.to_pylist()


def _lacking(batch: ChangeBatch) -> list[list[int]]:
    """The columns of each row whose values the log left out."""
    found: list[list[int]] = [[] for _ in range(batch.rows.num_rows)]
    for name in batch.missing.schema.names if batch.missing is not None else ():
        place = batch.rows.schema.get_field_index(name)
        for number, is_missing in enumerate(batch.is_missing(name).to_pylist()):
            if is_missing:
                found[number].append(place)
    return found


def origins(table: Table, batch: ChangeBatch) -> list[str]:
    """The identity of the row that has the missing values where that is under another key, else ""."""
    if batch.old_key is None:
        return [""] * batch.rows.num_rows
    columns = zip(table.key_columns, batch.old_key.columns, strict=True)
    keys = zip(*(values_of(column, values) for column, values in columns), strict=True)
    return ["" if key[0] is None else identity(key) for key in keys]


def stored_row(before: Rows, key: str, origin: str) -> tuple[Row, int] | None:
    """The row that has the missing values: under its old key where it has one."""
    return before.get(origin or key)


def filled(table: Table, row: Row, lacking: list[int], stored: tuple[Row, int] | None) -> Row:
    if stored is None:
        raise Diverged(f"a change of {table.name} leaves values out of a row that is not there", table=table.name)
    return tuple(stored[0][place] if place in lacking else value for place, value in enumerate(row))


def _finding_kind(*, is_deleted: bool, met: bool) -> str:
    if not met:
        return "insert met a row"
    return "delete met no row" if is_deleted else "update met no row"


def _key_text(table: Table, row: Row) -> str:
    return json.dumps(dict(zip(table.key, key_of(table, row), strict=True)), default=str)


def _keyless(table: Table, before: Rows, batch: ChangeBatch) -> Applied:
    """Additions first: one row may stand in a batch twice, written differently, with copies of either sign."""
    after = dict(before)
    changes = zip(rows_of(table, batch.rows), _beside(batch.copies), strict=True)
    for row, copies in sorted(changes, key=lambda change: -change[1]):
        known = identity_of(table, row)
        held = after.get(known, (row, 0))[1]
        if held + copies < 0:
            raise Diverged(
                f"{-copies} rows of {table.name} should go, the destination holds only {held} of them", table=table.name
            )
        after[known] = row, held + copies
        if held + copies == 0:
            del after[known]
    return Applied(after)
