"""The reports that the page hands out as files: what `./seamline report` writes, of what the page shows."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Form, HTTPException, Query, Response

from seamline import settings
from seamline.adapters.signing import SIGNATURE, signer_of
from seamline.domain.audit import FROM_PAGE, Subject
from seamline.domain.cut_state import CutState
from seamline.domain.errors import Refused
from seamline.domain.runs import Reconciliation
from seamline.domain.sign_off import SignOff
from seamline.platform import worked
from seamline.report import documents, lines
from seamline.report.blocks import Report
from seamline.report.contents import report_of
from seamline.report.files import to_pdf, to_xlsx
from seamline.report.worked import Worked
from seamline_airflow import parts
from seamline_airflow.page import access, acting, acts, reading, reports, reveal, taken
from seamline_airflow.page.selection import NAME

files = APIRouter()


@dataclass(frozen=True, slots=True)
class Exported:
    """What was asked for, and what there is of it: the newest take of each date and the comparisons of live tables; of
    one date all its takes. With `run` only what is of that run."""

    sync: str
    day: date | None
    run: str
    cuts: Sequence[CutState]
    live: Sequence[Reconciliation]

    @property
    def compared(self) -> list[Reconciliation]:
        return [*(one.found for one in self.cuts if one.found), *self.live]

    @property
    def rows(self) -> int:
        return sum(len(table.breaks) for found in self.compared for table in found.tables)


def exported(
    user: access.User, sync: Annotated[str, Query(pattern=NAME)], business_date: date | None = None, run: str = ""
) -> Exported:
    access.require(user, sync)
    if sync not in reports.syncs():
        raise HTTPException(status_code=404, detail="there is no such sync")
    return exported_of(sync, business_date, run)


def exported_of(sync: str, business_date: date | None, run: str) -> Exported:
    cuts: Sequence[CutState]
    live: Sequence[Reconciliation]
    if business_date:
        cuts, live = reports.takes(sync, business_date), ()
    elif run and (of_run := reports.live_of(sync, run)):
        # Also one that is not among the newest any more.
        cuts, live = (), of_run
    else:
        whole = reports.read_sync(sync, dates=reports.DATES_EXPORTED)
        cuts, live = whole.cuts, whole.live
    if run:
        cuts, live = [one for one in cuts if one.run_id == run], [one for one in live if one.run_id == run]
    return Exported(sync, business_date, run, cuts, live)


Wanted = Annotated[Exported, Depends(exported)]


@files.get("/export.json")
def export_json(user: taken.Taker, wanted: Wanted) -> Response:
    return _handed_out(user, wanted, "json", _json)


@files.get("/export.csv")
def export_csv(user: taken.Taker, wanted: Wanted) -> Response:
    return _handed_out(user, wanted, "csv", _csv)


@files.get("/export.xlsx")
def export_xlsx(user: taken.Taker, wanted: Wanted) -> Response:
    return _handed_out(user, wanted, "xlsx", lambda of: to_xlsx(report(of)))


@files.get("/export.pdf")
def export_pdf(user: taken.Taker, wanted: Wanted) -> Response:
    if not wanted.day and not wanted.run:
        raise HTTPException(status_code=422, detail="a PDF is of one business_date, or of one run")
    return _handed_out(user, wanted, "pdf", lambda of: to_pdf(report(of)))


@files.post("/evidence")
def evidence(
    user: acting.Trusted,
    sync: Annotated[str, Form(pattern=NAME)],
    business_date: Annotated[date, Form()],
    reason: reveal.Reason = "",
) -> Response:
    """The folder of `./seamline audit export` as a zip. An act and no link: it holds rows as they are stored, values of
    sensitive columns too."""
    return evidence_of(user, sync, business_date, reason)


def evidence_of(user: Any, sync: str, day: date, reason: str, *, origin: str = FROM_PAGE) -> Response:
    """404: no act is about the date. 422: it holds values that are masked elsewhere, and nobody has said why."""
    try:
        content = parts.evidence(sync, day)
    except Refused as error:
        raise HTTPException(status_code=404, detail=str(error)) from error
    about = Subject(sync, "", day)
    if reading.hidden(sync).is_any:
        reveal.enter(acts.actor(user, origin), about, reason, {"evidence": str(day)})
    stored = Exported(sync, day, "", reports.takes(sync, day), ())
    file = f"evidence-{sync}-{day}.zip"
    return taken.streamed(user, content, about=about, file=file, rows=stored.rows, origin=origin)


def _handed_out(user: access.User, wanted: Exported, kind: str, made: Callable[[Exported], bytes]) -> Response:
    return taken.handed_out(
        user,
        made(wanted),
        about=Subject(wanted.sync, "", wanted.day, wanted.run),
        # `sync` matched a name's pattern, so it cannot break out of the header.
        file=f"reconciliation-{wanted.sync}-{wanted.day or 'all'}.{kind}",
        rows=wanted.rows,
    )


def _csv(wanted: Exported) -> bytes:
    made = lines.to_csv(wanted.cuts, wanted.live, zone=_zone(wanted.sync), sign_offs=_sign_offs(wanted))
    return made.encode()


def _json(wanted: Exported) -> bytes:
    """With what the log of acts has of each verdict, with the head of the log, and signed where there is a key."""
    key = settings.load().signing_key
    signer = signer_of(key) if key else None
    compared = wanted.compared
    with parts.audit() as log:
        head, entries = log.head(), log.verdict_entries([one.run_id for one in compared])
    made = documents.to_json(
        wanted.cuts,
        wanted.live,
        levels=reports.levels_of(wanted.sync),
        worked=_worked(wanted),
        sign_offs=_sign_offs(wanted),
        zone=_zone(wanted.sync),
    )
    for one in made:
        entry = entries.get((one["run"], one["destination"], one["scope"]))
        one["log"] = documents.log_json(entry, head and (head.number, head.hash))
        one[SIGNATURE] = signer.signature(one) if signer else None
    return f"{json.dumps(made, indent=2, ensure_ascii=False)}\n".encode()


def _zone(sync: str) -> ZoneInfo:
    with reading.platform() as store:
        return ZoneInfo(store.timezone(sync))


def _sign_offs(wanted: Exported) -> Sequence[SignOff]:
    days = [one.business_date for one in wanted.cuts]
    with parts.signatures() as signatures:
        if wanted.day:
            return tuple(signatures.of_date(wanted.sync, wanted.day))
        return tuple(signatures.kept([wanted.sync], since=min(days, default=date.max)))


def report(wanted: Exported) -> Report:
    """The report about these; about one date it lists all its takes."""
    sync, day = wanted.sync, wanted.day
    takes = reports.takes(sync, day) if day else ()
    with reading.platform() as store:
        zone = ZoneInfo(store.timezone(sync))
        runs = {one.run_id for one in wanted.cuts} if day else ()
        guarantees: Mapping[str, str] = {run: store.run(run).plan.guarantee for run in runs}
    return report_of(
        sync,
        wanted.cuts,
        wanted.live,
        about=day,
        takes=takes,
        zone=zone,
        guarantees=guarantees,
        levels=reports.levels_of(sync),
        worked=_worked(wanted),
        sign_offs=_sign_offs(wanted),
    )


def _worked(wanted: Exported) -> Worked:
    """What people have done about the breaks of these."""
    bounds = reports.shown_rules(wanted.sync).ages
    with reading.platform() as store, parts.work() as work, parts.tolerances() as tolerances:
        # What is about a year of dates has no ages: they are of one date.
        aged = wanted.compared if wanted.day or wanted.run else []
        return worked.read(
            wanted.sync, wanted.compared, aged, bounds=bounds, store=store, work=work, tolerances=tolerances
        )
