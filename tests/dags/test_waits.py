"""Cutover and stream watch: at once where there is something to say, otherwise without a worker."""

import asyncio
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.sdk.module_loading import import_string

from seamline import settings
from seamline.domain.cutover import Boundary
from seamline.domain.declared import Step, StreamMark
from seamline.domain.errors import ConfigError, InvariantViolated, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.ports import WantedStream
from seamline.stack import airflow_pools
from seamline.stack.layout import Layout
from seamline.sync.stream_state import HOST_GONE_MAX_S, STILL_MAX_S
from seamline_airflow import cutover_state, parts
from seamline_airflow.operators.step import StreamsCheckOperator
from seamline_airflow.sensors.cutover_sensor import CutoverSensor
from seamline_airflow.sensors.stream_watch import StreamWatchSensor
from seamline_airflow.stream_health import host_troubles
from seamline_airflow.triggers import stream_watch
from seamline_airflow.triggers.cutover import CutoverTrigger
from seamline_airflow.triggers.stream_watch import StreamWatchTrigger
from tests.dags import results
from tests.unit.declared import write_declarations

HIGH = "high-1"


def _ledger(*, ended: bool = False, marker: str = HIGH, last: str = "") -> LedgerRow:
    boundaries = (Boundary("account", results.POSITION, 1, marker, ended),)
    return LedgerRow(results.STREAM, "t", "id", 10, results.POSITION, 1, 5, 0, boundaries, last)


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    made.runs[results.RUN] = results.run(result={"snapshot": {"high_marker": HIGH}})
    made.wanted_streams = (_wanted(),)
    made.ledger = None  # type: ignore[attr-defined]

    @contextmanager
    def sink(_plan: Any, _name: str) -> Any:
        yield SimpleNamespace(read_ledger=lambda _stream: made.ledger)  # type: ignore[attr-defined]

    monkeypatch.setattr(parts, "sink", sink)
    return made


def _events(trigger: Any) -> list[Any]:
    async def collect() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    return asyncio.run(asyncio.wait_for(collect(), 20))


def _again(trigger: Any) -> Any:
    """The trigger as the triggerer makes it, from its serialized form."""
    path, kwargs = trigger.serialize()
    again = import_string(path)(**kwargs)
    assert again.serialize() == (path, kwargs)
    return again


def test_the_cutover_is_reached_by_this_runs_marker_and_by_no_other() -> None:
    assert cutover_state.has_passed(_ledger(ended=True), HIGH)
    assert cutover_state.has_passed(_ledger(last=HIGH), HIGH)
    assert not cutover_state.has_passed(_ledger(), HIGH)
    assert not cutover_state.has_passed(_ledger(ended=True, marker="high-0", last="high-0"), HIGH)
    assert not cutover_state.has_passed(replace(_ledger(), boundaries=()), HIGH)


def test_a_reached_cutover_needs_no_deferral(platform: Any) -> None:
    platform.ledger = _ledger(ended=True)
    found = CutoverSensor(task_id="cutover", run=results.RUN).execute({})
    assert found == {"settlement@warehouse": str(results.POSITION)}


def test_a_cutover_to_come_is_waited_for_in_the_triggerer_with_a_deadline(platform: Any) -> None:
    with pytest.raises(TaskDeferred) as deferred:
        CutoverSensor(task_id="cutover", run=results.RUN, timeout=3600).execute({})
    assert deferred.value.timeout == timedelta(hours=1)
    assert isinstance(_again(deferred.value.trigger), CutoverTrigger)


# What a database says while it is away, and while a login is rotated.
PASSING = (TransientError("away for a moment"), ConfigError("refused login `seamline`"))


@pytest.mark.parametrize("passing", PASSING)
def test_the_trigger_fires_when_the_ledger_has_applied_the_marker(
    platform: Any, monkeypatch: pytest.MonkeyPatch, passing: SeamlineError
) -> None:
    looks: list[int] = []
    real = cutover_state.look

    def look(run_id: str) -> Any:
        looks.append(1)
        if len(looks) == 2:
            raise passing
        platform.ledger = _ledger(ended=len(looks) > 3)
        return real(run_id)

    monkeypatch.setattr(cutover_state, "look", look)
    (event,) = _events(CutoverTrigger(results.RUN, 0.01))
    assert event["status"] == "reached"
    assert len(looks) == 4


