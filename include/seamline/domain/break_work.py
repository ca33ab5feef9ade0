"""What people do about a break: its state, the acts that change it, and what each act needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from seamline.domain.audit import FROM_PAGE, Kind, canonical_json, sha256_of
from seamline.domain.break_age import DAYS
from seamline.domain.errors import Refused
from seamline.domain.person import is_same_person, person_of
from seamline.domain.phrase import phrase
from seamline.domain.severity import Severity

COMMENT_MAX = 2_000
OWNER_MAX = 200
# Who acts where a comparison does.
COMPARISON = "comparison"
# An act on no more breaks than this names each of them in its entry; above it their number and hash stand alone.
NAMED_MAX = 100
# So many of the people who can sign in are named where another name was written.
_NAMES_SHOWN = 20


class WorkState(StrEnum):
    """TOLERATED: under an approved tolerance. CLOSED: gone, or closed by a person after it was explained."""

    OPEN = "open"
    EXPLAINED = "explained"
    TOLERATED = "tolerated"
    CLOSED = "closed"


# What nobody has to look into any more, while it still stands.
SETTLED = (WorkState.EXPLAINED, WorkState.TOLERATED)
_NOT_CLOSED = (WorkState.OPEN, *SETTLED)


class Doing(StrEnum):
    """What a person may do about a break."""

    ASSIGN = "assign"
    HAND_BACK = "hand back"
    COMMENT = "comment"
    EXPLAIN = "explain"
    REOPEN = "open again"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class _Rule:
    """`before`: states in which it may be done. `after`: the state that it leads to; None leaves it."""

    kind: Kind
    before: tuple[WorkState, ...]
    after: WorkState | None = None


_RULES = {
    Doing.ASSIGN: _Rule(Kind.ASSIGNED, _NOT_CLOSED),
    Doing.HAND_BACK: _Rule(Kind.HANDED_BACK, _NOT_CLOSED),
    Doing.COMMENT: _Rule(Kind.COMMENTED, tuple(WorkState)),
    Doing.EXPLAIN: _Rule(Kind.EXPLAINED, _NOT_CLOSED, WorkState.EXPLAINED),
    Doing.REOPEN: _Rule(Kind.BREAK_REOPENED, (WorkState.EXPLAINED,), WorkState.OPEN),
    # What was never explained is not put away.
    Doing.CLOSE: _Rule(Kind.BREAK_CLOSED, SETTLED, WorkState.CLOSED),
}


@dataclass(frozen=True, slots=True)
class Reason:
    """One of the codes with which breaks are explained."""

    code: str
    text: str
    needs_comment: bool = False


# Where a sync declares none of its own.
REASONS = (
    Reason("timing", phrase("Timing difference: the other side books it later")),
    Reason("source", phrase("The source was wrong and was corrected there"), needs_comment=True),
    Reason("outside", phrase("Changed in the destination by something else than Seamline"), needs_comment=True),
    Reason("rounding", phrase("Rounding or scale")),
    Reason("other", phrase("Something else"), needs_comment=True),
)


@dataclass(frozen=True, slots=True)
class WorkRules:
    """What a sync declares of the work on its breaks. `ages`: the last day of each band of age but the last.
    `severity`: classes, of which the first counts that a break is in."""

    reasons: tuple[Reason, ...] = REASONS
    ages: tuple[int, ...] = DAYS
    severity: tuple[Severity, ...] = ()

    def text_of(self, code: str) -> str:
        """What a reason means; a code that is not declared any more speaks for itself."""
        return next((one.text for one in self.reasons if one.code == code), code)


@dataclass(frozen=True, slots=True)
class Order:
    """What a person wants done. `owner`: whom a break is assigned to; `reason`: a code."""

    doing: Doing
    who: str
    owner: str = ""
    reason: str = ""
    comment: str = ""
    origin: str = FROM_PAGE

    @property
    def kind(self) -> Kind:
        return _RULES[self.doing].kind

    @property
    def before(self) -> tuple[WorkState, ...]:
        """The states in which a break may be; the others are left alone."""
        return _RULES[self.doing].before

    @property
    def after(self) -> WorkState | None:
        """The state of the break then; None: as before."""
        return _RULES[self.doing].after


def possible(work: "Work") -> tuple[Doing, ...]:
    """What a person may do about a break as it is now."""
    allowed = [doing for doing, rule in _RULES.items() if work.state in rule.before]
    return tuple(doing for doing in allowed if doing is not Doing.HAND_BACK or work.owner)


def checked(order: Order, reasons: Sequence[Reason]) -> Order:
    """The order, with blanks around its texts gone. Refused with what is missing."""
    made = replace(
        order,
        who=person_of(order.who),
        owner=person_of(order.owner),
        reason=order.reason.strip(),
        comment=_plain(order.comment),
    )
    if len(made.comment) > COMMENT_MAX:
        raise Refused(f"a comment has at most {COMMENT_MAX:,} characters, this one has {len(made.comment):,}")
    match made.doing:
        case Doing.ASSIGN if not made.owner or len(made.owner) > OWNER_MAX:
            raise Refused(f"name the person to whom it is assigned, in at most {OWNER_MAX} characters")
        case Doing.EXPLAIN:
            _require_reason(made, reasons)
        case Doing.COMMENT | Doing.CLOSE | Doing.REOPEN if not made.comment:
            raise Refused(f"say why: {made.doing.value} needs a comment" if made.doing is not Doing.COMMENT
                          else "the comment is empty")  # fmt: skip
    return made


def assigned_to_one_of(order: Order, known: Sequence[str] | None) -> Order:
    """The order, with the name of the person as it is known. `known`: of everybody who can sign in; None where nobody
    can say who that is: then the name stands as it was given. Refused for a name that nobody has. Who acts is known."""
    if known is None:
        return order
    mine = next((one for one in (*known, order.who) if is_same_person(one, order.owner)), None)
    if mine is None:
        near = ", ".join(known[:_NAMES_SHOWN]) + (", …" if len(known) > _NAMES_SHOWN else "")
        raise Refused(
            f"nobody is called {order.owner}, so nothing is assigned", hint=f"Airflow knows {near or 'nobody'}"
        )
    return replace(order, owner=mine)


def _require_reason(order: Order, reasons: Sequence[Reason]) -> None:
    chosen = next((one for one in reasons if one.code == order.reason), None)
    if chosen is None:
        known = ", ".join(one.code for one in reasons)
        raise Refused(f"{order.reason!r} is no reason of this sync", hint=f"its reasons are {known}")
    if chosen.needs_comment and not order.comment:
        raise Refused(f"the reason {chosen.code} needs a comment")


def _plain(text: str) -> str:
    """As a form sends it, but with plain ends of lines. PostgreSQL keeps no NUL."""
    return text.replace("\r\n", "\n").replace("\0", "").strip()


@dataclass(frozen=True, slots=True)
class Work:
    """What is known of a break. `since`: when it came into its state. `first_at`, `first_date`: when it was first
    found, and of which business date. `in_cut`, `in_live`: the run that has found it last there; "" where it was not
    found or the newest comparison that looked has it no more. `tolerance`: the number of the one under which it is, and
    `absorbed` what it differs by there."""

    break_id: str
    state: WorkState
    since: datetime
    first_at: datetime
    owner: str = ""
    reason: str = ""
    first_date: date | None = None
    in_cut: str = ""
    in_live: str = ""
    tolerance: int | None = None
    absorbed: Decimal | None = None


def is_all_settled(states: Mapping[WorkState, int], total: int) -> bool:
    """Whether each of `total` breaks that were found, listed or not, is explained, tolerated or gone since."""
    return total > 0 and sum(number for state, number in states.items() if state is not WorkState.OPEN) == total


# How a report says it. The verdict stays what it is.
ALL_SETTLED = phrase("all breaks explained or tolerated")


def work_document(order: Order, breaks: Sequence[str], *, about: str = "") -> dict[str, object]:
    """What the log of acts keeps of an order. `about`: by which filter the breaks were chosen, "" of a single one."""
    said = {"owner": order.owner, "reason": order.reason, "comment": order.comment, "filter": about}
    state = {} if order.after is None else {"state": order.after}
    return {**breaks_document(breaks), **state, **{name: value for name, value in said.items() if value}}


def breaks_document(breaks: Sequence[str]) -> dict[str, object]:
    """Which breaks an entry is about: how many, the hash of their sorted identities, and these where they are few."""
    names = sorted(breaks)
    found: dict[str, object] = {"breaks": len(names), "breaks_hash": sha256_of(canonical_json(names))}
    return {**found, "break_ids": names} if len(names) <= NAMED_MAX else found
