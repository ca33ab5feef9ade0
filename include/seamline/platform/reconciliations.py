"""Reconciliations with their tables, control totals and breaks, to and from the platform database."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from psycopg.rows import dict_row
from psycopg.types.json import Json, Jsonb

from seamline.domain.errors import InvariantViolated
from seamline.domain.runs import FAILURE, Reconciliation, Scope
from seamline.domain.verdict import Break, ControlTotal, TableVerdict, Verdict
from seamline.domain.witness import witness_to_json
from seamline.plan.model import Run
from seamline.platform import rows
from seamline.platform.database import Session
from seamline.platform.identities import identities


class Detail(StrEnum):
    """How much of a reconciliation is read. The number of its breaks is always there, their rows are not."""

    VERDICTS = "verdicts"
    TOTALS = "totals"  # and the control totals
    WHOLE = "whole"  # and the rows that differ


def read(
    session: Session,
    condition: str,
    arguments: Sequence[Any] | Mapping[str, Any],
    *,
    detail: Detail = Detail.WHOLE,
) -> tuple[Reconciliation, ...]:
    """Those that meet the condition. `condition` is text of this package, never input."""
    cursor = session.cursor(row_factory=dict_row)
    found = cursor.execute(f"select * from reconciliation where {condition}".encode(), arguments).fetchall()
    tables = _read_table_verdicts(session, [row["reconciliation_id"] for row in found], detail)
    return tuple(rows.reconciliation_of(row, tables.get(row["reconciliation_id"], ())) for row in found)


def not_made(run: Run, found: Sequence[Reconciliation]) -> tuple[Reconciliation, ...]:
    """In place of each comparison that `run` was to make and failed to, unless one of `found` is newer: without a
    table, with the failure as its evidence."""
    failure = run.result.get(FAILURE)
    if not failure or run.started_at is None:
        return ()
    since = run.started_at
    made = {one.destination for one in found if one.run_id == run.run_id or one.started_at >= since}
    return tuple(
        Reconciliation(
            run_id=run.run_id,
            sync=run.sync,
            destination=destination.name,
            scope=Scope.LIVE,
            business_date=run.business_date,
            position=None,
            position_time=None,
            mode="",
            verdict=Verdict.NOT_RUN,
            tables=(),
            started_at=since,
            ended_at=since,
            evidence={FAILURE: failure},
        )
        for destination in run.plan.destinations
        if destination.name not in made
    )


def insert(session: Session, reconciliation: Reconciliation) -> int:
    """Its number in the platform database."""
    number = _insert_reconciliation(session, reconciliation)
    for ordinal, verdict in enumerate(reconciliation.tables):
        _insert_table_verdict(session, reconciliation, number, ordinal, verdict)
    return number


def _insert_reconciliation(session: Session, reconciliation: Reconciliation) -> int:
    row = session.execute(
        "insert into reconciliation (run_id, sync, destination, scope, business_date, position, position_time, mode,"
        " verdict, started_at, ended_at, evidence) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
        " returning reconciliation_id",
        (
            reconciliation.run_id,
            reconciliation.sync,
            reconciliation.destination,
            Scope(reconciliation.scope).value,
            reconciliation.business_date,
            rows.position_column(reconciliation.position),
            reconciliation.position_time,
            reconciliation.mode,
            Verdict(reconciliation.verdict).value,
            reconciliation.started_at,
            reconciliation.ended_at,
            Jsonb(dict(reconciliation.evidence)),
        ),
    ).fetchone()
    if row is None:
        raise InvariantViolated("an insert gave no number back", sync=reconciliation.sync)
    return int(row[0])


def _insert_table_verdict(
    session: Session, reconciliation: Reconciliation, number: int, ordinal: int, verdict: TableVerdict
) -> None:
    session.execute(
        "insert into table_verdict values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            number,
            ordinal,
            verdict.table,
            verdict.verdict.value,
            verdict.reason,
            verdict.position,
            verdict.source_rows,
            verdict.destination_rows,
            verdict.breaks_total,
        ),
    )
    cursor = session.cursor()
    cursor.executemany(
        "insert into control_total values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [_total_columns(number, ordinal, place, total) for place, total in enumerate(verdict.totals)],
    )
    names = identities(session, reconciliation.sync, reconciliation.destination, verdict.breaks)
    cursor.executemany(
        "insert into break values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            (
                number,
                ordinal,
                place,
                *_break_columns(found),
                name,
                None if found.witness is None else Json(witness_to_json(found.witness)),
                None if found.beside is None else Json(found.beside),
            )
            for place, (name, found) in enumerate(zip(names, verdict.breaks, strict=True))
        ],
    )


def _total_columns(number: int, table_ordinal: int, ordinal: int, total: ControlTotal) -> tuple[Any, ...]:
    return (
        number,
        table_ordinal,
        ordinal,
        total.table,
        total.column,
        list(total.group),
        total.source_rows,
        total.destination_rows,
        total.source_sum,
        total.destination_sum,
    )


def _break_columns(found: Break) -> tuple[Any, ...]:
    # `json`, not `jsonb`: a row's columns keep their order for the reader of the report.
    source = None if found.source is None else Json(found.source)
    destination = None if found.destination is None else Json(found.destination)
    return found.table, found.type.value, found.key, source, destination


def _read_table_verdicts(
    session: Session, numbers: Sequence[int], detail: Detail
) -> dict[int, tuple[TableVerdict, ...]]:
    """Those of each of these reconciliations, in order; one question for all."""
    totals: dict[tuple[int, int], list[ControlTotal]] = {}
    for entry in _rows_of(session, "control_total", numbers) if detail is not Detail.VERDICTS else ():
        totals.setdefault((entry["reconciliation_id"], entry["table_ordinal"]), []).append(rows.total_of(entry))
    breaks: dict[tuple[int, int], list[Break]] = {}
    for entry in _rows_of(session, "break", numbers) if detail is Detail.WHOLE else ():
        breaks.setdefault((entry["reconciliation_id"], entry["table_ordinal"]), []).append(rows.break_of(entry))
    found: dict[int, tuple[TableVerdict, ...]] = {}
    for entry in _rows_of(session, "table_verdict", numbers):
        number, place = entry["reconciliation_id"], (entry["reconciliation_id"], entry["ordinal"])
        verdict = rows.table_verdict_of(entry, totals.get(place, ()), breaks.get(place, ()))
        found[number] = (*found.get(number, ()), verdict)
    return found


def _rows_of(session: Session, table: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    cursor = session.cursor(row_factory=dict_row)
    # `table` is one of three names above, never input.
    cursor.execute(f"select * from {table} where reconciliation_id = any(%s) order by ordinal", (list(numbers),))
    return cursor.fetchall()