def test_the_trigger_fires_at_once_when_the_stream_has_failed(platform: Any) -> None:
    platform.reports = {results.STREAM: results.report(state="failed", error="the log was purged")}
    (event,) = _events(CutoverTrigger(results.RUN, 0.01))
    assert event["status"] == "error"
    assert "the log was purged" in event["message"]
    with pytest.raises(AirflowFailException, match="purged"):
        CutoverSensor(task_id="cutover", run=results.RUN).execute_complete({}, event)


def test_the_trigger_fires_at_once_when_the_stream_is_paused(platform: Any) -> None:
    platform.wanted_streams = (WantedStream(results.STREAM, "", 1, paused=True),)
    (event,) = _events(CutoverTrigger(results.RUN, 0.01))
    assert event["status"] == "error"
    assert "seamline stream resume settlement" in event["message"]


def test_a_run_without_its_snapshot_is_an_error_and_not_an_endless_wait(platform: Any) -> None:
    platform.runs[results.RUN] = results.run(result={})
    with pytest.raises(InvariantViolated, match="high marker"):
        cutover_state.look(results.RUN)
    (event,) = _events(CutoverTrigger(results.RUN, 0.01))
    assert "high marker" in event["message"]


def _watch(**fields: Any) -> StreamWatchSensor:
    return StreamWatchSensor(task_id="watch", sync="settlement", destinations=["warehouse"], timezone="UTC", **fields)


def _day(day: Any) -> dict[str, Any]:
    return {"dag_run": SimpleNamespace(partition_key=day.isoformat(), run_id="r"), "params": {}}


def test_the_watch_waits_until_its_date_ends(platform: Any) -> None:
    platform.reports = {results.STREAM: results.report()}
    with pytest.raises(TaskDeferred) as deferred:
        _watch().execute(_day(datetime.now(UTC).date()))
    trigger = _again(deferred.value.trigger)
    assert isinstance(trigger, StreamWatchTrigger)
    assert datetime.fromisoformat(trigger.until).hour == 0
    assert deferred.value.timeout < timedelta(hours=24, minutes=30)


