"""A tolerance: by how much a summed column may differ per row, until when, and who has approved it."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import StrEnum

from seamline.domain.audit import canonical_json, sha256_of
from seamline.domain.errors import Refused

WHY_MAX = 500
# Whoever wants it for longer says so again, with the reason of then.
DAYS_MAX = 366
_DIGITS_MAX = 30
# A comma parts thousands and nothing else: who writes 0,05 means another number than 5.
_AMOUNT = re.compile(r"([0-9]+|[0-9]{1,3}(,[0-9]{3})+)([.][0-9]+)?")


class ToleranceState(StrEnum):
    """Only one that is IN_FORCE tolerates anything."""

    ASKED = "waits for approval"
    IN_FORCE = "in force"
    EXPIRED = "expired"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asks for. `amount`: the most that `column` may differ by in a row, the bound included, without a
    sign. `until`: the last day on which it holds, in the sync's zone."""

    sync: str
    destination: str
    table: str
    column: str
    amount: Decimal
    until: date
    why: str


@dataclass(frozen=True, slots=True)
class DeclaredTolerance:
    """One that stands in a sync's file. It tolerates nothing before `approver` has approved this very text."""

    asked: Asked
    asked_by: str
    approver: str

    @property
    def hash(self) -> str:
        """Of all that is approved: another text is another tolerance."""
        asked = self.asked
        return sha256_of(
            canonical_json(
                {
                    "amount": asked.amount,
                    "approver": self.approver,
                    "asked_by": self.asked_by,
                    "column": asked.column,
                    "destination": asked.destination,
                    "reason": asked.why,
                    "sync": asked.sync,
                    "table": asked.table,
                    "until": asked.until,
                }
            )
        )


@dataclass(frozen=True, slots=True)
class Tolerance:
    """`expires_at`: the first moment at which it holds no more. `declared`: the hash of its text in the sync's file, ""
    of one that was asked for on the page. `breaks`, `absorbed`: how many breaks it has tolerated
    so far, those that are gone included, and by how much these differ, without signs."""

    number: int
    sync: str
    destination: str
    table: str
    column: str
    amount: Decimal
    why: str
    made_by: str
    made_at: datetime
    expires_at: datetime
    approved_by: str = ""
    approved_at: datetime | None = None
    ended_by: str = ""
    ended_at: datetime | None = None
    breaks: int = 0
    absorbed: Decimal = Decimal(0)
    declared: str = ""

    def state_at(self, now: datetime) -> ToleranceState:
        if self.ended_by:
            return ToleranceState.ENDED
        if self.expires_at <= now:
            return ToleranceState.EXPIRED
        return ToleranceState.IN_FORCE if self.approved_by else ToleranceState.ASKED

    def last_day(self, zone: tzinfo) -> date:
        """The last day on which it holds, in the sync's zone: the one that was asked for."""
        return (self.expires_at.astimezone(zone) - timedelta(microseconds=1)).date()


@dataclass(frozen=True, slots=True)
class Absorbed:
    """What a tolerance covers of the breaks of one comparison."""

    tolerance: Tolerance
    breaks: int
    absorbed: Decimal


def amount_of(text: str) -> Decimal:
    """The bound as a person writes it: digits, with a point and with commas between thousands. Refused for anything
    that is no amount above 0."""
    written = text.strip()
    if not _AMOUNT.fullmatch(written):
        raise Refused(f"{text!r} is no amount above 0", hint="write it as 0.05 or 1,000.00, without a decimal comma")
    amount = Decimal(written.replace(",", ""))
    is_short = amount.is_finite() and max(len(amount.as_tuple().digits), abs(amount.adjusted())) <= _DIGITS_MAX
    if not is_short or amount <= 0:
        raise Refused(f"{text!r} is no amount above 0 of at most {_DIGITS_MAX} digits")
    return amount


def checked(asked: Asked, *, today: date) -> Asked:
    """Refused where it has ended before it begins, lasts for longer than a year, or says no reason."""
    why = " ".join(asked.why.replace("\0", " ").split())
    if not why or len(why) > WHY_MAX:
        raise Refused(f"say why it may differ, in at most {WHY_MAX} characters")
    if not today <= asked.until <= today + timedelta(days=DAYS_MAX):
        raise Refused(f"it ends between {today} and {today + timedelta(days=DAYS_MAX)}, not on {asked.until}")
    return Asked(asked.sync, asked.destination, asked.table, asked.column, asked.amount, asked.until, why)


def end_of(day: date, zone: tzinfo) -> datetime:
    """The first moment after a day in a zone, in UTC."""
    return datetime.combine(day + timedelta(days=1), time(), zone).astimezone(UTC)
