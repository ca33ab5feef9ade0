"""Signatures on the page, from the form to the log of acts, on a real platform database."""

import html
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi import app as airflow_app
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi import Request
from fastapi.testclient import TestClient

from seamline import registry
from seamline.cli.main import main
from seamline.domain.date_before import SinceCut
from seamline.domain.ledger import StreamId
from seamline.domain.made_from import BY_LOG
from seamline.domain.runs import PUBLISH
from seamline.domain.sign_off import ReasonRequired
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import NightlyPlan
from seamline.platform import migrate
from seamline.platform.audit import entries
from seamline.platform.database import CONNECTION_ID, Database
from seamline.platform.store import PlatformStore
from seamline.sync.source_watch import SOURCE_UNREACHABLE
from seamline_airflow.page import access, acting, dag_runs, reports
from seamline_airflow.page.app import app
from tests.conftest import RunningStack
from tests.dags.page_texts import flowing
from tests.dags.test_page import HOSTILE, WORKED_OUT
from tests.dags.test_page_routes import BEARER
from tests.integration.known import known_by_id
from tests.integration.platform_database import Server, database_of_its_own, know_secret, plan
from tests.integration.test_signatures import DAY, faults, found, later_night, publish, tamper

ROLES = {"viewer": "viewer", "operator": "op", "approver": "op", "second": "op"}
PEOPLE = {name: SimpleAuthManagerUser(username=name, role=role) for name, role in ROLES.items()}
DATE = f"/page?sync=settlement&business_date={DAY}"


@pytest.fixture(scope="module")
def template() -> Iterator[tuple[Server, Server]]:
    with database_of_its_own("page_signing_test_migrated") as migrated:
        migrate.upgrade(migrated.open)
        know_secret(migrated)
        yield migrated, Server("page_signing_test")


@pytest.fixture
def server(template: tuple[Server, Server], stack: RunningStack) -> Iterator[Server]:
    """Its own for each test, found by its connection id: nothing can empty what was signed."""
    migrated, server = template
    server.admin(f"drop database if exists {server.name} with (force)")
    server.admin(f"create database {server.name} template {migrated.name}")
    with known_by_id(replace(stack.connection("postgres_root"), database=server.name), CONNECTION_ID, "postgres"):
        yield server
    server.admin(f"drop database if exists {server.name} with (force)")


@pytest.fixture
def store(server: Server) -> Iterator[PlatformStore]:
    with closing(PlatformStore(Database(server.open))) as store:
        yield store


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, airflow_database: Path) -> Iterator[TestClient]:
    """`X-Person` says who has signed in."""
    airflow_app.create_auth_manager()
    monkeypatch.setattr(reports, "approvers_of", lambda _: ("approver", "second"))

    def person(request: Request) -> Any:
        return PEOPLE[request.headers["x-person"]]

    app.dependency_overrides[access.get_user] = person
    yield TestClient(app, follow_redirects=False)
    app.dependency_overrides.clear()


def seen(page: TestClient, who: str, path: str = DATE) -> str:
    answer = page.get(path, headers={"X-Person": who})
    assert answer.status_code == 200, answer.text
    return answer.text


def forms(text: str, action: str) -> list[dict[str, str | list[str]]]:
    """What each form for this act would send, as it stands there."""
    found: list[dict[str, str | list[str]]] = []
    for form in re.findall(rf'<form method="post" action="{action}".*?</form>', text, re.DOTALL):
        fields: dict[str, str | list[str]] = {}
        for field in re.findall(r"<input ([^>]*)>", form):
            name, value = re.search(r'name="(\w+)"', field), re.search(r'value="([^"]*)"', field)
            assert name
            given = html.unescape(value.group(1)) if value else ""
            before = fields.get(name.group(1), [])
            fields[name.group(1)] = [*before, given] if 'type="checkbox"' in field else given
        found.append(fields)
    return found


