"""Reports as JSON and CSV. They say of a cut what the page says of it: its state, from the same value."""

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from seamline.domain.break_id import break_id
from seamline.domain.cut_state import CutState, of_live
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import ControlTotal, TableVerdict, of_guaranteed

_COLUMNS = (
    "sync", "destination", "scope", "business_date", "verdict", "compared", "checks", "decision", "publication",
    "version", "partial", "position", "position_time", "mode", "run", "table", "table_verdict", "reason",
    "source_rows", "destination_rows", "column", "group", "source_sum", "destination_sum", "breaks", "signed_by",
    "after_cut_of",
)  # fmt: skip
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_json(cuts: Sequence[CutState], live: Sequence[Reconciliation]) -> list[dict[str, Any]]:
    """Cuts and comparisons of live tables. `verdict` of a cut is its headline, the worst of its four parts."""
    return [*(_cut_json(one) for one in cuts), *(_live_json(one) for one in live)]


def to_csv(cuts: Sequence[CutState], live: Sequence[Reconciliation]) -> str:
    """One line per table and control total; of a run that compared nothing one line."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for row in (*_rows_of(cuts, _cut_head), *_rows_of(live, _live_head)):
        writer.writerow([_cell(row.get(column)) for column in _COLUMNS])
    return text.getvalue()


def _cut_json(state: CutState) -> dict[str, Any]:
    decision, publication, failure = state.decision, state.publication, state.failure
    return {
        "run": state.run_id,
        "sync": state.sync,
        "destination": state.destination,
        "scope": "cut",
        "business_date": state.business_date.isoformat(),
        "verdict": state.headline.value,
        "partial": state.partial,
        "compared": state.compared.value,
        "checks": {
            "outcome": state.checks.word,
            "checked": state.checks.checked,
            "failed": [
                {"on": one.on, "type": one.type, "why": one.why, "detail": one.detail, "rows": one.rows,
                 "keys": list(one.keys)}
                for one in state.checks.failed
            ],
        },
        "decision": decision and decision.to_json(),
        "publication": {
            "version": publication.version, "at": _moment(publication.at), "in_force": publication.in_force,
            "in_force_is": publication.in_force_is.value if publication.in_force else None,
            "why_not": publication.why_not,
        },
        "failure": failure and {
            "task": failure.task, "error": failure.error, "cure": failure.cure, "at": _moment(failure.at),
        },
        **_compared_json(state.found),
    }  # fmt: skip


def _live_json(found: Reconciliation) -> dict[str, Any]:
    return {
        "run": found.run_id,
        "sync": found.sync,
        "destination": found.destination,
        "scope": "live",
        # It is about its own moment. What caused it is another matter.
        "business_date": None,
        "after_cut_of": found.business_date.isoformat() if found.business_date else None,
        "verdict": of_live(found).value,
        "partial": found.is_partial,
        **_compared_json(found),
    }


def _compared_json(found: Reconciliation | None) -> dict[str, Any]:
    if found is None:
        return {"position": None, "position_time": None, "mode": "", "evidence": {}, "tables": []}
    return {
        "position": str(found.position) if found.position else None,
        "position_time": _moment(found.position_time),
        "mode": found.mode,
        "started_at": _moment(found.started_at),
        "ended_at": _moment(found.ended_at),
        "evidence": dict(found.evidence),
        "tables": [_table_json(found, table) for table in found.tables],
    }


def _table_json(found: Reconciliation, table: TableVerdict) -> dict[str, Any]:
    return {
        "table": table.table,
        "verdict": table.verdict.value,
        "reason": table.reason,
        "source_rows": table.source_rows,
        "destination_rows": table.destination_rows,
        "control_totals": [
            {
                "column": total.column,
                "group": list(total.group),
                "source_rows": total.source_rows,
                "destination_rows": total.destination_rows,
                "source_sum": _text(total.source_sum),
                "destination_sum": _text(total.destination_sum),
                "is_equal": total.is_equal,
            }
            for total in table.totals
        ],
        "breaks_total": table.breaks_total,
        "breaks": [
            {
                "id": break_id(found.sync, found.destination, one),
                "type": one.type.value,
                "key": one.key,
                "source": one.source,
                "destination": one.destination,
            }
            for one in table.breaks
        ],
    }


def _rows_of(reports: Sequence[Any], head_of: Any) -> Iterator[dict[str, Any]]:
    for one in reports:
        head, found = head_of(one)
        if found is None or not found.tables:
            yield head
            continue
        head |= {"position": found.position, "position_time": _moment(found.position_time), "mode": found.mode}
        for table in found.tables:
            yield from (head | row for row in _table_rows(table))


def _cut_head(state: CutState) -> tuple[dict[str, Any], Reconciliation | None]:
    head = {
        "sync": state.sync,
        "destination": state.destination,
        "scope": "cut",
        "business_date": state.business_date,
        "verdict": state.headline.value,
        "compared": state.compared.value,
        "checks": state.checks.word,
        "decision": state.decision.state.value if state.decision else "",
        "publication": state.publication.in_words(),
        "version": state.publication.version,
        "partial": state.partial,
        "run": state.run_id,
        "signed_by": state.signed_by,
    }
    return head, state.found


def _live_head(found: Reconciliation) -> tuple[dict[str, Any], Reconciliation]:
    head = {
        "sync": found.sync,
        "destination": found.destination,
        "scope": "live",
        "verdict": of_live(found).value,
        "compared": of_guaranteed(found.tables).value,
        "partial": found.is_partial,
        "run": found.run_id,
        "after_cut_of": found.business_date,
    }
    return head, found


def _table_rows(table: TableVerdict) -> Iterator[dict[str, Any]]:
    about = {"table": table.table, "table_verdict": table.verdict.value, "reason": table.reason}
    rows = {"source_rows": table.source_rows, "destination_rows": table.destination_rows}
    for number, cells in enumerate([_total_cells(total) for total in table.totals] or [rows]):
        # Once a table: a spreadsheet adds them up.
        breaks = {} if number else {"breaks": table.breaks_total}
        yield {**about, **cells, **breaks}


def _total_cells(total: ControlTotal) -> dict[str, Any]:
    return {
        "source_rows": total.source_rows,
        "destination_rows": total.destination_rows,
        "column": total.column,
        "group": "/".join(total.group),
        "source_sum": total.source_sum,
        "destination_sum": total.destination_sum,
    }


def _cell(value: Any) -> Any:
    """A text as a text for a spreadsheet too; numbers stay numbers."""
    if value is None or isinstance(value, bool | int | Decimal):
        return value
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _text(value: Decimal | None) -> str | None:
    return None if value is None else str(value)


def _moment(value: datetime | None) -> str | None:
    return value.isoformat() if value else None
