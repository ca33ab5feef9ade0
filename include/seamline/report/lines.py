"""Cuts and comparisons as CSV: tables, control totals, and the rows that differ. Pure."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any

from seamline.domain import differences
from seamline.domain.break_id import break_id
from seamline.domain.cut_state import CutState, of_live
from seamline.domain.doubted import altered_in_words
from seamline.domain.runs import Reconciliation
from seamline.domain.sign_off import SignOff, by_take
from seamline.domain.verdict import ControlTotal, TableVerdict, of_guaranteed
from seamline.report.contents import break_cells

_COLUMNS = (
    "sync", "destination", "scope", "business_date", "verdict", "compared", "checks", "decision", "publication",
    "version", "partial", "position", "position_time", "mode", "run", "table", "table_verdict", "reason",
    "source_rows", "destination_rows", "column", "group", "source_sum", "destination_sum", "breaks", "signed_by",
    "after_cut_of", "row_kind", "difference", "break_id", "break_type", "key", "source_value", "destination_value",
    "altered", "sign_off", "sign_off_by", "sign_off_at", "sign_off_reason", "sign_off_verdict_hash",
    "prepared_reason",
)  # fmt: skip
# A spreadsheet takes a cell that begins so for a formula, unless it is a number.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def to_csv(
    cuts: Sequence[CutState],
    live: Sequence[Reconciliation],
    *,
    zone: tzinfo = UTC,
    sign_offs: Sequence[SignOff] = (),
) -> str:
    """One line for each control total of a table, or for the table where it has none; of a run that compared nothing
    one line. Behind all of them one for each column in which a row differs. `row_kind` says which: total, table, run,
    break. Moments are in `zone`, with its offset. Each line of a take bears its newest act of `sign_offs`."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    of_takes = by_take(sign_offs)
    heads = [_cut_head(one, of_takes.get((one.run_id, one.destination)), zone) for one in cuts]
    heads += [_live_head(one, zone) for one in live]
    for head, found in heads:
        writer.writerows(map(_cells, _table_rows(head, found)))
    for head, found in heads:
        writer.writerows(map(_cells, _break_rows(head, found)))
    return text.getvalue()


def _table_rows(head: Mapping[str, Any], found: Reconciliation | None) -> Iterator[Mapping[str, Any]]:
    if found is None or not found.tables:
        yield {**head, "row_kind": "run"}
        return
    for table in found.tables:
        yield from ({**head, **_about(table), **cells} for cells in _totals_of(table))


def _break_rows(head: Mapping[str, Any], found: Reconciliation | None) -> Iterator[Mapping[str, Any]]:
    for table in found.tables if found else ():
        for one in table.breaks:
            about = {
                "row_kind": "break",
                "break_id": break_id(head["sync"], head["destination"], one),
                "break_type": one.type.value,
                "key": one.key,
            }
            for column, mine, theirs, delta in break_cells(one):
                values = {"column": column, "source_value": mine, "destination_value": theirs, "difference": delta}
                yield {**head, **_about(table), **about, **values}


def _cut_head(state: CutState, sign: SignOff | None, zone: tzinfo) -> tuple[dict[str, Any], Reconciliation | None]:
    head = {
        "sync": state.sync,
        "destination": state.destination,
        "scope": "cut",
        "business_date": state.business_date,
        "verdict": state.headline.value,
        "compared": state.compared.value,
        "checks": state.checks.word,
        "decision": state.decision.state.value if state.decision else "",
        "publication": state.publication.in_words(zone),
        "version": state.publication.version,
        "partial": state.partial,
        "run": state.run_id,
        "signed_by": state.signed_by,
        "altered": "; ".join(state.altered_in_words),
    }
    return head | (_signed(sign, zone) if sign else {}) | _compared(state.found, zone), state.found


def _signed(sign: SignOff, zone: tzinfo) -> dict[str, Any]:
    """`sign_off`: whether a person has signed the version, and whether that stands.
    `prepared_reason`: why it was made."""
    head = {
        "sign_off": sign.state.value,
        "sign_off_verdict_hash": sign.verdict_hash,
        "prepared_reason": sign.prepared_reason,
    }
    if not sign.acts:
        return head
    newest = sign.acts[-1]
    return head | {
        "sign_off_by": newest.who,
        "sign_off_at": _moment(newest.at, zone),
        "sign_off_reason": newest.reason,
        "sign_off_verdict_hash": newest.verdict_hash,
    }


def _live_head(found: Reconciliation, zone: tzinfo) -> tuple[dict[str, Any], Reconciliation | None]:
    head = {
        "sync": found.sync,
        "destination": found.destination,
        "scope": "live",
        "verdict": of_live(found).value,
        "compared": of_guaranteed(found.tables).value,
        "partial": found.is_partial,
        "run": found.run_id,
        "after_cut_of": found.business_date,
        "altered": "; ".join(altered_in_words(found)),
    }
    return head | _compared(found, zone), found


def _compared(found: Reconciliation | None, zone: tzinfo) -> dict[str, Any]:
    if found is None or not found.tables:
        return {}
    return {"position": found.position, "position_time": _moment(found.position_time, zone), "mode": found.mode}


def _about(table: TableVerdict) -> dict[str, Any]:
    return {"table": table.table, "table_verdict": table.verdict.value, "reason": table.reason}


def _totals_of(table: TableVerdict) -> Iterator[dict[str, Any]]:
    rows = {"row_kind": "table", "source_rows": table.source_rows, "destination_rows": table.destination_rows}
    for number, cells in enumerate([_total_cells(total) for total in table.totals] or [rows]):
        # Once a table: a spreadsheet adds them up.
        yield cells if number else {**cells, "breaks": table.breaks_total}


def _total_cells(total: ControlTotal) -> dict[str, Any]:
    return {
        "row_kind": "total",
        "source_rows": total.source_rows,
        "destination_rows": total.destination_rows,
        "column": total.column,
        "group": "/".join(total.group),
        "source_sum": total.source_sum,
        "destination_sum": total.destination_sum,
        "difference": differences.of_sums(total),
    }


def _cells(row: Mapping[str, Any]) -> list[Any]:
    return [inert(row.get(column)) for column in _COLUMNS]


def inert(value: Any) -> Any:
    """A text as a text for a spreadsheet too; numbers stay numbers."""
    if value is None or isinstance(value, bool | int | Decimal):
        return value
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def _moment(value: datetime | None, zone: tzinfo) -> str | None:
    return value.astimezone(zone).isoformat() if value else None
