"""People act by REST: each act stands on the page and in the log of acts as one of the page does, from "REST"."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from seamline.domain.masking import MASK, Hidden
from seamline.platform.database import Database
from seamline.platform.signatures import PlatformSignatures
from seamline.platform.store import PlatformStore
from seamline_airflow.page import dag_runs, reading
from tests.dags import results
from tests.dags.test_page import HOSTILE
from tests.dags.test_page_repairs import RUN as REPAIR
from tests.dags.test_page_repairs import planned as planned
from tests.dags.test_page_repairs import shown as shown_repair
from tests.dags.test_page_signing import server as server
from tests.dags.test_page_signing import template as template
from tests.dags.test_page_tolerances import listed
from tests.dags.test_page_work import KEYS, identity, save, shown
from tests.dags.test_page_work import page as page
from tests.integration.platform_database import Server
from tests.integration.test_signatures import DAY, faults, publish, sign

OF_SYNC = "/api/v1/syncs/settlement"
UNTIL = (datetime.now(UTC) + timedelta(days=20)).date().isoformat()
ASKED = {"destination": "warehouse", "table": "ledger_entry", "column": "amount", "amount": "1,000.50", "until": UNTIL,
         "why": "fees are booked net"}  # fmt: skip


@pytest.fixture
def store(server: Server) -> Iterator[PlatformStore]:
    """Of its own for each test: the log of acts is never emptied, and what it is about has to be there."""
    with closing(PlatformStore(Database(server.open))) as opened:
        save(opened, *KEYS)
        yield opened


def post(page: TestClient, path: str, who: str = "operator", **body: Any) -> Response:
    headers = {"X-Person": who, "Authorization": "Bearer of this person"}
    return page.post(f"{OF_SYNC}{path}", json=body, headers=headers)


def act(page: TestClient, key: str = "one", who: str = "operator", **body: Any) -> Response:
    return post(page, f"/breaks/{identity(key)}/acts", who, **body)


def work(page: TestClient, key: str = "one") -> Any:
    return page.get(f"{OF_SYNC}/breaks/{identity(key)}/work").json()


def origins(server: Server) -> list[tuple[str, str, str]]:
    """What the log of acts has of persons, in order; it verifies."""
    assert faults(server) == []
    with server.open() as session, session.transaction():
        found = session.execute(
            "select kind, who, origin from seamline.audit_entry where origin in ('REST', 'page') order by number"
        )
        return list(found)


def test_a_break_is_worked_on_by_rest_and_page_and_log_have_it(page: TestClient, server: Server) -> None:
    for doing, fields, state in (
        ("assign", {"owner": "olga"}, "open"),
        ("comment", {"comment": "asked the branch"}, "open"),
        ("hand back", {}, "open"),
        ("explain", {"reason": "source", "comment": "corrected there"}, "explained"),
        ("close", {"comment": "done"}, "closed"),
    ):
        answer = act(page, doing=doing, **fields)
        assert (answer.status_code, answer.json()["state"]) == (200, state), answer.text
    assert [(one["kind"], one["origin"]) for one in work(page)["done"]][:2] == [
        ("break closed", "REST"),
        ("explained", "REST"),
    ]
    text = shown(page)
    assert "closed</span>" in text and "<td>REST, <a" in text and "asked the branch" in text
    assert {(who, origin) for _, who, origin in origins(server)} == {("operator", "REST")}


def test_all_breaks_of_a_filter_are_one_act_by_rest(page: TestClient, server: Server) -> None:
    of_run = {"run": results.RUN, "destination": "warehouse"}
    assert post(page, "/breaks/acts", **of_run, text="o", doing="explain", reason="timing").json() == {
        "breaks": 2, "left_alone": 0,
    }  # fmt: skip
    assert (work(page, "two")["state"], work(page, HOSTILE)["state"]) == ("explained", "open")
    again = post(page, "/breaks/acts", **of_run, doing="close", comment="x", state="open")
    assert (again.status_code, "explain it first" in again.json()["hint"]) == (409, True)
    assert post(page, "/breaks/acts", **{**of_run, "run": "none"}, doing="hand back").status_code == 404
    assert [kind for kind, _, _ in origins(server)] == ["explained"]


def test_what_is_not_possible_by_rest_says_what_and_how_to_mend_it_and_changes_nothing(
    page: TestClient, server: Server
) -> None:
    for status, fields, said in (
        (409, {"doing": "close", "comment": "done"}, "explain it first"),
        (409, {"doing": "explain", "reason": "odd"}, "its reasons are timing"),
        (409, {"doing": "assign", "owner": " "}, "name the person"),
        (422, {"doing": "odd"}, "doing"),
        (422, {"doing": "comment", "comment": "x", "causes": "y"}, "causes"),
        (422, {"doing": "comment", "comment": "x", "reason": "a\0"}, "reason"),
        (422, {}, "doing"),
    ):
        answer = act(page, **fields)
        assert (answer.status_code, said in answer.text) == (status, True), (fields, answer.text)
    unknown = post(page, f"/breaks/{'0' * 16}/acts", doing="hand back")
    assert (unknown.status_code, "has no break" in unknown.json()["detail"]) == (409, True)
    assert act(page, who="viewer", doing="comment", comment="x").status_code == 403
    assert origins(server) == []


def test_a_tolerance_is_asked_for_by_one_and_approved_by_another_by_rest(page: TestClient, server: Server) -> None:
    asked = post(page, "/tolerances", **ASKED)
    assert (asked.status_code, asked.json()["state"], asked.json()["amount"]) == (201, "waits for approval", "1000.50")
    number = asked.json()["number"]
    assert post(page, f"/tolerances/{number}/approve").status_code == 403
    assert post(page, f"/tolerances/{number}/approve", "approver").json()["approved_by"] == "approver"
    assert "in force" in listed(page)
    mine = post(page, "/tolerances", "approver", **ASKED).json()["number"]
    refused = post(page, f"/tolerances/{mine}/approve", "approver")
    assert (refused.status_code, "does not approve it" in refused.json()["detail"]) == (409, True)
    assert post(page, f"/tolerances/{number}/end").json()["ended_by"] == "operator"
    for wrong in ({"amount": "x"}, {"column": "id"}, {"until": "2020-01-01"}, {"why": " "}):
        assert post(page, "/tolerances", **{**ASKED, **wrong}).status_code == 409, wrong
    every = page.get(f"{OF_SYNC}/tolerances", headers={"X-Person": "viewer"}).json()
    assert [(one["number"], one["state"]) for one in every] == [(mine, "waits for approval"), (number, "ended")]
    assert [kind for kind, _, _ in origins(server)] == [
        "tolerance asked", "tolerance approved", "tolerance asked", "tolerance ended",
    ]  # fmt: skip


@pytest.mark.usefixtures("planned")
def test_a_repair_is_read_and_approved_by_rest_and_never_by_its_planner(page: TestClient, server: Server) -> None:
    (one,) = page.get(f"{OF_SYNC}/repairs").json()
    assert (one["run_id"], one["state"], one["planned_by"]) == (REPAIR, "planned", "operator")
    plan = page.get(f"{OF_SYNC}/repair", params={"id": REPAIR}).json()
    assert plan["rows"][0]["source"] == {"id": "7", "balance": "1.0000"}
    assert (plan["rows_total"], plan["refused"]) == (3, {"ledger_entry": "12 of 20 differ"})
    given = {"id": REPAIR, "cause": "outside", "reason": "by hand"}
    assert post(page, "/repair/approve", **given).status_code == 403
    assert post(page, "/repair/approve", "approver", **{**given, "reason": " "}).status_code == 409
    assert post(page, "/repair/approve", "approver", **{**given, "id": "elsewhere"}).status_code == 404
    answer = post(page, "/repair/approve", "approver", **given).json()
    assert (answer["state"], answer["approved_by"], answer["hash"]) == ("approved", "approver", plan["hash"])
    assert "approved by approver" in shown_repair(page)
    assert origins(server) == [("repair approved", "approver", "REST")]


def test_a_late_verdict_is_acknowledged_by_rest(page: TestClient, server: Server) -> None:
    path = f"/dates/{results.DATE}/acknowledge"
    refused = post(page, path, reason=" ")
    assert (refused.status_code, refused.json()["hint"]) == (409, "write it into the form")
    answer = post(page, path, reason="the core bank\nwas late").json()
    assert (answer["who"], answer["reason"]) == ("operator", "the core bank was late")
    assert origins(server) == [("commented", "operator", "REST")]


def test_a_signed_date_is_taken_again_by_rest_and_what_came_late_for_it_is_listed_with_its_key_masked(
    page: TestClient, server: Server, store: PlatformStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/dates/{DAY}/restate"
    assert post(page, path, reason="late").status_code == 409
    take = publish(store)
    with closing(PlatformSignatures(Database(server.open))) as signatures:
        sign(signatures, "approver", take=take)
    started: list[dict[str, str]] = []

    def start(dag_id: str, *, by: str, conf: dict[str, str]) -> str:
        started.append(conf)
        return "manual__1"

    monkeypatch.setattr(dag_runs, "start", start)
    assert post(page, path, reason="late").json() == {"run": "manual__1"}
    assert started == [{"business_date": str(DAY), "reason": "late"}]
    assert origins(server) == [("signed", "approver", "page"), ("restatement asked", "operator", "REST")]
    with server.open() as session:
        session.execute(
            "insert into late_watch values ('r1', 'warehouse', 'settlement', 't', 1, '{}');"
            " insert into late_posting (run_id, destination, table_name, key, changes, transactions, position)"
            " values ('r1', 'warehouse', 'account', '{\"id\": \"7\"}', 3, 1, '0-1-9')"
        )
    monkeypatch.setattr(reading, "hidden", lambda _: Hidden({"account": frozenset({"id"})}))
    (one,) = page.get(f"{OF_SYNC}/dates/{DAY}/late_postings").json()
    assert (one["table"], one["key"], one["rows"], one["position"]) == ("account", f'{{"id": "{MASK}"}}', 3, "0-1-9")
    (signed,) = page.get(f"{OF_SYNC}/signatures?business_date={DAY}").json()
    assert signed["late_in_words"] == ["late postings since its cut: 3; account: 3 in 1 transactions"]


def test_only_a_source_that_is_away_is_acknowledged_by_rest(page: TestClient) -> None:
    now = datetime.now(UTC)
    body = {"source": "core_bank", "since": now.isoformat(), "until": (now + timedelta(hours=1)).isoformat()}
    refused = post(page, "/sources/acknowledge", **body, reason="its disk is changed")
    assert (refused.status_code, refused.json()["hint"]) == (409, "load the overview again")
