"""Values of sensitive columns, the evidence of a date and files of breaks, by REST: as on the page for whoever may work
or sign; each is entered before it leaves."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from seamline.domain.attachment import CONTENT_TYPE
from seamline.domain.audit import FROM_REST
from seamline.domain.masking import Hidden
from seamline.platform.attachments import Holder
from seamline.platform.breaks import Order
from seamline_airflow.page import acts, attachment_pages, exports, rest_acts, rest_breaks, reveal, selection
from seamline_airflow.page import rest_answers as answers
from seamline_airflow.page import rest_repair_answers as repair_answers
from seamline_airflow.page.rest_acts import BreakId, Filter, Name, Number
from seamline_airflow.page.rest_rights import SyncName, Trusted

api = APIRouter()

Reason = Annotated[str, Field(max_length=reveal.REASON_MAX)]


class Revealed(rest_acts.Body):
    reason: Reason


class BreaksRevealed(Filter):
    """`after`: `next_after` of the answer before."""

    sort: Order = Order.FOUND
    limit: Annotated[int, Field(ge=1, le=rest_breaks.BREAKS_MAX)] = 50
    after: Annotated[str, Field(pattern=selection.PLACE)] = ""
    reason: Reason

    def asked(self, sync: str) -> selection.Asked:
        choice = selection.choice_of(
            None, self.run, self.destination, self.scope, self.table, self.kind, self.text, self.sort, self.after,
            self.state, self.of,
        )  # fmt: skip
        return selection.of_sync(choice, sync)


class RepairRevealed(Revealed):
    id: Name


class EvidenceTaken(rest_acts.Body):
    """`reason`: needed where the sync has sensitive columns."""

    business_date: date
    reason: Reason = ""


@api.post("/syncs/{sync}/breaks/{break_id}/reveal")
def reveal_break(sync: SyncName, user: Trusted, break_id: BreakId, body: Revealed) -> answers.History:
    """One break over all dates with its values."""
    reveal.enter_break(acts.actor(user, FROM_REST), sync, break_id, body.reason)
    return rest_breaks.history(sync, break_id, reveal.as_stored)


@api.post("/syncs/{sync}/breaks/reveal")
def reveal_breaks(sync: SyncName, user: Trusted, body: BreaksRevealed) -> answers.Breaks:
    """Some breaks of one comparison with their values."""
    asked = body.asked(sync)
    reveal.enter_breaks(acts.actor(user, FROM_REST), asked, body.reason)
    return rest_breaks.breaks(asked, body.limit, reveal.as_stored)


@api.post("/syncs/{sync}/repair/reveal")
def reveal_repair(sync: SyncName, user: Trusted, body: RepairRevealed) -> repair_answers.RepairPlan:
    """The plan of a repair with the values of its first rows."""
    found = acts.repair_of(sync, body.id)
    reveal.enter_repair(acts.actor(user, FROM_REST), found, body.reason)
    return rest_acts.repair_plan(found, Hidden())


@api.post(
    "/syncs/{sync}/evidence",
    response_class=Response,
    responses={200: {"content": {"application/zip": {}}, "description": "the folder of evidence"}},
)
def take_evidence(sync: SyncName, user: Trusted, body: EvidenceTaken) -> Response:
    """The folder of `./seamline audit export` as a zip. It holds rows as they are stored, values of sensitive columns
    too."""
    return exports.evidence_of(user, sync, body.business_date, body.reason, origin=FROM_REST)


@api.post(
    "/syncs/{sync}/breaks/{break_id}/files/{number}",
    response_class=Response,
    responses={200: {"content": {CONTENT_TYPE: {}}, "description": "the bytes of the file"}},
)
def take_file(sync: SyncName, user: Trusted, break_id: BreakId, number: Number) -> Response:
    """One version of a file that a person has attached, by its number in the answer about the break."""
    by, of = acts.actor(user, FROM_REST), Holder(sync, break_id=break_id)
    return attachment_pages.handed_out(by, of, number, {"break": break_id})
