"""A run that failed to put tables in place, and what a table is held by, stand on the page."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from fastapi.testclient import TestClient

from seamline.domain.row_transform import transforms_evidence
from seamline.domain.runs import KEPT, RunKind, RunState
from seamline_airflow.page import reports
from tests.dags import results
from tests.dags.test_page import OF_DAY
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in


def test_a_transformed_table_is_called_so_by_its_file(signed_in: TestClient, platform: results.Platform) -> None:
    evidence = transforms_evidence({"account": "include/transforms/masked.sql"})
    platform.found = [replace(one, evidence={**one.evidence, **evidence}) for one in platform.found]
    assert "transformed by include/transforms/masked.sql" in signed_in.get(f"/page?sync=settlement&{OF_DAY}").text


EVENING = datetime(2026, 11, 28, 23, 20, tzinfo=UTC)


def test_an_onboarding_that_failed_stands_on_the_page_until_a_later_run_has_put_tables_in_place(
    signed_in: TestClient, platform: results.Platform
) -> None:
    failure = {"task": "preflight", "error": "no column `status`", "cure": "correct it", "at": "2026-11-28T23:20:20Z"}
    failed = results.run(run_id="o2", kind=RunKind.ONBOARD, state=RunState.FAILED, result={"failure": failure})
    platform.runs = {"o2": replace(failed, started_at=EVENING)}
    for path in ("/page", "/page?sync=settlement"):
        text = signed_in.get(path).text
        assert "✗</span> FAILED</span> onboarding into warehouse: task preflight failed at" in text
        assert "no column `status`; to mend it: correct it" in text
    assert reports.read_sync("settlement").headline == "FAILED"
    done = results.run(run_id="t", kind=RunKind.TABLES, state=RunState.SUCCEEDED, result={})
    platform.runs["t"] = replace(done, started_at=EVENING + timedelta(hours=1))
    assert "FAILED" not in signed_in.get("/page").text


def test_a_load_that_goes_on_stands_on_the_page_with_rows_bytes_percent_and_estimate(
    signed_in: TestClient, platform: results.Platform
) -> None:
    load = {"rows": 1_400_000, "expected": 2_000_000, "kept": 800_000, "size_bytes": 212_400_000, "elapsed_s": 180.0}
    run = results.run(run_id="a/o/r2", kind=RunKind.ONBOARD, state=RunState.RUNNING, result={"loading": load})
    platform.runs = {"a/o/r2": replace(run, started_at=EVENING)}
    words = (
        "1,400,000 of about 2,000,000 rows (70 %), 212.4 MB staged, 800,000 rows by an earlier attempt,"
        " about 3 min left"
    )
    assert words in signed_in.get("/page?sync=settlement").text
    of_run = "/page?dag_id=settlement__onboard&run_id=r2"
    assert f"Its load: {words}" in signed_in.get(of_run).text
    platform.runs = {"a/o/r2": replace(run, started_at=EVENING, state=RunState.FAILED)}
    assert words not in signed_in.get(of_run).text, "a load that has failed does not go on"


def test_a_run_that_had_nothing_to_take_says_what_stays_in_force(
    signed_in: TestClient, platform: results.Platform
) -> None:
    one: dict[str, object] = {"run": "earlier", "version": 3, "why": "the delivery is taken already"}
    kept = {"warehouse": one}
    platform.runs = {results.RUN: results.run(state=RunState.SUCCEEDED, result={KEPT: kept})}
    text = signed_in.get("/page?dag_id=settlement__nightly&run_id=manual__1").text
    assert "Nothing was taken in warehouse: the delivery is in force there already, as version 3." in text
    assert "NOT_RUN" not in text
    assert "by another declaration" not in text
    one["changed"] = ["the rules"]
    said = "That version was made by another declaration: the log of task <code>cut</code> says what has changed."
    assert said in signed_in.get("/page?dag_id=settlement__nightly&run_id=manual__1").text
    left = signed_in.get("/api/v1/syncs/settlement/airflow_run?run_id=manual__1").json()
    assert (left["kept"], left["cuts"], left["failures"]) == (["the delivery is taken already"], [], [])
