"""The preflight task shows everything that is wrong at once: declarations, source, capture and destinations."""

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from seamline import registry
from seamline.domain.runs import INTO
from seamline.plan.compile import compile_plan
from seamline.plan.model import plan_to_json
from seamline.ports import Problem, Survey
from seamline.spec.load import load_declarations
from seamline_airflow import parts
from seamline_airflow.operators.step import PreflightOperator
from tests.dags import results
from tests.unit.declared import write_declarations
from tests.unit.test_plan import ACCOUNT, LEDGER

UNKNOWN = Problem("database bank: there is no table `account`, did you mean `accounts`?", "correct it", table="account")


class _Source:
    def __init__(self, survey: Survey, *problems: Problem) -> None:
        self._survey = survey
        self._problems = problems

    def survey(self, tables: Any) -> Survey:
        return self._survey

    def preflight(self, tables: Any) -> tuple[Problem, ...]:
        assert tuple(tables) == self._survey.tables
        return self._problems


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    made.state = None
    return made


@pytest.fixture
def plan_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = write_declarations(tmp_path)
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(folder))
    return plan_to_json(compile_plan(load_declarations(folder), "settlement"))


def use(
    monkeypatch: pytest.MonkeyPatch, source: _Source, *, capture: tuple[Problem, ...] = (), destination: Any = ()
) -> None:
    @contextmanager
    def opened(plan: Any) -> Any:
        yield source

    monkeypatch.setattr(parts, "source", opened)
    monkeypatch.setattr(registry, "capture_problems", lambda plan: capture)
    monkeypatch.setattr(registry, "destination_problems", lambda plan, name: destination)


def execute(plan_json: str) -> Any:
    operator = PreflightOperator(task_id="preflight", plan_json=plan_json, run=results.RUN)
    return operator.execute({"params": {}})


def test_everything_that_is_wrong_is_reported_at_once(
    platform: results.Platform, plan_json: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(
        monkeypatch,
        _Source(Survey((LEDGER,), (UNKNOWN,)), Problem("row image is MINIMAL", "set binlog_row_image=FULL")),
        capture=(Problem("Connect holds no tested connector", "install it"),),
        destination=(Problem("destination warehouse: no CREATE", "run the script"),),
    )
    with pytest.raises(AirflowFailException) as caught:
        execute(plan_json)
    message = str(caught.value)
    for part in ("settlement.yaml:5  tables[0]: database bank: there is no table `account`", "row image is MINIMAL"):
        assert part in message
    for part in ("no tested connector", "no CREATE", "correct it", "binlog_row_image=FULL", "install it", "the script"):
        assert part in message
    assert_was_not_opened(platform)


def assert_was_not_opened(platform: results.Platform) -> None:
    """All that is known of the run is where it was to go."""
    assert [one.result for one in platform.runs.values()] == [{INTO: []}]
    assert platform.state is None


@pytest.mark.parametrize("side", ["capture", "destination"])
def test_a_side_that_is_not_ready_stops_the_run_before_it_is_opened(
    platform: results.Platform, plan_json: str, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    wrong = {side: (Problem("not ready", "mend it"),)}
    use(monkeypatch, _Source(Survey((ACCOUNT, LEDGER))), **wrong)  # type: ignore[arg-type]
    with pytest.raises(AirflowFailException, match="not ready"):
        execute(plan_json)
    assert_was_not_opened(platform)
