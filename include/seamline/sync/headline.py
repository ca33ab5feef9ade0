"""The one word for a sync as of now. Page and `status` both ask here, about one window, so they cannot differ. Pure."""

from collections.abc import Collection, Iterable, Sequence

from seamline.domain.cut_state import CutState, Headline, newest_of_live, of_live, worst_headline
from seamline.domain.runs import Reconciliation
from seamline.plan.document import readable_plan
from seamline.ports import WantedStream
from seamline.sync.stream_state import StreamState
from seamline.sync.under_way import Note

# So many of the newest business dates, and of the newest comparisons of the live tables, are looked at.
DATES = 14
COMPARISONS = 20
# What is on its way is no fault.
WELL = (Headline.MATCH, Headline.PARTIAL, Headline.RUNNING)


def of_verdicts(cuts: Sequence[CutState], live: Iterable[Reconciliation]) -> Headline:
    """The worst of the newest date, of the dates of the window before it that are open, and of the live tables.

    `live`: the newest first. Of nothing: NOT_RUN.
    """
    days = sorted({one.business_date for one in cuts}, reverse=True)[:DATES]
    counted = [one for one in cuts if one.business_date in days and (one.is_open or one.business_date == days[0])]
    words = [*(one.headline for one in counted), *(of_live(one) for one in newest_of_live(live))]
    return worst_headline(words) if words else Headline.NOT_RUN


def of_sync(
    cuts: Sequence[CutState],
    live: Iterable[Reconciliation],
    streams: Iterable[StreamState],
    alarms: Collection[object],
    notes: Iterable[Note] = (),
) -> str:
    """The same, and where no verdict is at fault `FAILED` if a note says so, else the first stream that is not well,
    else `ALARM`. `alarms`: the open ones that concern the sync."""
    found = of_verdicts(cuts, live)
    if found in (*WELL, Headline.NOT_RUN) and is_failed(notes):
        return Headline.FAILED.value
    if found not in WELL:
        return found.value
    if stands := next((one.word for one in streams if not one.is_green), ""):
        return f"STREAM {stands.upper()}"
    return "ALARM" if alarms else found.value


def is_failed(notes: Iterable[Note]) -> bool:
    """Whether a run that was to put the sync's tables in place has failed."""
    return any(one.word is Headline.FAILED for one in notes)


def concerns(sync: str, wanted: Iterable[WantedStream]) -> frozenset[str]:
    """What alarms about the sync, its sources and its pools are about. `wanted`: streams, also those of others."""
    mine = [readable_plan(one.plan_json) for one in wanted if one.stream.sync == sync]
    plans = [plan for plan in mine if plan]
    return frozenset({sync, *(plan.source.name for plan in plans), *(plan.stream.pool for plan in plans)})
