"""Load the tables of a sync, start its streams and compare: a run of its onboarding, followed to the verdict.

First the servers are asked, as `validate --online` does: what they deny is listed, and nothing is started. Airflow gets
the pools of the sync, so a stack that is up needs no second `up`. At the end the sync's other DAGs are switched on.
"""

import argparse
import sys
import time
from contextlib import closing
from datetime import UTC, datetime

from seamline import registry, settings
from seamline.adapters.airflow_rest import AirflowRest
from seamline.cli import in_airflow, online
from seamline.cli.answer import give, say
from seamline.cli.in_airflow import note_of, say_task
from seamline.cli.reconcile import outcome
from seamline.domain.backfill import Exit
from seamline.domain.calendar import date_at, moment_in_words, zone
from seamline.domain.errors import ConfigError, TransientError
from seamline.plan.model import NightlyPlan, SyncPlan
from seamline.plan.night import date_begun_at, next_night
from seamline.platform.reconciliations import Detail
from seamline.spec.faults import OR_AT_SERVERS, DeclarationsInvalid
from seamline.spec.load import load_sync
from seamline.stack import airflow_pools
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress

WITHIN_S = 24 * 3600
# A stack that is up looks for new declarations every 90 s.
DAGS_WITHIN_S = 300.0
_LOOK_EVERY_S = 5.0
STREAMS = "seamline__streams"
_OF_NIGHTS = (
    "Of a sync with nights and no stream, 0 says that it is onboarded: there is nothing to prove before the first cut."
)
# The file of Airflow's folder of DAGs that makes those of each sync.
DAGS_OF_SYNCS = "syncs.py"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync")
    parser.add_argument(
        "--wait", type=float, default=0.0, metavar="MINUTES", help="how long to wait until rights and settings hold"
    )
    in_airflow.add_common(parser)
    parser.epilog = f"{in_airflow.EXIT_CODES} {_OF_NIGHTS}"


def run(args: argparse.Namespace) -> int:
    return in_airflow.with_exit_code(args, _run)


def _run(args: argparse.Namespace) -> Exit:
    plan = in_airflow.plan_of(args.sync)
    if plan.reconcile_only is not None:
        raise ConfigError(f"sync {plan.sync} only compares: there is nothing to onboard", hint="run `reconcile`")
    layout = Layout(settings.load())
    _require_rights(args, layout)
    if layout.settings.are_servers_here and not airflow_pools.are_made(layout):
        raise TransientError("Airflow does not answer, so the pools of the sync are not made", hint="./seamline ps")
    dag_id, name = f"{plan.sync}__onboard", f"by_hand__{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    with in_airflow.airflow() as api, closing(registry.platform()) as store:
        _wait_for_dags(args, api, plan)
        api.trigger(dag_id, run_id=name, note=note_of(args.reason))
        say(args, f"run {name} of {dag_id}")
        give(args, {"sync": plan.sync, "dag": dag_id, "run": name})
        if args.detach:
            return Exit.PROVEN
        ended = api.wait(dag_id, name, timeout_s=WITHIN_S, on_change=lambda task: say_task(args, task))
        found = store.live_reconciliations_named(plan.sync, name, detail=Detail.VERDICTS)
        if ended.state == "success":
            _switch_on(args, api, plan)
        else:
            say(args, _failure(api, dag_id, name))
    code = outcome(args, ended, found)
    if not plan.streamed.destinations and ended.state == "success":
        say(args, f"{plan.sync} has nights and no stream: there is nothing to prove before the first cut")
        return Exit.PROVEN
    return Exit.NOT_PROVEN if code is Exit.PROVEN and ended.state != "success" else code


def _silent(_: str) -> None: ...


