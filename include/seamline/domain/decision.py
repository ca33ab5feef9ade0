"""What a person decided about a cut that is not clean, and that one was asked at all."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import reduce
from typing import Any

from seamline.domain.calendar import moment_in_words
from seamline.domain.phrase import phrase

# Under this key of its result a run keeps its decision; null, or nothing, where nobody was asked.
DECISION = "decision"


class DecisionState(StrEnum):
    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"  # nobody answered in time


@dataclass(frozen=True, slots=True)
class Decision:
    """`since`: when it was asked, `at`: when it was answered, "" before that. Both ISO 8601 in UTC.

    `approvers`: who may answer; none named: whoever Airflow lets answer. `destinations`: whose cuts it is about; none
    named: all of them. It is about what the gate judged: whatever is staged or checked again begins without a decision.
    """

    state: DecisionState
    since: str
    approvers: tuple[str, ...] = ()
    who: str = ""
    reason: str = ""
    at: str = ""
    destinations: tuple[str, ...] = ()

    @staticmethod
    def asked(approvers: Sequence[str], *, destinations: Sequence[str] = ()) -> "Decision":
        since = moment_text(datetime.now(UTC))
        return Decision(DecisionState.WAITING, since, tuple(approvers), destinations=tuple(destinations))

    def is_about(self, destination: str) -> bool:
        return not self.destinations or destination in self.destinations

    def answered(
        self, state: DecisionState, *, who: str = "", reason: str = "", at: datetime | None = None
    ) -> "Decision":
        return replace(self, state=state, who=who, reason=reason, at=moment_text(at or datetime.now(UTC)))

    @property
    def is_refusal(self) -> bool:
        """Whether it ended the run: the cut is not published."""
        return self.state in (DecisionState.REJECTED, DecisionState.EXPIRED)

    def in_words(self, zone: tzinfo = UTC) -> str:
        who = self.who or phrase("somebody")
        at = phrase(" at %(moment)s", moment=_moment(self.at, zone)) if self.at else ""
        reason = f": {self.reason}" if self.reason else ""
        match self.state:
            case DecisionState.WAITING:
                asked: str = phrase("a person")
                if self.approvers:
                    asked = reduce(
                        lambda one, other: phrase("%(one)s or %(other)s", one=one, other=other), self.approvers
                    )
                since = phrase(" since %(moment)s", moment=_moment(self.since, zone)) if self.since else ""
                return phrase("waits for %(who)s%(since)s", who=asked, since=since)
            case DecisionState.APPROVED:
                return phrase("signed by %(who)s%(at)s%(reason)s", who=who, at=at, reason=reason)
            case DecisionState.REJECTED:
                return phrase("rejected by %(who)s%(at)s%(reason)s", who=who, at=at, reason=reason)
            case DecisionState.EXPIRED:
                return phrase("nobody decided in time")

    def to_json(self) -> dict[str, Any]:
        lists = {"approvers": list(self.approvers), "destinations": list(self.destinations)}
        return {**asdict(self), "state": self.state.value, **lists}


def decision_from_json(document: dict[str, Any] | None) -> Decision | None:
    """The inverse of `Decision.to_json`; None where nobody was asked."""
    if not document:
        return None
    return Decision(
        state=DecisionState(document["state"]),
        since=document["since"],
        approvers=tuple(document["approvers"]),
        who=document["who"],
        reason=document["reason"],
        at=document["at"],
        destinations=tuple(document.get("destinations") or ()),
    )


def moment_text(moment: datetime) -> str:
    """ISO 8601 in UTC, to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _moment(text: str, zone: tzinfo) -> str:
    return moment_in_words(datetime.fromisoformat(text), zone)
