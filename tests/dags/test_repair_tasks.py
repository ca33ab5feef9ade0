"""The tasks of `<sync>__repair` over a real platform database."""

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from seamline.domain.errors import Refused
from seamline.domain.repair import Repair, RootCause
from seamline.plan.document import plan_to_json
from seamline.platform.store import PlatformStore
from seamline_airflow import parts
from seamline_airflow.operators.repair import ApplyRepairOperator, PlanRepairOperator
from seamline_airflow.sensors.repair_approved import RepairApprovedSensor
from tests.dags import results
from tests.dags.test_page_repairs import ROWS, RUN
from tests.dags.test_page_repairs import planned as planned
from tests.dags.test_page_work import _server as _server
from tests.dags.test_page_work import store as store


def plan(**params: str) -> Any:
    operator = PlanRepairOperator(task_id="plan", sync="settlement", run="settlement/repair/-/manual__1")
    return operator.execute({"params": params, "dag_run": SimpleNamespace(triggering_user_name="ann")})


def test_a_repair_that_is_planned_already_is_taken_by_its_name(planned: Repair) -> None:
    assert plan(repair=RUN.rpartition("/")[2]) == RUN
    with pytest.raises(AirflowFailException, match="0 repairs are called"):
        plan(repair="elsewhere")


def test_without_a_comparison_there_is_nothing_to_plan(store: PlatformStore) -> None:
    with pytest.raises(AirflowFailException, match="no comparison of the live tables"):
        plan()


def test_a_plan_that_changes_no_row_ends_the_run_without_an_approval(store: PlatformStore) -> None:
    nothing = Repair(RUN, "settlement", "warehouse", results.RUN, "0-7-100", ROWS[2:])
    with parts.repairs() as kept:
        kept.save(nothing, plan_json=plan_to_json(results.plan()), by="ann", origin="test")
    with pytest.raises(AirflowSkipException, match="changes no row"):
        plan(repair=RUN.rpartition("/")[2])


def test_the_wait_ends_with_the_approval_and_nothing_is_applied_before(planned: Repair) -> None:
    waits, applies = RepairApprovedSensor(task_id="approve", run=RUN), ApplyRepairOperator(task_id="apply", run=RUN)
    assert waits.poke({}) is False
    with pytest.raises(AirflowFailException, match="not approved"):
        applies.execute({})
    with parts.repairs() as kept:
        kept.approve(RUN, by="bob", cause=RootCause.OTHER, reason="known", origin="test")
    assert waits.poke({}) is True


def test_a_plan_whose_rows_were_changed_is_not_applied(planned: Repair) -> None:
    with parts.repairs() as kept:
        kept.approve(RUN, by="bob", cause=RootCause.OTHER, reason="known", origin="test")
        with pytest.raises(Refused, match="is not changed"):
            kept._database.transact(  # noqa: SLF001
                lambda session: session.execute("update repair_row set key = 'other'").rowcount
            )
        with pytest.raises(Refused, match="approved already"):
            kept._database.transact(  # noqa: SLF001
                lambda session: (
                    session.execute(
                        "insert into repair_row select run_id, 99, table_name, key, named, action, source_values,"
                        " destination_values, state, why from repair_row limit 1"
                    ).rowcount
                )
            )
        assert kept.repair(RUN).hash == planned.hash
