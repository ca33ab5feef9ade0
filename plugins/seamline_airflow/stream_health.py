"""Is a stream alive, does it move, is it within its lag? Judged from what streams and hosts report. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from seamline.domain.errors import Fenced
from seamline.domain.ledger import StreamId
from seamline.plan.model import plan_from_json
from seamline.ports import StreamReport, WantedStream

# Streams report every few seconds. A host that died is started again within seconds by its supervisor: a silence of
# this length means that nobody did.
SILENCE_MAX_S = 60.0
# The source's heartbeats move every stream each ten seconds, and its host speaks for an idle one.
STILL_MAX_S = 300.0
_ENDED = frozenset({"failed", "stopped"})


class HostLike(Protocol):
    @property
    def pool(self) -> str: ...
    @property
    def holder(self) -> str: ...
    @property
    def is_alive(self) -> bool: ...
    @property
    def silent_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong. `subject` names the stream or the pool; `kind` is stable, for alarms."""

    kind: str
    subject: str
    message: str


def stream_trouble(stream: StreamId, report: StreamReport | None, *, lag_max_s: float) -> Trouble | None:
    """What is wrong with a wanted stream by its newest report; None when it is well."""
    if report is None:
        return Trouble("stream_silent", str(stream), "it has never reported; is its stream host running?")
    if report.state in _ENDED:
        return None if _is_taken_over(report) else _ended(stream, report)
    if report.state == "no_slot":
        return Trouble(
            "stream_no_slot", str(stream), "its host has no slot for it; give the host more, or another pool"
        )
    if report.age_s > SILENCE_MAX_S:
        return Trouble("stream_silent", str(stream), f"no word for {report.age_s:.0f} s, the last was {report.state}")
    if report.state == "paused":
        return None
    detail = f" ({report.error})" if report.error else ""
    if report.lag_s > lag_max_s:
        return Trouble(
            "stream_late", str(stream), f"it is {report.lag_s:.0f} s behind, {lag_max_s:g} s are allowed{detail}"
        )
    if report.still_s > STILL_MAX_S:
        return Trouble(
            "stream_still",
            str(stream),
            f"it is {report.state}{detail} and has not come further for {report.still_s:.0f} s: it tries in vain, or"
            " its destination does not answer, or nothing comes from its source, or one very large transaction is on"
            " its way",
        )
    return None


def _is_taken_over(report: StreamReport) -> bool:
    """A run that publishes takes the stream from its worker, and starts it again a moment later."""
    return report.error.startswith(Fenced.__name__) and report.age_s <= SILENCE_MAX_S


def _ended(stream: StreamId, report: StreamReport) -> Trouble:
    return Trouble("stream_ended", str(stream), f"it is {report.state}: {report.error or 'no error was reported'}")


def host_troubles(hosts: Iterable[HostLike], pools: Iterable[str]) -> list[Trouble]:
    """Pools with wanted streams whose host has been gone for longer than its supervisor needs."""
    wanted = set(pools)
    return [
        Trouble(
            "host_gone",
            host.pool,
            f"the stream host of pool {host.pool} ({host.holder or 'none yet'}) is gone since {host.silent_s:.0f} s",
        )
        for host in hosts
        if host.pool in wanted and not host.is_alive and host.silent_s > SILENCE_MAX_S
    ]


def troubles(
    wanted: Iterable[WantedStream], reports: Mapping[StreamId, StreamReport], hosts: Iterable[HostLike]
) -> list[Trouble]:
    """Everything that is wrong, hosts first: a host that is gone explains its silent streams."""
    plans = {each: plan_from_json(each.plan_json).stream for each in wanted}
    found = host_troubles(hosts, (stream.pool for stream in plans.values()))
    for each, stream in plans.items():
        trouble = stream_trouble(each.stream, reports.get(each.stream), lag_max_s=stream.lag_max_s)
        if trouble:
            found.append(trouble)
    return found


def in_words(report: StreamReport) -> str:
    """One line for logs and pages."""
    behind = max(0, report.log_end_offset - report.next_offset)
    return (
        f"{report.stream}: {report.state}, {report.lag_s:.1f} s and {behind} records behind, at {report.position},"
        f" {report.units} units, {report.changes} changes, {report.findings} findings, heard {report.age_s:.0f} s ago"
    )
