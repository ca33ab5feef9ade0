"""A delivery of files whose platform database is killed: what is delivered is decided at the partner's place alone."""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.errors import TransientError
from seamline.domain.runs import EXPECTATIONS, Cut, Reconciliation, RunKind, RunState, Scope
from seamline.domain.staged_cut import StagedCut, cut_to_json
from seamline.domain.verdict import TableVerdict
from seamline.plan.model import Run
from seamline.sync.cut import publish_cut
from tests.contract.file_places import folder_place
from tests.contract.files_world import DAY, Killed, Night, steps_of

CALLS = ("reconciliation", "require_as_entered", "save_cut")


class Database:
    """The records of one run. `dies_at`: the call at which it is killed, before it has done that or behind it."""

    def __init__(self, found: Reconciliation) -> None:
        self._found = found
        self.cuts: list[Cut] = []
        self.dies_at, self.is_done_first = "", False

    def _asked(self, name: str, work: Callable[[], Any]) -> Any:
        if name == self.dies_at and not self.is_done_first:
            raise TransientError("the platform database is away")
        answer = work()
        if name == self.dies_at:
            raise TransientError("the platform database is away")
        return answer

    def reconciliation(self, run_id: str, scope: str, destination: str = "") -> Reconciliation | None:  # noqa: ARG002
        found: Reconciliation | None = self._asked("reconciliation", lambda: self._found)
        return found

    def require_as_entered(self, found: Reconciliation) -> None:
        self._asked("require_as_entered", lambda: found)

    def save_reconciliation(self, reconciliation: Reconciliation) -> None:
        raise AssertionError("nobody has signed")

    def save_cut(self, cut: Cut) -> None:
        """Of a run and destination there is one row."""
        self._asked("save_cut", lambda: self.cuts.__setitem__(slice(None), [cut]))


@pytest.fixture
def night(tmp_path: Path) -> Night:
    (tmp_path / "out").mkdir()
    return Night(folder_place(str(tmp_path / "out"), "", tmp_path / "out"), tmp_path)


def run_of(night: Night, cut: StagedCut) -> Run:
    result: dict[str, Any] = {"cut": {"partner": cut_to_json(cut)}, EXPECTATIONS: {"verdict": "MATCH"}}
    return Run(cut.run_id, night.sync, RunKind.NIGHTLY, DAY, night.plan, RunState.RUNNING, result)


def database_of(night: Night, cut: StagedCut) -> Database:
    tables = tuple(TableVerdict(table.table, table.verdict, "") for table in cut.tables)
    now = datetime.now(UTC)
    who = (cut.run_id, night.sync, "partner", Scope.CUT, DAY)
    return Database(Reconciliation(*who, cut.position, now, "read", cut.verdict, tables, now, now))


def publish(night: Night, cut: StagedCut, database: Database) -> Cut:
    with closing(night.opened()) as cuts:
        return publish_cut(run_of(night, cut), "partner", publisher=cuts, records=database)


@pytest.mark.parametrize("is_done_first", [False, True])
@pytest.mark.parametrize("dies_at", CALLS)
def test_a_platform_database_that_is_killed_at_any_step_of_a_publish_leaves_one_delivery(
    night: Night, dies_at: str, is_done_first: bool
) -> None:
    cut = night.cut("first")
    database = database_of(night, cut)
    database.dies_at, database.is_done_first = dies_at, is_done_first
    with pytest.raises(TransientError, match="is away"):
        publish(night, cut, database)
    assert bool(night.fetched()) == (dies_at == "save_cut"), "nothing is given before it was asked for the verdict"
    database.dies_at = ""
    assert publish(night, cut, database).version == 1
    assert [(one.version, one.run_id) for one in database.cuts] == [(1, cut.run_id)]
    assert night.fetched(1)
    assert night.fetched(2) is None


def test_no_step_of_the_two_phase_commit_needs_the_platform_database(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before any of them, and the database lost for good: what was decided is shown, and never a second time."""
    for dies_before in range(20):
        cut = night.cut("first", run=f"run {dies_before}")
        with monkeypatch.context() as patch, closing(night.opened()) as dying:
            taken = steps_of(dying.store, patch, dies_before=dies_before)
            try:
                night.publish(cut, by=dying)
                break
            except Killed:
                pass
        version = publish(night, cut, database_of(night, cut)).version
        assert version == dies_before + 1, "no number is given twice, and none is left out"
        with closing(night.opened()) as cuts:
            assert sorted(one.version for one in cuts.state(night.sync).cuts) == list(range(1, version + 1))
    assert len(taken) == dies_before
    assert "put_if_absent" in taken
