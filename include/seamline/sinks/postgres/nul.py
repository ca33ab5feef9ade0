"""The character NUL, which texts of other servers hold and PostgreSQL's do not: the same words on both paths."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import PARK_IT, Table
from seamline.domain.errors import SchemaConflict
from seamline.values.arrow import TEXT
from seamline.values.build import rows_of

_NUL = re.compile(b"\0")


def nul_refused(table: Table, column: str, *, key: Mapping[str, Any] | None = None) -> SchemaConflict:
    """`column`: "" where the server does not say which. `key`: of the row, where it is known."""
    of_row = f" in the row {json.dumps(key, ensure_ascii=False, default=str)}" if key else ""
    place = f"column {column}" if column else "a text"
    named = ", ".join(table.key) or "*"
    find = f"`SELECT {named} FROM {table.name} WHERE INSTR({column}, CHAR(0))` lists the rows. " if column else ""
    return SchemaConflict(
        f"{place} of table {table.name} holds the character NUL (0x00){of_row}, which no text of PostgreSQL can hold",
        hint=f"correct the value at the source: {find}Then load it again; a stream that has met it cannot pass it."
        f" {PARK_IT}",
        table=table.name,
    )


def require_no_nul(table: Table, rows: pa.RecordBatch) -> None:
    """SchemaConflict with the place of the first NUL in a text."""
    for column, values in zip(table.columns, rows.columns, strict=True):
        if values.type != TEXT or not _has_nul(values):
            continue
        found = pc.index(pc.match_substring(values, "\0"), pa.scalar(value=True)).as_py()
        row = pa.RecordBatch.from_arrays([one.slice(found, 1) for one in rows.columns], schema=rows.schema)
        (values_of_row,) = rows_of(table, row)
        named = dict(zip((one.name for one in table.columns), values_of_row, strict=True))
        raise nul_refused(table, column.name, key={name: named[name] for name in table.key})


def _has_nul(values: pa.Array) -> bool:
    """Looks at the bytes of all at once, where a slice may have others beside its own."""
    content = values.buffers()[2]
    if content is None or _NUL.search(content) is None:
        return False
    return bool(pc.any(pc.match_substring(values, "\0")).as_py())
