"""Streams: a person who works on the sync lets one stand still, and lets it go on."""

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Form, HTTPException
from fastapi.responses import HTMLResponse, Response

from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.person import one_line
from seamline.domain.sign_off import REASON_MAX
from seamline_airflow import parts
from seamline_airflow.page import acting
from seamline_airflow.page.rendering import Visit, refused, visit_of
from seamline_airflow.page.selection import NAME

acts = APIRouter()


class Order(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"


@acts.post("/order_stream", response_class=HTMLResponse, response_model=None)
def order_stream(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: Annotated[str, Form(pattern=NAME)],
    destination: Annotated[str, Form(min_length=1, max_length=128, pattern=r"^[^\x00]*$")],
    order: Annotated[Order, Form()],
    reason: Annotated[str, Form(max_length=REASON_MAX)] = "",
) -> Response:
    """As `./seamline stream`. A pause needs a reason here: whoever looks in the morning sees it beside the lag."""
    stream, who, why = StreamId(sync, destination), acting.name_of(user), one_line(reason)
    if order is Order.PAUSE and not why:
        raise HTTPException(status_code=422, detail="say why the stream is to stand still")
    here = f"page?sync={sync}"
    try:
        with parts.director() as director:
            if order is Order.PAUSE:
                director.pause(stream, by=who, reason=why)
            else:
                director.resume(stream, by=who)
    except Refused as error:
        return refused(visit, error, here)
    return acting.done(here)
