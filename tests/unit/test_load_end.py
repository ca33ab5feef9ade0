"""The order of a load's last steps, and which attempt has nothing left to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from seamline.bulk import load_end
from seamline.domain.runs import LOADED, RunKind, RunState
from seamline.kinds.split_rules import LoadTakenOver
from seamline.plan.model import Run
from tests.log_topic import ACCOUNT, sync_plan


@dataclass
class World:
    """Of `RunReader`, and the platform database."""

    is_ours: bool = True
    steps: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def held(self) -> Iterator[None]:
        if not self.is_ours:
            raise LoadTakenOver
        self.steps.append("held")
        yield
        self.steps.append("free")

    def forget(self) -> None:
        self.steps.append("let go")

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        self.steps.append(key)
        self.results[key] = value

    def load(self, run: Run) -> None:
        readers: Any = [self]
        kept: Any = self
        records = load_end.RecordsWhileHeld(kept, readers)
        load_end.load(run, records, readers, lambda: records.put_result(run.run_id, "snapshot", {}))


def run_of(*tables: Any) -> Run:
    return Run("r", "s", RunKind.ONBOARD, None, sync_plan(tables), RunState.RUNNING, {})


def test_a_load_is_written_down_while_it_is_held_then_said_to_be_through_and_let_go_of_last() -> None:
    world = World()
    world.load(run_of(ACCOUNT))
    assert world.steps == ["held", "snapshot", "free", "held", LOADED, "free", "let go"]


def test_what_another_attempt_has_taken_over_is_not_written_down() -> None:
    world = World(is_ours=False)
    with pytest.raises(LoadTakenOver, match="another attempt of this run has taken over"):
        world.load(run_of(ACCOUNT))
    assert world.steps == []


def test_a_load_is_through_for_the_plan_that_it_was_made_by_alone() -> None:
    world, run = World(), run_of(ACCOUNT)
    assert not load_end.is_loaded(run)
    world.load(run)
    assert load_end.is_loaded(replace(run, result=world.results))
    assert not load_end.is_loaded(replace(run_of(replace(ACCOUNT, key=())), result=world.results))
    assert not load_end.is_loaded(replace(run, result={LOADED: None}))
