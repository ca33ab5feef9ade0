"""Tolerances on the page: one person asks, another approves, and the report of the date lists what is absorbed."""

import html
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from seamline_airflow.page import acting
from tests.dags import results
from tests.dags.test_page import HOSTILE
from tests.dags.test_page_acting import OWN, PEOPLE
from tests.dags.test_page_routes import BEARER
from tests.dags.test_page_work import _server as _server
from tests.dags.test_page_work import page as page
from tests.dags.test_page_work import shown
from tests.dags.test_page_work import store as store
from tests.unit.declared import FILES, write_declarations

UNTIL = (datetime.now(UTC) + timedelta(days=20)).date().isoformat()
HOSTILE_REASON = "<script>alert(1)</script>"
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
        ({"amount": "0,05"}, 409, "is no amount above 0"),
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


def declare(monkeypatch: pytest.MonkeyPatch, folder: Path, **changed: str) -> None:
    """A file with one tolerance that the approver is to approve."""
    said = {"amount": "0.05", "until": UNTIL, "asked_by": "olga", "approver": "approver", "reason": HOSTILE_REASON}
    entry = ", ".join(f"{name}: {json.dumps(text)}" for name, text in (said | changed).items() if name != "amount")
    line = f"{{table: ledger_entry, column: amount, amount: {(said | changed)['amount']}, {entry}}}"
    name = "syncs/settlement.yaml"
    text = FILES[name].replace("reconcile:\n", f"reconcile:\n  tolerances:\n    - {line}\n")
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(folder, {name: text})))


def declared_text(text: str) -> str:
    return "".join(re.findall(r'name="text" value="([0-9a-f]{64})"', text))


def test_a_declared_tolerance_holds_once_its_approver_has_approved_its_very_text(
    page: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(monkeypatch, tmp_path / "first")
    for who, offered in (("operator", False), ("viewer", False), ("approver", True)):
        text = listed(page, who)
        assert "Declared, and not approved" in text and "<script" not in text
        assert bool(declared_text(text)) is offered
    seen = declared_text(listed(page, "approver"))
    # The file is changed after the person has looked at it.
    declare(monkeypatch, tmp_path / "first", amount="0.06")
    answer = send(page, "/approve_declared_tolerance", "approver", text=seen)
    assert (answer.status_code, "has another text now" in answer.text) == (409, True)
    seen = declared_text(listed(page, "approver"))
    answer = send(page, "/approve_declared_tolerance", "operator", text=seen)
    assert (answer.status_code, "names another approver" in answer.text) == (409, True)
    assert send(page, "/approve_declared_tolerance", "viewer", text=seen).status_code == 403
    assert send(page, "/approve_declared_tolerance", "approver", text=seen).status_code == 303
    text = listed(page)
    assert "Declared, and not approved" not in text and "olga, in the declaration" in text and "in force" in text
    declare(monkeypatch, tmp_path / "first", amount="0.07")
    text = listed(page, "approver")
    assert "it ends with the next comparison" in text and declared_text(text) not in ("", seen)
    # By REST as on the page.
    rest, asks = "/api/v1/syncs/settlement/declaration/tolerances", {"X-Person": "approver", **BEARER}
    (waiting,) = page.get(rest, headers=asks).json()
    assert (waiting["hash"], waiting["amount"], waiting["asked_by"]) == (declared_text(text), "0.07", "olga")
    assert page.post(f"{rest}/{seen}/approve", headers=asks).status_code == 409
    assert page.post(f"{rest}/{waiting['hash']}/approve", headers=asks).json() == {"breaks": 0}
    assert page.get(rest, headers=asks).json() == []


def test_a_declaration_that_lasts_too_long_is_not_approved_and_a_wrong_one_is_said(
    page: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(monkeypatch, tmp_path / "long", until="2099-01-01")
    answer = send(page, "/approve_declared_tolerance", "approver", text=declared_text(listed(page, "approver")))
    assert (answer.status_code, "it ends between" in answer.text) == (409, True)
    declare(monkeypatch, tmp_path / "wrong", approver="olga")
    assert "does not say what of settlement is tolerated" in listed(page)
