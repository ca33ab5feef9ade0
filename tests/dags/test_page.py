"""The Reconciliation page: behind the login, verdict first, and nothing in the data can act in it."""

import csv
import html
import io
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from seamline.domain.date_before import DATE_BEFORE, SinceCut, date_before_to_json
from seamline.domain.decision import Decision, DecisionState
from seamline.domain.ledger import StreamId
from seamline.domain.level import level_evidence
from seamline.domain.runs import RunKind, RunState, Scope
from seamline.domain.self_test import SELF_TEST, SelfTest, self_test_to_json
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.plan.stages import DAG_KINDS
from seamline.spec import levels
from seamline_airflow.page import access, acting, reports
from seamline_airflow.page.app import app
from seamline_airflow.page.mount import URL_PREFIX
from tests.dags import results
from tests.dags.page_texts import flowing

HOSTILE = "<script>alert('x')</script>\"'&{{7*7}}"
# What its end would be where a template works out what stands in the data. Moments and tokens may hold the digits too.
WORKED_OUT = re.compile(r"(&|&amp;|%26)49")


class _User:
    def get_id(self) -> str:
        return "viewer"

    def get_name(self) -> str:
        return "viewer <b>"


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    made.found = [results.clean()]
    made.runs = {results.RUN: results.published()}
    made.reports = {results.STREAM: results.report(epoch=3)}
    made.wanted_streams = (results.WANTED,)
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
    monkeypatch.setattr(acting, "is_trusted", lambda _user, _sync: False)
    monkeypatch.setattr(acting, "may_work", lambda _user, sync: False)
    monkeypatch.setattr(acting, "may_sign", lambda _user, sync: False)
    yield TestClient(app)
    app.dependency_overrides.clear()


def _routes() -> list[str]:
    return [route.path for route in app.routes]


def test_every_route_refuses_an_anonymous_caller(anonymous: TestClient, platform: results.Platform) -> None:
    assert _routes()
    for route in app.routes:
        assert isinstance(route, APIRoute)
        for method in route.methods:
            for query in (
                "",
                "?sync=settlement",
                f"?sync=settlement&id={'0' * 16}",
                "?dag_id=settlement__nightly&run_id=x",
            ):
                answer = anonymous.request(method, f"{route.path}{query}")
                assert answer.status_code == 401, (method, route.path, query)


def test_a_browser_without_a_login_is_led_to_it_and_back_to_what_was_asked(platform: results.Platform) -> None:
    airflow = FastAPI(root_path="/below")
    airflow.mount(URL_PREFIX, app)
    anybody = TestClient(
        airflow, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}, follow_redirects=False
    )
    answer = anybody.get("/below/seamline/page?sync=settlement&run=a%26b")
    assert answer.status_code == 307
    address = urlsplit(answer.headers["location"])
    assert (address.netloc, address.path) == ("", "/below/api/v2/auth/login")
    assert parse_qs(address.query) == {"next": ["/below/seamline/page?sync=settlement&run=a%26b"]}


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


def date_page(client: TestClient) -> str:
    answer = client.get(f"/page?sync=settlement&business_date={results.DATE}")
    assert answer.status_code == 200
    return answer.text


def test_the_verdict_comes_before_the_numbers_and_these_before_the_detail(
    signed_in: TestClient, platform: results.Platform
) -> None:
    platform.found = [results.reconciliation(results.table("account", Verdict.BREAK), results.table("ledger_entry"))]
    text = date_page(signed_in)
    places = [
        text.index(part) for part in ("BREAK", "rows in the source", "Control totals", "Breaks of account", "0-7-100")
    ]
    assert places == sorted(places)
    assert "1.000<mark>1</mark>" in text
    assert "signed in as viewer &lt;b&gt;" in text


