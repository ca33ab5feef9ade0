"""Signatures under published cuts: forms of the report of a date and of the overview send them here, and the person is
led back to the page that shows what has become of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, HTTPException
from fastapi.responses import HTMLResponse, Response

from seamline.domain.errors import ConfigError, Refused
from seamline.domain.sign_off import REASON_MAX, ReasonRequired
from seamline.platform.signatures import Take
from seamline_airflow.page import acting, acts, reports
from seamline_airflow.page.rendering import Visit, refused, visit_of
from seamline_airflow.page.selection import NAME

# As many dates as one form of the overview may sign.
TOGETHER_MAX = 500
_HASH = r"^[0-9a-f]{64}$"
# What a box of the overview says: date, version, hash, and the destination, which may hold anything.
_BOX = r"^\d{4}-\d{2}-\d{2} \d{1,9} [0-9a-f]{64} [^\x00]{1,128}$"

pages = APIRouter()

SyncName = Annotated[str, Form(pattern=NAME)]
Destination = Annotated[str, Form(min_length=1, max_length=128, pattern=r"^[^\x00]*$")]
Version = Annotated[int, Form(ge=1, le=999_999_999)]
Reason = Annotated[str, Form(max_length=REASON_MAX)]
Boxes = Annotated[list[Annotated[str, Form(pattern=_BOX)]], Form(max_length=TOGETHER_MAX)]
# Of a take that is not the newest one of its date; its form says which.
RunOf = Annotated[str, Form(max_length=1_000, pattern=r"^[^\x00]*$")]


@dataclass(frozen=True, slots=True)
class Rights:
    """What a person may do about the signatures of a sync. `me`: as signatures name the person; `restate`: let a signed
    date be taken again; `why_not`: why nobody signs for it now, "" where that is not so."""

    me: str
    sign: bool
    reopen: bool
    reason_required: ReasonRequired
    restate: bool = False
    why_not: str = ""


def rights(user: Any, sync: str) -> Rights:
    mine = Rights(
        acting.name_of(user),
        sign=False,
        reopen=acting.may_work(user, sync),
        reason_required=reports.reason_required(sync),
        restate=acting.may_cut(user, sync),
    )
    try:
        return replace(mine, sign=acting.may_sign(user, sync))
    except ConfigError as exc:
        return replace(mine, why_not=exc.message)


@pages.post("/sign", response_class=HTMLResponse, response_model=None)
def sign(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Signer,
    sync: SyncName,
    business_date: Annotated[date, Form()],
    destination: Destination,
    version: Version,
    verdict_hash: Annotated[str, Form(pattern=_HASH)],
    reason: Reason = "",
    run: RunOf = "",
) -> Response:
    """One version, as the person has seen it."""
    try:
        take = Take(sync, destination, business_date, version)
        acts.sign(take, verdict_hash=verdict_hash, reason=reason, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, _report(sync, business_date, run))
    return acting.done(_report(sync, business_date, run))


@pages.post("/sign_clean", response_class=HTMLResponse, response_model=None)
def sign_clean(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Signer,
    sync: SyncName,
    take: Boxes = [],  # noqa: B006
    reason: Reason = "",
) -> Response:
    """Clean dates together: all that were chosen, or none of them."""
    return _sign_together(visit, sync, take, partial(acts.sign_clean, reason=reason, by=acts.actor(user)))


@pages.post("/sign_left_out", response_class=HTMLResponse, response_model=None)
def sign_left_out(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Signer,
    sync: SyncName,
    take: Boxes = [],  # noqa: B006
    reason: Reason = "",
) -> Response:
    """Dates that the log has left transactions out of, with one reason: all that were chosen, or none of them."""
    return _sign_together(visit, sync, take, partial(acts.sign_left_out, reason=reason, by=acts.actor(user)))


@pages.post("/reopen", response_class=HTMLResponse, response_model=None)
def reopen(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: SyncName,
    business_date: Annotated[date, Form()],
    destination: Destination,
    version: Version,
    reason: Reason = "",
    run: RunOf = "",
) -> Response:
    """Whoever works on the sync may: a date that is open again lets nothing through, and waits."""
    try:
        take = Take(sync, destination, business_date, version)
        acts.reopen(take, reason=reason, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, _report(sync, business_date, run))
    return acting.done(_report(sync, business_date, run))


@pages.post("/restate", response_class=HTMLResponse, response_model=None)
def restate(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: SyncName,
    business_date: Annotated[date, Form()],
    reason: Reason = "",
) -> Response:
    """A signed date is taken again by a run of the nightly DAG; what was signed stays."""
    acting.require_cutter(user, sync)
    try:
        run = acts.restate(sync, business_date, reason=reason, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, _report(sync, business_date))
    return acting.done(f"{_report(sync, business_date)}&{urlencode({'asked': run})}")


def _sign_together(
    visit: Visit, sync: str, boxes: Sequence[str], sign_all: Callable[[str, Mapping[Take, str]], None]
) -> Response:
    if not boxes:
        return refused(visit, Refused("no date is chosen", hint="tick the dates that you sign for"), "page")
    chosen = dict(_chosen(sync, box) for box in boxes)
    try:
        sign_all(sync, chosen)
    except Refused as error:
        return refused(visit, error, "page")
    return acting.done("page")


def _chosen(sync: str, box: str) -> tuple[Take, str]:
    day, version, seen, destination = box.split(" ", 3)
    try:
        return Take(sync, destination, date.fromisoformat(day), int(version)), seen
    except ValueError:
        raise HTTPException(status_code=422, detail=f"{day} is no business date") from None


def _report(sync: str, day: date, run: str = "") -> str:
    """Of the newest take, or of that of `run`."""
    chosen = {"run": run} if run else {}
    return f"page?{urlencode({'sync': sync, 'business_date': day.isoformat(), **chosen})}"
