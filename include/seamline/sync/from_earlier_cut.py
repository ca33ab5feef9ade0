"""What a cut must hold: the tables of the cut that it begins with, as the log since leaves them.

A table by business date is made of the rows of later dates that its base keeps (`TablePlan.ahead_of`): those of the
cut's own date become the table, those of later dates are kept for the next one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal

from seamline.domain.canonical import FloatSummary
from seamline.domain.catalogue import Column
from seamline.domain.changes import TableChanges
from seamline.domain.date_bounds import is_within
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.log_patch import PatchedRow, TablePatch, Texts
from seamline.domain.made_from import LET_IT_BE_READ, NotByLog
from seamline.domain.measure import Measure
from seamline.domain.position import Position
from seamline.plan.model import SyncPlan, TablePlan
from seamline.ports import ReadView, RowHash
from seamline.sync.cut import dates_of
from seamline.sync.patched_view import PatchedTable, patched

PatchOf = Callable[[TableChanges], TablePatch]


def dates_in_base(plan: SyncPlan, business_date: date) -> Mapping[str, Segment]:
    """By table that is cut by date the rows of the base that it is made of. `plan`: of cuts."""
    kept_by = {table.ahead_of: table.name for table in plan.tables if table.ahead_of}
    return {
        table.name: replace(dates_of(plan, table, business_date), table=kept_by.get(table.name, table.name))
        for table in plan.tables
        if table.business_date is not None
    }


def expected_view(
    plan: SyncPlan,
    business_date: date,
    base: ReadView,
    changes: Mapping[str, TableChanges],
    patch_of: PatchOf,
    position: Position,
) -> ReadView:
    """The tables of the cut at `position`, each under its own name. `base` is open on the tables of the base, and is
    closed with the view. NotByLog: the log leaves out a value of a row that the base does not keep."""
    dates = dates_in_base(plan, business_date)
    tables: dict[str, PatchedTable] = {}
    for table in plan.tables:
        if (of_table := changes.get(table.ahead_of or table.name)) is None:
            continue
        patch = patch_of(of_table)
        if table.name in dates:
            patch = _dated(table, patch, dates[table.name], base)
        tables[table.name] = PatchedTable(table.target, _given(patch))
    return patched(_OfDates(base, plan, dates), tables, position)


def _given(patch: TablePatch) -> Callable[[], TablePatch]:
    return lambda: patch


# ---- rows by date ---------------------------------------------------------------------------------------------------


def _dated(table: TablePlan, patch: TablePatch, dates: Segment, base: ReadView) -> TablePatch:
    """A change that leaves a row with another date takes it out of the table."""
    column = table.target.column(dates.date_column)
    copies = {text: one for text, one in patch.copies.items() if is_within(column, one[0][column.name], dates)}
    rows = {key: _dated_row(table, row, column, dates, base) for key, row in patch.rows.items()}
    return TablePatch(rows, copies, patch.emptied)


def _dated_row(table: TablePlan, row: PatchedRow, column: Column, dates: Segment, base: ReadView) -> PatchedRow:
    if row.texts is None or not is_within(column, row.texts[column.name], dates):
        return PatchedRow(None)
    if not row.missing:
        return row
    # The stored row may be of any later date, so it is looked for among all that the base keeps.
    stored = base.rows(dates.table, [row.taken_from]).get(row.taken_from)
    if stored is None:
        raise NotByLog(
            f"a row of {table.ahead_of or table.name} came to this date from an earlier one, and the log leaves out"
            f" what it holds in {', '.join(row.missing)}",
            hint=f"give the table REPLICA IDENTITY FULL; {LET_IT_BE_READ}",
            table=table.name,
        )
    return PatchedRow({**row.texts, **{name: stored[name] for name in row.missing}})


class _OfDates:
    """`ports.ReadView` of a base, in which a table by business date is those of the rows kept of later dates that
    `dates` names."""

    def __init__(self, base: ReadView, plan: SyncPlan, dates: Mapping[str, Segment]) -> None:
        self._base = base
        self._plan = plan
        self._dates = dates
        self._columns = {name: plan.table(name).target.column(one.date_column) for name, one in dates.items()}

    @property
    def position(self) -> Position:
        return self._base.position

    def digests(self, segment: Segment, *, run_key: str) -> Mapping[int, SegmentDigest]:
        return self._base.digests(self._segment(segment), run_key=run_key)

    def key_span(self, table: str) -> tuple[int, int] | None:
        """Of all rows that are kept: no narrower than that of the dates."""
        return self._base.key_span(self._name(table))

    def row_hashes(self, segment: Segment, *, run_key: str) -> Sequence[RowHash]:
        return self._base.row_hashes(self._segment(segment), run_key=run_key)

    def rows(self, table: str, keys: Sequence[str]) -> Mapping[str, Texts]:
        found = self._base.rows(self._name(table), keys)
        if table not in self._dates:
            return found
        column, dates = self._columns[table], self._dates[table]
        return {key: row for key, row in found.items() if is_within(column, row[column.name], dates)}

    def totals(
        self, segment: Segment, *, columns: Sequence[str], by: Sequence[str], measure: Measure = Measure.SUM
    ) -> Mapping[tuple[str, ...], tuple[int, Decimal | None]]:
        return self._base.totals(self._segment(segment), columns=columns, by=by, measure=measure)

    def float_summaries(self, segment: Segment) -> Mapping[str, FloatSummary]:
        return self._base.float_summaries(self._segment(segment))

    def columns(self, table: str) -> tuple[str, ...]:
        """Those of the plan: a table of a published cut has columns of its own beside them."""
        return tuple(column.name for column in self._plan.table(table).target.columns)

    def close(self) -> None:
        self._base.close()

    def _name(self, table: str) -> str:
        return self._dates[table].table if table in self._dates else table

    def _segment(self, segment: Segment) -> Segment:
        dates = self._dates.get(segment.table)
        if dates is None:
            return segment
        return replace(
            segment,
            table=dates.table,
            date_column=dates.date_column,
            date_from=dates.date_from,
            date_to=dates.date_to,
        )
