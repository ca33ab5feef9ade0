"""Tolerances of a sync: asked for by one person, approved by another, ended by anybody who works on it."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Form, Query
from fastapi.responses import HTMLResponse, Response

from seamline import settings
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.person import is_same_person
from seamline.domain.tolerance import WHY_MAX, DeclaredTolerance, ToleranceState
from seamline.spec.tolerances import declared_tolerances
from seamline_airflow import parts
from seamline_airflow.page import access, acting, acts, reading, selection
from seamline_airflow.page.rendering import Visit, refused, render, visit_of

pages = APIRouter()

SyncName = Annotated[str, Form(pattern=selection.NAME)]
Number = Annotated[int, Form(ge=1)]


@pages.get("/tolerances", response_class=HTMLResponse, response_model=None)
def tolerances(
    visit: Annotated[Visit, Depends(visit_of)], sync: Annotated[str, Query(pattern=selection.NAME)]
) -> HTMLResponse:
    """All of a sync, the newest first, and the form for another one."""
    access.require(visit.user, sync)
    with reading.platform() as store:
        zone = ZoneInfo(store.timezone(sync))
    with parts.tolerances() as known:
        found = known.of_sync(sync)
    now, may_work = datetime.now(UTC), acting.may_work(visit.user, sync)
    me = acting.name_of(visit.user)
    declared, trouble = _declared(sync)
    standing = {one.declared for one in found if one.declared and not one.ended_by}
    return HTMLResponse(
        render(
            "tolerances.html",
            visit,
            sync=sync,
            zone=zone,
            found=[(one, one.state_at(now)) for one in found],
            summed=acts.summed(sync),
            # By its hash, what stands in the file now and has not been approved.
            waiting=[one for one in declared if one.hash not in standing],
            declared={one.hash for one in declared},
            trouble=trouble,
            may_work=may_work,
            may_approve_declared=lambda one: acting.may_sign(visit.user, sync) and is_same_person(one.approver, me),
            # Whoever asked does not approve; the database refuses it too.
            may_approve=lambda one: acting.may_sign(visit.user, sync) and not is_same_person(one.made_by, me),
            states=ToleranceState,
        )
    )


@pages.post("/ask_tolerance", response_class=HTMLResponse, response_model=None)
def ask(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: SyncName,
    summed: Annotated[str, Form(max_length=1_000)],
    amount: Annotated[str, Form(max_length=100)],
    until: Annotated[date, Form()],
    why: Annotated[str, Form(max_length=2 * WHY_MAX)] = "",
) -> Response:
    """`summed`: destination, table and column, as the form offers them."""
    try:
        place = next((one for one in acts.summed(sync) if json.dumps(one) == summed), ())
        acts.ask_tolerance(sync, place, amount=amount, until=until, why=why, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


@pages.post("/approve_tolerance", response_class=HTMLResponse, response_model=None)
def approve(
    visit: Annotated[Visit, Depends(visit_of)], user: acting.Signer, sync: SyncName, number: Number
) -> Response:
    try:
        acts.approve_tolerance(sync, number, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


@pages.post("/approve_declared_tolerance", response_class=HTMLResponse, response_model=None)
def approve_declared(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Signer,
    sync: SyncName,
    text: Annotated[str, Form(pattern="^[0-9a-f]{64}$")],
) -> Response:
    """`text`: the hash of what the person has seen; the file must say the same now."""
    try:
        acts.approve_declared_tolerance(sync, text, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


@pages.post("/end_tolerance", response_class=HTMLResponse, response_model=None)
def end(visit: Annotated[Visit, Depends(visit_of)], user: acting.Worker, sync: SyncName, number: Number) -> Response:
    try:
        acts.end_tolerance(sync, number, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


def _here(sync: str) -> str:
    return f"tolerances?{urlencode({'sync': sync})}"


def _declared(sync: str) -> tuple[Sequence[DeclaredTolerance], str]:
    """Those of the file, or why it does not say which."""
    try:
        return declared_tolerances(settings.load().declarations, sync), ""
    except ConfigError as exc:
        return (), exc.message
