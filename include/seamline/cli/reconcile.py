"""Compare the live tables of a sync with their source, by a run of its reconcile DAG, and follow it to its end."""

import argparse
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime

from seamline import registry
from seamline.adapters.airflow_rest import DagRun
from seamline.cli import in_airflow
from seamline.cli.answer import give, say
from seamline.cli.in_airflow import note_of, say_task
from seamline.domain.backfill import BROKEN, PROVEN, Exit
from seamline.domain.cut_state import Headline, of_live, worst_headline
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import Verdict
from seamline.platform.reconciliations import Detail

WITHIN_S = 24 * 3600
_NAMED_MAX = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync")
    in_airflow.add_common(parser)


def run(args: argparse.Namespace) -> int:
    return in_airflow.with_exit_code(args, _run)


def _run(args: argparse.Namespace) -> Exit:
    in_airflow.plan_of(args.sync)
    dag_id, name = f"{args.sync}__reconcile", f"by_hand__{datetime.now(UTC):%Y%m%dT%H%M%S%f}"

    with in_airflow.airflow() as api, closing(registry.platform()) as store:
        in_airflow.require_unpaused(api, dag_id)
        api.trigger(dag_id, run_id=name, note=note_of(args.reason))
        say(args, f"run {name} of {dag_id}")
        give(args, {"sync": args.sync, "dag": dag_id, "run": name})
        if args.detach:
            return Exit.PROVEN
        ended = api.wait(dag_id, name, timeout_s=WITHIN_S, on_change=lambda task: say_task(args, task))
        found = store.live_reconciliations_named(args.sync, name, detail=Detail.VERDICTS)
    return outcome(args, ended, found)


def outcome(args: argparse.Namespace, ended: DagRun, found: Sequence[Reconciliation]) -> Exit:
    """Give what a run found of the live tables, by destination, and the exit code of the worst of it."""
    each = {one.destination: of_live(one) for one in found}
    for one in found:
        say(args, f"{one.destination}: {each[one.destination].value}{_of_tables(one)}")
    verdict = worst_headline(each.values()) if each else Headline.NOT_RUN
    words = {destination: headline.value for destination, headline in each.items()}
    known = {"sync": args.sync, "run": ended.run_id, "state": ended.state}
    give(args, {**known, "verdict": verdict.value, "destinations": words})
    if verdict in BROKEN:
        return Exit.BREAK
    return Exit.PROVEN if verdict in PROVEN else Exit.NOT_PROVEN


def _of_tables(found: Reconciliation) -> str:
    """What a person has to know behind the verdict, and where the rest stands."""
    proven = sum(one.verdict is Verdict.MATCH for one in found.tables)
    groups = {
        "left out": [one.table for one in found.tables if one.verdict is Verdict.NOT_RUN],
        "not proven": [one.table for one in found.tables if one.verdict not in (Verdict.MATCH, Verdict.NOT_RUN)],
    }
    named = [f"{word}: {_some(tables)}" for word, tables in groups.items() if tables]
    why = [f"`./seamline status {found.sync}` says why"] if named else []
    return "; ".join([f", {proven} of {len(found.tables)} tables MATCH", *named, *why])


def _some(tables: Sequence[str]) -> str:
    more = f" and {len(tables) - _NAMED_MAX} more" if len(tables) > _NAMED_MAX else ""
    return ", ".join(tables[:_NAMED_MAX]) + more
