"""What is INCONCLUSIVE is compared again within the run, a break never, and each attempt is kept in the evidence."""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from seamline.domain.errors import TransientError
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.verdict import TableVerdict, Verdict, worst
from seamline.sync.nightly_cut import take_conclusive_cut
from seamline.sync.repetition import Tried, evidence_of, until_conclusive
from seamline_spark.compare.main import compare_run
from tests.log_topic import ManualClock
from tests.unit.test_barrier import World as Sides
from tests.unit.test_comparison import RUN, live
from tests.unit.test_nightly_cut import DAY, PLAN
from tests.unit.test_nightly_cut import World as Night

NOW = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)


def compared(*verdicts: Verdict, tried: Sequence[Tried] = ()) -> Reconciliation:
    tables = tuple(
        TableVerdict(f"t{number}", verdict, "the stream lags" if verdict is Verdict.INCONCLUSIVE else "")
        for number, verdict in enumerate(verdicts)
    )
    return Reconciliation(
        "r1", "settlement", "warehouse", Scope.LIVE, None, None, None, "barrier", worst(list(verdicts)), tables, NOW,
        NOW, evidence_of(tried),
    )  # fmt: skip


def attempts_of(*each: Sequence[Verdict], attempts: int = 3) -> tuple[Reconciliation, list[int], ManualClock]:
    """What came out at last, after how many attempts each was made, and the clock."""
    asked: list[int] = []
    clock = ManualClock(0.0)

    def take(tried: Sequence[Tried]) -> Sequence[Reconciliation]:
        asked.append(len(tried))
        return [compared(*each[len(tried)], tried=tried)]

    (found,) = until_conclusive(take, attempts=attempts, clock=clock, now=lambda: NOW)
    return found, asked, clock


def test_an_inconclusive_comparison_is_made_again_with_a_growing_wait_and_keeps_its_attempts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found, asked, clock = attempts_of(
        [Verdict.INCONCLUSIVE, Verdict.MATCH], [Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE], [Verdict.MATCH]
    )
    assert (found.verdict, asked, clock.time) == (Verdict.MATCH, [0, 1, 2], 10 + 30)
    assert found.evidence["attempts"] == 3
    assert found.evidence["inconclusive_before"] == [
        {"ended_at": NOW.isoformat(), "reasons": ["warehouse.t0: the stream lags"]},
        {"ended_at": NOW.isoformat(), "reasons": ["warehouse.t0, warehouse.t1: the stream lags"]},
    ]
    assert [record.getMessage() for record in caplog.records] == [
        "comparison inconclusive, made again: sync=settlement attempt=1 of 3 wait_s=10"
        " why=warehouse.t0: the stream lags",
        "comparison inconclusive, made again: sync=settlement attempt=2 of 3 wait_s=30"
        " why=warehouse.t0, warehouse.t1: the stream lags",
    ]


def test_after_the_last_attempt_it_is_inconclusive_as_it_was() -> None:
    found, asked, _ = attempts_of([Verdict.INCONCLUSIVE], [Verdict.INCONCLUSIVE], attempts=2)
    assert (found.verdict, asked) == (Verdict.INCONCLUSIVE, [0, 1])
    assert attempts_of([Verdict.INCONCLUSIVE], attempts=1)[1] == [0]


@pytest.mark.parametrize(
    "verdicts",
    [[Verdict.BREAK], [Verdict.INCONCLUSIVE, Verdict.BREAK], [Verdict.NOT_RUN], [Verdict.MATCH]],
)
def test_a_break_is_never_compared_again_and_neither_is_what_is_conclusive(verdicts: Sequence[Verdict]) -> None:
    found, asked, clock = attempts_of(verdicts)
    assert (found.verdict, asked, clock.time) == (worst(list(verdicts)), [0], 0)
    assert (found.evidence["attempts"], found.evidence["inconclusive_before"]) == (1, [])


def test_a_job_that_is_repeated_finds_the_break_of_its_run_and_compares_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its process may end between the break that it has saved and the end of its task."""
    broken = compared(Verdict.BREAK)
    results: dict[str, Any] = {}

    def refuse(*_: object) -> None:
        raise AssertionError("it compares again")

    store = SimpleNamespace(
        run=lambda _: RUN,
        reconciliation=lambda *_: broken,
        newest_evidence=refuse,
        put_result=lambda _run, key, value: results.update({key: value}),
        close=lambda: None,
    )
    monkeypatch.setattr("seamline.registry.platform", lambda: store)
    monkeypatch.setattr("seamline.registry.director", lambda: SimpleNamespace(close=lambda: None))
    assert compare_run("r1") == (broken,)
    assert results["compare"]["warehouse"]["verdict"] == "BREAK"


def test_a_stream_that_could_not_be_brought_to_the_position_is_compared_again_with_what_was_learned() -> None:
    """The onboarding under overload: the views took longer than the lease, and a person had to run it again."""
    sides = Sides(slow_destination_s=31)
    barrier = sides.barrier()
    sides.barrier = lambda: barrier  # type: ignore[method-assign]
    clock = ManualClock(0.0)
    (found,) = until_conclusive(lambda tried: [live(sides, tried=tried)], attempts=3, clock=clock, now=lambda: NOW)
    assert found.verdict is Verdict.MATCH
    assert "had expired" in str(found.evidence["inconclusive_before"])
    assert [round(lease) for lease in sides.leases] == [30, 62]


def test_a_stream_that_a_person_paused_is_not_waited_for() -> None:
    asked: list[int] = []

    def take(tried: Sequence[Tried]) -> Sequence[Reconciliation]:
        asked.append(len(tried))
        return [live(Sides(is_paused=True), tried=tried)]

    (found,) = until_conclusive(take, attempts=3, clock=ManualClock(0.0))
    assert (found.verdict, asked) == (Verdict.INCONCLUSIVE, [0])


def test_a_night_whose_comparison_was_inconclusive_is_read_again_at_another_place() -> None:
    night = Night(source_fault=TransientError("the source went away"))
    clock = ManualClock(0.0)
    heal = clock.sleep

    def sleep(seconds: float) -> None:
        heal(seconds)
        night.source_fault = None

    clock.sleep = sleep  # type: ignore[method-assign]
    run = RUN.__class__("r1", "settlement", RUN.kind, DAY, PLAN, RUN.state)
    cuts = take_conclusive_cut(run, night.tools(), clock=clock)
    assert cuts["warehouse"].verdict is Verdict.MATCH
    assert [one.verdict for one in night.saved] == [Verdict.INCONCLUSIVE, Verdict.MATCH]
    assert "the source went away" in str(night.saved[-1].evidence["inconclusive_before"])
    assert night.results["cut"]["warehouse"]["verdict"] == "MATCH"
