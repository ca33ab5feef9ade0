"""The Reconciliation page inside Airflow's UI: verdict first, then the numbers, then the detail.

Nothing here runs a script or loads anything: a page within Airflow's origin could otherwise hand a signed-in user's
token to whoever wrote a hostile value into a table.
"""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from functools import partial
from typing import Annotated
from urllib.parse import unquote, urlencode

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exception_handlers import http_exception_handler, request_validation_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse
from pydantic import AwareDatetime

from seamline.domain.errors import Refused, SeamlineError
from seamline.domain.phrase import phrase
from seamline.plan.stages import DAG_KINDS
from seamline.platform.reconciliations import Detail
from seamline.report.files import prepare
from seamline_airflow.page import (
    access,
    acting,
    attachment_pages,
    break_pages,
    cut_pages,
    date_report,
    declaration_pages,
    exports,
    language,
    late_pages,
    over_dates,
    overview,
    reading,
    repair_pages,
    reports,
    rest,
    reveal,
    selection,
    sign_pages,
    stream_pages,
    taken,
    tolerance_pages,
    work_pages,
)
from seamline_airflow.page.rendering import Visit, airflow_of, page_of, render, text_of, visit_of

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer` a browser would send the page's own forms with the origin "null".
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

# As Airflow names runs.
AirflowRun = Annotated[str, Query(pattern=r"^[A-Za-z0-9_.~:+-]{0,250}$")]
OptionalSync = Annotated[str, Query(pattern=rf"{selection.NAME}|^$")]

# No interactive documentation: it would load scripts from elsewhere, and every route must be one of those below.
app = FastAPI(title="Seamline", dependencies=access.SIGNED_IN, docs_url=None, redoc_url=None, openapi_url=None)
app.include_router(break_pages.pages)
app.include_router(cut_pages.pages)
app.include_router(exports.files)
app.include_router(language.choice)
app.include_router(work_pages.pages)
app.include_router(attachment_pages.pages)
app.include_router(tolerance_pages.pages)
app.include_router(repair_pages.pages)
app.include_router(rest.api)
app.include_router(sign_pages.pages)
app.include_router(late_pages.pages)
app.include_router(declaration_pages.pages)
app.include_router(stream_pages.orders)
app.include_router(reveal.reveals)


@app.middleware("http")
async def _guarded(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    # No text of the platform database holds one, so an address with one is wrong and no fault of the database.
    if "\0" in unquote(request.url.query):
        response: Response = PlainTextResponse("an address holds no NUL", status_code=400)
    else:
        response = attachment_pages.body_refused(request) or await call_next(request)
    for name, value in _HEADERS.items():
        response.headers[name] = value
    return response


@app.exception_handler(SeamlineError)
def _error_answer(request: Request, error: SeamlineError) -> Response:
    """The platform database is away or not migrated, or an act by REST is not possible: say so, with the cure."""
    if _is_rest(request):
        said = {"detail": error.message} | ({"hint": error.hint} if error.hint else {})
        return JSONResponse(said, status_code=409 if isinstance(error, Refused) else 503)
    return HTMLResponse(
        page_of("trouble.html", language=language.language_of(request), message=str(error)), status_code=503
    )


@app.exception_handler(taken.AskedElsewhere)
def _not_in_their_name(request: Request, error: taken.AskedElsewhere) -> Response:
    return HTMLResponse(
        page_of("elsewhere.html", language=language.language_of(request), here=error.here), status_code=403
    )


@app.exception_handler(401)
async def _sign_in(request: Request, error: HTTPException) -> Response:
    """A person is led to Airflow's login, and from there back; a program gets the error."""
    if request.method != "GET" or not _is_person(request):
        return await http_exception_handler(request, error)
    query = f"?{request.url.query}" if request.url.query else ""
    asked = f"{request.scope['root_path']}/{request.url.path.rpartition('/')[2]}{query}"
    return RedirectResponse(f"{airflow_of(request)}/api/v2/auth/login?{urlencode({'next': asked})}")


@app.exception_handler(HTTPException)
async def _denied(request: Request, error: HTTPException) -> Response:
    """A person reads why, and comes back to the page of the form; a program gets the error."""
    if not _is_person(request):
        return await http_exception_handler(request, error)
    return _not_done(request, str(error.detail), error.status_code)


@app.exception_handler(RequestValidationError)
async def _not_understood(request: Request, error: RequestValidationError) -> Response:
    if not _is_person(request):
        return await request_validation_exception_handler(request, error)
    fields = dict.fromkeys(str(one["loc"][1] if len(one["loc"]) > 1 else one["loc"][0]) for one in error.errors())
    what = phrase("these fields are empty, or are not understood: %(fields)s", fields=", ".join(fields))
    return _not_done(request, what, 422)


def _not_done(request: Request, what: str, status: int) -> Response:
    answer = page_of(
        "denied.html", language=language.language_of(request), said=what, here=language.here_before(request)
    )
    return HTMLResponse(answer, status_code=status)


def _is_person(request: Request) -> bool:
    return not _is_rest(request) and "text/html" in request.headers.get("accept", "")


def _is_rest(request: Request) -> bool:
    return request.url.path.removeprefix(str(request.scope["root_path"])).startswith(rest.api.prefix)


@app.get("/page", response_class=HTMLResponse, response_model=None)
def page(
    visit: Annotated[Visit, Depends(visit_of)],
    afterwards: BackgroundTasks,
    sync: OptionalSync = "",
    business_date: date | None = None,
    run: str = "",
    before: date | None = None,
    compared_before: AwareDatetime | None = None,
    dag_id: str = "",
    run_id: str = "",
    asked: AirflowRun = "",
) -> str | HTMLResponse:
    """All syncs by their dates; with `sync` that one, with `business_date` the newest take of a date, with `run` that
    very run; with `dag_id` and `run_id` what one Airflow run left, with `dag_id` alone its sync. `before` pages back
    through the dates, `compared_before` through the comparisons of the live tables; what stands above them is the sync
    as of now."""
    if dag_id:
        sync, _, kind = dag_id.rpartition("__")
        if not re.match(selection.NAME, sync) or kind not in DAG_KINDS:
            return render("no_sync.html", visit, what=phrase("%(dag)s is not a DAG of a sync.", dag=dag_id))
        if run_id:
            return _run_page(visit, sync, run_id)
    if not sync:
        visible = [name for name in reports.syncs() if access.may_see(visit.user, name)]
        seen = overview.read(visible, before=before, now=datetime.now(UTC), who=acting.name_of(visit.user))
        may = {name: sign_pages.rights(visit.user, name) for name in seen.with_acts}
        gone = () if before else reports.undeclared()
        gone = [one for one in gone if access.may_see(visit.user, one.stream.sync)]
        return render("overview.html", visit, before=before, seen=seen, may=may, lags=reports.lags(), gone=gone)
    access.require(visit.user, sync)
    if business_date:
        # Its PDF stands one click away.
        afterwards.add_task(prepare)
        return _date_page(visit, sync, business_date, run, asked)
    report = reports.read_sync(sync, dates=reports.DATES_PER_PAGE, detail=Detail.VERDICTS)
    if report.is_unknown:
        return HTMLResponse(
            render("no_sync.html", visit, what=phrase("There is no sync %(sync)s.", sync=sync)), status_code=404
        )
    if run:
        may_plan = partial(break_pages.may_plan, visit)
        shown = date_report.live_of(sync, run)
        return render("live.html", visit, report=report, run=run, shown=shown, may_plan=may_plan)
    cuts = reports.cuts_before(sync, before) if before else report.cuts
    now = datetime.now(UTC)
    return render(
        "sync.html",
        visit,
        report=report,
        before=before,
        compared_before=compared_before,
        cuts=cuts,
        drawn={name: pictures for name in report.destinations if (pictures := over_dates.drawn(sync, name, cuts))},
        lags=reports.lags(sync),
        lag_charts=reports.lag_charts(report, now),
        live=reports.live_before(sync, compared_before) if compared_before else report.live,
        missing=reports.missing(report, now),
        next_night=reports.next_night_in_words(sync, now),
        now=now,
        may_work=acting.may_work(visit.user, sync),
        may_load=acting.may_load(visit.user, sync),
    )


@app.get("/style.css")
def style() -> Response:
    return Response(text_of("style.css"), media_type="text/css")


def _date_page(visit: Visit, sync: str, day: date, run: str, asked: str) -> str:
    """`asked`: the run that a person has just started for it, which nothing is known of yet."""
    seen = date_report.of_date(sync, day, run)
    may = sign_pages.rights(visit.user, sync) if seen.sign_offs else None
    is_trusted, is_hidden = acting.is_trusted(visit.user, sync), reading.hidden(sync).is_any
    awaited = f"{sync}/nightly/{day}/{asked}" if asked else ""
    return render("date.html", visit, seen=seen, may=may, is_trusted=is_trusted, is_hidden=is_hidden, awaited=awaited)


def _run_page(visit: Visit, sync: str, run_id: str) -> str:
    access.require(visit.user, sync)
    return render("run.html", visit, sync=sync, run_id=run_id, left=date_report.of_run(sync, run_id))
