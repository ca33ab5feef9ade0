"""The declaration of a sync by clicks: one person proposes to take in a table or to move the night, another accepts,
and the file says so. What it says, and every change of it, stays lines that people read."""

from typing import Annotated
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Form, Query
from fastapi.responses import HTMLResponse, Response

from seamline.domain.declared_change import VALUE_MAX, Change
from seamline.domain.errors import SeamlineError
from seamline.domain.person import is_same_person
from seamline.domain.phrase import phrase
from seamline.domain.sign_off import REASON_MAX
from seamline.spec import changed
from seamline.spec.document import document_of
from seamline_airflow import parts
from seamline_airflow.page import access, acting, acts, declared_acts, reading, reports, selection
from seamline_airflow.page.rendering import Visit, refused, render, visit_of

pages = APIRouter()

SyncName = Annotated[str, Form(pattern=selection.NAME)]
Number = Annotated[int, Form(ge=1, le=2**62)]


@pages.get("/declaration", response_class=HTMLResponse, response_model=None)
def declaration(
    visit: Annotated[Visit, Depends(visit_of)], sync: Annotated[str, Query(pattern=selection.NAME)]
) -> HTMLResponse:
    """What can be changed here as it stands now, all changes that were proposed, the newest first, and the forms."""
    access.require(visit.user, sync)
    if sync not in reports.syncs():
        return HTMLResponse(
            render("no_sync.html", visit, what=phrase("There is no sync %(sync)s.", sync=sync)), status_code=404
        )
    with reading.platform() as store:
        zone = ZoneInfo(store.timezone(sync))
    with parts.declared_changes() as store:
        found = store.of_sync(sync)
    me, text = acting.name_of(visit.user), changed.text_of(declared_acts.file_of(sync))
    said = document_of(declared_acts.file_of(sync))
    nightly = said.value(("nightly",)) or {}
    return HTMLResponse(
        render(
            "declaration.html",
            visit,
            sync=sync,
            zone=zone,
            found=found,
            now=changed.hash_of(text),
            tables=[name for _, name in said.texts("tables[]", "tables[].name")],
            nightly=nightly if isinstance(nightly, dict) else {},
            changes=Change,
            may_work=acting.may_work(visit.user, sync),
            may_accept=lambda one: acting.may_sign(visit.user, sync) and not is_same_person(one.who, me),
        )
    )


@pages.post("/propose_change", response_class=HTMLResponse, response_model=None)
def propose(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: SyncName,
    change: Annotated[Change, Form()],
    value: Annotated[str, Form(max_length=VALUE_MAX)],
    reason: Annotated[str, Form(max_length=REASON_MAX)] = "",
) -> Response:
    try:
        declared_acts.propose(sync, change, value, reason=reason, by=acts.actor(user))
    except SeamlineError as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


@pages.post("/accept_change", response_class=HTMLResponse, response_model=None)
def accept(visit: Annotated[Visit, Depends(visit_of)], user: acting.Signer, sync: SyncName, number: Number) -> Response:
    try:
        declared_acts.accept(sync, number, by=acts.actor(user))
    except SeamlineError as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


@pages.post("/withdraw_change", response_class=HTMLResponse, response_model=None)
def withdraw(
    visit: Annotated[Visit, Depends(visit_of)], user: acting.Worker, sync: SyncName, number: Number
) -> Response:
    try:
        declared_acts.withdraw(sync, number, by=acts.actor(user))
    except SeamlineError as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


def _here(sync: str) -> str:
    return f"declaration?{urlencode({'sync': sync})}"
