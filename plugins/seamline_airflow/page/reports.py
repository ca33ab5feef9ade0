"""What the Reconciliation page shows, read from the platform database. Values only, no HTML."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from seamline import settings
from seamline.domain.break_work import WorkRules
from seamline.domain.business_dates import BusinessDates
from seamline.domain.calendar import moment_in_words
from seamline.domain.cut_keep import PublishedCut, why_kept
from seamline.domain.cut_state import CutState, newest_of_live
from seamline.domain.declared import StreamMark
from seamline.domain.ledger import StreamId
from seamline.domain.phrase import phrase
from seamline.domain.repair import is_by_command_line
from seamline.domain.runs import Reconciliation, RunKind
from seamline.domain.separate import COMPARED_ONLY
from seamline.domain.sign_off import ReasonRequired
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.document import readable_plan
from seamline.plan.model import NightlyPlan
from seamline.plan.night import next_night
from seamline.platform.reconciliations import Detail
from seamline.spec.levels import declared_levels
from seamline.spec.load import (
    declared_approvers,
    declared_dates,
    declared_destinations,
    declared_reason_required,
    declared_work,
    onboarded_destinations,
    only_compares,
    shown_work,
)
from seamline.spec.notify import shown_steps
from seamline.sync import headline, under_way
from seamline.sync.missing import Missing, missing_dates
from seamline.sync.shown_order import by_destination, by_run, by_stream, streams_in_order
from seamline.sync.stream_state import StreamState, alarms_over
from seamline_airflow import parts
from seamline_airflow.page import reading
from seamline_airflow.page.alarm_words import alarm_in_words
from seamline_airflow.page.charts import Picture, day_chart, sparkline
from seamline_airflow.stream_health import Look, look

DATES_PER_PAGE = 31
DATES_EXPORTED = 366
# A day in quarters of an hour.
_LAG_STEPS, _LAG_STEP_S = 96, 900
LIVE_SHOWN = headline.COMPARISONS
NOT_ONBOARDED = phrase("not onboarded")


@dataclass(frozen=True, slots=True)
class SyncReport:
    """One sync as of now. `cuts`: of each date the newest take, per destination, the newest date first. `live`: the
    newest comparison of the live tables first. `destinations`: in the order of the declaration, in which all of a run
    and the streams stand too. `levels`: of each that is declared, what readers may rely on there. `has_streams`:
    whether any of them has live tables that a stream of ours keeps; `has_live`: or that another tool does."""

    sync: str
    state: str
    zone: ZoneInfo
    cuts: tuple[CutState, ...]
    live: tuple[Reconciliation, ...]
    streams: tuple[StreamState, ...]
    destinations: tuple[str, ...] = ()
    levels: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[under_way.Note, ...] = ()
    findings: Mapping[StreamId, int] = field(default_factory=dict)
    alarms: tuple[str, ...] = ()
    standing: tuple[Any, ...] = ()
    has_streams: bool = True
    has_live: bool = True

    @property
    def headline(self) -> str:
        """The same word as `status` has for it."""
        return headline.of_sync(self.cuts, self.live, self.streams, self.alarms, self.notes)

    @property
    def is_unknown(self) -> bool:
        """Whether nobody declares it, and nothing of it is kept."""
        return self.state == NOT_ONBOARDED and not self.cuts and not self.live and self.sync not in syncs()

    def newest_live(self) -> list[Reconciliation]:
        return by_destination(newest_of_live(self.live), self.destinations)


def syncs() -> list[str]:
    """The declared ones; their files bear their names."""
    return sorted(file.stem for file in (settings.load().declarations / "syncs").glob("*.yaml"))


def destinations_of(sync: str) -> tuple[str, ...]:
    """The declared ones, in order."""
    return declared_destinations(settings.load().declarations, sync)


def onboarded_of(sync: str) -> tuple[str, ...]:
    """The declared ones that an onboarding goes into, in order."""
    return tuple(onboarded_destinations(settings.load().declarations, sync))


def levels_of(sync: str) -> Mapping[str, str]:
    """By destination what readers may rely on, as `explain` says it; nothing where another tool writes."""
    return declared_levels(settings.load().declarations, sync)


def approvers_of(sync: str) -> tuple[str, ...]:
    """Who is declared to sign for it; nobody where the declaration leaves that to Airflow."""
    return declared_approvers(settings.load().declarations, sync)


def work_rules(sync: str) -> WorkRules:
    """How its declaration has people work on breaks. ConfigError where its file is wrong: nobody acts by a guess."""
    return declared_work(settings.load().declarations, sync)


def shown_rules(sync: str) -> WorkRules:
    """The same for what only shows breaks; the defaults where its file is wrong."""
    return shown_work(settings.load().declarations, sync)


def reason_required(sync: str) -> ReasonRequired:
    """When its declaration wants a reason with a signature."""
    return declared_reason_required(settings.load().declarations, sync)


def lags(sync: str = "") -> Mapping[StreamId, Picture]:
    """Of each stream, or of those of one sync, a picture of its last day."""
    with parts.director() as director:
        found = director.lags(sync, steps=_LAG_STEPS, step_s=_LAG_STEP_S)
    return {stream: sparkline(values, _lag_in_words(stream, values)) for stream, values in found.items()}


def lag_charts(report: SyncReport, now: datetime) -> list[tuple[StreamId, str, Picture]]:
    """Of each stream of a sync with a lag of the last day, in the order of the list of streams: its limit in seconds,
    "" where it is not wanted, and the chart."""
    with parts.director() as director:
        found = director.lags(report.sync, steps=_LAG_STEPS, step_s=_LAG_STEP_S)
        plans = {one.stream: readable_plan(one.plan_json) for one in director.wanted_of(report.sync)}
    limits = {stream: plan.stream.lag_max_s for stream, plan in plans.items() if plan is not None}
    until = now.astimezone(report.zone)
    return [
        (
            one,
            f"{limits[one]:g}" if one in limits else "",
            day_chart(found[one], _lag_in_words(one, found[one]), until=until, limit=limits.get(one)),
        )
        for one in by_stream(found, report.destinations)
        if any(value is not None for value in found[one])
    ]


def _lag_in_words(stream: StreamId, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    worst = f"{max(known):.1f} s" if known else phrase("unknown")
    silent, all_ = len(values) - len(known), len(values)
    gaps = phrase("; nothing reported in %(silent)s of %(all)s quarters of an hour", silent=silent, all=all_)
    return phrase(
        "worst lag of %(stream)s in each quarter of an hour of the last 24 hours: at most %(worst)s%(gaps)s",
        stream=stream,
        worst=worst,
        gaps=gaps if silent else "",
    )


def undeclared() -> list[StreamMark]:
    """Streams that are declared no more."""
    with parts.director() as director:
        return [one for one in director.marks() if one.since is not None]


def read_sync(sync: str, *, dates: int = headline.DATES, detail: Detail = Detail.WHOLE) -> SyncReport:
    """The sync with its newest `dates` dates."""
    seen = look(sync)
    with reading.platform() as store:
        return report_of(store, sync, seen, dates=dates, detail=detail)


def report_of(store: Any, sync: str, seen: Look, *, dates: int, detail: Detail) -> SyncReport:
    """The same from an open store. `seen` may hold streams of other syncs too."""
    declared = destinations_of(sync)
    to_onboard = onboarded_of(sync)
    standing = _standing(sync, seen)
    state, zone = store.sync_state(sync), ZoneInfo(store.timezone(sync))
    newest = [store.latest_run(sync, kind) for kind in under_way.KINDS]
    mine = [one for stream, one in seen.states.items() if stream.sync == sync]
    return SyncReport(
        sync=sync,
        state=state.value if state else _without_state(sync),
        zone=zone,
        notes=tuple(
            under_way.notes(sync, newest, declared=to_onboard, onboarded=store.published_into(sync), zone=zone)
        ),
        cuts=tuple(by_run(store.cut_states(sync, dates, detail=detail), declared)),
        live=tuple(store.live_reconciliations(sync, LIVE_SHOWN, detail=detail)),
        streams=tuple(streams_in_order(mine, declared)),
        destinations=declared,
        levels=levels_of(sync),
        findings={stream: report.findings for stream, report in seen.reports.items()},
        alarms=tuple(map(alarm_in_words, standing)),
        standing=standing,
        has_streams=bool(to_onboard),
        has_live=bool(to_onboard) or only_compares(settings.load().declarations, sync),
    )


def _standing(sync: str, seen: Look) -> tuple[Any, ...]:
    """The open alarms about a sync, without those that whoever looks next at the streams ends."""
    names, over = headline.concerns(sync, seen.wanted), alarms_over(seen.alarms, seen.states, seen.hosts)
    return tuple(one for one in seen.alarms if one not in over and one.about in names)


def _without_state(sync: str) -> str:
    return COMPARED_ONLY if only_compares(settings.load().declarations, sync) else NOT_ONBOARDED


def cuts_before(sync: str, day: date) -> tuple[CutState, ...]:
    """As many of the dates before it as a page holds, as `SyncReport.cuts`, without their totals and breaks."""
    with reading.platform() as store:
        found = store.cut_states(sync, DATES_PER_PAGE, before=day, detail=Detail.VERDICTS)
        return tuple(by_run(found, destinations_of(sync)))


def next_night_in_words(sync: str, now: datetime) -> str:
    """When the next night of a sync begins, in its own zone, and for which date; "" where it has none."""
    with reading.platform() as store:
        newest = store.latest_run(sync, *RunKind)
    if newest is None or newest.plan.nightly is None:
        return ""
    nightly = replace(newest.plan.nightly, dates=_dates(sync) or newest.plan.nightly.dates)
    if (night := next_night(nightly, now)) is None:
        return phrase("No next night is known: the calendars end.")
    at = moment_in_words(night.starts_at, ZoneInfo(nightly.timezone))
    return phrase("The next night begins at %(at)s, for %(day)s.", at=at, day=night.business_date)


def missing(report: SyncReport, now: datetime) -> list[Missing]:
    """The business dates of a sync without a published cut."""
    with reading.platform() as store:
        return missing_dates(
            store,
            report.sync,
            now=now,
            dates=_dates(report.sync),
            alarms=report.standing,
            steps=shown_steps(settings.load().declarations, report.sync),
        )


def _dates(sync: str) -> BusinessDates | None:
    return declared_dates(settings.load().declarations, sync)


def kept_cuts(sync: str) -> list[tuple[PublishedCut, str]]:
    """The published cuts of a sync, each with until when it stays."""
    with reading.platform() as store:
        found, newest = store.published_cuts(sync), store.latest_run(sync, *RunKind)
    keep = ((newest.plan.nightly if newest else None) or NightlyPlan()).keep
    now = datetime.now(UTC)
    return [
        (one, why_kept(one.cut, [of.cut for of in found if of.cut.destination == one.cut.destination], keep, now=now))
        for one in found
    ]


def live_before(sync: str, moment: datetime) -> tuple[Reconciliation, ...]:
    """As many of the comparisons of the live tables before it as a page holds, the newest first; without their totals
    and breaks."""
    with reading.platform() as store:
        return tuple(store.live_reconciliations(sync, LIVE_SHOWN, before=moment, detail=Detail.VERDICTS))


def live_of(sync: str, run: str) -> tuple[Reconciliation, ...]:
    """The comparisons of the live tables by one run, whole."""
    with reading.platform() as store:
        return tuple(by_run(store.live_reconciliations_of(sync, run), destinations_of(sync)))


def takes(sync: str, day: date) -> tuple[CutState, ...]:
    """Every take of the date, the newest first."""
    with reading.platform() as store:
        return tuple(by_run(store.takes(sync, day), destinations_of(sync)))


def airflow_path(run_id: str, task: str = "") -> str:
    """Where Airflow shows the run behind ours, or one of its tasks, or a tab of that; "" for a run that Airflow has
    not."""
    sync, _, rest = run_id.partition("/")
    kind, _, rest = rest.partition("/")
    _, _, name = rest.partition("/")
    if not name or is_by_command_line(name):
        return ""
    # A run that was taken again bears a number behind its name.
    name = re.sub(r"~\d+$", "", name)
    path = f"dags/{quote(f'{sync}__{kind}', safe='')}/runs/{quote(name, safe='')}"
    return f"{path}/tasks/{quote(task)}" if task else path


def comparing_task(run_id: str) -> str:
    """The task that compares the live tables in the DAG behind the run."""
    tasks = {RunKind.ONBOARD.value: "reconcile", RunKind.REPAIR.value: "apply"}
    return tasks.get((run_id.split("/")[1:2] or [""])[0], "compare")


def tables_in_order(tables: Sequence[TableVerdict]) -> list[TableVerdict]:
    """The worst first: what a person must look at stands on top."""
    order = (Verdict.BREAK, Verdict.INCONCLUSIVE, Verdict.NOT_RUN, Verdict.MATCH)
    return sorted(tables, key=lambda table: (order.index(table.verdict), table.table))


def breaks_in_words(tables: Sequence[TableVerdict]) -> str:
    """How many were found; – where nothing answered, or not all that should have."""
    total = sum(table.breaks_total for table in tables)
    is_known = any(table.verdict in (Verdict.MATCH, Verdict.BREAK) for table in tables) and not any(
        table.verdict is Verdict.INCONCLUSIVE for table in tables
    )
    return f"{total:,}" if total or is_known else "–"