def _require_rights(args: argparse.Namespace, layout: Layout) -> None:
    """DeclarationsInvalid: what the servers still deny when the wait is over."""
    until, before = time.monotonic() + 60 * args.wait, 0
    # What is asked again stays as it was said.
    on_step: online.OnStep = _silent if args.json else Progress(out=sys.stderr).say
    while True:
        declarations = load_sync(layout.settings.declarations / "syncs" / f"{args.sync}.yaml")
        answers = online.ask(declarations, args.sync, layout, on_step=on_step)
        on_step = _silent
        if not answers.faults:
            for note in answers.notes:
                say(args, f"note: {note}")
            return
        if time.monotonic() >= until:
            cure = "mend them and run this again; --wait 30 goes on asking for half an hour"
            raise DeclarationsInvalid(answers.faults, where=OR_AT_SERVERS, hint=cure)
        if len(answers.faults) != before:
            say(args, f"{len(answers.faults)} things are not right yet, the first: {answers.faults[0]}")
        before = len(answers.faults)
        time.sleep(_LOOK_EVERY_S)


def _wait_for_dags(args: argparse.Namespace, api: AirflowRest, plan: SyncPlan) -> None:
    wanted, until = f"{plan.sync}__onboard", time.monotonic() + DAGS_WITHIN_S
    there = api.dag_ids()
    if wanted not in there:
        say(args, "Airflow has not read the declarations yet: waiting for its next look at them")
        api.parse_again(DAGS_OF_SYNCS)
    while wanted not in there:
        if time.monotonic() >= until:
            raise TransientError(f"Airflow has no DAG {wanted}", hint="its page of import errors says why")
        time.sleep(_LOOK_EVERY_S)
        there = api.dag_ids()
    for dag_id in {wanted, STREAMS} & there:
        api.unpause(dag_id)


def _failure(api: AirflowRest, dag_id: str, name: str) -> str:
    """The end of the log of each task that failed."""
    failed = [task for task in api.tasks(dag_id, name) if task.state == "failed"]
    return "\n".join(f"task {task.task_id}:\n{api.log_tail(dag_id, name, task)}" for task in failed)


def _switch_on(args: argparse.Namespace, api: AirflowRest, plan: SyncPlan) -> None:
    """The DAGs that go on by themselves from now on, and the watch of its streams for the rest of the business date."""
    kinds, there = ("stream", "reconcile", *(["nightly"] if plan.nightly else [])), api.dag_ids()
    nightly, due = f"{plan.sync}__nightly", None
    for dag_id in sorted({f"{plan.sync}__{kind}" for kind in kinds} & there):
        if api.is_paused(dag_id):
            if dag_id == nightly:
                # Before it is on: Airflow starts what is due within seconds, and then knows the run behind it.
                due = api.next_run(dag_id)
            api.unpause(dag_id)
            say(args, f"{dag_id} is on")
    if plan.nightly is not None and nightly in there:
        say(args, next_night_in_words(plan.sync, plan.nightly, due=due, now=datetime.now(UTC)))
    today = date_at(datetime.now(UTC), timezone=plan.nightly.timezone if plan.nightly else "UTC")
    stream = f"{plan.sync}__stream"
    if stream in there and today.isoformat() not in {run.partition_key for run in api.runs(stream)}:
        api.trigger(stream, run_id=f"onboarded-{today}", partition_key=today.isoformat())


def next_night_in_words(sync: str, nightly: NightlyPlan, *, due: datetime | None, now: datetime) -> str:
    """Which run the schedule starts next. `due`: when Airflow starts it, known where its DAG was off until now."""
    if due is not None and due <= now:
        day = date_begun_at(nightly, due)
        return f"the run of {day} begins by itself now: `./seamline report {sync} --date {day}` shows it"
    following = next_night(nightly, now)
    if following is None:
        return f"no calendar of {sync} knows a next business date: no run begins by itself"
    at = moment_in_words(following.starts_at, zone(nightly.timezone))
    return (
        f"the run of {following.business_date} begins by itself at {at}; `./seamline cut {sync}` makes the cut of the"
        " newest date that has ended, now"
    )