def send(page: TestClient, who: str, act: str, form: dict[str, Any], **changed: Any) -> tuple[int, str]:
    headers = {"X-Person": who, "Sec-Fetch-Site": "same-origin"}
    answer = page.post(f"/{act}", data={**form, **changed}, headers=headers)
    return answer.status_code, answer.headers.get("location", "") or answer.text


def log(server: Server) -> list[tuple[str, str, str]]:
    with server.open() as session, session.transaction():
        return [(one.kind, one.who, one.origin) for one in entries(session, "kind in ('signed', 'reopened')", ())]


def test_a_date_is_prepared_signed_re_opened_by_another_person_and_signed_again(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    publish(store, verdict=Verdict.BREAK)
    assert "prepared by scheduler at" in seen(page, "approver") and "waits for a signature" in seen(page, "approver")
    (form,) = forms(seen(page, "approver"), "sign")
    assert send(page, "approver", "sign", form)[0] == 409  # without a reason
    assert send(page, "approver", "sign", form, reason="two rows, known") == (303, DATE.removeprefix("/"))
    text = seen(page, "second")
    assert "signed by approver at" in text and "two rows, known" in text and not forms(text, "sign")
    # Who has signed does not re-open, and has no form for it.
    assert not forms(seen(page, "approver"), "reopen")
    (again,) = forms(text, "reopen")
    token = acting.token_of(PEOPLE["approver"])
    status, text = send(page, "approver", "reopen", again, token=token, reason="x")
    assert status == 409 and "approver has signed it" in text
    assert send(page, "second", "reopen", again)[0] == 409
    assert send(page, "second", "reopen", again, reason="a payment came late")[0] == 303
    assert "re-opened by second at" in seen(page, "approver")
    assert "You have re-opened it" in seen(page, "second") and not forms(seen(page, "second"), "sign")
    (form,) = forms(seen(page, "approver"), "sign")
    assert send(page, "approver", "sign", form, reason="corrected")[0] == 303
    who = [("signed", "approver", "page"), ("reopened", "second", "page"), ("signed", "approver", "page")]
    assert (log(server), faults(server)) == (who, [])


def test_viewers_operators_and_who_asked_for_the_run_do_not_sign(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    publish(store, by="second")
    (form,) = forms(seen(page, "approver"), "sign")
    for who in ("viewer", "operator", "second"):
        assert not forms(seen(page, who), "sign")
        assert not forms(seen(page, who, "/page"), "sign_clean")
    for who, answer in (("viewer", 403), ("operator", 403), ("second", 409)):
        own = acting.token_of(PEOPLE[who])
        assert send(page, who, "sign", form, token=own)[0] == answer, who
    assert "second asked for this run" in send(page, "second", "sign", form, token=own)[1]
    # The form of somebody else, and none at all.
    assert send(page, "second", "sign", form)[0] == 403
    assert send(page, "approver", "sign", form, token="")[0] == 403
    assert send(page, "viewer", "reopen", form, token=acting.token_of(PEOPLE["viewer"]))[0] == 403
    assert log(server) == []


def test_a_cut_that_the_log_has_left_transactions_out_of_says_so_and_is_signed_by_itself_with_a_reason(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    late = [{"position": "0-1-7", "committed": "2026-03-01T23:59:59", "changes": changes} for changes in (4, 5)]
    publish(store, evidence={BY_LOG: {"late_total": 2, "late": late}})
    said = "left out of the cut by the log: 2 transactions with 9 changes of rows"
    assert said in seen(page, "approver") and said in seen(page, "approver", "/page")
    assert not forms(seen(page, "approver", "/page"), "sign_clean")
    (form,) = forms(seen(page, "approver"), "sign")
    assert send(page, "approver", "sign", form)[0] == 409
    assert send(page, "approver", "sign", form, reason="posted tomorrow") == (303, DATE.removeprefix("/"))
    exported = f"?sync=settlement&business_date={DAY}"
    (cut,) = page.get(f"/export.json{exported}", headers={"X-Person": "second"}).json()
    assert cut["sign_off"]["left_out"].startswith(said) and cut["sign_off"]["late"] == []
    (known,) = page.get("/api/v1/syncs/settlement/signatures", headers={"X-Person": "viewer"}).json()
    assert known["left_out_in_words"].startswith(said)


def test_dates_that_the_log_has_left_something_out_of_are_signed_together_by_one_reason_each_by_its_own_verdict(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    def left_out(day: int, total: int = 1, **cut: Any) -> None:
        late = [{"position": f"0-1-{day}", "committed": f"2026-03-0{day}T23:59:59", "changes": 40 + day}]
        publish(store, f"r{day}", evidence={BY_LOG: {"late_total": total, "late": late}},
                business_date=date(2026, 3, day), **cut)  # fmt: skip

    left_out(1), left_out(2), left_out(3)
    left_out(4, total=101)
    left_out(5, verdict=Verdict.BREAK)
    publish(store, "r6", business_date=date(2026, 3, 6))
    text = seen(page, "approver", "/page")
    (form,) = forms(text, "sign_left_out")
    (clean,) = forms(text, "sign_clean")
    takes = form["take"]
    assert isinstance(takes, list) and [take[:10] for take in takes] == [f"2026-03-0{day}" for day in (1, 2, 3)]
    boxes = re.search(r'action="sign_left_out".*?</form>', text, re.DOTALL)
    assert boxes and "checked" not in boxes[0] and "required" in boxes[0]
    assert all(f"<code>0-1-{day}</code></td><td>2026-03-0{day}T23:59:59" in boxes[0] for day in (1, 2, 3))
    assert send(page, "approver", "sign_left_out", form)[0] == 409, "without a reason"
    for slipped in clean["take"]:
        assert send(page, "approver", "sign_left_out", form, take=[*takes, slipped], reason="x")[0] == 409
        assert send(page, "approver", "sign_clean", form, take=[takes[0], slipped], reason="x")[0] == 409
    other = f"{takes[0][:13]}{'0' * 64} warehouse"
    assert (
        "another one than the one that you have seen"
        in send(page, "approver", "sign_left_out", form, take=[takes[1], other], reason="x")[1]
    )
    assert log(server) == []
    assert send(page, "approver", "sign_left_out", form, take=takes[:2], reason="posted the next day") == (303, "page")
    with server.open() as session, session.transaction():
        signed = [one.document for one in entries(session, "kind = 'signed'", ())]
    assert len(signed) == 2
    for take, document in zip(takes, signed, strict=False):
        assert f'"verdict_hash":"{take.split(" ")[2]}"' in document and "posted the next day" in document
    headers = {"X-Person": "approver", "Authorization": "Bearer of this person"}
    known = page.get("/api/v1/syncs/settlement/signatures", headers=headers).json()
    (third,) = [one for one in known if one["goes_by_one_reason"]]
    assert third["left_out_transactions"] == [{"position": "0-1-3", "committed": "2026-03-03T23:59:59", "changes": 43}]
    version = {name: third[name] for name in ("business_date", "destination", "version", "verdict_hash")}
    rest = "/api/v1/syncs/settlement/signatures/left_out"
    assert page.post(rest, json={"takes": [version], "reason": ""}, headers=headers).status_code == 409
    answer = page.post(rest, json={"takes": [version], "reason": "as well"}, headers=headers)
    assert (answer.status_code, [one["state"] for one in answer.json()]) == (200, ["signed"])
    assert faults(server) == []


def test_a_form_that_is_older_than_the_verdict_signs_nothing(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    publish(store)
    (form,) = forms(seen(page, "approver"), "sign")
    assert send(page, "approver", "sign", form, verdict_hash="0" * 64)[0] == 409
    for field, value in (
        ("version", "0"),
        ("version", "x"),
        ("verdict_hash", "x"),
        ("business_date", "x"),
        ("destination", ""),
    ):
        assert send(page, "approver", "sign", form, **{field: value})[0] == 422, field
    publish(store, "r2", version=2)
    status, text = send(page, "approver", "sign", form)
    assert status == 409 and "restated by version 2" in text
    assert log(server) == []


def test_clean_dates_are_signed_together_and_one_that_is_not_clean_never_with_them(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    days = [date(2026, 3, day) for day in (1, 2, 3)]
    for number, day in enumerate(days):
        publish(store, f"r{number}", business_date=day)
    broken = publish(store, "r9", Verdict.BREAK, business_date=date(2026, 3, 4))
    (form,) = forms(seen(page, "approver", "/page"), "sign_clean")
    takes = form["take"]
    assert isinstance(takes, list) and [take[:10] for take in takes] == [str(day) for day in days]
    (other,) = forms(seen(page, "approver", f"/page?sync=settlement&business_date={broken.business_date}"), "sign")
    slipped = f"{broken.business_date} 1 {other['verdict_hash']} warehouse"
    status, text = send(page, "approver", "sign_clean", form, take=[*takes, slipped])
    assert status == 409 and "is not clean (BREAK)" in text and log(server) == []
    status, text = send(page, "approver", "sign_clean", form, take=[])
    assert status == 409 and "no date is chosen" in text
    for wrong in ("", "2026-03-01", f"2026-99-99 1 {'0' * 64} warehouse"):
        assert send(page, "approver", "sign_clean", form, take=[wrong])[0] == 422
    assert send(page, "approver", "sign_clean", form, take=takes[:2]) == (303, "page")
    assert log(server) == [("signed", "approver", "page")] * 2
    text = seen(page, "approver", "/page")
    assert text.count("✓ signed</small>") == 2
    (left,) = forms(text, "sign_clean")
    assert left["take"] == takes[2:] and "2026-03-04" in text.partition("<h2>Verdicts that are awaited")[0]
    assert faults(server) == []


def test_a_reason_is_wanted_for_clean_dates_too_where_the_declaration_says_so(
    page: TestClient, store: PlatformStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store)
    monkeypatch.setattr(reports, "reason_required", lambda _: ReasonRequired.ALWAYS)
    text = seen(page, "approver")
    assert 'name="reason" size="50" maxlength="2000" required' in text
    (form,) = forms(text, "sign")
    assert send(page, "approver", "sign", form)[0] == 409
    assert send(page, "approver", "sign", form, reason="checked")[0] == 303


def test_a_newer_version_restates_a_signed_one_and_waits_by_itself(page: TestClient, store: PlatformStore) -> None:
    publish(store)
    (form,) = forms(seen(page, "approver"), "sign")
    send(page, "approver", "sign", form)
    publish(store, "r2", version=2)
    assert "version 1 signed by approver at" in seen(page, "second")
    assert "restated by version 2, prepared by scheduler" in seen(page, "second")
    assert "; restated by version 2" in seen(page, "second", f"{DATE}&run=r1")
    overview = seen(page, "second", "/page")
    assert "restated</small>" in overview and not forms(overview, "sign_clean")


def test_rows_that_come_late_for_a_signed_date_are_said_everywhere_and_another_take_is_held_against_what_was_signed(
    page: TestClient, store: PlatformStore, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(store)
    (form,) = forms(seen(page, "approver"), "sign")
    send(page, "approver", "sign", form)
    late = "account: late rows: 2 since its cut, version 1"
    later_night(store, "r2", SinceCut("account", DAY.isoformat(), 1, rows_in_cut=3, rows_now=5))
    assert f"Late for a signed date: {late}" in seen(page, "viewer")
    overview = seen(page, "viewer", "/page")
    assert "signed, late rows</small>" in overview and f"Late for a signed date: {late}" in overview
    main(["report", "settlement", "--date", str(DAY)])
    assert "rows came late" in (text := capsys.readouterr().out) and late in " ".join(text.split())
    # Compared, and not published.
    store.start_run(run_id="r3", sync="settlement", kind="nightly", plan_json=plan_to_json(plan()), business_date=DAY)
    store.save_reconciliation(found("r3"))
    publish(store, "r4", Verdict.BREAK, version=2)
    text = seen(page, "viewer", f"{DATE}&run=r4")
    assert "Since version 1, which approver has signed" in text and "Late for" not in text


def test_a_signed_date_is_taken_again_by_a_run_of_its_nights_for_a_reason(
    page: TestClient, store: PlatformStore, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []

    def start(dag_id: str, *, by: str, conf: dict[str, str]) -> str:
        started.append((dag_id, by, conf))
        return "manual__1"

    monkeypatch.setattr(dag_runs, "start", start)
    publish(store)
    assert not forms(seen(page, "operator"), "restate")
    (form,) = forms(seen(page, "approver"), "sign")
    send(page, "approver", "sign", form)
    assert not forms(seen(page, "viewer"), "restate")
    (form,) = forms(seen(page, "operator"), "restate")
    assert send(page, "viewer", "restate", form, token=acting.token_of(PEOPLE["viewer"]))[0] == 403
    assert send(page, "operator", "restate", form)[0] == 409
    assert started == []
    assert send(page, "operator", "restate", form, reason="a payment\ncame late") == (
        303,
        f"{DATE}&asked=manual__1"[1:],
    )
    # The run has not begun, so the page has nothing else of it.
    text = seen(page, "operator", f"{DATE}&asked=manual__1")
    assert "A new version was asked for" in text and f"settlement/nightly/{DAY}/manual__1" in text
    assert "asked for" not in seen(page, "operator")
    assert page.get(f"{DATE}&asked=<b>", headers={"X-Person": "operator"}).status_code == 422
    asked = {"business_date": str(DAY), "reason": "a payment came late"}
    assert started == [("settlement__nightly", "operator", asked)]
    with server.open() as session, session.transaction():
        (entry,) = entries(session, "kind = 'restatement asked'", ())
    assert (entry.who, entry.origin) == ("operator", "page")
    assert "signed by approver" in seen(page, "viewer")
    assert faults(server) == []


def test_a_file_is_attached_to_a_date_and_read_only_once_it_is_signed(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    publish(store)
    form = {"sync": "settlement", "business_date": str(DAY), "run": "r1", "destination": "warehouse"}

    def attach(content: bytes, who: str = "operator") -> Any:
        headers = {"X-Person": who, "Sec-Fetch-Site": "same-origin"}
        named = {**form, "token": acting.token_of(PEOPLE[who])}
        return page.post("/attach_to_date", data=named, files={"file": ("letter.pdf", content)}, headers=headers)

    assert 'action="attach_to_date"' in seen(page, "operator") and 'action="attach_to_date"' not in seen(page, "viewer")
    assert attach(b"x", "viewer").status_code == 403
    for content in (b"first", b"second"):
        answer = attach(content)
        assert (answer.status_code, answer.headers["location"]) == (303, f"{DATE.removeprefix('/')}&run=r1")
    text = seen(page, "viewer")
    assert text.count("letter.pdf") == 2 and 'action="attachment_of_date"' not in text
    number = re.findall(r'name="number" value="(\d+)"', seen(page, "operator"))[0]
    named = {**form, "token": acting.token_of(PEOPLE["operator"]), "number": number}
    headers = {"X-Person": "operator", "Sec-Fetch-Site": "same-origin"}
    answer = page.post("/attachment_of_date", data=named, headers=headers)
    assert (answer.status_code, answer.content) == (200, b"second")
    found = page.get(f"/api/v1/syncs/settlement/dates/{DAY}/files", headers={"X-Person": "operator"}).json()
    assert [(one["name"], one["version"], one["cut_version"], one["destination"]) for one in found] == [
        ("letter.pdf", 2, 1, "warehouse"),
        ("letter.pdf", 1, 1, "warehouse"),
    ]
    # By REST as on the page.
    rest, asks = f"/api/v1/syncs/settlement/dates/{DAY}/files", {"X-Person": "operator", **BEARER}
    version = {"destination": "warehouse", "version": 1}
    put = page.post(rest, params=version, files={"file": ("call.txt", b"agreed")}, headers=asks)
    assert (put.status_code, [one["name"] for one in put.json()]) == (201, ["call.txt", "letter.pdf", "letter.pdf"])
    taken = page.post(f"{rest}/{put.json()[0]['number']}", params=version, headers=asks)
    assert (taken.status_code, taken.content) == (200, b"agreed")
    other = page.post(rest, params={**version, "version": 2}, files={"file": ("x", b"x")}, headers=asks)
    assert other.status_code == 404
    (sign,) = forms(seen(page, "approver"), "sign")
    send(page, "approver", "sign", sign)
    assert 'action="attach_to_date"' not in seen(page, "operator") and "letter.pdf" in seen(page, "operator")
    assert attach(b"third").status_code == 409
    assert faults(server) == []


def test_a_source_that_is_away_is_acknowledged_with_a_reason_and_a_new_deadline(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    publish(store)
    with closing(registry.director()) as director:
        director.want(StreamId("settlement", "warehouse"), plan_json=plan_to_json(plan()))
    store.raise_alarm(SOURCE_UNREACHABLE, "core_bank", "it does not answer")
    text = seen(page, "operator", "/page")
    assert "Sources that cannot be read" in text and "due in" in text
    (form,) = forms(text, "acknowledge_source")
    assert not forms(seen(page, "viewer", "/page"), "acknowledge_source")
    assert send(page, "viewer", "acknowledge_source", form, token=acting.token_of(PEOPLE["viewer"]))[0] == 403
    later = datetime.now(UTC) + timedelta(hours=5)
    good = {"until": f"{later:%Y-%m-%dT%H:%M}", "reason": f"its disk is changed {HOSTILE}"}
    for wrong in ({"reason": ""}, {"until": "2026-01-01T00:00"}, {"until": "2126-01-01T00:00"}, {"source": "other"}):
        assert send(page, "operator", "acknowledge_source", form, **{**good, **wrong})[0] == 409, wrong
    for _ in range(2):
        assert send(page, "operator", "acknowledge_source", form, **good) == (303, "page")
    text = flowing(seen(page, "viewer", "/page"))
    assert "acknowledged by operator at" in text and f"to be back by {later:%Y-%m-%d %H:%M}:00" in text
    assert "due in 4 h" in text and "<script" not in text
    with server.open() as session, session.transaction():
        assert len(list(entries(session, "kind = 'commented'", ()))) == 1
    # Another absence is another exception.
    store.end_alarm(SOURCE_UNREACHABLE, "core_bank")
    store.raise_alarm(SOURCE_UNREACHABLE, "core_bank", "it does not answer")
    assert "acknowledged by" not in seen(page, "viewer", "/page")
    assert faults(server) == []


def test_a_late_verdict_says_why_and_is_acknowledged_with_a_reason_and_stays_late(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    due = replace(plan(), nightly=NightlyPlan(timezone="UTC", verdict_by="00:00"))
    store.start_run(run_id="first", sync="settlement", kind="onboard", plan_json=plan_to_json(due))
    store.put_result("first", PUBLISH, {"warehouse": 1})
    with server.open() as session:
        session.execute("update run set started_at = now() - interval '10 days'")
    text = seen(page, "operator", "/page")
    assert "late for" in text and "no run of this date has begun" in text
    (form,) = forms(text, "acknowledge")
    assert not forms(seen(page, "viewer", "/page"), "acknowledge")
    assert send(page, "viewer", "acknowledge", form, token=acting.token_of(PEOPLE["viewer"]))[0] == 403
    assert send(page, "operator", "acknowledge", form)[0] == 409
    for _ in range(2):
        assert send(page, "operator", "acknowledge", form, reason=f"the source is away {HOSTILE}") == (303, "page")
    text = seen(page, "viewer", "/page")
    assert "acknowledged by operator at" in text and "late for" in text and "<script" not in text
    with server.open() as session, session.transaction():
        (entry,) = entries(session, "kind = 'commented'", ())
    assert (entry.who, entry.origin, entry.subject.sync) == ("operator", "page", "settlement")
    assert faults(server) == []


def test_hostile_reasons_and_names_are_text_wherever_they_are_shown(
    page: TestClient, store: PlatformStore, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PEOPLE, "approver", SimpleAuthManagerUser(username=HOSTILE, role="op"))
    monkeypatch.setattr(reports, "approvers_of", lambda _: (HOSTILE,))
    publish(store)
    (form,) = forms(seen(page, "approver"), "sign")
    assert send(page, "approver", "sign", form, reason=f"=1+1 {HOSTILE}\r\n\x1b[2J")[0] == 303
    assert send(page, "approver", "sign", form, reason="\0")[0] in (303, 409)
    for path in (DATE, "/page"):
        text = seen(page, "viewer", path)
        assert "<script" not in text and "{{7*7}}" in seen(page, "viewer") and not WORKED_OUT.search(text)
    assert log(server)[0][0] == "signed"


def test_every_form_of_the_report_has_the_sign_off(
    page: TestClient, store: PlatformStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(store)
    (form,) = forms(seen(page, "approver"), "sign")
    send(page, "approver", "sign", form, reason="=looked at")
    exported = f"?sync=settlement&business_date={DAY}"
    headers = {"X-Person": "second"}
    (cut,) = page.get(f"/export.json{exported}", headers=headers).json()
    assert (cut["sign_off"]["state"], cut["sign_off"]["acts"][0]["who"]) == ("signed", "approver")
    assert cut["sign_off"]["acts"][0]["verdict_hash"] == form["verdict_hash"]
    with zipfile.ZipFile(io.BytesIO(page.get(f"/export.xlsx{exported}", headers=headers).content)) as book:
        sheets = "".join(book.read(name).decode() for name in book.namelist() if name.endswith(".xml"))
    assert "=looked at" in sheets and "<f>" not in sheets
    assert page.get(f"/export.pdf{exported}", headers=headers).content.startswith(b"%PDF")
    for kind in ("text", "md", "json"):
        assert main(["report", "settlement", "--date", str(DAY), "--format", kind]) in (0, 1)
        text = capsys.readouterr().out
        assert "approver" in text and "looked at" in text and str(form["verdict_hash"])[:12] in text, kind


def test_signatures_are_given_and_taken_back_by_rest_as_by_the_page(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    days = [date(2026, 3, day) for day in (1, 2)]
    for number, day in enumerate(days):
        publish(store, f"r{number}", business_date=day)

    def post(who: str, path: str = "", **body: Any) -> tuple[int, Any]:
        headers = {"X-Person": who, "Authorization": "Bearer of this person"}
        answer = page.post(f"/api/v1/syncs/settlement/signatures{path}", json=body, headers=headers)
        return answer.status_code, answer.json()

    known = page.get("/api/v1/syncs/settlement/signatures", headers={"X-Person": "viewer"}).json()
    assert [(one["business_date"], one["state"], one["waits"]) for one in known] == [
        ("2026-03-02", "prepared", True), ("2026-03-01", "prepared", True),
    ]  # fmt: skip
    names = ("business_date", "destination", "version", "verdict_hash")
    newest, first = ({name: one[name] for name in names} for one in known)
    assert post("operator", **newest)[0] == 403
    status, said = post("approver", **{**newest, "verdict_hash": "0" * 64})
    assert (status, said["hint"]) == (409, "load the report again and read it")
    status, signed = post("approver", **newest)
    assert (status, signed["state"], signed["acts"][0]["who"]) == (200, "signed", "approver")
    assert post("approver", "/clean", takes=[newest | {"verdict_hash": "x"}])[0] == 422
    status, both = post("approver", "/clean", takes=[first])
    assert (status, [one["state"] for one in both]) == (200, ["signed"])
    version = {name: newest[name] for name in names[:3]}
    assert post("approver", "/reopen", **version, reason="x")[0] == 409
    assert post("second", "/reopen", **version, reason="")[0] == 409
    assert post("second", "/reopen", **version, reason="late")[1]["state"] == "re-opened"
    assert "re-opened by second at" in seen(page, "approver", "/page?sync=settlement&business_date=2026-03-02")
    who = [("signed", "approver", "REST"), ("signed", "approver", "REST"), ("reopened", "second", "REST")]
    assert (log(server), faults(server)) == (who, [])


def test_a_stored_verdict_that_is_not_the_recorded_one_is_said_first_by_page_report_and_files_and_nobody_signs_it(
    page: TestClient, store: PlatformStore, server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It looked fine everywhere, and `audit verify` alone named it."""
    publish(store)
    store.put_result("r1", "expectations", {"verdict": "MATCH", "checked": 1, "failed": []})
    store.put_result("r1", PUBLISH, {"warehouse": 1})
    (form,) = forms(seen(page, "approver"), "sign")
    assert send(page, "approver", "sign", form)[0] == 303
    report = ["report", "settlement", "--date", str(DAY)]
    clean = main(report), capsys.readouterr().out
    tamper(server, "update reconciliation set mode = 'other'")
    fault = "its header or evidence was changed after entry"
    text = seen(page, "viewer")
    assert (
        text.index("the stored verdict is not the one that was recorded") < text.index(fault) < text.index("compared:")
    )
    assert 'class="verdict ALTERED big"' in text
    assert clean[1].startswith(("MATCH", "NOT_RUN")) and (main(report), clean[0]) == (1, int(clean[1][0] != "M"))
    assert capsys.readouterr().out.startswith("ALTERED  settlement") and fault
    for kind in ("md", "json", "csv", "xlsx", "pdf"):
        file = tmp_path / f"report.{kind}"
        assert main([*report, "--output", str(file)]) == 1
        if kind not in ("xlsx", "pdf"):
            assert "ALTERED" in (said := file.read_text(encoding="utf-8")) and fault in said
    (document,) = page.get(f"/export.json?sync=settlement&business_date={DAY}", headers={"X-Person": "viewer"}).json()
    assert document["verdict"] == "ALTERED" and fault in document["recorded"]["faults"][0]
    (again,) = forms(seen(page, "second"), "reopen")
    assert send(page, "second", "reopen", again, reason="it was changed")[0] == 303
    text = seen(page, "approver")
    assert "Nobody can sign: the stored verdict" in text and not forms(text, "sign")


def test_below_a_later_take_stands_a_link_to_the_version_and_its_form_alone_signs_it(
    page: TestClient, store: PlatformStore, server: Server
) -> None:
    publish(store)
    store.start_run(run_id="r2", sync="settlement", kind="nightly", plan_json=plan_to_json(plan()), business_date=DAY)
    text = seen(page, "approver")
    assert not forms(text, "sign") and "a later run of the date goes on, and has published nothing yet" in text
    (path,) = re.findall(r'<a href="(page\?[^"]+)">Its own report', text)
    (form,) = forms(seen(page, "approver", f"/{html.unescape(path)}"), "sign")
    assert send(page, "approver", "sign", form) == (303, f"{DATE.removeprefix('/')}&run=r1")
    assert log(server) == [("signed", "approver", "page")]
