"""What the page shows, as JSON: the same values, typed, behind the same login, as its description says."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from seamline.domain.break_id import break_id
from seamline.domain.decision import DECISION, Decision
from seamline.domain.errors import TransientError
from seamline.domain.runs import FAILURE, Scope
from seamline.domain.verdict import Verdict
from seamline_airflow.page import rest, rest_breaks
from tests.dags import results
from tests.dags.test_page import anonymous as anonymous
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in
from tests.dags.test_page_breaks import broken, value

OF_SYNC = "/api/v1/syncs/settlement"
OF_DAY = f"{OF_SYNC}/dates/{results.DATE}"


def answered(client: TestClient, path: str, **asked: Any) -> Any:
    answer = client.get(path, params=asked)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    return answer.json()


def test_the_committed_description_is_the_one_that_is_served(
    signed_in: TestClient, platform: results.Platform, checkout: Path
) -> None:
    """After a change: ./seamline exec python -m seamline_airflow.page.rest docs/reference/openapi.json"""
    committed = (checkout / "docs" / "reference" / "openapi.json").read_text(encoding="utf-8")
    assert signed_in.get("/api/v1/openapi.json").text == committed == rest.description()


def test_whoever_has_not_signed_in_gets_neither_rows_nor_a_login_page(
    anonymous: TestClient, platform: results.Platform
) -> None:
    for path in (f"{OF_SYNC}/breaks?run=x", "/api/v1/openapi.json", "/api/v1/syncs"):
        answer = anonymous.get(path, headers={"Accept": "text/html"}, follow_redirects=False)
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/json")
        assert list(answer.json()) == ["detail"]


def test_a_sync_that_is_not_his_and_one_that_nobody_knows_have_no_answer(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("", "/dates", f"/dates/{results.DATE}", "/comparisons", "/comparison?run=r", "/airflow_run?run_id=r"):
        assert signed_in.get(f"/api/v1/syncs/payroll{path}").status_code == 403
    for path in ("/breaks", f"/breaks/{'0' * 16}"):
        assert signed_in.get(f"/api/v1/syncs/payroll{path}").status_code == 403
    assert signed_in.get("/api/v1/syncs/a%20b").status_code == 422
    assert signed_in.get(f"{OF_SYNC}/breaks?run=x").status_code == 404
    assert signed_in.get(f"{OF_SYNC}/breaks/{'0' * 16}").status_code == 404
    assert signed_in.get("/api/v1/audit/head").status_code == 404, "the log is empty"
    assert [one["sync"] for one in answered(signed_in, "/api/v1/syncs")] == ["settlement"]


def test_a_platform_database_that_is_away_is_an_error_of_the_service(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise TransientError("the platform database does not answer")

    monkeypatch.setattr(platform.acts, "head", away)
    answer = signed_in.get("/api/v1/audit/head")
    assert (answer.status_code, answer.json()) == (503, {"detail": "the platform database does not answer"})


def test_a_sync_is_answered_with_its_streams_dates_and_live_tables(
    signed_in: TestClient, platform: results.Platform
) -> None:
    live = results.reconciliation(results.table("account", Verdict.BREAK), scope=Scope.LIVE, run_id="l")
    platform.found.append(live)
    platform.alarms = {("verdict_late", "settlement 2026-11-19"): "no verdict yet"}
    found = answered(signed_in, OF_SYNC)
    assert (found["sync"], found["timezone"], found["verdict"]) == ("settlement", "Asia/Shanghai", "BREAK")
    (stream, *_) = found["streams"]
    assert (stream["stream"], stream["lag_s"], stream["is_well"]) == ("settlement@warehouse", 0.2, True)
    assert found["alarms"] == ["verdict is late (settlement): no verdict yet"]
    (cut,) = answered(signed_in, f"{OF_SYNC}/dates")
    assert (cut["business_date"], cut["verdict"], cut["publication"]["version"]) == (str(results.DATE), "MATCH", 1)
    assert answered(signed_in, f"{OF_SYNC}/dates", before=results.DATE) == []
    (one,) = answered(signed_in, f"{OF_SYNC}/comparisons")
    assert (one["run"], one["scope"], one["verdict"], one["after_cut_of"]) == ("l", "live", "BREAK", str(results.DATE))
    (report,) = answered(signed_in, f"{OF_SYNC}/comparison", run="l")
    assert report["found"]["counts"] == [{"table": "account", "type": "value", "breaks": 1}]


def test_the_report_of_a_date_has_all_digits_of_its_sums_and_what_the_take_before_had(
    signed_in: TestClient, platform: results.Platform
) -> None:
    wide = replace(results.total(), source_sum=Decimal("-12345678901234567890.0001"), destination_sum=Decimal("1E+3"))
    second = f"{results.RUN}~2"
    platform.runs[second] = replace(results.published(), run_id=second)
    now = results.reconciliation(results.table("ledger_entry", Verdict.BREAK, totals=(wide,)), run_id=second)
    platform.found.append(now)
    found = answered(signed_in, OF_DAY)
    assert (found["chosen"], [one["run"] for one in found["takes"]]) == (second, [second, results.RUN])
    (take,) = found["shown"]
    (table,) = take["cut"]["tables"]
    (total,) = table["control_totals"]
    assert total["source_sum"] == "-12345678901234567890.0001"
    assert Decimal(total["difference"]) == Decimal("12345678901234568890.0001")
    (exposure,) = take["found"]["exposure"]
    assert (exposure["column"], exposure["net"]) == ("amount", "12345678901234568890.0001")
    assert (take["before"], take["breaks_new"], take["breaks_gone"]) == (results.RUN, 1, 0)
    assert "breaks" not in table, "they have a route of their own"
    (older,) = answered(signed_in, OF_DAY, run=results.RUN)["shown"]
    assert older["cut"]["run"] == results.RUN and older["before"] is None


def test_breaks_are_chosen_and_paged_until_the_last_one(signed_in: TestClient, platform: results.Platform) -> None:
    platform.found = [broken(*(value(f"key-{number}") for number in range(5)), value("other"))]
    asked: dict[str, Any] = {"business_date": results.DATE, "text": "key", "limit": 2}
    keys, after = [], ""
    while after is not None:
        page = answered(signed_in, f"{OF_SYNC}/breaks", after=after, **asked)
        keys += [one["key"] for one in page["breaks"]]
        after = page["next_after"]
    assert keys == [f"key-{number}" for number in range(5)]
    assert (page["run"], page["breaks_total"], page["counts"][0]["breaks"]) == (results.RUN, 9, 6)
    first = answered(signed_in, f"{OF_SYNC}/breaks", run=results.RUN)["breaks"][0]
    assert (first["source"], first["destination"]) == ({"balance": "1"}, {"balance": "2"})
    assert first["first_date"] == str(results.DATE)
    for wrong in ({"limit": 0}, {"limit": rest_breaks.BREAKS_MAX + 1}, {"kind": "odd"}, {"after": "1"}):
        assert signed_in.get(f"{OF_SYNC}/breaks", params={"run": results.RUN, **wrong}).status_code == 422, wrong


def test_the_history_of_a_break_says_where_it_stands(signed_in: TestClient, platform: results.Platform) -> None:
    earlier = broken(value("a"), run_id="before", business_date=date(2026, 11, 18))
    platform.found = [results.clean(), earlier]
    name = break_id("settlement", "warehouse", value("a"))
    found = answered(signed_in, f"{OF_SYNC}/breaks/{name}")
    assert (found["id"], found["first"], found["gone_by"]) == (name, "2026-11-18", str(results.DATE))
    ((sighting),) = found["sightings"]
    assert (sighting["run"], sighting["found"]["id"], sighting["found"]["key"]) == ("before", name, "a")


def test_the_overview_has_what_waits_and_the_cells_of_each_date(
    signed_in: TestClient, platform: results.Platform
) -> None:
    asked = Decision.asked(("ann",)).to_json()
    platform.runs = {results.RUN: results.run(result={DECISION: asked})}
    platform.found = [broken(value("a"))]
    found = answered(signed_in, "/api/v1/overview")
    (row,) = found["rows"]
    assert found["dates"] == [str(results.DATE)]
    assert row["cells"] == [
        {"business_date": str(results.DATE), "verdict": "BREAK", "breaks": 9, "partial": False, "waits": True}
    ]
    (waiting,) = found["waiting"]
    assert (waiting["run"], waiting["approvers"]) == (results.RUN, ["ann"])


def test_what_a_run_of_airflow_left_is_answered_with_its_failure(
    signed_in: TestClient, platform: results.Platform
) -> None:
    at = datetime(2026, 11, 20, 1, tzinfo=UTC)
    gone = {"task": "compare", "error": "the driver was lost", "cure": "start it", "at": at.isoformat()}
    platform.runs[results.RUN] = results.published(**{FAILURE: gone})
    found = answered(signed_in, f"{OF_SYNC}/airflow_run", run_id="manual__1")
    assert [(one["task"], one["error"], one["cure"]) for one in found["failures"]] == [
        ("compare", "the driver was lost", "start it")
    ]
    assert [one["cut"]["run"] for one in found["cuts"]] == [results.RUN]


def test_the_head_of_the_log_is_answered_as_an_anchor_names_it(
    signed_in: TestClient, platform: results.Platform
) -> None:
    signed_in.get("/export.csv", params={"sync": "settlement"})
    (entry,) = platform.acts.entries
    assert answered(signed_in, "/api/v1/audit/head") == {"number": 1, "hash": entry.hash}
