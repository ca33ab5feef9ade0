"""What people do, once for a form of the page and for REST: the same checks, store and entry in the log of acts.

Each act is Refused, with what to do, where it is not possible; nothing is changed then. Whether the person may is asked
before, by `acting`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import HTTPException

from seamline import settings
from seamline.domain import late_input, tolerance
from seamline.domain.audit import FROM_PAGE
from seamline.domain.break_work import Doing, Order, assigned_to_one_of, checked
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.measure import Measure
from seamline.domain.person import is_same_person, one_line
from seamline.domain.repair import Repair, RootCause
from seamline.domain.runs import REASON, RunKind
from seamline.domain.sign_off import SignOrder
from seamline.plan.compile import compile_plan
from seamline.platform.breaks import Compared, Wanted
from seamline.platform.reconciliations import Detail
from seamline.platform.signatures import Take
from seamline.platform.work import Done
from seamline.spec.load import load_declarations
from seamline.spec.tolerances import declared_tolerances
from seamline.sync.dates_asked import DatesAsked
from seamline.sync.dates_asked import checked as checked_dates
from seamline_airflow import parts
from seamline_airflow.page import access, acting, dag_runs, overview, reading, reports, selection
from seamline_airflow.run_context import BUSINESS_DATE, NO_DATE
from seamline_airflow.stream_health import look


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, by name, and from where: as the log of acts keeps both."""

    who: str
    origin: str = FROM_PAGE


def actor(user: Any, origin: str = FROM_PAGE) -> Actor:
    return Actor(acting.name_of(user), origin)


# ---- breaks --------------------------------------------------------------------------------------------------------


def on_break(sync: str, break_id: str, order: Order) -> None:
    order = _checked(sync, order)
    with parts.work() as store:
        store.act(sync, break_id, order)


def on_all(sync: str, compared: Compared, wanted: Wanted, order: Order) -> Done:
    """On all breaks of a comparison that the filter lets pass. 404: the comparison is none of this sync; 403: a filter
    by masked keys."""
    with reading.platform() as store:
        found = store.reconciliations_of(sync, compared.run_id, detail=Detail.VERDICTS)
    if not any(one.destination == compared.destination for one in found):
        raise HTTPException(status_code=404, detail=f"nothing was compared of {sync} by this run there")
    selection.require_open(sync, wanted)
    order = _checked(sync, order)
    with parts.work() as opened:
        done: Done = opened.act_on_all(sync, compared, wanted, order)
    return done


def _checked(sync: str, order: Order) -> Order:
    """Refused, too: it assigns to somebody whom Airflow does not know, where it says whom it knows."""
    made = checked(order, reports.work_rules(sync).reasons)
    return assigned_to_one_of(made, access.users()) if made.doing is Doing.ASSIGN else made


# ---- tolerances ----------------------------------------------------------------------------------------------------


def summed(sync: str) -> list[tuple[str, str, str]]:
    """Destination, table and column of each sum that the newest run of the sync compares."""
    with reading.platform() as store:
        run = store.latest_run(sync, *RunKind)
    if run is None:
        return []
    totals = [one for one in run.plan.reconcile.control_totals if one.measure is Measure.SUM and one.column]
    places = ((to.name, one.table, one.column) for to in run.plan.destinations for one in totals)
    return list(dict.fromkeys(places))


def ask_tolerance(sync: str, place: Sequence[str], *, amount: str, until: date, why: str, by: Actor) -> int:
    """The number of the tolerance. `place`: destination, table and column; `amount`: as a person writes it."""
    known = next((one for one in summed(sync) if one == tuple(place)), None)
    if known is None:
        raise Refused("a tolerance is about a column that the sync sums as a control total")
    with reading.platform() as store:
        zone = ZoneInfo(store.timezone(sync))
    asked = tolerance.Asked(sync, *known, tolerance.amount_of(amount), until, why)
    asked = tolerance.checked(asked, today=datetime.now(zone).date())
    with parts.tolerances() as store:
        number: int = store.ask(asked, who=by.who, expires_at=tolerance.end_of(until, zone), origin=by.origin)
    return number


def approve_tolerance(sync: str, number: int, *, by: Actor) -> None:
    with parts.tolerances() as store:
        store.approve(sync, number, who=by.who, origin=by.origin)


