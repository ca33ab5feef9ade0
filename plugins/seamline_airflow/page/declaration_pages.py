"""The declaration of a sync by clicks: one person proposes to take in a table or to move the night, another accepts,
and the file says so. What it says, and every change of it, stays lines that people read."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Form, Query
from fastapi.responses import HTMLResponse, Response

from seamline import settings
from seamline.domain.declared_change import VALUE_MAX, Asked, Change
from seamline.domain.errors import Refused, SeamlineError
from seamline.domain.person import is_same_person, one_line
from seamline.domain.phrase import phrase
from seamline.domain.sign_off import REASON_MAX
from seamline.plan.compile import compile_plan
from seamline.spec import changed
from seamline.spec.document import document_of
from seamline.spec.faults import DeclarationsInvalid
from seamline_airflow import parts
from seamline_airflow.page import access, acting, reading, reports, selection
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
    me, text = acting.name_of(visit.user), changed.text_of(_file(sync))
    said = document_of(_file(sync))
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
        text = changed.text_of(_file(sync))
        made = changed.changed(text, change, one_line(value))
        _require_right(sync, change, one_line(value), made)
        diff = changed.difference(text, made, f"syncs/{sync}.yaml")
        asked = Asked(
            sync, change, one_line(value), one_line(reason), changed.hash_of(text), changed.hash_of(made), diff
        )
        with parts.declared_changes() as store:
            store.propose(asked, who=acting.name_of(user))
    except SeamlineError as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


@pages.post("/accept_change", response_class=HTMLResponse, response_model=None)
def accept(visit: Annotated[Visit, Depends(visit_of)], user: acting.Signer, sync: SyncName, number: Number) -> Response:
    try:
        with parts.declared_changes() as store:
            for one in store.of_sync(sync):
                if one.number == number:
                    # Before the act: while its transaction lasts, all others wait.
                    _require_right(sync, one.asked.change, one.asked.value, _made(one.asked))
            store.accept(sync, number, who=acting.name_of(user), put=_put)
    except SeamlineError as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


@pages.post("/withdraw_change", response_class=HTMLResponse, response_model=None)
def withdraw(
    visit: Annotated[Visit, Depends(visit_of)], user: acting.Worker, sync: SyncName, number: Number
) -> Response:
    try:
        with parts.declared_changes() as store:
            store.withdraw(sync, number, who=acting.name_of(user))
    except SeamlineError as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


def _put(asked: Asked) -> None:
    changed.put(_file(asked.sync), _made(asked))


def _made(asked: Asked) -> str:
    """The text with the change, also where it stands there already. Refused: the file is another one than the change
    was proposed for."""
    text = changed.text_of(_file(asked.sync))
    if changed.hash_of(text) == asked.after:
        return text
    if changed.hash_of(text) != asked.before:
        raise Refused("the file has another text now", hint="withdraw this change, and propose it for the new text")
    return changed.changed(text, asked.change, asked.value)


def _require_right(sync: str, change: Change, value: str, text: str) -> None:
    """Refused with what is wrong: the checks of `./seamline validate`, and the source is asked whether it has the
    table."""
    try:
        plan = compile_plan(changed.checked(settings.load().declarations, sync, text), sync)
    except DeclarationsInvalid as error:
        first = error.faults[0]
        raise Refused(f"line {first.line} would be wrong: {first.cause}", hint=first.cure) from error
    if change is not Change.TABLE:
        return
    with parts.source(plan) as source:
        problems = source.survey([value]).problems
    if problems:
        raise Refused("; ".join(one.what for one in problems), hint=problems[0].cure)


def _file(sync: str) -> Path:
    return changed.sync_file(settings.load().declarations, sync)


def _here(sync: str) -> str:
    return f"declaration?{urlencode({'sync': sync})}"
