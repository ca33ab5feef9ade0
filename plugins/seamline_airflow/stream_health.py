"""What is wrong with streams and their hosts, for tasks and triggers. Judged by `seamline.sync.stream_state`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from seamline.domain.alarms import AlarmKind
from seamline.domain.ledger import StreamId
from seamline.plan.document import readable_plan
from seamline.ports import StreamReport, WantedStream
from seamline.sync.stream_state import HOST_GONE, HOST_GONE_MAX_S, HostLike, StreamState, stream_states
from seamline_airflow import parts

# Of the streams of a host, in one alarm.
_NAMED_MAX = 10


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong. `subject` names the stream or the pool; `kind` is stable, for alarms."""

    kind: AlarmKind
    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class Look:
    """Streams and hosts at one moment. `unreadable`: streams whose report cannot be read, and why. `undeclared`: those
    that have ended because they are declared no more."""

    wanted: tuple[WantedStream, ...]
    states: Mapping[StreamId, StreamState]
    reports: Mapping[StreamId, StreamReport]
    hosts: tuple[Any, ...]
    alarms: tuple[Any, ...]
    unreadable: Mapping[StreamId, str] = field(default_factory=dict)
    undeclared: frozenset[StreamId] = frozenset()


def look(sync: str = "") -> Look:
    """Of all streams, or of those of one sync. Whoever judges them by it stops where a report cannot be read."""
    with parts.platform() as store, parts.director() as director:
        wanted = director.wanted_of(sync) if sync else director.all_wanted()
        gone = frozenset(one.stream for one in director.marks() if not one.is_wanted)
        seen = _seen(wanted, director.latest_reports(sync), director.hosts(), store.open_alarms())
    return replace(seen, undeclared=gone)


def look_at_readable() -> Look:
    """Of all streams, for who shows them: what cannot be read of one takes no other away."""
    with parts.platform() as store, parts.director() as director:
        reports, unreadable = director.readable_reports()
        seen = _seen(director.all_wanted(), reports, director.hosts(), store.open_alarms())
    return replace(seen, unreadable=unreadable)


def _seen(
    wanted: Sequence[WantedStream],
    reports: Mapping[StreamId, StreamReport],
    hosts: Sequence[Any],
    alarms: Sequence[Any],
) -> Look:
    states = stream_states(wanted, reports, hosts, alarms, now=datetime.now(UTC))
    return Look(tuple(wanted), states, reports, tuple(hosts), tuple(alarms))


def trouble_of(state: StreamState) -> Trouble | None:
    return Trouble(state.alarm, str(state.stream), state.alarm_in_words) if state.alarm else None


def host_troubles(hosts: Iterable[HostLike], pools: Iterable[str]) -> list[Trouble]:
    """Pools with wanted streams whose host has been gone for longer than its supervisor needs."""
    wanted = set(pools)
    return [
        Trouble(
            HOST_GONE,
            host.pool,
            f"the stream host of pool {host.pool} ({host.holder or 'none yet'}) is gone since {host.silent_s:.0f} s",
        )
        for host in hosts
        if host.pool in wanted and not host.is_alive and host.silent_s > HOST_GONE_MAX_S
    ]


def troubles(seen: Look) -> list[Trouble]:
    """Everything that is wrong, hosts first. One that is gone explains its silent streams: they are named with it and
    are no trouble of their own."""
    plans = {each.stream: readable_plan(each.plan_json) for each in seen.wanted}
    pools = {stream: plan.stream.pool for stream, plan in plans.items() if plan is not None}
    of_streams = [trouble for each in seen.wanted if (trouble := trouble_of(seen.states[each.stream]))]
    silent = {trouble.subject for trouble in of_streams if trouble.kind == HOST_GONE}
    gone = [
        _with_streams(
            host, [str(stream) for stream, pool in pools.items() if pool == host.subject and str(stream) in silent]
        )
        for host in host_troubles(seen.hosts, pools.values())
    ]
    return [*gone, *(trouble for trouble in of_streams if trouble.kind != HOST_GONE)]


def _with_streams(host: Trouble, silent: Sequence[str]) -> Trouble:
    """`silent`: its streams."""
    if not silent:
        return host
    more = f" and {len(silent) - _NAMED_MAX} more" if len(silent) > _NAMED_MAX else ""
    return replace(host, message=f"{host.message}; silent with it: {', '.join(silent[:_NAMED_MAX])}{more}")


def in_words(state: StreamState, report: StreamReport | None) -> str:
    """One line for the log of a task."""
    if report is None:
        return f"{state.stream}: {state.in_words()}"
    return (
        f"{state.stream}: {state.in_words()}; at {report.position}, {report.transactions} transactions,"
        f" {report.changes} changes,"
        f" {report.findings} findings, reported {report.age_s:.0f} s ago"
    )
