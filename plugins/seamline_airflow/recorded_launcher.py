"""Drivers of tasks, which every machine finds by their rows in the platform database.

A row is claimed before its driver starts, and the driver's supervisor keeps it. So an attempt on another machine shares
the driver that may live, and starts its own only behind a fence.
"""

import logging
import sys
import time
from dataclasses import replace
from typing import Any, Protocol

from seamline.domain.driver_run import LOST_AFTER_S, Claim, ClaimResult, DriverId, DriverRun
from seamline.domain.errors import TransientError
from seamline_airflow.launcher import DetachedLauncher, DriverJob

log = logging.getLogger(__name__)

_SUPERVISOR = "seamline.platform.driver_supervisor"
_POLL_S = 0.5
# Longer than the driver's side takes to end a driver that does not want to.
_OBEYS_WITHIN_S = 30.0


class DriverRuns(Protocol):
    """The rows, as `PlatformDriverRuns` keeps them."""

    def claim(self, name: str, *, above: int = 0) -> Claim: ...

    def read(self, driver: DriverId) -> DriverRun: ...

    def order_end(self, driver: DriverId, *, by: str) -> None: ...

    def fence(self, driver: DriverId) -> None: ...


class RecordedLauncher:
    """Every call may be repeated, on any machine. TransientError: the platform database is away."""

    def __init__(self, runs: DriverRuns, local: DetachedLauncher, *, obeys_within_s: float = _OBEYS_WITHIN_S) -> None:
        self._runs = runs
        self._local = local
        self._obeys_within_s = obeys_within_s

    def submit(self, job: DriverJob) -> DriverId:
        """Start the job's driver; one that may be alive under this name, anywhere, is returned instead. One that was
        ordered to end is waited for."""
        with self._local.alone(job.name):
            claim = self._claim(job.name)
            if claim.result is ClaimResult.NEW:
                if living := self._local.living(job.name):
                    # The claim fenced it; the next one must not start beside it.
                    self._local.kill(living)
                argv = [sys.executable, "-m", _SUPERVISOR, job.name, str(claim.driver.attempt), *job.argv]
                self._local.launch(replace(job, argv=argv), attempt=claim.driver.attempt)
            return claim.driver

    def read(self, driver: DriverId) -> DriverRun:
        return self._runs.read(driver)

    def end(self, driver: DriverId, *, by: str) -> None:
        """Order its end and wait until it has ended, or counts as lost. Its processes are ended directly where this
        machine has them and they do not obey, or the order cannot be given."""
        try:
            self._runs.order_end(driver, by=by)
        except TransientError:
            if not self._end_here(driver):
                raise
            return
        if not self._has_ended(driver, within_s=self._obeys_within_s) and self._end_here(driver):
            self._runs.fence(driver)
        if not self._has_ended(driver, within_s=LOST_AFTER_S):
            raise _disobeys(driver)

    def _claim(self, name: str) -> Claim:
        claim = self._runs.claim(name, above=self._local.newest(name))
        while claim.result is ClaimResult.ENDING:
            if not self._has_ended(claim.driver, within_s=LOST_AFTER_S):
                raise _disobeys(claim.driver)
            claim = self._runs.claim(name, above=self._local.newest(name))
        return claim

    def _has_ended(self, driver: DriverId, *, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while self._runs.read(driver).may_live:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _end_here(self, driver: DriverId) -> bool:
        """Whether it was a driver of this machine, which has ended now."""
        handle = self._local.find(driver.name, driver.attempt)
        if handle is None or not handle.is_of_here:
            return False
        self._local.kill(handle)
        return True


def _disobeys(driver: DriverId) -> TransientError:
    return TransientError(
        f"the driver of {driver} was ordered to end and still runs",
        hint="its row in the platform database, table `driver_run`, names its machine and process: end it there",
    )


def to_json(driver: DriverId) -> dict[str, Any]:
    return {"name": driver.name, "attempt": driver.attempt}


def driver_of(document: Any) -> DriverId:
    """A handle of a version without rows names no driver that is known: its task starts one, behind that one's end."""
    return DriverId(document.get("name", ""), document.get("attempt", 0))
