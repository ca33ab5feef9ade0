"""The Reconciliation page inside Airflow's UI: verdict first, then the numbers, then the detail.

Nothing here runs a script or loads anything: a page within Airflow's origin could otherwise hand a signed-in user's
token to whoever wrote a hostile value into a table.
"""

import re
from collections.abc import Awaitable, Callable
from datetime import date
from decimal import Decimal
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from seamline.domain.date_before import late_in_words
from seamline.domain.errors import SeamlineError
from seamline.domain.runs import Reconciliation
from seamline.plan.stages import DAG_KINDS
from seamline_airflow.page import access, reports

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_NAME = r"^[A-Za-z_][A-Za-z0-9_-]{0,127}$"

SyncName = Annotated[str, Query(pattern=_NAME)]
OptionalSync = Annotated[str, Query(pattern=rf"{_NAME}|^$")]

# No interactive documentation: it would load scripts from elsewhere, and every route must be one of those below.
app = FastAPI(title="Seamline", dependencies=access.SIGNED_IN, docs_url=None, redoc_url=None, openapi_url=None)
_pages = Environment(
    loader=PackageLoader("seamline_airflow.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)


def _grouped(value: int | Decimal | None) -> str:
    return "–" if value is None else f"{value:,}"


def _moment(value: Any) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if value else "–"


_pages.filters.update(
    grouped=_grouped, moment=_moment, overall=reports.overall, in_order=reports.tables_in_order, late=late_in_words
)
_pages.globals.update(breaks_max=reports.BREAKS_MAX)


@app.middleware("http")
async def _guarded(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    for name, value in _HEADERS.items():
        response.headers[name] = value
    return response


@app.exception_handler(SeamlineError)
def _told(request: Request, error: SeamlineError) -> Response:
    """The platform database is away or not migrated: say so, with the cure."""
    return HTMLResponse(_pages.get_template("trouble.html").render(message=str(error)), status_code=503)


@app.get("/page", response_class=HTMLResponse)
def page(
    user: access.User,
    sync: OptionalSync = "",
    business_date: date | None = None,
    dag_id: str = "",
    run_id: str = "",
) -> str:
    """All syncs; with `sync` its reports; with `dag_id` and `run_id` those of one Airflow run."""
    if dag_id:
        return _run_page(user, dag_id, run_id)
    if not sync:
        visible = [name for name in reports.syncs() if access.may_see(user, name)]
        return _render("overview.html", user, syncs=[reports.read_sync(name) for name in visible])
    access.require(user, sync)
    report = reports.read_sync(sync)
    shown = reports.of_date(report, business_date) if business_date else report.reports
    return _render("sync.html", user, report=report, shown=shown, business_date=business_date)


@app.get("/style.css")
def style() -> Response:
    source, _, _ = _pages.loader.get_source(_pages, "style.css")  # type: ignore[union-attr]
    return Response(source, media_type="text/css")


@app.get("/export.json")
def export_json(user: access.User, sync: SyncName, business_date: date | None = None) -> JSONResponse:
    found = _exported(user, sync, business_date)
    return JSONResponse(reports.to_json(found), headers=_as_file(sync, business_date, "json"))


@app.get("/export.csv")
def export_csv(user: access.User, sync: SyncName, business_date: date | None = None) -> PlainTextResponse:
    found = _exported(user, sync, business_date)
    return PlainTextResponse(reports.to_csv(found), media_type="text/csv", headers=_as_file(sync, business_date, "csv"))


def _run_page(user: Any, dag_id: str, run_id: str) -> str:
    sync, _, kind = dag_id.rpartition("__")
    if not re.match(_NAME, sync) or kind not in DAG_KINDS:
        return _render("no_sync.html", user, dag_id=dag_id)
    access.require(user, sync)
    return _render("run.html", user, sync=sync, run_id=run_id, shown=reports.of_run(sync, run_id))


def _exported(user: Any, sync: str, business_date: date | None) -> tuple[Reconciliation, ...]:
    access.require(user, sync)
    if sync not in reports.syncs():
        raise HTTPException(status_code=404, detail="there is no such sync")
    report = reports.read_sync(sync)
    return reports.of_date(report, business_date) if business_date else report.reports


def _as_file(sync: str, business_date: date | None, kind: str) -> dict[str, str]:
    # `sync` matched a name's pattern, so it cannot break out of the header.
    name = f"reconciliation-{sync}-{business_date or 'all'}.{kind}"
    return {"Content-Disposition": f'attachment; filename="{name}"'}


def _render(template: str, user: Any, **values: Any) -> str:
    return _pages.get_template(template).render(user=user.get_name(), **values)
