"""From a fault to its alarm, or to its mend, it takes three minutes at most: the worst case of each kind of fault,
computed from the constants that the code has. A constant that is raised too far is caught here, not in an outage."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from seamline.adapters.connect import rest
from seamline.adapters.connections import Connection
from seamline.adapters.hanging import SILENCE_S
from seamline.databases.mysql import client
from seamline.plan.model import StreamPlan
from seamline.platform.control import PlatformStreamControl
from seamline.platform.database import parameters
from seamline.platform.host_coordinator import SETTLED_S, HostCoordinator
from seamline.sync import source_watch, stream_reports, stream_state
from seamline.sync.capture_watch import CaptureWatch
from seamline.sync.stream_host import BackOff, StreamRoster
from seamline_spark.stream_host import host, spark_streams

WITHIN_S = 180.0
# Of Airflow, from the minute of a schedule to the first line of its task, as it was measured on a busy machine; it is
# the one value here that is no constant of ours.
TASK_STARTS_WITHIN_S = 15.0
SOMEWHERE = Connection("x", "postgres", "localhost", 5432)


@dataclass(frozen=True)
class Constants:
    """Seconds."""

    stream_poll: float  # the control of a stream reports
    host_poll: float  # the host looks into the platform database
    host_look: float  # the host's loop
    settled: float  # what the host finds must last
    silence_max: float
    still_max: float
    host_gone_max: float
    watched_every: float  # the watch in Airflow
    roster_silence: float  # a worker that is silent is replaced
    fenced: float  # one that was taken over is started again by whoever has done it
    killed_within: float
    back_off: float
    lag_max: float  # the default: a sync may declare another
    heartbeats_missed: float
    heartbeat: float
    source_silence: float
    source_answer: float  # a small question that gets no answer
    status: float
    connect_answer: float
    connect_silence: float
    capture_stopped: float
    capture_back_off: float
    session: float  # a new session with the platform database


def _default(of: Callable[..., Any], name: str) -> float:
    return float(inspect.signature(of).parameters[name].default)


def real() -> Constants:
    rhythm, capture = source_watch.Rhythm(), CaptureWatch("s", "c", 1.0)
    return Constants(
        stream_poll=_default(PlatformStreamControl.__init__, "poll_s"),
        host_poll=_default(HostCoordinator.__init__, "poll_s"),
        host_look=host._LOOK_S,
        settled=SETTLED_S,
        silence_max=stream_state.SILENCE_MAX_S,
        still_max=stream_state.STILL_MAX_S,
        host_gone_max=stream_state.HOST_GONE_MAX_S,
        watched_every=stream_state.WATCHED_EVERY_S,
        roster_silence=StreamRoster.silence_s,
        fenced=StreamRoster.fenced_s,
        killed_within=spark_streams._KILLED_WITHIN_S,
        back_off=BackOff().max_s,
        lag_max=StreamPlan().lag_max_s,
        heartbeats_missed=stream_reports.HEARTBEATS_MISSED_S,
        heartbeat=rhythm.heartbeat_s,
        source_silence=rhythm.silence_s,
        source_answer=max(client._LIMIT_S, SILENCE_S * 1.5),
        status=rhythm.status_s,
        connect_answer=rest._REQUEST_TIMEOUT_S,
        connect_silence=rhythm.silence_s,
        capture_stopped=capture.stopped_after_s,
        capture_back_off=capture.back_off.max_s,
        session=float(parameters(SOMEWHERE, application_name="x", statement_timeout_s=1)["connect_timeout"]),
    )


def _watched(of: Constants, lasts_s: float) -> float:
    """What the host notices of a stream once it lasts for so long."""
    return lasts_s + of.stream_poll + of.settled + 2 * of.host_poll


def _by_airflow(of: Constants, lasts_s: float) -> float:
    return lasts_s + of.watched_every + TASK_STARTS_WITHIN_S


def _asked_until(silence_s: float, every_s: float, answer_s: float) -> float:
    """Until one that does not answer is an alarm: its first question is due, each is given up after `answer_s` at most,
    and the silence counts from the end of the first."""

    def takes(answer: float) -> float:
        return every_s + answer + math.ceil(silence_s / max(every_s, answer, 1.0)) * max(every_s, answer, 1.0)

    return max(takes(share / 100 * answer_s) for share in range(101))


BOUNDS: dict[str, Callable[[Constants], float]] = {
    "a worker that died is started again": lambda c: c.host_look + c.back_off,
    "a worker that is suspended is replaced": lambda c: (
        c.roster_silence + 2 * c.host_poll + c.host_look + c.killed_within + c.back_off
    ),
    "a stream that is not heard": lambda c: _watched(c, c.silence_max),
    "a stream that hangs, alive and without progress": lambda c: _watched(c, c.still_max),
    "a stream that lags beyond its limit": lambda c: _watched(c, 0.0),
    "a log through which nothing comes": lambda c: _watched(c, max(c.lag_max, c.heartbeats_missed)),
    "a stream that has failed for good": lambda c: c.host_look + c.host_poll,
    "a stream that was taken over and not started again": lambda c: c.fenced + c.host_look + c.host_poll,
    "a stream host that is gone": lambda c: _by_airflow(c, c.host_gone_max),
    "a connector that has failed": lambda c: c.status + c.connect_answer + c.host_look + c.host_poll,
    "a connector that has failed is started again": lambda c: (
        c.status + c.connect_answer + c.host_look + c.capture_back_off
    ),
    "a connector that is stopped": lambda c: c.status + c.connect_answer + c.capture_stopped + c.status + c.host_poll,
    "Connect that does not answer": lambda c: (
        _asked_until(c.connect_silence, c.status, c.connect_answer) + c.host_look + c.host_poll
    ),
    "a source that takes no heartbeat": lambda c: (
        _asked_until(c.source_silence, c.heartbeat, c.source_answer) + c.host_look + c.host_poll
    ),
    "the platform database, whose look in Airflow is red": lambda c: _by_airflow(c, c.session),
    # Nothing of Airflow's is in it: the host looks and raises by itself.
    "a stream that lags while Airflow is away": lambda c: _watched(c, 0.0),
    # `take` asks before it starts anything, and is refused by name.
    "a second stream host of one pool": lambda c: c.session,
}


@pytest.mark.parametrize("fault", BOUNDS)
def test_each_fault_is_found_or_mended_within_three_minutes(fault: str) -> None:
    assert BOUNDS[fault](real()) <= WITHIN_S


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("host_gone_max", 2),
        ("watched_every", 2),
        ("still_max", 2),
        ("silence_max", 3),
        ("roster_silence", 3),
        ("settled", 3),
        ("lag_max", 3),
        ("fenced", 3),
        ("capture_stopped", 3),
        ("connect_answer", 2),
        ("source_answer", 2),
    ],
)
def test_a_constant_that_is_raised_too_far_is_caught(name: str, factor: float) -> None:
    """Planted."""
    planted = replace(real(), **{name: factor * getattr(real(), name)})
    assert any(bound(planted) > WITHIN_S for bound in BOUNDS.values())


def test_every_constant_is_in_a_bound() -> None:
    for one in fields(Constants):
        longer = replace(real(), **{one.name: getattr(real(), one.name) + 3600.0})
        assert any(bound(longer) > bound(real()) for bound in BOUNDS.values()), one.name


def test_what_was_promised_and_not_held_before_is_caught() -> None:
    """A stream that tried in vain was an alarm after seven minutes, a host that was gone after 195 s."""
    before = replace(real(), still_max=300.0, host_gone_max=60.0)
    late = [fault for fault, bound in BOUNDS.items() if bound(before) > WITHIN_S]
    assert late == ["a stream that hangs, alive and without progress", "a stream host that is gone"]
