"""Repairs of a sync: what was planned, with both values of each row, and the approval by a second person.

Nothing is read of a source or a destination here. A repair is planned and applied by the tasks of `<sync>__repair`, or
by the command line.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Form, Query
from fastapi.responses import HTMLResponse, Response

from seamline.domain.canonical import readable_text
from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused
from seamline.domain.masking import Hidden, masked_repair_row
from seamline.domain.phrase import phrase
from seamline.domain.repair import Repair, RepairRow, RepairState, RootCause, Texts, counted
from seamline.domain.sign_off import REASON_MAX
from seamline.plan.model import SyncPlan
from seamline_airflow import parts
from seamline_airflow.page import access, acting, acts, break_pages, dag_runs, reading, reports, selection
from seamline_airflow.page.differing import Pair, pairs
from seamline_airflow.page.rendering import Visit, refused, render, visit_of

# The task of the DAG that plans.
_TASK = "plan"

pages = APIRouter()

# The others are in what `./seamline repair show` prints.
ROWS_SHOWN = 200
_CAUSES = {
    RootCause.OUTSIDE: phrase("somebody else wrote the destination's tables"),
    RootCause.RESTORE: phrase("the destination was restored, or failed over"),
    RootCause.SOURCE: phrase("the source was changed past its log"),
    RootCause.DEFECT: phrase("Seamline had a defect"),
    RootCause.OTHER: phrase("something else"),
}

SyncName = Annotated[str, Form(pattern=selection.NAME)]
Text = Annotated[str, Form(max_length=1_000, pattern=r"^[^\x00]*$")]
SyncAsked = Annotated[str, Query(pattern=selection.NAME)]


@dataclass(frozen=True, slots=True)
class ShownRow:
    row: RepairRow
    pairs: list[Pair]


@pages.get("/repairs", response_class=HTMLResponse, response_model=None)
def repairs(visit: Annotated[Visit, Depends(visit_of)], sync: SyncAsked) -> HTMLResponse:
    """All of a sync, the newest first."""
    access.require(visit.user, sync)
    with parts.repairs() as kept:
        found = kept.of_sync(sync)
    return HTMLResponse(
        render(
            "repairs.html",
            visit,
            sync=sync,
            zone=_zone(sync),
            found=found,
            destinations=reports.destinations_of(sync),
            may_plan=acting.may_repair(visit.user, sync),
        )
    )


@pages.get("/repair", response_class=HTMLResponse, response_model=None)
def repair(visit: Annotated[Visit, Depends(visit_of)], sync: SyncAsked, id: str = "") -> HTMLResponse:
    """One of them with its rows, and the form of its approval for who may give it."""
    access.require(visit.user, sync)
    return _awaited(visit, sync, id) or repair_page(visit, acts.repair_of(sync, id))


def repair_page(visit: Visit, found: Repair, hidden: Hidden | None = None) -> HTMLResponse:
    """`hidden`: what is masked; left out, whatever the sync declares."""
    sync = found.sync
    return HTMLResponse(
        render(
            "repair.html",
            visit,
            sync=sync,
            zone=_zone(sync),
            repair=found,
            counted=counted(found.rows),
            rows=shown_rows(found, reading.hidden(sync) if hidden is None else hidden),
            masking=break_pages.masking(visit, sync) if hidden is None else "shown",
            causes=_CAUSES,
            is_started=bool(reports.airflow_path(found.run_id)) or found.state is RepairState.APPLIED,
            may_plan=acting.may_repair(visit.user, sync),
            may_approve=found.state is RepairState.PLANNED and bool(found.planned) and _may_approve(visit, found),
        )
    )


@pages.post("/plan_repair", response_class=HTMLResponse, response_model=None)
def plan(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: SyncName,
    destination: Text = "",
    compared: Text = "",
    repair: Text = "",
    reason: Annotated[str, Form(max_length=REASON_MAX)] = "",
) -> Response:
    """By a run of the DAG `<sync>__repair`; then to the page of its plan. `repair`: one that is planned already."""
    acting.require_repairer(user, sync)
    try:
        made = acts.start_repair(
            sync, destination=destination, compared=compared, named=repair, reason=reason, by=acts.actor(user)
        )
    except Refused as error:
        return refused(visit, error, f"repairs?{urlencode({'sync': sync})}")
    return acting.done(_here(sync, made))


@pages.post("/approve_repair", response_class=HTMLResponse, response_model=None)
def approve(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Signer,
    sync: SyncName,
    id: Annotated[str, Form(max_length=500)],
    cause: Annotated[RootCause, Form()],
    reason: Annotated[str, Form(max_length=REASON_MAX)] = "",
) -> Response:
    here = _here(sync, id)
    try:
        acts.approve_repair(acts.repair_of(sync, id), cause=cause, reason=reason, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, here)
    return acting.done(here)


def _here(sync: str, run_id: str) -> str:
    return f"repair?{urlencode({'sync': sync, 'id': run_id})}"


def _awaited(visit: Visit, sync: str, run_id: str) -> HTMLResponse | None:
    """Where a run of the DAG has not planned it yet, or never will."""
    run = run_id.removeprefix(acts.repairs_of(sync))
    with parts.repairs() as kept:
        if run == run_id or any(one.run_id == run_id for one in kept.of_sync(sync)):
            return None
    state = dag_runs.state(f"{sync}__repair", run)
    if not state:
        return None
    return HTMLResponse(render("repair_awaited.html", visit, sync=sync, run_id=run_id, state=state, task=_TASK))


def _may_approve(visit: Visit, found: Repair) -> bool:
    return acting.may_sign(visit.user, found.sync) and not acts.has_planned(found, acting.name_of(visit.user))


def _zone(sync: str) -> ZoneInfo:
    with reading.platform() as store:
        return ZoneInfo(store.timezone(sync))


def shown_rows(found: Repair, hidden: Hidden) -> list[ShownRow]:
    """The first ones in words, with what is hidden masked."""
    tables = _tables(found)
    rows = (masked_repair_row(_in_words(tables.get(row.table), row), hidden) for row in found.rows[:ROWS_SHOWN])
    return [ShownRow(row, pairs(row.source, row.destination)) for row in rows]


def _in_words(table: Table | None, row: RepairRow) -> RepairRow:
    return replace(row, source=_readable(table, row.source), destination=_readable(table, row.destination))


def _tables(found: Repair) -> dict[str, Table]:
    """Without them, where its run has expired, values are shown by their canonical texts."""
    try:
        with reading.platform() as store:
            plan: SyncPlan = store.run(found.run_id).plan.held_by(found.destination)
    except Refused:
        return {}
    return {entry.name: entry.target for entry in plan.tables}


def _readable(table: Table | None, texts: Texts | None) -> Mapping[str, str | None] | None:
    if texts is None or table is None:
        return texts
    return {name: text and readable_text(table.column(name), text) for name, text in texts.items()}
