"""What `status` looks at: the newest verdicts, the streams, what goes on and what is wrong, as of now."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from seamline import registry, settings
from seamline.cli.cuts import missing_of
from seamline.domain.cut_state import CutState, newest_of_live
from seamline.domain.declared import StreamMark
from seamline.domain.errors import TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.masking import Hidden, masked
from seamline.domain.runs import Reconciliation
from seamline.domain.separate import COMPARED_ONLY
from seamline.domain.sign_off import SignOff
from seamline.platform.signatures import PlatformSignatures
from seamline.platform.store import Alarm, PlatformStore
from seamline.ports import WantedStream
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import declared_destinations, load_each, onboarded_destinations, only_compares
from seamline.spec.sensitive import hidden_columns
from seamline.stack import supervisor as keeper
from seamline.stack.layout import Layout
from seamline.sync import headline, under_way
from seamline.sync.missing import Missing
from seamline.sync.shown_order import by_destination, by_run, streams_in_order
from seamline.sync.stream_state import StreamState, Word, alarms_over, stream_states


@dataclass(frozen=True, slots=True)
class Streams:
    """All streams as of now, their findings, and the open alarms: those that hold, and those that are over.
    `undeclared`: those that are declared no more."""

    wanted: Sequence[WantedStream]
    states: Mapping[StreamId, StreamState]
    findings: Mapping[StreamId, int]
    alarms: Sequence[Alarm]
    over: Sequence[Alarm]
    undeclared: Sequence[StreamMark] = ()

    def of(self, sync: str, declared: Sequence[str]) -> list[StreamState]:
        """Those of one sync, in the order of its declared destinations."""
        mine = (state for stream, state in self.states.items() if stream.sync == sync)
        return streams_in_order(mine, declared)


class Newest(NamedTuple):
    """Of each date the newest take, the live tables as `newest_of_live` has them, the sync's zone, and its declared
    destinations, in whose order all stand."""

    cuts: Sequence[CutState]
    live: Sequence[Reconciliation]
    zone: ZoneInfo
    destinations: Sequence[str]


@dataclass(frozen=True, slots=True)
class SyncSeen:
    """`state`: how far its onboarding is; `word`: the one for it as of now; `mistakes`: of its declarations; `missing`:
    business dates without a published cut."""

    name: str
    state: str
    word: str
    zone: tzinfo
    cuts: Sequence[CutState]
    live: Sequence[Reconciliation]
    streams: Sequence[StreamState]
    notes: Sequence[under_way.Note]
    sign_offs: Sequence[SignOff]
    mistakes: DeclarationsInvalid | None
    missing: Sequence[Missing] = ()

    @property
    def is_wrong(self) -> bool:
        """What is on its way, a cut that runs or a stream that starts, is no fault."""
        is_well = headline.of_verdicts(self.cuts, self.live) in headline.WELL
        is_new = not self.cuts and not self.live
        does_stand = any(not one.is_green and one.word is not Word.STARTING for one in self.streams)
        return not (is_well or is_new) or does_stand or headline.is_failed(self.notes) or self.mistakes is not None


@dataclass(frozen=True, slots=True)
class Seen:
    streams: Streams
    syncs: Sequence[SyncSeen]

    @property
    def is_red(self) -> bool:
        return bool(self.streams.alarms) or any(one.is_wrong for one in self.syncs)

    def zone_of(self, alarm: Alarm) -> tzinfo:
        """That of the syncs which the alarm concerns, as those of a source; UTC where they have several, or none is
        known."""
        wanted = self.streams.wanted
        zones = {str(one.zone): one.zone for one in self.syncs if alarm.about in headline.concerns(one.name, wanted)}
        return next(iter(zones.values())) if len(zones) == 1 else UTC


def look(layout: Layout, names: Sequence[str]) -> Seen:
    """What is known of these syncs now."""
    outcomes = {file.stem: outcome for file, outcome in load_each(layout.settings.declarations).items()}
    try:
        with closing(registry.platform()) as store, closing(registry.signatures()) as signatures:
            streams = look_at_streams(store)
            syncs = tuple(_seen(store, signatures, streams, name, outcomes[name]) for name in names)
            return Seen(streams, syncs)
    except TransientError as error:
        if is_down(layout):
            # Its servers are down with it, and the error's own cure would send people to look for them.
            error.hint = "`./seamline up` starts the local stack"
        raise


def _seen(
    store: PlatformStore, signatures: PlatformSignatures, streams: Streams, name: str, outcome: object
) -> SyncSeen:
    """`outcome`: what became of its declarations."""
    state, (cuts, live, zone, destinations) = store.sync_state(name), newest_verdicts(store, name)
    mine = streams.of(name, destinations)
    alarms = [one for one in streams.alarms if one.about in headline.concerns(name, streams.wanted)]
    notes = _notes(store, name, zone)
    known = state or (COMPARED_ONLY if only_compares(settings.load().declarations, name) else "not onboarded yet")
    return SyncSeen(
        name,
        str(known),
        headline.of_sync(cuts, live, mine, alarms, notes),
        zone,
        cuts,
        live,
        tuple(mine),
        tuple(notes),
        tuple(signatures.kept([name])),
        outcome if isinstance(outcome, DeclarationsInvalid) else None,
        tuple(missing_of(store, name, datetime.now(UTC))),
    )


def _notes(store: PlatformStore, sync: str, zone: tzinfo) -> list[under_way.Note]:
    return under_way.notes(
        sync,
        [store.latest_run(sync, kind) for kind in under_way.KINDS],
        declared=onboarded_destinations(settings.load().declarations, sync),
        onboarded=store.published_into(sync),
        zone=zone,
    )


def look_at_streams(store: PlatformStore) -> Streams:
    alarms = store.open_alarms()
    with closing(registry.director()) as director:
        reports, hosts = director.latest_reports(), director.hosts()
        wanted, marks = director.all_wanted(), director.marks()
        states = stream_states(wanted, reports, hosts, alarms, now=datetime.now(UTC))
    over = alarms_over(alarms, states, hosts)
    findings = {stream: one.findings for stream, one in reports.items()}
    holds = [one for one in alarms if one not in over]
    undeclared = [one for one in marks if one.since is not None]
    return Streams(wanted, states, findings, holds, [one for one in alarms if one in over], undeclared)


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


def newest_verdicts(store: PlatformStore, sync: str) -> Newest:
    """As they may be shown: values of sensitive columns are masked."""
    declared = declared_destinations(settings.load().declarations, sync)
    live = by_destination(newest_of_live(store.live_reconciliations(sync, headline.COMPARISONS)), declared)
    cuts = by_run(store.cut_states(sync, headline.DATES), declared)
    return Newest(masked(cuts, _hidden, sync), masked(live, _hidden, sync), ZoneInfo(store.timezone(sync)), declared)


def _hidden(sync: str) -> Hidden:
    return hidden_columns(settings.load().declarations, sync)
