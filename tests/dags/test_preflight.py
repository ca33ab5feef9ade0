"""The preflight task shows everything that is wrong at once: declarations, source, capture and destinations."""

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from seamline import analysis, registry
from seamline.domain.errors import TransientError
from seamline.domain.row_transform import transform_to_json
from seamline.domain.runs import INTO, SyncState
from seamline.kinds.live_columns import Misfit
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_to_json
from seamline.ports import Problem, Survey
from seamline.spec.load import load_declarations
from seamline_airflow import parts
from seamline_airflow.operators.step import PreflightOperator
from tests.dags import results
from tests.unit.declared import DESTINATION, SYNC, write_declarations
from tests.unit.test_plan import ACCOUNT, LEDGER
from tests.unit.test_transformed_rows import FILE, QUERY, of_ledger

JOB = "include/transforms/job.sql"
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
    monkeypatch.setattr(registry, "misfits", lambda plan, name: ())


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


def test_live_tables_that_would_not_take_the_load_stop_the_run_before_it_with_the_way_of_a_running_sync(
    platform: results.Platform, plan_json: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them: found only at the publish, one would be named after minutes of loading."""
    use(monkeypatch, _Source(Survey((ACCOUNT, LEDGER))))
    misfits = [Misfit(name, f"table {name} has other columns", f"drop {name}") for name in ("account", "ledger_entry")]
    monkeypatch.setattr(registry, "misfits", lambda plan, name: misfits)
    with pytest.raises(AirflowFailException) as on_its_way:
        execute(plan_json)
    assert "drop account; drop ledger_entry" in str(on_its_way.value)
    assert_was_not_opened(platform)
    platform.state = SyncState.ENABLED
    with pytest.raises(AirflowFailException) as running:
        execute(plan_json)
    said = str(running.value)
    assert "destination warehouse: table account has other columns; table ledger_entry has other columns" in said
    assert "Write `parked: <why>` on the table" in said and "run `settlement__tables`" in said
    assert "drop" not in said, "what a running stream writes to is not dropped"


def test_where_something_else_is_wrong_too_a_destination_that_does_not_answer_hides_it_not(
    platform: results.Platform, plan_json: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(plan: Any, name: str) -> Any:
        raise TransientError("warehouse cannot be reached")

    use(monkeypatch, _Source(Survey((ACCOUNT, LEDGER)), Problem("row image is MINIMAL", "set binlog_row_image=FULL")))
    monkeypatch.setattr(registry, "misfits", away)
    with pytest.raises(AirflowFailException, match="row image is MINIMAL"):
        execute(plan_json)
    use(monkeypatch, _Source(Survey((ACCOUNT, LEDGER))))
    monkeypatch.setattr(registry, "misfits", away)
    with pytest.raises(AirflowException, match="cannot be reached"):
        execute(plan_json)


def transformed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, found: Any) -> str:
    """The plan of a sync with a transform, of which Spark finds this."""
    sync = SYNC.replace("{name: ledger_entry,", f"{{name: ledger_entry, transform: {FILE},")
    folder = write_declarations(tmp_path, {"syncs/settlement.yaml": sync, "transforms/ledger_entry.sql": QUERY})
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(folder))
    monkeypatch.setattr(analysis, "_answer", lambda question: found)
    use(monkeypatch, _Source(Survey((ACCOUNT, LEDGER))))
    return plan_to_json(compile_plan(load_declarations(folder), "settlement"))


def test_destinations_are_asked_about_the_table_that_a_transform_makes_and_the_run_has_it(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = tuple(column.name for column in LEDGER.columns if column.name != "rate")
    made = of_ledger(names, QUERY)
    answer = [{"table": "ledger_entry", "file": FILE, "transform": transform_to_json(made)}]
    plan_json = transformed(monkeypatch, tmp_path, found=answer)
    asked: list[Any] = []
    monkeypatch.setattr(registry, "destination_problems", lambda plan, name: asked.append(plan) or ())
    run = platform.runs[execute(plan_json)]
    assert run.plan.table("ledger_entry").transform == made
    assert run.plan.table("ledger_entry").definition == LEDGER
    (plan,) = asked
    assert plan.at_destination("warehouse").table("ledger_entry").definition == made.target


def test_a_mistake_in_a_transform_stops_the_run_by_file_and_line(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mistake = {"line": 3, "what": "id is of the key", "cure": "Write `id`"}
    answer = [{"table": "ledger_entry", "file": FILE, "mistakes": [mistake]}]
    plan_json = transformed(monkeypatch, tmp_path, found=answer)
    with pytest.raises(AirflowFailException, match=r"transforms/ledger_entry.sql:3  id is of the key"):
        execute(plan_json)
    assert_was_not_opened(platform)


def test_a_transform_of_one_destination_is_analysed_and_each_destination_is_asked_about_its_own_table(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = of_ledger(tuple(column.name for column in LEDGER.columns if column.name != "rate"), QUERY)
    sync = SYNC.replace("[warehouse]", "[warehouse, lake]").replace(
        "{name: ledger_entry,", f"{{name: ledger_entry, transform: {{lake: {FILE}}},"
    )
    sync = sync.replace("table: ledger_entry, sum: amount, by: [account_id, currency]", f"transform: {JOB}")
    lake = DESTINATION.replace("warehouse", "lake", 1).replace("schema: settlement", "schema: lake")
    files = {"syncs/settlement.yaml": sync, "destinations/lake.yaml": lake, "transforms/ledger_entry.sql": QUERY}
    folder = write_declarations(tmp_path, {**files, "transforms/job.sql": "SELECT id FROM ledger_entry"})
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(folder))
    questions: list[Any] = []

    def answer(question: str) -> Any:
        questions.append(json.loads(question))
        return [{"table": "ledger_entry", "file": FILE, "transform": transform_to_json(made)}]

    monkeypatch.setattr(analysis, "_answer", answer)
    use(monkeypatch, _Source(Survey((ACCOUNT, LEDGER))))
    asked: dict[str, Any] = {}
    monkeypatch.setattr(registry, "destination_problems", lambda plan, name: asked.update({name: plan}) or ())
    run = platform.runs[execute(plan_to_json(compile_plan(load_declarations(folder), "settlement")))]
    (question,) = questions
    assert [one["transform"]["file"] for one in question["transforms"]] == [FILE]
    assert [one["transforms"] for one in question["jobs"]] == [{}, {"ledger_entry": FILE}]
    held = {"warehouse": LEDGER, "lake": made.target}
    assert {name: plan.at_destination(name).table("ledger_entry").definition for name, plan in asked.items()} == held
    assert {name: run.plan.held_by(name).table("ledger_entry").target for name in held} == held
