"""Acts of the page: who may, and that only a form of the page itself is taken."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi import app as airflow_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from itsdangerous import URLSafeTimedSerializer

from seamline.domain.errors import ConfigError
from seamline.spec.load import declared_approvers
from seamline_airflow.page import access, acting, reports
from tests.dags import results
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in

PEOPLE = {
    "viewer": SimpleAuthManagerUser(username="viewer", role="viewer"),
    "operator": SimpleAuthManagerUser(username="operator", role="op"),
    "approver": SimpleAuthManagerUser(username="approver", role="op"),
}
OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, airflow_database: Path) -> Iterator[TestClient]:
    """A page with an act of each role; `X-Person` says who has signed in."""
    airflow_app.create_auth_manager()
    monkeypatch.setattr(reports, "approvers_of", lambda _: ("approver",))
    app = FastAPI()

    @app.post("/work")
    def work(user: acting.Worker) -> str:
        return acting.name_of(user)

    @app.post("/sign")
    def sign(user: acting.Signer) -> str:
        return acting.name_of(user)

    def person(request: Request) -> Any:
        return PEOPLE[request.headers["x-person"]]

    app.dependency_overrides[access.get_user] = person
    yield TestClient(app)


def act(page: TestClient, path: str, who: str, *, headers: dict[str, str] = OWN, **form: str) -> int:
    fields = {"sync": "settlement", "token": acting.token_of(PEOPLE[who])} | form
    return page.post(path, data=fields, headers={"X-Person": who, **headers}).status_code


def test_operators_work_and_declared_approvers_sign_and_viewers_do_neither(page: TestClient) -> None:
    for path, who, answer in (
        ("/work", "viewer", 403),
        ("/work", "operator", 200),
        ("/work", "approver", 200),
        ("/sign", "viewer", 403),
        ("/sign", "operator", 403),
        ("/sign", "approver", 200),
    ):
        assert act(page, path, who) == answer, (path, who)


class _Numbered(SimpleAuthManagerUser):
    """As a login manager with a table of users has them."""

    def get_id(self) -> str:
        return "5"


def test_a_person_with_a_number_is_an_approver_by_it_and_acts_by_name(
    page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow keeps by name who starts a run and who answers a question: they are to be known as the same person."""
    monkeypatch.setitem(PEOPLE, "ann: b", _Numbered(username="ann: b", role="op"))
    for approvers, answer in ((("5",), 200), (("ann: b",), 403)):
        monkeypatch.setattr(reports, "approvers_of", lambda _, named=approvers: named)
        fields = {"sync": "settlement", "token": acting.token_of(PEOPLE["ann: b"])}
        found = page.post("/sign", data=fields, headers={"X-Person": "ann: b", **OWN})
        assert found.status_code == answer
        assert answer == 403 or found.json() == "ann b"


def test_whoever_airflow_lets_answer_signs_where_no_approver_is_declared(
    page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "approvers_of", lambda _: ())
    assert (act(page, "/sign", "operator"), act(page, "/sign", "viewer")) == (200, 403)


def test_an_act_without_the_token_of_its_person_is_refused(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    of_another = acting.token_of(PEOPLE["approver"])
    forged = URLSafeTimedSerializer("another key", salt="seamline page act").dumps("operator")
    for token in ("", "operator", of_another, forged, acting.token_of(PEOPLE["operator"]) + "x"):
        assert act(page, "/work", "operator", token=token) == 403, token
    monkeypatch.setattr(acting, "TOKEN_SECONDS", -1)
    assert act(page, "/work", "operator") == 403


def test_an_act_that_another_page_has_made_a_browser_send_is_refused(page: TestClient) -> None:
    own = {"Host": "seamline.bank", "Origin": "https://seamline.bank"}
    for headers, answer in (
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({}, 403),
        ({"Host": "seamline.bank", "Origin": "null"}, 403),
        ({**own, "Origin": "https://seamline.bank.evil"}, 403),
        ({**own, "Sec-Fetch-Site": "cross-site"}, 403),
        (own, 200),
    ):
        assert act(page, "/work", "operator", headers=headers) == answer, headers


def test_a_program_with_credentials_of_its_own_needs_no_token(page: TestClient) -> None:
    headers = {"X-Person": "operator", "Authorization": "Bearer x"}
    assert page.post("/work", data={"sync": "settlement"}, headers=headers).status_code == 200
    # Signing in by a password that the browser keeps is none of a program's.
    headers["Authorization"] = "Basic x"
    assert page.post("/work", data={"sync": "settlement"}, headers=headers).status_code == 403


def test_a_sync_of_no_name_is_refused(page: TestClient) -> None:
    assert act(page, "/work", "operator", sync="../x") == 422


def test_a_file_that_does_not_say_who_signs_lets_nobody_sign(tmp_path: Path) -> None:
    (tmp_path / "syncs").mkdir()
    file = tmp_path / "syncs" / "s.yaml"
    for text, approvers in (
        ("name: s\nreconcile: {approvers: [ann, bo]}\n", ("ann", "bo")),
        ("name: s\nreconcile: {on_break: ask}\n", ()),
        ("name: s\n", ()),
        ("name: s\nreconcile: {approvers: ann}\n", None),
        ("name: s\nreconcile: {approvers: [1]}\n", None),
        ("name: [s\nreconcile: {approvers: [ann]}\n", None),
    ):
        file.write_text(text)
        if approvers is None:
            with pytest.raises(ConfigError, match="does not say who signs"):
                declared_approvers(tmp_path, "s")
        else:
            assert declared_approvers(tmp_path, "s") == approvers
    with pytest.raises(ConfigError, match="no sync file"):
        declared_approvers(tmp_path, "t")


def test_a_person_whose_form_is_not_taken_reads_why_and_comes_back_and_a_program_gets_json(
    signed_in: TestClient, platform: results.Platform
) -> None:
    """A page that was left open overnight answered its forms with bare JSON."""
    person = {"Accept": "text/html,*/*;q=0.8", "Sec-Fetch-Site": "same-origin"}
    form = {"sync": "settlement", "token": "of yesterday", "business_date": "2026-11-19"}
    before = {"Referer": "http://testserver/seamline/page?sync=settlement&business_date=2026-11-19"}
    for answer, status, said in (
        (signed_in.post("/restate", data=form, headers={**person, **before}), 403, "load its page again"),
        (signed_in.get("/page?sync=settlement&before=x", headers={**person, **before}), 422, "not understood: before"),
    ):
        assert answer.status_code == status and said in answer.text and "Nothing was changed" in answer.text
        assert 'href="page?sync=settlement&amp;business_date=2026-11-19"' in answer.text
    for elsewhere in ("http://evil.example/page?x", "http://testserver/javascript:alert(1)", "http://[", ""):
        answer = signed_in.post("/restate", data=form, headers={**person, "Referer": elsewhere})
        assert answer.status_code == 403 and '<a href="page">Back' in answer.text, elsewhere
    asked = signed_in.post("/restate", data=form, headers={"Sec-Fetch-Site": "same-origin"})
    assert (asked.status_code, asked.json()["detail"]) == (403, "the form has no valid token: load its page again")
