"""What became of one step in each of several destinations: one that fails keeps no other from it."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from seamline.domain.errors import InvariantViolated, SeamlineError
from seamline.plan.model import DestinationPlan

ResultT = TypeVar("ResultT")


def outcome_of(step: Callable[[], ResultT]) -> ResultT | SeamlineError:
    """What the step returns, or the error that ended it. Raised: InvariantViolated, and what is no error of Seamline;
    no destination has caused them."""
    try:
        return step()
    except InvariantViolated:
        raise
    except SeamlineError as exc:
        return exc


def require_one_done(outcomes: Iterable[object]) -> None:
    """Raises the first error where every outcome is one; it has the `others`."""
    seen = list(outcomes)
    errors = [one for one in seen if isinstance(one, SeamlineError)]
    if errors and len(errors) == len(seen):
        first, *others = errors
        first.others = tuple(one for one in others if one is not first)
        raise first


def in_each(
    destinations: Iterable[DestinationPlan], step: Callable[[DestinationPlan], ResultT]
) -> dict[str, ResultT | SeamlineError]:
    """The outcome of the step by destination. Raises the first error where every one failed."""
    outcomes = {one.name: outcome_of(lambda one=one: step(one)) for one in destinations}  # type: ignore[misc]
    require_one_done(outcomes.values())
    return outcomes
