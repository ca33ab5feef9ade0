"""What every machine knows of one Spark driver of a task: its row in the platform database.

The row is a lease. The driver's own side renews it, and ends the driver when it cannot. So a row that has been silent
for `LOST_AFTER_S` has no living driver, wherever that ran, and the next attempt may start one.
"""

from dataclasses import dataclass
from enum import StrEnum

HEARTBEAT_S = 5.0
# Without a confirmed heartbeat for so long the driver's side ends the driver; it takes some seconds.
GIVES_UP_AFTER_S = 120.0
LOST_AFTER_S = 180.0
# A driver begins only by its row. One that was claimed and has not begun may be fenced at any time, so this is short.
BEGINS_WITHIN_S = 60.0


class DriverState(StrEnum):
    """What the row says; `LOST` was written by whoever fenced it."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


class DriverStatus(StrEnum):
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    LOST = "LOST"  # gone without an exit code: killed together with its supervisor, or its machine is gone


class Order(StrEnum):
    """What the row asks of the driver's side."""

    GO_ON = "go on"
    END = "end"
    FENCED = "fenced"


class ClaimResult(StrEnum):
    NEW = "new"  # the claimer starts the driver
    LIVING = "living"  # somebody's driver is alive and is shared
    ENDING = "ending"  # it was ordered to end, and has not yet


@dataclass(frozen=True, slots=True)
class DriverId:
    """`name` is the same for every attempt of one task instance; `attempt` only grows."""

    name: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.name}, attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Claim:
    driver: DriverId
    result: ClaimResult


@dataclass(frozen=True, slots=True)
class DriverRun:
    """A row. `holder` is the process that renews it, or the one that claimed it; `log` is a path of that machine.
    `last_lines` are the end of that log, once the driver has ended."""

    driver: DriverId
    state: DriverState
    holder: str
    silent_s: float
    log: str = ""
    end_ordered_by: str = ""
    exit_code: int | None = None
    last_lines: tuple[str, ...] = ()

    @property
    def may_live(self) -> bool:
        """Whether a driver of it may be alive somewhere. Unknown counts as alive."""
        bounds = {DriverState.STARTING: BEGINS_WITHIN_S, DriverState.RUNNING: LOST_AFTER_S}
        return self.silent_s <= bounds.get(self.state, -1.0)

    @property
    def status(self) -> DriverStatus:
        if self.may_live:
            return DriverStatus.RUNNING
        if self.state is not DriverState.ENDED or self.exit_code is None:
            return DriverStatus.LOST
        return DriverStatus.SUCCEEDED if self.exit_code == 0 else DriverStatus.FAILED
