"""What runs, how far the streams are, and the last verdicts of every sync."""

import argparse
import sys

from seamline import settings
from seamline.adapters import registry
from seamline.cli import report
from seamline.domain.errors import SeamlineError
from seamline.domain.runs import Reconciliation, Scope
from seamline.spec.load import load_declarations
from seamline.stack import supervisor as keeper
from seamline.stack.layout import Layout

RECENT = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync", nargs="?", default="", help="only this sync")


def run(args: argparse.Namespace) -> int:
    layout = Layout(settings.load())
    sys.stdout.write(f"{processes(layout)}\n")
    names = [args.sync] if args.sync else sorted(load_declarations(layout.settings.declarations).syncs)
    try:
        store, reports = registry.platform(), registry.director().latest_reports()
        for name in names:
            streams = [one for stream, one in sorted(reports.items(), key=str) if stream.sync == name]
            state = store.sync_state(name)
            sys.stdout.write(f"\n{name}: {state or 'not onboarded yet'}\n")
            sys.stdout.write(f"{report.render(newest_verdicts(name), streams)}\n")
        for alarm in store.open_alarms():
            sys.stdout.write(f"\nALARM {alarm.kind} {alarm.subject} since {alarm.raised_at:%F %T}: {alarm.message}\n")
    except SeamlineError as error:
        sys.stdout.write(f"\nno verdicts can be shown: {error}\n")
        return error.exit_code
    return 0


def processes(layout: Layout) -> str:
    """One line about the stack's programs; those that do not run are named."""
    if not keeper.is_running(layout):
        return "the local stack is down (./seamline up)"
    states = keeper.states(layout).values()
    running = [one.name for one in states if one.is_running]
    others = [f"{one.name} {one.state.lower()}" for one in states if not one.is_running]
    return f"{len(running)} programs run" + (f"; {', '.join(others)}" if others else "")


def newest_verdicts(sync: str) -> list[Reconciliation]:
    """The newest reconciliation of the live tables, and the newest of each business date."""
    newest: dict[object, Reconciliation] = {}
    for one in registry.platform().reconciliations(sync, RECENT):
        place = (one.destination, "live" if one.scope is Scope.LIVE else one.business_date)
        newest.setdefault(place, one)
    return list(newest.values())
