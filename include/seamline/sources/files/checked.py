"""A delivery held against what it promises, before anything of it is loaded: files, checksums, rows, sums, records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.canonical import ungrouped
from seamline.domain.catalogue import Kind, Table
from seamline.domain.errors import GateFailed
from seamline.domain.measure import Measure
from seamline.files.dialect import PARQUET
from seamline.sources.files import records
from seamline.sources.files.control import PromisedFile, PromisedTable, PromisedTotal
from seamline.sources.files.delivery import Delivery
from seamline.sources.files.fetched import FetchedFile
from seamline.sources.files.layout import Layout
from seamline.sources.files.rows import Form, Wrong, records_of, require_lines, rows_of
from seamline.values.arrow import TEXT
from seamline.values.digest import key_texts
from seamline.values.totals import GroupTotals

_ADDED = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.DECIMAL})
# So many faults stand in one message; the first ones are the cause of the others.
_NAMED_MAX = 10
# Rows and their sum; None of no value at all.
_Total = tuple[int, Decimal | None]


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table whose files are as they were promised."""

    table: Table
    files: tuple[FetchedFile, ...]
    form: Form
    rows: int


def checked(
    layout: Layout, delivery: Delivery, tables: Sequence[Table], fetched: Mapping[str, FetchedFile]
) -> Mapping[str, CheckedTable]:
    """By table. GateFailed names everything that is not as it was promised. `fetched`: by path."""
    found = dict[str, CheckedTable]()
    faults = list[str]()
    for table in tables:
        promised = delivery.tables[table.name]
        files, wrong = _files(delivery, promised, fetched)
        form = Form(layout.format, layout.dialect, layout.of(table.name))
        wrong += _unpromised(promised, form)
        if not wrong:
            rows, wrong = _contents(delivery, promised, table, files, form)
            found[table.name] = CheckedTable(replace(table, rows_estimate=rows), tuple(files), form, rows)
        faults += wrong
    if faults:
        named = faults[:_NAMED_MAX] + ([f"and {len(faults) - _NAMED_MAX} more"] if len(faults) > _NAMED_MAX else [])
        raise GateFailed(
            f"{delivery} is not what it promises: {'; '.join(named)}",
            hint="nothing was loaded. Ask who delivers it for a whole one; a correction is a new delivery, after which"
            " the date is run again",
        )
    return found


def _files(
    delivery: Delivery, promised: PromisedTable, fetched: Mapping[str, FetchedFile]
) -> tuple[list[FetchedFile], list[str]]:
    found, faults = list[FetchedFile](), list[str]()
    if not promised.files:
        faults.append(f"no file is named for table {promised.table}")
    for file in promised.files:
        there = fetched.get(delivery.path(file))
        if there is None:
            faults.append(f"{delivery.path(file)} is not there: the flag came before the file")
        elif fault := _of_file(file, there):
            faults.append(f"{there.path} {fault}")
        else:
            found.append(there)
    return found, faults


def _unpromised(promised: PromisedTable, form: Form) -> list[str]:
    """Files of which half would be as good as the whole. Half a Parquet file cannot be read."""
    if form.format == PARQUET or promised.rows is not None or promised.totals or records.ROWS in form.table.trailer:
        return []
    return [
        f"nothing says how much of {file.name} there is: the control file promises neither rows of {promised.table} nor"
        " bytes or sha256 of the file, and no `trailer` with {rows} is declared"
        for file in promised.files
        if file.size_bytes is None and not file.sha256
    ]


def _of_file(promised: PromisedFile, there: FetchedFile) -> str:
    if promised.size_bytes not in (None, there.size_bytes):
        return f"has {there.size_bytes} bytes, and {promised.size_bytes} are promised"
    if promised.sha256 not in ("", there.sha256):
        return f"has the sha256 {there.sha256}, and {promised.sha256} is promised"
    return ""


