"""What a driver's supervisor does in the moments before its driver runs."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.driver_run import DriverId, Order
from seamline.platform import driver_supervisor
from seamline.platform.driver_supervisor import DriverSupervisor

NEVER = ["false"]


class OrderedAtOnce:
    """The loop of a supervisor whose row was ordered to end between its beginning and its driver's start."""

    def __init__(self, _: str, *, cycle: Any, **__: Any) -> None:
        self._cycle = cycle

    def start(self) -> None:
        self._cycle(None)

    def wake(self) -> None:
        self._cycle(None)

    def close(self) -> None:
        pass


def test_an_order_that_comes_before_the_driver_starts_is_written_down_as_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counted as lost, and whoever had ordered it was given no result."""
    written: list[int] = []
    monkeypatch.setattr(driver_supervisor, "NotifyLoop", OrderedAtOnce)
    monkeypatch.setattr(driver_supervisor, "begin", lambda *_, **__: Order.END)
    monkeypatch.setattr(driver_supervisor, "finish", lambda *_, exit_code, **__: written.append(exit_code))
    supervisor = DriverSupervisor(DriverId("dag/run/cut/-1", 1), log_file=tmp_path / "driver.log")
    assert supervisor.run(NEVER) == 143
    assert written == [143]


@pytest.mark.parametrize(("parent", "begins"), [(os.getpid(), True), (1, False)])
def test_a_driver_whose_supervisor_has_gone_meanwhile_does_not_begin(parent: int, begins: bool, tmp_path: Path) -> None:
    """The kernel ends it with its supervisor, but only once it was asked to: killed before, it ran on by itself."""
    guard = driver_supervisor._UNLESS_ORPHANED  # noqa: SLF001 (the race itself takes a kill within a millisecond)
    command = ["sh", "-c", guard, str(parent), "touch", str(tmp_path / "began")]
    assert (subprocess.run(command, check=False).returncode == 0) is begins
    assert (tmp_path / "began").exists() is begins
