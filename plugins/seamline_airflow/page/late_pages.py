"""What is late: a verdict or a source that is away, which a person who works on the sync acknowledges with a reason,
and postings for a signed date, as its stream has applied them."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Form
from fastapi.responses import HTMLResponse, Response
from pydantic import AwareDatetime

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


@pages.post("/acknowledge_source", response_class=HTMLResponse, response_model=None)
def acknowledge_source(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: Annotated[str, Form(pattern=NAME)],
    source: Annotated[str, Form(max_length=200, pattern=r"^[^\x00]*$")],
    since: Annotated[AwareDatetime, Form()],
    until: Annotated[datetime, Form()],
    reason: Annotated[str, Form(max_length=REASON_MAX)] = "",
) -> Response:
    """`until`: by when it is to be back, in the sync's zone; it is late then. As a field of a form gives it, without a
    zone."""
    with reading.platform() as store:
        zone = ZoneInfo(store.timezone(sync))
    due = until if until.tzinfo else until.replace(tzinfo=zone)
    try:
        acts.acknowledge_source(sync, source, since, until=due, reason=reason, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, "page")
    return acting.done("page")
