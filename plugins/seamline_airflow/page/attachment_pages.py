"""Files that people attach to breaks and to takes of dates: a form of their page sends one here, another form takes one
away.

What is handed out is never shown by a browser, whatever its bytes are: it is of no type that has a way to be shown, and
always saved. It may hold values of rows, so it is for whoever may work on the sync or sign for it.
"""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, HTTPException, Request, UploadFile
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from seamline.domain.attachment import BYTES_MAX, CONTENT_TYPE, checked, disposition
from seamline.domain.errors import Refused
from seamline.domain.exported import exported_act, print_of
from seamline.platform.attachments import Holder
from seamline_airflow import parts
from seamline_airflow.page import acting, acts, selection
from seamline_airflow.page.rendering import Visit, refused, visit_of

pages = APIRouter()

# The largest file, and the form around it.
BODY_MAX = BYTES_MAX + 64 * 1024

SyncName = Annotated[str, Form(pattern=selection.NAME)]
BreakId = Annotated[str, Form(pattern=selection.BREAK_ID)]
Run = Annotated[str, Form(min_length=1, max_length=1_000, pattern=r"^[^\x00]*$")]
Destination = Annotated[str, Form(min_length=1, max_length=128, pattern=r"^[^\x00]*$")]
Number = Annotated[int, Form(ge=1, lt=2**63)]


def body_refused(request: Request) -> Response | None:
    """The answer to a POST of which more would be read than any form holds, before a byte of it is; else None."""
    if request.method != "POST":
        return None
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        return PlainTextResponse("say how long the form is: Content-Length", status_code=411)
    if int(length) > BODY_MAX:
        return PlainTextResponse(f"a file has at most {BYTES_MAX:,} bytes", status_code=413)
    return None


@pages.post("/attach", response_class=HTMLResponse, response_model=None)
def attach(
    visit: Annotated[Visit, Depends(visit_of)], user: acting.Worker, sync: SyncName, id: BreakId, file: UploadFile
) -> Response:
    """To one break; a name that it has already makes the next version."""
    return _attach(visit, user, Holder(sync, break_id=id), file, f"break?{urlencode({'sync': sync, 'id': id})}")


@pages.post("/attach_to_date", response_class=HTMLResponse, response_model=None)
def attach_to_date(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: SyncName,
    business_date: Annotated[date, Form()],
    run: Run,
    destination: Destination,
    file: UploadFile,
) -> Response:
    """To one take of a date in one destination; nothing once it is signed."""
    here = f"page?{urlencode({'sync': sync, 'business_date': business_date.isoformat(), 'run': run})}"
    return _attach(visit, user, Holder(sync, run_id=run, destination=destination), file, here)


@pages.post("/attachment")
def attachment(user: acting.Trusted, sync: SyncName, id: BreakId, number: Number) -> Response:
    """The bytes of one version of a break's file."""
    return handed_out(acts.actor(user), Holder(sync, break_id=id), number, {"break": id})


@pages.post("/attachment_of_date")
def attachment_of_date(
    user: acting.Trusted, sync: SyncName, run: Run, destination: Destination, number: Number
) -> Response:
    """The bytes of one version of a file of a take."""
    return handed_out(acts.actor(user), Holder(sync, run_id=run, destination=destination), number, {"run": run})


def _attach(visit: Visit, user: Any, to: Holder, file: UploadFile, here: str) -> Response:
    try:
        taken_in(acts.actor(user), to, file)
    except Refused as error:
        return refused(visit, error, here)
    return acting.done(here)


def taken_in(by: acts.Actor, to: Holder, file: UploadFile) -> None:
    """As the next version of its name. Refused: what is sent is no file that is kept here."""
    given = checked(file.filename or "", file.file.read(BYTES_MAX + 1))
    with parts.attachments() as store:
        store.attach(to, given, who=by.who, origin=by.origin)


def handed_out(by: acts.Actor, of: Holder, number: int, chosen: Mapping[str, str]) -> Response:
    """One version of a file, by the number of its entry. 404: it is missing. Without an entry of its own in the
    log of acts it is not handed out."""
    with parts.attachments() as store:
        taken = store.taken(of, number)
    if taken is None:
        raise HTTPException(status_code=404, detail="there is no such file")
    about, file = taken
    said = {**chosen, "attached by entry": str(number)}
    act = exported_act(about, print_of(file.content), who=by.who, origin=by.origin, file=file.name, rows=0, chosen=said)
    with parts.audit() as log:
        log.enter(act)
    return Response(file.content, media_type=CONTENT_TYPE, headers={"Content-Disposition": disposition(file.name)})
