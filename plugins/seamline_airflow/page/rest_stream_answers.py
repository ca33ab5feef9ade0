"""What REST answers about streams."""

from datetime import datetime

from pydantic import Field

from seamline_airflow.page.rest_values import Answer


class LogKept(Answer):
    """What the log keeps for a stream, as the watch of its source has measured it. A moment is null where it is not
    within thirty days, or not known; `faster_load_s`: how long the last load of all tables took, where that is clearly
    less than catching up."""

    size_bytes: int
    measured_at: datetime
    grows_bytes_per_s: float | None
    full_at: datetime | None
    cut_off_at: datetime | None
    source_deletes_at: datetime | None
    given_up_at: datetime | None
    faster_load_s: float | None


class Stream(Answer):
    stream: str
    state: str
    is_well: bool
    since: datetime | None
    lag_s: float | None
    records_behind: int | None
    findings: int
    why: str
    may_restart: bool
    log_kept: LogKept | None


class StreamWanted(Answer):
    """What people want of it; its `state` follows within a moment."""

    stream: str
    paused: bool
    paused_by: str
    paused_at: datetime | None
    reason: str


class LoadStarted(Answer):
    run: str = Field(description="Airflow's name of the run of the onboarding that loads its tables again.")
