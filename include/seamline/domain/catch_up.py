"""Whether a stream that has part of its log before it is through before that log ends, and what is faster. Pure."""

from dataclasses import dataclass
from datetime import timedelta

from seamline.domain.duration import duration
from seamline.domain.load_progress import LoadSoFar

# Sooner than this a stream is through by itself, whatever else is faster.
WORTH_SAYING_S = 600.0
_KEEPS_PACE_S = 60.0
_FAR_S = 24 * 3600.0
# Loading costs the source a read of whole tables: it has to be clearly faster.
_CLEARLY = 0.5
# A load says every few seconds how far it is, but for the time in which a key is built.
_SILENT_S = 120.0


@dataclass(frozen=True, slots=True)
class LastLoad:
    """The last read of all tables into a destination, as it was measured: rows, and seconds with their proof."""

    rows: int
    seconds: float

    @property
    def length(self) -> str:
        """How long it took, for people."""
        return _long(self.seconds)


@dataclass(frozen=True, slots=True)
class RunningLoad:
    """A run that reads the tables of a sync: for how long already, how long the one before it took, and how far it is
    by what it said last; None where there was none before, and where it has not said."""

    sync: str
    run_id: str
    for_s: float
    before: LastLoad | None = None
    so_far: LoadSoFar | None = None

    @property
    def _is_by_the_one_before(self) -> bool:
        """One that takes longer than that is measured by its own pace."""
        return self.before is not None and self.for_s < self.before.seconds

    def ends_in_s(self, *, said_before_s: float = 0.0) -> float:
        """By the one before, else by its own pace; 0 where nobody knows. `said_before_s`: for so long it has said
        nothing new: one that was killed says nothing any more."""
        if self.before is not None and self._is_by_the_one_before:
            return self.before.seconds - self.for_s
        if self.so_far is None or said_before_s > _SILENT_S or not self.so_far.has_pace:
            return 0.0
        left = self.so_far.left
        return max(0.0, left.total_seconds() - said_before_s) if left is not None else 0.0

    def in_words(self, left_s: float, log_full_in_s: float) -> str:
        """That the log, of which it needs all since it began, is full before it ends; 0: it is full."""
        return (
            f"will not make it: the load of {self.sync} (run {self.run_id}) goes on for {_long(self.for_s)}"
            f"{self._by_what()} it has about {_long(left_s)} left; the log, of which it needs all since it began,"
            f" {_full(log_full_in_s)}"
        )

    def _by_what(self) -> str:
        if self.before is not None and self._is_by_the_one_before:
            return f", the last one took {_long(self.before.seconds)} ({self.before.rows:,} rows), so"
        if self.so_far is None:
            return ""
        return f" and has read {self.so_far.rows:,} of about {self.so_far.expected:,} rows, so by its own pace"


@dataclass(frozen=True, slots=True)
class CatchUp:
    """`behind`: records that it has yet to apply. `applied_per_s`, `come_per_s`: records a second, as measured now.
    `log_full_in_s`: until the log takes no more, as it grows now; 0: it is full, and the capture stands.
    `source_keeps_s`: so long the source's own log then keeps what comes; None where that has no end.
    `given_up_after_s`: so long the capture then stands before it is given up by `log.source_backlog_max_gb`; None where
    that is not declared, or nothing comes."""

    behind: int
    applied_per_s: float
    come_per_s: float
    log_full_in_s: float = float("inf")
    source_keeps_s: float | None = None
    given_up_after_s: float | None = None

    @property
    def ends_in_s(self) -> float:
        """Infinite where more comes than is applied."""
        gained = self.applied_per_s - self.come_per_s
        return self.behind / gained if gained > 0 else float("inf") if self.behind else 0.0

    @property
    def is_behind(self) -> bool:
        """More than a minute of what comes, and more than ten minutes of work: a stream that keeps pace has a little
        before it all the time, and gains nothing."""
        work_s = self.behind / self.applied_per_s if self.applied_per_s else float("inf")
        return self.behind > self.come_per_s * _KEEPS_PACE_S and work_s > WORTH_SAYING_S

    @property
    def expires_in_s(self) -> float:
        """Until the source deletes records that nobody has read: first the log is full, then the capture stands."""
        return float("inf") if self.source_keeps_s is None else self.log_full_in_s + self.source_keeps_s

    @property
    def given_up_in_s(self) -> float:
        """Until the capture is given up, so that the source's disk does not fill."""
        return float("inf") if self.given_up_after_s is None else self.log_full_in_s + self.given_up_after_s

    @property
    def makes_it(self) -> bool:
        """It is through before the log is full; or that is so far away that the pace of now says nothing about it. Of a
        log that is full: before the source deletes what the capture has not read, or the capture is given up."""
        if not self.is_behind:
            return True
        if not self.log_full_in_s:
            end_s = min(self.expires_in_s, self.given_up_in_s)
            return end_s < float("inf") and self.ends_in_s <= end_s
        return self.log_full_in_s > _FAR_S or self.ends_in_s <= self.log_full_in_s

    def is_slower_than(self, load: LastLoad | None) -> bool:
        """Whether reading all tables again would be clearly faster."""
        return load is not None and self.is_behind and load.seconds < _CLEARLY * self.ends_in_s

    def pace_in_words(self) -> str:
        """How much is before it, how fast it goes, and when it is through."""
        when = f"through in about {_long(self.ends_in_s)}" if self.ends_in_s < float("inf") else "never through so"
        return (
            f"{self.behind:,} records before it, applies {self.applied_per_s:,.0f} a second while"
            f" {self.come_per_s:,.0f} come, and is {when}"
        )

    def end_in_words(self) -> str:
        """When the log ends, and what then: of the source's own limit and ours the one that is nearer."""
        if self.log_full_in_s == float("inf"):
            return "the log does not grow now"
        full = f"the log {_full(self.log_full_in_s)}"
        if self.given_up_after_s is not None and self.given_up_in_s <= self.expires_in_s:
            return (
                f"{full}, and the capture is given up in about {_long(self.given_up_in_s)} from now"
                " (`log.source_backlog_max_gb`)"
            )
        if self.source_keeps_s is None:
            return f"{full}, and the source keeps what comes, without a limit of its own"
        return f"{full}, and the source deletes what was not read in about {_long(self.expires_in_s)} from now"


def load_in_words(load: LastLoad, sync: str, destination: str) -> str:
    """That reading again is cheaper, by which figures, and how it is done."""
    rate = load.rows / load.seconds if load.seconds else 0.0
    return (
        f"reading again is cheaper: the last load of all tables took {_long(load.seconds)} ({load.rows:,} rows,"
        f" {rate:,.0f} a second). Run `{sync}__onboard` and name {destination} under Destinations to load"
    )


def _full(in_s: float) -> str:
    if not in_s:
        return "is full: the capture stands still"
    return f"is full in about {_long(in_s)}: from then on the capture stands still"


def _long(seconds: float) -> str:
    return duration(timedelta(seconds=seconds))
