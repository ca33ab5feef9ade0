"""Cuts that a person asks for: of one business date or of a range, and the backfill that makes a range, as it goes on.

Nothing is read of a source here: what is asked for is checked, and Airflow does it.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Form, Query
from fastapi.responses import HTMLResponse, Response

from seamline.domain.backfill import Progress, by_date, with_cuts
from seamline.domain.calendar import last_ended
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.phrase import phrase
from seamline.domain.runs import NightlyMode, RunKind
from seamline.domain.sign_off import REASON_MAX
from seamline.plan.model import Run
from seamline.platform.reconciliations import Detail
from seamline.sync.dates_asked import AT_ONCE, AT_ONCE_MAX, DatesAsked
from seamline_airflow.page import access, acting, acts, dag_runs, reading, selection
from seamline_airflow.page.rendering import Visit, refused, render, visit_of

pages = APIRouter()

SyncName = Annotated[str, Form(pattern=selection.NAME)]
SyncAsked = Annotated[str, Query(pattern=selection.NAME)]
Reason = Annotated[str, Form(max_length=REASON_MAX)]


@dataclass(frozen=True, slots=True)
class Shown:
    """A backfill of Airflow's with what its dates have come to."""

    of: dag_runs.BackfillSeen
    progress: Progress


@pages.get("/cuts", response_class=HTMLResponse, response_model=None)
def cuts(visit: Annotated[Visit, Depends(visit_of)], sync: SyncAsked) -> HTMLResponse:
    """The form, with the newest date that has ended, and the newest backfill."""
    access.require(visit.user, sync)
    found = _shown(sync)
    with reading.platform() as store:
        zone = store.timezone(sync)
        run = store.latest_run(sync, *RunKind)
    return HTMLResponse(
        render(
            "cuts.html",
            visit,
            sync=sync,
            zone=ZoneInfo(zone),
            newest=_newest(run, zone),
            tables=[table.name for table in run.plan.tables] if run else [],
            modes=list(NightlyMode),
            at_once=AT_ONCE,
            at_once_max=AT_ONCE_MAX,
            backfill=found,
            orders=_orders(found),
            may_cut=acting.may_cut(visit.user, sync),
        )
    )


@pages.post("/make_cuts", response_class=HTMLResponse, response_model=None)
def make(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: SyncName,
    first: Annotated[date, Form()],
    mode: Annotated[NightlyMode, Form()],
    last: Annotated[str, Form(max_length=40)] = "",
    tables: Annotated[list[str], Form()] = [],  # noqa: B006 (FastAPI copies it)
    order: Annotated[str, Form(pattern="^(oldest|newest)$")] = "oldest",
    at_once: Annotated[int, Form()] = AT_ONCE,
    again: Annotated[str, Form(max_length=3)] = "",
    reason: Reason = "",
) -> Response:
    acting.require_cutter(user, sync)
    try:
        asked = DatesAsked(
            first,
            _last(last, first),
            mode,
            tuple(tables),
            reason,
            again=bool(again),
            newest_first=order == "newest",
            at_once=at_once,
        )
        acts.make_cuts(sync, asked, by=acts.actor(user))
    except (Refused, ConfigError) as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


@pages.post("/order_backfill", response_class=HTMLResponse, response_model=None)
def order(
    visit: Annotated[Visit, Depends(visit_of)],
    user: acting.Worker,
    sync: SyncName,
    number: Annotated[int, Form()],
    order: Annotated[dag_runs.BackfillOrder, Form()],
    reason: Reason = "",
) -> Response:
    acting.require_cutter(user, sync)
    try:
        acts.order_backfill(sync, number, order, reason=reason, by=acts.actor(user))
    except Refused as error:
        return refused(visit, error, _here(sync))
    return acting.done(_here(sync))


def _last(given: str, first: date) -> date:
    """Left out: only the first."""
    try:
        return date.fromisoformat(given) if given else first
    except ValueError as exc:
        raise Refused(f"not a business date: {given!r}", hint="write it as YYYY-MM-DD") from exc


def _newest(run: Run | None, zone: str) -> date | None:
    """The newest business date that has ended."""
    now, nightly = datetime.now(UTC), run.plan.nightly if run else None
    return nightly.last_ended(now) if nightly else last_ended(now, timezone=zone)


def _shown(sync: str) -> Shown | None:
    found = dag_runs.backfill_of(f"{sync}__nightly")
    if found is None:
        return None
    number, behind = (found.last - found.first).days + 1, found.last + timedelta(days=1)
    with reading.platform() as store:
        known = by_date(store.cut_states(sync, number, before=behind, detail=Detail.VERDICTS))
    dates = tuple(with_cuts(one, known.get(one.business_date, ())) for one in found.dates)
    return Shown(found, Progress(dates, is_paused=found.is_paused, is_over=found.is_over))


def _orders(found: Shown | None) -> list[tuple[str, str]]:
    """What can be done with it, each with the words of its button."""
    if found is None or found.of.is_over:
        return []
    cancel = (dag_runs.BackfillOrder.CANCEL.value, phrase("cancel the dates that wait"))
    if found.of.is_paused:
        return [(dag_runs.BackfillOrder.CONTINUE.value, phrase("go on")), cancel]
    return [(dag_runs.BackfillOrder.PAUSE.value, phrase("pause")), cancel]


def _here(sync: str) -> str:
    return f"cuts?{urlencode({'sync': sync})}"
