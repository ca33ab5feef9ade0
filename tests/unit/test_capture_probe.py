"""What a capture's servers say, read as a state: a living capture is never taken for a silent one."""

import pytest

from seamline.adapters.connect import capture
from seamline.adapters.connect.rest import ConnectorStatus
from seamline.domain.capture import CaptureState
from seamline.plan.model import SourcePlan

PLAN = SourcePlan("bank", "mariadb", "bank", "r", "c", "m", "seamline.bank.log", "seamline-bank")


class Servers:
    """Connect and Kafka at once: a connector that runs, and the times that the broker tells, one per question."""

    def __init__(self, *last_record_s: float) -> None:
        self.now_s = 0.0
        self.answers = list(last_record_s)

    def time(self) -> float:
        return self.now_s

    def status(self, name: str) -> ConnectorStatus:
        return ConnectorStatus("RUNNING", ("RUNNING",))

    def last_record_ms(self, topic: str) -> int:
        return int(self.answers.pop(0) * 1000)

    def states(self, monkeypatch: pytest.MonkeyPatch, *, at_s: list[float]) -> list[CaptureState]:
        monkeypatch.setattr(capture, "time", self)
        probe = capture.ConnectCaptureProbe(PLAN, client=self, topics=self)  # type: ignore[arg-type]
        found = []
        for self.now_s in at_s:
            found.append(probe.status().state)
        return found


def test_an_answer_without_a_time_takes_nothing_back_that_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(1000, 1050, 0, 1095)
    assert servers.states(monkeypatch, at_s=[1000, 1050, 1100, 1105]) == [CaptureState.RUNNING] * 4


def test_a_capture_that_writes_nothing_for_long_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(1000, 1000, 1000)
    states = servers.states(monkeypatch, at_s=[1000, 1060, 1061])
    assert states == [CaptureState.RUNNING, CaptureState.RUNNING, CaptureState.FAILED]


def test_a_capture_that_has_just_been_started_is_given_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = Servers(0, 0, 0)
    states = servers.states(monkeypatch, at_s=[1000, 1059, 1061])
    assert states == [CaptureState.RUNNING, CaptureState.RUNNING, CaptureState.FAILED]
