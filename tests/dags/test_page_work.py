"""People work on breaks by the page alone: each act by a form, kept in a real platform database and its log."""

import html
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi import app as airflow_app
from fastapi import Request
from fastapi.testclient import TestClient
from httpx import Response

from seamline.domain.break_work import REASONS, WorkRules
from seamline.domain.severity import Severity
from seamline.domain.verdict import Break, BreakType, Verdict
from seamline.plan.document import plan_to_json
from seamline.platform import migrate
from seamline.platform.database import CONNECTION_ID, Database
from seamline.platform.store import PlatformStore
from seamline_airflow.page import access, acting, reports
from seamline_airflow.page.app import app
from tests.conftest import RunningStack
from tests.dags import results
from tests.dags.test_page import HOSTILE
from tests.dags.test_page_acting import OWN, PEOPLE
from tests.integration.known import known_by_id
from tests.integration.platform_database import Server, database_of_its_own, empty_tables, know_secret, stored_id

KEYS = ("one", "two", HOSTILE)


@pytest.fixture(scope="module")
def _server(stack: RunningStack) -> Iterator[Server]:
    with database_of_its_own("platform_of_work") as server:
        migrate.upgrade(server.open)
        know_secret(server)
        known = replace(stack.connection("postgres_root"), database=server.name)
        with known_by_id(known, CONNECTION_ID, "postgres"):
            yield server


@pytest.fixture
def store(_server: Server) -> Iterator[PlatformStore]:
    """With the cut of a date that has a break for each of `KEYS`."""
    with closing(PlatformStore(Database(_server.open))) as opened:
        save(opened, *KEYS)
        yield opened
    empty_tables(_server)


@pytest.fixture
def page(store: PlatformStore, airflow_database: Path) -> Iterator[TestClient]:
    """`X-Person` says who has signed in."""
    airflow_app.create_auth_manager()

    def person(request: Request) -> Any:
        return PEOPLE[request.headers["x-person"]]

    for dependency in access.SIGNED_IN:
        app.dependency_overrides[dependency.dependency] = person
    yield TestClient(app, headers={"X-Person": "operator"})
    app.dependency_overrides.clear()


def broken(key: str) -> Break:
    return Break("account", BreakType.VALUE, key, {"balance": "1"}, {"balance": "2"})


def save(store: PlatformStore, *keys: str, run_id: str = results.RUN, **fields: Any) -> None:
    verdict = Verdict.BREAK if keys else Verdict.MATCH
    table = results.table("account", verdict, breaks=tuple(map(broken, keys)), breaks_total=len(keys))
    store.start_run(
        run_id=run_id, sync="settlement", kind="nightly", plan_json=plan_to_json(results.plan()),
        business_date=results.DATE,
    )  # fmt: skip
    store.save_reconciliation(results.reconciliation(table, run_id=run_id, **fields))


def identity(key: str) -> str:
    return stored_id(broken(key))


def act(page: TestClient, doing: str, key: str = "one", *, who: str = "operator", **fields: str) -> Response:
    form = {"token": acting.token_of(PEOPLE[who]), "sync": "settlement", "id": identity(key), "doing": doing} | fields
    return page.post("/act", data=form, headers={"X-Person": who, **OWN}, follow_redirects=False)


def shown(page: TestClient, key: str = "one") -> str:
    answer = page.get("/break", params={"sync": "settlement", "id": identity(key)})
    assert answer.status_code == 200
    return answer.text


