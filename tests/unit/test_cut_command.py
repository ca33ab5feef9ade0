"""What `./seamline cut` says of a run that has ended: by the zone of its sync, and of what has stayed in force."""

import argparse
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from seamline.cli import cut as command
from seamline.domain.backfill import DateRun, Exit
from seamline.domain.cut_state import CutState
from seamline.domain.runs import FAILURE, KEPT
from seamline.domain.verdict import TableVerdict, Verdict
from tests.unit.reported import MOMENT, TODAY, cut

MATCHED = TableVerdict("account", Verdict.MATCH)
ARGS = argparse.Namespace(sync="bank_copy", json=False)
WHY = f"the delivery of {TODAY} is taken already: version 1 of {TODAY} in warehouse stays in force, and is MATCH"


def said(made: list[CutState], takes: list[CutState], *, state: str = "success", **result: Any) -> Exit:
    run = SimpleNamespace(result=result)
    store = SimpleNamespace(
        timezone=lambda _: "Asia/Shanghai", runs_named=lambda *_: (run,), takes=lambda *_, **__: tuple(takes)
    )
    return command._said(ARGS, store, DateRun(TODAY, "by_hand__1", state), made)  # type: ignore[arg-type] # noqa: SLF001


def test_moments_are_in_the_zone_of_the_sync(capsys: pytest.CaptureFixture[str]) -> None:
    """They were in UTC, where `status` has the same run in the sync's zone."""
    one = cut(MATCHED)
    one = replace(one, publication=replace(one.publication, at=MOMENT))
    assert said([one], []) is Exit.PROVEN
    out = capsys.readouterr().out
    assert "2026-11-21 09:02:03 +08:00" in out and "+00:00" not in out


def test_a_run_that_has_taken_nothing_says_what_stays_in_force_and_ends_well(
    capsys: pytest.CaptureFixture[str],
) -> None:
    standing = cut(MATCHED)
    kept = {"warehouse": {"run": standing.run_id, "version": 1, "why": WHY}}
    failed = replace(cut(MATCHED, **{FAILURE: {"task": "cut", "error": "away"}}), run_id="another")
    assert said([], [failed, standing], **{KEPT: kept}) is Exit.PROVEN
    assert capsys.readouterr().out == (
        f"warehouse: MATCH\n  {WHY}\n"
        "To take it once more, as the next version, give a reason (`--reason TEXT`)\n"
        "warehouse: nothing was taken, since version 1 is in force\n"
    )


def test_a_task_that_was_skipped_after_it_ran_is_not_left_running(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cut: running` was the last that was said of the tasks of a run that took nothing."""
    looks = iter([("running", "running"), ("success", "skipped")])
    monkeypatch.setattr(command, "LOOK_EVERY_S", 0)
    at = ["", ""]

    def run(*_: str) -> SimpleNamespace:
        at[:] = next(looks)
        return SimpleNamespace(state=at[0])

    def tasks(*_: str) -> list[SimpleNamespace]:
        later = "skipped" if at[1] == "skipped" else "none"
        return [SimpleNamespace(task_id="cut", state=at[1]), SimpleNamespace(task_id="publish", state=later)]

    kept = {"warehouse": {"run": "r", "version": 1, "why": WHY}}
    store = SimpleNamespace(
        timezone=lambda _: "UTC", takes=lambda *_, **__: (cut(MATCHED),),
        runs_named=lambda *_: (SimpleNamespace(result={KEPT: kept}),),
    )  # fmt: skip
    api = SimpleNamespace(run=run, tasks=tasks)
    assert command._followed(ARGS, api, store, TODAY, "by_hand__1") is Exit.PROVEN  # type: ignore[arg-type] # noqa: SLF001
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["  cut: running", "  cut: skipped", "warehouse: MATCH"]
    assert lines[-1] == "warehouse: nothing was taken, since version 1 is in force"


def test_a_run_that_has_made_nothing_and_kept_nothing_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert said([], [], state="failed") is Exit.NOT_PROVEN
    assert "the run has made nothing" in capsys.readouterr().out
