"""New code reaches streams one after another, and a stream that does not come up by it ends the sequence."""

from dataclasses import replace

from seamline.domain.ledger import StreamId
from seamline.sync.code_rollout import CodeRollout, Restart, RunsBy, Step
from seamline.sync.stream_host import Cancel, Outcome, RaiseAlarm, Start, StreamRoster, TaskEnd, TryAgain
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
    assert rollout.due([failing, well(TWO)], now_s=59) == [], "a destination that restarts ends two within seconds"
    steps = rollout.due([failing, well(TWO)], now_s=60)
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


def test_a_stream_that_streamed_for_long_is_not_broken_by_one_look_at_which_it_is_down() -> None:
    rollout = deployed()
    rollout.due([well(ONE), well(TWO)], now_s=0)
    assert rollout.due([RunsBy(ONE, NEW, is_up=True), well(TWO)], now_s=3600) == []
    down = RunsBy(ONE, NEW, is_running=False, failures=2, error="connection refused")
    assert rollout.due([down, well(TWO)], now_s=3602) == []
    assert restarted(rollout.due([well(ONE, NEW), well(TWO)], now_s=3620)) == [TWO]


def test_the_sequence_goes_on_once_the_stream_that_failed_is_caught_up_or_not_wanted() -> None:
    for later in ([well(ONE, NEW), well(TWO)], [RunsBy(ONE, NEW, is_running=False, is_idle=True), well(TWO)]):
        rollout = deployed()
        rollout.due([well(ONE), well(TWO)], now_s=0)
        down = RunsBy(ONE, NEW, is_running=False, failures=9, error="connection refused")
        assert "it stops there" in said(rollout.due([down, well(TWO)], now_s=90))[0]
        assert restarted(rollout.due(later, now_s=100)) == [TWO]
        assert said(rollout.due([well(ONE, NEW), well(TWO, NEW)], now_s=200)) == ["over"]
    rollout = deployed()
    rollout.due([well(ONE), well(TWO)], now_s=0)
    rollout.due([replace(well(ONE, NEW), is_up=False, is_caught_up=False, is_final=True), well(TWO)], now_s=5)
    assert restarted(rollout.due([well(TWO)], now_s=6)) == [TWO]


def test_mended_code_is_tried_by_the_stream_that_ended_for_good_and_then_by_the_next() -> None:
    host, rollout = StreamRoster(slots=4, code=OLD), deployed()
    host.wanted([wanted(1), wanted(2)])
    host.due(now_s=0)
    one, two = wanted(1).stream, wanted(2).stream

    def looked(*well_by: str, now_s: float) -> list[StreamId]:
        """What the host does with its rollout; `well_by`: by which code streams are caught up."""
        seen = [
            RunsBy(
                run.wanted.stream,
                run.code,
                is_running=run.is_running,
                is_up=(is_well := run.is_running and not run.is_ending and run.code in well_by),
                is_caught_up=is_well,
                failures=run.failures,
                is_final=run.is_final,
                error=run.error,
            )
            for run in host.runs()
        ]
        steps = rollout.due(seen, now_s=now_s)
        for step in steps:
            if isinstance(step, Restart):
                host.run_by(step.stream, step.code)
        return restarted(steps)

    assert looked(OLD, now_s=1) == [one]
    host.ended(TaskEnd(one, 1, Outcome.LOST), now_s=2)
    host.due(now_s=8)
    host.ended(TaskEnd(one, 2, Outcome.FINAL, "InvariantViolated: a wrong line"), now_s=9)
    assert looked(OLD, now_s=10) == []
    rollout.installed(NEWER)
    rollout.installed(NEWER)
    assert looked(OLD, now_s=20) == [one]
    assert [each.wanted.stream for each in host.due(now_s=21) if isinstance(each, Start)] == [one]
    assert looked(OLD, now_s=22) == [], "it is on its way"
    assert looked(OLD, NEWER, now_s=30) == [two]


def test_a_stream_that_ended_for_good_is_tried_once_by_each_code_unless_it_was_fenced() -> None:
    for error, is_tried in (("InvariantViolated: a wrong line", True), ("Fenced: by epoch 7", False)):
        host = StreamRoster(slots=4, code=OLD)
        stream = wanted(1).stream
        host.wanted([wanted(1)])
        host.due(now_s=0)
        host.ended(TaskEnd(stream, 1, Outcome.FINAL, error), now_s=9)
        assert host.run_by(stream, OLD) == [], "this code has ended it"
        assert host.run_by(stream, NEW) == ([TryAgain(stream)] if is_tried else [])
        assert any(isinstance(one, Start) for one in host.due(now_s=10)) is is_tried


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
