"""The pages of rows that differ: some of many of one comparison, and one of them over all dates."""

from datetime import date
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse

from seamline.domain.cut_state import CutState
from seamline.domain.runs import Scope
from seamline.domain.verdict import BreakType
from seamline.platform.breaks import Compared, Order, Place, Sighting, Wanted
from seamline.platform.reconciliations import Detail
from seamline_airflow import parts
from seamline_airflow.page import access, reports
from seamline_airflow.page.rendering import Visit, render, visit_of

BREAKS_PER_PAGE = 50
_NAME = r"^[A-Za-z_][A-Za-z0-9_-]{0,127}$"
_TEXT_MAX = 500

pages = APIRouter()


@pages.get("/breaks", response_class=HTMLResponse, response_model=None)
def breaks(
    visit: Annotated[Visit, Depends(visit_of)],
    sync: Annotated[str, Query(pattern=_NAME)],
    business_date: date | None = None,
    run: str = "",
    destination: str = "",
    scope: Scope = Scope.CUT,
    table: str = "",
    kind: Annotated[str, Query(pattern=f"^({'|'.join(BreakType)})?$")] = "",
    text: Annotated[str, Query(max_length=_TEXT_MAX)] = "",
    sort: Order = Order.FOUND,
    after: Annotated[str, Query(pattern=r"^(\d{1,9}[.]\d{1,9})?$")] = "",
) -> HTMLResponse:
    """Of one comparison: that of `run` in `destination`, or of the newest take of `business_date`."""
    access.require(visit.user, sync)
    with parts.platform() as store:
        zone = ZoneInfo(store.timezone(sync))
        if not run and business_date:
            run = _newest(store.takes(sync, business_date, detail=Detail.VERDICTS))
        found = [one for one in store.reconciliations_of(sync, run, detail=Detail.VERDICTS) if one.scope is scope]
    shown = next((one for one in found if destination in ("", one.destination)), None)
    if shown is None:
        what = f"Nothing was compared of {sync} by run {run or 'of this date'}."
        return HTMLResponse(render("no_sync.html", visit, what=what), status_code=404)
    compared = Compared(shown.run_id, shown.destination, scope)
    wanted = Wanted(
        table=table,
        type=BreakType(kind) if kind else None,
        text=text,
        order=sort,
        after=Place(*map(int, after.split("."))) if after else None,
        limit=BREAKS_PER_PAGE + 1,
    )
    with parts.breaks() as store:
        listed, counts = store.some(compared, wanted), store.counts(compared)
    page = listed[:BREAKS_PER_PAGE]
    return HTMLResponse(
        render(
            "breaks.html",
            visit,
            sync=sync,
            zone=zone,
            shown=shown,
            others=[one for one in found if one is not shown],
            counts=counts,
            wanted=wanted,
            page=page,
            next_after=page[-1].place if len(listed) > BREAKS_PER_PAGE else None,
            orders=list(Order),
            kinds=sorted({one.type for one in counts}),
        )
    )


@pages.get("/break", response_class=HTMLResponse, response_model=None)
def one_break(
    visit: Annotated[Visit, Depends(visit_of)],
    sync: Annotated[str, Query(pattern=_NAME)],
    id: Annotated[str, Query(pattern=r"^[0-9a-f]{16}$")],
) -> HTMLResponse:
    """Every comparison that has found it, and whether the newest one still does."""
    access.require(visit.user, sync)
    with parts.breaks() as found:
        seen = found.history(sync, id)
    if not seen:
        what = f"No comparison of {sync} has found break {id}."
        return HTMLResponse(render("no_sync.html", visit, what=what), status_code=404)
    with parts.platform() as store:
        zone = ZoneInfo(store.timezone(sync))
        cuts = store.cut_states(sync, reports.DATES_PER_PAGE, detail=Detail.VERDICTS)
    return HTMLResponse(
        render("break.html", visit, sync=sync, zone=zone, break_id=id, seen=seen, standing=_standing(seen, cuts))
    )


def _newest(takes: tuple[CutState, ...]) -> str:
    return takes[0].run_id if takes else ""


def _standing(seen: tuple[Sighting, ...], cuts: tuple[CutState, ...]) -> dict[str, Any]:
    """The first date of a cut that has it and the last one, the days between them, and the newest date that was
    compared in the same destination, where that one has it no more."""
    days = [one.business_date for one in seen if one.scope is Scope.CUT and one.business_date]
    if not days:
        return {}
    first, last = min(days), max(days)
    compared = [one.business_date for one in cuts if one.found and one.destination == seen[0].destination]
    newest = max(compared, default=last)
    return {
        "first": first,
        "last": last,
        "days": (last - first).days,
        "dates": len(set(days)),
        "gone_by": newest if newest > last else None,
    }