def forms(text: str) -> list[tuple[str, dict[str, str], list[str]]]:
    """Where each form that acts goes, its hidden fields, and what its buttons do."""
    return [
        (
            action,
            {name: html.unescape(of) for name, of in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', inside)},
            re.findall(r'<button name="doing" value="([^"]+)"', inside),
        )
        for action, inside in re.findall(r'<form action="(\w+)" method="post"[^>]*>(.*?)</form>', text, re.DOTALL)
    ]


def test_a_break_is_assigned_explained_and_closed_by_the_forms_of_its_own_page(page: TestClient) -> None:
    offered = forms(shown(page))
    assert {action for action, _, _ in offered} == {"act", "attach"}
    assert [doing for _, _, buttons in offered for doing in buttons] == ["assign", "explain", "comment"]
    for doing, fields in (
        ("assign", {"owner": "olga"}),
        ("comment", {"comment": "first line\r\nsecond"}),
        ("explain", {"reason": "source", "comment": "corrected there"}),
        ("close", {"comment": "done"}),
    ):
        hidden = next(hidden for _, hidden, buttons in forms(shown(page)) if doing in buttons)
        answer = page.post("/act", data={**hidden, "doing": doing, **fields}, headers=OWN, follow_redirects=False)
        assert (answer.status_code, answer.headers.get("location")) == (
            303, f"break?sync=settlement&id={identity('one')}",
        )  # fmt: skip
    text = shown(page)
    assert re.findall(r"<td>operator</td><td>([^<]+)</td>", text) == [
        "break closed", f"explained: {REASONS[1].text}", "commented", "assigned to olga",
    ]  # fmt: skip
    assert "closed</span>" in text and "first line\nsecond" in text
    assert [buttons for action, _, buttons in forms(text) if action == "act"] == [["comment"]]


def test_what_is_not_possible_is_said_with_the_way_back_and_changes_nothing(page: TestClient) -> None:
    for doing, fields, said in (
        ("close", {"comment": "done"}, "explain it first"),
        ("explain", {"reason": "odd"}, "is no reason of this sync"),
        ("explain", {"reason": "other"}, "needs a comment"),
        ("comment", {"comment": " \r\n"}, "the comment is empty"),
        ("assign", {"owner": " "}, "name the person"),
    ):
        answer = act(page, doing, **fields)
        assert (answer.status_code, said in html.unescape(answer.text)) == (409, True), (doing, answer.text)
        assert f'href="break?sync=settlement&amp;id={identity("one")}"' in answer.text
    assert act(page, "odd").status_code == 422
    assert "Nobody has done anything about it" in shown(page)


def test_a_viewer_sees_what_was_done_and_can_do_nothing(page: TestClient) -> None:
    act(page, "assign", owner="olga")
    for path, params in (
        ("/break", {"sync": "settlement", "id": identity("one")}),
        ("/breaks", {"sync": "settlement", "run": results.RUN}),
    ):
        text = page.get(path, params=params, headers={"X-Person": "viewer"}).text
        assert "olga" in text and forms(text) == []
        assert forms(page.get(path, params=params).text)
    assert act(page, "comment", who="viewer", comment="x").status_code == 403
    on_all = {"token": acting.token_of(PEOPLE["viewer"]), "sync": "settlement", "run": results.RUN,
              "destination": "warehouse", "doing": "comment", "comment": "x"}  # fmt: skip
    assert page.post("/act_on_all", data=on_all, headers={"X-Person": "viewer", **OWN}).status_code == 403
    assert "commented" not in shown(page)


def test_an_act_without_its_token_or_from_another_page_is_refused(page: TestClient) -> None:
    form = {"sync": "settlement", "id": identity("one"), "doing": "comment", "comment": "x"}
    on_all = {**form, "run": results.RUN, "destination": "warehouse"}
    good = {"token": acting.token_of(PEOPLE["operator"])}
    for path, fields in (("/act", form), ("/act_on_all", on_all)):
        assert page.post(path, data=fields, headers=OWN).status_code == 403
        elsewhere = page.post(path, data=fields | good, headers={"Sec-Fetch-Site": "cross-site"})
        assert elsewhere.status_code == 403
        assert page.get(path, params=fields | good).status_code == 405
    assert "Nobody has done anything about it" in shown(page)


def test_all_breaks_of_a_filter_are_explained_at_once_and_the_page_says_how_many(page: TestClient) -> None:
    address = {"sync": "settlement", "run": results.RUN, "destination": "warehouse", "text": "o"}
    act(page, "explain", "two", reason="timing")
    text = page.get("/breaks", params={**address, "state": "open"}).text
    assert "Act on all 1 breaks of this filter" in text
    hidden = next(hidden for action, hidden, buttons in forms(text) if "explain" in buttons and action == "act_on_all")
    answer = page.post("/act_on_all", data={**hidden, "doing": "explain", "reason": "rounding"}, headers=OWN)
    assert answer.status_code == 200 and answer.request.method == "GET"
    assert "done with 1 break<" in answer.text and "No listed break is like that" in answer.text
    assert f"explained: {REASONS[3].text}" in shown(page, "one")
    assert "open</span>" in shown(page, HOSTILE)
    everything = page.get("/breaks", params={"sync": "settlement", "run": results.RUN, "of": "-"}).text
    assert "1 open" in everything and "2 explained" in everything
    assert "all breaks explained or tolerated" not in everything
    act(page, "explain", HOSTILE, reason="timing")
    assert "all breaks explained or tolerated" in page.get("/breaks", params=address).text
    wrong = page.post("/act_on_all", data={**hidden, "run": "another", "doing": "comment"}, headers=OWN)
    assert wrong.status_code == 404


def test_the_page_says_that_a_break_has_closed_itself_and_by_which_comparison(
    page: TestClient, store: PlatformStore
) -> None:
    act(page, "assign", owner="olga")
    later = results.clean().ended_at.replace(hour=23)
    second = f"{results.RUN}~2"
    save(store, "two", run_id=second, ended_at=later)
    text = shown(page)
    assert "closed</span>" in text and "the comparison has it no more" in text
    assert re.findall(r"<td>(comparison|operator)</td><td>([^<]+)</td>", text) == [
        ("comparison", "break closed"),
        ("operator", "assigned to olga"),
    ]
    assert f"run={second}" in html.unescape(text)
    save(store, *KEYS, run_id=f"{results.RUN}~3", ended_at=later.replace(minute=59))
    assert "found again" in shown(page) and "with <strong>olga" in shown(page)


def test_a_break_is_assigned_to_nobody_whom_airflow_does_not_know(
    page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any name was taken, so a break could wait for somebody who does not exist."""
    answer = act(page, "assign", owner="ghost")
    assert answer.status_code == 409 and "nobody is called ghost" in answer.text
    assert "approver, olga, operator, viewer" in answer.text.replace("Airflow knows ", "")
    assert re.findall(r'<option value="(\w+)"></option>', shown(page)) == ["approver", "olga", "operator", "viewer"]
    # A person who was spelled in another way is that person.
    assert act(page, "assign", owner="OLGA").status_code == 303
    assert "with <strong>olga" in shown(page) and "does not say who" not in shown(page)
    monkeypatch.setattr(access, "users", lambda: None)
    assert "does not say who its users are: the name is not checked" in html.unescape(shown(page))
    assert act(page, "assign", owner="ghost").status_code == 303


def test_hostile_names_and_comments_are_shown_and_never_act(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "users", lambda: None)  # nobody says whether there is such a person
    act(page, "assign", HOSTILE, owner=HOSTILE)
    act(page, "comment", HOSTILE, comment=f"{HOSTILE}\0")
    of_run = {"sync": "settlement", "run": results.RUN, "destination": "warehouse"}
    for text in (
        shown(page, HOSTILE),
        page.get("/breaks", params={**of_run, "text": HOSTILE, "of": HOSTILE.replace(":", " ")}).text,
        act(page, "explain", HOSTILE, reason=HOSTILE).text,
        page.get("/breaks", params={**of_run, "of": HOSTILE}).text,
    ):
        assert "&lt;script&gt;" in text and "<script" not in text and "{{7*7}}" in html.unescape(text)
    assert page.get("/breaks", params={**of_run, "state": HOSTILE}).status_code == 422


def test_the_report_of_a_date_has_the_ages_of_its_breaks_and_who_is_done_with_them(page: TestClient) -> None:
    of_date = {"sync": "settlement", "business_date": results.DATE.isoformat()}
    text = page.get("/page", params=of_date).text
    assert "Breaks by age" in text and re.search(r"<td>0–1 days</td><td class=.n.>3</td>", text)
    assert "3 open" in text and "all breaks explained or tolerated" not in text
    assert "<title>breaks by age: 0–1 days 3</title>" in text
    for key in KEYS:
        act(page, "explain", key, reason="timing")
    text = page.get("/page", params=of_date).text
    assert "all breaks explained or tolerated" in text and "3 explained" in text
    assert 'class="verdict BREAK big"' in text, "the verdict stays what it is"


def test_the_overview_says_what_waits_for_whom_with_what_is_late_first_and_escalates_it(
    page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = timedelta(hours=1)
    rules = WorkRules(severity=(Severity("old", 24 * hours, age=hours, escalate_to="approver"),))
    monkeypatch.setattr(reports, "shown_rules", lambda _: rules)

    def seen_by(who: str) -> str:
        return page.get("/page", headers={"X-Person": who}).text

    assert "Breaks that wait for you" not in seen_by("operator")
    act(page, "assign", "one", owner="operator")
    act(page, "assign", HOSTILE, owner="operator")
    text = seen_by("operator")
    assert "2 open breaks are assigned to you" in text
    late = re.findall(r"late for [0-9,]+ h[^<]*</strong>, old: <a href=.break[?]sync=settlement&amp;id=(\w+)", text)
    assert set(late) == {identity("one"), identity(HOSTILE)}
    assert "<script" not in text and "escalated" not in text
    escalated = seen_by("approver")
    assert "0 open breaks are assigned to you" in escalated
    assert (escalated.count("escalated"), escalated.count("escalated, with operator")) == (3, 2)
    assert "Breaks that wait for you" not in seen_by("viewer")
    act(page, "explain", "one", reason="timing")
    assert "1 open break is assigned to you" in seen_by("operator")
    assert seen_by("approver").count("escalated") == 2