def test_the_report_of_a_date_says_the_level_of_its_destination(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = f"/export.json?sync=settlement&business_date={results.DATE}"
    for kinds, level in (
        ({"warehouse": "postgres"}, "one commit moves all tables of the sync and the ledger"),
        ({"warehouse": "delta"}, "each table exactly once; all tables at one position by the ledger&#39;s versions"),
        ({}, None),
    ):
        monkeypatch.setattr(levels, "declared_kinds", lambda *_, kinds=kinds: kinds)
        (one,) = signed_in.get(exported).json()
        assert one["level"] == (level and html.unescape(level))
        text = date_page(signed_in)
        assert (f"level of warehouse: {level}" in text) == bool(level)
        assert bool(level) == ("level of warehouse" in text)


def test_the_report_of_a_date_says_whether_its_run_shows_the_level(
    signed_in: TestClient, platform: results.Platform
) -> None:
    for verdict, said in ((Verdict.MATCH, "yes"), (Verdict.BREAK, "no")):
        found = replace(results.clean(), tables=(TableVerdict("account", verdict),), verdict=verdict)
        kept = level_evidence(found, "as it was then", guarantee="exactly_once")
        platform.found = [replace(found, evidence=kept)]
        assert f"level of warehouse: as it was then; this run shows it: {said}</li>" in date_page(signed_in)


def test_late_rows_of_the_date_before_and_the_self_test_stand_beside_the_verdict(
    signed_in: TestClient, platform: results.Platform
) -> None:
    late = SinceCut("ledger_entry", "2026-11-18", 2, rows_in_cut=10, rows_now=13)
    tested = self_test_to_json(SelfTest("8f3a", planted=1, tables=1, kinds=("row missing",), missed=("<b> row",)))
    evidence = {DATE_BEFORE: date_before_to_json([late]), SELF_TEST: tested}
    platform.found = [replace(results.clean(), evidence=evidence)]
    page = date_page(signed_in)
    assert "Late: ledger_entry of 2026-11-18: late rows: 3" in flowing(page)
    assert "Self-test: 0 of 1 planted breaks found, 0 others; 1 kind in 1 table, seed 8f3a" in page
    assert "Self-test: not found: &lt;b&gt; row" in page


NEGATIVE = {
    "verdict": "BREAK",
    "checked": 9,
    "failed": [
        {"on": "warehouse: payment", "type": "x", "why": "no payment is negative", "detail": "1", "rows": 1,
         "keys": ['["77"]']}
    ],
}  # fmt: skip
APPROVED = Decision(
    DecisionState.APPROVED, "", who="olga", reason="<b>known</b>", at="2026-11-20T01:00:00+00:00"
).to_json()


def test_a_cut_that_failed_a_business_rule_says_match_nowhere(
    signed_in: TestClient, platform: results.Platform
) -> None:
    waiting = Decision(DecisionState.WAITING, "2026-11-20T00:00:00+00:00", ("head of settlement",)).to_json()
    full = {"task": "publish", "error": "the disk is full", "cure": "make room", "at": "2026-11-20T01:00:00+00:00"}
    waits = replace(results.run(), result={"expectations": NEGATIVE, "decision": waiting}, business_date=results.DATE)
    failed = replace(waits, result={"expectations": NEGATIVE, "decision": APPROVED, "failure": full})
    signed = results.published(expectations=NEGATIVE, decision=APPROVED)
    for run, said in (
        (waits, "waits for head of settlement"),
        (failed, "the disk is full"),
        (signed, "signed by olga"),
    ):
        platform.runs = {results.RUN: run}
        (one,) = signed_in.get(f"/export.json?sync=settlement&business_date={results.DATE}").json()
        (row, *_) = csv.DictReader(io.StringIO(signed_in.get("/export.csv?sync=settlement").text))
        assert one["verdict"] == row["verdict"] == "CHECKS FAILED"
        assert one["compared"] == row["compared"] == "MATCH"
        assert one["checks"]["failed"][0]["keys"] == ['["77"]']
        for text in (signed_in.get("/page").text, signed_in.get("/page?sync=settlement").text):
            assert "CHECKS FAILED" in text
            assert "✓</span> MATCH" not in text
        text = date_page(signed_in)
        assert said in text
        assert "no payment is negative, 1 row, for example [&#34;77&#34;]" in text
        assert text.index("CHECKS FAILED") < text.index("✓</span> MATCH")


def test_a_signature_stands_beside_the_verdict_and_acts_as_little_as_other_values(
    signed_in: TestClient, platform: results.Platform
) -> None:
    assert "signed by" not in date_page(signed_in)
    platform.runs = {results.RUN: results.published(expectations=NEGATIVE, decision=APPROVED)}
    assert "signed by olga at 2026-11-20 09:00:00 +08:00: &lt;b&gt;known&lt;/b&gt;" in flowing(date_page(signed_in))
    (exported, *_) = signed_in.get("/export.json?sync=settlement").json()
    assert (exported["decision"]["who"], exported["decision"]["reason"]) == ("olga", "<b>known</b>")


def test_the_overview_shows_verdict_and_lag(signed_in: TestClient, platform: results.Platform) -> None:
    text = signed_in.get("/page").text
    assert "settlement" in text
    assert "✓</span> MATCH" in text
    assert "0.2" in text
    assert "2026-11-19" in text


def test_every_verdict_row_leads_to_its_report_and_from_there_to_run_log_takes_and_back(
    signed_in: TestClient, platform: results.Platform
) -> None:
    live = results.reconciliation(
        results.table("account"), scope=Scope.LIVE, run_id="settlement/reconcile/2026-11-19/scheduled__9"
    )
    second = f"{results.RUN}~2"
    platform.found = [results.clean(), replace(results.clean(), run_id=second), live]
    platform.runs = {results.RUN: results.published(), second: replace(results.published(), run_id=second)}
    for path in ("/page", "/page?sync=settlement"):
        text = signed_in.get(path).text
        links = set(re.findall(r'<a href="(page[?][^"]+)"[^>]*><span class="verdict', text))
        assert len(links) == 2
        for link in links:
            report = signed_in.get(f"/{html.unescape(link)}").text
            assert "rows in the source" in report
            assert 'href="page?sync=settlement"' in report
    text = date_page(signed_in)
    assert f"run={quote(results.RUN, safe='/')}" in text
    assert 'href="../dags/settlement__nightly/runs/manual__1"' in text
    assert 'href="../dags/settlement__nightly/runs/manual__1/tasks/cut"' in text
    assert "run=settlement/reconcile/2026-11-19/scheduled__9" in text


def test_in_airflow_s_frame_the_addresses_of_run_and_log_are_shown_since_no_link_leads_out_of_it(
    signed_in: TestClient, platform: results.Platform
) -> None:
    run, log = "dags/settlement__nightly/runs/manual__1", "dags/settlement__nightly/runs/manual__1/tasks/cut"
    of_date = f"/page?sync=settlement&business_date={results.DATE}"
    of_run = "/page?dag_id=settlement__nightly&run_id=manual__1"
    for path, where, is_framed in (
        (of_date, {"Sec-Fetch-Dest": "iframe"}, True),
        (of_date, {"Sec-Fetch-Dest": "document"}, False),
        (of_date, {}, False),
        (of_run, {"Sec-Fetch-Dest": "document"}, False),
        (of_run, {}, True),
    ):
        text = signed_in.get(path, headers=where).text
        for place in (run, log):
            assert (f'href="../{place}"' in text, f"<code>http://testserver/{place}</code>" in text) == (
                not is_framed,
                is_framed,
            )


def test_the_page_in_airflow_s_menu_opens_outside_of_the_frame_and_that_of_a_run_in_its_tab() -> None:
    from seamline_plugin import SeamlinePlugin

    views = {view["destination"]: view for view in SeamlinePlugin.external_views}
    assert "url_route" not in views["nav"]
    inside = [views[name] for name in ("dag_run", "task_instance", "dag")]
    assert len({view["url_route"] for view in inside}) == 3
    assert all("dag_id={DAG_ID}" in view["href"] for view in inside)


def test_the_tab_of_a_dag_shows_its_sync_and_that_of_its_runs_and_tasks_what_they_left(
    signed_in: TestClient, platform: results.Platform
) -> None:
    of_dag, of_run = (signed_in.get(f"/page?dag_id=settlement__nightly{run}").text for run in ("", "&run_id=manual__1"))
    assert "Business dates" in of_dag and "· this run" not in of_dag
    assert "· this run" in of_run and "Business dates" not in of_run
    assert "is not a DAG of a sync" in signed_in.get("/page?dag_id=something_else").text


def test_a_comparison_of_live_tables_is_about_its_moment_and_never_reddens_a_date(
    signed_in: TestClient, platform: results.Platform
) -> None:
    live = results.reconciliation(
        results.table("account", Verdict.BREAK),
        scope=Scope.LIVE,
        run_id="settlement/reconcile/2026-11-19/scheduled__9",
    )
    platform.found = [results.clean(), live]
    cut, compared = signed_in.get("/export.json?sync=settlement").json()
    assert (cut["business_date"], cut["verdict"]) == ("2026-11-19", "MATCH")
    assert (compared["business_date"], compared["after_cut_of"], compared["verdict"]) == (None, "2026-11-19", "BREAK")
    assert [one["scope"] for one in signed_in.get("/export.json?sync=settlement&business_date=2026-11-19").json()] == [
        "cut"
    ]
    text = date_page(signed_in)
    assert text.index("✓</span> MATCH") < text.index("compared after a cut of this date") < text.index("BREAK")


def test_a_run_that_failed_before_it_compared_says_why_and_what_to_do(
    signed_in: TestClient, platform: results.Platform
) -> None:
    gone = {"task": "cut", "error": "the source does not answer", "cure": "start it", "at": "2026-11-20T01:00:00+00:00"}
    platform.found = []
    platform.runs = {results.RUN: results.run(state=RunState.FAILED, result={"failure": gone})}
    for path in (
        f"/page?sync=settlement&business_date={results.DATE}",
        "/page?dag_id=settlement__nightly&run_id=manual__1",
    ):
        text = signed_in.get(path).text
        assert "NOT_RUN" in text
        assert "the source does not answer" in text
        assert "start it" in text
    (one,) = signed_in.get("/export.json?sync=settlement").json()
    assert (one["verdict"], one["failure"]["cure"], one["tables"]) == ("NOT_RUN", "start it", [])
    (row,) = csv.DictReader(io.StringIO(signed_in.get("/export.csv?sync=settlement").text))
    assert (row["verdict"], row["business_date"], row["table"]) == ("NOT_RUN", "2026-11-19", "")


def test_older_dates_are_pages_away_and_not_lost(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "DATES_PER_PAGE", 2)
    days = [date(2026, 11, day) for day in (16, 17, 18, 19)]
    names = {day: f"settlement/nightly/{day}/manual__1" for day in days}
    platform.runs = {name: replace(results.published(), run_id=name, business_date=day) for day, name in names.items()}
    first = signed_in.get("/page?sync=settlement").text
    assert "2026-11-19" in first and "2026-11-18" in first and "2026-11-17" not in first
    link = html.unescape(re.search(r'href="([^"]+)">earlier dates', first).group(1))  # type: ignore[union-attr]
    second = signed_in.get(f"/{link}").text
    assert "2026-11-17" in second and "2026-11-16" in second and ">2026-11-19<" not in second


def test_the_verdict_of_a_sync_is_that_of_now_on_the_pages_of_older_dates_too(
    signed_in: TestClient, platform: results.Platform
) -> None:
    older, newest = date(2026, 11, 18), results.DATE
    names = {day: f"settlement/nightly/{day}/manual__1" for day in (older, newest)}
    platform.runs = {name: replace(results.published(), run_id=name, business_date=day) for day, name in names.items()}
    broken = results.reconciliation(results.table("account", Verdict.BREAK), run_id=names[newest])
    platform.found = [broken, replace(results.clean(), run_id=names[older])]
    text = signed_in.get(f"/page?sync=settlement&before={newest}").text
    assert "2026-11-18" in text and ">2026-11-19<" not in text
    assert 'class="verdict BREAK big"' in text


def test_older_comparisons_of_the_live_tables_are_pages_away_and_found_by_their_date(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "LIVE_SHOWN", 1)
    platform.found = [
        results.reconciliation(
            results.table("account", verdict),
            scope=Scope.LIVE,
            run_id=f"settlement/reconcile/2026-11-{day}/of_{day}",
            business_date=date(2026, 11, day),
            started_at=datetime(2026, 11, day, 20, tzinfo=UTC),
        )
        for day, verdict in ((19, Verdict.BREAK), (18, Verdict.MATCH), (17, Verdict.MATCH))
    ]
    path = "/page?sync=settlement"
    for day in (19, 18, 17):
        text = signed_in.get(path).text
        assert set(re.findall(r"/of_(\d+)", text)) == {str(day)}
        assert 'class="verdict BREAK big"' in text, "whichever page it is, the sync is what it is now"
        link = re.search(r'href="([^"]+)">earlier comparisons', text)
        path = f"/{html.unescape(link.group(1))}"  # type: ignore[union-attr]
    assert "They were not compared earlier" in signed_in.get(path).text
    # Also where the run itself is gone.
    assert "/of_17" in signed_in.get("/page?sync=settlement&business_date=2026-11-17").text
    assert "live tables</strong>" in signed_in.get("/page?dag_id=settlement__reconcile&run_id=of_17").text


def test_a_sync_without_a_report_says_not_run(signed_in: TestClient, platform: results.Platform) -> None:
    platform.found, platform.runs, platform.reports = [], {}, {}
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
    for path in (
        "/page",
        "/page?sync=settlement",
        f"/page?sync=settlement&business_date={results.DATE}",
        "/page?dag_id=settlement__nightly&run_id=manual__1",
        f"/page?dag_id=settlement__nightly&run_id={HOSTILE}",
    ):
        answer = signed_in.get(path)
        assert answer.status_code == 200
        assert "<script" not in answer.text
        assert not WORKED_OUT.search(answer.text)
        assert "&lt;script&gt;" in answer.text
    assert signed_in.get(f"/page?sync={HOSTILE}").status_code == 422
    assert signed_in.get(f"/page?dag_id={HOSTILE}").text.count("<script") == 0


def test_the_browser_is_asked_to_load_and_run_nothing(signed_in: TestClient, anonymous: TestClient) -> None:
    for answer in (signed_in.get("/page"), signed_in.get("/style.css"), anonymous.get("/nowhere")):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "script" not in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_the_page_of_a_run_shows_that_run_only(signed_in: TestClient, platform: results.Platform) -> None:
    other = "settlement/nightly/2026-11-18/manual__2"
    platform.runs[other] = replace(results.published(), run_id=other, business_date=date(2026, 11, 18))
    platform.found = [results.clean(), results.reconciliation(results.table("account"), run_id=other)]
    text = signed_in.get("/page", params={"dag_id": "settlement__nightly", "run_id": "manual__2"}).text
    assert "manual__2" in text
    assert "manual__1" not in text
    for kind in DAG_KINDS:
        none = signed_in.get("/page", params={"dag_id": f"settlement__{kind}", "run_id": "none"})
        assert "NOT_RUN" in none.text


def test_the_exports_hold_every_table_and_total(signed_in: TestClient, platform: results.Platform) -> None:
    (one,) = signed_in.get("/export.json?sync=settlement").json()
    assert one["verdict"] == "MATCH"
    assert one["publication"]["version"] == 1
    assert one["tables"][1]["control_totals"][0]["source_sum"] == "0.0000"
    answer = signed_in.get("/export.csv?sync=settlement&business_date=2026-11-19")
    assert 'filename="reconciliation-settlement-2026-11-19.csv"' in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["table"] for row in rows] == ["account", "ledger_entry"]
    assert rows[1]["source_sum"] == "0.0000"
    assert rows[0]["version"] == "1"
    assert signed_in.get("/export.json?sync=settlement&business_date=2026-11-01").json() == []


