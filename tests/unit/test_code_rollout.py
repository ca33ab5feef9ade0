"""New code reaches streams one after another, and a stream that does not come up by it ends the sequence."""

from dataclasses import replace

from seamline.domain.ledger import StreamId
from seamline.sync.code_rollout import CodeRollout, Restart, RunsBy, Step
from seamline.sync.stream_host import Cancel, Outcome, RaiseAlarm, Start, StreamRoster, TaskEnd
from tests.unit.test_stream_host import wanted

ONE, TWO, LAKE = (StreamId("settlement", name) for name in ("warehouse", "ledger", "lake"))
OLD, NEW, NEWER = "old code", "new code", "newer code"


def well(stream: StreamId, code: str = OLD) -> RunsBy:
    return RunsBy(stream, code, is_up=True, is_caught_up=True)


def restarted(steps: list[Step]) -> list[StreamId]:
    return [one.stream for one in steps if isinstance(one, Restart)]


def said(steps: list[Step]) -> list[str]:
    return [one.message if isinstance(one, RaiseAlarm) else "over" for one in steps if not isinstance(one, Restart)]


def deployed(code: str = NEW) -> CodeRollout:
    rollout = CodeRollout("default", OLD)
    rollout.installed(code)
    rollout.installed(code)
    return rollout


def test_the_next_stream_is_restarted_only_when_the_one_before_is_caught_up() -> None:
    rollout = deployed()
    steps = rollout.due([well(ONE), well(TWO)], now_s=0)
    assert restarted(steps) == [ONE]
    assert said(steps) == [
        "0 of 2 streams run by the installed code new code; settlement@warehouse is restarted,"
        " the next follows once it is caught up"
    ]
    coming = RunsBy(ONE, NEW, is_running=False)
    for on_its_way in (coming, replace(coming, is_running=True), RunsBy(ONE, NEW, is_up=True)):
        assert rollout.due([on_its_way, well(TWO)], now_s=100) == []
    steps = rollout.due([well(ONE, NEW), well(TWO)], now_s=200)
    assert restarted(steps) == [TWO] and said(steps)[0].startswith("1 of 2")
    assert said(rollout.due([well(ONE, NEW), well(TWO, NEW)], now_s=201)) == ["over"]
    assert rollout.due([well(ONE, NEW), well(TWO, NEW)], now_s=202) == []
    assert rollout.is_over({NEW}) and not rollout.is_over({NEW, OLD})


def test_code_that_is_being_copied_restarts_nothing() -> None:
    rollout = CodeRollout("default", OLD)
    for half in ("a", "b", NEW):
        rollout.installed(half)
        assert rollout.due([well(ONE)], now_s=0) == []
    rollout.installed(NEW)
    assert restarted(rollout.due([well(ONE)], now_s=1)) == [ONE]


def test_a_stream_that_does_not_come_up_stops_the_sequence_until_other_code_is_installed() -> None:
    rollout = deployed()
    rollout.due([well(ONE), well(TWO)], now_s=0)
    failing = RunsBy(ONE, NEW, is_running=False, failures=2, error="ModuleNotFoundError: x")
    steps = rollout.due([failing, well(TWO)], now_s=20)
    assert restarted(steps) == []
    assert said(steps) == [
        "0 of 2 streams run by the installed code new code; it stops there, the others go on by the code of before:"
        " settlement@warehouse does not come up by it: ModuleNotFoundError: x"
    ]
    assert rollout.due([failing, well(TWO)], now_s=1e6) == []
    rollout.installed(NEWER)
    rollout.installed(NEWER)
    assert restarted(rollout.due([failing, well(TWO)], now_s=1e6)) == [ONE], "first the one that failed"


def test_a_stream_that_is_silent_for_three_minutes_does_not_come_up() -> None:
    rollout = deployed()
    rollout.due([well(ONE), well(TWO)], now_s=0)
    silent = RunsBy(ONE, NEW)
    assert rollout.due([silent, well(TWO)], now_s=180) == []
    assert "it has not streamed for 181 s" in said(rollout.due([silent, well(TWO)], now_s=181))[0]


def test_what_is_not_well_waits_and_what_has_no_task_costs_nothing() -> None:
    rollout = deployed()
    late, idle = RunsBy(ONE, OLD, is_up=True), RunsBy(TWO, OLD, is_running=False, is_idle=True)
    steps = rollout.due([late, idle], now_s=0)
    assert restarted(steps) == []
    assert "not well, and so not restarted yet: settlement@warehouse, settlement@ledger" in said(steps)[0]
    assert restarted(rollout.due([well(ONE), idle], now_s=1)) == [ONE]
    assert restarted(rollout.due([well(ONE, NEW), idle], now_s=2)) == [TWO]


def test_a_stream_in_the_hosts_own_process_is_named_and_left_alone() -> None:
    bound = replace(well(LAKE), is_bound=True)
    steps = deployed().due([well(ONE, NEW), bound], now_s=0)
    assert restarted(steps) == []
    assert said(steps)[0].endswith(
        "settlement@lake have the code that the stream host was started with: restart the host"
    )


def test_a_stream_that_is_not_wanted_any_more_holds_up_no_other() -> None:
    rollout = deployed()
    rollout.due([well(ONE), well(TWO)], now_s=0)
    assert restarted(rollout.due([well(TWO)], now_s=1)) == [TWO]


def test_the_roster_ends_the_task_and_starts_it_by_the_new_code_at_once() -> None:
    host = StreamRoster(slots=4, code=OLD)
    host.wanted([wanted(1)])
    (start,) = host.due(now_s=0)
    assert isinstance(start, Start) and start.code == OLD
    stream = wanted(1).stream
    assert host.run_by(stream, NEW) == [Cancel(stream, 1)]
    assert host.run_by(stream, NEW) == [], "it is ended once"
    (before,) = host.runs()
    assert before.is_running and before.is_ending
    host.ended(TaskEnd(stream, 1, Outcome.LOST, "cancelled"), now_s=60)
    (start,) = host.due(now_s=60)
    assert isinstance(start, Start) and (start.attempt, start.code) == (2, NEW)
    host.wanted([wanted(1), wanted(2)])
    assert [one.code for one in host.due(now_s=61) if isinstance(one, Start)] == [NEW]
