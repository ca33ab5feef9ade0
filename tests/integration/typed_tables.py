"""A stream's tables as its batches of changes leave them: what a sink that takes the typed form would hold."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from seamline.databases.postgres.canonical import quoted
from seamline.domain.catalogue import Column, Table
from seamline.domain.changes import TableChanges
from seamline.kinds.found import logged_kind
from seamline.ports import Lease, Staged
from seamline.sinks.postgres.sink import PostgresSink
from seamline.values.build import batch_of
from seamline.values.changes import ChangeBatch, change_batch
from seamline.values.digest import canonical_texts
from tests.integration.binary_values import exact, read_rows
from tests.integration.databases import postgres
from tests.integration.streamed import DESTINATION, Streamed

Texts = tuple[str | None, ...]


class TypedTables:
    """Rows as canonical texts, in declared order."""

    def __init__(self, stream: Streamed) -> None:
        self._stream = stream
        source = stream.plan.source
        self._decoder = logged_kind(source.kind).change_decoder(source)
        self._tables = {table.name: table for table in stream.tables}
        self._keyed: dict[str, dict[Texts, Texts]] = {table.name: {} for table in stream.tables}
        self._copies: dict[str, Counter[Texts]] = {table.name: Counter() for table in stream.tables}

    def take(self, changes: TableChanges) -> None:
        batch = change_batch(self._tables[changes.table], changes, self._decoder)
        if batch.truncate_first:
            self._keyed[changes.table].clear()
            self._copies[changes.table].clear()
        if batch.table.is_keyed:
            self._take_keyed(batch)
        else:
            for row, copies in zip(_rows(batch.table, batch.rows), batch.copies.to_pylist(), strict=True):
                self._copies[changes.table][row] += copies

    def _take_keyed(self, batch: ChangeBatch) -> None:
        table, rows = batch.table, self._keyed[batch.table.name]
        places = [table.columns.index(column) for column in table.key_columns]
        lacking = [batch.is_missing(column.name).to_pylist() for column in table.columns]
        old_keys = _texts(table.key_columns, batch.old_key) if batch.old_key else [()] * len(batch.rows)
        before = dict(rows)
        for number, row in enumerate(_rows(table, batch.rows)):
            key = tuple(row[place] for place in places)
            if batch.deleted[number].as_py():
                rows.pop(key, None)
                continue
            old = before.get(old_keys[number] if any(old_keys[number]) else key, ())
            rows[key] = tuple(
                old[place] if flags[number] else text
                for place, (text, flags) in enumerate(zip(row, lacking, strict=True))
            )

    def differing(self, name: str) -> list[tuple[Counter[Texts], Counter[Texts]]]:
        """What is only here and what is only in the destination, if anything."""
        table = self._tables[name]
        here = Counter(self._keyed[name].values()) + self._copies[name]
        with postgres(self._stream.database) as session:
            stored = read_rows(session, f"SELECT {exact(table)} FROM {quoted(DESTINATION.namespace)}.{quoted(name)}")
        there = Counter(_rows(table, batch_of(table, stored)))
        return [] if here == there else [(here - there, there - here)]


@contextmanager
def typed_beside(stream: Streamed, monkeypatch: pytest.MonkeyPatch) -> Iterator[TypedTables]:
    """They take what the stream's own sink stages."""
    tables, stage = TypedTables(stream), PostgresSink.stage

    def both(sink: PostgresSink, lease: Lease, changes: TableChanges) -> Staged:
        tables.take(changes)
        return stage(sink, lease, changes)

    with monkeypatch.context() as patched:
        patched.setattr(PostgresSink, "stage", both)
        yield tables


def _rows(table: Table, batch: pa.RecordBatch) -> list[Texts]:
    return _texts(table.columns, batch)


def _texts(columns: tuple[Column, ...], batch: pa.RecordBatch) -> list[Texts]:
    found = zip(columns, batch.columns, strict=True)
    return list(zip(*(canonical_texts(column, values).to_pylist() for column, values in found), strict=True))
