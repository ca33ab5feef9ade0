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
from seamline.domain.masking import masked_repair_row
from seamline.domain.phrase import phrase
from seamline.domain.repair import Repair, RepairRow, RepairState, RootCause, Texts, counted
from seamline.domain.sign_off import REASON_MAX
from seamline.plan.model import SyncPlan
from seamline_airflow import parts
from seamline_airflow.page import access, acting, acts, reading, selection
from seamline_airflow.page.differing import Pair, pairs
from seamline_airflow.page.rendering import Visit, refused, render, visit_of

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
    return HTMLResponse(render("repairs.html", visit, sync=sync, zone=_zone(sync), found=found))


@pages.get("/repair", response_class=HTMLResponse, response_model=None)
def repair(visit: Annotated[Visit, Depends(visit_of)], sync: SyncAsked, id: str = "") -> HTMLResponse:
    """One of them with its rows, and the form of its approval for who may give it."""
    access.require(visit.user, sync)
    found = acts.repair_of(sync, id)
    return HTMLResponse(
        render(
            "repair.html",
            visit,
            sync=sync,
            zone=_zone(sync),
            repair=found,
            counted=counted(found.rows),
            rows=shown_rows(found),
            causes=_CAUSES,
            may_approve=found.state is RepairState.PLANNED and bool(found.planned) and _may_approve(visit, found),
        )
    )


@pages.post("/approve_repair", response_class=HTMLResponse, response_model=None)
def approve(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Signer,
    sync: SyncName,
    id: Annotated[str, Form(max_length=500)],
    cause: Annotated[RootCause, Form()],
    reason: Annotated[str, Form(max_length=REASON_MAX)] = "",
) -> Response:
    here = f"repair?{urlencode({'sync': sync, 'id': id})}"
    try:
        acts.approve_repair(acts.repair_of(sync, id), cause=cause, reason=reason, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, here)
    return acting.done(here)


def _may_approve(visit: Visit, found: Repair) -> bool:
    return acting.may_sign(visit.user, found.sync) and not acts.has_planned(found, acting.name_of(visit.user))


def _zone(sync: str) -> ZoneInfo:
    with reading.platform() as store:
        return ZoneInfo(store.timezone(sync))


def shown_rows(found: Repair) -> list[ShownRow]:
    """The first ones in words, with masked values."""
    tables, hidden = _tables(found), reading.hidden(found.sync)
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
