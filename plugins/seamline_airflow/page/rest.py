"""Everything that the page shows, as JSON: the same values, for whoever may see the page and the sync. What people do
there is in `rest_acts.py` and `rest_reveals.py`."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response
from fastapi import Path as PathText
from fastapi.openapi.utils import get_openapi
from pydantic import AwareDatetime

from seamline.domain.cut_state import CutState, of_live
from seamline.domain.runs import Reconciliation
from seamline.platform.reconciliations import Detail
from seamline.report import documents
from seamline.sync.stream_state import log_kept_document
from seamline_airflow import parts
from seamline_airflow.page import (
    access,
    date_report,
    overview,
    reports,
    rest_acts,
    rest_breaks,
    rest_declarations,
    rest_files,
    rest_reveals,
    selection,
)
from seamline_airflow.page import rest_answers as answers
from seamline_airflow.page.date_report import Report
from seamline_airflow.page.mount import URL_PREFIX
from seamline_airflow.page.rest_rights import SyncName
from seamline_airflow.page.rest_stream_answers import LogKept, Stream

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": answers.Problem, "description": why}
    for status, why in (
        (401, "nobody has signed in"),
        (403, "the user may not see the sync, or not do this to it"),
        (404, "there is no such thing"),
        (503, "the platform database does not answer"),
    )
}
_ABOUT = """What the Reconciliation page shows, and what people do there, for programs. Sign in as for Airflow's own
REST: `Authorization: Bearer` with a token of `/auth/token`; for reading the cookie of the page does too. Values of
`sensitive:` columns are masked, and shown by an act of their own that is entered first."""

api = APIRouter(prefix="/api/v1", responses=_PROBLEMS)
api.include_router(rest_acts.api)
api.include_router(rest_reveals.api)
api.include_router(rest_declarations.api)
api.include_router(rest_files.api)


@api.get("/overview")
def get_overview(user: access.User, before: date | None = None) -> answers.Overview:
    """All syncs by their newest business dates; with `before` the dates before it."""
    seen = overview.read(_syncs(user), before=before, now=datetime.now(UTC))
    return answers.Overview(
        dates=list(seen.dates),
        rows=[_row(one, seen.dates) for one in seen.rows],
        waiting=[_waiting(one) for one in seen.questions],
        awaited=[answers.Awaited.model_validate(one) for one in seen.awaited],
        away=[answers.Away.model_validate(one) for one in seen.away],
        unreadable=[answers.Unreadable.model_validate(one) for one in seen.unreadable],
    )


@api.get("/syncs")
def get_syncs(user: access.User) -> list[answers.SyncInList]:
    """The syncs that the user may see."""
    seen = overview.read(_syncs(user), before=None, now=datetime.now(UTC))
    unreadable = [
        answers.SyncInList(sync=one.sync, verdict=overview.UNREADABLE, state=one.why, timezone="", destinations=[])
        for one in seen.unreadable
    ]
    return [*(answers.SyncInList(**_sync(one.report)) for one in seen.rows), *unreadable]


@api.get("/syncs/{sync}")
def get_sync(sync: SyncName) -> answers.Sync:
    """One sync as of now, with its streams."""
    report = _known(sync)
    return answers.Sync(
        **_sync(report),
        streams=[
            Stream(
                stream=str(one.stream),
                state=one.word.value,
                is_well=one.is_green,
                since=one.since,
                lag_s=one.lag_s,
                records_behind=one.records_behind,
                findings=report.findings.get(one.stream, 0),
                why=one.why,
                may_restart=one.may_restart,
                log_kept=LogKept.model_validate(kept) if (kept := log_kept_document(one)) else None,
            )
            for one in report.streams
        ],
        notes=[answers.Note.model_validate(one) for one in report.notes],
        alarms=list(report.alarms),
    )


@api.get("/syncs/{sync}/dates")
def get_dates(sync: SyncName, before: date | None = None) -> list[answers.Cut]:
    """Of each of the newest 31 business dates (before `before`) the newest take, without its control totals."""
    found = reports.cuts_before(sync, before) if before else _known(sync).cuts
    return _cuts(found)


@api.get("/syncs/{sync}/dates/{business_date}")
def get_date(sync: SyncName, business_date: date, run: str = "") -> answers.DateReport:
    """The report of a date: its newest take, or that of `run`."""
    seen = date_report.of_date(sync, business_date, run)
    return answers.DateReport(
        sync=sync,
        business_date=business_date,
        timezone=str(seen.zone),
        chosen=seen.chosen,
        takes=_cuts(seen.takes),
        shown=[_take(one) for one in seen.shown],
        caused=_comparisons(sync, seen.caused),
    )


@api.get("/syncs/{sync}/missing")
def get_missing(sync: SyncName) -> list[answers.Missing]:
    """The business dates since the first cut that have no published one, each with why and what to do; the newest 100
    of all destinations."""
    now = datetime.now(UTC)
    return [
        answers.Missing.model_validate({**dataclasses.asdict(one), "is_late": one.is_late(now)})
        for one in reports.missing(_known(sync), now)
    ]


@api.get("/syncs/{sync}/cuts")
def get_cuts(sync: SyncName) -> list[answers.KeptCut]:
    """The published cuts that are kept, the newest date first, each with until when it stays."""
    return [
        answers.KeptCut(
            destination=one.cut.destination,
            business_date=one.cut.business_date,
            version=one.cut.version,
            verdict=one.shown,
            partial=one.cut.partial,
            mode=one.mode,
            rows=one.rows,
            position=str(one.cut.position),
            as_of=one.cut.as_of,
            run=one.cut.run_id,
            kept=kept,
        )
        for one, kept in reports.kept_cuts(_known(sync).sync)
    ]


@api.get("/syncs/{sync}/comparisons")
def get_comparisons(sync: SyncName, before: AwareDatetime | None = None) -> list[answers.Comparison]:
    """The newest comparisons of the live tables (before `before`), without their control totals."""
    found = reports.live_before(sync, before) if before else _known(sync).live
    return _comparisons(sync, found)


@api.get("/syncs/{sync}/comparison")
def get_comparison(sync: SyncName, run: str) -> list[answers.LiveReport]:
    """The comparisons of the live tables that one run made, each in its destination."""
    return [_live_report(one) for one in date_report.live_of(sync, run)]


@api.get("/syncs/{sync}/airflow_run")
def get_airflow_run(sync: SyncName, run_id: str) -> answers.RunReport:
    """What one run of Airflow left; `run_id` is Airflow's."""
    left = date_report.of_run(sync, run_id)
    return answers.RunReport(
        cuts=[_take(one) for one in left.cuts],
        live=[_live_report(one) for one in left.live],
        failures=[answers.Failure(**{"at": None, "cure": "", **one}) for one in left.failures],
        kept=[one.why for one in left.kept.values()],
    )


