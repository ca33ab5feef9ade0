"""Files on the page of a break: attached by one form, taken away by another, whatever their names and bytes are."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from httpx import Response

from seamline.domain.attachment import BYTES_MAX
from seamline.platform.audit import entries
from seamline.platform.store import PlatformStore
from seamline_airflow.page import acting
from tests.dags.test_page_acting import OWN, PEOPLE
from tests.dags.test_page_routes import BEARER, faults_of_page
from tests.dags.test_page_work import _server as _server
from tests.dags.test_page_work import identity, save, shown
from tests.dags.test_page_work import page as page
from tests.dags.test_page_work import store as store
from tests.integration.platform_database import Server

NAME = '../"><script>alert(1)</script>\u202e\r\nX: y.html'


def sent(page: TestClient, key: str, name: str, content: bytes, *, who: str = "operator", **headers: str) -> Response:
    form = {"token": acting.token_of(PEOPLE[who]), "sync": "settlement", "id": identity(key)}
    return page.post(
        "/attach", data=form, files={"file": (name, content)}, headers={"X-Person": who, **OWN, **headers},
        follow_redirects=False,
    )  # fmt: skip


def taken(page: TestClient, key: str, number: str, who: str = "operator") -> Response:
    form = {"token": acting.token_of(PEOPLE[who]), "sync": "settlement", "id": identity(key), "number": number}
    return page.post("/attachment", data=form, headers={"X-Person": who, **OWN})


def numbers(text: str) -> list[str]:
    return re.findall(r'name="number" value="(\d+)"', text)


def logged(server: Server, kind: str) -> Iterator[str]:
    with closing(server.open()) as session, session.transaction():
        yield from [one.document for one in entries(session, "kind = %s", (kind,))]


def test_a_file_is_attached_in_versions_and_taken_away_as_it_was_and_both_are_in_the_log(
    page: TestClient, _server: Server
) -> None:
    first, second = b"%PDF-1.7 first", b"%PDF-1.7 second"
    for content in (first, first, second):
        answer = sent(page, "one", "letter.pdf", content)
        assert (answer.status_code, answer.headers["location"]) == (303, f"break?sync=settlement&id={identity('one')}")
    text = shown(page)
    assert re.findall(r"<td>attached</td>\s*<td class=.said.>([^<]+)<", text) == [
        "letter.pdf, version 2",
        "letter.pdf, version 1",
    ]
    newest, oldest = numbers(text)
    for number, content in ((newest, second), (oldest, first)):
        answer = taken(page, "one", number, "approver")
        assert answer.content == content
        exported = list(logged(_server, "exported"))[-1]
        assert hashlib.sha256(content).hexdigest() in exported and '"file":"letter.pdf"' in exported
    assert taken(page, "two", newest).status_code == 404, "it is of another break"
    by_rest = f"/api/v1/syncs/settlement/breaks/{identity('one')}/files/{oldest}"
    assert page.post(by_rest, headers={"X-Person": "operator", **BEARER}).content == first
    third = {"files": {"file": ("letter.pdf", b"%PDF-1.7 third")}, "headers": {"X-Person": "operator", **BEARER}}
    put = page.post(f"/api/v1/syncs/settlement/breaks/{identity('two')}/files", **third)
    assert (put.status_code, [(one["name"], one["version"]) for one in put.json()]) == (201, [("letter.pdf", 1)])
    rest = page.get(f"/api/v1/syncs/settlement/breaks/{identity('one')}").json()["files"]
    assert [(one["name"], one["version"], one["size"], one["who"]) for one in rest] == [
        ("letter.pdf", 2, len(second), "operator"),
        ("letter.pdf", 1, len(first), "operator"),
    ]


def test_a_viewer_sees_that_there_is_a_file_and_neither_attaches_nor_takes_one(
    page: TestClient, store: PlatformStore
) -> None:
    save(store, "three")
    sent(page, "three", "a.txt", b"x")
    (number,) = numbers(shown(page, "three"))
    for answer in (sent(page, "three", "b.txt", b"x", who="viewer"), taken(page, "three", number, "viewer")):
        assert answer.status_code == 403
    seen = page.get("/break", params={"sync": "settlement", "id": identity("three")}, headers={"X-Person": "viewer"})
    assert "a.txt" in seen.text and "<form" not in seen.text


def test_hostile_names_and_bytes_are_never_shown_by_a_browser(page: TestClient, store: PlatformStore) -> None:
    save(store, "four")
    html = b"<html><script>alert(1)</script>\0\xff"
    for name, content in ((NAME, html), ("evil.svg", b"<svg onload=alert(1)>"), (f"{'x' * 1_000}.html", html)):
        assert sent(page, "four", name, content).status_code == 303
    text = shown(page, "four")
    assert faults_of_page(text) == []
    assert len(numbers(text)) == 3
    for number in numbers(text):
        answer = taken(page, "four", number)
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert re.fullmatch(
            r"attachment; filename=\"[A-Za-z0-9._-]+\"; filename\*=UTF-8''[A-Za-z0-9._~%-]+",
            answer.headers["content-disposition"],
        )
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert any(taken(page, "four", number).content == html for number in numbers(text))


def test_a_file_that_is_empty_too_large_or_of_no_length_is_refused(page: TestClient, store: PlatformStore) -> None:
    save(store, "five")
    for name, content, status, said in (
        ("a.pdf", b"", 409, "is empty"),
        (" . ", b"x", 409, "no name"),
        ("a.pdf", bytes(BYTES_MAX + 1), 409, "at most 10,485,760 bytes"),
        ("a.pdf", bytes(2 * BYTES_MAX), 413, "at most 10,485,760 bytes"),
    ):
        answer = sent(page, "five", name, content)
        assert (answer.status_code, said in answer.text) == (status, True), answer.text
    parts = iter([b"token=", b"x"])
    assert page.post("/attach", content=parts, headers={"X-Person": "operator", **OWN}).status_code == 411
    assert numbers(shown(page, "five")) == []


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}])
def test_a_file_that_another_page_sends_is_refused(page: TestClient, headers: dict[str, str]) -> None:
    assert sent(page, "one", "a.pdf", b"x", **headers).status_code == 403


def test_a_name_of_any_script_is_saved_under_it(page: TestClient, store: PlatformStore) -> None:
    save(store, "six")
    sent(page, "six", "对账单.xlsx", b"PK")
    (number,) = numbers(shown(page, "six"))
    header = taken(page, "six", number).headers["content-disposition"]
    assert header == f"attachment; filename=\"___.xlsx\"; filename*=UTF-8''{quote('对账单.xlsx')}"