def test_the_csv_shows_how_many_rows_differ_and_who_signed(signed_in: TestClient, platform: results.Platform) -> None:
    platform.found = [
        results.reconciliation(results.table("account", Verdict.BREAK, breaks_total=3), results.table("ledger_entry"))
    ]
    platform.runs = {results.RUN: results.published(decision={**APPROVED, "reason": "late file"})}
    rows = list(csv.DictReader(io.StringIO(signed_in.get("/export.csv?sync=settlement").text)))
    assert [(row["verdict"], row["table"], row["breaks"], row["signed_by"]) for row in rows[:2]] == [
        ("BREAK", "account", "3", "olga: late file"),
        ("BREAK", "ledger_entry", "0", "olga: late file"),
    ]


def test_a_value_in_the_export_is_never_a_formula(signed_in: TestClient, platform: results.Platform) -> None:
    platform.found = [results.reconciliation(results.table("account", Verdict.NOT_RUN, reason="=cmd()"))]
    rows = list(csv.DictReader(io.StringIO(signed_in.get("/export.csv?sync=settlement").text)))
    assert rows[0]["reason"] == "'=cmd()"


def test_a_cut_without_one_of_its_tables_is_called_partial(signed_in: TestClient, platform: results.Platform) -> None:
    whole = results.table("ledger_entry")
    pages = ("/page", "/page?sync=settlement", f"/page?sync=settlement&business_date={results.DATE}")
    platform.found = [results.reconciliation(whole)]
    assert all("PARTIAL" not in signed_in.get(path).text for path in pages)
    platform.found = [results.reconciliation(results.table("account", Verdict.NOT_RUN, reason="no history"), whole)]
    assert all("◐</span> PARTIAL" in signed_in.get(path).text for path in pages)
    (one,) = signed_in.get("/export.json?sync=settlement").json()
    assert (one["verdict"], one["compared"], one["partial"]) == ("PARTIAL", "MATCH", True)


