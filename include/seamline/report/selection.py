"""Breaks of one comparison, as a filter shows them: as a report for a workbook, and as CSV. Pure."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Any

from seamline.domain.cut_state import Headline
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import Break
from seamline.report.blocks import Block, Cell, Report, Row
from seamline.report.contents import break_cells
from seamline.report.lines import inert

_COLUMNS = ("break", "table", "kind", "key", "column", "source", "destination", "difference", "since")
_CSV_COLUMNS = (
    "row_kind", "sync", "destination", "scope", "business_date", "verdict", "run", "table", "break_type", "break_id",
    "key", "column", "source_value", "destination_value", "difference", "since", "note",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Listed:
    """One break. `since`: the first business date whose cut has it; of live tables the moment when it was found
    first."""

    break_id: str
    found: Break
    since: date | datetime | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """`found`: the comparison; its breaks are not looked at. `chosen`: name and value of each part of the filter, ""
    where it does not filter. `is_cut_short`: more breaks are like that, behind those of `breaks`. `altered`: what is
    said first of a comparison that is not stored as it was recorded."""

    found: Reconciliation
    chosen: Mapping[str, str]
    breaks: Sequence[Listed]
    is_cut_short: bool
    altered: Sequence[str] = ()

    @property
    def headline(self) -> Headline:
        return Headline.ALTERED if self.altered else Headline(self.found.verdict.value)

    @property
    def filter_in_words(self) -> str:
        return "; ".join(f"{name}: {value}" for name, value in self.chosen.items() if value) or "none"

    @property
    def note(self) -> str:
        """How many breaks there are and whether that is all of them."""
        count = len(self.breaks)
        if self.is_cut_short:
            return f"only the first {count:,} breaks of the filter are in this file: choose fewer for the rest"
        return f"all {count:,} breaks of the filter" if count != 1 else "the one break of the filter"


def report_of_selection(selection: Selection, zone: tzinfo) -> Report:
    found = selection.found
    head = ("sync", "business date", "destination", "verdict", "compared", "filter", "breaks", "run")
    about: Cell = found.business_date if found.scope == "cut" else "live tables"
    cells = (
        found.sync,
        about,
        found.destination,
        selection.headline.value,
        found.ended_at,
        selection.filter_in_words,
        selection.note,
        found.run_id,
    )
    return Report(
        subject=f"{found.sync}, {about}, {found.destination}: breaks",
        verdict=selection.headline,
        blocks=(
            *_altered(selection),
            Block("Selection", head, (Row(cells, is_wrong=selection.is_cut_short),), is_record=True),
            Block("Breaks", _COLUMNS, tuple(row for one in selection.breaks for row in _rows(one))),
        ),
        zone=zone,
        at=found.ended_at,
    )


def _altered(selection: Selection) -> Iterator[Block]:
    if selection.altered:
        rows = tuple(Row((line,), is_wrong=True) for line in selection.altered)
        yield Block("Altered", ("what",), rows, is_whole=True)


def _rows(one: Listed) -> Iterator[Row]:
    about = (one.break_id, one.found.table, one.found.type.value, one.found.key)
    for column, mine, theirs, delta in break_cells(one.found):
        yield Row((*about, column or None, mine or None, theirs or None, delta, one.since), is_wrong=True)


def selection_csv(selection: Selection, zone: tzinfo) -> str:
    """The first line says what was chosen and whether all of it is there (`row_kind` selection). Behind it one line for
    each column in which a row differs (`row_kind` break). Moments are in `zone`, with its offset."""
    found = selection.found
    head = {
        "sync": found.sync,
        "destination": found.destination,
        "scope": found.scope.value,
        "business_date": found.business_date if found.scope == "cut" else None,
        "verdict": selection.headline.value,
        "run": found.run_id,
    }
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_CSV_COLUMNS)
    note = "; ".join([*selection.altered, selection.note, f"filter: {selection.filter_in_words}"])
    writer.writerow(_cells({**head, "row_kind": "selection", "note": note}))
    for one in selection.breaks:
        writer.writerows(map(_cells, _lines(head, one, zone)))
    return text.getvalue()


def _lines(head: Mapping[str, Any], one: Listed, zone: tzinfo) -> Iterator[Mapping[str, Any]]:
    since = one.since.astimezone(zone) if isinstance(one.since, datetime) else one.since
    about = {
        "row_kind": "break",
        "table": one.found.table,
        "break_type": one.found.type.value,
        "break_id": one.break_id,
        "key": one.found.key,
        "since": since.isoformat() if since else None,
    }
    for column, mine, theirs, delta in break_cells(one.found):
        values = {"column": column, "source_value": mine, "destination_value": theirs, "difference": delta}
        yield {**head, **about, **values}


def _cells(row: Mapping[str, Any]) -> list[Any]:
    return [inert(row.get(column)) for column in _CSV_COLUMNS]