def approve_declared_tolerance(sync: str, text: str, *, by: Actor) -> int:
    """How many breaks it tolerates at once. `text`: the hash of what the person has seen; the file must say the same
    now."""
    one = next((one for one in declared_tolerances(settings.load().declarations, sync) if one.hash == text), None)
    if one is None:
        raise Refused("the declaration has another text now", hint="load it again and read it")
    with reading.platform() as store:
        zone = ZoneInfo(store.timezone(sync))
    tolerance.checked(one.asked, today=datetime.now(zone).date())
    ends = tolerance.end_of(one.asked.until, zone)
    with parts.tolerances() as store:
        breaks: int = store.approve_declared(one, who=by.who, expires_at=ends, origin=by.origin)
    return breaks


def end_tolerance(sync: str, number: int, *, by: Actor) -> None:
    with parts.tolerances() as store:
        store.end(sync, number, who=by.who, origin=by.origin)


# ---- signatures ----------------------------------------------------------------------------------------------------


def sign(take: Take, *, verdict_hash: str, reason: str, by: Actor) -> None:
    """`verdict_hash`: of the verdict that the person has seen."""
    with parts.signatures() as store:
        store.sign(take, replace(_order(take.sync, reason, by), verdict_hash=verdict_hash))


def sign_clean(sync: str, takes: Mapping[Take, str], *, reason: str, by: Actor) -> None:
    """All of these, each by the hash of the verdict that the person has seen, or none of them."""
    with parts.signatures() as store:
        store.sign_clean(takes, _order(sync, reason, by))


def sign_left_out(sync: str, takes: Mapping[Take, str], *, reason: str, by: Actor) -> None:
    """The same of dates that the log has left transactions out of, with one reason."""
    with parts.signatures() as store:
        store.sign_left_out(takes, _order(sync, reason, by))


def reopen(take: Take, *, reason: str, by: Actor) -> None:
    with parts.signatures() as store:
        store.reopen(take, who=by.who, reason=one_line(reason), origin=by.origin)


def acknowledge_source(sync: str, source: str, since: datetime, *, until: datetime, reason: str, by: Actor) -> None:
    """That a source is away since then, and by when it is to be back. Refused: it is not, by no alarm that is open."""
    now = datetime.now(UTC)
    if not any((one.source, one.since) == (source, since) for one in overview.away([sync])):
        raise Refused(f"{source} is not away since {since.isoformat()}", hint="load the overview again")
    until = late_input.checked_until(until, now)
    with parts.late_inputs() as store:
        absence = (sync, source, since)
        store.acknowledge_source(absence, who=by.who, reason=one_line(reason), until=until, origin=by.origin)


def restate(sync: str, day: date, *, reason: str, by: Actor) -> str:
    """Let the nightly DAG take a signed date again; the name of its run. What was signed stays signed, and the new
    version waits for a signature."""
    why = one_line(reason)
    with parts.signatures() as store:
        store.require_restatable(sync, day, why)
        run = dag_runs.start(f"{sync}__nightly", by=by.who, conf={BUSINESS_DATE: day.isoformat(), REASON: why})
        store.enter_restatement(sync, day, who=by.who, reason=why, run=run, origin=by.origin)
    return run


def _order(sync: str, reason: str, by: Actor) -> SignOrder:
    return SignOrder(by.who, one_line(reason), "", reports.reason_required(sync), by.origin)


def acknowledge(sync: str, day: date, *, reason: str, by: Actor) -> None:
    """That the verdict of the date is late; it stays late until it is there."""
    with parts.late_inputs() as store:
        store.acknowledge(sync, day, who=by.who, reason=one_line(reason), origin=by.origin)


# ---- streams -------------------------------------------------------------------------------------------------------


def pause_stream(stream: StreamId, *, reason: str, by: Actor) -> None:
    """At its next END, until it is let go. Needs a reason: whoever looks in the morning sees it beside the lag."""
    why = one_line(reason)
    if not why:
        raise HTTPException(status_code=422, detail="say why the stream is to stand still")
    with parts.director() as director:
        director.pause(stream, by=by.who, reason=why, origin=by.origin)


def resume_stream(stream: StreamId, *, by: Actor) -> None:
    with parts.director() as director:
        director.resume(stream, by=by.who, origin=by.origin)


def restart_stream(stream: StreamId, *, by: Actor) -> None:
    """Want a stream again that has ended. Refused where another attempt cannot help, with what does; and of one that
    has not ended, or that nobody wants: a click on a page that was loaded long ago must not touch one that runs."""
    state = look(stream.sync).states.get(stream)
    if state is None or state.is_unwanted or not state.has_ended:
        raise Refused(
            f"the stream {stream} has not ended" if state else f"the stream {stream} was never wanted",
            hint="load the page again: it says what the stream does",
        )
    if not state.may_restart:
        raise Refused(f"to restart {stream} does not help: {state.why}")
    with parts.director() as director:
        director.restart(stream, by=by.who, origin=by.origin)


