"""Repairs on the page: both values side by side, approved by another person than the one who planned."""

import html
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import delete, select, update

from seamline.domain.repair import Repair, RepairRow, RepairState, RootCause, RowAction, RowState
from seamline.domain.runs import Scope
from seamline.plan.document import plan_to_json
from seamline.platform.store import PlatformStore
from seamline_airflow import parts
from tests.dags import results
from tests.dags.test_dag_run import dag_of
from tests.dags.test_page import HOSTILE
from tests.dags.test_page_tolerances import send
from tests.dags.test_page_work import _server as _server
from tests.dags.test_page_work import forms, save
from tests.dags.test_page_work import page as page
from tests.dags.test_page_work import store as store

RUN = "settlement/repair/-/repair-20261128T231500-0a1b"
DAG = "settlement__repair"
ROWS = (
    RepairRow(
        "account", "7", '{"id": "7"}', RowAction.UPSERT, {"id": "7", "balance": "1.0000"},
        {"id": "7", "balance": "1.0001"},
    ),
    RepairRow("account", "8", f'{{"id": "{HOSTILE}"}}', RowAction.DELETE, None, {"id": "8", "balance": None}),
    RepairRow("account", "9", '{"id": "9"}', None, None, None, RowState.EQUAL),
)  # fmt: skip


@pytest.fixture
def planned(store: PlatformStore) -> Repair:
    repair = Repair(RUN, "settlement", "warehouse", results.RUN, "0-7-100", ROWS, {"ledger_entry": "12 of 20 differ"})
    with parts.repairs() as kept:
        kept.save(repair, plan_json=plan_to_json(results.plan()), by="operator", origin="test")
    return repair


def shown(page: TestClient, who: str = "operator", path: str = "/repair") -> str:
    answer = page.get(path, params={"sync": "settlement", "id": RUN}, headers={"X-Person": who})
    assert answer.status_code == 200
    return answer.text


def test_a_plan_has_both_values_side_by_side_and_hostile_ones_never_act(page: TestClient, planned: Repair) -> None:
    text = shown(page)
    assert "1.000<mark>0</mark>" in text and "1.000<mark>1</mark>" in text and "no such row" in text
    assert "12 of 20 differ" in text and "1 equal by now" in text and planned.hash in text
    assert "&lt;script&gt;" in text and "<script" not in text and "{{7*7}}" in html.unescape(text)
    assert "repair-20261128T231500-0a1b" in shown(page, path="/repairs")


def test_another_person_approves_it_with_a_cause_and_the_forms_are_for_who_may(
    page: TestClient, planned: Repair
) -> None:
    for who, offered in (("operator", False), ("approver", True), ("viewer", False)):
        assert ('action="approve_repair"' in shown(page, who)) is offered
    given = {"id": RUN, "cause": "outside", "reason": "by hand"}
    for who in ("operator", "viewer"):
        assert send(page, "/approve_repair", who, **given).status_code == 403
    assert send(page, "/approve_repair", "approver", **{**given, "cause": "mood"}).status_code == 422
    assert send(page, "/approve_repair", "approver", **{**given, "reason": " "}).status_code == 409
    assert send(page, "/approve_repair", "approver", **{**given, "id": "elsewhere"}).status_code == 404
    answer = send(page, "/approve_repair", "approver", **given)
    assert (answer.status_code, answer.headers["location"].startswith("repair?sync=settlement")) == (303, True)
    with parts.repairs() as kept:
        found = kept.approved(RUN)
    assert (found.state, found.cause, found.approved_by) == (RepairState.APPROVED, RootCause.OUTSIDE, "approver")
    assert "approved by approver" in shown(page) and 'action="approve_repair"' not in shown(page, "approver")
    assert send(page, "/approve_repair", "approver", **given).status_code == 409


@pytest.fixture
def in_airflow(checkout: Path, airflow_database: Path) -> Iterator[None]:
    """Airflow has the DAGs of the repository; its runs of repairs are gone afterwards."""
    dag_of(checkout, DAG)
    yield
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == DAG))


