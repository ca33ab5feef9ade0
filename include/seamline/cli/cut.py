"""Make the cut of one business date, by a run of the nightly DAG, and follow it to its end.

Without a date it takes the newest one that has ended, and says which before it does. What is done is done again, as the
next version; where a person has signed the date, that is a restatement, with its reason in the log of acts. A delivery
of files that is in force already, and is well, is taken once more only with a --reason.
docs/how-to/backfill.md
"""

import argparse
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, date, datetime

from seamline import registry
from seamline.adapters.airflow_rest import FINISHED, AirflowRest
from seamline.cli import in_airflow
from seamline.cli.answer import give, say
from seamline.cli.in_airflow import note_of
from seamline.cli.person import person
from seamline.domain.audit import FROM_COMMAND_LINE
from seamline.domain.backfill import DateRun, Exit, Progress, with_cuts
from seamline.domain.calendar import zone
from seamline.domain.cut_state import CutState
from seamline.domain.errors import Refused
from seamline.domain.person import one_line
from seamline.plan.model import SyncPlan
from seamline.platform.reconciliations import Detail
from seamline.platform.store import PlatformStore
from seamline.sync.dates_asked import DateTaken, checked
from seamline.sync.delivered import WITH_A_REASON, kept_in

LOOK_EVERY_S = 2.0
SKIPPED = "skipped"
# What is said of a task by its state; of others nothing. Only the first task waits so, for its turn.
_WORDS = {one: one for one in ("running", "success", "failed", "awaiting_input")} | {
    "up_for_reschedule": "waits for another run of the date, which goes on"
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync")
    parser.add_argument("date", nargs="?", default="", help="as 2026-11-19; left out: the newest that has ended")
    in_airflow.add_what(parser)
    in_airflow.add_common(parser)


def run(args: argparse.Namespace) -> int:
    return in_airflow.with_exit_code(args, _run)


def _run(args: argparse.Namespace) -> Exit:
    plan = in_airflow.plan_of(args.sync)
    now = datetime.now(UTC)
    day = _day(args, plan, now)
    asked = checked(plan, in_airflow.asked_of(args, day, day, again=True), now=now)
    conf, dag_id = asked.params(), f"{plan.sync}__nightly"
    with (
        in_airflow.airflow() as api,
        closing(registry.platform()) as store,
        closing(registry.signatures()) as signatures,
    ):
        in_airflow.require_unpaused(api, dag_id)
        before = api.runs_of(dag_id, first=day, last=day).get(day.isoformat())
        if before is not None and before.state not in FINISHED:
            raise DateTaken(day, by=before.run_id)
        restates = not args.compare_only and signatures.is_restatable(plan.sync, day)
        why = one_line(args.reason)
        if restates:
            signatures.require_restatable(plan.sync, day, why)
        name = f"by_hand__{now:%Y%m%dT%H%M%S%f}"
        api.trigger(dag_id, run_id=name, partition_key=day.isoformat(), conf=conf, note=note_of(args.reason))
        if restates:
            signatures.enter_restatement(plan.sync, day, who=person(), reason=why, run=name, origin=FROM_COMMAND_LINE)
            say(args, f"{day} is signed: this run restates it, and its new version waits for a signature")
        say(args, f"run {name} of {dag_id}")
        give(args, {"sync": plan.sync, "business_date": day, "dag": dag_id, "run": name})
        if args.detach:
            return Exit.PROVEN
        return _followed(args, api, store, day, name)


def _day(args: argparse.Namespace, plan: SyncPlan, now: datetime) -> date:
    if args.date:
        return in_airflow.day_of(args.date)
    if plan.nightly is None:
        raise Refused(f"sync {plan.sync} declares no nightly cut", hint="add `nightly:` to the sync")
    day = plan.nightly.last_ended(now)
    if day is None:
        raise Refused(f"no calendar of {plan.sync} knows a date that has ended", hint="name one: `--date`")
    say(args, f"no date was given: taking {day}, the newest that has ended in {plan.nightly.timezone}")
    return day


def _followed(args: argparse.Namespace, api: AirflowRest, store: PlatformStore, day: date, name: str) -> Exit:
    dag_id, reported = f"{args.sync}__nightly", set[tuple[str, str]]()
    while True:
        run = api.run(dag_id, name)
        for task in api.tasks(dag_id, name):
            # Of one that never ran nothing was said.
            is_open = task.state == SKIPPED and (task.task_id, "running") in reported
            said = SKIPPED if is_open else _WORDS.get(task.state)
            if said and (mark := (task.task_id, task.state)) not in reported:
                reported.add(mark)
                say(args, f"  {task.task_id}: {said}")
        cuts = _newest(store.takes(args.sync, day, detail=Detail.VERDICTS), name)
        if run.state in FINISHED or any(cut.is_waiting for cut in cuts):
            break
        time.sleep(LOOK_EVERY_S)
    # What waits for a decision has been compared, and may wait for days.
    ended = DateRun(day, name, run.state if run.state in FINISHED else "failed")
    return _said(args, store, ended, cuts)


def _said(args: argparse.Namespace, store: PlatformStore, ended: DateRun, made: Sequence[CutState]) -> Exit:
    """What the run has made, and what it has left in force because there was nothing new to take."""
    where = zone(store.timezone(args.sync))
    for cut in made:
        say(args, f"{cut.destination}: {cut.headline.value}")
        for line in cut.lines(where):
            say(args, f"  {line}")
    known = store.runs_named(args.sync, ended.run_id)
    kept = kept_in(known[0]) if known else {}
    takes = store.takes(args.sync, ended.business_date, detail=Detail.VERDICTS) if kept else ()
    standing = [cut for cut in takes if cut.destination in kept and cut.run_id == kept[cut.destination].run]
    for cut in standing:
        say(args, f"{cut.destination}: {cut.headline.value}\n  {kept[cut.destination].why}")
    if kept:
        say(args, WITH_A_REASON)
        for name, one in kept.items():
            say(args, f"{name}: nothing was taken, since version {one.version} is in force")
    elif not made:
        say(args, "the run has made nothing: its log in Airflow says why")
    seen = Progress((with_cuts(ended, (*made, *standing)),), is_over=True)
    give(args, {"sync": args.sync, **seen.as_json(), "kept": {name: one.why for name, one in kept.items()}})
    return seen.exit_code


def _newest(takes: Sequence[CutState], name: str) -> list[CutState]:
    """By destination the newest that this run has made."""
    found: dict[str, CutState] = {}
    for take in takes:
        if take.run_id.split("/", 3)[-1].partition("~")[0] == name:
            found.setdefault(take.destination, take)
    return list(found.values())
