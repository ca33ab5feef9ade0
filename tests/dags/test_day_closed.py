"""The wait for the source's day: by a file, a query, a system date or an asset; and what is said when it is in vain."""

import asyncio
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.sdk.module_loading import import_string

from seamline.domain.day_closed import CLOSED, ClosedBy, DayClosed, Look
from seamline.domain.errors import SchemaConflict, TransientError
from seamline.plan.model import NightlyPlan
from seamline_airflow import day_closed, parts
from seamline_airflow.sensors.day_closed_sensor import DayClosedSensor
from tests.dags import results

FILE = DayClosed(ClosedBy.FILE, "core_bank/{date}.ok", every_s=5)
SYSTEM_DATE = DayClosed(ClosedBy.SYSTEM_DATE, "system_date", "business_date", every_s=5)
ASSET = DayClosed(ClosedBy.ASSET, "core_bank.closed", every_s=5)
NOW = datetime.now(UTC)


class Source:
    """A core system whose own date a test sets."""

    def __init__(self) -> None:
        self.date = results.DATE
        self.away = False

    def values_of(self, table: str, column: str) -> list[Any]:
        assert (table, column) == ("system_date", "business_date")
        if self.away:
            raise TransientError("away for a moment")
        return [self.date]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    made = Source()
    monkeypatch.setattr(parts, "questions", lambda plan: made)
    return made


def waiting(
    monkeypatch: pytest.MonkeyPatch, wanted: DayClosed, *, day: date = results.DATE, begun: datetime = NOW
) -> results.Platform:
    platform = results.use(monkeypatch, results.Platform())
    nightly = NightlyPlan(timezone="Asia/Shanghai", verdict_by="07:00", closed_when=(wanted,))
    run = results.run(plan=results.plan(nightly=nightly), business_date=day, started_at=begun, result={})
    platform.runs[results.RUN] = run
    return platform


def sensor(*assets: str) -> DayClosedSensor:
    return DayClosedSensor(task_id="ready", run=results.RUN, assets=assets, poll_s=0.01)


def event_of(deferred: TaskDeferred) -> dict[str, Any]:
    """What the trigger fires with, made again from its serialized form as the triggerer makes it."""
    path, kwargs = deferred.trigger.serialize()
    trigger = import_string(path)(**kwargs)

    async def first() -> Any:
        async for event in trigger.run():
            return event.payload

    found: dict[str, Any] = asyncio.run(asyncio.wait_for(first(), 20))
    return found


def test_a_night_whose_file_is_there_waits_for_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEAMLINE_READY_FILES", str(tmp_path))
    file = tmp_path / f"core_bank/{results.DATE}.ok"
    file.parent.mkdir()
    file.touch()
    platform = waiting(monkeypatch, FILE)
    sensor().execute({})
    # Nobody saw the day open, so the end of the date is what counts.
    assert platform.run(results.RUN).result[CLOSED]["open_at"] == ""


def test_a_night_waits_in_the_triggerer_until_the_system_date_has_moved_on(
    monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    platform = waiting(monkeypatch, SYSTEM_DATE)
    with pytest.raises(TaskDeferred) as deferred:
        sensor().execute({})
    kept = platform.run(results.RUN).result[CLOSED]
    assert kept["waits_for"] == f"a later date in system_date.business_date (the system date is {results.DATE})"
    seen: list[day_closed.Next] = []
    real = day_closed.look_in_triggerer

    def look(run_id: str, now: datetime) -> day_closed.Next:
        # Open, away, and then closed.
        source.away = len(seen) == 1
        source.date = results.DATE + timedelta(days=3 if len(seen) > 1 else 0)
        seen.append(real(run_id, now))
        return seen[-1]

    monkeypatch.setattr(day_closed, "look_in_triggerer", look)
    event = event_of(deferred.value)
    assert seen == [day_closed.Next.STILL_OPEN, day_closed.Next.LOOK_AGAIN, day_closed.Next.TASK]
    sensor().execute_complete({}, event)
    kept = platform.run(results.RUN).result[CLOSED]
    assert (kept["waits_for"], kept["open_at"]) == ("", event["open_at"])


def test_a_source_that_has_not_closed_its_day_in_time_is_late_input_with_an_alarm(
    monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    platform = waiting(monkeypatch, SYSTEM_DATE, begun=datetime(2026, 11, 19, 16, 30, tzinfo=UTC))
    since = datetime(2026, 11, 19, 16, 31, tzinfo=UTC).isoformat()
    platform.runs[results.RUN].result[CLOSED] = {"since": since}
    with pytest.raises(AirflowFailException, match="late input: source core_bank has not closed 2026-11-19 by") as late:
        sensor().execute({})
    assert "waited since 2026-11-20 00:31:00 +08:00 for a later date in system_date" in str(late.value)
    assert list(platform.alarms) == [("late_input", "settlement 2026-11-19")]
    # Cleared behind its hour it waits again, and the alarm ends with the day.
    with pytest.raises(TaskDeferred) as deferred:
        sensor().execute({})
    assert deferred.value.timeout > timedelta(hours=6)
    source.date += timedelta(days=1)
    sensor().execute_complete({}, {"open_at": ""})
    assert platform.alarms == {}


def test_of_an_asset_only_a_task_can_see_the_event_of_the_date(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(monkeypatch, ASSET)
    events: list[Any] = [SimpleNamespace(partition_key="2026-11-18")]

    class Events(list[Any]):
        def ascending(self, _is_ascending: bool) -> "Events":
            return self

        def limit(self, _limit: int) -> "Events":
            return self

    class OfAssets:
        def __getitem__(self, asset: Any) -> Events:
            assert asset.name == "core_bank.closed"
            return Events(events)

    context = {"inlet_events": OfAssets()}
    with pytest.raises(TaskDeferred) as deferred:
        sensor(ASSET.what).execute(context)
    assert event_of(deferred.value) == {"open_at": ""}
    events.append(SimpleNamespace(partition_key=results.DATE.isoformat()))
    sensor(ASSET.what).execute_complete(context, {"open_at": ""})
    assert [one.name for one in sensor(ASSET.what).inlets] == ["core_bank.closed"]


def test_a_statement_that_is_wrong_ends_the_wait_and_is_said_by_the_task(
    monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    platform = waiting(monkeypatch, replace(SYSTEM_DATE, by=ClosedBy.SQL, what="select 1"))

    def ask(*_: Any) -> Any:
        raise SchemaConflict("there is no such table")

    monkeypatch.setattr(source, "ask", ask, raising=False)
    assert day_closed.look_in_triggerer(results.RUN, NOW) is day_closed.Next.TASK
    with pytest.raises(AirflowFailException, match="there is no such table"):
        sensor().execute({})
    assert platform.alarms == {}


def test_a_night_of_delivered_files_waits_for_their_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [Look(is_closed=False, seen="in/2026-11-19.flg is not there"), Look(is_closed=True)]
    monkeypatch.setattr(parts, "delivery", lambda plan, day: seen.pop(0))
    platform = waiting(monkeypatch, DayClosed(ClosedBy.DELIVERY, "in/{date}.flg", every_s=5))
    with pytest.raises(TaskDeferred) as deferred:
        sensor().execute({})
    kept = platform.run(results.RUN).result[CLOSED]
    assert kept["waits_for"] == "the flag in/{date}.flg of the delivery (in/2026-11-19.flg is not there)"
    seen.append(seen[0])
    sensor().execute_complete({}, event_of(deferred.value))
    assert platform.run(results.RUN).result[CLOSED]["waits_for"] == ""
