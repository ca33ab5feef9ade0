"""The character NUL, which texts of other servers hold and PostgreSQL's do not: the same words on both paths."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from psycopg import errors

from seamline.domain.catalogue import PARK_IT, Table
from seamline.domain.errors import SchemaConflict, SeamlineError
from seamline.sinks.postgres.encode import Encoded

# Of a text in a JSON document, and of a byte in a line of COPY.
_REFUSALS = (errors.UntranslatableCharacter, errors.CharacterNotInRepertoire)


def nul_refused(table: Table, column: str, *, key: Mapping[str, Any] | None = None) -> SchemaConflict:
    """`column`: "" where the server does not say which. `key`: of the row, where it is known."""
    of_row = f" in the row {json.dumps(key, ensure_ascii=False)}" if key else ""
    place = f"column {column}" if column else "a text"
    named = ", ".join(table.key) or "*"
    find = f"`SELECT {named} FROM {table.name} WHERE INSTR({column}, CHAR(0))` lists the rows. " if column else ""
    return SchemaConflict(
        f"{place} of table {table.name} holds the character NUL (0x00){of_row}, which no text of PostgreSQL can hold",
        hint=f"correct the value at the source: {find}Then load it again; a stream that has met it cannot pass it."
        f" {PARK_IT}",
        table=table.name,
    )


def naming_nul(error: SeamlineError, table: Table, batches: Iterable[Encoded]) -> SeamlineError:
    """The error of a statement that brought these batches, with the place of the first NUL where that was refused."""
    if not isinstance(error.__cause__, _REFUSALS):
        return error
    for row in (row for batch in batches for row in _rows(table, batch)):
        for column in table.columns:
            if "\0" in str(row[column.name]):
                return nul_refused(table, column.name, key={name: row[name] for name in table.key})
    return error


def _rows(table: Table, batch: Encoded) -> Iterator[Mapping[str, Any]]:
    if batch.is_sent:
        yield from json.loads(batch.document)
        return
    names = [column.name for column in table.columns]
    for fields in csv.reader(io.StringIO(batch.document.decode(), newline="")):
        # What stands in front of them is of the staging table.
        yield dict(zip(names, fields[-len(names) :], strict=True))
