"""What is late: a verdict, which a person who works on the sync acknowledges with a reason, and postings for a signed
date, as its stream has applied them."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Depends, Form
from fastapi.responses import HTMLResponse, Response

from seamline.domain.errors import Refused
from seamline.domain.late_posting import LatePosting
from seamline.domain.masking import masked
from seamline.domain.sign_off import REASON_MAX, SignOff
from seamline_airflow import parts
from seamline_airflow.page import acting, acts, reading
from seamline_airflow.page.rendering import Visit, refused, visit_of
from seamline_airflow.page.selection import NAME

pages = APIRouter()


def postings_of(one: SignOff, *, limit: int) -> Sequence[LatePosting]:
    """The newest ones of a version, with keys masked as the sync declares."""
    if one.watch is None or not one.watch.tables:
        return ()
    with parts.late_postings() as store:
        found: Sequence[LatePosting] = store.of_take(one.run_id, one.destination, limit=limit)
    return masked(found, reading.hidden, one.sync)


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
