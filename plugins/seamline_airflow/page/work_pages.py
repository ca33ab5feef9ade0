"""What people do about breaks: forms send it here, and are led back to the page that shows what has become of it."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form
from fastapi.responses import HTMLResponse, Response

from seamline.domain.break_work import COMMENT_MAX, OWNER_MAX, Doing, Order
from seamline.domain.errors import Refused
from seamline.domain.runs import Scope
from seamline.platform.breaks import Compared
from seamline_airflow.page import acting, acts, selection
from seamline_airflow.page.rendering import Visit, refused, visit_of

pages = APIRouter()

SyncName = Annotated[str, Form(pattern=selection.NAME)]
BreakId = Annotated[str, Form(pattern=selection.BREAK_ID)]


def _order(
    user: acting.Worker,
    doing: Annotated[Doing, Form()],
    owner: Annotated[str, Form(max_length=OWNER_MAX)] = "",
    reason: Annotated[str, Form(max_length=selection.TEXT_MAX)] = "",
    # A browser sends each end of a line as two characters.
    comment: Annotated[str, Form(max_length=2 * COMMENT_MAX)] = "",
) -> Order:
    return Order(doing, acting.name_of(user), owner, reason, comment)


OrderOfForm = Annotated[Order, Depends(_order)]


@pages.post("/act", response_class=HTMLResponse, response_model=None)
def act(visit: Annotated[Visit, Depends(visit_of)], order: OrderOfForm, sync: SyncName, id: BreakId) -> Response:
    """On one break."""
    here = f"break?{urlencode({'sync': sync, 'id': id})}"
    try:
        acts.on_break(sync, id, order)
    except Refused as error:
        return refused(visit, error, here)
    return acting.done(here)


@pages.post("/act_on_all", response_class=HTMLResponse, response_model=None)
def act_on_all(
    visit: Annotated[Visit, Depends(visit_of)],
    order: OrderOfForm,
    sync: SyncName,
    run: Annotated[str, Form()],
    destination: Annotated[str, Form()],
    scope: Annotated[Scope, Form()] = Scope.CUT,
    table: Annotated[str, Form()] = "",
    kind: Annotated[str, Form(pattern=selection.KIND)] = "",
    text: Annotated[str, Form(max_length=selection.TEXT_MAX)] = "",
    state: Annotated[str, Form(pattern=selection.STATE)] = "",
    of: Annotated[str, Form(max_length=OWNER_MAX)] = "",
) -> Response:
    """On all breaks of a comparison that the filter lets pass, on whichever page they stand."""
    asked = {"sync": sync, "run": run, "destination": destination, "scope": scope.value, "table": table, "kind": kind,
             "text": text, "state": state, "of": of}  # fmt: skip
    here = f"breaks?{urlencode(asked)}"
    wanted = selection.wanted_of(table=table, kind=kind, text=text, state=state, of=of)
    try:
        done = acts.on_all(sync, Compared(run, destination, scope), wanted, order)
    except Refused as error:
        return refused(visit, error, here)
    return acting.done(f"{here}&{urlencode({'done': done.breaks, 'left': done.left_alone})}")
