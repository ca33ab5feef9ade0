"""Make the cuts of a range of business dates, by a backfill of Airflow, and follow it to its end.

Dates that are done, whose newest version is a MATCH, are kept unless --again. The backfill lives in Airflow: when this
command is stopped it goes on, and the same command follows it again. docs/how-to/backfill.md
"""

import argparse
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta

from seamline import registry
from seamline.adapters.airflow_rest import FINISHED, AirflowRest, Backfill, DagRun
from seamline.cli import in_airflow
from seamline.cli.answer import give, say
from seamline.cli.in_airflow import note_of
from seamline.domain.backfill import DateRun, Exit, Progress, by_date, with_cuts
from seamline.domain.errors import Refused, TransientError
from seamline.plan.model import SyncPlan
from seamline.platform.reconciliations import Detail
from seamline.platform.store import PlatformStore
from seamline.sync.dates_asked import AT_ONCE, DatesAsked, DateTaken, checked

LOOK_EVERY_S = 3.0
# Airflow's scheduler looks every 30 s.
CLOSED_WITHIN_S = 180.0
_ORDERS = {"pause": ("pause", "Paused"), "go_on": ("unpause", "Continued"), "cancel": ("cancel", "Cancelled")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync")
    parser.add_argument("first", nargs="?", default="", metavar="from", help="the first business date, as 2026-10-01")
    parser.add_argument("last", nargs="?", default="", metavar="to", help="the last one; left out: only the first")
    parser.add_argument("--newest-first", action="store_true", help="left out: the oldest first")
    parser.add_argument(
        "--at-once", type=int, default=AT_ONCE, metavar="N", help=f"dates side by side (default {AT_ONCE})"
    )
    parser.add_argument("--again", action="store_true", help="also dates that are done: their next version")
    in_airflow.add_what(parser)
    order = parser.add_mutually_exclusive_group()
    order.add_argument("--pause", action="store_true", help="start no more dates of the one that goes on")
    order.add_argument("--continue", dest="go_on", action="store_true", help="go on with the one that is paused")
    order.add_argument("--cancel", action="store_true", help="give up the dates that have not begun")
    in_airflow.add_common(parser)


def run(args: argparse.Namespace) -> int:
    return in_airflow.with_exit_code(args, _run)


def _run(args: argparse.Namespace) -> Exit:
    plan = in_airflow.plan_of(args.sync)
    chosen = next((name for name in _ORDERS if getattr(args, name)), "")
    with in_airflow.airflow() as api, closing(registry.platform()) as store:
        if chosen:
            return _ordered(args, api, plan, chosen)
        made = _started(args, api, plan) if args.first else _newest(api, plan)
        give(args, {"sync": plan.sync, "backfill": made.number})
        return Exit.PROVEN if args.detach else _followed(args, api, store, plan, made)


def _asked(args: argparse.Namespace, plan: SyncPlan) -> DatesAsked:
    """Refused before a run exists."""
    first = in_airflow.day_of(args.first)
    last = in_airflow.day_of(args.last) if args.last else first
    how = {"again": args.again, "newest_first": args.newest_first, "at_once": args.at_once}
    return checked(plan, in_airflow.asked_of(args, first, last, **how), now=datetime.now(UTC))


def _started(args: argparse.Namespace, api: AirflowRest, plan: SyncPlan) -> Backfill:
    """One that goes on over the same dates is taken up: a command that was stopped is given again."""
    asked, dag_id = _asked(args, plan), _dag(plan)
    if (before := _going_on(args, api, dag_id)) is not None:
        if (before.first, before.last) != (asked.first, asked.last):
            raise Refused(
                f"backfill {before.number} of {plan.sync} goes on, of {before.first} to {before.last}",
                hint=f"follow it with `./seamline backfill {plan.sync}`, or end it with --cancel",
            )
        say(args, f"backfill {before.number} goes on already: following it")
        return before
    in_airflow.require_unpaused(api, dag_id)
    dates = api.dates_of(dag_id, first=asked.first, last=asked.last)
    if not dates:
        for key, run in api.runs_of(dag_id, first=asked.first, last=asked.last).items():
            if run.state not in FINISHED:
                raise DateTaken(date.fromisoformat(key), by=run.run_id, sync=plan.sync)
        raise Refused(f"{asked.first} to {asked.last} has no business date of {plan.sync}")
    api.backfill(
        dag_id,
        first=asked.first,
        last=asked.last,
        run_backwards=asked.newest_first,
        max_active_runs=asked.at_once,
        dag_run_conf=asked.params(),
    )
    made = api.backfills(dag_id)[0]
    # Also of a date that Airflow has begun already: nobody has said anything of it before.
    _note(api, _runs(api, made).values(), note_of(args.reason, f"Backfill {made.number}, started"))
    say(args, f"backfill {made.number} of {plan.sync}: {len(dates)} dates, {asked.at_once} at once")
    return made


def _dag(plan: SyncPlan) -> str:
    return f"{plan.sync}__nightly"


def _newest(api: AirflowRest, plan: SyncPlan) -> Backfill:
    """The one that goes on, else the newest."""
    known = api.backfills(_dag(plan))
    if not known:
        raise Refused(f"there was no backfill of {plan.sync}", hint="give its first and its last business date")
    return next((one for one in known if not one.is_over), known[0])


def _active(api: AirflowRest, dag_id: str) -> Backfill | None:
    return next((one for one in api.backfills(dag_id) if not one.is_over), None)


def _going_on(args: argparse.Namespace, api: AirflowRest, dag_id: str) -> Backfill | None:
    """The one with dates that are not over. Airflow closes a backfill some time behind its last run, and takes no other
    one before: that is waited for."""
    deadline, is_said = time.monotonic() + CLOSED_WITHIN_S, False
    while (found := _active(api, dag_id)) is not None and _is_through(api, found):
        if time.monotonic() > deadline:
            raise TransientError(
                f"every date of backfill {found.number} is over, Airflow has not closed it in {CLOSED_WITHIN_S:.0f} s",
                hint="see whether its scheduler runs: `./seamline ps`",
            )
        if not is_said:
            say(args, f"every date of backfill {found.number} is over: waiting until Airflow closes it")
            is_said = True
        time.sleep(LOOK_EVERY_S)
    return found


def _is_through(api: AirflowRest, backfill: Backfill) -> bool:
    runs = _runs(api, backfill)
    return len(runs) == len(_dates(api, backfill)) and all(run.state in FINISHED for run in runs.values())


def _dates(api: AirflowRest, backfill: Backfill) -> list[date]:
    """Airflow's dry run leaves out those that have a run under way."""
    more = api.dates_of(backfill.dag_id, first=backfill.first, last=backfill.last)
    return sorted({*more, *map(date.fromisoformat, _runs(api, backfill))})


def _ordered(args: argparse.Namespace, api: AirflowRest, plan: SyncPlan, chosen: str) -> Exit:
    found = _active(api, _dag(plan))
    if found is None:
        raise Refused(f"no backfill of {plan.sync} goes on")
    order, word = _ORDERS[chosen]
    api.order(found.number, order)
    # What runs, or is over, keeps what was said of it.
    waiting = [run for run in _runs(api, found).values() if not run.started_at]
    _note(api, waiting, note_of(args.reason, f"Backfill {found.number}, {word.lower()}"))
    say(args, f"backfill {found.number} of {plan.sync}: {word.lower()}")
    give(args, {"sync": plan.sync, "backfill": found.number, "is": word.lower()})
    return Exit.PROVEN


def _note(api: AirflowRest, runs: Iterable[DagRun], text: str) -> None:
    """On the page of each of these runs."""
    for run in runs:
        api.note(run.dag_id, run.run_id, text)


def _runs(api: AirflowRest, backfill: Backfill) -> dict[str, DagRun]:
    runs = api.runs_of(backfill.dag_id, first=backfill.first, last=backfill.last, since=backfill.created_at)
    return {key: run for key, run in runs.items() if run.run_type == "backfill"}


def _followed(args: argparse.Namespace, api: AirflowRest, store: PlatformStore, plan: SyncPlan, made: Backfill) -> Exit:
    dates = _dates(api, made)
    reported: set[date] = set()
    while True:
        seen = _progress(api, store, plan, made.number, dates)
        for one in seen.dates:
            if one.is_over and one.business_date not in reported:
                reported.add(one.business_date)
                say(args, f"{_line(one)}   {seen.in_words()}")
        if seen.is_over:
            break
        time.sleep(LOOK_EVERY_S)
    say(args, seen.in_words())
    give(args, {"sync": plan.sync, "backfill": made.number, **seen.as_json()})
    return seen.exit_code


def _progress(api: AirflowRest, store: PlatformStore, plan: SyncPlan, number: int, dates: Sequence[date]) -> Progress:
    found = next(one for one in api.backfills(_dag(plan)) if one.number == number)
    runs = _runs(api, found)
    number_of_dates, behind = (found.last - found.first).days + 1, found.last + timedelta(days=1)
    cuts = by_date(store.cut_states(plan.sync, number_of_dates, before=behind, detail=Detail.VERDICTS))
    shown = tuple(with_cuts(_date_run(day, runs.get(day.isoformat())), cuts.get(day, ())) for day in dates)
    is_over = found.is_over or all(one.is_over for one in shown)
    return Progress(shown, is_paused=found.is_paused, is_over=is_over)


def _date_run(day: date, run: DagRun | None) -> DateRun:
    if run is None:
        return DateRun(day)
    return DateRun(day, run.run_id, run.state, started_at=_moment(run.started_at), ended_at=_moment(run.ended_at))


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _line(one: DateRun) -> str:
    version = f" version {one.version}" if one.version is not None else ""
    return f"{one.business_date}  {one.word:<14}{version or ' -'}"
