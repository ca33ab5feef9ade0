"""Verdicts that are late: a person who works on the sync acknowledges one, with a reason."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Depends, Form
from fastapi.responses import HTMLResponse, Response

from seamline.domain.errors import Refused
from seamline.domain.sign_off import REASON_MAX
from seamline_airflow.page import acting, acts
from seamline_airflow.page.rendering import Visit, refused, visit_of
from seamline_airflow.page.selection import NAME

pages = APIRouter()


@pages.post("/acknowledge", response_class=HTMLResponse, response_model=None)
def acknowledge(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: Annotated[str, Form(pattern=NAME)],
    business_date: Annotated[date, Form()],
    reason: Annotated[str, Form(max_length=REASON_MAX)] = "",
) -> Response:
    """The verdict stays late until it is there."""
    try:
        acts.acknowledge(sync, business_date, reason=reason, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, "page")
    return acting.done("page")
