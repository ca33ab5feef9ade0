"""Values of runs and reports for these tests, and a platform database in memory."""

from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from seamline.domain import audit
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.cut_state import CutState, state_of_cut
from seamline.domain.declared import Step, StreamMark
from seamline.domain.doubted import beside_the_log
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.recorded import Recorded
from seamline.domain.runs import (
    EXPECTATIONS,
    FAILURE,
    KEPT,
    PUBLISH,
    Cut,
    Reconciliation,
    RunKind,
    RunState,
    Scope,
    SyncState,
)
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable, cut_to_json
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from seamline.plan.checks import ControlTotalPlan, ReconcilePlan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.model import BusinessDate, NightlyPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.platform.reconciliations import Detail, not_made
from seamline.platform.totals import Series
from seamline.ports import StreamReport, WantedStream
from seamline.sources.mariadb.position import BinlogPosition
from seamline_airflow import parts
from seamline_airflow.page import dag_runs
from tests.dags.kept_acts import Acts
from tests.dags.stored_breaks import Breaks, NoFiles, NoNotices, NoWork, OneRepair
from tests.integration.known import destination_plan

DATE = date(2026, 11, 19)
AT = datetime(2026, 11, 19, 16, 31, tzinfo=UTC)
POSITION = BinlogPosition("0-7-100", "binlog.000001", 1000)
RUN = "settlement/nightly/2026-11-19/manual__1"
STREAM = StreamId("settlement", "warehouse")

PASSED = {"verdict": "MATCH", "checked": 9, "failed": []}

_ACCOUNT = Table(
    "account",
    (Column("id", Kind.INTEGER, "int", nullable=False, length=32), Column("balance", Kind.DECIMAL, "decimal(20,4)")),
    ("id",),
)
_ENTRY = Table(
    "ledger_entry",
    (Column("id", Kind.INTEGER, "int", nullable=False, length=32), Column("amount", Kind.DECIMAL, "decimal(20,4)")),
    ("id",),
)


def plan(**changes: Any) -> SyncPlan:
    made = SyncPlan(
        sync="settlement",
        source=SourcePlan(
            "core_bank", "mariadb", "bank", "r", "c", "m", "seamline.core_bank.log", "seamline-core_bank"
        ),
        destinations=(destination_plan("warehouse", "settlement"),),
        tables=(
            TablePlan("account", None, _ACCOUNT),
            TablePlan("ledger_entry", BusinessDate("booked_at", "instant"), _ENTRY),
        ),
        nightly=NightlyPlan(timezone="Asia/Shanghai"),
        reconcile=ReconcilePlan((ControlTotalPlan("ledger_entry", "amount", ("currency",)),), "", "ask"),
    )
    return replace(made, **changes)


def run(**changes: Any) -> Run:
    result = {"cut": {"warehouse": manifest()}, EXPECTATIONS: PASSED}
    made = Run(RUN, "settlement", RunKind.NIGHTLY, DATE, plan(), RunState.RUNNING, result)
    return replace(made, **changes)


def published(**result: Any) -> Run:
    """A nightly run that has published what is clean, but for what `result` says otherwise."""
    return run(state=RunState.SUCCEEDED, result={EXPECTATIONS: PASSED, PUBLISH: {"warehouse": 1}, **result})


def manifest(**staged_as: str) -> dict[str, Any]:
    tables = tuple(
        StagedTable(name, mode, staged_as.get(name, f"s_{name}"), 2, Verdict.MATCH)
        for name, mode in (("account", CutMode.WHOLE), ("ledger_entry", CutMode.DATE))
    )
    return cut_to_json(
        StagedCut(RUN, "settlement", "warehouse", DATE, POSITION, datetime(2026, 11, 20, tzinfo=UTC), tables)
    )


def total(source: str = "0.0000", destination: str = "0.0000") -> ControlTotal:
    return ControlTotal("ledger_entry", "amount", ("EUR",), 2, 2, Decimal(source), Decimal(destination))


