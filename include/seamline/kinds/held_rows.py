"""Rows as they stand behind the changes that were read so far: of a keyed table by key, of one without a key counted.

They lie in a file of the temporary folder that has no name and goes with the process. Memory is bounded by SQLite's
page cache; the file has about the size of the live rows.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.errors import Diverged
from seamline.kinds.row_json import Document, document_of, row_texts
from seamline.values.changes import ChangeBatch

_CACHE_KIB = 65_536
_AT_ONCE = 10_000
Changed = tuple[bytes, bytes | None]
"""A key, and its row; None: it goes."""


class HeldRows:
    """Of a keyed table rows by key, of one without a key copies by row. Both are JSON as of `row_json`."""

    def __init__(self, *, keyed: bool) -> None:
        self._keyed = keyed
        # SQLite's name of a file that nobody else sees. Views of a comparison read it from threads of their own.
        self._rows = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._rows.execute("PRAGMA journal_mode = OFF")
        self._rows.execute("PRAGMA synchronous = OFF")
        self._rows.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        held = "key BLOB PRIMARY KEY, row BLOB" if keyed else "row BLOB PRIMARY KEY, copies INTEGER"
        self._rows.execute(f"CREATE TABLE held ({held}) WITHOUT ROWID")

    # ---- with a key -------------------------------------------------------------------------------------------------

    def put(self, changes: Iterable[Changed]) -> None:
        newest = dict(changes)
        stays = [(key, row) for key, row in newest.items() if row is not None]
        self._rows.execute("BEGIN")
        self._rows.executemany("INSERT OR REPLACE INTO held VALUES (?, ?)", stays)
        self._rows.executemany("DELETE FROM held WHERE key = ?", [(key,) for key, row in newest.items() if row is None])
        self._rows.execute("COMMIT")

    def row(self, key: bytes) -> bytes | None:
        found = self._rows.execute("SELECT row FROM held WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def held_keys(self) -> Iterator[bytes]:
        return (key for (key,) in self._rows.cursor().execute("SELECT key FROM held"))

    # ---- without a key ----------------------------------------------------------------------------------------------

    def count(self, changes: Mapping[bytes, int]) -> None:
        self._rows.execute("BEGIN")
        self._rows.executemany(
            "INSERT INTO held VALUES (?, ?) ON CONFLICT DO UPDATE SET copies = copies + excluded.copies",
            list(changes.items()),
        )
        self._rows.execute("DELETE FROM held WHERE copies = 0")
        self._rows.execute("COMMIT")

    def copies(self, row: bytes) -> int:
        found = self._rows.execute("SELECT copies FROM held WHERE row = ?", (row,)).fetchone()
        return int(found[0]) if found else 0

    def counted(self) -> Iterator[tuple[bytes, int]]:
        return iter(self._rows.cursor().execute("SELECT row, copies FROM held"))

    # ---- both -------------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return self._rows.execute("SELECT 1 FROM held LIMIT 1").fetchone() is None

    def rows(self, table: str) -> Iterator[list[bytes]]:
        """All rows, some at a time. Diverged: of a row more copies went than had come."""
        held = self._rows.cursor().execute(f"SELECT row, {'1' if self._keyed else 'copies'} FROM held")
        while some := held.fetchmany(_AT_ONCE):
            if (least := min(copies for _, copies in some)) < 0:
                raise Diverged(f"{-least} copies too many of a row of {table} went", table=table)
            yield [row for row, copies in some for _ in range(copies)]

    def empty(self) -> None:
        self._rows.execute("DELETE FROM held")

    def close(self) -> None:
        self._rows.close()


def keys_of(table: Table, rows: pa.RecordBatch) -> list[bytes]:
    """The key of each row, as `HeldRows` knows it."""
    return row_texts(table, table.key_columns, rows)


def fill(batch: ChangeBatch, found: list[Document], keys: list[bytes], held: HeldRows) -> None:
    """Give the documents of a batch's rows the values that the log left out, from the rows that are held before it.

    Diverged: a row that is looked for is not there.
    """
    if batch.missing is None:
        return
    names = batch.missing.schema.names
    lacking = [batch.is_missing(name).to_pylist() for name in names]
    deleted = batch.deleted.to_pylist() if batch.deleted is not None else []
    origins = _origins(batch)
    for number, flags in enumerate(zip(*lacking, strict=True)):
        if deleted[number] or not any(flags):
            continue
        stored = held.row(origins[number] or keys[number])
        if stored is None:
            raise Diverged(
                f"a change of {batch.table.name} leaves values out of a row that is not there", table=batch.table.name
            )
        known = document_of(stored)
        found[number].update({name: known[name] for name, flag in zip(names, flags, strict=True) if flag})


def _origins(batch: ChangeBatch) -> list[bytes]:
    """The key of the stored row that has the missing values, b"" where that is the row's own."""
    if batch.old_key is None:
        return [b""] * batch.rows.num_rows
    is_given = batch.old_key.column(0).is_valid().to_pylist()
    return [key if given else b"" for key, given in zip(keys_of(batch.table, batch.old_key), is_given, strict=True)]


def require_copies(table: Table, row: bytes, copies: int, held: HeldRows | None) -> None:
    """Diverged: fewer rows are held than should go."""
    there = held.copies(row) if held is not None else 0
    if there < copies:
        raise Diverged(
            f"{copies} rows of {table.name} should go, the destination holds only {there} of them", table=table.name
        )
