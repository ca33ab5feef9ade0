"""A change of a sync's declaration that one person proposes by a form and another one accepts. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from seamline.domain.errors import Refused
from seamline.domain.person import is_same_person
from seamline.domain.phrase import phrase

# What the log of acts says that these entries are about.
ABOUT = "declaration"
VALUE_MAX = 200


class Change(StrEnum):
    """What a form can change; everything else is changed in the file."""

    TABLE = "table"
    RUN_AT = "run_at"
    VERDICT_BY = "verdict_by"


class Step(StrEnum):
    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Asked:
    """`before` and `after`: SHA-256, in hex, of the file that it was proposed for and of what it makes of it; `diff`:
    the lines that differ."""

    sync: str
    change: Change
    value: str
    reason: str
    before: str
    after: str
    diff: str

    @property
    def in_words(self) -> str:
        if self.change is Change.TABLE:
            return phrase("take in the table %(table)s", table=self.value)
        if self.change is Change.RUN_AT:
            return phrase("the night begins at %(time)s", time=self.value)
        return phrase("the verdict is to be there by %(time)s", time=self.value)


@dataclass(frozen=True, slots=True)
class Proposed:
    """`number`: of its entry in the log of acts. `ended`: by which step, by whom and when."""

    number: int
    asked: Asked
    who: str
    at: datetime
    step: Step = Step.PROPOSED
    ended_by: str = ""
    ended_at: datetime | None = None

    @property
    def waits(self) -> bool:
        return self.step is Step.PROPOSED


def require_second(found: Proposed, who: str) -> None:
    """Refused: it does not wait any more, or who has proposed it would accept it."""
    require_waiting(found)
    if is_same_person(found.who, who):
        raise Refused(f"{found.who} has proposed it, so another person accepts it")


def require_waiting(found: Proposed) -> None:
    if not found.waits:
        raise Refused(f"it was {found.step.value} by {found.ended_by}", hint="load the page again")
