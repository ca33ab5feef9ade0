"""The files of a table: made of what is staged, and read again in the typed form, wherever they came from."""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from seamline.domain.canonical import ungrouped
from seamline.domain.catalogue import Column, Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import GateFailed
from seamline.domain.measure import Measure
from seamline.files.csv_file import Frame, head_of, read_rows, tail_of, write_rows
from seamline.files.dialect import CSV, Dialect
from seamline.files.stores.store import Sendable
from seamline.sinks.files import types
from seamline.sinks.files.options import Total
from seamline.sinks.files.state import FoundTotal, HeldCut, HeldTable
from seamline.sinks.files.two_phase import DeliveredFile
from seamline.sinks.lake.loads import StagedFiles
from seamline.sinks.lake.storage import parquet_file, write_parquet
from seamline.sinks.lake.stores import FilePath
from seamline.values.arrow import table_of
from seamline.values.digest import segment_digest
from seamline.values.totals import GroupTotals

# How the records before and behind the rows begin.
_HEADER, _TRAILER = "H", "T"

Write = Callable[[str, Sendable], DeliveredFile]
"""Puts a file of this name where the delivery is prepared."""


@dataclass(frozen=True, slots=True)
class CutNames:
    """What a header record says beside the table."""

    sync: str
    business_date: date
    version: int

    def header(self, table: str) -> tuple[str, ...]:
        return (_HEADER, self.sync, table, self.business_date.isoformat(), str(self.version))


@dataclass(frozen=True, slots=True)
class MadeFile:
    """A file of a table with the digest of the rows in it."""

    file: DeliveredFile
    digest: SegmentDigest


@dataclass(frozen=True, slots=True)
class MadeTable:
    files: tuple[MadeFile, ...]
    totals: tuple[FoundTotal, ...]

    @property
    def digest(self) -> SegmentDigest:
        return sum((one.digest for one in self.files), SegmentDigest())