def runs() -> list[DagRun]:
    with create_session() as session:
        return list(session.scalars(select(DagRun).where(DagRun.dag_id == DAG)))


@pytest.mark.usefixtures("in_airflow")
def test_a_plan_is_asked_for_by_a_form_of_the_page_and_made_by_a_run_that_says_who_and_why(
    page: TestClient, store: PlatformStore
) -> None:
    save(store, "one", run_id="l", scope=Scope.LIVE, business_date=None)
    of_live = {"sync": "settlement", "run": "l", "scope": "live"}
    assert 'action="plan_repair"' not in page.get("/breaks", params=of_live, headers={"X-Person": "viewer"}).text
    assert 'action="plan_repair"' not in page.get("/breaks", params={"sync": "settlement", "run": results.RUN}).text
    fields = next(fields for action, fields, _ in forms(page.get("/breaks", params=of_live).text) if "plan" in action)
    assert (fields["compared"], fields["destination"]) == ("l", "warehouse")
    asked = {"compared": "l", "destination": "warehouse"}
    assert send(page, "/plan_repair", "viewer", **asked, reason="x").status_code == 403
    assert send(page, "/plan_repair", "operator", **asked, reason=" ").status_code == 409
    assert runs() == []
    answer = send(page, "/plan_repair", "operator", **asked, reason="by\nhand")
    (run,) = runs()
    assert (run.conf, run.triggering_user_name) == ({**asked, "repair": "", "reason": "by hand"}, "operator")
    assert (answer.status_code, run.run_id in unquote(answer.headers["location"])) == (303, True)
    text = page.get(f"/{answer.headers['location']}").text
    assert "plans the repair: queued" in text and f"dags/{DAG}/runs/" in text
    again = send(page, "/plan_repair", "operator", **asked, reason="again")
    assert (again.status_code, "goes on" in again.text) == (409, True)
    assert page.get("/repair", params={"sync": "settlement", "id": "settlement/repair/-/none"}).status_code == 404
    named = f"settlement/repair/-/{run.run_id}"
    planned = Repair(named, "settlement", "warehouse", "l", "0-7-100", ROWS, why="by hand")
    with parts.repairs() as kept:
        kept.save(planned, plan_json=plan_to_json(results.plan()), by="operator", origin="test")
    text = page.get(f"/{answer.headers['location']}").text
    assert "Why it was planned: by hand" in text and "1.000<mark>0</mark>" in text and "start its run" not in text


@pytest.mark.usefixtures("in_airflow")
def test_a_repair_that_the_command_line_has_planned_is_given_a_run_by_rest(page: TestClient, planned: Repair) -> None:
    assert "start its run" in shown(page)
    headers = {"Authorization": "Bearer of this person"}
    body = {"repair": RUN, "reason": "seen"}
    answer = page.post("/api/v1/syncs/settlement/repairs", json=body, headers=headers)
    assert (answer.status_code, answer.json()) == (202, {"id": RUN})
    (run,) = runs()
    assert (run.conf or {})["repair"] == RUN
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == DAG).values(is_paused=True))
        session.execute(delete(DagRun).where(DagRun.dag_id == DAG))
    refused = page.post("/api/v1/syncs/settlement/repairs", json=body, headers=headers)
    assert (refused.status_code, refused.json()["hint"]) == (409, "unpause it in Airflow")
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == DAG).values(is_paused=False))


def test_who_has_planned_it_is_refused_also_as_an_approver(page: TestClient, store: PlatformStore) -> None:
    repair = Repair(RUN, "settlement", "warehouse", results.RUN, "0-7-100", ROWS)
    with parts.repairs() as kept:
        kept.save(repair, plan_json=plan_to_json(results.plan()), by="approver", origin="test")
    assert 'action="approve_repair"' not in shown(page, "approver")
    answer = send(page, "/approve_repair", "approver", id=RUN, cause="outside", reason="mine")
    assert (answer.status_code, "another person" in answer.text) == (409, True)