@api.get("/syncs/{sync}/breaks")
def get_breaks(
    sync: SyncName, choice: selection.Choice, limit: Annotated[int, Query(ge=1, le=rest_breaks.BREAKS_MAX)] = 50
) -> answers.Breaks:
    """Breaks of one comparison: that of `run` in `destination`, or of the newest take of `business_date`."""
    return rest_breaks.breaks(selection.of_sync(choice, sync), limit)


@api.get("/syncs/{sync}/breaks/{break_id}")
def get_break(sync: SyncName, break_id: Annotated[str, PathText(pattern=selection.BREAK_ID)]) -> answers.History:
    """One break over all dates."""
    return rest_breaks.history(sync, break_id)


@api.get("/audit/head")
def get_audit_head(user: access.User) -> answers.Head:
    """The newest entry of the log of acts, as an anchor would name it."""
    with parts.audit() as log:
        head = log.head()
    if head is None:
        raise HTTPException(status_code=404, detail="the log of acts is empty")
    return answers.Head.model_validate(head)


@api.get("/openapi.json", include_in_schema=False)
def get_openapi_json(user: access.User) -> Response:
    """This description."""
    return Response(description(), media_type="application/json")


def description() -> str:
    """The OpenAPI description of these routes, as it is committed."""
    made = get_openapi(
        title="Seamline: reconciliation",
        version="1",
        description=" ".join(_ABOUT.split()),
        routes=api.routes,
        servers=[{"url": URL_PREFIX, "description": "below the address of Airflow"}],
    )
    return json.dumps(made, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _syncs(user: Any) -> list[str]:
    return [name for name in reports.syncs() if access.may_see(user, name)]


def _known(sync: str) -> reports.SyncReport:
    report = reports.read_sync(sync, dates=reports.DATES_PER_PAGE, detail=Detail.VERDICTS)
    if report.is_unknown:
        raise HTTPException(status_code=404, detail=f"there is no sync {sync}")
    return report


def _sync(report: reports.SyncReport) -> dict[str, Any]:
    return {
        "sync": report.sync,
        "verdict": report.headline,
        "state": report.state,
        "timezone": str(report.zone),
        "destinations": [{"name": name, "level": report.levels.get(name)} for name in report.destinations],
    }


def _cuts(found: Sequence[CutState]) -> list[answers.Cut]:
    levels = reports.levels_of(found[0].sync) if found else {}
    return [answers.Cut.model_validate(one) for one in documents.to_json(found, (), levels=levels)]


def _comparisons(sync: str, found: Sequence[Reconciliation]) -> list[answers.Comparison]:
    made = documents.to_json((), found, levels=reports.levels_of(sync))
    return [answers.Comparison.model_validate(one) for one in made]


def _take(take: date_report.Take) -> answers.Take:
    (cut,) = _cuts([take.state])
    return answers.Take(
        cut=cut,
        found=_found(take.report) if take.report else None,
        before=take.since.before.run_id if take.since else None,
        breaks_new=take.since.breaks.new if take.since else None,
        breaks_gone=take.since.breaks.gone if take.since else None,
    )


def _live_report(report: Report) -> answers.LiveReport:
    (comparison,) = _comparisons(report.found.sync, [report.found])
    return answers.LiveReport(comparison=comparison, found=_found(report))


def _found(report: Report) -> answers.Found:
    return answers.Found(
        exposure=[
            answers.Exposure(
                column=column,
                group=list(one.group),
                unequal=one.unequal,
                rows=one.rows,
                net=one.net,
                absolute=one.absolute,
            )
            for column, one in report.exposure
        ],
        counts=[answers.Count.model_validate(one) for one in report.counts],
        amounts=[answers.KindAmount.model_validate(one) for one in report.amounts],
        not_listed=report.not_listed,
    )


def _row(row: overview.Row, dates: Sequence[date]) -> answers.Row:
    return answers.Row(
        sync=row.report.sync,
        verdict=row.report.headline,
        live_verdict=of_live(row.live) if row.live else None,
        cells=[
            answers.Cell(
                business_date=day,
                verdict=cell.word,
                breaks=cell.breaks,
                partial=cell.is_partial,
                waits=cell.is_waiting,
            )
            for day, cell in zip(dates, row.cells, strict=True)
            if cell
        ],
    )


def _waiting(state: CutState) -> answers.Waiting:
    return answers.Waiting(
        sync=state.sync,
        destination=state.destination,
        business_date=state.business_date,
        run=state.run_id,
        since=state.decision.since if state.decision else "",
        approvers=list(state.decision.approvers) if state.decision else [],
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(description(), encoding="utf-8")
