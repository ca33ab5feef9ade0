"""The declaration of a sync is changed by clicks: one person proposes, another accepts, and the file says so."""

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from seamline.ports import Problem, Survey
from seamline.spec import changed
from seamline_airflow import parts
from seamline_airflow.page import acting
from tests.dags.test_page import HOSTILE
from tests.dags.test_page_acting import OWN, PEOPLE
from tests.dags.test_page_work import _server as _server
from tests.dags.test_page_work import page as page
from tests.dags.test_page_work import store as store
from tests.unit.declared import SYNC, write_declarations

IN_SOURCE = ("account", "ledger_entry", "payment_order")


class Source:
    def survey(self, names: list[str]) -> Survey:
        return Survey(
            (), tuple(Problem(f"the source has no table {one}", "create it") for one in names if one not in IN_SOURCE)
        )


@pytest.fixture(autouse=True)
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    @contextmanager
    def source(_plan: Any) -> Iterator[Any]:
        yield Source()

    monkeypatch.setattr(parts, "source", source)
    text = SYNC.replace("reconcile:\n", "reconcile:\n  approvers: [approver]\n")
    folder = write_declarations(tmp_path, {"syncs/settlement.yaml": text})
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(folder))
    return folder / "syncs" / "settlement.yaml"


def send(page: TestClient, path: str, who: str, **fields: str) -> Response:
    form = {"token": acting.token_of(PEOPLE[who]), "sync": "settlement"} | fields
    return page.post(path, data=form, headers={"X-Person": who, **OWN}, follow_redirects=False)


def propose(page: TestClient, who: str = "operator", **fields: str) -> Response:
    asked = {"change": "table", "value": "payment_order", "reason": "orders are reconciled from December on"}
    return send(page, "/propose_change", who, **asked | fields)


def shown(page: TestClient, who: str = "operator", **headers: str) -> str:
    answer = page.get("/declaration", params={"sync": "settlement"}, headers={"X-Person": who, **headers})
    assert answer.status_code == 200
    return answer.text


def number(page: TestClient) -> str:
    return re.findall(r'name="number" value="(\d+)"', shown(page))[0]


def test_a_table_is_proposed_by_one_person_and_stands_in_the_file_once_another_has_accepted_it(
    page: TestClient, file: Path
) -> None:
    before = file.read_text(encoding="utf-8")
    assert propose(page, "viewer").status_code == 403
    assert propose(page).headers["location"] == "declaration?sync=settlement"
    for who, accepts, withdraws in (("viewer", False, False), ("operator", False, True), ("approver", True, True)):
        text = shown(page, who)
        assert "+  - payment_order" in text and "orders are reconciled" in text and "proposed by operator" in text
        assert ('action="accept_change"' in text, 'action="withdraw_change"' in text) == (accepts, withdraws), who
    for who in ("viewer", "operator"):
        assert send(page, "/accept_change", who, number=number(page)).status_code == 403
    assert file.read_text(encoding="utf-8") == before
    mine = number(page)
    assert send(page, "/accept_change", "approver", number=mine).status_code == 303
    assert file.read_text(encoding="utf-8") == before.replace("nightly:", "  - payment_order\nnightly:")
    text = shown(page, "viewer")
    assert "accepted" in text and "by approver, " in text and 'href="../dags/settlement__tables"' in text
    again = send(page, "/accept_change", "approver", number=mine)
    assert (again.status_code, "it was accepted by approver" in again.text) == (409, True)
    with parts.audit() as log:
        assert log.head().number == int(mine) + 1


def test_the_night_is_moved_and_who_has_proposed_it_is_refused_as_its_second_person(
    page: TestClient, file: Path
) -> None:
    assert propose(page, "approver", change="run_at", value="01:15", reason="the source is busy").status_code == 303
    answer = send(page, "/accept_change", "approver", number=number(page))
    assert (answer.status_code, "another person accepts it" in answer.text) == (409, True)
    assert 'action="accept_change"' not in shown(page, "approver")
    assert send(page, "/withdraw_change", "operator", number=number(page)).status_code == 303
    assert "withdrawn" in shown(page) and "run_at" not in file.read_text(encoding="utf-8")
    propose(page, change="run_at", value="01:15")
    assert send(page, "/accept_change", "approver", number=number(page)).status_code == 303
    assert 'run_at: "01:15"' in file.read_text(encoding="utf-8")


