"""What goes on in a sync beside its streams and cuts, and which of its destinations wait for their first load.

Page and `status` both show it, so that a verdict of before does not stand alone while its tables are replaced. Pure.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo

from seamline.domain.calendar import moment_in_words
from seamline.domain.cut_state import Headline
from seamline.domain.runs import RunKind, RunState
from seamline.plan.model import Run
from seamline.sync.shown_order import in_order

_CALLED = {
    RunKind.ONBOARD: "onboarding into",
    RunKind.TABLES: "change of the tables in",
    RunKind.RECONCILE: "comparison of the live tables in",
}
# What a night does stands beside its date.
KINDS = tuple(_CALLED)


@dataclass(frozen=True, slots=True)
class Note:
    word: Headline
    text: str


def notes(
    sync: str,
    newest: Iterable[Run | None],
    *,
    declared: Sequence[str],
    onboarded: Collection[str],
    zone: tzinfo = UTC,
) -> list[Note]:
    """`newest`: of each of `KINDS` the run that started last. `declared`: the destinations that an onboarding goes
    into, in order; `onboarded`: those that have the tables.

    Before any has them, the sync as a whole is said not to be onboarded.
    """
    running = [one for one in newest if one is not None and one.state is RunState.RUNNING]
    coming = {name for one in running if one.kind is RunKind.ONBOARD for name in one.plan.destination_names}
    missing = [name for name in declared if name not in onboarded] if onboarded else []
    return [
        *(Note(Headline.RUNNING, _run_in_words(one, declared, zone)) for one in running),
        *(Note(Headline.NOT_RUN, _missing_in_words(sync, name, coming)) for name in missing),
    ]


def _run_in_words(run: Run, declared: Sequence[str], zone: tzinfo) -> str:
    where = ", ".join(in_order(run.plan.destination_names, declared))
    since = f" since {moment_in_words(run.started_at, zone)}" if run.started_at else ""
    return f"{_CALLED[run.kind]} {where}{since}"


def _missing_in_words(sync: str, destination: str, coming: Collection[str]) -> str:
    cure = "" if destination in coming else f"; run {sync}__onboard"
    return f"{sync} → {destination}, not onboarded yet{cure}"
