"""What a log keeps for a stream that has yet to apply it, what that costs, and until when it may go on. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, tzinfo
from typing import Any

from seamline.domain.calendar import moment_in_words
from seamline.domain.catch_up import LastLoad
from seamline.domain.log_fill import gib_in_words
from seamline.domain.phrase import joined, phrase

# Beyond that a pace of ten minutes says nothing.
_FAR_S = 30 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class LogKept:
    """As the watch of the stream's source has measured it. Seconds count from the moment of that measurement.

    `size_bytes`: of the records on the broker that the stream has yet to apply. `grows_per_s`: bytes a second that
    come, over the last ten minutes; None where the log was not watched for long enough.
    `full_in_s`: until the log is full as it grows now, and its capture stands; 0: it is full; None: never full so.
    `is_disk`: what fills first is the broker's disk, and not `log.max_gb`.
    `cut_off_in_s`: until the stream has `stream.cut_off_behind_gb` before it; None: nothing is declared, or never so.
    `has_source_limit`: whether the source's server deletes its own log by a limit; None where that is not known.
    `source_in_s`: until it deletes what the capture has not read by then; None: it does not, or never so.
    `given_up_in_s`: until it keeps `log.source_backlog_max_gb` and the capture is given up; None: none is declared, or
    never so.
    `load`: the last load of all tables, where it is clearly faster than catching up.
    """

    size_bytes: int
    grows_per_s: float | None = None
    full_in_s: float | None = None
    is_disk: bool = False
    cut_off_in_s: float | None = None
    has_source_limit: bool | None = None
    source_in_s: float | None = None
    given_up_in_s: float | None = None
    load: LastLoad | None = None

    def in_words(self, at: datetime, zone: tzinfo) -> str:
        """For people. `at`: when it was measured."""
        kept = phrase("the log keeps %(size)s for it", size=gib_in_words(self.size_bytes))
        if self.grows_per_s:
            rate = gib_in_words(self.grows_per_s)
            kept = phrase("%(kept)s and grows by %(rate)s a second now", kept=kept, rate=rate)
        return joined("; ", [kept, *self._until(at, zone)])

    def moment(self, at: datetime, seconds: float | None) -> datetime | None:
        """When that is; None where it is not within thirty days."""
        return None if seconds is None or seconds > _FAR_S else at + timedelta(seconds=seconds)

    def _until(self, at: datetime, zone: tzinfo) -> list[str]:
        if self.full_in_s == 0:
            return [phrase("the log is full, and the capture stands still"), self._source_in_words(at, zone)]
        if self.grows_per_s is None:
            return [phrase("until when is not known yet: how fast the log grows is measured over a minute")]
        full, cut_off = self.moment(at, self.full_in_s), self.moment(at, self.cut_off_in_s)
        found: list[str] = []
        if cut_off is not None and (full is None or cut_off <= full):
            moment = moment_in_words(cut_off, zone)
            found.append(phrase("at this rate it is cut off at %(moment)s (stream.cut_off_behind_gb)", moment=moment))
        if full is None:
            return [*found, phrase("at this rate it is not full (log.max_gb) within 30 days")]
        moment = moment_in_words(full, zone)
        limit = phrase("the broker's disk") if self.is_disk else "log.max_gb"
        full_at = phrase(
            "at this rate it is full (%(limit)s) at %(moment)s, and then the capture stands still",
            limit=limit,
            moment=moment,
        )
        return [*found, full_at, self._source_in_words(at, zone)]

    def _source_in_words(self, at: datetime, zone: tzinfo) -> str:
        if self.has_source_limit is None:
            return phrase("how long the source keeps its own log is not known")
        given_up, moment = self.moment(at, self.given_up_in_s), self.moment(at, self.source_in_s)
        if given_up is not None and (moment is None or given_up <= moment):
            return phrase(
                "the capture is given up (log.source_backlog_max_gb) at %(moment)s",
                moment=moment_in_words(given_up, zone),
            )
        if not self.has_source_limit:
            return phrase("the source keeps what comes then: no limit is declared there")
        if moment is None:
            return phrase("the source keeps what comes then for more than 30 days")
        return phrase("the source deletes what was not read at %(moment)s", moment=moment_in_words(moment, zone))


def log_kept_from_json(document: Mapping[str, Any]) -> LogKept:
    """From `dataclasses.asdict`. A newer or older host may have written other fields."""
    known = {field.name for field in fields(LogKept)} - {"load"}
    load = document.get("load")
    found = {name: value for name, value in document.items() if name in known}
    return LogKept(**found, load=LastLoad(**load) if load else None)
