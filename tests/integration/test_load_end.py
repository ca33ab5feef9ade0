"""The end of a load, killed between any two of its steps, and beside an attempt that was thought dead (ADR 112)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from seamline.bulk.resume import SplitLoads
from seamline.domain.errors import TransientError
from seamline.domain.runs import LOADED, NOT_STAGED, Receipt
from seamline.plan.model import Run
from tests.conftest import RunningStack
from tests.integration.interrupted_load import ROWS, load_as_its_job
from tests.integration.snapshot_run import Records
from tests.integration.test_resumed_load import World, rows_copied, world_of

BEGUN, STAGED, COMPARED = "it is begun", "all is staged", "all is compared"
THROUGH, LETS_GO, GONE = f"behind {LOADED}", "it lets go", "it has let go"
SAID = "snap.manifest_written"
# In the order in which an attempt comes to them; the rows of the last split are committed before the first.
END = (STAGED, "snap.chunk_staged", COMPARED, f"before {NOT_STAGED}", "before snapshot", SAID, f"before {LOADED}")


class Killed(BaseException):
    """As a process ends: nothing of it is done behind this."""


@dataclass
class Steps(Records):
    """Records, results and failpoints of a run. At `at` an attempt does `then` instead of going on at once."""

    run: Run
    at: str = ""
    then: Callable[[], None] = lambda: None
    results: dict[str, Any] = field(default_factory=dict)
    receipts: list[Receipt] = field(default_factory=list)
    held: list[tuple[str, int]] = field(default_factory=list)
    released: list[str] = field(default_factory=list)

    def reach(self, name: str) -> None:
        if name == self.at:
            self.at = ""
            self.then()

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        self.reach(f"before {key}")
        super().put_result(run_id, key, value)
        self.run.result[key] = value
        self.reach(f"behind {key}")

    def put_receipt(self, run_id: str, receipt: Receipt) -> None:
        self.reach(COMPARED)
        super().put_receipt(run_id, receipt)

    def release_log(self, hold_id: str) -> None:
        self.released.append(hold_id)

    def attempt(self) -> None:
        load_as_its_job(self.run, self, self)

    def killed(self, at: str) -> None:
        self.at, self.then = at, _killed
        with pytest.raises(Killed):
            self.attempt()


def _killed() -> None:
    raise Killed


@dataclass
class Load:
    world: World
    steps: Steps
    copied: list[Any]

    def rows_read(self) -> int:
        """Since the last time, of the table that is divided, for one destination."""
        rows = sum(one.rows for one in self.copied if (one.table, one.destination) == ("account", "warehouse"))
        self.copied.clear()
        return rows

    def staged(self) -> int:
        return int(self.world.query("SELECT count(*) FROM bank_stage.staged_load")[0][0])


@pytest.fixture
def load(stack: RunningStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """From PostgreSQL, into PostgreSQL and MariaDB."""
    with world_of("postgres", tmp_path, None) as world:
        steps, copied = Steps(world.run), rows_copied(monkeypatch)
        _reached(monkeypatch, "_make_places", lambda: steps.reach(BEGUN), lambda: None)
        _reached(monkeypatch, "loads", lambda: None, lambda: steps.reach(STAGED))
        _reached(monkeypatch, "forget", lambda: steps.reach(LETS_GO), lambda: steps.reach(GONE))
        yield Load(world, steps, copied)


def _reached(patch: pytest.MonkeyPatch, name: str, before: Callable[[], None], behind: Callable[[], None]) -> None:
    method = getattr(SplitLoads, name)

    def seen(*given: Any) -> Any:
        before()
        done = method(*given)
        behind()
        return done

    patch.setattr(SplitLoads, name, seen)


def test_a_kill_between_any_two_steps_of_the_end_of_a_load_reads_no_row_again(load: Load) -> None:
    steps, run = load.steps, load.world.run
    for number, step in enumerate(END):
        steps.killed(step)
        assert load.rows_read() == (0 if number else ROWS), f"rows were read again by the attempt killed at {step!r}"
        # What is kept has to be brought to the next attempt's position, and is compared there.
        load.world.bank.execute(f"UPDATE account SET memo = 'change {number}' WHERE id IN ({number + 1}, 900)")
        load.world.bank.execute(f"INSERT INTO audit VALUES ({number}, 'change')")
    steps.killed(THROUGH)
    assert load.rows_read() == 0
    snapshot = steps.results["snapshot"]
    assert load.staged() > 0
    steps.attempt()
    assert (load.rows_read(), load.staged(), steps.results["snapshot"] is snapshot) == (0, 0, True)
    assert steps.released == [f"the load of {run.run_id} into warehouse, second"]
    # Behind a task that has succeeded another one begins, and says so: a task that is cleared loads anew.
    steps.put_result(run.run_id, LOADED, None)
    for step in (LETS_GO, GONE):
        steps.killed(step)
        load.copied.clear()
        steps.attempt()
        assert load.rows_read() == 0, f"rows were read again behind a kill where {step}"
        assert load.staged() == 0
        steps.put_result(run.run_id, LOADED, None)
    steps.attempt()
    assert load.rows_read() == ROWS


def test_an_attempt_beside_one_that_was_thought_dead_loses_nothing_whichever_step_that_one_comes_to(load: Load) -> None:
    steps, run = load.steps, load.world.run
    for step in (BEGUN, STAGED, SAID):
        second = Steps(run)

        def all_but_the_last_step(second: Steps = second) -> None:
            """Of the one that takes over; its own steps are not those that are waited for here."""
            with pytest.raises(Killed):
                second.at, second.then = "before snapshot", _killed
                second.attempt()

        steps.at, steps.then = step, all_but_the_last_step
        with pytest.raises(TransientError):
            steps.attempt()
        assert LOADED not in run.result
        load.copied.clear()
        Steps(run).attempt()
        assert load.rows_read() == 0, f"work was lost where the first attempt was at {step!r}"
        assert load.staged() == 0
        run.result.clear()
