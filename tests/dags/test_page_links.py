"""Where the links of the Reconciliation page lead: to the log, to the question, to the files of what is shown."""

import csv
import html
import io
import re
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from seamline.domain.decision import Decision, DecisionState
from seamline.domain.runs import Scope
from seamline.plan.stages import all_stages
from seamline_airflow.page import reports
from tests.dags import results
from tests.dags.test_page import APPROVED, NEGATIVE, date_page
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in


def test_a_cut_that_waits_for_a_person_leads_to_the_question(signed_in: TestClient, platform: results.Platform) -> None:
    question = 'href="../dags/settlement__nightly/runs/manual__1/tasks/approve/required_actions"'
    waiting = Decision(DecisionState.WAITING, "2026-11-20T00:00:00+00:00", ("head",)).to_json()
    for decision, is_asked in ((waiting, True), (APPROVED, False)):
        platform.runs = {results.RUN: results.run(result={"expectations": NEGATIVE, "decision": decision})}
        for text in (signed_in.get("/page").text, date_page(signed_in)):
            assert (question in text) is is_asked


@pytest.mark.parametrize(("kind", "task"), [("onboard", "reconcile"), ("tables", "compare"), ("reconcile", "compare")])
def test_the_log_of_a_comparison_is_that_of_the_task_that_its_dag_has_for_it(
    signed_in: TestClient, platform: results.Platform, kind: str, task: str
) -> None:
    """Found by a newcomer: on the report of an onboarding it led to 404."""
    assert task in {stage.id for stage in all_stages(results.plan())[kind]}
    run_id = f"settlement/{kind}/-/manual__7"
    platform.found = [results.reconciliation(results.table("account"), scope=Scope.LIVE, run_id=run_id)]
    text = signed_in.get("/page", params={"sync": "settlement", "run": run_id}).text
    assert f'href="../dags/settlement__{kind}/runs/manual__7/tasks/{task}"' in text


def test_a_repair_of_a_run_of_airflow_leads_to_it_whatever_a_person_has_called_the_run() -> None:
    """Found by the browser: a run named `repair-101530` was offered a second run, for it was taken for a command's."""
    place = "dags/settlement__repair/runs"
    assert reports.airflow_path("settlement/repair/-/repair-101530123456") == f"{place}/repair-101530123456"
    assert reports.airflow_path("settlement/repair/-/repair-20261128T231500-0a1b") == ""


def test_the_files_of_a_take_hold_that_take_only(signed_in: TestClient, platform: results.Platform) -> None:
    second = f"{results.RUN}~2"
    platform.found = [replace(results.clean(), run_id=second), results.clean()]
    platform.runs[second] = replace(results.published(), run_id=second)
    for take in (results.RUN, second):
        asked = {"sync": "settlement", "business_date": str(results.DATE), "run": take}
        links = re.findall(r'href="(export[^"]+)"', signed_in.get("/page", params=asked).text)
        files = {link.partition("?")[0]: signed_in.get(f"/{html.unescape(link)}") for link in links}
        assert {name: file.status_code for name, file in files.items()} == {
            "export.xlsx": 200,
            "export.pdf": 200,
            "export.csv": 200,
            "export.json": 200,
        }
        in_json, in_csv = files["export.json"], files["export.csv"]
        assert {one["run"] for one in in_json.json()} == {take}
        assert {row["run"] for row in csv.DictReader(io.StringIO(in_csv.text))} == {take}