def load_again(stream: StreamId, *, reason: str, by: Actor) -> str:
    """Start the DAG `<sync>__onboard`, which reads all tables into this destination again; the name of its run. The
    tables stay as they are until the new ones are complete."""
    why = one_line(reason)
    if not why:
        raise Refused("tables are loaded again with a reason", hint="say in words why they are read again")
    there = reports.onboarded_of(stream.sync)
    if stream.destination not in there:
        raise Refused(f"{stream.sync} has no stream into {stream.destination}", hint="load the page again")
    # With one destination the form has no such field: all is that one.
    conf = {"destinations": [stream.destination]} if len(there) > 1 else {}
    note = f"{stream} is loaded again, started by {by.who} ({by.origin}): {why}"
    return dag_runs.start(f"{stream.sync}__onboard", by=by.who, conf=conf, note=note)


# ---- repairs -------------------------------------------------------------------------------------------------------


def repair_of(sync: str, run_id: str) -> Repair:
    """404 for one that there is none of, or of another sync."""
    try:
        with parts.repairs() as store:
            found: Repair = store.repair(run_id)
    except Refused:
        found = None  # type: ignore[assignment]
    if found is None or found.sync != sync:
        raise HTTPException(status_code=404, detail="there is no such repair")
    return found


def start_repair(
    sync: str, *, destination: str = "", compared: str = "", named: str = "", reason: str, by: Actor
) -> str:
    """Start the DAG `<sync>__repair`; the id of its repair. `compared`: the comparison that has found the rows, "": the
    newest; `named`: a repair that is planned already, whose approval the run waits for and which it then applies."""
    why = one_line(reason)
    if not why:
        raise Refused("a repair needs a reason", hint="say in words why these rows are to be changed")
    conf = {"destination": destination, "compared": compared, "repair": named, "reason": why}
    run = dag_runs.start(f"{sync}__repair", by=by.who, conf=conf)
    return named or f"{repairs_of(sync)}{run}"


def repairs_of(sync: str) -> str:
    """How the ids of repairs begin that runs of the sync's DAG have planned; the name of the run follows."""
    return f"{sync}/{RunKind.REPAIR.value}/{NO_DATE}/"


def has_planned(found: Repair, who: str) -> bool:
    return is_same_person(found.planned_by, who)


def approve_repair(found: Repair, *, cause: RootCause, reason: str, by: Actor) -> None:
    if has_planned(found, by.who):
        raise Refused(f"{found.planned_by} has planned it, so another person approves it")
    with parts.repairs() as store:
        store.approve(found.run_id, by=by.who, cause=cause, reason=reason, origin=by.origin)


# ---- cuts ----------------------------------------------------------------------------------------------------------


def make_cuts(sync: str, asked: DatesAsked, *, by: Actor) -> str:
    """Start the run of one date, or a backfill of several; what was started, in words. All is checked before."""
    if not one_line(asked.reason):
        raise Refused("cuts are made with a reason", hint="say in words why these dates are made")
    plan = compile_plan(load_declarations(settings.load().declarations), sync)
    asked = checked_dates(plan, asked, now=datetime.now(UTC))
    dag_id, who = f"{sync}__nightly", f"started by {by.who} ({by.origin}): {one_line(asked.reason)}"
    if asked.is_one:
        conf = replace(asked, again=True).params()
        return dag_runs.start_date(dag_id, asked.first, by=by.who, conf=conf, note=who)
    number = dag_runs.start_backfill(dag_id, asked, by=by.who, note=f"backfill {who}")
    return f"backfill {number}"


_ORDERED = {
    dag_runs.BackfillOrder.PAUSE: "paused",
    dag_runs.BackfillOrder.CONTINUE: "continued",
    dag_runs.BackfillOrder.CANCEL: "cancelled",
}


def order_backfill(sync: str, number: int, order: dag_runs.BackfillOrder, *, reason: str, by: Actor) -> None:
    why = one_line(reason)
    if not why:
        raise Refused("it needs a reason", hint="say in words why")
    note = f"backfill {number} {_ORDERED[order]} by {by.who} ({by.origin}): {why}"
    dag_runs.order_backfill(f"{sync}__nightly", number, order, note=note)
