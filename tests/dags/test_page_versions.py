"""What stands beside a signature on the page of a date: the numbers that it binds, and no other ones; and what is said
where the stored verdict is not the recorded one. In memory; `test_page_signing` has the same on a real database."""

import csv
import io
import json
import re
from contextlib import nullcontext
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from fastapi.testclient import TestClient

from seamline.domain.level import level_evidence
from seamline.domain.recorded import Recorded
from seamline.domain.runs import RunState, Scope
from seamline.domain.sign_off import SignOff
from seamline.domain.verdict import Break, BreakType, Verdict
from seamline_airflow import parts
from seamline_airflow.page import acting, exports
from tests.dags import results
from tests.dags.test_page import date_page
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in

FAULT = "table account was changed after entry 6 (signature kept)"
HASH = "a" * 64
OF_DAY = {"sync": "settlement", "business_date": str(results.DATE)}
SIGN = re.compile(r'<form method="post" action="(sign|reopen|restate)"')


def sign_off(**fields: Any) -> SignOff:
    known: dict[str, Any] = {
        "sync": "settlement", "destination": "warehouse", "business_date": results.DATE, "version": 1, "in_force": 1,
        "run_id": results.RUN, "verdict": Verdict.MATCH, "partial": False, "verdict_hash": HASH,
        "preparer": "scheduler", "prepared_at": results.AT,
    }  # fmt: skip
    return SignOff(**{**known, **fields})


