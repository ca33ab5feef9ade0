"""What a cut from the log does where its base is not what was compared, and nobody has looked at it yet."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from seamline.bulk.log_cut import CutFromLog, _LogCut
from seamline.domain.errors import Diverged, SchemaConflict, SeamlineError, TransientError
from seamline.domain.made_from import NotByLog
from seamline.domain.runs import RunKind, RunState
from seamline.plan.model import Run
from seamline.sync.budget import BudgetSpent
from seamline.sync.log_cut import needed_tables
from tests.unit.memory_views import ENTRY
from tests.unit.test_carried_proof import BEFORE, ByKeys, carried, sides
from tests.unit.test_log_cut import DAYS, OF_CUTS, PLAN, Night, plain_history, read_at

CHANGED = NotByLog("the base is not what it was")


class Refusing:
    """A destination kind, and its load area."""

    def __init__(self, error: SeamlineError) -> None:
        self.error = error

    def published_tables(self, *_: Any) -> list[Any]:
        return [SimpleNamespace(table=name) for name in needed_tables(OF_CUTS)]

    def create(self, tables: list[Any]) -> dict[str, Any]:
        return {table.name: SimpleNamespace(name=table.name) for table in tables}

    def carry_on(self, *_: Any, **__: Any) -> int:
        raise self.error


def stage(error: SeamlineError, require_base: Callable[[str], None]) -> None:
    history, kind = plain_history(), Refusing(error)
    base = read_at(history, 2, 1).base
    log, nothing = Night(history).read(base, DAYS[1]), SimpleNamespace()
    assert PLAN.nightly is not None
    parts: Any = (kind, kind, base, log, nothing, PLAN.nightly.day_of(DAYS[1]), require_base)
    CutFromLog(PLAN, *parts).stage(PLAN.destinations[0])


ERRORS = [
    SchemaConflict("a key is there twice", hint="correct it at the source"),
    Diverged("a row is not there"),
    TransientError("the server has ended the session"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_base_that_somebody_has_changed_is_named_whatever_its_copy_fails_with(error: SeamlineError) -> None:
    asked: list[str] = []

    def changed(table: str) -> None:
        asked.append(table)
        raise CHANGED

    with pytest.raises(NotByLog, match="not what it was"):
        stage(error, changed)
    assert asked == ["account"]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_a_base_that_is_as_it_was_stays_what_it_is(error: SeamlineError) -> None:
    def away(_: str) -> None:
        raise TransientError("the base is away")

    as_it_was: list[Callable[[str], None]] = [away, lambda _: None]
    for require_base in as_it_was:
        with pytest.raises(type(error)) as raised:
            stage(error, require_base)
        assert raised.value is error


def test_a_base_is_not_asked_once_the_budget_is_over() -> None:
    checks = iter([None, BudgetSpent("the budget was over")])

    def check() -> None:
        if (error := next(checks)) is not None:
            raise error

    base = ByKeys(ENTRY, BEFORE)
    run = Run("r1", PLAN.sync, RunKind.NIGHTLY, DAYS[1], PLAN, RunState.RUNNING)
    nothing: Any = None
    made = _LogCut(run, PLAN.destinations[0], nothing, nothing, nothing)
    made._carried = {"entry": carried(base)}
    # The proof fails: what was staged is what the earlier cut held.
    with pytest.raises(BudgetSpent):
        made.proven(replace(sides(ByKeys(ENTRY, BEFORE)), check=check))
    assert base.asked == ["digests_by_keys"]