class _Sums:
    """Digest and control totals of the rows that pass."""

    def __init__(self, table: Table, totals: Sequence[Total], run_key: str) -> None:
        self._table, self._totals, self._run_key = table, totals, run_key
        self._sums = [GroupTotals(table, columns=[total.sum], by=total.by, measure=Measure.SUM) for total in totals]
        self.digest = SegmentDigest()

    def passing(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            self.digest += segment_digest(self._table, rows, run_key=self._run_key)
            for sums in self._sums:
                sums.add(rows)
            yield rows

    def found(self) -> tuple[FoundTotal, ...]:
        return tuple(
            FoundTotal(
                total.sum,
                total.by,
                tuple(
                    (tuple(map(ungrouped, group)), rows, "" if number is None else f"{number:f}")
                    for group, (rows, number) in sorted(sums.found().items())
                ),
            )
            for total, sums in zip(self._totals, self._sums, strict=True)
        )


def made_csv(
    table: Table,
    staged: StagedFiles,
    names: CutNames,
    dialect: Dialect,
    totals: Sequence[Total],
    run_key: str,
    *,
    write: Write,
) -> MadeTable:
    """One file. SchemaConflict: a value has no place in it."""
    sums = _Sums(table, totals, run_key)
    with tempfile.TemporaryFile() as file:
        file.write(head_of(table, dialect, names.header(table.name) if dialect.header else ()))
        write_rows(table, sums.passing(staged.batches(table, types)), dialect, file)
        found = sums.found()
        file.write(tail_of(dialect, _trailer(dialect, staged.rows, found)))
        file.seek(0)
        made = write(f"{table.name}.csv", file)
    return MadeTable((MadeFile(made, sums.digest),), found)


def made_parquet(
    table: Table, staged: StagedFiles, totals: Sequence[Total], run_key: str, *, write: Write
) -> MadeTable:
    """The staged files as they are; of a table without rows an empty one."""
    sums = _Sums(table, totals, run_key)
    files = list[MadeFile]()
    for number, path in enumerate(staged.paths):
        before = sums.digest
        for _ in sums.passing(StagedFiles(staged.location, (path,), 0).batches(table, types)):
            pass
        name = f"{table.name}.parquet" if len(staged.paths) == 1 else f"{table.name}-{number + 1:05d}.parquet"
        with _opened(path) as content:
            files.append(MadeFile(write(name, content), sums.digest - before))
    if not files:
        with tempfile.NamedTemporaryFile() as file:
            write_parquet(types.storage_schema(table).empty_table(), Path(file.name))
            files.append(MadeFile(write(f"{table.name}.parquet", file), SegmentDigest()))
    return MadeTable(tuple(files), sums.found())


def control_of(cut: HeldCut, sync: str) -> bytes:
    """The control file: what a partner holds the other files against."""
    document = {
        "sync": sync,
        "business_date": cut.business_date.isoformat(),
        "version": cut.version,
        "as_of": cut.as_of.isoformat(),
        "position": str(cut.position),
        "verdict": cut.verdict,
        "signed_by": cut.signed_by,
        "left_out": dict(cut.left_out),
        "tables": [_controlled(held) for held in cut.tables.values()],
        **({"expired": list(cut.gone)} if cut.gone else {}),
    }
    return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"


def _controlled(held: HeldTable) -> dict[str, Any]:
    return {
        "table": held.definition.name,
        "key": list(held.definition.key),
        "columns": [_described(column) for column in held.definition.columns],
        "rows": held.rows,
        "files": [{"name": file.name, "bytes": file.size_bytes, "sha256": file.sha256} for file in held.files],
        "totals": [
            {
                "sum": total.sum,
                "by": list(total.by),
                "groups": [
                    {**dict(zip(total.by, values, strict=True)), total.sum: found, "rows": rows}
                    for values, rows, found in total.groups
                ],
            }
            for total in held.totals
        ],
    }


def _described(column: Column) -> dict[str, Any]:
    """Without what only a log knows of it."""
    plain = {
        "name": column.name,
        "kind": column.kind.value,
        "source_type": column.source_type,
        "nullable": column.nullable,
    }
    facts = {"length": column.length, "precision": column.precision, "scale": column.scale, "native": column.native}
    return plain | {name: value for name, value in facts.items() if value}


def rows_of(cut: HeldCut, held: HeldTable, sync: str, path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of one file of a table in the typed form. GateFailed: it is not the file that was written."""
    table = held.definition
    if cut.format == CSV:
        names = CutNames(sync, cut.business_date, cut.version)
        header = names.header(table.name) if cut.dialect.header else ()
        frame = Frame(header, _trailer(cut.dialect, held.rows, held.totals))
        return read_rows(path, table, cut.dialect, frame)
    return _of_parquet(table, path)


def require_rows(cut: HeldCut, held: HeldTable, sync: str, path: Path, expected: SegmentDigest, run_key: str) -> None:
    """GateFailed: a file that was read back holds other rows."""
    digests = (segment_digest(held.definition, rows, run_key=run_key) for rows in rows_of(cut, held, sync, path))
    if sum(digests, SegmentDigest()) != expected:
        raise GateFailed(
            f"the file of {held.definition.name} that was read back holds other rows than were compared",
            hint="nothing of it is visible; keep the staged files as evidence, and report it",
            table=held.definition.name,
        )


def _of_parquet(table: Table, path: Path) -> Iterator[pa.RecordBatch]:
    with parquet_file(path) as file:
        for batch in file.iter_batches(columns=[column.name for column in table.columns]):
            yield types.typed(table, batch)


def _trailer(dialect: Dialect, rows: int, totals: Sequence[FoundTotal]) -> tuple[str, ...]:
    if not dialect.trailer:
        return ()
    whole = [total for total in totals if not total.by]
    return (_TRAILER, str(rows), *(total.groups[0][2] if total.groups else "" for total in whole))


@contextmanager
def _opened(path: FilePath) -> Iterator[Any]:
    if isinstance(path, Path):
        with path.open("rb") as file:
            yield file
    else:
        with path.filesystem.open_input_stream(path.path) as stream:
            yield stream


def schema_table(path: FilePath) -> Table:
    """The table whose rows a staged file holds."""
    with parquet_file(path) as file:
        return table_of(file.schema_arrow)