def test_a_file_that_has_changed_since_is_not_overwritten(page: TestClient, file: Path) -> None:
    propose(page)
    other = file.read_text(encoding="utf-8") + "# by hand\n"
    file.write_text(other, encoding="utf-8")
    assert "another text by now" in shown(page, "approver") and "accept_change" not in shown(page, "approver")
    answer = send(page, "/accept_change", "approver", number=number(page))
    assert (answer.status_code, "has another text now" in answer.text) == (409, True)
    assert file.read_text(encoding="utf-8") == other and "waits for another person" in shown(page)


def test_a_folder_that_the_server_may_not_write_refuses_and_enters_nothing(
    page: TestClient, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    propose(page)
    monkeypatch.setattr(changed.shutil, "copymode", denied)
    answer = send(page, "/accept_change", "approver", number=number(page))
    assert (answer.status_code, "may not write settlement.yaml" in answer.text) == (409, True)
    assert "waits for another person" in shown(page)


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"value": "order_book"}, 409, "the source has no table order_book"),
        ({"value": "account"}, 409, "would be wrong"),
        ({"value": HOSTILE}, 409, ""),
        ({"value": "\u202ex"}, 409, ""),
        ({"reason": " "}, 409, "proposed with a reason"),
        ({"change": "approvers"}, 422, ""),
        ({"change": "verdict_by", "value": "late"}, 409, "no time of day"),
        ({"sync": "../secrets"}, 422, ""),
    ],
)
def test_what_the_declaration_or_the_source_would_refuse_is_refused_in_the_form(
    page: TestClient, file: Path, fields: dict[str, str], status: int, said: str
) -> None:
    known = shown(page).count("<section>")
    answer = propose(page, **fields)
    assert (answer.status_code, said in html.unescape(answer.text)) == (status, True), answer.text
    assert "<script" not in answer.text and "\u202e" not in answer.text
    assert shown(page).count("<section>") == known


def test_hostile_reasons_are_text_in_both_languages(page: TestClient) -> None:
    propose(page, change="verdict_by", value="05:55", reason=HOSTILE)
    for language in ("en", "zh-CN"):
        text = shown(page, **{"Accept-Language": language})
        assert "&lt;script&gt;" in text and "<script" not in text
    assert "待另一人复核" in text and "结论应于 05:55 前给出" in text


def by_rest(page: TestClient, path: str, who: str, **body: str) -> Response:
    headers = {"X-Person": who, "Authorization": "Bearer of this person"}
    return page.post(f"/api/v1/syncs/settlement/declaration/changes{path}", json=body or None, headers=headers)


def test_a_change_is_proposed_accepted_and_withdrawn_by_rest_as_on_the_page(page: TestClient, file: Path) -> None:
    wanted = {"change": "table", "value": "payment_order", "reason": "orders are reconciled from December on"}
    first = by_rest(page, "", "operator", **wanted)
    assert (first.status_code, first.json()["step"], "+  - payment_order" in first.json()["diff"]) == (
        201, "proposed", True,
    )  # fmt: skip
    assert by_rest(page, "", "operator", **wanted).json() == first.json()
    assert "proposed by operator" in shown(page)
    accept = f"/{first.json()['number']}/accept"
    assert by_rest(page, accept, "operator").status_code == 403
    assert by_rest(page, accept, "approver").json()["ended_by"] == "approver"
    assert "  - payment_order\n" in file.read_text(encoding="utf-8")
    second = by_rest(page, "", "approver", change="run_at", value="01:15", reason="the source is busy").json()
    own = by_rest(page, f"/{second['number']}/accept", "approver")
    assert (own.status_code, "another person accepts it" in own.json()["detail"]) == (409, True)
    assert by_rest(page, f"/{second['number']}/withdraw", "operator").json()["step"] == "withdrawn"
    known = page.get("/api/v1/syncs/settlement/declaration/changes", headers={"X-Person": "viewer"}).json()
    steps = {one["number"]: one["step"] for one in known}
    assert (steps[first.json()["number"]], steps[second["number"]]) == ("accepted", "withdrawn")
    with parts.audit() as log:
        assert log.head().number == second["number"] + 1
