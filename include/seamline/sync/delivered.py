"""A delivery of a business date is taken once; what comes after it for that date is a correction. Pure.

A run that finds the delivery which is in force already, and is well, takes nothing: that version and its verdict stay.
So they do where the declaration has changed since, and the run says that (ADR 115). Whoever gives a reason, or clears
the task of a run that had ended well, takes it once more, as the next version.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from seamline.domain.cut_state import CutState, Headline
from seamline.domain.errors import Refused
from seamline.domain.position import OfDelivery, Position
from seamline.domain.runs import AGAIN, KEPT, MODE, REASON, Cut, NightlyMode
from seamline.plan.made_by import changed_since
from seamline.plan.model import Run, SyncPlan

# How a person takes it once more.
WITH_A_REASON = "To take it once more, as the next version, give a reason (`--reason TEXT`)"
TAKE_IT_AGAIN = f"nothing was loaded. {WITH_A_REASON}"


@dataclass(frozen=True, slots=True)
class Kept:
    """The version of one destination that stays in force, and the run that published it. `why`: a whole sentence.
    `changed`: what of the declaration that decides a cut is another one than when it was made, for people."""

    run: str
    version: int
    why: str
    changed: tuple[str, ...] = ()


class DeliveryInForce(Refused):
    """Some destinations of the run have this very delivery. `kept`: those; the run goes on without them."""

    def __init__(self, kept: Mapping[str, Kept], *, sync: str) -> None:
        super().__init__(in_words(kept) or "no destination has it", hint=TAKE_IT_AGAIN, sync=sync)
        self.kept = kept


def require_wanted(
    run: Run,
    position: Position,
    *,
    takes: Sequence[CutState],
    published: Sequence[Cut],
    plan_of: Callable[[str], SyncPlan],
) -> None:
    """DeliveryInForce where other destinations than those of `run.taking` have the cut of this delivery in force.
    Refused where each that is left has a newer delivery, or one that this one was before it was rewritten.

    `takes`: of the run's date, the newest first. `published`: its cuts, of each destination the newest version first.
    `plan_of`: by which plan a run has made its cuts.
    """
    if not isinstance(position, OfDelivery):
        return
    others = [cut for cut in published if cut.run_id != run.run_id and isinstance(cut.position, OfDelivery)]
    kept = {} if _is_taken_anyway(run) else _in_force(run, position, takes, others, plan_of)
    if kept.keys() != (run.result.get(KEPT) or {}).keys():
        raise DeliveryInForce(kept, sync=run.sync)
    names = run.taking.plan.destination_names
    mine = [cut for cut in others if cut.destination in names]
    found = {cut.destination: (cut, why) for cut in mine if (why := position.why_not_after(cut.position))}
    if found.keys() < names:
        return
    cut, why = next(iter(found.values()))
    raise Refused(
        f"{why}: it is version {cut.version} of {cut.business_date} in {cut.destination}, by run {cut.run_id}",
        hint="nothing was loaded. A correction is delivered anew, and then the date is run again",
        sync=run.sync,
    )


def kept_to_json(kept: Mapping[str, Kept]) -> dict[str, Any]:
    """As `KEPT` keeps it."""
    return {name: asdict(one) for name, one in kept.items()}


def kept_in(run: Run) -> Mapping[str, Kept]:
    """Where a run has taken nothing, by destination."""
    kept: Mapping[str, Mapping[str, Any]] = run.result.get(KEPT) or {}
    return {name: Kept(**{**one, "changed": tuple(one.get("changed", ()))}) for name, one in kept.items()}


def in_words(kept: Mapping[str, Kept]) -> str:
    return "; ".join(one.why for one in kept.values())


def _is_taken_anyway(run: Run) -> bool:
    """A comparison publishes nothing, so it repeats nothing."""
    return bool(run.result.get(AGAIN) or run.result.get(REASON)) or run.result.get(MODE) == NightlyMode.COMPARE_ONLY


def _in_force(
    run: Run,
    position: Position,
    takes: Iterable[CutState],
    others: Iterable[Cut],
    plan_of: Callable[[str], SyncPlan],
) -> dict[str, Kept]:
    newest, states = dict[str, Cut](), dict[str, CutState]()
    for cut in others:
        newest.setdefault(cut.destination, cut)
    for take in takes:
        if take.run_id != run.run_id:
            states.setdefault(take.destination, take)
    return {
        name: _kept(cut, states[name].headline, changed_since(plan_of(cut.run_id), run.plan, name))
        for name, cut in newest.items()
        if name in run.plan.destination_names & states.keys()
        if cut.position == position and _is_well(states[name], cut, run.plan)
    }


def _is_well(newest: CutState, cut: Cut, plan: SyncPlan) -> bool:
    """Whether nothing is wrong with the date since, and another take would hold no other tables. `newest`: the newest
    take, which may have failed behind the one that is in force."""
    computed = {one.name for one in plan.derived if one not in plan.derived_of_parked}
    return newest.is_green and plan.table_names | computed <= set(cut.tables)


def _kept(cut: Cut, headline: Headline, changed: tuple[str, ...]) -> Kept:
    why = (
        f"the {cut.position} is taken already: version {cut.version} of {cut.business_date} in {cut.destination} stays"
        f" in force, and is {headline.value}"
    )
    if changed:
        why += (
            f". The declaration has changed since that version was made: {', '.join(changed)}. To take it by the new"
            f' one, run `./seamline cut {cut.sync} {cut.business_date} --reason "the declaration has changed"`'
        )
    return Kept(cut.run_id, cut.version, why, changed)
