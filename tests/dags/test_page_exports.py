"""Reports that the page hands out as files: for whoever may see the sync, with what the page shows."""

import csv
import io
import json
import zipfile
from dataclasses import replace
from datetime import date

import pytest
from fastapi.testclient import TestClient

from seamline.domain.break_id import break_id
from seamline.domain.cut_state import Headline
from seamline.domain.runs import Scope
from seamline.domain.verdict import Verdict
from seamline.report import files
from seamline.report.blocks import Report
from seamline_airflow.page import app as page_module
from seamline_airflow.page import reports
from tests.dags import results
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in

OF_DAY = f"sync=settlement&business_date={results.DATE}"
KINDS = ("json", "csv", "xlsx", "pdf")


def texts_of(workbook: bytes) -> str:
    with zipfile.ZipFile(io.BytesIO(workbook)) as book:
        return book.read("xl/sharedStrings.xml").decode()


def test_a_user_gets_no_file_of_a_sync_that_is_not_his(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "syncs", lambda: ["settlement", "payroll"])
    for kind in KINDS:
        assert signed_in.get(f"/export.{kind}?sync=payroll&business_date={results.DATE}").status_code == 403
        assert signed_in.get(f"/export.{kind}?sync=<b>&business_date={results.DATE}").status_code == 422


def test_a_sync_that_nobody_declares_has_no_file(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "syncs", list)
    for kind in KINDS:
        assert signed_in.get(f"/export.{kind}?{OF_DAY}").status_code == 404


def test_each_file_is_kept_by_no_cache_opened_by_no_browser_and_named_for_its_date(
    signed_in: TestClient, platform: results.Platform
) -> None:
    for kind in KINDS:
        answer = signed_in.get(f"/export.{kind}?{OF_DAY}")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        name = f'attachment; filename="reconciliation-settlement-{results.DATE}.{kind}"'
        assert answer.headers["content-disposition"] == name


def test_workbook_and_pdf_hold_the_break_of_the_date(signed_in: TestClient, platform: results.Platform) -> None:
    broken = results.table("account", Verdict.BREAK)
    platform.found = [results.reconciliation(broken)]
    workbook = texts_of(signed_in.get(f"/export.xlsx?{OF_DAY}").content)
    for expected in ("BREAK", f"settlement, {results.DATE}", "1.0001", "exactly_once", "Breaks by kind"):
        assert expected in workbook
    assert break_id("settlement", "warehouse", broken.breaks[0]) in workbook
    answer = signed_in.get(f"/export.pdf?{OF_DAY}")
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.content.startswith(b"%PDF-")


def test_the_csv_of_the_page_has_the_rows_that_differ(signed_in: TestClient, platform: results.Platform) -> None:
    platform.found = [results.reconciliation(results.table("account", Verdict.BREAK))]
    rows = list(csv.DictReader(io.StringIO(signed_in.get(f"/export.csv?{OF_DAY}").text)))
    (row,) = [row for row in rows if row["row_kind"] == "break"]
    assert (row["column"], row["source_value"], row["destination_value"]) == ("balance", "1.0000", "1.0001")
    assert row["difference"] == "0.0001"


def test_the_workbook_of_a_date_lists_all_its_takes_and_is_about_one_where_a_run_is_named(
    signed_in: TestClient, platform: results.Platform
) -> None:
    second = f"{results.RUN}~2"
    platform.found = [replace(results.clean(), run_id=second), results.clean()]
    platform.runs[second] = replace(results.published(), run_id=second)
    workbook = texts_of(signed_in.get(f"/export.xlsx?{OF_DAY}&run={second}").content)
    assert "Report: 1<" in workbook and "Versions: 2<" in workbook


def test_the_workbook_of_a_sync_holds_its_dates_and_its_live_tables(
    signed_in: TestClient, platform: results.Platform
) -> None:
    older = "settlement/nightly/2026-11-18/manual__1"
    platform.runs[older] = replace(results.published(), run_id=older, business_date=date(2026, 11, 18))
    platform.found.append(results.reconciliation(results.table("account"), scope=Scope.LIVE, run_id="l"))
    workbook = texts_of(signed_in.get("/export.xlsx?sync=settlement").content)
    assert "Report: 3<" in workbook and "live tables" in workbook


def test_the_files_of_a_comparison_of_live_tables_hold_it_however_many_there_were_since(
    signed_in: TestClient, platform: results.Platform
) -> None:
    """Behind the 20 newest ones a file said NOT_RUN, of what its page shows as a BREAK."""
    newer = [results.reconciliation(results.table("account"), scope=Scope.LIVE, run_id=f"l{n}") for n in range(25)]
    broken = results.table("account", Verdict.BREAK)
    platform.found = [*newer, results.reconciliation(broken, scope=Scope.LIVE, run_id="oldest")]
    of_run = {"sync": "settlement", "run": "oldest"}
    (document,) = json.loads(signed_in.get("/export.json", params=of_run).text)
    assert (document["run"], document["verdict"]) == ("oldest", "BREAK")
    text = signed_in.get("/export.csv", params=of_run).text
    assert ",BREAK," in text and "NOT_RUN" not in text


def test_a_pdf_is_of_one_date_or_of_one_run(signed_in: TestClient, platform: results.Platform) -> None:
    assert signed_in.get("/export.pdf?sync=settlement").status_code == 422
    platform.found.append(results.reconciliation(results.table("account"), scope=Scope.LIVE, run_id="l"))
    assert signed_in.get("/export.pdf?sync=settlement&run=l").content.startswith(b"%PDF-")


def test_the_report_of_a_date_makes_the_next_pdf_ready_once_it_is_shown(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer of PDF takes a second to import, on a busy machine many; nobody waits for it."""
    ready: list[bytes] = []
    monkeypatch.setattr(page_module, "prepare", lambda: ready.append(files.to_pdf(Report("", Headline.MATCH, ()))))
    for address in ("/page", "/page?sync=settlement"):
        assert signed_in.get(address).status_code == 200 and not ready
    assert signed_in.get(f"/page?sync=settlement&business_date={results.DATE}").status_code == 200
    assert [one[:4] for one in ready] == [b"%PDF"]
