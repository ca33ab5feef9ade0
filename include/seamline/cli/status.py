"""What runs, how far the streams are, and the last verdicts of every sync.

Exit code 0 only if the newest cuts are clean and published, the live tables MATCH (or are left out for a reason), no
stream failed, no alarm is open and what every sync declares is right. A cut that is on its way is no fault.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from zoneinfo import ZoneInfo

from seamline import settings
from seamline.adapters import registry
from seamline.adapters.platform.store import Alarm
from seamline.cli import report
from seamline.domain.cut_state import CutState, Headline
from seamline.domain.errors import ConfigError, SeamlineError
from seamline.domain.ledger import StreamId
from seamline.domain.runs import Reconciliation
from seamline.ports import StreamReport
from seamline.spec.faults import DeclarationsInvalid, guess
from seamline.spec.load import load_each
from seamline.stack import supervisor as keeper
from seamline.stack.layout import Layout

DATES = 14
RECENT = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync", nargs="?", default="", help="only this sync")


def run(args: argparse.Namespace) -> int:
    layout = Layout(settings.load())
    outcomes = {file.stem: outcome for file, outcome in load_each(layout.settings.declarations).items()}
    declared = sorted(outcomes)
    if args.sync and args.sync not in declared:
        raise ConfigError(f"there is no sync `{args.sync}`", hint=guess(args.sync, declared))
    names = [args.sync] if args.sync else declared
    sys.stdout.write(f"{processes(layout)}\n")
    is_red = False
    try:
        store, reports = registry.platform(), registry.director().latest_reports()
        for name in names:
            streams = [one for stream, one in sorted(reports.items(), key=str) if stream.sync == name]
            state, (cuts, live, zone) = store.sync_state(name), newest_verdicts(name)
            ended = [one for one in cuts if one.headline is not Headline.RUNNING]
            is_wrong = bool(ended or live) and not report.is_green(ended, live)
            is_red = is_red or is_wrong or any(one.error for one in streams)
            sys.stdout.write(f"\n{name}: {state or 'not onboarded yet'}\n")
            if isinstance(wrong := outcomes[name], DeclarationsInvalid):
                is_red = True
                sys.stdout.write(f"{wrong}\n")
            sys.stdout.write(f"{report.render(cuts, live, streams, zone=zone)}\n")
        for alarm in store.open_alarms():
            is_red = True
            sys.stdout.write(f"\nALARM {alarm.kind} {alarm.subject} since {alarm.raised_at:%F %T}: {alarm.message}\n")
            sys.stdout.write(since_then(alarm, reports))
    except SeamlineError as error:
        sys.stdout.write(f"\nno verdicts can be shown: {error}\n")
        return error.exit_code
    return 1 if is_red else 0


def since_then(alarm: Alarm, reports: Mapping[StreamId, StreamReport]) -> str:
    """What is known better than when a stream's silence was noticed: the watch looks every two minutes."""
    heard = [one.age_s for stream, one in reports.items() if str(stream) == alarm.subject]
    if alarm.kind != "stream_silent" or not heard or heard[0] >= report.HEARD_S:
        return ""
    return f"  it has spoken since, {heard[0]:.0f} s ago; the next look at the streams ends this alarm\n"


def processes(layout: Layout) -> str:
    """One line about the stack's programs; those that do not run are named."""
    if not keeper.is_running(layout):
        return "the local stack is down (./seamline up)"
    states = keeper.states(layout).values()
    running = [one.name for one in states if one.is_running]
    others = [f"{one.name} {one.state.lower()}" for one in states if not one.is_running]
    return f"{len(running)} programs run" + (f"; {', '.join(others)}" if others else "")


class Newest(NamedTuple):
    """Of each date the newest take, the newest look at the live tables of each destination, and the sync's zone."""

    cuts: Sequence[CutState]
    live: Sequence[Reconciliation]
    zone: ZoneInfo


def newest_verdicts(sync: str) -> Newest:
    store = registry.platform()
    live: dict[str, Reconciliation] = {}
    for one in store.live_reconciliations(sync, RECENT):
        live.setdefault(one.destination, one)
    return Newest(store.cut_states(sync, DATES), list(live.values()), ZoneInfo(store.timezone(sync)))
