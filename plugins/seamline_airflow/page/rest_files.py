"""Files that people attach, by REST. A file is sent as a form (`multipart/form-data`, field `file`), as by the page."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response, UploadFile

from seamline.domain.attachment import CONTENT_TYPE
from seamline.domain.audit import FROM_REST
from seamline.platform.attachments import Attachment, Holder
from seamline_airflow import parts
from seamline_airflow.page import acts, attachment_pages
from seamline_airflow.page import rest_answers as answers
from seamline_airflow.page.rest_acts import BreakId, Number
from seamline_airflow.page.rest_rights import REFUSED, SyncName, Trusted, Worker

api = APIRouter(responses=REFUSED)

Destination = Annotated[str, Query(min_length=1, max_length=128, pattern=r"^[^\x00]*$")]
Version = Annotated[int, Query(ge=1, le=999_999_999)]


@api.post("/syncs/{sync}/breaks/{break_id}/files", status_code=201)
def attach_to_break(sync: SyncName, user: Worker, break_id: BreakId, file: UploadFile) -> list[answers.Attachment]:
    """A name that the break has already makes the next version. Answers all files of the break."""
    return _attached(user, Holder(sync, break_id=break_id), file)


@api.post("/syncs/{sync}/dates/{business_date}/files", status_code=201)
def attach_to_date(
    sync: SyncName, user: Worker, business_date: date, destination: Destination, version: Version, file: UploadFile
) -> list[answers.Attachment]:
    """To one version of a date in one destination; nothing once it is signed. Answers all files of the version."""
    return _attached(user, _holder(sync, business_date, destination, version), file)


@api.post(
    "/syncs/{sync}/dates/{business_date}/files/{number}",
    response_class=Response,
    responses={200: {"content": {CONTENT_TYPE: {}}, "description": "the bytes of the file"}},
)
def take_file_of_date(
    sync: SyncName, user: Trusted, business_date: date, number: Number, destination: Destination, version: Version
) -> Response:
    """One version of a file of a date, by its number among the files of the date."""
    of = _holder(sync, business_date, destination, version)
    return attachment_pages.handed_out(acts.actor(user, FROM_REST), of, number, {"run": of.run_id})


def _attached(user: object, to: Holder, file: UploadFile) -> list[answers.Attachment]:
    attachment_pages.taken_in(acts.actor(user, FROM_REST), to, file)
    with parts.attachments() as store:
        found: tuple[Attachment, ...] = store.files(to)
    return [answers.Attachment.model_validate(one) for one in found]


def _holder(sync: str, business_date: date, destination: str, version: int) -> Holder:
    """404: there is no such version."""
    with parts.signatures() as store:
        takes = store.of_date(sync, business_date)
    for one in takes:
        if (one.destination, one.version) == (destination, version):
            return Holder(sync, run_id=one.run_id, destination=destination)
    raise HTTPException(status_code=404, detail=f"{sync} has no version {version} of {business_date} in {destination}")
