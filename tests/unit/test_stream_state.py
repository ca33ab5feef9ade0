"""One function says what a stream does: page, status, alarms and sensors cannot differ."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from seamline.domain.errors import (
    Diverged,
    Fenced,
    InvariantViolated,
    LogCorrupted,
    PositionLost,
    SchemaConflict,
    SeamlineError,
    TransientError,
    WentBack,
)
from seamline.domain.ledger import StreamId
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan, TablePlan
from seamline.ports import StreamReport, WantedStream
from seamline.sync.shown_order import streams_in_order
from seamline.sync.stream_host import Outcome, RaiseAlarm, StreamRoster, TaskEnd
from seamline.sync.stream_state import (
    HEARD_S,
    SILENCE_MAX_S,
    STILL_MAX_S,
    StreamState,
    Word,
    alarms_due_now,
    alarms_over,
    captures_down,
    stream_state,
    stream_states,
)

NOW = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
STREAM = StreamId("settlement", "warehouse")
PLAN = SyncPlan(
    "settlement",
    SourcePlan("core_bank", "mariadb", "bank", "r", "c", "m", "log", "x"),
    (DestinationPlan("warehouse", "postgres", "warehouse", "settlement"),),
    (TablePlan("account"),),
)


@dataclass(frozen=True)
class Host:
    pool: str = "default"
    holder: str = "here/1/2"
    is_alive: bool = True
    silent_s: float = 1.0


@dataclass(frozen=True)
class Alarm:
    kind: str
    subject: str
    message: str = "why"
    raised_at: datetime = NOW - timedelta(hours=1)


def wanted(**fields: Any) -> WantedStream:
    return WantedStream(**{"stream": STREAM, "plan_json": plan_to_json(PLAN), "want_number": 1, **fields})


def report(**fields: Any) -> StreamReport:
    known = {"stream": STREAM, "state": "streaming", "epoch": 3, "lag_s": 0.2, "age_s": 1.0, "log_end_offset": 7}
    return StreamReport(**{**known, **fields})


def judged(report: StreamReport | None, asked: WantedStream | None = None, **fields: Any) -> StreamState:
    return stream_state(asked or wanted(), report, **{"lag_max_s": 60, "now": NOW, **fields})


@pytest.mark.parametrize(
    ("fields", "word", "alarm"),
    [
        ({}, Word.STREAMING, ""),
        ({"is_idle": True}, Word.IDLE, ""),
        ({"state": "catching_up", "lag_s": 10.0}, Word.CATCHING_UP, ""),
        ({"state": "held"}, Word.HELD, ""),
        ({"state": "starting"}, Word.STARTING, ""),
        ({"state": "paused"}, Word.STARTING, ""),
        ({"state": "failed"}, Word.FAILED, "stream_failed"),
        ({"state": "stopped"}, Word.STOPPED, "stream_ended"),
        ({"state": "failed", "error": "Fenced: epoch 2 is over", "age_s": SILENCE_MAX_S}, Word.STARTING, ""),
        ({"state": "failed", "error": "Fenced: over", "age_s": SILENCE_MAX_S + 1}, Word.FAILED, "stream_failed"),
        ({"state": "failed", "error": "Diverged: not Fenced"}, Word.FAILED, "stream_failed"),
        ({"state": "no_slot", "age_s": 9999.0}, Word.NO_SLOT, "no_slot"),
        ({"age_s": HEARD_S}, Word.UNKNOWN, ""),
        ({"age_s": SILENCE_MAX_S + 1}, Word.UNKNOWN, "stream_silent"),
        ({"state": "backing_off", "error": "no route", "age_s": HEARD_S}, Word.TRYING_AGAIN, ""),
        ({"lag_s": 61.0}, Word.LATE, "stream_late"),
        ({"state": "waiting", "lag_s": 5.0}, Word.WAITING, ""),
        ({"state": "waiting", "lag_s": 61.0, "still_s": STILL_MAX_S + 1}, Word.WAITING, "stream_late"),
        ({"lag_s": 45.0, "silent_s": 45.0}, Word.NO_HEARTBEAT, ""),
        ({"lag_s": 61.0, "silent_s": 61.0}, Word.NO_HEARTBEAT, "stream_late"),
        ({"still_s": STILL_MAX_S + 1}, Word.STILL, "stream_still"),
        ({"state": "backing_off", "still_s": STILL_MAX_S + 1, "error": "no route"}, Word.STILL, "stream_still"),
    ],
)
def test_each_report_is_one_word_and_perhaps_an_alarm(fields: dict[str, Any], word: Word, alarm: str) -> None:
    state = judged(report(**fields))
    assert (state.word, state.alarm) == (word, alarm)
    assert state.is_green == (word in (Word.STREAMING, Word.IDLE, Word.CATCHING_UP, Word.HELD))


def test_a_stream_that_tries_in_vain_says_so_in_plain_words_and_since_when_whatever_the_age_of_its_report() -> None:
    """Found by a newcomer: the start of the outage moved with every look."""
    for age_s in (1.0, 9.0):
        fields = {"state": "backing_off", "error": "TransientError: no route", "age_s": age_s}
        tried = judged(report(**fields, still_s=400 - age_s))
        assert tried.in_words().startswith("still since 2026-11-19 11:53:20 +00:00")
        assert tried.why.startswith("trying again: no route; it has not come further for 400 s: it tries in vain")
        assert judged(report(**fields)).why == "no route"
        assert judged(report(lag_s=45.0, silent_s=45 - age_s, age_s=age_s)).since == NOW - timedelta(seconds=45)
    unheard = judged(report(state="backing_off", error="TransientError: no route", age_s=SILENCE_MAX_S + 1))
    assert unheard.why.startswith("no word for 61 s, the last was trying again: no route")


def test_one_record_is_not_many() -> None:
    assert "(1 record)" in judged(report(next_offset=6)).in_words()
    assert "(7 records)" in judged(report()).in_words()
    asked = wanted(paused=True)
    assert "it holds back 1 record, the first" in judged(report(state="paused", next_offset=6), asked).why


def test_a_stream_that_goes_on_says_how_long_what_is_before_it_takes() -> None:
    behind = report(state="catching_up", next_offset=0, log_end_offset=60_000, records_per_s=100.0, epoch=3)
    assert judged(behind).why == "what is before it takes about 10 min as it applies now"
    late = judged(replace(behind, state="streaming", lag_s=300.0))
    assert late.why.startswith("it is 300 s behind") and late.why.endswith("as it applies now")
    assert judged(replace(behind, records_per_s=0.0)).why == "", "what was not measured is not said"
    assert judged(replace(behind, log_end_offset=3_000)).why == "", "it is through within a minute"


def test_a_stream_that_never_reported_is_unknown() -> None:
    state = judged(None)
    assert (state.word, state.alarm, state.lag_s) == (Word.UNKNOWN, "stream_silent", None)
    assert "never reported" in state.why


def test_what_was_not_heard_within_its_interval_is_unknown_since_then_and_has_no_lag() -> None:
    state = judged(report(age_s=30.0, lag_s=0.0), host=Host(is_alive=False, silent_s=31.0))
    assert (state.word, state.since, state.lag_s) == (Word.UNKNOWN, NOW - timedelta(seconds=30), None)
    assert state.records_behind is None
    assert "the stream host of pool default (here/1/2) is gone since 31 s" in state.why
    assert state.in_words().startswith("unknown since 2026-11-19 11:59:30 +00:00, lag unknown: no word for 30 s")


def test_a_stream_that_waits_for_its_source_says_so_also_where_the_capture_has_failed_with_the_source() -> None:
    why = "7 records behind position 0/1A cannot be verified without it: PostgreSQL at bank:5432 is away"
    waiting = report(state="waiting", error=why, lag_s=5.0, since=NOW - timedelta(minutes=2))
    alarms = [Alarm("capture_failed", "core_bank", "connector x has failed")]
    state = judged(waiting, capture=captures_down(alarms)["core_bank"])
    assert state.in_words() == f"waits for its source since 2026-11-19 11:58:00 +00:00, lag 5.0 s (7 records): {why}"


def test_with_a_dead_capture_the_lag_is_unknown_and_not_zero() -> None:
    """`status` said "streaming, lag 0.0 s" above the alarm."""
    alarms = [Alarm("capture_failed", "core_bank", "connector x has failed"), Alarm("capture_unreachable", "other")]
    down = captures_down(alarms)
    assert list(down) == ["core_bank"]
    states = stream_states([wanted()], {STREAM: report(lag_s=0.0)}, [Host()], alarms, now=NOW)
    assert states[STREAM] == StreamState(
        STREAM, Word.CAPTURE_DOWN, "connector x has failed", NOW - timedelta(hours=1), alarm="stream_late"
    )
    young = {"core_bank": replace(down["core_bank"], since=NOW - timedelta(seconds=5))}
    assert judged(report(), capture=young["core_bank"]).alarm == ""
    assert judged(report(lag_s=45.0, silent_s=45.0)).lag_s is None, "and where only the heartbeat is missing"


def test_a_paused_stream_says_by_whom_since_when_why_and_what_it_holds_back() -> None:
    since = NOW - timedelta(minutes=5)
    asked = wanted(paused=True, paused_by="ann on desk", paused_at=since, pause_reason="it moves")
    state = judged(report(state="paused", lag_s=51.0, next_offset=10, log_end_offset=36_447, still_s=9e9), asked)
    assert (state.word, state.since, state.lag_s, state.records_behind) == (Word.PAUSED, since, 51.0, 36_437)
    assert state.why == ("by ann on desk, “it moves”; it holds back 36,437 records, the first of them for up to 51 s")
    assert (state.is_green, state.alarm) == (False, "")
    assert judged(report(state="paused", lag_s=61.0), asked).alarm == "stream_paused"
    assert judged(report(age_s=61.0), asked).alarm == "stream_silent"
    assert judged(report(age_s=30.0), asked).lag_s is None
    assert judged(None, asked).word is Word.PAUSED
    assert judged(report(state="failed"), asked).word is Word.FAILED
    unsaid = judged(report(state="paused"), wanted(paused=True))
    assert unsaid.why.startswith("nobody wrote down by whom, no reason given")


LOST = Diverged(
    "somebody else has written tables of it: account, entry: snapshot 5 is gone",
    hint="only the stream writes its tables: put them\nback",
    sync="settlement",
    table="account,entry",
    position="offsets [3, 9)",
)


def test_an_end_for_good_is_read_in_one_line_with_its_cure_and_its_command() -> None:
    """Found by a newcomer: a line break in the middle, and no word about how to start it again."""
    state = judged(report(state="failed", error=f"{type(LOST).__name__}: {LOST}"))
    assert state.why == (
        "somebody else has written tables of it: account, entry: snapshot 5 is gone. To mend it: only the stream writes"
        " its tables: put them back; then start the stream again: `./seamline stream restart settlement warehouse`; or"
        " load the destination again: run `settlement__onboard` and name warehouse under Destinations to load"
    )
    assert state.may_restart and "\n" not in state.in_words()


@pytest.mark.parametrize(
    ("error", "may_restart", "cure"),
    [
        (Fenced("epoch 2 is over", hint="nothing"), True, ". To mend it: start the stream again: `./seamline stream"),
        (InvariantViolated("odd"), True, "start the stream again: `./seamline stream restart settlement warehouse`"),
        (SchemaConflict("it has another column", hint="park it"), True, "park it; then start the stream again: `./sea"),
        (PositionLost("the log is gone", hint="find out why"), False, "find out why; load the destination again: run"),
        (
            LogCorrupted("torn", hint="`seamline stream restart <sync>` reads it"),
            True,
            "stream restart settlement` rea",
        ),
        (LogCorrupted("torn", hint="find the cause"), False, "find the cause; load the destination again"),
        (WentBack("went back", hint="`seamline stream restart a b` goes on"), True, "restart a b` goes on"),
        (
            Diverged("it was emptied", table="account, entry"),
            True,
            "it was emptied; tables: account, entry. To mend it:",
        ),
    ],
)
def test_each_kind_of_end_names_the_cure_of_its_kind_and_no_other(
    error: SeamlineError, *, may_restart: bool, cure: str
) -> None:
    state = judged(report(state="failed", error=f"{type(error).__name__}: {error}", age_s=SILENCE_MAX_S + 1))
    assert cure in state.why
    assert state.may_restart is may_restart
    assert ("load the destination again" in state.why) is (isinstance(error, Diverged) or not may_restart)


def test_the_host_and_whoever_looks_at_the_streams_raise_one_alarm_for_one_end() -> None:
    """Found by a newcomer: three alarms of one stream, with two cures."""
    error, asked = f"{type(LOST).__name__}: {LOST}", wanted()
    host = StreamRoster(slots=3)
    host.wanted([asked])
    host.due(now_s=0)
    host.ended(TaskEnd(STREAM, 1, Outcome.FINAL, error), now_s=1)
    (raised,) = [one for one in host.due(now_s=1) if isinstance(one, RaiseAlarm)]
    state = judged(report(state="failed", error=error))
    assert (raised.kind, raised.subject) == (state.alarm, str(STREAM))
    assert raised.message == f"{state.word}: {state.why}"


def test_a_retry_says_why_in_one_line_without_brackets_around_a_cure() -> None:
    away = TransientError("no route", hint="start it", sync="settlement")
    assert judged(report(state="backing_off", error=f"TransientError: {away}")).why == "no route; start it"


def test_a_stream_that_nobody_wants_is_stopped_and_worth_no_alarm() -> None:
    states = stream_states([], {STREAM: report(state="stopped", error="")}, [], [], now=NOW)
    assert (states[STREAM].word, states[STREAM].is_green, states[STREAM].alarm) == (Word.STOPPED, False, "")


@pytest.mark.parametrize(
    ("kind", "so"),
    [
        ("stream_late", {"lag_s": 61.0}),
        ("stream_silent", {"age_s": 61.0}),
        ("stream_failed", {"state": "failed"}),
        ("stream_ended", {"state": "stopped"}),
        ("no_slot", {"state": "no_slot"}),
        ("stream_still", {"still_s": 301.0}),
        ("stream_paused", {"state": "paused", "lag_s": 61.0}),
    ],
)
def test_each_alarm_about_a_stream_ends_with_its_cause_and_not_before(kind: str, so: dict[str, Any]) -> None:
    asked = wanted(paused=kind == "stream_paused")
    alarm = Alarm(kind, str(STREAM))

    def over(*wanted_now: WantedStream, **fields: Any) -> list[Any]:
        states = stream_states(wanted_now, {STREAM: report(**fields)}, [Host()], [alarm], now=NOW)
        return alarms_over([alarm, Alarm("log_size", "core_bank")], states, [Host()])

    assert over(asked, **so) == []
    assert over(wanted()) == [alarm], "its cause has ended"
    assert over(wanted(paused=True), state="paused", lag_s=3.0) == [alarm], "it is paused now"
    assert over(**so) == [alarm], "nobody wants it any more"


@pytest.mark.parametrize(
    "unknown",
    [
        {"age_s": 30.0},
        {"state": "starting", "epoch": 0},
        {"state": "backing_off", "epoch": 0, "error": "no route"},
        {"lag_s": 45.0, "silent_s": 45.0},
    ],
)
def test_an_alarm_about_a_lag_lasts_while_nobody_knows_the_lag(unknown: dict[str, Any]) -> None:
    """A late stream whose worker fails again and again had its alarm ended at each start."""
    for alarm, asked in (
        (Alarm("stream_late", str(STREAM)), wanted()),
        (Alarm("stream_paused", str(STREAM)), wanted(paused=True)),
    ):
        known: dict[str, Any] = {"state": "paused"} if asked.paused else {}
        for fields, is_over in ((unknown, False), ({"lag_s": 3.0, **known}, True)):
            states = stream_states([asked], {STREAM: report(**fields)}, [Host()], [alarm], now=NOW)
            assert alarms_over([alarm], states, [Host()]) == ([alarm] if is_over else [])


def test_the_alarm_about_a_host_ends_when_the_host_is_back_or_its_pool_is_empty() -> None:
    alarm = Alarm("host_gone", "default")
    assert alarms_over([alarm], {}, [Host(is_alive=False)]) == []
    assert alarms_over([alarm], {}, [Host()]) == [alarm]
    assert alarms_over([alarm], {}, []) == [alarm]


def test_the_silence_of_a_stream_whose_host_is_gone_is_the_alarm_of_its_pool_alone() -> None:
    """Two alarms said the same, and one of them as often as the pool has streams."""
    gone, just_gone = Host(is_alive=False, silent_s=70.0), Host(is_alive=False, silent_s=20.0)
    silent = Alarm("stream_silent", str(STREAM))
    for said, asked in ((report(age_s=70.0), wanted()), (None, wanted()), (report(age_s=70.0), wanted(paused=True))):
        reports = {STREAM: said} if said else {}
        for host, alarm in ((gone, "host_gone"), (just_gone, "stream_silent"), (Host(), "stream_silent")):
            states = stream_states([asked], reports, [host], [], now=NOW)
            assert states[STREAM].alarm == alarm
            assert not states[STREAM].is_green
            assert alarms_over([silent], states, [host]) == ([silent] if host is gone else [])
        assert alarms_due_now([asked], reports, [gone], []) == [], "its host raises it, or whoever sees that it is gone"


def test_a_plan_that_cannot_be_read_is_the_failure_of_its_own_stream() -> None:
    other = StreamId("payments", "warehouse")
    broken = WantedStream(STREAM, "{", 1)
    both = [broken, WantedStream(other, plan_to_json(PLAN), 1)]
    reports = {STREAM: report(), other: StreamReport(other, "streaming", epoch=3, age_s=1.0)}
    states = stream_states(both, reports, [Host()], [], now=NOW)
    assert (states[STREAM].word, states[STREAM].alarm) == (Word.FAILED, "stream_failed")
    assert states[STREAM].why.startswith("the stored plan cannot be read: JSONDecodeError")
    assert "settlement__tables" in states[STREAM].why
    assert states[other].word is Word.STREAMING


def test_a_stream_that_ended_with_its_destination_is_not_shown_and_one_that_is_wanted_or_declared_is() -> None:
    stopped = StreamReport(STREAM, "stopped")
    wanted = WantedStream(STREAM, plan_to_json(PLAN), 1)
    (gone,) = stream_states([], {STREAM: stopped}, [], [], now=NOW).values()
    (stands,) = stream_states([wanted], {STREAM: stopped}, [Host()], [], now=NOW).values()
    assert (gone.word, stands.word) == (Word.STOPPED, Word.STOPPED)
    assert streams_in_order([gone], ["archive"]) == []
    assert streams_in_order([gone], ["warehouse"]) == [gone]
    (leaves,) = streams_in_order([stands], ["archive"])
    assert leaves.word is Word.STOPPED


def test_a_stream_whose_destination_was_taken_out_says_so_at_once() -> None:
    """`status` called it streaming, and no more, until a run of the next day."""
    (streaming,) = stream_states([wanted()], {STREAM: report()}, [Host()], [], now=NOW).values()
    (leaves,) = streams_in_order([streaming], ["archive"])
    assert (leaves.word, leaves.why) == (
        Word.STREAMING, "its destination is taken out of the sync, and it ends within minutes",
    )  # fmt: skip
    assert leaves.is_green
    for declared in (["archive", "warehouse"], []):
        assert streams_in_order([streaming], declared) == [streaming], "of a file that cannot be read nothing is known"
