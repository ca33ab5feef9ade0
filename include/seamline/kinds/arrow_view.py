"""Tables as a ReadView where no server can be asked in SQL: their rows are read and digested here."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.canonical import FloatSummary
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.measure import Measure
from seamline.domain.position import Position
from seamline.ports import RowHash
from seamline.ports.shadow import ShadowCopy
from seamline.values import digest
from seamline.values.build import array_of, value_of, values_of
from seamline.values.segments import bucket_digests, in_segment, narrowed, texts_of
from seamline.values.totals import GroupTotals

# The rows of a table in the typed form; each call reads them again.
Batches = Callable[[], Iterator[pa.RecordBatch]]


class ArrowView:
    """`ports.ReadView` over rows that read the same each time.

    One batch at a time is in memory.
    """

    def __init__(self, position: Position, tables: Mapping[Table, Batches]) -> None:
        self._position = position
        self._tables = {table.name: (table, batches) for table, batches in tables.items()}

    @property
    def position(self) -> Position:
        return self._position

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        found: dict[int, SegmentDigest] = defaultdict(SegmentDigest)
        for table, rows in self._selected(segment, run_key):
            for bucket, one in bucket_digests(segment, table, rows, run_key=run_key).items():
                found[bucket] += one
        return dict(found)

    def key_span(self, table: str) -> tuple[int, int] | None:
        found, batches = self._tables[table]
        ends = [pc.min_max(rows.column(found.key[0])).as_py() for rows in batches() if rows.num_rows]
        return (min(one["min"] for one in ends), max(one["max"] for one in ends)) if ends else None

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        found = list[RowHash]()
        for table, rows in self._selected(segment, run_key):
            hashes = digest.row_hashes(*narrowed(segment, table, rows), run_key=run_key)
            pairs = zip(_names(table, rows).to_pylist(), hashes.to_pylist(), strict=True)
            found += [RowHash(*both) for both in pairs]
        return found

    def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Mapping[str, str | None]]:
        definition, batches = self._tables[table]
        names = [column.name for column in definition.columns]
        found = dict[str, Mapping[str, str | None]]()
        for rows in batches():
            of_row = _names(definition, rows)
            wanted = pc.is_in(of_row, pa.array(keys, of_row.type))
            texts = texts_of(definition.columns, rows.filter(wanted))
            for key, one in zip(of_row.filter(wanted).to_pylist(), texts, strict=True):
                found[key] = dict(zip(names, one, strict=True))
        return found

    def totals(
        self, segment: Segment, *, columns: Sequence[str], by: Sequence[str], measure: Measure = Measure.SUM
    ) -> Mapping[tuple[str, ...], tuple[int, Decimal | None]]:
        totals = GroupTotals(self._tables[segment.table][0], columns=columns, by=by, measure=measure)
        for _, rows in self._selected(segment, ""):
            totals.add(rows)
        return totals.found()

    def float_summaries(self, segment: Segment) -> Mapping[str, FloatSummary]:
        table, _ = self._tables[segment.table]
        return digest.float_summaries(table, (rows for _, rows in self._selected(segment, "")))

    def columns(self, table: str) -> tuple[str, ...]:
        return tuple(column.name for column in self._tables[table][0].columns) if table in self._tables else ()

    def sample(self, table: str, *, rows: int, key_from: int | None = None) -> Sequence[str]:
        """`ports.shadow.Shadows`."""
        found = list[str]()
        for definition, batch in self._selected(Segment(table, key_from=key_from), ""):
            found += _names(definition, batch[: rows - len(found)]).to_pylist()
            if len(found) >= rows:
                break
        return found

    def shadow(self, wanted: ShadowCopy) -> "ArrowView":
        """`ports.shadow.Shadows`. Reads until each key was found."""
        table, batches = self._tables[wanted.table.name]
        copies, lacking = list[pa.RecordBatch](), len(wanted.keys)
        for rows in batches():
            copies.append(rows.filter(_are_among(wanted.keys, _names(table, rows))))
            lacking -= copies[-1].num_rows
            if lacking <= 0:
                break
        copied = [_changed(table, wanted, rows) for rows in copies]
        copied += [rows.filter(_are_among(wanted.doubled, _names(table, rows))) for rows in copies]
        return ArrowView(self._position, {table: lambda: iter(copied)})

    def close(self) -> None:
        return

    def _selected(self, segment: Segment, run_key: str) -> Iterator[tuple[Table, pa.RecordBatch]]:
        table, batches = self._tables[segment.table]
        for rows in batches():
            chosen = in_segment(segment, table, rows, run_key=run_key)
            if chosen.num_rows:
                yield table, chosen


def _names(table: Table, rows: pa.RecordBatch) -> pa.Array:
    """By what a comparison names each row."""
    return digest.key_texts(table, rows) if table.is_keyed else digest.row_texts(table, rows)


def _are_among(keys: Sequence[str], of_row: pa.Array) -> pa.Array:
    return pc.is_in(of_row, pa.array(keys, of_row.type))


def _changed(table: Table, wanted: ShadowCopy, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with the values of the copy."""
    of_row = _names(table, rows).to_pylist()
    arrays = []
    for column in table.columns:
        changed = {key: values[column.name] for key, values in wanted.changed.items() if column.name in values}
        values = rows.column(column.name)
        if changed:
            before = values_of(column, values)
            after = [
                one if key not in changed else value_of(column, changed[key])
                for key, one in zip(of_row, before, strict=True)
            ]
            values = array_of(column, after)
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
