"""What runs, how far the streams are, and the last verdicts of every sync.

Exit code 0 only if the newest cut is clean and published, no date before it is open, the live tables MATCH (or are left
out for a reason), no onboarding or change of the tables has failed, no stream failed, no alarm is open and what every
sync declares is right. What is on its way is no fault.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from seamline import registry, settings
from seamline.cli import cuts as of_cuts
from seamline.cli import status_text
from seamline.domain.calendar import moment_in_words
from seamline.domain.cut_state import CutState, newest_of_live
from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.runs import Reconciliation
from seamline.domain.separate import COMPARED_ONLY
from seamline.platform.signatures import PlatformSignatures
from seamline.platform.store import Alarm, PlatformStore
from seamline.ports import WantedStream
from seamline.spec.faults import DeclarationsInvalid, guess
from seamline.spec.load import declared_destinations, load_each, onboarded_destinations, only_compares
from seamline.stack import supervisor as keeper
from seamline.stack.layout import Layout
from seamline.sync import headline, under_way
from seamline.sync.shown_order import by_destination, by_run, streams_in_order
from seamline.sync.stream_state import StreamState, Word, alarms_over, stream_states


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync", nargs="?", default="", help="only this sync")
    parser.add_argument(
        "--missing", action="store_true", help="only which business dates have no published cut, why, and what to do"
    )


def run(args: argparse.Namespace) -> int:
    layout = Layout(settings.load())
    outcomes = {file.stem: outcome for file, outcome in load_each(layout.settings.declarations).items()}
    declared = sorted(outcomes)
    if args.sync and args.sync not in declared:
        raise ConfigError(f"there is no sync `{args.sync}`", hint=guess(args.sync, declared))
    names = [args.sync] if args.sync else declared
    if args.missing:
        with closing(registry.platform()) as store:
            return 1 if of_cuts.show_missing(store, names) else 0
    sys.stdout.write(f"{processes(layout)}\n")
    try:
        with closing(registry.platform()) as store, closing(registry.signatures()) as signatures:
            is_red = _show(store, signatures, {name: outcomes[name] for name in names})
    except SeamlineError as error:
        if isinstance(error, TransientError) and is_down(layout):
            # Its servers are down with it, and the error's own cure would send people to look for them.
            error.hint = "`./seamline up` starts the local stack"
        sys.stdout.write(f"\nno verdicts can be shown: {error}\n")
        return error.exit_code
    return 1 if is_red else 0


def _show(store: PlatformStore, signatures: PlatformSignatures, outcomes: Mapping[str, object]) -> bool:
    """Write what is known of these syncs, each with what became of its declarations; whether anything is wrong."""
    streams, is_red = look_at_streams(store), False
    zones: dict[str, tzinfo] = {}
    for name, outcome in outcomes.items():
        state, (cuts, live, zone, destinations) = store.sync_state(name), newest_verdicts(store, name)
        mine = streams.of(name, destinations)
        zones[name] = zone
        is_red = is_red or _is_wrong(cuts, live, mine)
        alarms = [one for one in streams.alarms if one.about in headline.concerns(name, streams.wanted)]
        notes = _notes(store, name, zone)
        is_red = is_red or headline.is_failed(notes)
        word = headline.of_sync(cuts, live, mine, alarms, notes)
        known = state or (COMPARED_ONLY if only_compares(settings.load().declarations, name) else "not onboarded yet")
        sys.stdout.write(f"\n{name}: {known}, {word}\n")
        sys.stdout.write(status_text.noted(notes))
        if isinstance(outcome, DeclarationsInvalid):
            is_red = True
            sys.stdout.write(f"{outcome}\n")
        text = status_text.render(cuts, live, mine, findings=streams.findings, zone=zone)
        sys.stdout.write(f"{text}\n{status_text.signed(signatures.kept([name]))}")
    for alarm in streams.alarms:
        is_red = True
        # UTC where it is about what several syncs share.
        since = moment_in_words(alarm.raised_at, zones.get(alarm.about, UTC))
        sys.stdout.write(f"\nALARM {alarm.kind} {alarm.subject} since {since}: {alarm.message}\n")
    for alarm in streams.over:
        sys.stdout.write(f"\nALARM {alarm.kind} {alarm.subject} is over; the next look at the streams ends it\n")
    return is_red


def _notes(store: PlatformStore, sync: str, zone: tzinfo) -> list[under_way.Note]:
    return under_way.notes(
        sync,
        [store.latest_run(sync, kind) for kind in under_way.KINDS],
        declared=onboarded_destinations(settings.load().declarations, sync),
        onboarded=store.published_into(sync),
        zone=zone,
    )


def _is_wrong(cuts: Sequence[CutState], live: Sequence[Reconciliation], streams: Sequence[StreamState]) -> bool:
    """What is on its way, a cut that runs or a stream that starts, is no fault."""
    is_well = headline.of_verdicts(cuts, live) in headline.WELL
    is_new = not cuts and not live
    return not (is_well or is_new) or any(not one.is_green and one.word is not Word.STARTING for one in streams)


@dataclass(frozen=True, slots=True)
class Streams:
    """All streams as of now, their findings, and the open alarms: those that hold, and those that are over."""

    wanted: Sequence[WantedStream]
    states: Mapping[StreamId, StreamState]
    findings: Mapping[StreamId, int]
    alarms: Sequence[Alarm]
    over: Sequence[Alarm]

    def of(self, sync: str, declared: Sequence[str]) -> list[StreamState]:
        """Those of one sync, in the order of its declared destinations."""
        mine = (state for stream, state in self.states.items() if stream.sync == sync)
        return streams_in_order(mine, declared)


def look_at_streams(store: PlatformStore) -> Streams:
    alarms = store.open_alarms()
    with closing(registry.director()) as director:
        reports, hosts = director.latest_reports(), director.hosts()
        wanted = director.all_wanted()
        states = stream_states(wanted, reports, hosts, alarms, now=datetime.now(UTC))
    over = alarms_over(alarms, states, hosts)
    findings = {stream: one.findings for stream, one in reports.items()}
    holds = [one for one in alarms if one not in over]
    return Streams(wanted, states, findings, holds, [one for one in alarms if one in over])


def is_down(layout: Layout) -> bool:
    return layout.settings.are_servers_here and not keeper.is_running(layout)


def processes(layout: Layout) -> str:
    """One line about the stack's programs; those that do not run are named."""
    if not layout.settings.are_servers_here:
        return "the servers run in containers of their own (docker compose ps)"
    if is_down(layout):
        return "the local stack is down (./seamline up)"
    states = keeper.states(layout).values()
    running = [one.name for one in states if one.is_running]
    others = [f"{one.name} {one.state.lower()}" for one in states if not one.is_running]
    return f"{len(running)} programs run" + (f"; {', '.join(others)}" if others else "")


class Newest(NamedTuple):
    """Of each date the newest take, the live tables as `newest_of_live` has them, the sync's zone, and its declared
    destinations, in whose order all stand."""

    cuts: Sequence[CutState]
    live: Sequence[Reconciliation]
    zone: ZoneInfo
    destinations: Sequence[str]


def newest_verdicts(store: PlatformStore, sync: str) -> Newest:
    declared = declared_destinations(settings.load().declarations, sync)
    live = by_destination(newest_of_live(store.live_reconciliations(sync, headline.COMPARISONS)), declared)
    cuts = by_run(store.cut_states(sync, headline.DATES), declared)
    return Newest(cuts, live, ZoneInfo(store.timezone(sync)), declared)
