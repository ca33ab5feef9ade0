"""What the Reconciliation page shows, read from the platform database. Values only, no HTML."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from seamline import settings
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.verdict import ControlTotal, TableVerdict, Verdict, worst
from seamline.ports import StreamReport
from seamline_airflow import parts
from seamline_airflow.stream_health import stream_trouble

REPORTS_MAX = 60
BREAKS_MAX = 200
_COLUMNS = (
    "sync", "destination", "scope", "business_date", "verdict", "position", "position_time", "mode", "run", "table",
    "table_verdict", "reason", "source_rows", "destination_rows", "column", "group", "source_sum", "destination_sum",
    "breaks", "signed_by",
)  # fmt: skip
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class SyncReport:
    """One sync as of now: its newest reports first."""

    sync: str
    state: str
    reports: tuple[Reconciliation, ...]
    streams: tuple[StreamReport, ...]
    alarms: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Of the newest report of the live tables and the newest of a cut."""
        newest = [next((one for one in self.reports if one.scope is scope), None) for scope in Scope]
        return worst([overall(one) for one in newest if one is not None])

    @property
    def troubles(self) -> tuple[str, ...]:
        """Open alarms, and what the streams' newest reports say beyond them."""
        found = (stream_trouble(report.stream, report, lag_max_s=float("inf")) for report in self.streams)
        return tuple(dict.fromkeys([*self.alarms, *(trouble.message for trouble in found if trouble)]))


def overall(found: Reconciliation) -> Verdict:
    """The verdict of what was compared. A parked table, and one left out of a cut for a reason, makes it partial, not
    wrong."""
    return worst([table.verdict for table in found.tables if not _is_left_out(found.scope, table)])


def _is_left_out(scope: Scope, table: TableVerdict) -> bool:
    is_left_out_of_cut = scope is Scope.CUT and table.verdict is Verdict.NOT_RUN and bool(table.reason)
    return is_left_out_of_cut or table.is_parked


def syncs() -> list[str]:
    """The declared ones; their files bear their names."""
    return sorted(file.stem for file in (settings.load().declarations / "syncs").glob("*.yaml"))


def read_sync(sync: str) -> SyncReport:
    with parts.platform() as store, parts.director() as director:
        state = store.sync_state(sync)
        return SyncReport(
            sync=sync,
            state=state.value if state else "not onboarded",
            reports=tuple(store.reconciliations(sync, REPORTS_MAX)),
            streams=tuple(report for stream, report in director.latest_reports().items() if stream.sync == sync),
            alarms=tuple(alarm.message for alarm in store.open_alarms() if is_about(alarm.subject, sync)),
        )


def is_about(subject: str, sync: str) -> bool:
    """Whether an alarm is about this sync: its subject is the sync, one of its streams or one of its dates."""
    return re.split(r"[@ ]", subject, maxsplit=1)[0] == sync


def of_run(sync: str, airflow_run: str) -> tuple[Reconciliation, ...]:
    """The reports of one Airflow run; the run's id is the last part of ours."""
    with parts.platform() as store:
        return tuple(one for one in store.reconciliations(sync, 10 * REPORTS_MAX) if is_of(one.run_id, airflow_run))


def is_of(run_id: str, airflow_run: str) -> bool:
    """Whether our run belongs to this one of Airflow: its name ends ours, perhaps with the number of a repetition."""
    _, _, name = run_id.rpartition("/")
    return name == airflow_run or re.fullmatch(re.escape(airflow_run) + r"~\d+", name) is not None


def of_date(report: SyncReport, day: date) -> tuple[Reconciliation, ...]:
    return tuple(one for one in report.reports if one.business_date == day)


def tables_in_order(found: Reconciliation) -> Sequence[TableVerdict]:
    """The worst first: what a person must look at stands on top."""
    order = (Verdict.BREAK, Verdict.INCONCLUSIVE, Verdict.NOT_RUN, Verdict.MATCH)
    return sorted(found.tables, key=lambda table: (order.index(table.verdict), table.table))


def to_json(found: Sequence[Reconciliation]) -> list[dict[str, Any]]:
    return [
        {
            "run": one.run_id,
            "sync": one.sync,
            "destination": one.destination,
            "scope": one.scope.value,
            "business_date": one.business_date.isoformat() if one.business_date else None,
            "verdict": overall(one).value,
            "partial": one.is_partial,
            "position": str(one.position) if one.position else None,
            "position_time": one.position_time.isoformat() if one.position_time else None,
            "mode": one.mode,
            "started_at": one.started_at.isoformat(),
            "ended_at": one.ended_at.isoformat(),
            "evidence": dict(one.evidence),
            "tables": [_table_json(table) for table in one.tables],
        }
        for one in found
    ]


def to_csv(found: Sequence[Reconciliation]) -> str:
    """One line per table and control total."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for one in found:
        for row in _csv_rows(one):
            writer.writerow([_cell(value) for value in row])
    return text.getvalue()


def _table_json(table: TableVerdict) -> dict[str, Any]:
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
            {"type": one.type.value, "key": one.key, "source": one.source, "destination": one.destination}
            for one in table.breaks
        ],
    }


def _csv_rows(one: Reconciliation) -> Iterator[tuple[Any, ...]]:
    head = (
        one.sync,
        one.destination,
        one.scope.value,
        one.business_date,
        overall(one).value,
        one.position,
        _moment(one.position_time),
        one.mode,
        one.run_id,
    )
    for table in one.tables:
        about = (table.table, table.verdict.value, table.reason)
        rows = (table.source_rows, table.destination_rows)
        found = [_total_cells(total) for total in table.totals] or [(*rows, None, None, None, None)]
        for number, cells in enumerate(found):
            # Once a table: a spreadsheet adds them up.
            breaks = None if number else table.breaks_total
            yield (*head, *about, *cells, breaks, one.signed_by)


def _total_cells(total: ControlTotal) -> tuple[Any, ...]:
    group = "/".join(total.group)
    return (total.source_rows, total.destination_rows, total.column, group, total.source_sum, total.destination_sum)


def _cell(value: Any) -> Any:
    """A text as a text for a spreadsheet too; numbers stay numbers."""
    if value is None or isinstance(value, int | Decimal):
        return value
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _text(value: Decimal | None) -> str | None:
    return None if value is None else str(value)


def _moment(value: datetime | None) -> str:
    return value.isoformat() if value else ""
