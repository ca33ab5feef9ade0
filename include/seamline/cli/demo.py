"""Bring up everything, run one sync end to end, and report: does yesterday agree, and does now?"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from seamline import registry, settings
from seamline.adapters.airflow_rest import AirflowRest
from seamline.cli import seen, status_text
from seamline.cli.answer import give, progress
from seamline.cli.up import airflow_document, print_airflow
from seamline.demo import bank
from seamline.demo.extras import EXTRAS, Extra, chosen
from seamline.demo.fill import SIZES, fill_bank
from seamline.demo.story import EARLIER_DATES, Story
from seamline.domain.cut_state import CutState
from seamline.domain.errors import SeamlineError
from seamline.domain.runs import Reconciliation, SyncState
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.report import documents
from seamline.spec.load import load_declarations
from seamline.stack import boot, components, credentials
from seamline.stack.closed_terminal import outlives_its_terminal
from seamline.stack.folder_lock import lock_or_refuse
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress

SYNC = "settlement"
WRITERS = "bank_writers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", choices=sorted(SIZES), default="full", help="how much the demo bank holds at first")
    names = ", ".join(EXTRAS)
    parser.add_argument("--with", dest="extras", default="", metavar="NAMES", help=f"a further destination: {names}")


def run(args: argparse.Namespace) -> int:
    demo = Demo(Layout(settings.load()), chosen(args.extras.replace(",", " ").split()), progress(args))
    # A second onboarding beside the first would take the sync from it in mid-way.
    log = demo.layout.log_of("demo")
    with lock_or_refuse(demo.layout, "demo", what="`seamline demo`"), outlives_its_terminal(log):
        try:
            code = demo.play(SIZES[args.size])
        except KeyboardInterrupt:
            demo.progress.say("what was started, the bank's writers too, goes on: `./seamline down` stops it")
            raise
    give(args, demo.document)
    return code


@dataclass(slots=True)
class Demo:
    """What the phases share, and how long each of them took."""

    layout: Layout
    extras: Sequence[Extra] = ()
    progress: Progress = field(default_factory=Progress)
    times: list[tuple[str, float]] = field(default_factory=list)
    document: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = self.progress.elapsed_s
        yield
        self.times.append((name, self.progress.elapsed_s - began))

    def play(self, size: bank.BankSize) -> int:
        with self.phase("stack"):
            for extra in self.extras:
                extra.declare(self.layout, SYNC)
            boot.up(self.layout, components.choose(), self.progress)
        with self.phase("bank"):
            self.fill_bank(size)
            for extra in self.extras:
                extra.provision(self.layout)
            boot.up(self.layout, components.choose(only=[WRITERS]), self.progress)
        try:
            dates = self.run_dags()
        except SeamlineError:
            self.show_state()
            raise
        return self.show(dates)

    def plan(self, sync: str) -> SyncPlan:
        return compile_plan(load_declarations(self.layout.settings.declarations), sync)

    def fill_bank(self, size: bank.BankSize) -> None:
        nightly = self.plan(SYNC).nightly
        fill_bank(size, timezone=nightly.timezone if nightly else "UTC", say=self.progress.say)

    def run_dags(self) -> list[date]:
        """Return the business dates that were cut."""
        made = credentials.load_or_make(self.layout)
        address = f"http://127.0.0.1:{self.layout.settings.ports.airflow}"
        with (
            AirflowRest(address, "operator", made["airflow_user_operator"]) as airflow,
            self.phase("runs"),
        ):
            return self.run_sync(Story(airflow, self.plan(SYNC), self.progress))

    def run_sync(self, story: Story) -> list[date]:
        sync = story.plan.sync
        story.wait_for_dags()
        loaded = self.onboarded_into(story.plan)
        if story.plan.destination_names - loaded:
            story.onboard()
        # An onboarding compares what it has loaded, and no other destination.
        if loaded:
            self.progress.say(f"{sync} is enabled already: comparing its live tables")
            story.reconcile()
        if story.plan.nightly is None:
            return []
        newest = story.nightly()
        earlier = story.backfill()
        return [date.fromisoformat(run.partition_key) for run in [newest, *earlier] if run.partition_key]

    def onboarded_into(self, plan: SyncPlan) -> frozenset[str]:
        """Those of its destinations that have its tables; none before the sync is enabled."""
        with closing(registry.platform()) as store:
            if store.sync_state(plan.sync) is not SyncState.ENABLED:
                return frozenset()
            return plan.destination_names & store.published_into(plan.sync).keys()

    def show_state(self) -> None:
        """What is known where a run failed, before the error: a break is shown with its rows."""
        with suppress(SeamlineError), closing(registry.platform()) as store:
            found = seen.newest_verdicts(store, SYNC)
            sys.stdout.write(f"\n{status_text.render(found.cuts, found.live, zone=found.zone)}\n")
        print_airflow(self.layout)

    def show(self, dates: list[date]) -> int:
        is_green = self.show_sync(SYNC, dates)
        for extra in self.extras:
            sys.stdout.write("\n" + "".join(f"{line}\n" for line in extra.describe(self.plan(SYNC))))
        print_airflow(self.layout)
        self.document |= {"agrees": is_green, "dates": dates, "seconds": dict(self.times)}
        self.document |= {"airflow": airflow_document(self.layout)}
        took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self.times)
        sys.stdout.write(f"\n{'All agree.' if is_green else 'NOT everything agrees.'} {took}.\n")
        sys.stdout.write("The stack stays up: ./seamline status looks again, ./seamline down stops it.\n")
        sys.stdout.write(
            "".join(f"{line}\n" for line in what_to_click(airflow_document(self.layout)["reports"], dates))
        )
        return 0 if is_green else 1

    def show_sync(self, sync: str, dates: list[date]) -> bool:
        """Write what was found of it; whether all of it agrees."""
        plan = self.plan(sync)
        with closing(registry.platform()) as store:
            found, streams = seen.newest_verdicts(store, sync), seen.look_at_streams(store)
        cuts = [one for one in found.cuts if one.business_date in dates]
        text = status_text.render(
            cuts, found.live, streams.of(sync, found.destinations), findings=streams.findings, zone=found.zone
        )
        sys.stdout.write(f"\n{text}\n")
        self.document |= {"sync": sync, "verdicts": documents.to_json(cuts, found.live, levels={}, zone=found.zone)}
        agrees = is_complete(plan, cuts, found.live, dates) and status_text.is_green(cuts, found.live)
        if agrees and (left_out := left_out_in_words(cuts)):
            sys.stdout.write(f"{left_out}\n")
        return agrees


def what_to_click(page: str, dates: Sequence[date]) -> Iterator[str]:
    """The first minutes in a browser. `page`: its address."""
    yield "\nWhat to click next, signed in as `operator`:"
    steps = [("the morning's overview: a word for each sync and business date", page)]
    steps += [("the streams with their lags, and the live tables", f"{page}?sync={SYNC}")]
    if dates:
        steps += [("the report of a date: totals, rows, checks", f"{page}?sync={SYNC}&business_date={max(dates)}")]
    for number, (what, address) in enumerate(steps, 1):
        yield f"  {number}. {address}\n     {what}"
    yield "Then break three rows and see them found: docs/tutorial/first-hour.md"


def left_out_in_words(cuts: Sequence[CutState]) -> str:
    """Why some of the dates are partial, though nothing is wrong; "" where all are whole."""
    left_out = [(one.business_date, table) for one in cuts if one.found for table in one.found.tables]
    left_out = [(day, table) for day, table in left_out if table.is_left_out]
    days = ", ".join(str(day) for day in sorted({day for day, _ in left_out}))
    tables = ", ".join(sorted({table.table for _, table in left_out}))
    reasons = "; ".join(dict.fromkeys(table.reason for _, table in left_out))
    return f"PARTIAL is as designed: {days} without {tables} ({reasons})." if left_out else ""


def is_complete(plan: SyncPlan, cuts: Sequence[CutState], live: Sequence[Reconciliation], dates: list[date]) -> bool:
    """Whether each destination has a cut of all dates and a verdict of its live tables, each about all tables."""
    wanted = 1 + EARLIER_DATES if plan.nightly else 0
    is_dated = len(set(dates)) == len(dates) == wanted
    cut = {(one.destination, one.business_date) for one in cuts}
    is_cut = cut == {(name, day) for name in plan.destination_names for day in dates}
    is_live = {one.destination for one in live} == plan.destination_names
    compared = [*live, *(one.found for one in cuts if one.found)]
    tables = {table.name for table in plan.tables}
    is_about_all = all(tables <= {table.table for table in one.tables} for one in compared)
    return is_dated and is_cut and is_live and is_about_all
