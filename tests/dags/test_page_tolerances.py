"""Tolerances on the page: one person asks, another approves, and the report of the date lists what is absorbed."""

import html
import json
import re
from datetime import UTC, datetime, timedelta

from fastapi.testclient import TestClient
from httpx import Response

from seamline_airflow.page import acting
from tests.dags import results
from tests.dags.test_page import HOSTILE
from tests.dags.test_page_acting import OWN, PEOPLE
from tests.dags.test_page_work import _server as _server
from tests.dags.test_page_work import page as page
from tests.dags.test_page_work import shown
from tests.dags.test_page_work import store as store

UNTIL = (datetime.now(UTC) + timedelta(days=20)).date().isoformat()
PLACE = json.dumps(["warehouse", "ledger_entry", "amount"])


def send(page: TestClient, path: str, who: str, **fields: str) -> Response:
    form = {"token": acting.token_of(PEOPLE[who]), "sync": "settlement"} | fields
    return page.post(path, data=form, headers={"X-Person": who, **OWN}, follow_redirects=False)


def ask(page: TestClient, who: str = "operator", **fields: str) -> Response:
    asked = {"summed": PLACE, "amount": "1,000.50", "until": UNTIL, "why": "fees are booked net"} | fields
    return send(page, "/ask_tolerance", who, **asked)


def listed(page: TestClient, who: str = "operator") -> str:
    answer = page.get("/tolerances", params={"sync": "settlement"}, headers={"X-Person": who})
    assert answer.status_code == 200
    return answer.text


def number_of(text: str) -> str:
    return re.findall(r'name="number" value="(\d+)"', text)[0]


def test_one_person_asks_another_approves_and_neither_form_is_there_for_who_may_not(page: TestClient) -> None:
    assert html.unescape(listed(page)).count(f'value="{PLACE}"') == 1
    answer = ask(page)
    assert (answer.status_code, answer.headers["location"]) == (303, "tolerances?sync=settlement")
    number = number_of(listed(page))
    assert "waits for approval" in listed(page) and "1,000.50" in listed(page)
    for who, offered in (("operator", False), ("approver", True), ("viewer", False)):
        assert ('action="approve_tolerance"' in listed(page, who)) is offered
    for who in ("operator", "viewer"):
        assert send(page, "/approve_tolerance", who, number=number).status_code == 403
    assert ask(page, "viewer").status_code == 403
    assert send(page, "/approve_tolerance", "approver", number=number).status_code == 303
    text = listed(page, "viewer")
    assert "in force" in text and "<td>approver, " in text and 'method="post"' not in text
    report = page.get("/page", params={"sync": "settlement", "business_date": results.DATE.isoformat()}).text
    assert "Tolerances in force" in report and "fees are booked net" in report and "<td>approver</td>" in report
    assert send(page, "/end_tolerance", "operator", number=number).status_code == 303
    assert "ended by operator" in html.unescape(listed(page))


def test_an_approver_who_asks_for_a_tolerance_is_refused_as_its_approver(page: TestClient) -> None:
    ask(page, "approver")
    text = listed(page, "approver")
    assert 'action="approve_tolerance"' not in text
    answer = send(page, "/approve_tolerance", "approver", number=number_of(text))
    assert (answer.status_code, "does not approve it" in answer.text) == (409, True)
    assert "waits for approval" in listed(page)


def test_a_tolerance_without_bound_end_reason_or_summed_column_is_refused(page: TestClient) -> None:
    for fields, status, said in (
        ({"amount": "x"}, 409, "is no amount"),
        ({"amount": "-1"}, 409, "is no amount above 0"),
        ({"amount": "1e99"}, 409, "is no amount above 0"),
        ({"amount": "NaN"}, 409, "is no amount above 0"),
        ({"until": "2020-01-01"}, 409, "it ends between"),
        ({"until": "2099-01-01"}, 409, "it ends between"),
        ({"until": "soon"}, 422, ""),
        ({"why": " "}, 409, "say why it may differ"),
        ({"summed": json.dumps(["warehouse", "ledger_entry", "id"])}, 409, "sums as a control total"),
        ({"summed": HOSTILE}, 409, "sums as a control total"),
    ):
        answer = ask(page, **fields)
        assert (answer.status_code, said in html.unescape(answer.text)) == (status, True), fields
    assert "Nothing is tolerated" in listed(page)


def test_hostile_reasons_of_tolerances_are_shown_and_never_act(page: TestClient) -> None:
    ask(page, why=HOSTILE)
    text = listed(page)
    assert "&lt;script&gt;" in text and "<script" not in text and "{{7*7}}" in html.unescape(text)
    assert "Nobody has done anything about it" in shown(page)
