"""What goes on in a sync beside its streams and cuts, what has failed there, and which of its destinations wait for
their first load.

Page and `status` both show it, so that a verdict of before does not stand alone while its tables are replaced. Pure.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from seamline.domain.calendar import moment_in_words
from seamline.domain.cut_state import Headline, failure_of
from seamline.domain.load_progress import LOADING, load_from_json
from seamline.domain.phrase import Phrase, joined, phrase
from seamline.domain.runs import PUT_TABLES_IN_PLACE, RunKind, RunState
from seamline.plan.model import Run
from seamline.sync.shown_order import in_order

_CALLED: dict[RunKind, Callable[[str], Phrase]] = {
    RunKind.ONBOARD: lambda where: phrase("onboarding into %(where)s", where=where),
    RunKind.TABLES: lambda where: phrase("change of the tables in %(where)s", where=where),
    RunKind.RECONCILE: lambda where: phrase("comparison of the live tables in %(where)s", where=where),
}
# What a night does stands beside its date.
KINDS = tuple(_CALLED)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


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
    runs = [one for one in newest if one is not None]
    running = [one for one in runs if one.state is RunState.RUNNING]
    coming = {name for one in running if one.kind is RunKind.ONBOARD for name in one.plan.destination_names}
    missing = [name for name in declared if name not in onboarded] if onboarded else []
    return [
        *(Note(Headline.FAILED, _failed_in_words(one, declared, zone)) for one in _failed(runs)),
        *(Note(Headline.RUNNING, _run_in_words(one, declared, zone)) for one in running),
        *(Note(Headline.NOT_RUN, _missing_in_words(sync, name, coming)) for name in missing),
    ]


def _failed(runs: Iterable[Run]) -> list[Run]:
    """The newest run that was to put tables in place, where it failed: one that came after it has its own end. What was
    compared, or not, stands with the live tables."""
    placing = [one for one in runs if one.kind in PUT_TABLES_IN_PLACE]
    last = max(placing, key=lambda one: one.started_at or _LONG_AGO, default=None)
    return [last] if last is not None and last.state is RunState.FAILED else []


def _failed_in_words(run: Run, declared: Sequence[str], zone: tzinfo) -> str:
    where = ", ".join(in_order(run.plan.destination_names, declared))
    why = failure_of(run.result)
    said = joined("; ", why.lines(zone)) if why else phrase("see its run in Airflow (%(run)s)", run=run.run_id)
    return joined(": ", [_CALLED[run.kind](where), said])


def _run_in_words(run: Run, declared: Sequence[str], zone: tzinfo) -> str:
    where = ", ".join(in_order(run.plan.destination_names, declared))
    since = phrase(" since %(moment)s", moment=moment_in_words(run.started_at, zone)) if run.started_at else ""
    load = run.result.get(LOADING)
    far = (": ", load_from_json(load).in_words()) if load else ()
    return joined("", [_CALLED[run.kind](where), since, *far])


def _missing_in_words(sync: str, destination: str, coming: Collection[str]) -> str:
    cure = "" if destination in coming else phrase("; run %(dag)s", dag=f"{sync}__onboard")
    return joined("", [f"{sync} → {destination}", phrase(", not onboarded yet"), cure])