def table(name: str, verdict: Verdict = Verdict.MATCH, **fields: Any) -> TableVerdict:
    known: dict[str, Any] = {"source_rows": 2, "destination_rows": 2, "position": str(POSITION)}
    if name == "ledger_entry":
        known["totals"] = (total(),)
    if verdict is Verdict.BREAK:
        known["breaks"] = (Break(name, BreakType.VALUE, '["7"]', {"balance": "1.0000"}, {"balance": "1.0001"}),)
        known["breaks_total"] = 1
    return TableVerdict(name, verdict, **{**known, **fields})


def reconciliation(*tables: TableVerdict, **fields: Any) -> Reconciliation:
    moment = datetime(2026, 11, 19, 16, 31, tzinfo=UTC)
    known: dict[str, Any] = {
        "run_id": RUN,
        "sync": "settlement",
        "destination": "warehouse",
        "scope": Scope.CUT,
        "business_date": DATE,
        "position": POSITION,
        "position_time": moment,
        "mode": "read",
        "verdict": max((t.verdict for t in tables), key=list(Verdict).index) if tables else Verdict.NOT_RUN,
        "tables": tables,
        "started_at": moment,
        "ended_at": moment,
    }
    return Reconciliation(**{**known, **fields})


def clean() -> Reconciliation:
    return reconciliation(table("account"), table("ledger_entry"))


WANTED = WantedStream(STREAM, plan_to_json(plan()), 1)


def report(**fields: Any) -> StreamReport:
    known: dict[str, Any] = {"stream": STREAM, "state": "streaming", "lag_s": 0.2, "age_s": 1.0, "position": POSITION}
    return StreamReport(**{**known, **fields})


