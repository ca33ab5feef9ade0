"""Hold what is stored against the log of acts, at each maintenance. Pure but for what it is given.

The chain is looked at whole in each round, and so is each sync that has its turn: a look that went on where the one
before stopped would never see what is changed behind it. A round begins with another sync each time, so that each comes
first once, however long the others take.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from seamline.domain.errors import SeamlineError

AnswerT = TypeVar("AnswerT")
# As many lines of an outcome as an alarm says.
LINES_MAX = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """`faults`: how many there are; `lines`: the first of them, as `./seamline audit verify` says them."""

    faults: int = 0
    lines: tuple[str, ...] = ()


class Verifier(Protocol):
    """Each method may raise a SeamlineError: then nothing is known."""

    def syncs(self) -> Sequence[str]: ...
    def chain(self) -> Outcome: ...
    def stored(self, sync: str) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Round:
    """`altered`: by sync what is wrong, in one text; `unknown`: by sync why it could not be verified; `verified`: those
    of which everything was looked at and is as it was entered; `left`: those whose turn comes later; `errors`: what has
    kept something from being verified."""

    altered: Mapping[str, str]
    unknown: Mapping[str, str]
    verified: tuple[str, ...]
    left: tuple[str, ...]
    errors: tuple[SeamlineError, ...]


def verify_round(
    verifier: Verifier, declared: Collection[str], *, turn: int, budget_s: float, clock: Callable[[], float]
) -> Round:
    """The chain, then one sync after another until `budget_s` is used, at least one. `declared`: the syncs that are;
    those that the log of acts names come with them. `turn`: which round it is. `clock`: seconds."""
    began = clock()
    errors: list[SeamlineError] = []
    of_chain = _asked(verifier.chain, errors)
    named = _asked(verifier.syncs, errors)
    syncs = sorted({*declared, *(() if isinstance(named, SeamlineError) else named)})
    found: dict[str, Outcome | SeamlineError] = {}
    left: list[str] = []
    first = turn % len(syncs) if syncs else 0
    for sync in (*syncs[first:], *syncs[:first]):
        if found and clock() - began >= budget_s:
            left.append(sync)
        else:
            found[sync] = _asked(partial(verifier.stored, sync), errors)
    judged = {sync: _judged(sync, of_chain, found.get(sync)) for sync in syncs}
    return Round(
        altered={sync: text for sync, (text, _) in judged.items() if text},
        unknown={sync: why for sync, (text, why) in judged.items() if why and not text},
        verified=tuple(sync for sync in found if judged[sync] == ("", "")),
        left=tuple(left),
        errors=tuple(errors),
    )


def _asked(ask: Callable[[], AnswerT], errors: list[SeamlineError]) -> AnswerT | SeamlineError:
    try:
        return ask()
    except SeamlineError as exc:
        errors.append(exc)
        return exc


def _judged(sync: str, of_chain: Outcome | SeamlineError, stored: Outcome | SeamlineError | None) -> tuple[str, str]:
    """What is wrong with a sync, and what is not known of it; "" each. `stored` None: it had no turn."""
    seen = [one for one in (stored, of_chain) if isinstance(one, Outcome)]
    faults, lines = sum(one.faults for one in seen), [line for one in seen for line in one.lines][:LINES_MAX]
    more = f"; and {faults - len(lines):,} more" if faults > len(lines) else ""
    altered = f"{'; '.join(lines)}{more}. `./seamline audit verify --sync {sync}` says all" if faults else ""
    why = "; ".join(one.message for one in (of_chain, stored) if isinstance(one, SeamlineError))
    return altered, why and f"it could not be verified: {why}. `./seamline audit verify --sync {sync}` tries again"