def test_the_watch_shows_the_lag_of_its_streams_when_it_begins_and_again_and_again(
    platform: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.reports = {results.STREAM: results.report(lag_s=1.25, epoch=1, next_offset=40, log_end_offset=47)}
    line = "settlement@warehouse: streaming, lag 1.2 s (7 records)"
    watch = _watch()
    logged: list[str] = []
    monkeypatch.setattr(watch.log, "info", lambda text, *values: logged.append(text % values))
    with pytest.raises(TaskDeferred):
        watch.execute(_day(datetime.now(UTC).date()))
    assert [said for said in logged if line in said] != []
    monkeypatch.setattr(stream_watch, "_LOG_EVERY_S", 0.0)
    until = (datetime.now(UTC) + timedelta(seconds=0.2)).isoformat()
    trigger = StreamWatchTrigger("settlement", ["warehouse"], until, 0.02)
    logged.clear()
    monkeypatch.setattr(trigger.log, "info", lambda text, *values: logged.append(text % values))
    assert _events(trigger) == [{"status": "ended"}]
    assert len([said for said in logged if line in said]) > 1


def test_the_watch_of_a_date_that_has_ended_is_over(platform: Any) -> None:
    platform.reports = {results.STREAM: results.report()}
    assert _watch().execute(_day(results.DATE.replace(year=2020))) == "2020-11-19"


@pytest.mark.parametrize("fields", [{"state": "failed", "error": "boom"}, {"lag_s": 100.0}, {"age_s": 999.0}])
def test_death_and_lag_are_red_at_once(platform: Any, fields: dict[str, Any]) -> None:
    platform.reports = {results.STREAM: results.report(**fields)}
    with pytest.raises(AirflowException, match="settlement@warehouse"):
        _watch().execute(_day(datetime.now(UTC).date()))
    until = (datetime.now(UTC) + timedelta(hours=5)).isoformat()
    (event,) = _events(StreamWatchTrigger("settlement", ["warehouse"], until, 0.01))
    assert event["status"] == "error"
    with pytest.raises(AirflowException, match="settlement@warehouse"):
        _watch().execute_complete({}, event)


@pytest.mark.parametrize("passing", PASSING)
def test_what_passes_does_not_end_the_watch(
    platform: Any, monkeypatch: pytest.MonkeyPatch, passing: SeamlineError
) -> None:
    def look(*_: Any) -> Any:
        raise passing

    monkeypatch.setattr(stream_watch, "look", look)
    until = (datetime.now(UTC) + timedelta(seconds=0.1)).isoformat()
    assert _events(StreamWatchTrigger("settlement", ["warehouse"], until, 0.02)) == [{"status": "ended"}]


def test_a_stream_that_was_taken_out_of_its_sync_meanwhile_does_not_make_the_date_red(platform: Any) -> None:
    platform.host_states, platform.wanted_streams = (_host(),), (_wanted(),)
    platform.reports = {results.STREAM: results.report(epoch=1)}
    trigger = StreamWatchTrigger("settlement", ["warehouse", "vault"], "2099-01-01T00:00:00+00:00", 0.01)
    (event,) = _events(trigger)
    assert event == {"status": "error", "message": "settlement@vault: it is not wanted"}
    platform.stream_marks = (
        StreamMark(StreamId("settlement", "vault"), "bank", is_wanted=False, since=datetime.now(UTC)),
    )
    trigger.until = (datetime.now(UTC) + timedelta(seconds=0.2)).isoformat()
    assert _events(trigger) == [{"status": "ended"}]


def test_the_watch_ends_with_its_date(platform: Any) -> None:
    platform.reports = {results.STREAM: results.report()}
    until = (datetime.now(UTC) + timedelta(seconds=0.2)).isoformat()
    assert _events(StreamWatchTrigger("settlement", ["warehouse"], until, 0.05)) == [{"status": "ended"}]


def _host(**fields: Any) -> Any:
    known = {"pool": "default", "holder": "here/1/2", "is_alive": True, "silent_s": 1.0}
    return SimpleNamespace(**{**known, **fields})


def _wanted() -> WantedStream:
    from seamline.plan.document import plan_to_json

    return WantedStream(results.STREAM, plan_to_json(results.plan()), 1)


def test_all_streams_well_is_green_and_ends_old_alarms(platform: Any) -> None:
    platform.host_states, platform.wanted_streams = (_host(),), (_wanted(),)
    platform.reports = {results.STREAM: results.report(epoch=1)}
    platform.alarms = {("stream_late", "settlement@warehouse"): "old", ("log_full", "topic"): "not ours"}
    assert StreamsCheckOperator(task_id="look").execute({}) == ["settlement@warehouse"]
    assert platform.alarms == {("log_full", "topic"): "not ours"}


def test_the_look_makes_the_pools_of_syncs_that_were_declared_since_up(
    platform: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that was onboarded by clicks waited in its first task for ever: Airflow has no word for a missing pool."""
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path))
    asked: list[Path] = []
    monkeypatch.setattr(airflow_pools, "are_made", lambda layout: bool(asked.append(layout.data)) or True)
    platform.host_states, platform.wanted_streams = (), ()
    StreamsCheckOperator(task_id="look").execute({})
    assert asked == [], "no Airflow of this stack is there"
    passwords = Layout(settings.load()).airflow_passwords
    passwords.parent.mkdir(parents=True, exist_ok=True)
    passwords.write_text("{}", encoding="utf-8")
    StreamsCheckOperator(task_id="look").execute({})
    assert asked == [tmp_path]


def test_a_stream_that_is_heard_but_does_not_move_raises_an_alarm_with_its_reason(platform: Any) -> None:
    platform.host_states, platform.wanted_streams = (_host(),), (_wanted(),)
    reported = results.report(next_offset=10, log_end_offset=90, still_s=STILL_MAX_S + 60)
    platform.reports = {results.STREAM: reported}
    with pytest.raises(AirflowException, match=f"not come further for {reported.still_s + reported.age_s:.0f} s"):
        StreamsCheckOperator(task_id="look").execute({})
    assert "streaming" in platform.alarms["stream_still", "settlement@warehouse"]
    platform.reports = {results.STREAM: results.report(next_offset=90, log_end_offset=90)}
    StreamsCheckOperator(task_id="look").execute({})
    assert platform.alarms == {}


def test_a_paused_stream_is_seen_as_paused_and_red_once_it_holds_back_too_much(platform: Any) -> None:
    """51 s and 36,437 records behind it was green, and nobody could see who had paused it."""
    since = datetime(2026, 11, 19, 8, 0, tzinfo=UTC)
    paused = replace(_wanted(), paused=True, paused_by="ann on desk", paused_at=since, pause_reason="it moves")
    platform.host_states, platform.wanted_streams = (_host(),), (paused,)
    platform.reports = {
        results.STREAM: results.report(state="paused", epoch=1, lag_s=51.0, next_offset=10, log_end_offset=36_447)
    }
    look = StreamsCheckOperator(task_id="look")
    logged: list[str] = []
    look.log.info = lambda text, *values: logged.append(text % values)  # type: ignore[method-assign]
    platform.alarms = {("stream_late", "settlement@warehouse"): "it was late before it was paused"}
    with pytest.raises(AirflowException, match="settlement@warehouse: paused: by ann on desk"):
        look.execute({})
    assert "paused since 2026-11-19 08:00:00 +00:00" in logged[0]
    assert "by ann on desk, “it moves”; it holds back 36,437 records" in logged[0]
    assert platform.alarms == {}, "within the limit, and the lag of before is over"
    platform.reports[results.STREAM] = replace(platform.reports[results.STREAM], lag_s=61.0)
    with pytest.raises(AirflowException, match="paused: by ann on desk"):
        look.execute({})
    assert list(platform.alarms) == [("stream_paused", "settlement@warehouse")]
    platform.wanted_streams = ()
    look.execute({})
    assert platform.alarms == {}, "nobody wants it any more"


def test_a_stream_that_was_not_heard_is_not_green_before_it_is_worth_an_alarm(platform: Any) -> None:
    platform.host_states, platform.wanted_streams = (_host(),), (_wanted(),)
    look = StreamsCheckOperator(task_id="look")
    for report, is_green in ((results.report(age_s=30.0), False), (results.report(state="starting"), True)):
        platform.reports = {results.STREAM: report}
        with nullcontext() if is_green else pytest.raises(AirflowException, match="unknown: no word for 30 s"):
            look.execute({})


def test_a_host_that_nobody_brought_back_is_started_and_reported(
    platform: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(
        "seamline_airflow.operators.step.start_host", lambda pool: started.append(pool) or SimpleNamespace(pid=1)
    )
    platform.host_states = (_host(is_alive=False, silent_s=HOST_GONE_MAX_S + 1), _host(pool="idle", is_alive=False))
    platform.wanted_streams = (_wanted(),)
    with pytest.raises(AirflowException, match="stream host of pool default"):
        StreamsCheckOperator(task_id="look").execute({})
    assert started == ["default"]
    assert "silent with it: settlement@warehouse" in platform.alarms["host_gone", "default"]
    assert list(platform.alarms) == [("host_gone", "default")], "one cause is one alarm"


def test_a_host_that_has_just_gone_is_left_to_its_supervisor() -> None:
    assert host_troubles([_host(is_alive=False, silent_s=5.0)], ["default"]) == []


def test_the_look_ends_the_stream_of_a_deleted_file_and_its_alarm_and_says_what_it_has_done(
    platform: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a newcomer: `stream_late` named a sync for ever whose file was deleted."""
    folder = write_declarations(tmp_path)
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(folder))
    (folder / "syncs" / "settlement.yaml").rename(folder / "syncs" / "payments.yaml")
    platform.host_states, platform.wanted_streams = (_host(),), (_wanted(),)
    platform.reports = {results.STREAM: results.report(epoch=1, lag_s=90.0)}
    platform.stream_marks = (
        StreamMark(results.STREAM, "core_bank", is_wanted=True, since=datetime.now(UTC), age_s=120.0),
    )
    platform.alarms = {("stream_late", "settlement@warehouse"): "old"}
    look = StreamsCheckOperator(task_id="look")
    logged: list[str] = []
    look.log.info = lambda text, *values: logged.append(text % values)  # type: ignore[method-assign]
    assert look.execute({}) == []
    assert (platform.steps, platform.alarms) == ([(results.STREAM, Step.END)], {})
    assert logged[0] == "settlement@warehouse: it ends, for it is declared no more; it keeps its position"


def test_a_look_into_a_folder_that_is_away_ends_no_stream(
    platform: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    platform.host_states, platform.wanted_streams = (_host(),), (_wanted(),)
    platform.reports = {results.STREAM: results.report(epoch=1)}
    platform.stream_marks = (
        StreamMark(results.STREAM, "core_bank", is_wanted=True, since=datetime.now(UTC), age_s=1e6),
    )
    assert StreamsCheckOperator(task_id="look").execute({}) == ["settlement@warehouse"]
    assert platform.steps == []
