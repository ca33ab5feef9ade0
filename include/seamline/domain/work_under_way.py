"""Work that goes on in Airflow: how far it is, and how long it may still take. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from seamline.domain.duration import duration

OVER = frozenset({"success", "skipped", "failed", "upstream_failed", "removed"})


@dataclass(frozen=True, slots=True)
class WorkUnderWay:
    """A run of a DAG. `about`: its business date, "" where it has none. `started_at`: None while it waits for Airflow
    to begin it. `tasks`: their states, as Airflow has them. `lengths`: of runs of the DAG that have ended well."""

    dag_id: str
    run_id: str
    about: str = ""
    started_at: datetime | None = None
    tasks: Sequence[str] = ()
    lengths: Sequence[timedelta] = ()

    @property
    def percent(self) -> int | None:
        """Of its tasks that are over; None where none is known."""
        return 100 * sum(one in OVER for one in self.tasks) // len(self.tasks) if self.tasks else None

    @property
    def usual(self) -> timedelta | None:
        """The median of earlier runs; None where there was none."""
        return sorted(self.lengths)[len(self.lengths) // 2] if self.lengths else None

    def remaining(self, now: datetime) -> timedelta | None:
        """By what is usual; None where nothing is, or it takes longer already."""
        if self.started_at is None or self.usual is None:
            return None
        left = self.usual - (now - self.started_at)
        return left if left > timedelta() else None

    def in_words(self, now: datetime) -> str:
        """One line: what, how far, for how long, how long still."""
        what = f"{self.dag_id} {self.about}".rstrip()
        if self.started_at is None:
            return f"{what}: waits until Airflow begins it"
        far = "" if self.percent is None else f"{self.percent} %, "
        left = self.remaining(now)
        if left is not None:
            still = f"about {duration(left)} left"
        else:
            still = f"longer than the usual {duration(self.usual)}" if self.usual else "none has ended before"
        return f"{what}: {far}for {duration(now - self.started_at)}, {still}"
