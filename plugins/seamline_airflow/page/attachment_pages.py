"""Files that people attach to breaks: a form of the break's page sends one here, another form takes one away.

What is handed out is never shown by a browser, whatever its bytes are: it is of no type that has a way to be shown, and
always saved. It may hold values of rows, so it is for whoever may work on the sync or sign for it.
"""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, HTTPException, Request, UploadFile
from fastapi.responses import HTMLResponse, PlainTextResponse, Response

from seamline.domain.attachment import BYTES_MAX, CONTENT_TYPE, checked, disposition
from seamline.domain.audit import FROM_PAGE
from seamline.domain.errors import Refused
from seamline.domain.exported import exported_act
from seamline_airflow import parts
from seamline_airflow.page import acting, selection
from seamline_airflow.page.rendering import Visit, refused, visit_of

pages = APIRouter()

# The largest file, and the form around it.
BODY_MAX = BYTES_MAX + 64 * 1024

SyncName = Annotated[str, Form(pattern=selection.NAME)]
BreakId = Annotated[str, Form(pattern=selection.BREAK_ID)]


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
    here = f"break?{urlencode({'sync': sync, 'id': id})}"
    try:
        given = checked(file.filename or "", file.file.read(BYTES_MAX + 1))
        with parts.attachments() as store:
            store.attach(sync, id, given, who=acting.name_of(user))
    except Refused as error:
        return refused(visit, error, here)
    return acting.done(here)


@pages.post("/attachment")
def attachment(
    user: acting.Trusted, sync: SyncName, id: BreakId, number: Annotated[int, Form(ge=1, lt=2**63)]
) -> Response:
    """The bytes of one version. Without its entry in the log of acts it is not handed out."""
    with parts.attachments() as store:
        taken = store.taken(sync, id, number)
    if taken is None:
        raise HTTPException(status_code=404, detail="there is no such file")
    about, file = taken
    chosen = {"break": id, "attached by entry": str(number)}
    who = acting.name_of(user)
    act = exported_act(about, file.content, who=who, origin=FROM_PAGE, file=file.name, rows=0, chosen=chosen)
    with parts.audit() as log:
        log.enter(act)
    return Response(file.content, media_type=CONTENT_TYPE, headers={"Content-Disposition": disposition(file.name)})
