"""The Reconciliation page: behind the login, verdict first, and nothing in the data can act in it."""

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from seamline.domain.date_before import DATE_BEFORE, SinceCut, date_before_to_json
from seamline.domain.runs import SIGNED_BY, Scope
from seamline.domain.verdict import Break, BreakType, Verdict
from seamline.plan.stages import DAG_KINDS
from seamline_airflow.page import access, reports
from seamline_airflow.page.app import app
from tests.dags import results

HOSTILE = "<script>alert('x')</script>\"'&{{7*7}}"


class _User:
    def get_name(self) -> str:
        return "viewer <b>"


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    made.found = [results.clean()]
    made.reports = {results.STREAM: results.report()}
    return made


@pytest.fixture
def anonymous() -> TestClient:
    return TestClient(app)


@pytest.fixture
def signed_in(monkeypatch: pytest.MonkeyPatch) -> Any:
    user = _User()
    for dependency in access.SIGNED_IN:
        app.dependency_overrides[dependency.dependency] = lambda: user
    monkeypatch.setattr(access, "may_see", lambda _user, sync: sync == "settlement")
    yield TestClient(app)
    app.dependency_overrides.clear()


def _routes() -> list[str]:
    return [route.path for route in app.routes]


def test_every_route_refuses_an_anonymous_caller(anonymous: TestClient, platform: results.Platform) -> None:
    assert len(_routes()) == 4
    for route in app.routes:
        assert isinstance(route, APIRoute)
        for method in route.methods:
            for query in ("", "?sync=settlement", "?dag_id=settlement__nightly&run_id=x"):
                answer = anonymous.request(method, f"{route.path}{query}")
                assert answer.status_code == 401, (method, route.path, query)


def test_every_route_demands_a_user_who_may_see_plugins() -> None:
    for route in app.routes:
        assert isinstance(route, APIRoute)
        demanded = {dependency.call for dependency in route.dependant.dependencies}
        assert {dependency.dependency for dependency in access.SIGNED_IN} <= demanded


def test_a_user_sees_no_sync_that_is_not_his(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "syncs", lambda: ["settlement", "payroll"])
    assert "payroll" not in signed_in.get("/page").text
    for path in ("/page?sync=payroll", "/export.json?sync=payroll", "/export.csv?sync=payroll"):
        assert signed_in.get(path).status_code == 403
    assert signed_in.get("/page?dag_id=payroll__nightly&run_id=x").status_code == 403


def test_the_verdict_comes_before_the_numbers_and_these_before_the_detail(
    signed_in: TestClient, platform: results.Platform
) -> None:
    platform.found = [results.reconciliation(results.table("account", Verdict.BREAK), results.table("ledger_entry"))]
    text = signed_in.get("/page?sync=settlement").text
    places = [
        text.index(part) for part in ("BREAK", "0-7-100", "rows in the source", "Control totals", "Breaks of account")
    ]
    assert places == sorted(places)
    assert "1.0001" in text
    assert "signed in as viewer &lt;b&gt;" in text


def test_late_rows_of_the_date_before_stand_beside_the_verdict(
    signed_in: TestClient, platform: results.Platform
) -> None:
    late = SinceCut("ledger_entry", "2026-11-18", 2, rows_in_cut=10, rows_now=13)
    platform.found = [replace(results.clean(), evidence={DATE_BEFORE: date_before_to_json([late])})]
    assert "Late: ledger_entry of 2026-11-18: late rows: 3" in signed_in.get("/page?sync=settlement").text


def test_a_signature_stands_beside_the_verdict_and_acts_as_little_as_other_values(
    signed_in: TestClient, platform: results.Platform
) -> None:
    assert "signed by" not in signed_in.get("/page?sync=settlement").text
    platform.found = [replace(results.clean(), evidence={SIGNED_BY: "olga: <b>known</b>"})]
    assert "signed by olga: &lt;b&gt;known&lt;/b&gt;" in signed_in.get("/page?sync=settlement").text
    (exported,) = signed_in.get("/export.json?sync=settlement").json()
    assert exported["evidence"]["signed_by"] == "olga: <b>known</b>"


def test_the_overview_shows_verdict_and_lag(signed_in: TestClient, platform: results.Platform) -> None:
    text = signed_in.get("/page").text
    assert "settlement" in text
    assert "MATCH" in text
    assert "0.2" in text
    assert "2026-11-19" in text


def test_a_sync_without_a_report_says_not_run(signed_in: TestClient, platform: results.Platform) -> None:
    platform.found, platform.reports = [], {}
    assert "NOT_RUN" in signed_in.get("/page").text