def test_a_break_of_the_live_tables_makes_the_sync_a_break(platform: results.Platform) -> None:
    assert reports.read_sync("settlement").headline == "MATCH"
    platform.found.append(results.reconciliation(results.table("account", Verdict.BREAK), scope=Scope.LIVE))
    assert reports.read_sync("settlement").headline == "BREAK"


def test_a_comparison_of_live_tables_that_failed_is_shown_above_the_match_before_it(
    signed_in: TestClient, platform: results.Platform
) -> None:
    """Airflow was red every day, and the page went on with the MATCH of last month."""
    name = "settlement/reconcile/-/scheduled__9"
    gone = {"task": "compare", "error": "the driver was lost", "cure": "start it", "at": "2026-11-20T01:00:00+00:00"}
    platform.found.append(results.reconciliation(results.table("account"), scope=Scope.LIVE, run_id="before"))
    started = datetime(2026, 11, 20, tzinfo=UTC)
    platform.runs[name] = results.run(
        run_id=name, kind=RunKind.RECONCILE, state=RunState.FAILED, result={"failure": gone}, started_at=started
    )
    assert reports.read_sync("settlement").headline == "NOT_RUN"
    assert f"run={name}" in signed_in.get("/page?sync=settlement").text
    text = signed_in.get(f"/page?sync=settlement&run={name}").text
    assert "the driver was lost" in text and "start it" in text
    _, failed, before = signed_in.get("/export.json?sync=settlement").json()
    assert (failed["verdict"], failed["evidence"]["failure"], before["verdict"]) == ("NOT_RUN", gone, "MATCH")
    rows = list(csv.DictReader(io.StringIO(signed_in.get("/export.csv?sync=settlement").text)))
    assert [(row["verdict"], row["run"]) for row in rows if row["scope"] == "live"] == [
        ("NOT_RUN", name),
        ("MATCH", "before"),
    ]


