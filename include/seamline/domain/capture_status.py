"""How a source's capture is, in words that do not belong to Connect."""

from dataclasses import dataclass
from enum import StrEnum


class CaptureState(StrEnum):
    RUNNING = "running"
    FAILED = "failed"  # the connector or one of its tasks; or it claims to run and writes nothing
    STOPPED = "stopped"  # by a person, or by the byte limit
    PAUSED = "paused"  # by flow control, which lets it go on
    MISSING = "missing"  # Connect does not know it
    STARTING = "starting"


@dataclass(frozen=True, slots=True)
class CaptureStatus:
    state: CaptureState
    error: str = ""
