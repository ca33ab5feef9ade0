"""How a destination that takes cuts only holds the tables of a sync whose other destinations have streams: by the
transforms that a preflight has analysed, from when that run's tables are in place."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException

from seamline.domain.row_transform import Expression, RowTransform
from seamline.domain.runs import PUBLISH, TABLES
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.model import SyncPlan
from seamline_airflow import runs
from seamline_airflow.nightly_form import form
from seamline_airflow.operators.run_jobs import OpenNightlyOperator
from seamline_airflow.operators.step import EnableOperator, PreflightOperator, TablesPreflightOperator
from tests.dags import results
from tests.dags.test_runs import context
from tests.dags.test_runs import platform as platform
from tests.dags.test_table_runs import CARRIED, with_fees

FIRST, CHANGED = "settlement/onboard/-/manual__1", "settlement/tables/-/manual__2"
ACCOUNT = results.plan().table("account")
FILE = "include/transforms/masked.sql"
ARCHIVE = replace(results.destination_plan("archive", "archived"), name="archive", cuts_only=True)


def made(text: str, *, value: str = "1") -> RowTransform:
    return RowTransform(FILE, text, ACCOUNT.definition, (Expression("literal", "bigint", value=value),))


MASKED = made("SELECT 1")


def declared(transform: RowTransform | None, plan: SyncPlan | None = None) -> SyncPlan:
    """A sync into a warehouse with a stream and an archive of cuts only. `transform`: of `account` in the archive."""
    plan = plan or results.plan()
    transforms = (("account", transform),) if transform is not None else ()
    return replace(plan, destinations=(*plan.destinations, replace(ARCHIVE, transforms=transforms)))


@pytest.fixture(autouse=True)
def analysed(platform: results.Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.runs.clear()

    def preflight(plan: SyncPlan, *, beside: Any = (), misfits: Any) -> Any:  # noqa: ARG001
        return replace(plan, destinations=(*plan.destinations, *beside)), ()

    monkeypatch.setattr("seamline_airflow.onboarding.preflight", preflight)
    monkeypatch.setattr("seamline_airflow.onboarding.ledgers", lambda plan: CARRIED)


def onboard(platform: results.Platform, plan: SyncPlan) -> None:
    PreflightOperator(task_id="preflight", run=FIRST, plan_json=plan_to_json(plan)).execute(context(None))
    platform.put_result(FIRST, PUBLISH, {"warehouse": "p"})


def change(plan: SyncPlan) -> None:
    TablesPreflightOperator(task_id="preflight", run=CHANGED, plan_json=plan_to_json(plan)).execute(context(None))


def at_night(platform: results.Platform, plan: SyncPlan) -> Mapping[str, RowTransform | None]:
    """By destination how a night of this declaration holds `account`."""
    found = plan_from_json(plan_to_json(runs.onboarded_plan(platform, plan)))
    return {one.name: found.held_by(one.name).table("account").transform for one in found.destinations}


def test_a_night_holds_a_table_by_the_transform_that_preflight_has_analysed_for_cuts(
    platform: results.Platform,
) -> None:
    onboard(platform, declared(MASKED))
    assert platform.runs[FIRST].plan.destination_names == {"warehouse"}
    # What is declared was not analysed; that another one is declared since counts once a run has looked at it.
    for later in (MASKED, made("SELECT 2", value="2"), None):
        assert at_night(platform, declared(later)) == {"warehouse": None, "archive": MASKED}


def test_a_destination_of_cuts_whose_own_transform_nobody_has_analysed_has_no_night_yet(
    platform: results.Platform, capsys: pytest.CaptureFixture[str]
) -> None:
    onboard(platform, results.plan())
    assert at_night(platform, declared(None)) == {"warehouse": None, "archive": None}
    assert at_night(platform, declared(MASKED)) == {"warehouse": None}, "rows that are to be masked never go there"
    opening = OpenNightlyOperator(task_id="open", plan_json=plan_to_json(declared(MASKED)))
    night = platform.runs[opening.execute(context(**ParamsDict(form(declared(MASKED))).validate()))]
    assert night.plan.destination_names == {"warehouse"}
    assert "archive gets no cut: run settlement__tables first" in capsys.readouterr().out
    change(declared(MASKED))
    assert at_night(platform, declared(MASKED)) == {"warehouse": None}, "until its run is done"
    platform.put_result(CHANGED, PUBLISH, {"warehouse": "p"})
    assert at_night(platform, declared(MASKED)) == {"warehouse": None, "archive": MASKED}


def test_a_change_of_the_transform_of_cuts_is_something_to_do_and_loads_no_table(platform: results.Platform) -> None:
    onboard(platform, declared(MASKED))
    for same in (MASKED, made("SELECT  1")):
        with pytest.raises(AirflowFailException, match="exactly the declared tables"):
            change(declared(same))
    other = made("SELECT 2", value="2")
    for transform in (None, other):
        change(declared(transform))
        assert platform.runs[CHANGED].result[TABLES] == {"added": [], "again": [], "removed": []}
    platform.put_result(CHANGED, PUBLISH, {"warehouse": "p"})
    assert at_night(platform, declared(None)) == {"warehouse": None, "archive": other}


def test_a_sync_of_cuts_only_that_gets_a_stream_goes_by_the_tables_and_transforms_of_now(
    platform: results.Platform,
) -> None:
    alone = declared(MASKED).into(["archive"])
    PreflightOperator(task_id="preflight", run=FIRST, plan_json=plan_to_json(alone)).execute(context(None))
    EnableOperator(task_id="enable", run=FIRST).execute({})
    assert at_night(platform, alone) == {"archive": MASKED}
    now = declared(made("SELECT 2", value="2"), with_fees())
    runs.open_onboarding(platform, now.streamed, "settlement/onboard/-/manual__2", cuts=now.into(["archive"]))
    platform.put_result("settlement/onboard/-/manual__2", PUBLISH, {"warehouse": "p"})
    assert at_night(platform, now)["archive"] == made("SELECT 2", value="2")
    assert runs.onboarded_plan(platform, now).table_names == {"account", "ledger_entry", "fees"}
