"""What a capture's servers say, read as a state: a living capture is never taken for a silent one."""

from collections.abc import Callable, Sequence

import pytest

from seamline.adapters.connect import debezium_capture
from seamline.adapters.connect.rest import ConnectorStatus
from seamline.domain.capture_status import CaptureState
from seamline.domain.errors import ConfigError
from seamline.plan.model import SourcePlan
from seamline.stack import server_settings

STARTING = CaptureState.STARTING
PLAN = SourcePlan("bank", "mariadb", "bank", "r", "c", "m", "seamline.bank.log", "seamline-bank")


class Servers:
    """Connect and Kafka at once: a connector that runs, and the ends of its topic that the broker shows, one per
    question.
    """

    def __init__(self, *ends: int, task: str = "RUNNING") -> None:
        self.now_s = 0.0
        self.answers = list(ends)
        self.state = "RUNNING"
        self.task = task
        self.restarts = 0
        self.ended: list[tuple[str, tuple[str, ...]]] = []

    def monotonic(self) -> float:
        return self.now_s

    def status(self, name: str) -> ConnectorStatus:
        return ConnectorStatus(self.state, (self.task,))

    def end_left_open(self, connector: str, topics: Sequence[str]) -> Sequence[str]:
        assert self.restarts == len(self.ended), "the next task would wait for it"
        self.ended.append((connector, tuple(topics)))
        return topics

    def restart_all(self, name: str) -> None:
        self.restarts += 1

    def written_end(self, topic: str) -> int:
        return self.answers.pop(0)

    def states(self, monkeypatch: pytest.MonkeyPatch, *, at_s: list[float]) -> list[CaptureState]:
        monkeypatch.setattr(debezium_capture, "time", self)
        probe = probe_of(self)
        found = []
        for self.now_s in at_s:
            found.append(probe.status().state)
        return found


def probe_of(servers: Servers, hand_over: Callable[[], None] = lambda: None) -> debezium_capture.ConnectCaptureProbe:
    return debezium_capture.ConnectCaptureProbe(
        PLAN,
        client=servers,  # type: ignore[arg-type]
        topics=servers,  # type: ignore[arg-type]
        end_left_open=servers.end_left_open,
        hand_over=hand_over,
    )


def test_what_a_silent_task_left_open_is_ended_before_the_next_one_starts() -> None:
    servers = Servers()
    probe_of(servers).restart_failed()
    assert servers.restarts == 1
    assert servers.ended == [("seamline-bank", ("seamline.bank.log", "seamline.bank.offsets"))]


def test_the_group_of_a_worker_is_the_stacks_own() -> None:
    assert server_settings.CONNECT["group.id"] == debezium_capture.GROUP


def test_a_capture_that_writes_now_and_then_is_none_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(10, 11, 11, 12)
    assert servers.states(monkeypatch, at_s=[1000, 1029, 1058, 1087]) == [CaptureState.RUNNING] * 4


def test_a_capture_that_writes_nothing_for_long_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(1000, 1000, 1000)
    states = servers.states(monkeypatch, at_s=[1000, 1030, 1031])
    assert states == [CaptureState.RUNNING, CaptureState.RUNNING, CaptureState.FAILED]


def test_a_capture_that_has_just_been_started_is_given_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(0, 0, 0)
    states = servers.states(monkeypatch, at_s=[1000, 1029, 1031])
    assert states == [CaptureState.RUNNING, CaptureState.RUNNING, CaptureState.FAILED]


def test_a_silent_capture_that_was_restarted_is_given_twice_the_time_until_it_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large schema history takes its time to be read, while the task says RUNNING."""
    servers = Servers(*[1000] * 5, 1100, 1100)
    monkeypatch.setattr(debezium_capture, "time", servers)
    probe = probe_of(servers)

    def state_at(now_s: float) -> CaptureState:
        servers.now_s = now_s
        return probe.status().state

    assert [state_at(1000), state_at(1031)] == [CaptureState.RUNNING, CaptureState.FAILED]
    probe.restart_failed()
    assert [state_at(1032), state_at(1092), state_at(1093)] == [
        CaptureState.RUNNING,
        CaptureState.RUNNING,
        CaptureState.FAILED,
    ]
    assert [state_at(1100), state_at(1131)] == [CaptureState.RUNNING, CaptureState.FAILED]


@pytest.mark.parametrize("task", ["UNASSIGNED", "RESTARTING"])
def test_a_task_that_does_not_come_to_run_has_failed_and_is_given_twice_the_time(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen of a task that read its offsets for ever after the broker was killed."""
    servers = Servers(task=task)
    monkeypatch.setattr(debezium_capture, "time", servers)
    probe = probe_of(servers)

    def state_at(now_s: float) -> CaptureState:
        servers.now_s = now_s
        return probe.status().state

    assert [state_at(1000), state_at(1045), state_at(1046)] == [STARTING, STARTING, CaptureState.FAILED]
    probe.restart_failed()
    assert servers.restarts == 1
    assert [state_at(1050), state_at(1140), state_at(1141)] == [STARTING, STARTING, CaptureState.FAILED]
    servers.task, servers.answers = "RUNNING", [1200]
    assert state_at(1200) is CaptureState.RUNNING
    servers.task = task
    assert [state_at(1201), state_at(1247)] == [STARTING, CaptureState.FAILED]


def test_a_capture_that_was_stopped_meanwhile_has_its_whole_time_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(task="UNASSIGNED")
    monkeypatch.setattr(debezium_capture, "time", servers)
    probe = probe_of(servers)
    found = []
    for servers.now_s, servers.state in ((1000, "RUNNING"), (1040, "STOPPED"), (1100, "RUNNING"), (1140, "RUNNING")):
        found.append(probe.status().state)
    assert found == [STARTING, CaptureState.STOPPED, STARTING, STARTING]


def test_connect_has_the_logins_of_now_before_a_task_starts_and_the_old_ones_where_there_are_none() -> None:
    servers = Servers()
    given: list[int] = []
    probe_of(servers, lambda: given.append(servers.restarts)).restart_failed()
    assert (given, servers.restarts) == ([0], 1)

    def unreadable() -> None:
        raise ConfigError("the connections file cannot be read")

    probe_of(servers, unreadable).restart_failed()
    assert servers.restarts == 2
