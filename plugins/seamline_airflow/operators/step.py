"""Short steps of a run, done in the task's own process: each calls one use case and writes down what it returned."""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from seamline import settings
from seamline.domain.calendar import day_of
from seamline.domain.date_before import late_in_words
from seamline.domain.declared import Step
from seamline.domain.errors import GateFailed
from seamline.domain.ledger import StreamId
from seamline.domain.phrase import counted
from seamline.domain.runs import GATE, INTO, PUBLISH, TABLES, Reconciliation, RunState, Scope, SyncState
from seamline.domain.self_test import self_test_in_words
from seamline.domain.verdict import TableVerdict, Verdict, nothing_compared, of_cut
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.model import Run, SyncPlan
from seamline.plan.stages import concerned
from seamline.ports import Problem, StreamReport
from seamline.spec.load import declared_destinations
from seamline.sync import onboard
from seamline.sync.fatal_problems import refuse_fatal
from seamline.sync.stream_state import HOST_GONE, StreamState, Word, alarms_over, not_wanted
from seamline_airflow import deadline, declared_streams, onboarding, parts, runs
from seamline_airflow.errors import task_errors
from seamline_airflow.local_pools import make_pools_here
from seamline_airflow.operators.gate import compares_only
from seamline_airflow.others_go_on import others_go_on
from seamline_airflow.run_context import stream_date
from seamline_airflow.stream_health import in_words, look, troubles
from seamline_airflow.stream_host import start_host

_BREAKS_SHOWN = 20


