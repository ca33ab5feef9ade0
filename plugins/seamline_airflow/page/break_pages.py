"""The pages of rows that differ: some of many of one comparison, and one of them over all dates."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import HTMLResponse

from seamline.domain.audit import Subject
from seamline.domain.break_work import Doing, WorkState, is_all_settled, possible
from seamline.domain.cut_state import CutState
from seamline.domain.phrase import phrase
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.separate import SEPARATE
from seamline.domain.verdict import Verdict
from seamline.platform.attachments import Holder
from seamline.platform.breaks import HISTORY_MAX, InCuts, Order, Sighting
from seamline.platform.reconciliations import Detail
from seamline.report.files import to_xlsx
from seamline.report.selection import Listed, Selection, report_of_selection, selection_csv
from seamline_airflow import parts
from seamline_airflow.page import access, acting, reading, reports, selection, taken
from seamline_airflow.page.rendering import Visit, render, visit_of

BREAKS_PER_PAGE = 50
# Of a longer selection a file holds the first ones, and says so.
BREAKS_IN_A_FILE = 20_000

pages = APIRouter()


@pages.get("/breaks", response_class=HTMLResponse, response_model=None)
def breaks(
    visit: Annotated[Visit, Depends(visit_of)],
    asked: selection.Visible,
    done: Annotated[int, Query(ge=0)] = 0,
    left: Annotated[int, Query(ge=0)] = 0,
) -> HTMLResponse:
    """`done` and `left`: how many breaks an act on all of the filter has changed, and left alone."""
    return breaks_page(visit, asked, done=done, left=left)


def breaks_page(
    visit: Visit, asked: selection.Asked, opened: selection.Opened = reading.breaks, **acted: int
) -> HTMLResponse:
    """`opened`: by what the values of its rows are read. `acted`: `done` and `left` of an act."""
    shown = selection.comparison(asked)
    if shown is None:
        return HTMLResponse(render("no_sync.html", visit, what=selection.nothing_in_words(asked)), status_code=404)
    counts = selection.counts(shown)
    page, is_more = selection.some(shown, asked.wanted, BREAKS_PER_PAGE, opened)
    with reading.breaks(asked.sync) as store:
        number = store.number(shown.compared, asked.wanted)
    with parts.work() as known:
        works, states = known.of([one.break_id for one in page]), known.states(shown.compared)
        owners = known.owners(shown.compared)
    return HTMLResponse(
        render(
            "breaks.html",
            visit,
            sync=asked.sync,
            zone=shown.zone,
            shown=shown.found,
            headline=shown.headline,
            altered=shown.altered,
            others=shown.others,
            counts=counts,
            wanted=asked.wanted,
            page=page,
            next_after=page[-1].place if is_more else None,
            orders=list(Order),
            kinds=sorted({one.type for one in counts}),
            number=number,
            works=works,
            states=states,
            is_settled=is_all_settled(states, sum(one.breaks_total for one in shown.found.tables)),
            owners=owners,
            done=acted.get("done", 0),
            left=acted.get("left", 0),
            may=list(Doing) if acting.may_work(visit.user, asked.sync) else [],
            masking=_masking(visit, asked.sync, opened),
            may_plan=may_plan(visit, shown.found),
            **_working(visit, asked.sync),
        )
    )


def may_plan(visit: Visit, found: Reconciliation) -> bool:
    """Whether this person may plan a repair from it. Breaks of live tables that a stream of ours writes are repaired; a
    cut is made again."""
    is_ours = found.scope is Scope.LIVE and found.mode != SEPARATE
    return is_ours and found.verdict is Verdict.BREAK and acting.may_repair(visit.user, found.sync)


def _masking(visit: Visit, sync: str, opened: selection.Opened) -> str:
    """What a page says of values: "" where none is sensitive, shown, masked, or masked and to be asked for."""
    return masking(visit, sync) if opened is reading.breaks else "shown"


def masking(visit: Visit, sync: str) -> str:
    """The same of what is shown to everybody who may look."""
    if not reading.hidden(sync).is_any:
        return ""
    return "asked for" if acting.is_trusted(visit.user, sync) else "masked"


@pages.get("/breaks.xlsx")
def breaks_xlsx(user: taken.Taker, asked: selection.Visible) -> Response:
    selected, zone = _selected(asked)
    return _handed_out(user, asked, selected, to_xlsx(report_of_selection(selected, zone)), "xlsx")


@pages.get("/breaks.csv")
def breaks_csv(user: taken.Taker, asked: selection.Visible) -> Response:
    selected, zone = _selected(asked)
    return _handed_out(user, asked, selected, selection_csv(selected, zone).encode(), "csv")


@pages.get("/break", response_class=HTMLResponse, response_model=None)
def one_break(
    visit: Annotated[Visit, Depends(visit_of)],
    sync: Annotated[str, Query(pattern=selection.NAME)],
    id: Annotated[str, Query(pattern=selection.BREAK_ID)],
) -> HTMLResponse:
    """Every comparison that has found it, and whether the newest one still does."""
    access.require(visit.user, sync)
    return break_page(visit, sync, id)


def break_page(visit: Visit, sync: str, break_id: str, opened: selection.Opened = reading.breaks) -> HTMLResponse:
    """`opened`: by what the values of its row are read."""
    seen = history(sync, break_id, opened)
    if seen is None:
        what = phrase("No comparison of %(sync)s has found break %(id)s.", sync=sync, id=break_id)
        return HTMLResponse(render("no_sync.html", visit, what=what), status_code=404)
    with parts.work() as store:
        known, deeds = store.of([break_id]).get(break_id), store.deeds(break_id)
    with parts.attachments() as attached:
        files = attached.files(Holder(sync, break_id=break_id))
    may_work = acting.may_work(visit.user, sync)
    return HTMLResponse(
        render(
            "break.html",
            visit,
            sync=sync,
            zone=seen.zone,
            break_id=break_id,
            seen=seen.sightings,
            seen_max=HISTORY_MAX,
            standing=seen.standing,
            known=known,
            deeds=deeds,
            files=files,
            may=possible(known) if known and may_work else [],
            may_work=may_work,
            may_take=acting.is_trusted(visit.user, sync),
            masking=_masking(visit, sync, opened),
            **_working(visit, sync),
        )
    )


def _working(visit: Visit, sync: str) -> dict[str, Any]:
    """What the forms for work need beside the breaks."""
    return {
        "rules": reports.shown_rules(sync),
        "me": acting.name_of(visit.user),
        "all_states": list(WorkState),
        "nobody": selection.NOBODY,
        "people": access.users() if acting.may_work(visit.user, sync) else (),
    }


@dataclass(frozen=True, slots=True)
class History:
    """The newest comparisons that have found a break, the newest first. `standing`: where it stands among the dates."""

    zone: ZoneInfo
    sightings: tuple[Sighting, ...]
    standing: Mapping[str, Any]


def history(sync: str, break_id: str, opened: selection.Opened = reading.breaks) -> History | None:
    """None where no comparison of the sync has found it. `opened`: by what its values are read."""
    with opened(sync) as found:
        seen = found.history(sync, break_id)
        in_cuts = found.in_cuts(sync, break_id)
    if not seen:
        return None
    with reading.platform() as store:
        zone = ZoneInfo(store.timezone(sync))
        cuts = store.cut_states(sync, reports.DATES_PER_PAGE, detail=Detail.VERDICTS)
    return History(zone, seen, _standing(seen[0].destination, in_cuts, cuts) if in_cuts else {})


def _selected(asked: selection.Asked) -> tuple[Selection, ZoneInfo]:
    """All pages of the filter, up to a bound."""
    shown = selection.required(asked)
    listed, is_more = selection.some(shown, replace(asked.wanted, after=None), BREAKS_IN_A_FILE)
    is_cut = shown.found.scope is Scope.CUT
    breaks = [Listed(one.break_id, one.found, one.first_date if is_cut else one.first_at) for one in listed]
    return Selection(shown.found, asked.chosen, breaks, is_more, shown.altered), shown.zone


def _handed_out(user: Any, asked: selection.Asked, selected: Selection, content: bytes, kind: str) -> Response:
    found = selected.found
    day = found.business_date if found.scope is Scope.CUT else None
    return taken.handed_out(
        user,
        content,
        about=Subject(found.sync, found.destination, day, found.run_id, found.scope.value),
        file=f"breaks-{found.sync}-{day or 'live'}.{kind}",
        rows=len(selected.breaks),
        chosen=asked.chosen,
    )


def _standing(destination: str, found: InCuts, cuts: tuple[CutState, ...]) -> dict[str, Any]:
    """The first date of a cut that has it and the last one, the days between them, and the newest date that was
    compared in the same destination, where a cut has looked for it and has it no more."""
    compared = [one.business_date for one in cuts if one.found and one.destination == destination]
    return {
        "first": found.first,
        "last": found.last,
        "days": (found.last - found.first).days,
        "dates": found.dates,
        "gone_by": None if found.is_standing else max([*compared, found.last]),
    }