def test_a_sync_that_nobody_knows_is_no_sync_without_a_verdict(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.state, platform.found, platform.runs = None, [], {}
    assert "NOT_RUN" in signed_in.get("/page?sync=settlement").text, "it is declared"
    monkeypatch.setattr(reports, "syncs", list)
    found = signed_in.get("/page?sync=settlement")
    assert found.status_code == 404
    assert "There is no sync settlement." in found.text and "NOT_RUN" not in found.text


def test_a_table_that_was_left_out_for_a_reason_bears_no_cross(
    signed_in: TestClient, platform: results.Platform
) -> None:
    left_out = replace(results.table("audit", Verdict.NOT_RUN), reason="parked: not needed")
    platform.found = [replace(results.clean(), tables=(results.table("account"), left_out))]
    row = next(row for row in date_page(signed_in).split("<tr>") if "<td>audit</td>" in row)
    assert "–</span> NOT_RUN" in row and '<td class="n">–</td>' in row and "✗" not in row


def test_destinations_stand_in_the_order_of_the_declaration_on_every_page(
    signed_in: TestClient, platform: results.Platform
) -> None:
    """Verdicts of live tables stood by their time, so the order was another one above than below."""
    made = results.reconciliation(results.table("account"), scope=Scope.LIVE, run_id="settlement/reconcile/-/manual__1")
    platform.found = [replace(made, destination=name) for name in ("archive", "warehouse")]
    platform.reports = {one: results.report(stream=one) for one in (StreamId("settlement", "archive"), results.STREAM)}
    platform.runs = {}
    for path in (
        "",
        "?sync=settlement",
        f"?sync=settlement&run={made.run_id}",
        f"?{OF_RUN}",
        f"?sync=settlement&{OF_DAY}",
    ):
        text = signed_in.get(f"/page{path}").text
        names = re.findall(r"(?:settlement@|in |<td>)(warehouse|archive)\b", text)
        assert names in (["warehouse", "archive"], ["warehouse", "archive"] * 2), path


OF_RUN, OF_DAY = "dag_id=settlement__reconcile&run_id=manual__1", f"business_date={results.DATE}"


def test_what_goes_on_and_what_waits_for_its_first_load_stand_on_the_page(
    signed_in: TestClient, platform: results.Platform
) -> None:
    platform.runs = {
        "o": results.run(run_id="o", kind=RunKind.ONBOARD, result={"publish": {"warehouse": "p"}}),
        "t": results.run(run_id="t", kind=RunKind.TABLES, result={}),
    }
    for path in ("/page", "/page?sync=settlement"):
        text = signed_in.get(path).text
        assert "RUNNING</span> change of the tables in warehouse" in text
        assert "NOT_RUN</span> settlement → archive, not onboarded yet; run settlement__onboard" in text


def test_open_alarms_of_a_sync_stand_on_its_page(signed_in: TestClient, platform: results.Platform) -> None:
    platform.alarms = {("verdict_late", "settlement 2026-11-19"): "no verdict yet", ("x", "payroll@w"): "not his"}
    for path in ("/page", "/page?sync=settlement"):
        text = signed_in.get(path).text
        assert "no verdict yet" in text
        assert "not his" not in text
        assert "✗</span> ALARM" in text, "`status` ends with 1"


def test_an_alarm_about_what_a_sync_needs_stands_on_its_page_until_it_is_over(
    signed_in: TestClient, platform: results.Platform
) -> None:
    for kind, subject, stands in (
        ("log_size", "core_bank", True),
        ("code_differs", "default", True),
        ("log_size", "another", False),
        # Whoever looks next at the streams ends it.
        ("stream_late", str(results.STREAM), False),
    ):
        platform.alarms = {(kind, subject): "what is wrong"}
        text = signed_in.get("/page?sync=settlement").text
        assert ("what is wrong" in text, "ALARM" in text) == (stands, stands), subject