def test_hostile_values_are_shown_and_never_act(signed_in: TestClient, platform: results.Platform) -> None:
    one = Break(HOSTILE, BreakType.VALUE, HOSTILE, {HOSTILE: HOSTILE}, {HOSTILE: None})
    platform.found = [
        results.reconciliation(
            results.table(HOSTILE, Verdict.BREAK, reason=HOSTILE, breaks=(one,), breaks_total=1),
            mode=HOSTILE,
            destination=HOSTILE,
        )
    ]
    platform.reports = {results.STREAM: results.report(error=HOSTILE, state=HOSTILE)}
    for path in ("/page", "/page?sync=settlement", f"/page?dag_id=settlement__nightly&run_id={HOSTILE}"):
        answer = signed_in.get(path)
        assert answer.status_code == 200
        assert "<script" not in answer.text
        assert "49" not in answer.text.replace("0-7-100", "")
        assert "&lt;script&gt;" in answer.text
    assert signed_in.get(f"/page?sync={HOSTILE}").status_code == 422
    assert signed_in.get(f"/page?dag_id={HOSTILE}").text.count("<script") == 0


def test_the_browser_is_told_to_load_and_run_nothing(signed_in: TestClient, anonymous: TestClient) -> None:
    for answer in (signed_in.get("/page"), signed_in.get("/style.css"), anonymous.get("/nowhere")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "script" not in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_the_page_of_a_run_shows_that_run_only(signed_in: TestClient, platform: results.Platform) -> None:
    other = results.reconciliation(results.table("account"), run_id="settlement/nightly/2026-11-18/manual__2")
    platform.found = [results.clean(), other]
    text = signed_in.get("/page", params={"dag_id": "settlement__nightly", "run_id": "manual__2"}).text
    assert "manual__2" in text
    assert "manual__1" not in text
    for kind in DAG_KINDS:
        other = signed_in.get("/page", params={"dag_id": f"settlement__{kind}", "run_id": "none"})
        assert "NOT_RUN" in other.text


def test_the_exports_hold_every_table_and_total(signed_in: TestClient, platform: results.Platform) -> None:
    (one,) = signed_in.get("/export.json?sync=settlement").json()
    assert one["verdict"] == "MATCH"
    assert one["tables"][1]["control_totals"][0]["source_sum"] == "0.0000"
    answer = signed_in.get("/export.csv?sync=settlement&business_date=2026-11-19")
    assert 'filename="reconciliation-settlement-2026-11-19.csv"' in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["table"] for row in rows] == ["account", "ledger_entry"]
    assert rows[1]["source_sum"] == "0.0000"
    assert signed_in.get("/export.json?sync=settlement&business_date=2026-11-01").json() == []


def test_the_csv_tells_how_many_rows_differ_and_who_signed(signed_in: TestClient, platform: results.Platform) -> None:
    broken = results.reconciliation(
        results.table("account", Verdict.BREAK, breaks_total=3), results.table("ledger_entry")
    )
    platform.found = [replace(broken, evidence={SIGNED_BY: "approver: late file"})]
    rows = list(csv.DictReader(io.StringIO(signed_in.get("/export.csv?sync=settlement").text)))
    assert [(row["table"], row["breaks"], row["signed_by"]) for row in rows] == [
        ("account", "3", "approver: late file"),
        ("ledger_entry", "0", "approver: late file"),
    ]


def test_a_value_in_the_export_is_never_a_formula(signed_in: TestClient, platform: results.Platform) -> None:
    platform.found = [results.reconciliation(results.table("account", Verdict.NOT_RUN, reason="=cmd()"))]
    rows = list(csv.DictReader(io.StringIO(signed_in.get("/export.csv?sync=settlement").text)))
    assert rows[0]["reason"] == "'=cmd()"


def test_a_table_left_out_for_a_reason_does_not_spoil_the_verdict() -> None:
    found = results.reconciliation(
        results.table("account", Verdict.NOT_RUN, reason="no history"), results.table("ledger_entry")
    )
    assert reports.overall(found) is Verdict.MATCH
    assert reports.overall(results.reconciliation(results.table("account", Verdict.NOT_RUN))) is Verdict.NOT_RUN
    assert reports.overall(results.reconciliation()) is Verdict.NOT_RUN


def test_a_cut_without_one_of_its_tables_is_called_partial(signed_in: TestClient, platform: results.Platform) -> None:
    whole = results.table("ledger_entry")
    platform.found = [results.reconciliation(whole)]
    assert ", partial" not in signed_in.get("/page").text
    platform.found = [results.reconciliation(results.table("account", Verdict.NOT_RUN, reason="no history"), whole)]
    assert ", partial" in signed_in.get("/page").text
    assert ", partial" in signed_in.get("/page?sync=settlement").text


def test_a_break_of_the_live_tables_makes_the_sync_a_break() -> None:
    live = results.reconciliation(
        results.table("account", Verdict.BREAK), scope=Scope.LIVE, started_at=datetime(2026, 11, 20, tzinfo=UTC)
    )
    assert reports.SyncReport("settlement", "enabled", (live, results.clean()), ()).verdict is Verdict.BREAK


def test_open_alarms_of_a_sync_stand_on_its_page(signed_in: TestClient, platform: results.Platform) -> None:
    platform.alarms = {("verdict_late", "settlement 2026-11-19"): "no verdict yet", ("x", "payroll@w"): "not his"}
    text = signed_in.get("/page?sync=settlement").text
    assert "no verdict yet" in text
    assert "not his" not in text
