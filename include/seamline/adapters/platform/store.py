"""PlatformStore: runs, receipts, cuts, reconciliations, states of syncs and open alarms.

Every method is one short transaction and may be repeated with the same arguments. TransientError: the database is away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from psycopg.rows import dict_row
from psycopg.types.json import Json, Jsonb

from seamline.adapters.platform import rows
from seamline.adapters.platform.database import Database, Session
from seamline.domain.errors import InvariantViolated, Refused
from seamline.domain.runs import Cut, Receipt, Reconciliation, RunKind, RunState, Scope, SyncState
from seamline.domain.verdict import Break, ControlTotal, TableVerdict, Verdict
from seamline.plan.model import Run

# As in its index. A reconciliation of the live tables is of no date, though its run may have one.
_CUT_DATE = "(case when scope = 'cut' then business_date end)"


@dataclass(frozen=True, slots=True)
class Alarm:
    """A state that a person must know of. `subject` is what it is about: a stream, a connector, a topic."""

    kind: str
    subject: str
    message: str
    raised_at: datetime


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

        def work(session: Session) -> None:
            row = session.execute(
                "insert into run (run_id, sync, kind, business_date, plan_json) values (%s, %s, %s, %s, %s)"
                " on conflict (run_id) do update set plan_json = excluded.plan_json, state = 'running', ended_at = null"
                " returning sync, kind, business_date",
                (run_id, sync, RunKind(kind).value, business_date, plan_json),
            ).fetchone()
            if row != (sync, kind, business_date):
                raise InvariantViolated(
                    f"run {run_id} exists as {row}, and was to start as {(sync, kind, business_date)}", sync=sync
                )

        self._database.transact(work)

    def run(self, run_id: str) -> Run:
        """The run with its plan and results. Refused when there is none."""
        found = self._run_where("run_id = %s", (run_id,))
        if found is None:
            raise Refused(
                f"there is no run {run_id!r} in the platform database",
                hint="a run is made by its DAG's first task or by the command line; give its id as it stands there",
            )
        return found

    def latest_run(self, sync: str, *kinds: str, with_result: str = "") -> Run | None:
        """The one of these kinds that started last; `with_result`: of those that have this result."""
        return self._run_where(
            "sync = %s and kind = any(%s) and (%s = '' or result ? %s) order by started_at desc limit 1",
            (sync, [RunKind(kind).value for kind in kinds], with_result, with_result),
        )

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        """Keep a JSON value under `Run.result[key]`, in place of an earlier one."""

        def work(session: Session) -> int:
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

    def put_receipt(self, run_id: str, receipt: Receipt) -> None:
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

    def save_reconciliation(self, reconciliation: Reconciliation) -> None:
        """Keep it whole; one of the same run, destination and scope is replaced."""

        def work(session: Session) -> None:
            session.execute(
                "delete from reconciliation where run_id = %s and destination = %s and scope = %s",
                (reconciliation.run_id, reconciliation.destination, reconciliation.scope),
            )
            number = _insert_reconciliation(session, reconciliation)
            for ordinal, verdict in enumerate(reconciliation.tables):
                _insert_table_verdict(session, number, ordinal, verdict)

        self._database.transact(work)

    def reconciliation(self, run_id: str, scope: str, destination: str = "") -> Reconciliation | None:
        """That of the run; with several destinations, name one."""
        found = self._reconciliations(
            "run_id = %s and scope = %s and %s in ('', destination) order by destination limit 1",
            (run_id, Scope(scope).value, destination),
        )
        return found[0] if found else None

    def reconciliations(self, sync: str, limit: int = 20) -> tuple[Reconciliation, ...]:
        """The newest first."""
        return self._reconciliations("sync = %s order by started_at desc limit %s", (sync, limit))

    def reconciliations_of_run(self, sync: str, name: str) -> tuple[Reconciliation, ...]:
        """Of the run whose id ends in `/<name>`, and of its repetitions (`<name>~2`); the newest first."""
        return self._reconciliations(
            # The second condition finds by an index, the third is exact.
            "sync = %s and regexp_replace(run_id, '^.*/|~[0-9]+$', '', 'g') in (%s, regexp_replace(%s, '~[0-9]+$', ''))"
            " and regexp_replace(run_id, '^.*/', '') in (%s, %s || substring(run_id from '~[0-9]+$'))"
            " order by started_at desc",
            (sync, name, name, name, name),
        )

    def reconciliations_of_date(self, sync: str, business_date: date) -> tuple[Reconciliation, ...]:
        """The newest first."""
        return self._reconciliations("sync = %s and business_date = %s order by started_at desc", (sync, business_date))

    def newest_per_date(self, sync: str, limit: int = 20) -> tuple[Reconciliation, ...]:
        """For each destination the newest of the live tables and the newest of each date's cut; the newest first."""
        return self._reconciliations(
            f"reconciliation_id in (select distinct on (destination, {_CUT_DATE}) reconciliation_id"
            f" from reconciliation where sync = %s order by destination, {_CUT_DATE}, started_at desc)"
            " order by started_at desc limit %s",
            (sync, limit),
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

    def _reconciliations(self, condition: str, arguments: Sequence[Any]) -> tuple[Reconciliation, ...]:
        def work(session: Session) -> tuple[Reconciliation, ...]:
            cursor = session.cursor(row_factory=dict_row)
            found = cursor.execute(f"select * from reconciliation where {condition}", arguments).fetchall()
            tables = _read_table_verdicts(session, [row["reconciliation_id"] for row in found])
            return tuple(rows.reconciliation_of(row, tables.get(row["reconciliation_id"], ())) for row in found)

        return self._database.transact(work)

    # ---- cuts ------------------------------------------------------------------------------------------------------

    def save_cut(self, cut: Cut) -> None:
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
                " partial = excluded.partial where cut.run_id = excluded.run_id returning 1",
                values,
            ).fetchone()
            if row is None:
                raise InvariantViolated(
                    f"version {cut.version} of the cut of {cut.business_date} belongs to another run", sync=cut.sync
                )

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

    def raise_alarm(self, kind: str, subject: str, message: str) -> None:
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