class Platform:
    """Store and director in one, holding what a test puts in."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.found: list[Reconciliation] = []
        self.state: SyncState | None = SyncState.ENABLED
        self.cut_list: list[Any] = []
        self.reports: dict[StreamId, StreamReport] = {}
        self.unreadable_reports: dict[StreamId, str] = {}
        self.streams_cut_off: set[StreamId] = set()
        self.wants: list[tuple[StreamId, str]] = []
        self.wanted_streams: tuple[Any, ...] = ()
        self.stream_marks: tuple[StreamMark, ...] = ()
        self.steps: list[tuple[StreamId, Step]] = []
        self.host_states: tuple[Any, ...] = ()
        self.lags_of: dict[StreamId, tuple[float | None, ...]] = {}
        self.alarms: dict[tuple[str, str], str] = {}
        self.finished: dict[str, str] = {}
        self.anchors = 0
        self.acts = Acts()
        # By run, what the log of acts has of its take; of others nobody has looked.
        self.log_has: dict[str, Recorded] = {}

    def anchor_audit(self) -> str:
        self.anchors += 1
        return "entry 7 is anchored"

    def close(self) -> None: ...

    def run(self, run_id: str) -> Run:
        if run_id not in self.runs:
            raise Refused(f"there is no run {run_id}")
        return self.runs[run_id]

    def start_run(self, *, run_id: str, sync: str, kind: str, plan_json: str, business_date: Any = None) -> None:
        before = self.runs.get(run_id)
        self.runs[run_id] = Run(
            run_id, sync, RunKind(kind), business_date, plan_from_json(plan_json), RunState.RUNNING,
            before.result if before else {},
        )  # fmt: skip

    def start_alone(self, *, run_id: str, sync: str, kind: str, plan_json: str, business_date: Any) -> str:
        for one in self.runs.values():
            is_other = one.run_id.partition("~")[0] != run_id.partition("~")[0]
            if (one.sync, one.kind, one.business_date, one.state, is_other) == (
                sync, kind, business_date, RunState.RUNNING, True,
            ):  # fmt: skip
                return one.run_id
        self.start_run(run_id=run_id, sync=sync, kind=kind, plan_json=plan_json, business_date=business_date)
        return ""

    def latest_run(self, sync: str, *kinds: str, with_result: str = "") -> Run | None:
        found = [
            one
            for one in self.runs.values()
            if one.sync == sync and one.kind in kinds and (not with_result or with_result in one.result)
        ]
        return found[-1] if found else None

    def published_into(self, sync: str) -> dict[str, Run]:
        found: dict[str, Run] = {}
        for run in self.runs.values():
            if run.sync == sync and run.kind in (RunKind.ONBOARD, RunKind.TABLES):
                for name in run.published_into:
                    found.pop(name, None)
                    found[name] = run
        return found

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        self.runs[run_id].result[key] = value

    def finish_run(self, run_id: str, *, state: str) -> None:
        self.finished[run_id] = str(state)
        self.runs[run_id] = replace(self.run(run_id), state=RunState(state))

    def resume_run(self, run_id: str) -> None:
        if self.runs[run_id].state is RunState.FAILED or FAILURE in self.runs[run_id].result:
            self.runs[run_id].result.pop(FAILURE, None)
            self.runs[run_id] = replace(self.runs[run_id], state=RunState.RUNNING)
            self.finished.pop(run_id, None)

    def reconciliation(self, run_id: str, scope: str, destination: str = "") -> Reconciliation | None:
        mine = [one for one in self.found if one.run_id == run_id and one.scope == scope]
        return next((one for one in mine if destination in ("", one.destination)), None)

    def live_reconciliations(
        self, sync: str, limit: int, *, before: datetime | None = None, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        live = [one for one in self.found if one.sync == sync and one.scope is Scope.LIVE]
        found = tuple(one for one in live if before is None or one.started_at < before)[:limit]
        kinds = (RunKind.RECONCILE, *(() if found else (RunKind.ONBOARD,)))
        newest = None if before else self.latest_run(sync, *kinds)
        shown = [beside_the_log(_read(one, detail), self.log_has.get(one.run_id)) for one in found]
        return (*(not_made(newest, found) if newest else ()), *shown)

    def reconciliations_of(
        self, sync: str, run_id: str, *, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        return tuple(_read(one, detail) for one in self.found if (one.sync, one.run_id) == (sync, run_id))

    def live_reconciliations_of(
        self, sync: str, run_id: str, *, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        return tuple(one for one in self.live_reconciliations(sync, 99, detail=detail) if one.run_id == run_id)

    def live_reconciliations_after_cut(
        self, sync: str, business_date: date, *, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        live = self.live_reconciliations(sync, 1000, detail=detail)
        return tuple(one for one in live if one.business_date == business_date)

    def live_reconciliations_named(
        self, sync: str, name: str, *, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        live = self.live_reconciliations(sync, 1000, detail=detail)
        return tuple(one for one in live if one.run_id.rpartition("/")[2].partition("~")[0] == name)

    def runs_named(self, sync: str, name: str) -> tuple[Run, ...]:
        return tuple(one for one in self.runs.values() if one.run_id.rpartition("/")[2].partition("~")[0] == name)

    def cut_states(
        self, sync: str, limit: int, *, before: date | None = None, detail: Detail = Detail.WHOLE
    ) -> tuple[CutState, ...]:
        newest: dict[date, CutState] = {}
        for run in reversed(self.runs.values()):
            if run.kind is RunKind.NIGHTLY and run.business_date and (before is None or run.business_date < before):
                newest.setdefault(run.business_date, self._state(run, detail))
        return tuple(newest[day] for day in sorted(newest, reverse=True))[:limit]

    def takes(self, sync: str, business_date: date, *, detail: Detail = Detail.WHOLE) -> tuple[CutState, ...]:
        mine = [one for one in self.runs.values() if (one.kind, one.business_date) == (RunKind.NIGHTLY, business_date)]
        return tuple(self._state(one, detail) for one in reversed(mine) if not one.result.get(KEPT))

    def recorded(self, run_id: str, destination: str, scope: Scope = Scope.CUT) -> Recorded | None:
        return self.log_has.get(run_id)

    def states_of_dates(self, sync: str, days: Sequence[date]) -> tuple[CutState, ...]:
        return tuple(one for one in self.cut_states(sync, 1000) if one.business_date in days)

    def published_dates(self, sync: str) -> dict[str, frozenset[date]]:
        found: dict[str, set[date]] = {}
        for run in self.runs.values():
            if run.sync == sync and run.kind is RunKind.NIGHTLY and run.business_date:
                for name in run.result.get(PUBLISH) or {}:
                    found.setdefault(name, set()).add(run.business_date)
        return {name: frozenset(days) for name, days in found.items()}

    def published_cuts(self, sync: str) -> tuple[Any, ...]:
        return tuple(self.cut_list)

    def _state(self, run: Run, detail: Detail) -> CutState:
        found = self.reconciliation(run.run_id, Scope.CUT)
        return state_of_cut(
            run_id=run.run_id,
            sync=run.sync,
            destination="warehouse",
            business_date=run.business_date or DATE,
            run_state=run.state,
            result=run.result,
            found=_read(found, detail) if found else None,
            published=None,
            in_force=_in_force(run),
            recorded=self.log_has.get(run.run_id),
        )

    def timezone(self, sync: str) -> str:
        return "Asia/Shanghai"

    def sync_state(self, sync: str) -> SyncState | None:
        return self.state

    def set_sync_state(self, sync: str, state: str) -> None:
        self.state = SyncState(state)

    def cuts(self, sync: str, business_date: Any = None) -> tuple[Any, ...]:
        return tuple(self.cut_list)

    def require_as_entered(self, found: Reconciliation) -> None: ...

    def save_cut(self, cut: Any) -> None:
        self.cut_list.append(cut)

    def cut_off(self) -> frozenset[StreamId]:
        return frozenset(self.streams_cut_off)

    def latest_reports(self, sync: str = "") -> dict[StreamId, StreamReport]:
        return {stream: one for stream, one in self.reports.items() if sync in ("", stream.sync)}

    def readable_reports(self) -> tuple[dict[StreamId, StreamReport], dict[StreamId, str]]:
        return self.reports, self.unreadable_reports

    def marks(self) -> tuple[StreamMark, ...]:
        return self.stream_marks

    def take(self, stream: StreamId, step: Step) -> None:
        self.steps.append((stream, step))
        if step is Step.END:
            self.wanted_streams = tuple(one for one in self.wanted_streams if one.stream != stream)

    def want(self, stream: StreamId, *, plan_json: str) -> None:
        self.wants.append((stream, plan_json))

    def unwant(self, stream: StreamId) -> None:
        self.wanted_streams = tuple(one for one in self.wanted_streams if one.stream != stream)

    def pause(self, stream: StreamId, *, by: str, reason: str, origin: str) -> None:
        self._change(stream, paused=True, paused_by=by, pause_reason=reason)
        self._enter(audit.Kind.STREAM_PAUSED, stream, by, origin)

    def resume(self, stream: StreamId, *, by: str, origin: str) -> None:
        self._change(stream, paused=False, paused_by="", pause_reason="")
        self._enter(audit.Kind.STREAM_RESUMED, stream, by, origin)

    def restart(self, stream: StreamId, *, by: str, origin: str) -> None:
        self._change(stream, paused=False, paused_by="", pause_reason="")
        self.reports = {one: report for one, report in self.reports.items() if one != stream}
        self._enter(audit.Kind.STREAM_RESTARTED, stream, by, origin)

    def _enter(self, kind: audit.Kind, stream: StreamId, by: str, origin: str) -> None:
        about = audit.Subject(stream.sync, stream.destination)
        self.acts.enter(audit.Act(kind, about, {}, by, origin))

    def _change(self, stream: StreamId, **fields: Any) -> None:
        if stream not in [one.stream for one in self.wanted_streams]:
            raise Refused(f"there is no stream {stream}", sync=stream.sync)
        self.wanted_streams = tuple(
            replace(one, **fields) if one.stream == stream else one for one in self.wanted_streams
        )

    def wanted(self, pool: str) -> tuple[Any, ...]:
        return self.wanted_streams

    def all_wanted(self) -> tuple[Any, ...]:
        return self.wanted_streams

    def wanted_of(self, sync: str) -> tuple[Any, ...]:
        return tuple(one for one in self.wanted_streams if one.stream.sync == sync)

    def lags(self, sync: str = "", *, steps: int, step_s: int) -> dict[StreamId, tuple[float | None, ...]]:
        return {one: values[-steps:] for one, values in self.lags_of.items() if sync in ("", one.sync)}

    def totals_over(self, sync: str, cuts: Sequence[tuple[str, str]]) -> tuple[Series, ...]:
        found = {(one.run_id, one.destination): one for one in self.found if one.scope is Scope.CUT}
        sums: dict[tuple[str, str, tuple[str, ...]], list[Decimal | None]] = {}
        for place, cut in enumerate(cuts):
            for one in (one for table in found[cut].tables for one in table.totals):
                of_total = sums.setdefault((one.table, one.column, one.group), [None] * len(cuts))
                of_total[place] = one.destination_sum if one.column else Decimal(one.destination_rows)
        return tuple(Series(*about, tuple(values)) for about, values in sums.items())

    def hosts(self) -> tuple[Any, ...]:
        return self.host_states

    def events(self, stream: StreamId, *, since: datetime, until: datetime) -> tuple[Any, ...]:
        return ()

    def open_alarms(self) -> tuple[Any, ...]:
        from seamline.platform.store import Alarm

        return tuple(Alarm(kind, subject, text, datetime.now(UTC)) for (kind, subject), text in self.alarms.items())

    def raise_alarm(self, kind: str, subject: str, message: str) -> None:
        self.alarms[kind, subject] = message

    def end_alarm(self, kind: str, subject: str) -> None:
        self.alarms.pop((kind, subject), None)


class Unsigned:
    """Nobody signs on this platform; `test_page_signing` has a real one."""

    def of_date(self, sync: str, day: date) -> tuple[Any, ...]:
        return ()

    def of_sync(self, sync: str) -> tuple[Any, ...]:
        return ()

    def acknowledged(self, syncs: list[str], days: list[date]) -> dict[tuple[str, date], Any]:
        return {}

    def acknowledged_sources(self, syncs: list[str]) -> dict[tuple[str, str, datetime], Any]:
        return {}

    def kept(self, syncs: list[str], *, since: date = date.max) -> tuple[Any, ...]:
        return ()


def _read(found: Reconciliation, detail: Detail) -> Reconciliation:
    """As much of it as is asked for, as the store has it."""
    left_out: dict[str, Any] = {} if detail is Detail.WHOLE else {"breaks": ()}
    left_out |= {"totals": ()} if detail is Detail.VERDICTS else {}
    return replace(found, tables=tuple(replace(table, **left_out) for table in found.tables))


def _in_force(run: Run) -> Cut | None:
    version = (run.result.get(PUBLISH) or {}).get("warehouse")
    as_of, day = datetime(2026, 11, 20, tzinfo=UTC), run.business_date or DATE
    if version is None:
        return None
    return Cut(run.sync, "warehouse", day, version, run.run_id, POSITION, as_of, ("account",), Verdict.MATCH)


def use(monkeypatch: pytest.MonkeyPatch, made: Platform) -> Platform:
    """Let tasks, triggers and the page meet this platform."""

    @contextmanager
    def opened() -> Any:
        yield made

    @contextmanager
    def audit() -> Any:
        yield made.acts

    @contextmanager
    def breaks() -> Any:
        yield Breaks(made.found)

    @contextmanager
    def repairs() -> Any:
        yield OneRepair()

    @contextmanager
    def work() -> Any:
        yield NoWork()

    @contextmanager
    def signatures() -> Any:
        yield Unsigned()

    @contextmanager
    def late_inputs() -> Any:
        yield Unsigned()

    monkeypatch.setattr(parts, "late_inputs", late_inputs)
    monkeypatch.setattr(parts, "declared_changes", late_inputs)
    monkeypatch.setattr(dag_runs, "backfill_of", lambda _: None)
    monkeypatch.setattr(parts, "attachments", lambda: nullcontext(NoFiles()))
    monkeypatch.setattr(parts, "notices", lambda: nullcontext(NoNotices()))
    monkeypatch.setattr(parts, "signatures", signatures)
    monkeypatch.setattr(parts, "audit", audit)
    monkeypatch.setattr(parts, "breaks", breaks)
    monkeypatch.setattr(parts, "work", work)
    monkeypatch.setattr(parts, "tolerances", work)
    monkeypatch.setattr(parts, "repairs", repairs)
    monkeypatch.setattr(parts, "platform", opened)
    monkeypatch.setattr(parts, "director", opened)
    monkeypatch.setattr(parts, "anchor_audit", made.anchor_audit)
    return made
