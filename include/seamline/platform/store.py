"""PlatformStore: runs, receipts, cuts, reconciliations, states of syncs and open alarms.

Every method is one short transaction and may be repeated with the same arguments. TransientError: the database is away.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from seamline.domain.alarms import AlarmKind
from seamline.domain.audit import Kind, cut_act, verdict_act
from seamline.domain.cut_keep import PublishedCut
from seamline.domain.cut_state import CutState
from seamline.domain.decision import DECISION
from seamline.domain.errors import InvariantViolated, Refused
from seamline.domain.recorded import Recorded
from seamline.domain.runs import (
    EXPECTATIONS,
    FAILURE,
    PUBLISH,
    Cut,
    Receipt,
    Reconciliation,
    RunKind,
    RunState,
    Scope,
    SyncState,
)
from seamline.plan.model import Run
from seamline.platform import (
    attempts,
    audit,
    audit_check,
    checks,
    cut_list,
    cut_states,
    live_comparisons,
    reconciliations,
    rows,
    totals,
    work_settled,
)
from seamline.platform.database import Database, Session
from seamline.platform.reconciliations import Detail
from seamline.platform.totals import Series

# A run of Airflow's, by the last part of ours, and its repetitions.
_NAMED = (
    "(regexp_replace(run_id, '^.*/', '') = %(name)s or regexp_replace(run_id, '^.*/|~[0-9]+$', '', 'g') = %(name)s)"
)


@dataclass(frozen=True, slots=True)
class Alarm:
    """A state that a person must know of. `subject`: a stream, a date of a sync, a source, or a pool of streams."""

    kind: str
    subject: str
    message: str
    raised_at: datetime

    @property
    def about(self) -> str:
        """The sync of a stream or of a date; else the subject itself."""
        return re.split(r"[@ ]", self.subject, maxsplit=1)[0]


class PlatformStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    # ---- runs ------------------------------------------------------------------------------------------------------

    def start_run(
        self, *, run_id: str, sync: str, kind: str, plan_json: str, business_date: date | None = None
    ) -> None:
        """Write the run down. A repeat opens it again, with the plan of now, and keeps its results."""
        entry = (run_id, sync, RunKind(kind).value, business_date, plan_json)
        self._database.transact(lambda session: _start(session, entry))

    def start_alone(self, *, run_id: str, sync: str, kind: str, plan_json: str, business_date: date) -> str:
        """As `start_run`, unless another run of the kind and date goes on: its id, and nothing has started. "": it has.

        Takes of one run (`<run>~2`) are not others. Whether the one that is in the way still lives is not known here.
        """
        entry = (run_id, sync, RunKind(kind).value, business_date, plan_json)

        def work(session: Session) -> str:
            about = f"{sync} {kind} {business_date}"
            session.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"runs of {about}",))
            row = session.execute(
                "select run_id from run where sync = %s and kind = %s and business_date = %s and state = 'running'"
                " and split_part(run_id, '~', 1) <> split_part(%s, '~', 1) order by started_at limit 1",
                (sync, RunKind(kind).value, business_date, run_id),
            ).fetchone()
            if row is not None:
                return str(row[0])
            _start(session, entry)
            return ""

        return self._database.transact(work)

    def run(self, run_id: str) -> Run:
        """The run with its plan and results. Refused when there is none."""
        found = self._run_where("run_id = %s", (run_id,))
        if found is None:
            raise Refused(
                f"there is no run {run_id!r} in the platform database",
                hint="a run is made by its DAG's first task or by the command line; give its id as it stands there",
            )
        return found

    def runs_named(self, sync: str, name: str) -> tuple[Run, ...]:
        """Those whose id ends in `/<name>`, and their repetitions (`<name>~2`); the newest first."""

        def work(session: Session) -> tuple[Run, ...]:
            cursor = session.cursor(row_factory=dict_row)
            cursor.execute(
                f"select * from run where sync = %(sync)s and {_NAMED} order by started_at desc".encode(),
                {"sync": sync, "name": name},
            )
            return tuple(rows.run_of(row) for row in cursor)

        return self._database.transact(work)

    def latest_run(self, sync: str, *kinds: str, with_result: str = "") -> Run | None:
        """The one of these kinds that started last; `with_result`: of those that have this result."""
        return self._run_where(
            "sync = %s and kind = any(%s) and (%s = '' or result ? %s) order by started_at desc limit 1",
            (sync, [RunKind(kind).value for kind in kinds], with_result, with_result),
        )

    def newest_night(self, sync: str, business_date: date) -> Run | None:
        """The newest run that was to cut the date, of those that took something."""
        return self._run_where(
            "sync = %s and kind = %s and business_date = %s and result->>'took_nothing' is distinct from 'true'"
            " order by started_at desc limit 1",
            (sync, RunKind.NIGHTLY.value, business_date),
        )

    def published_into(self, sync: str) -> Mapping[str, Run]:
        """By destination the newest run that put the sync's tables in place there; the run that started first comes
        first."""

        def work(session: Session) -> Mapping[str, Run]:
            cursor = session.cursor(row_factory=dict_row)
            cursor.execute(
                "select * from run where sync = %s and kind = any(%s) and result ? %s order by started_at",
                (sync, [RunKind.ONBOARD.value, RunKind.TABLES.value], PUBLISH),
            )
            runs = [rows.run_of(row) for row in cursor]
            newest = {name: run for run in runs for name in run.published_into}
            return {name: run for run in runs for name in run.published_into if newest[name] is run}

        return self._database.transact(work)

    def timezone(self, sync: str) -> str:
        """The sync's own, by which its business dates end; UTC where it declares none or has never run."""
        run = self.latest_run(sync, *RunKind)
        zones = (run.plan.nightly, run.plan.reconcile_only) if run else ()
        return next((one.timezone for one in zones if one is not None), "UTC")

    def put_result(self, run_id: str, key: str, value: Any, *, attempt: str = "") -> None:
        """Keep a JSON value under `Run.result[key]`, in place of an earlier one. A decision is an act, and so
        are results of expectations. `attempt`: of the run's load, which says it; "" where somebody else does.
        LoadTakenOver: a later attempt has begun.

        Refused: a person approves what the same person has asked for; other results under a verdict that is signed, and
        any for one that is not what the log of acts has."""

        def work(session: Session) -> int:
            attempts.require_newest(session, run_id, attempt)
            if key == DECISION:
                return audit.set_decision(session, run_id, value)
            if key == EXPECTATIONS:
                return checks.set_results(session, run_id, value)
            return session.execute(
                "update run set result = jsonb_set(result, array[%s::text], %s) where run_id = %s",
                (key, Jsonb(value), run_id),
            ).rowcount

        self._require_run(self._database.transact(work), run_id)

    def finish_run(self, run_id: str, *, state: str) -> None:
        def work(session: Session) -> int:
            return session.execute(
                "update run set state = %s, ended_at = coalesce(ended_at, clock_timestamp()) where run_id = %s",
                (RunState(state).value, run_id),
            ).rowcount

        self._require_run(self._database.transact(work), run_id)

    def resume_run(self, run_id: str) -> None:
        """Set a failed run to running, without its failure. Runs in any other state stay as they are."""

        def work(session: Session) -> None:
            session.execute(
                "update run set state = 'running', ended_at = null, result = result - %s"
                " where run_id = %s and (state = 'failed' or result ? %s)",
                (FAILURE, run_id, FAILURE),
            )

        self._database.transact(work)

    def _run_where(self, condition: str, arguments: Sequence[Any]) -> Run | None:
        def work(session: Session) -> Run | None:
            cursor = session.cursor(row_factory=dict_row)
            # `condition` is one of the texts above, never input.
            row = cursor.execute(f"select * from run where {condition}", arguments).fetchone()
            return None if row is None else rows.run_of(row)

        return self._database.transact(work)

    def _require_run(self, changed: int, run_id: str) -> None:
        if changed != 1:
            raise Refused(f"there is no run {run_id!r} in the platform database", hint="start_run comes first")

    # ---- receipts --------------------------------------------------------------------------------------------------

    def put_receipt(self, run_id: str, receipt: Receipt, *, attempt: str = "") -> None:
        """`attempt`: as of `put_result`."""
        values = (
            run_id,
            receipt.table,
            receipt.attempt,
            receipt.staged_as,
            receipt.rows,
            rows.digest_column(receipt.digest),
            rows.position_column(receipt.position),
        )

        def work(session: Session) -> None:
            attempts.require_newest(session, run_id, attempt)
            session.execute(
                "insert into receipt (run_id, table_name, attempt, staged_as, rows, digest, position)"
                " values (%s, %s, %s, %s, %s, %s, %s) on conflict (run_id, table_name, attempt, staged_as) do update"
                " set rows = excluded.rows, digest = excluded.digest, position = excluded.position,"
                " written_at = clock_timestamp()",
                values,
            )

        self._database.transact(work)

    def receipts(self, run_id: str) -> tuple[Receipt, ...]:
        """Of all attempts, by table, the oldest first: the last one of a table is the one that counts."""

        def work(session: Session) -> tuple[Receipt, ...]:
            cursor = session.cursor(row_factory=dict_row)
            cursor.execute(
                "select * from receipt where run_id = %s order by table_name, attempt, written_at", (run_id,)
            )
            return tuple(rows.receipt_of(row) for row in cursor)

        return self._database.transact(work)

    # ---- reconciliations -------------------------------------------------------------------------------------------

    def save_reconciliation(self, reconciliation: Reconciliation, *, attempt: str = "") -> None:
        """Keep it whole, and enter its hash into the log of acts; one of the same run, destination and scope is
        replaced. Breaks that it has no more close themselves, those that are back are open again. `attempt`: as of
        `put_result`.

        Refused: one with a signature, where the stored one is another one, or is not what the log of acts has."""
        kind = Kind.SIGNATURE_KEPT if reconciliation.signed_by else Kind.COMPARED
        act = verdict_act(reconciliation, kind)

        def work(session: Session) -> None:
            attempts.require_newest(session, reconciliation.run_id, attempt)
            if kind is Kind.SIGNATURE_KEPT:
                checks.require_signable(session, reconciliation)
            session.execute(
                "delete from reconciliation where run_id = %s and destination = %s and scope = %s",
                (reconciliation.run_id, reconciliation.destination, reconciliation.scope),
            )
            number = reconciliations.insert(session, reconciliation)
            settled = work_settled.settle(session, number, reconciliation)
            audit.append(session, act)
            for what, breaks in settled:
                audit.append_about(session, what, breaks)

        self._database.transact(work)

    def reconciliation(self, run_id: str, scope: str, destination: str = "") -> Reconciliation | None:
        """That of the run; with several destinations, name one."""
        found = self._reconciliations(
            "run_id = %s and scope = %s and %s in ('', destination) order by destination limit 1",
            (run_id, Scope(scope).value, destination),
        )
        return found[0] if found else None

    def require_as_entered(self, found: Reconciliation) -> None:
        """Refused: this verdict of a cut is not what the log of acts has."""
        self._database.transact(lambda session: checks.require_as_entered(session, found))

    def live_reconciliations(
        self, sync: str, limit: int, *, before: datetime | None = None, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        """Comparisons of the live tables, the newest first; one that failed before it compared is NOT_RUN there. As all
        that is read of live tables for a report, each is held against the log of acts.

        `before`: only those that had begun before then.
        """
        found = self._database.transact(
            lambda session: live_comparisons.newest(session, sync, limit, before=before, detail=detail)
        )
        # An onboarding that fails leaves live tables as they were.
        kinds = (RunKind.RECONCILE, *(() if found else (RunKind.ONBOARD,)))
        newest = None if before else self.latest_run(sync, *kinds)
        return (*(reconciliations.not_made(newest, found) if newest else ()), *found)

    def reconciliations_of(
        self, sync: str, run_id: str, *, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        """All of one run of the sync, by destination."""
        return self._reconciliations(
            "sync = %s and run_id = %s order by scope, destination", (sync, run_id), detail=detail
        )

    def live_reconciliations_of(
        self, sync: str, run_id: str, *, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        """Those of one run of the sync."""
        found = self._database.transact(lambda session: live_comparisons.of_run(session, sync, run_id, detail=detail))
        newest = () if found else self.live_reconciliations(sync, 1, detail=detail)
        return found or tuple(one for one in newest if one.run_id == run_id)

    def live_reconciliations_after_cut(
        self, sync: str, business_date: date, *, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        """Comparisons of the live tables that a cut of the date has caused, the newest first."""
        return self._live(
            "sync = %s and scope = 'live' and business_date = %s order by started_at desc",
            (sync, business_date),
            detail=detail,
        )

    def live_reconciliations_named(
        self, sync: str, name: str, *, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        """Comparisons of the live tables by runs of this name, as `runs_named` takes it; the newest first. The runs
        themselves may be gone."""
        return self._live(
            f"sync = %(sync)s and scope = 'live' and {_NAMED} order by started_at desc",
            {"sync": sync, "name": name},
            detail=detail,
        )

    def newest_evidence(
        self, sync: str, destination: str, scope: str, *, key: str, but_of_run: str = ""
    ) -> Mapping[str, Any]:
        """The evidence of the newest reconciliation whose evidence has `key`; empty where none has. Those of the run
        `but_of_run` do not count."""

        def work(session: Session) -> Mapping[str, Any]:
            row = session.execute(
                "select evidence from reconciliation where sync = %s and destination = %s and scope = %s"
                " and run_id <> %s and evidence ? %s order by started_at desc limit 1",
                (sync, destination, Scope(scope).value, but_of_run, key),
            ).fetchone()
            return {} if row is None else dict(row[0])

        return self._database.transact(work)

    def _live(
        self, condition: str, arguments: Sequence[Any] | Mapping[str, Any], *, detail: Detail
    ) -> tuple[Reconciliation, ...]:
        return self._database.transact(
            lambda session: live_comparisons.read(session, condition, arguments, detail=detail)
        )

    def _reconciliations(
        self, condition: str, arguments: Sequence[Any] | Mapping[str, Any], *, detail: Detail = Detail.WHOLE
    ) -> tuple[Reconciliation, ...]:
        return self._database.transact(
            lambda session: reconciliations.read(session, condition, arguments, detail=detail)
        )

    # ---- cuts ------------------------------------------------------------------------------------------------------

    def save_cut(self, cut: Cut) -> None:
        """Write down that it is published, and enter that into the log of acts."""
        values = (
            cut.sync,
            cut.destination,
            cut.business_date,
            cut.version,
            cut.run_id,
            rows.position_column(cut.position),
            cut.as_of,
            list(cut.tables),
            cut.verdict.value,
            cut.partial,
        )

        def work(session: Session) -> None:
            row = session.execute(
                "insert into cut (sync, destination, business_date, version, run_id, position, as_of, tables, verdict,"
                " partial) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
                " on conflict (sync, destination, business_date, version) do update set position = excluded.position,"
                " as_of = excluded.as_of, tables = excluded.tables, verdict = excluded.verdict,"
                " partial = excluded.partial where cut.run_id = excluded.run_id returning saved_at",
                values,
            ).fetchone()
            if row is None:
                raise InvariantViolated(
                    f"version {cut.version} of the cut of {cut.business_date} belongs to another run", sync=cut.sync
                )
            verdict = audit.verdicts_of(session, cut.run_id).get(cut.destination, "")
            audit.append(session, cut_act(replace(cut, saved_at=row[0]), Kind.PUBLISHED, verdict=verdict))

        self._database.transact(work)

    def cuts(self, sync: str, business_date: date | None = None) -> tuple[Cut, ...]:
        """The newest date first, of a date the newest version first."""

        def work(session: Session) -> tuple[Cut, ...]:
            cursor = session.cursor(row_factory=dict_row)
            cursor.execute(
                "select * from cut where sync = %s and (%s::date is null or business_date = %s)"
                " order by business_date desc, version desc, destination",
                (sync, business_date, business_date),
            )
            return tuple(rows.cut_of(row) for row in cursor)

        return self._database.transact(work)

    def cut_states(
        self, sync: str, limit: int, *, before: date | None = None, detail: Detail = Detail.WHOLE
    ) -> tuple[CutState, ...]:
        """The state of the newest take of each business date, per destination; of `limit` dates, the newest first.
        `before`: only dates before it."""
        return self._database.transact(
            lambda session: cut_states.newest(session, sync, limit=limit, before=before, detail=detail)
        )

    def takes(self, sync: str, business_date: date, *, detail: Detail = Detail.WHOLE) -> tuple[CutState, ...]:
        """The state of every take of the date, per destination; the newest take first."""
        return self._database.transact(lambda session: cut_states.of_date(session, sync, business_date, detail=detail))

    def recorded(self, run_id: str, destination: str, scope: Scope = Scope.CUT) -> Recorded | None:
        """What the log of acts has of the cut of a run, or of its comparison of live tables, in one destination."""
        look = audit_check.recorded_of if scope is Scope.CUT else audit_check.live_recorded_of

        def work(session: Session) -> Recorded | None:
            session.execute("set transaction isolation level repeatable read, read only")
            return look(session, [run_id]).of(run_id, destination)

        return self._database.transact(work)

    def states_of_dates(self, sync: str, days: Sequence[date]) -> tuple[CutState, ...]:
        """The state of the newest take of each of these dates, per destination."""
        return self._database.transact(lambda session: cut_states.of_dates(session, sync, days))

    def published_cuts(self, sync: str) -> tuple[PublishedCut, ...]:
        """The newest date first, of a date the newest version first."""
        return self._database.transact(lambda session: cut_list.cuts_of(session, sync))

    def published_dates(self, sync: str) -> Mapping[str, frozenset[date]]:
        """By destination every date of which a cut was ever published."""
        return self._database.transact(lambda session: cut_list.published_dates(session, sync))

    def totals_over(self, sync: str, cuts: Sequence[tuple[str, str]]) -> tuple[Series, ...]:
        """What the first control totals were over these cuts, each as (run, destination), the newest last."""
        return self._database.transact(lambda session: totals.over(session, sync, cuts))

    # ---- states and alarms -----------------------------------------------------------------------------------------

    def set_sync_state(self, sync: str, state: str) -> None:
        def work(session: Session) -> None:
            session.execute(
                "insert into sync_state (sync, state) values (%s, %s) on conflict (sync) do update"
                " set state = excluded.state, changed_at = now() where sync_state.state <> excluded.state",
                (sync, SyncState(state).value),
            )

        self._database.transact(work)

    def sync_state(self, sync: str) -> SyncState | None:
        """None before its first onboarding."""

        def work(session: Session) -> SyncState | None:
            row = session.execute("select state from sync_state where sync = %s", (sync,)).fetchone()
            return None if row is None else SyncState(row[0])

        return self._database.transact(work)

    def raise_alarm(self, kind: AlarmKind, subject: str, message: str) -> None:
        """Open the alarm, or give the open one its newest message."""

        def work(session: Session) -> None:
            session.execute(
                "insert into alarm (kind, subject, message) values (%s, %s, %s)"
                " on conflict (kind, subject) where ended_at is null do update set message = excluded.message",
                (kind, subject, message),
            )

        self._database.transact(work)

    def end_alarm(self, kind: str, subject: str) -> None:
        def work(session: Session) -> None:
            session.execute(
                "update alarm set ended_at = clock_timestamp() where kind = %s and subject = %s and ended_at is null",
                (kind, subject),
            )

        self._database.transact(work)

    def end_alarms_left(self, pool: str, kinds: Sequence[str]) -> None:
        """End what an earlier host of this pool left open; what is still so is raised again at once."""

        def work(session: Session) -> None:
            session.execute(
                "update alarm set ended_at = clock_timestamp() where ended_at is null and kind = any(%s)"
                " and subject not in (select sync || '@' || destination from stream where is_wanted and pool <> %s)",
                (list(kinds), pool),
            )

        self._database.transact(work)

    def open_alarms(self) -> tuple[Alarm, ...]:
        def work(session: Session) -> tuple[Alarm, ...]:
            cursor = session.execute(
                "select kind, subject, message, raised_at from alarm where ended_at is null order by raised_at"
            )
            return tuple(Alarm(*row) for row in cursor)

        return self._database.transact(work)


def _start(session: Session, entry: tuple[str, str, str, date | None, str]) -> None:
    row = session.execute(
        "insert into run (run_id, sync, kind, business_date, plan_json) values (%s, %s, %s, %s, %s)"
        " on conflict (run_id) do update set plan_json = excluded.plan_json, state = 'running',"
        " started_at = excluded.started_at, ended_at = null"
        " returning sync, kind, business_date",
        entry,
    ).fetchone()
    run_id, sync, kind, business_date, _ = entry
    if row != (sync, kind, business_date):
        raise InvariantViolated(
            f"run {run_id} exists as {row}, and was to start as {(sync, kind, business_date)}", sync=sync
        )
