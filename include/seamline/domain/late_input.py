"""A verdict that is not there by its hour: an exception with a deadline, which a person acknowledges with a reason."""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from seamline.domain.calendar import moment_in_words
from seamline.domain.phrase import phrase

# What the entry of the log of acts says that it is about.
LATE_VERDICT = "late verdict"


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """That a person knows of it and has said why; the verdict stays late."""

    who: str
    reason: str
    at: datetime

    def in_words(self, zone: tzinfo = UTC) -> str:
        at = moment_in_words(self.at, zone)
        return phrase("acknowledged by %(who)s at %(at)s: %(reason)s", who=self.who, at=at, reason=self.reason)
