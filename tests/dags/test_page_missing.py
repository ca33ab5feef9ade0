"""The page of a sync and REST have the business dates that have no published cut, and when the next night begins."""

from datetime import UTC, datetime

from fastapi.testclient import TestClient

from seamline.domain.runs import FAILURE, RunKind, RunState
from seamline.plan.model import NightlyPlan
from tests.dags import results
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in


def onboarded(platform: results.Platform) -> None:
    plan = results.plan(nightly=NightlyPlan(timezone="Asia/Shanghai", verdict_by="06:00"))
    platform.runs["first"] = results.run(
        run_id="first",
        kind=RunKind.ONBOARD,
        business_date=None,
        plan=plan,
        result={"publish": {"warehouse": "p"}},
        started_at=datetime(2026, 11, 18, 4, tzinfo=UTC),
    )


def test_a_date_that_failed_is_on_the_page_and_in_rest_with_its_cause_and_the_next_step(
    signed_in: TestClient, platform: results.Platform
) -> None:
    failed = {FAILURE: {"task": "cut", "error": "the source is <away>", "cure": "start it"}}
    platform.runs = {}
    onboarded(platform)
    platform.runs[results.RUN] = results.run(state=RunState.FAILED, result=failed)
    text = signed_in.get("/page?sync=settlement").text
    below = text.partition('<h2 id="missing">')[2]
    assert "task cut failed: the source is &lt;away&gt;" in below and "→ start it" in below
    assert "The next night begins at" in text
    (one,) = [
        one
        for one in signed_in.get("/api/v1/syncs/settlement/missing").json()
        if one["business_date"] == results.DATE.isoformat()
    ]
    assert (one["destination"], one["word"], one["is_late"]) == ("warehouse", "FAILED", True)
    assert one["due"] == "2026-11-20T06:30:00+08:00"
    assert signed_in.get("/api/v1/syncs/settlement/cuts").json() == []


def test_a_sync_without_nights_misses_no_date(signed_in: TestClient, platform: results.Platform) -> None:
    platform.runs = {results.RUN: results.run(plan=results.plan(nightly=None))}
    text = signed_in.get("/page?sync=settlement").text
    assert 'id="missing"' not in text and "next night" not in text
