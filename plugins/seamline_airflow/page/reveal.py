"""Values of sensitive columns, for whoever may work on the sync or sign for it, who says why, and is entered first."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, HTTPException
from fastapi.responses import HTMLResponse

from seamline.domain.audit import Act, Kind, Subject
from seamline.domain.break_work import OWNER_MAX
from seamline.domain.masking import Hidden
from seamline.domain.repair import Repair
from seamline.domain.runs import Scope
from seamline.platform.breaks import Order
from seamline_airflow import parts
from seamline_airflow.page import acting, acts, break_pages, repair_pages, selection
from seamline_airflow.page.rendering import Visit, visit_of

REASON_MAX = 1_000
Reason = Annotated[str, Form(max_length=REASON_MAX)]
Looking = Annotated[Visit, Depends(visit_of)]

reveals = APIRouter()


@reveals.post("/reveal_break", response_class=HTMLResponse, response_model=None)
def reveal_break(
    visit: Looking,
    user: acting.Trusted,
    sync: Annotated[str, Form(pattern=selection.NAME)],
    id: Annotated[str, Form(pattern=selection.BREAK_ID)],
    reason: Reason = "",
) -> HTMLResponse:
    """One break over all dates with its values."""
    enter_break(acts.actor(user), sync, id, reason)
    return break_pages.break_page(visit, sync, id, opened=as_stored)


@reveals.post("/reveal_breaks", response_class=HTMLResponse, response_model=None)
def reveal_breaks(
    visit: Looking,
    user: acting.Trusted,
    sync: Annotated[str, Form(pattern=selection.NAME)],
    run: Annotated[str, Form()],
    destination: Annotated[str, Form()],
    scope: Annotated[Scope, Form()] = Scope.CUT,
    table: Annotated[str, Form()] = "",
    kind: Annotated[str, Form(pattern=selection.KIND)] = "",
    text: Annotated[str, Form(max_length=selection.TEXT_MAX)] = "",
    sort: Annotated[Order, Form()] = Order.FOUND,
    after: Annotated[str, Form(pattern=selection.PLACE)] = "",
    state: Annotated[str, Form(pattern=selection.STATE)] = "",
    of: Annotated[str, Form(max_length=OWNER_MAX)] = "",
    reason: Reason = "",
) -> HTMLResponse:
    """One page of the breaks of a comparison with their values, by the filter of the form."""
    choice = selection.choice_of(None, run, destination, scope, table, kind, text, sort, after, state, of)
    asked = selection.of_sync(choice, sync)
    enter_breaks(acts.actor(user), asked, reason)
    return break_pages.breaks_page(visit, asked, opened=as_stored)


@reveals.post("/reveal_repair", response_class=HTMLResponse, response_model=None)
def reveal_repair(
    visit: Looking,
    user: acting.Trusted,
    sync: Annotated[str, Form(pattern=selection.NAME)],
    id: Annotated[str, Form(max_length=1_000)],
    reason: Reason = "",
) -> HTMLResponse:
    """The plan of a repair with the values of its rows."""
    found = acts.repair_of(sync, id)
    enter_repair(acts.actor(user), found, reason)
    return repair_pages.repair_page(visit, found, hidden=Hidden())


def enter_break(by: acts.Actor, sync: str, break_id: str, reason: str) -> None:
    enter(by, Subject(sync), reason, {"break": break_id})


def enter_breaks(by: acts.Actor, asked: selection.Asked, reason: str) -> None:
    """404 where nothing was compared."""
    found = selection.required(asked).found
    day = found.business_date if found.scope is Scope.CUT else None
    about = Subject(asked.sync, found.destination, day, found.run_id, found.scope.value)
    after = str(asked.wanted.after) if asked.wanted.after else ""
    enter(by, about, reason, {"filter": {name: value for name, value in asked.chosen.items() if value}, "after": after})


def enter_repair(by: acts.Actor, found: Repair, reason: str) -> None:
    about = Subject(found.sync, found.destination, None, found.run_id, Scope.LIVE.value)
    enter(by, about, reason, {"repair": found.hash})


def enter(by: acts.Actor, about: Subject, reason: str, what: Mapping[str, object]) -> None:
    """422 without a reason. An act that cannot be entered shows nothing."""
    why = " ".join(reason.split())
    if not why:
        raise HTTPException(status_code=422, detail="say why you look at values that are masked")
    with parts.audit() as log:
        log.enter(Act(Kind.REVEALED, about, {**what, "reason": why}, by.who, by.origin))


def as_stored(sync: str) -> AbstractContextManager[Any]:
    return parts.breaks()