class StepOperator(BaseOperator):
    """Do `step` for the run that `run` names. Every step may be repeated, also beside another attempt at it: after a
    stop of Airflow the process of before may still be at work."""

    template_fields = ("run",)

    def __init__(self, *, run: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def execute(self, context: Any) -> Any:
        with task_errors(), parts.platform() as store:
            parts.reach("dag.double_run")
            result = self.step(context, store)
            # All is done and written down, and Airflow does not know it yet.
            parts.reach("dag.state_written")
            return result

    def step(self, context: Any, store: Any) -> Any:
        raise NotImplementedError


def log_problems(log: Any, problems: Sequence[Problem]) -> None:
    for problem in problems:
        log.warning("%s%s → %s", f"{problem.table}: " if problem.table else "", problem.what, problem.cure)


class PreflightOperator(StepOperator):
    """Read the catalogue, check everything, and write the run down with its plan. Changes nothing outside.

    Into which destinations it goes is written down before that, by its first attempt. Those of cuts only are checked
    with the others, and nothing more is done to them.
    """

    def __init__(self, *, plan_json: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_json = plan_json

    def step(self, context: Any, store: Any) -> str:
        declared = plan_from_json(self.plan_json)
        onboarded = concerned(declared, "onboard")
        beside = tuple(one for one in declared.cuts_only if one not in onboarded.destinations)
        asked = self.concerned(context, store, onboarded)
        found, problems = onboarding.preflight(asked, beside=beside, misfits=self.misfits(store, asked.sync))
        log_problems(self.log, problems)
        refuse_fatal(problems, sync=asked.sync)
        run_id = runs.take_of(store, self.run)
        cuts = found.into([one.name for one in beside])
        self.open_run(context, store, found.into(asked.destination_names), run_id, cuts=cuts)
        return run_id

    def concerned(self, context: Any, store: Any, declared: SyncPlan) -> SyncPlan:
        """The plan of the destinations that the run goes into."""
        asked = list(context["params"].get("destinations") or ())
        return declared.into(runs.fix_destinations(store, declared, self.run, asked))

    def misfits(self, store: Any, sync: str) -> onboarding.Misfits | None:
        """What finds live tables that would not take the load."""
        return partial(onboarding.misfits, state=store.sync_state(sync))

    def open_run(self, context: Any, store: Any, plan: SyncPlan, run_id: str, *, cuts: SyncPlan) -> None:
        # What preflight has read just now may be newer than the plan of this task.
        if (fixed := runs.newest_take(store, self.run)) is not None:
            runs.require_declared(plan, fixed.plan.destination_names, run_id)
        names = plan.destination_names
        declared = concerned(plan_from_json(self.plan_json), "onboard")
        others = declared.into(declared.destination_names - names)
        runs.open_onboarding(store, plan, run_id, beside=others, cuts=cuts)
        self.log.info("into: %s", ", ".join(sorted(names)))


class TablesPreflightOperator(PreflightOperator):
    """The same for a change of the tables: what has to enter and to leave is found and written down."""

    def concerned(self, context: Any, store: Any, declared: SyncPlan) -> SyncPlan:
        return runs.into_onboarded(store, declared).streamed

    def misfits(self, store: Any, sync: str) -> onboarding.Misfits | None:  # noqa: ARG002
        """Not asked: `open_run` refuses what was altered, and the tables that stay as they are take no load."""
        return None

    def open_run(self, context: Any, store: Any, plan: SyncPlan, run_id: str, *, cuts: SyncPlan) -> None:
        again = list(context["params"].get("again") or ())
        runs.open_tables(store, plan, run_id, again, onboarding.ledgers(plan), cuts=cuts)
        self.log.info("to change: %s", json.dumps(store.run(run_id).result[TABLES]))


class CaptureOperator(StepOperator):
    """Make the capture of the source run with this sync's tables."""

    def step(self, context: Any, store: Any) -> Mapping[str, Any]:
        run = store.run(self.run)
        result = onboarding.ensure_capture(run)
        store.put_result(run.run_id, "capture", result)
        self.log.info("capture: %s", json.dumps(result))
        return result


class PublishOperator(StepOperator):
    """Put the staged tables in place in every destination, each in one transaction resolved by the run's id."""

    def execute(self, context: Any) -> Any:
        with others_go_on(self.run, context):
            return super().execute(context)

    def step(self, context: Any, store: Any) -> Mapping[str, str]:
        run = store.run(self.run)
        if not (run.result.get(INTO) or run.published_into):
            # Before the commit: from now on the live tables may be new ones, and nobody has compared them yet. One that
            # goes into some destinations leaves the others as they are.
            store.set_sync_state(run.sync, SyncState.ONBOARDING)
        # Also before it: whoever clears this run after a crash in between must get a new name.
        store.put_result(run.run_id, PUBLISH, run.result.get(PUBLISH) or {})
        result = onboarding.publish(run, store)
        self.log.info("published: %s", json.dumps(result))
        return result


class StartStreamOperator(StepOperator):
    """Ask the stream host for one stream per destination that has the tables, by the plan of this run."""

    def step(self, context: Any, store: Any) -> list[str]:
        run = store.run(self.run).where_published
        streams = [run.plan.stream_id(destination.name) for destination in run.plan.destinations]
        with parts.director() as director:
            for stream in streams:
                director.want(stream, plan_json=plan_to_json(run.plan.of_stream(stream.destination)))
        return [str(stream) for stream in streams]


class EnableOperator(StepOperator):
    """Enable the sync, when every live table of a destination matched the source at one position. Red behind that where
    another one did not, or lacks the tables: that one counts as not onboarded yet. Where no destination has live
    tables, there is nothing to match."""

    def step(self, context: Any, store: Any) -> str:
        run = store.run(self.run)
        if not run.plan.streamed.destinations:
            # From here on nights go by the tables of this run.
            store.put_result(run.run_id, PUBLISH, dict.fromkeys(sorted(run.plan.destination_names), ""))
            store.set_sync_state(run.sync, SyncState.ENABLED)
            store.finish_run(run.run_id, state=RunState.SUCCEEDED)
            return str(SyncState.ENABLED)
        found = _require_reconciled(run.where_published, store, Scope.LIVE)
        for one in found:
            _warn_if_hollow(self.log, one)
        if not all(_blemishes(run, [one]) for one in found):
            # Nights of one that is clean wait for none that is away or differs: every night judges each by itself.
            store.set_sync_state(run.sync, SyncState.ENABLED)
        _require_match(run, found)
        onboard.require_published_everywhere(run)
        store.finish_run(run.run_id, state=RunState.SUCCEEDED)
        return str(SyncState.ENABLED)


class VerdictsOperator(StepOperator):
    """Show the verdict, the control totals and the first breaks of each table, and keep them small in XCom.

    Of live tables anything but MATCH is red and named, parked tables apart. Of a staged cut the gate decides, so a
    break is only shown; what was not reconciled at all is red here already.
    """

    def __init__(self, *, scope: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scope = Scope(scope)

    def step(self, context: Any, store: Any) -> Mapping[str, str]:
        run = store.run(self.run)
        found = _require_reconciled(run.where_published, store, self.scope)
        keyed = {table.name for table in run.plan.tables if table.table and table.table.is_keyed}
        for reconciliation in found:
            self._show(reconciliation, keyed)
        verdicts = {f"{one.destination}.{t.table}": t.verdict.value for one in found for t in one.tables}
        if self.scope is Scope.LIVE:
            wrong = [*_blemishes(run, found), *onboard.lacking_tables(run)]
            store.put_result(run.run_id, GATE, {"lines": wrong})
            store.finish_run(run.run_id, state=RunState.FAILED if wrong else RunState.SUCCEEDED)
            _require_match(run, found)
            onboard.require_published_everywhere(run)
        elif not compares_only(run) and all(of_cut(one.tables) in (Verdict.MATCH, Verdict.BREAK) for one in found):
            store.end_alarm(deadline.ALARM, deadline.subject(run.sync, run.business_date))
        return verdicts

    def _show(self, found: Reconciliation, keyed: Collection[str]) -> None:
        self.log.info("%s → %s: %s at %s", found.sync, found.destination, found.verdict, found.position)
        _warn_if_hollow(self.log, found)
        for line in late_in_words(found.evidence):
            self.log.warning("late: %s", line)
        for line in self_test_in_words(found.evidence):
            self.log.info("self-test: %s", line)
        for table in found.tables:
            if table.is_parked:
                self.log.warning("%s %s, outside the guarantee: %s", table.table, table.verdict, table.reason)
                continue
            self.log.info(
                "%s %s: %s rows in the source, %s in the destination %s",
                table.table,
                table.verdict,
                table.source_rows,
                table.destination_rows,
                table.reason,
            )
            for total in table.totals:
                self.log.info(
                    "  %s %s: %s and %s",
                    "/".join(total.group) or "all",
                    total.column,
                    total.source_sum,
                    total.destination_sum,
                )
            for one in table.breaks[:_BREAKS_SHOWN]:
                # Keys, and no values: a task's log is read by more people than the data. Without a key the row is one.
                self.log.warning("  break %s: %s %s", one.type, one.table, one.key if one.table in keyed else "")


class WantStreamOperator(BaseOperator):
    """See to it that the streams of an onboarded sync are wanted, by the settings of now. Leaves a good one alone, and
    ends that into a destination which was taken out of the sync."""

    def __init__(self, *, plan_json: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_json = plan_json

    def execute(self, context: Any) -> list[str]:
        declared = plan_from_json(self.plan_json)
        with task_errors(), parts.platform() as store, parts.director() as director:
            if store.sync_state(declared.sync) is not SyncState.ENABLED:
                raise AirflowSkipException(f"sync {declared.sync} is not enabled: no stream stands for this date yet")
            plan = runs.into_onboarded(store, declared).streamed
            known = {each.stream: each for each in director.wanted(plan.stream.pool)}
            reports, cut_off = director.latest_reports(), director.cut_off()
            asked = []
            for destination in plan.destinations:
                stream = plan.stream_id(destination.name)
                if stream in cut_off:
                    self.log.warning("%s was cut off: `%s__onboard` loads it again", stream, declared.sync)
                    continue
                plan_json = plan_to_json(runs.stream_plan(store, declared, destination.name))
                mine, report = known.get(stream), reports.get(stream)
                is_down = report is not None and report.state in ("failed", "stopped")
                # A want starts also a stream that had failed for good, so it is not repeated for one that runs.
                if mine is None or mine.plan_json != plan_json or is_down:
                    director.want(stream, plan_json=plan_json)
                    asked.append(str(stream))
            self.log.info("asked for: %s", ", ".join(asked) or "nothing, all is wanted already")
            self._end_those_taken_out(director, declared)
            return asked

    def _end_those_taken_out(self, director: Any, plan: SyncPlan) -> None:
        # The file says what is declared now; the plan of a run that is cleared may be an old one.
        names = {*plan.destination_names, *declared_destinations(settings.load().declarations, plan.sync)}
        for each in director.wanted_of(plan.sync):
            if each.stream.destination not in names:
                for step in (Step.NOTE, Step.END):
                    director.take(each.stream, step)
                self.log.info("%s ends: its destination is not declared any more", each.stream)


class SourceCheckOperator(BaseOperator):
    """Preflight's checks again, every day, for the tables that the streams carry. Red with the cures."""

    def __init__(self, *, plan_json: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.plan_json = plan_json

    def execute(self, context: Any) -> int:
        with task_errors(), parts.platform() as store:
            plan = runs.onboarded_plan(store, plan_from_json(self.plan_json))
            problems = onboarding.check_source(plan)
            log_problems(self.log, problems)
            refuse_fatal(problems, sync=plan.sync)
            return len(problems)


class DayReportOperator(BaseOperator):
    """What became of the streams on this business date: changes of state, position, lag. Red if check or watch was."""

    def __init__(self, *, sync: str, destinations: Sequence[str], timezone: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sync = sync
        self.destinations = tuple(destinations)
        self.timezone = timezone

    def execute(self, context: Any) -> Mapping[str, Any]:
        day = day_of(stream_date(context, timezone=self.timezone), timezone=self.timezone)
        report: dict[str, Any] = {"business_date": day.business_date.isoformat()}
        with task_errors(), parts.platform() as store, parts.director() as director:
            seen = look(self.sync)
            for destination in runs.watched(store, self.sync, self.destinations):
                stream = StreamId(self.sync, destination)
                events = director.events(stream, since=day.start, until=day.end)
                for event in events:
                    self.log.info("%s %s: %s %s", event.at, stream, event.state, event.error)
                state = seen.states.get(stream) or not_wanted(stream, None)
                self.log.info("%s", in_words(state, seen.reports.get(stream)))
                report[destination] = _day_of_a_stream(state, seen.reports.get(stream), events)
        self._require_watched(context)
        return report

    def _require_watched(self, context: Any) -> None:
        """The report is the last task, written in any case: it must not turn a red day green."""
        ti, run_id = context["ti"], context["dag_run"].run_id
        names = ["want", "check", "watch"]
        states = ti.get_task_states(dag_id=ti.dag_id, task_ids=names, run_ids=[run_id]).get(run_id) or {}
        if states.get("want") == "skipped":
            raise AirflowSkipException("no stream stood for this date")
        if states.get("watch") != "success":
            raise AirflowFailException(f"the watch of this date is {states.get('watch')}: see the task `watch`")
        if states.get("check") != "success":
            raise AirflowFailException(f"the source's check is {states.get('check')}: see the task `check`")


class StreamsCheckOperator(BaseOperator):
    """Look at every wanted stream: alive, moving, within its lag; and at the hosts that run them.

    Red with the reasons when something is wrong; the same is kept as open alarms in the platform database. Red also
    where a stream is paused or not known to be well and that is worth no alarm yet. A pool whose host is gone, and
    which its supervisor did not bring back, gets a new host. Restarts of streams within seconds are the host's own.
    On the local stack it first makes the pools of syncs that were declared since. Streams that are declared no more
    end, and go on once they are declared again.
    """

    def execute(self, context: Any) -> list[str]:
        make_pools_here()
        with task_errors(), parts.platform() as store:
            declared_streams.settle(self.log)
            seen = look()
            found = troubles(seen)
            for each in seen.wanted:
                self.log.info("%s", in_words(seen.states[each.stream], seen.reports.get(each.stream)))
            for alarm in alarms_over(seen.alarms, seen.states, seen.hosts):
                store.end_alarm(alarm.kind, alarm.subject)
            for trouble in found:
                store.raise_alarm(trouble.kind, trouble.subject, trouble.message)
                if trouble.kind == HOST_GONE:
                    handle = start_host(trouble.subject)
                    self.log.warning("started a stream host for pool %s, process %s", trouble.subject, handle.pid)
        if found:
            raise AirflowException("; ".join(f"{trouble.subject}: {trouble.message}" for trouble in found))
        states = [seen.states[each.stream] for each in seen.wanted]
        if odd := [one for one in states if not one.is_green and one.word is not Word.STARTING]:
            raise AirflowException("; ".join(f"{one.stream}: {one.word}: {one.why}" for one in odd))
        return [str(one.stream) for one in states]


def _require_reconciled(run: Run, store: Any, scope: Scope) -> list[Reconciliation]:
    """The reconciliation of each destination of the plan."""
    found = []
    for destination in run.plan.destinations:
        reconciliation = store.reconciliation(run.run_id, scope, destination.name)
        if reconciliation is None or not reconciliation.tables:
            raise GateFailed(
                f"reconciliation of {destination.name} did not run: there is no verdict",
                hint="clear the task before this one",
                sync=run.sync,
            )
        found.append(reconciliation)
    return found


def _require_match(run: Run, found: Sequence[Reconciliation]) -> None:
    if wrong := _blemishes(run, found):
        raise GateFailed(
            "; ".join(wrong),
            hint="the Reconciliation page lists the rows; INCONCLUSIVE may be tried again",
            sync=run.sync,
        )


def _warn_if_hollow(log: Any, found: Reconciliation) -> None:
    if hollow := nothing_compared(found.tables):
        log.warning("%s → %s: %s. Is the source filled?", found.sync, found.destination, hollow)


def _blemishes(run: Run, found: Sequence[Reconciliation]) -> list[str]:
    """Every table that is not MATCH, but those that the run's plan parks; and a destination of which nothing else was
    compared."""
    parked = {table.name for table in run.plan.parked}
    wrong = []
    for one in found:
        guaranteed = [table for table in one.tables if not (table.is_parked and table.table in parked)]
        wrong += [_blemish(one.destination, table) for table in guaranteed if table.verdict is not Verdict.MATCH]
        if not guaranteed:
            wrong.append(f"{one.destination}: no table was compared")
    return wrong


def _blemish(destination: str, table: TableVerdict) -> str:
    what = counted(table.breaks_total, "break") if table.verdict is Verdict.BREAK else table.reason
    return f"{destination}: {table.table} {table.verdict} ({what})"


def _day_of_a_stream(state: StreamState, now: StreamReport | None, events: Sequence[Any]) -> dict[str, Any]:
    incidents = [event for event in events if event.error]
    if now is None:
        return {"state": "never reported", "incidents": len(incidents)}
    return {
        "state": str(state.word),
        "position": str(now.position),
        "lag_s": None if state.lag_s is None else round(state.lag_s, 3),
        "units": now.transactions,
        "changes": now.changes,
        "findings": now.findings,
        "changes_of_state": len(events),
        "incidents": len(incidents),
    }