@pytest.fixture
def approver(signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """May sign; version 1 of the date waits for it."""

    class Waiting(results.Unsigned):
        def of_date(self, sync: str, day: date) -> tuple[SignOff, ...]:
            return (sign_off(preparer="bob", prepared_reason="a posting was missing"),)

    monkeypatch.setattr(parts, "signatures", lambda: nullcontext(Waiting()))
    monkeypatch.setattr(parts, "late_postings", lambda: nullcontext(results.Unsigned()))
    monkeypatch.setattr(acting, "may_sign", lambda _user, _sync: True)
    monkeypatch.setattr(acting, "may_cut", lambda _user, _sync: False)
    return signed_in


def test_a_version_is_signed_on_its_own_page_and_never_below_the_numbers_of_another_take(
    approver: TestClient, platform: results.Platform
) -> None:
    """ "Sign version 1" stood below the numbers of whichever take was the newest."""
    later = f"{results.RUN}~2"
    platform.found.append(results.reconciliation(results.table("account", Verdict.BREAK), run_id=later))
    for state in RunState:
        platform.runs[later] = replace(results.run(state=state), run_id=later)
        text = date_page(approver)
        assert not SIGN.search(text), state
        assert "Version 1, which readers see in warehouse" in text and "of another take" in text
        assert f"run={results.RUN.replace('/', '%2F')}" in text or f"run={results.RUN}" in text
        own = approver.get("/page", params={**OF_DAY, "run": results.RUN}).text
        assert SIGN.findall(own) == ["sign"] and own.count(HASH) >= 2
        # Signed there, it leads back there.
        assert re.search(rf'name="run" value="{re.escape(results.RUN)}"', own)
    del platform.runs[later]
    assert SIGN.findall(date_page(approver)) == ["sign"] and 'name="run"' not in date_page(approver)


def test_nobody_signs_for_a_verdict_that_is_not_stored_as_it_was_recorded_or_that_the_page_has_not_shown(
    approver: TestClient, platform: results.Platform
) -> None:
    for recorded, said in (
        (Recorded(HASH, (FAULT,)), "Nobody can sign: the stored verdict is not the one"),
        (Recorded("b" * 64), "It was compared again while this page was read"),
    ):
        platform.log_has = {results.RUN: recorded}
        text = date_page(approver)
        assert said in text and not SIGN.search(text)
    platform.log_has = {results.RUN: Recorded(HASH)}
    assert SIGN.findall(date_page(approver)) == ["sign"]


def test_the_page_of_a_date_and_of_a_run_say_first_that_the_stored_verdict_is_not_the_recorded_one(
    signed_in: TestClient, platform: results.Platform
) -> None:
    platform.log_has = {results.RUN: Recorded(HASH, (FAULT,))}
    for path in (OF_DAY, {"dag_id": "settlement__nightly", "run_id": "manual__1"}):
        text = signed_in.get("/page", params=path).text
        assert text.index("the stored verdict is not the one that was recorded") < text.index("compared:")
        assert FAULT in text and "audit verify --sync settlement" in text
        assert 'class="verdict ALTERED big"' in text and "MATCH" not in text


def test_every_export_says_it_too(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.log_has = {results.RUN: Recorded(HASH, (FAULT,))}
    made: list[Any] = []

    def kept(one: Any, **_: Any) -> bytes:
        made.append(one)
        return b"a file"

    for kind in ("xlsx", "pdf"):
        monkeypatch.setattr(exports, f"to_{kind}", kept)
        assert signed_in.get(f"/export.{kind}", params=OF_DAY).content == b"a file"
    for one in made:
        assert (one.verdict, one.blocks[0].title) == ("ALTERED", "Altered") and FAULT in str(one.blocks[0].rows)
    (document,) = json.loads(signed_in.get("/export.json", params=OF_DAY).text)
    assert (document["verdict"], document["recorded"]["faults"]) == ("ALTERED", [FAULT])
    text = signed_in.get("/export.csv", params=OF_DAY).text
    assert all(row["verdict"] == "ALTERED" and FAULT in row["altered"] for row in csv.DictReader(io.StringIO(text)))
    assert "MATCH" not in text
    of_run = {"sync": "settlement", "run": results.RUN, "destination": "warehouse"}
    listed = signed_in.get("/breaks", params=of_run).text
    assert listed.index("not the one that was recorded") < listed.index("ALTERED") and "MATCH" not in listed
    (row,) = csv.DictReader(io.StringIO(signed_in.get("/breaks.csv", params=of_run).text))
    assert row["verdict"] == "ALTERED" and FAULT in row["note"]
    assert signed_in.get("/breaks.xlsx", params=of_run).status_code == 200
    (answer,) = signed_in.get(f"/api/v1/syncs/settlement/dates/{results.DATE}").json()["takes"]
    assert (answer["verdict"], answer["recorded"]["faults"]) == ("ALTERED", [FAULT])


def test_files_of_the_page_are_in_the_zone_of_the_sync(approver: TestClient, platform: results.Platform) -> None:
    (row, *_) = csv.DictReader(io.StringIO(approver.get("/export.csv", params=OF_DAY).text))
    assert row["position_time"] == "2026-11-20T00:31:00+08:00"
    assert (row["sign_off"], row["sign_off_verdict_hash"]) == ("prepared", HASH)
    (document,) = json.loads(approver.get("/export.json", params=OF_DAY).text)
    assert document["position_time"] == row["position_time"]
    assert document["sign_off"]["prepared_at"] == row["position_time"]


def test_the_reason_of_a_version_stands_beside_who_has_asked_for_it(approver: TestClient) -> None:
    text = date_page(approver)
    (prepared,) = re.findall(r"<tr><td>prepared</td>.*?</tr>", text)
    cells = [re.sub(r"<[^>]*>", "", one) for one in re.findall(r"<td>(.*?)</td>", prepared)]
    assert (cells[1], cells[3], cells[4:]) == ("bob", "a posting was missing", ["MATCH", HASH])


def test_a_partial_take_says_for_which_tables_it_shows_the_level(
    signed_in: TestClient, platform: results.Platform
) -> None:
    left_out = results.table("ledger_entry", Verdict.NOT_RUN, reason="no history")
    found = replace(results.reconciliation(results.table("account"), left_out), verdict=Verdict.MATCH)
    platform.found = [replace(found, evidence=level_evidence(found, "all at once", guarantee="exactly_once"))]
    text = date_page(signed_in)
    assert "this run shows it: for 1 of 2 tables; NOT_RUN, so not shown, for ledger_entry" in text


def test_a_take_after_one_that_compared_nothing_is_held_against_nothing(
    signed_in: TestClient, platform: results.Platform
) -> None:
    """ "Since the take before: the same ones" stood there where nothing was before, of a take without a break."""
    second = f"{results.RUN}~2"
    platform.runs[second] = replace(results.published(), run_id=second)
    platform.found = [results.reconciliation(), replace(results.clean(), run_id=second)]
    assert "Since the take before" not in date_page(signed_in)
    broken = Break("account", BreakType.VALUE, "1", {"a": "1"}, {"a": "2"})
    for breaks, said in (((), False), ((broken,), True)):
        verdict = Verdict.BREAK if breaks else Verdict.INCONCLUSIVE
        table = results.table("account", verdict, breaks=breaks, breaks_total=len(breaks))
        entries = (results.table("ledger_entry"), results.table("ledger_entry", totals=(results.total("1", "2"),)))
        platform.found = [
            results.reconciliation(table, one, run_id=run)
            for one, run in zip(entries, (results.RUN, second), strict=True)
        ]
        text = date_page(signed_in).partition("Since the take before")[2]
        assert "breaks: 0 gone, 0 new" in text and (", the same ones" in text) is said


def test_a_comparison_of_live_tables_that_is_not_stored_as_it_was_recorded_is_altered_wherever_it_is_shown(
    signed_in: TestClient, platform: results.Platform
) -> None:
    live = results.reconciliation(results.table("account"), scope=Scope.LIVE, run_id="settlement/reconcile/-/x")
    platform.found, platform.log_has = [live], {live.run_id: Recorded(HASH, (FAULT,))}
    of_run, of_sync = {"sync": "settlement", "run": live.run_id}, {"sync": "settlement"}
    of_breaks = {**of_run, "destination": "warehouse", "scope": "live"}
    for path, asked in (
        ("/page", {}),
        ("/page", of_sync),
        ("/page", {"dag_id": "settlement__reconcile", "run_id": "x"}),
        ("/page", of_run),
        ("/breaks", of_breaks),
    ):
        text = signed_in.get(path, params=asked).text
        assert "verdict ALTERED" in text and "> MATCH<" not in text, asked
        assert (FAULT in text) is (asked not in ({}, of_sync))
    text = signed_in.get("/page", params=of_run).text
    assert (
        text.index("the stored verdict is not the one that was recorded") < text.index(FAULT) < text.index("committed")
    )
    (document,) = json.loads(signed_in.get("/export.json", params=of_run).text)
    assert (document["verdict"], document["recorded"]["faults"]) == ("ALTERED", [FAULT])
    (row,) = csv.DictReader(io.StringIO(signed_in.get("/export.csv", params=of_run).text))
    assert (row["verdict"], row["table_verdict"]) == ("ALTERED", "INCONCLUSIVE") and FAULT in row["altered"]
    at = "/api/v1/syncs/settlement"
    (one,) = signed_in.get(f"{at}/comparisons").json()
    assert (one["verdict"], one["recorded"]["faults"]) == ("ALTERED", [FAULT])
    assert signed_in.get(f"{at}/breaks", params=of_breaks).json()["verdict"] == "ALTERED"
    assert signed_in.get(at).json()["verdict"] == "ALTERED"


def test_a_comparison_of_live_tables_is_taken_away_and_repaired_from_its_own_page(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither was there: a person had to find the page of its breaks, and no file could be had."""
    live = results.reconciliation(results.table("account", Verdict.BREAK), scope=Scope.LIVE, run_id="settlement/l")
    platform.found = [live]
    of_run = {"sync": "settlement", "run": live.run_id}
    text = signed_in.get("/page", params=of_run).text
    for kind in ("xlsx", "pdf", "csv", "json"):
        (path,) = re.findall(rf'href="(export\.{kind}\?[^"]+)"', text)
        assert signed_in.get(f"/{path.replace('&amp;', '&')}").status_code == 200
    assert "plan_repair" not in text
    monkeypatch.setattr(acting, "may_repair", lambda _user, _sync: True)
    for path in (of_run, {**of_run, "destination": "warehouse", "scope": "live"}):
        page = "/page" if path is of_run else "/breaks"
        (form,) = re.findall(r'<form action="plan_repair".*?</form>', signed_in.get(page, params=path).text, re.DOTALL)
        assert 'name="compared" value="settlement/l"' in form and 'name="destination" value="warehouse"' in form
    platform.found = [replace(live, tables=(results.table("account"),), verdict=Verdict.MATCH)]
    assert "plan_repair" not in signed_in.get("/page", params=of_run).text


def test_values_of_an_applied_repair_are_said_to_be_those_before_it(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stood under "destination" beside the word applied, as if they were there now."""
    kept, at = results.OneRepair.repair, datetime(2026, 11, 20, tzinfo=ZoneInfo("UTC")) + timedelta(hours=1)
    path = {"sync": "settlement", "id": "r1"}
    assert "<th>destination</th>" in signed_in.get("/repair", params=path).text

    def applied(self: Any, run_id: str) -> Any:
        return replace(kept(self, run_id), applied_position="0-7-200", applied_at=at)

    monkeypatch.setattr(results.OneRepair, "repair", applied)
    assert "<th>destination, before the repair</th>" in signed_in.get("/repair", params=path).text