def _contents(
    delivery: Delivery, promised: PromisedTable, table: Table, files: Sequence[FetchedFile], form: Form
) -> tuple[int, list[str]]:
    """Rows of the table, and what is wrong with them."""
    over_all: list[_Sum | _Keys] = [_Sum(table, one) for one in promised.totals if one.sum in _numbers(table)]
    if table.is_keyed:
        over_all.append(_Keys(table))
    faults = [
        f"the control file adds up {total.sum} of {table.name}, which has no such number"
        for total in promised.totals
        if total.sum not in _numbers(table)
    ]
    rows = 0
    for file in files:
        try:
            measured = _measured(delivery, table, file, form, over_all)
            rows += measured.rows
            faults += [f"{file.path} {fault}" for fault in _of_records(file, table, form, measured)]
        except Wrong as exc:
            faults.append(f"{file.path} {exc}")
            return rows, faults
    if promised.rows not in (None, rows):
        faults.append(f"table {table.name} has {rows} rows, and its control file says {promised.rows}")
    return rows, faults + [fault for one in over_all for fault in one.faults()]


def _numbers(table: Table) -> list[str]:
    return [column.name for column in table.columns if column.kind in _ADDED]


def _measured(
    delivery: Delivery, table: Table, file: FetchedFile, form: Form, over_all: "Sequence[_Sum | _Keys]"
) -> records.Measured:
    wanted = {*records.summed(form.table.header), *records.summed(form.table.trailer)}
    own = {one: _Sum(table, PromisedTotal(one, (), {})) for one in sorted(wanted) if one in _numbers(table)}
    if unknown := sorted(wanted - own.keys()):
        raise Wrong(f"has a sum of {', '.join(unknown)} in its records, and {table.name} has no such number")
    require_lines(file.here, table, form)
    rows = 0
    for batch in rows_of(file.here, table, form):
        rows += batch.num_rows
        for one in (*over_all, *own.values()):
            one.add(batch)
    found = {name: one.whole() for name, one in own.items()}
    return records.Measured(table.name, delivery.business_date, rows, found)


def _of_records(file: FetchedFile, table: Table, form: Form, measured: records.Measured) -> Iterator[str]:
    said = records_of(file.here, table, form)
    for name, record, fields in (
        ("header", form.table.header, said.header),
        ("trailer", form.table.trailer, said.trailer),
    ):
        for fault in records.faults(record, fields, measured) if record else ():
            yield f"has a {name} that {fault}"


class _Sum:
    """A control total of all rows that are added."""

    def __init__(self, table: Table, promised: PromisedTotal) -> None:
        self._table, self._promised = table, promised
        self._totals = GroupTotals(table, columns=[promised.sum], by=promised.by, measure=Measure.SUM)

    def add(self, rows: pa.RecordBatch) -> None:
        self._totals.add(rows)

    def whole(self) -> Decimal | None:
        found = self._totals.found()
        return next(iter(found.values()))[1] if found else None

    def faults(self) -> Iterator[str]:
        found = {tuple(map(ungrouped, group)): one for group, one in self._totals.found().items()}
        for group in sorted({*found, *self._promised.groups}, key=repr):
            there, promised = found.get(group, (0, None)), self._promised.groups.get(group, (0, None))
            if not _is_promised(there, promised):
                of = " ".join(f"{name} {value}" for name, value in zip(self._promised.by, group, strict=True))
                yield (
                    f"table {self._table.name}{f', {of},' if of else ''} adds up {self._promised.sum} to"
                    f" {_shown(there)}, and its control file says {_shown(promised)}"
                )


def _is_promised(there: _Total, promised: _Total) -> bool:
    """The sum of no value is nothing, or 0."""
    return there == promised or (there[0] == promised[0] and there[1] is None and promised[1] == 0)


class _Keys:
    """The keys of all rows that are added, as texts."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._texts = list[pa.Array]()

    def add(self, rows: pa.RecordBatch) -> None:
        self._texts.append(key_texts(self._table, rows))

    def faults(self) -> Iterator[str]:
        counted = pc.value_counts(pa.chunked_array(self._texts, TEXT))
        repeated = counted.filter(pc.greater(counted.field("counts"), 1))
        if len(repeated):
            first = repeated[0].as_py()
            yield (
                f"table {self._table.name} has {len(repeated)} keys more than once, as {first['values']} in"
                f" {first['counts']} rows"
            )


def _shown(total: _Total) -> str:
    rows, number = total
    return f"{'nothing' if number is None else f'{number:f}'} in {rows} rows"
