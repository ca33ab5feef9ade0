"""Streams: a person who works on the sync lets one stand still, lets it go on, starts one again that has ended, and
lets its tables be loaded again."""

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Form
from fastapi.responses import HTMLResponse, Response

from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.sign_off import REASON_MAX
from seamline_airflow.page import acting, acts
from seamline_airflow.page.rendering import Visit, refused, visit_of
from seamline_airflow.page.selection import NAME

orders = APIRouter()


class Order(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"


_Destination = Annotated[str, Form(min_length=1, max_length=128, pattern=r"^[^\x00]*$")]
_Reason = Annotated[str, Form(max_length=REASON_MAX)]


@orders.post("/order_stream", response_class=HTMLResponse, response_model=None)
def order_stream(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: Annotated[str, Form(pattern=NAME)],
    destination: _Destination,
    order: Annotated[Order, Form()],
    reason: _Reason = "",
) -> Response:
    """As `./seamline stream`. A pause needs a reason here: whoever looks in the morning sees it beside the lag."""
    stream, by = StreamId(sync, destination), acts.actor(user)
    here = f"page?sync={sync}"
    try:
        match order:
            case Order.PAUSE:
                acts.pause_stream(stream, reason=reason, by=by)
            case Order.RESUME:
                acts.resume_stream(stream, by=by)
            case Order.RESTART:
                acts.restart_stream(stream, by=by)
    except Refused as error:
        return refused(visit, error, here)
    return acting.done(here)


@orders.post("/load_again", response_class=HTMLResponse, response_model=None)
def load_again(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: Annotated[str, Form(pattern=NAME)],
    destination: _Destination,
    reason: _Reason = "",
) -> Response:
    """Where reading all tables again is faster than to catch up: the run that the alarm `catch_up` names."""
    acting.require_loader(user, sync)
    here = f"page?sync={sync}"
    try:
        acts.load_again(StreamId(sync, destination), reason=reason, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, here)
    return acting.done(here)
