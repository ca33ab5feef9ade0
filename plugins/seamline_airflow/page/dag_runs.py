"""Runs of Airflow that the page starts, and its backfills. The one place that uses what is behind Airflow's own
*Trigger* (3.3.2): the API server that serves the page has Airflow's database open."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from enum import StrEnum
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.api_fastapi.core_api.routes.public import backfills as routes
from airflow.models.backfill import (
    AlreadyRunningBackfill,
    Backfill,
    BackfillDagRun,
    NoBackfillRunsToCreate,
    ReprocessBehavior,
    _create_backfill,
)
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select

from seamline.domain.backfill import DateRun
from seamline.domain.errors import Refused
from seamline.sync.dates_asked import DatesAsked, DateTaken

# Airflow's page of a run takes no longer note (3.3.2).
_NOTE_LETTERS_MAX = 1000
_GOES_ON = DagRun.state.in_((DagRunState.QUEUED, DagRunState.RUNNING))


class BackfillOrder(StrEnum):
    PAUSE = "pause"
    CONTINUE = "continue"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class BackfillSeen:
    """One of Airflow's. `first` and `last` are inclusive; `dates` stand in the order in which they are made."""

    number: int
    first: date
    last: date
    at_once: int
    by: str
    is_paused: bool
    is_over: bool
    dates: tuple[DateRun, ...]


def start(dag_id: str, *, by: str, conf: Mapping[str, Any], note: str = "") -> str:
    """Queue a run for a person and return its name. `note` stands on its page. Refused where it would not begin soon:
    the DAG is not there, is paused, or has a run that goes on."""
    with create_session() as session:
        _require_unpaused(session, dag_id)
        before = session.scalar(select(DagRun.run_id).where(DagRun.dag_id == dag_id, _GOES_ON))
    if before is not None:
        raise Refused(f"run {before} of {dag_id} goes on", hint="wait for its end, or end it in Airflow")
    made = trigger_dag(
        dag_id,
        triggered_by=DagRunTriggeredByType.UI,
        triggering_user_name=by,
        conf=dict(conf),
        note=note[:_NOTE_LETTERS_MAX] or None,
    )
    return str(made.run_id)


def start_date(dag_id: str, day: date, *, by: str, conf: Mapping[str, Any], note: str) -> str:
    """As `start`, for one business date. Runs of other dates are not in its way."""
    with create_session() as session:
        _require_unpaused(session, dag_id)
        of_date = (DagRun.dag_id == dag_id, DagRun.partition_key == day.isoformat())
        before = session.scalar(select(DagRun.run_id).where(*of_date, _GOES_ON))
    if before is not None:
        raise DateTaken(day, by=before)
    made = trigger_dag(
        dag_id,
        triggered_by=DagRunTriggeredByType.UI,
        triggering_user_name=by,
        conf=dict(conf),
        partition_key=day.isoformat(),
        note=note[:_NOTE_LETTERS_MAX],
    )
    return str(made.run_id)


def start_backfill(dag_id: str, asked: DatesAsked, *, by: str, note: str) -> int:
    """Airflow's own backfill, and its number. `note` stands on the page of each of its runs."""
    with create_session() as session:
        _require_unpaused(session, dag_id)
    try:
        made = _create_backfill(
            dag_id=dag_id,
            from_date=_midnight(asked.first),
            to_date=_midnight(asked.last),
            max_active_runs=asked.at_once,
            reverse=asked.newest_first,
            dag_run_conf=asked.params(),
            triggering_user_name=by,
            reprocess_behavior=ReprocessBehavior.COMPLETED,
        )
    except AlreadyRunningBackfill as exc:
        raise Refused(f"a backfill of {dag_id} goes on", hint="wait for its end, or cancel it") from exc
    except NoBackfillRunsToCreate as exc:
        raise Refused(f"{asked.first} to {asked.last} has no business date") from exc
    number = int(made.id)
    with create_session() as session:
        # Also of a date that Airflow has begun already: nobody has said anything of it before.
        _note(session, number, note)
    return number


def order_backfill(dag_id: str, number: int, order: BackfillOrder, *, note: str) -> None:
    """What runs already goes on to its end. Refused for one that is over, or of another DAG."""
    acts = {
        BackfillOrder.PAUSE: routes.pause_backfill,
        BackfillOrder.CONTINUE: routes.unpause_backfill,
        BackfillOrder.CANCEL: routes.cancel_backfill,
    }
    with create_session() as session:
        known = session.get(Backfill, number)
        if known is None or known.dag_id != dag_id or known.completed_at is not None:
            raise Refused(f"backfill {number} does not go on")
        # What runs, or is over, keeps what was said of it. Before it is cancelled: its runs do not wait any more then.
        _note(session, number, note, DagRun.state == DagRunState.QUEUED)
        acts[order](backfill_id=number, session=session)


def backfill_of(dag_id: str) -> BackfillSeen | None:
    """The newest of the DAG: of those that go on there is one at most."""
    with create_session() as session:
        known = session.scalar(select(Backfill).where(Backfill.dag_id == dag_id).order_by(Backfill.id.desc()).limit(1))
        if known is None:
            return None
        rows = session.execute(
            select(BackfillDagRun.partition_key, DagRun)
            .join(DagRun, DagRun.id == BackfillDagRun.dag_run_id, isouter=True)
            .where(BackfillDagRun.backfill_id == known.id)
            .order_by(BackfillDagRun.sort_ordinal)
        )
        dates = tuple(_date_run(key or run.partition_key, run) for key, run in rows)
        return BackfillSeen(
            known.id,
            known.from_date.date(),
            known.to_date.date(),
            known.max_active_runs,
            str(known.triggering_user_name or ""),
            is_paused=bool(known.is_paused),
            is_over=known.completed_at is not None,
            dates=dates,
        )


def _date_run(key: str, run: DagRun | None) -> DateRun:
    day = date.fromisoformat(key)
    if run is None:
        return DateRun(day)
    return DateRun(day, str(run.run_id), str(run.state), started_at=run.start_date, ended_at=run.end_date)


def _note(session: Any, number: int, note: str, *which: Any) -> None:
    """On the page of each of a backfill's runs of which these conditions hold."""
    of_backfill = select(DagRun).join(BackfillDagRun, BackfillDagRun.dag_run_id == DagRun.id)
    for run in session.scalars(of_backfill.where(BackfillDagRun.backfill_id == number, *which)):
        run.note = note[:_NOTE_LETTERS_MAX]


def _require_unpaused(session: Any, dag_id: str) -> None:
    known = session.get(DagModel, dag_id)
    if known is None or known.is_stale or known.has_import_errors:
        raise Refused(f"Airflow has no DAG {dag_id} now", hint="its page of import errors says why")
    if known.is_paused:
        raise Refused(f"the DAG {dag_id} is paused", hint="unpause it in Airflow")


def _midnight(day: date) -> datetime:
    """Airflow reads it as the clock of the timetable's zone shows it."""
    return datetime.combine(day, time(), UTC)


def state(dag_id: str, run: str) -> str:
    """The state of a run in Airflow's words; "" where there is no such run."""
    with create_session() as session:
        found = session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run))
    return str(found.value if isinstance(found, DagRunState) else found or "")