def _insert_reconciliation(session: Session, reconciliation: Reconciliation) -> int:
    row = session.execute(
        "insert into reconciliation (run_id, sync, destination, scope, business_date, position, position_time, mode,"
        " verdict, started_at, ended_at, evidence) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
        " returning reconciliation_id",
        (
            reconciliation.run_id,
            reconciliation.sync,
            reconciliation.destination,
            Scope(reconciliation.scope).value,
            reconciliation.business_date,
            rows.position_column(reconciliation.position),
            reconciliation.position_time,
            reconciliation.mode,
            Verdict(reconciliation.verdict).value,
            reconciliation.started_at,
            reconciliation.ended_at,
            Jsonb(dict(reconciliation.evidence)),
        ),
    ).fetchone()
    if row is None:
        raise InvariantViolated("an insert gave no number back", sync=reconciliation.sync)
    return int(row[0])


def _insert_table_verdict(session: Session, number: int, ordinal: int, verdict: TableVerdict) -> None:
    session.execute(
        "insert into table_verdict values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            number,
            ordinal,
            verdict.table,
            verdict.verdict.value,
            verdict.reason,
            verdict.position,
            verdict.source_rows,
            verdict.destination_rows,
            verdict.breaks_total,
        ),
    )
    cursor = session.cursor()
    cursor.executemany(
        "insert into control_total values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [_total_columns(number, ordinal, place, total) for place, total in enumerate(verdict.totals)],
    )
    cursor.executemany(
        "insert into break values (%s, %s, %s, %s, %s, %s, %s, %s)",
        [_break_columns(number, ordinal, place, found) for place, found in enumerate(verdict.breaks)],
    )


def _total_columns(number: int, table_ordinal: int, ordinal: int, total: ControlTotal) -> tuple[Any, ...]:
    return (
        number,
        table_ordinal,
        ordinal,
        total.table,
        total.column,
        list(total.group),
        total.source_rows,
        total.destination_rows,
        total.source_sum,
        total.destination_sum,
    )


def _break_columns(number: int, table_ordinal: int, ordinal: int, found: Break) -> tuple[Any, ...]:
    # `json`, not `jsonb`: a row's columns keep their order for the reader of the report.
    source = None if found.source is None else Json(found.source)
    destination = None if found.destination is None else Json(found.destination)
    return number, table_ordinal, ordinal, found.table, found.type.value, found.key, source, destination


def _read_table_verdicts(session: Session, numbers: Sequence[int]) -> dict[int, tuple[TableVerdict, ...]]:
    """Those of each of these reconciliations, in order; one question for all."""
    totals: dict[tuple[int, int], list[ControlTotal]] = {}
    for entry in _rows_of(session, "control_total", numbers):
        totals.setdefault((entry["reconciliation_id"], entry["table_ordinal"]), []).append(rows.total_of(entry))
    breaks: dict[tuple[int, int], list[Break]] = {}
    for entry in _rows_of(session, "break", numbers):
        breaks.setdefault((entry["reconciliation_id"], entry["table_ordinal"]), []).append(rows.break_of(entry))
    found: dict[int, tuple[TableVerdict, ...]] = {}
    for entry in _rows_of(session, "table_verdict", numbers):
        number, place = entry["reconciliation_id"], (entry["reconciliation_id"], entry["ordinal"])
        verdict = rows.table_verdict_of(entry, totals.get(place, ()), breaks.get(place, ()))
        found[number] = (*found.get(number, ()), verdict)
    return found


def _rows_of(session: Session, table: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    cursor = session.cursor(row_factory=dict_row)
    # `table` is one of three names above, never input.
    cursor.execute(f"select * from {table} where reconciliation_id = any(%s) order by ordinal", (list(numbers),))
    return cursor.fetchall()
