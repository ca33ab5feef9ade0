"""Streams are paused and let go on by the page: by whom works on the sync, with a reason that everybody sees."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.api_fastapi import app as airflow_app
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi import Request
from fastapi.testclient import TestClient
from httpx import Response
from sqlalchemy import delete, select, update

from seamline.domain.catch_up import LastLoad
from seamline.domain.log_kept import LogKept
from seamline_airflow.page import access, acting
from seamline_airflow.page.app import app
from tests.dags import results
from tests.dags.test_dag_run import dag_of
from tests.dags.test_page import platform as platform
from tests.dags.test_page_acting import OWN, PEOPLE
from tests.dags.test_page_routes import BEARER

_ONBOARD = "settlement__onboard"


@pytest.fixture
def page(platform: results.Platform, airflow_database: Path) -> Iterator[TestClient]:
    """`X-Person` says who has signed in."""
    airflow_app.create_auth_manager()

    def person(request: Request) -> Any:
        return PEOPLE[request.headers["x-person"]]

    app.dependency_overrides[access.get_user] = person
    yield TestClient(app)
    app.dependency_overrides.clear()


def looked_at(page: TestClient, who: str) -> str:
    return page.get("/page?sync=settlement", headers={"X-Person": who}).text


def ordered(page: TestClient, who: str, **fields: str) -> Response:
    form = {"sync": "settlement", "destination": "warehouse", "token": acting.token_of(PEOPLE[who])} | fields
    headers = {"X-Person": who, **OWN}
    return page.post("/order_stream", data=form, headers=headers, follow_redirects=False)


def test_a_paused_stream_says_by_whom_and_why_until_somebody_lets_it_go_on(
    page: TestClient, platform: results.Platform
) -> None:
    assert re.search(r"<button>Pause settlement\S+warehouse at its next", looked_at(page, "operator"))
    assert ordered(page, "operator", order="pause", reason=" the warehouse\nmoves ").status_code == 303
    text = looked_at(page, "approver")
    assert "by operator, “the warehouse moves”" in text and "<button>Pause" not in text
    assert re.search(r"<button>Let settlement\S+warehouse go on", text)
    assert ordered(page, "approver", order="resume").status_code == 303
    assert "the warehouse moves" not in looked_at(page, "operator")
    assert {one.origin for one in platform.acts.entries} == {"page"}


def test_who_only_looks_has_no_button_and_is_refused(page: TestClient, platform: results.Platform) -> None:
    assert "order_stream" not in looked_at(page, "viewer")
    assert ordered(page, "viewer", order="pause", reason="why").status_code == 403
    assert platform.wanted_streams == (results.WANTED,)


@pytest.mark.parametrize(
    ("error", "may_restart"),
    [("Diverged: rows are gone\n  → put them back", True), ("PositionLost: the log is gone", False)],
)
def test_a_stream_that_has_ended_is_restarted_where_that_can_help_and_is_never_paused(
    page: TestClient, platform: results.Platform, *, error: str, may_restart: bool
) -> None:
    """Found by a newcomer: the page offered only to pause it."""
    assert ordered(page, "operator", order="restart").status_code == 409, "it runs"
    platform.reports = {results.STREAM: results.report(state="failed", error=error)}
    text = looked_at(page, "operator")
    assert "<button>Pause" not in text and bool(re.search("<button>Restart settlement", text)) is may_restart
    assert ("put them back; then start the stream again: `./seamline stream restart settlement" in text) is may_restart
    assert "order_stream" not in looked_at(page, "viewer")
    assert ordered(page, "viewer", order="restart").status_code == 403
    assert ordered(page, "operator", order="restart", token="of somebody else").status_code == 403
    answer = ordered(page, "operator", order="restart")
    address = "/api/v1/syncs/settlement/streams/warehouse/restart"
    if not may_restart:
        assert answer.status_code == 409 and "does not help: the log is gone. To mend it: load the" in answer.text
        assert page.post(address, headers={"X-Person": "operator", **BEARER}).status_code == 409
        return
    assert answer.status_code == 303
    platform.reports = {results.STREAM: results.report(state="failed", error=error)}
    assert page.post(address, headers={"X-Person": "approver", **BEARER}).json()["stream"] == "settlement@warehouse"
    said = [(one.kind, one.who, one.origin) for one in platform.acts.entries]
    assert said == [("stream restarted", "operator", "page"), ("stream restarted", "approver", "REST")]


def test_a_pause_without_a_reason_and_a_stream_that_nobody_wants_are_refused(
    page: TestClient, platform: results.Platform
) -> None:
    assert ordered(page, "operator", order="pause", reason="  ").status_code == 422
    refused = ordered(page, "operator", order="pause", reason="why", destination="elsewhere")
    assert refused.status_code == 409 and "elsewhere" in refused.text
    assert platform.wanted_streams == (results.WANTED,)


def test_a_stream_is_paused_and_let_go_by_rest(page: TestClient, platform: results.Platform) -> None:
    def ordered(what: str, who: str = "operator", destination: str = "warehouse", **body: str) -> Response:
        address = f"/api/v1/syncs/settlement/streams/{destination}/{what}"
        return page.post(address, json=body, headers={"X-Person": who, **BEARER})

    for status, answer in (
        (403, ordered("pause", "viewer", reason="why")),
        (422, ordered("pause", reason=" \n")),
        (422, ordered("pause")),
        (409, ordered("pause", destination="elsewhere", reason="why")),
    ):
        assert answer.status_code == status, answer.text
    assert platform.wanted_streams == (results.WANTED,)
    paused = ordered("pause", reason="the warehouse\nmoves").json()
    assert (paused["stream"], paused["paused"], paused["paused_by"]) == ("settlement@warehouse", True, "operator")
    assert "by operator, “the warehouse moves”" in looked_at(page, "viewer")
    assert ordered("resume", "approver").json()["paused"] is False
    assert platform.wanted_streams == (results.WANTED,)
    said = [(one.kind, one.who, one.origin) for one in platform.acts.entries]
    assert said == [("stream paused", "operator", "REST"), ("stream resumed", "approver", "REST")]


def test_a_stream_whose_tables_are_read_again_faster_offers_that_to_who_may_start_its_load(
    page: TestClient, platform: results.Platform, checkout: Path
) -> None:
    dag_of(checkout, _ONBOARD)
    _clear(is_paused=False)

    def load_again(who: str, **fields: str) -> int:
        form = {"sync": "settlement", "destination": "warehouse", "token": acting.token_of(PEOPLE[who])} | fields
        headers = {"X-Person": who, **OWN}
        return page.post("/load_again", data=form, headers=headers, follow_redirects=False).status_code

    kept = LogKept(3 << 30, 1 << 20, 7200.0, has_source_limit=False, load=LastLoad(9_000_000, 900.0))
    late = {"epoch": 3, "lag_s": 9_000.0, "kept": kept, "kept_at": datetime.now(UTC)}
    assert "load_again" not in looked_at(page, "operator"), "nothing says that it is faster"
    platform.reports[results.STREAM] = results.report(**late)
    text = looked_at(page, "operator")
    assert "again is faster than to catch up: the last load took 15 min (9,000,000 rows)" in text
    assert "the log keeps 3.00 GiB for it" in text and "no limit is declared there" in text
    assert re.search(r"<button>Load settlement\S+warehouse again", text)
    (known,) = page.get("/api/v1/syncs/settlement", headers={"X-Person": "viewer"}).json()["streams"]
    assert (known["log_kept"]["size_bytes"], known["log_kept"]["faster_load_s"]) == (3 << 30, 900.0)
    assert known["log_kept"]["full_at"] and known["log_kept"]["source_deletes_at"] is None
    assert "is faster than to catch up" in looked_at(page, "viewer") and "load_again" not in looked_at(page, "viewer")
    refused = {"viewer": ({"reason": "why"}, 403), "operator": ({"reason": " "}, 409), "approver": ({}, 409)}
    for who, (fields, status) in refused.items():
        assert load_again(who, **fields) == status
    assert load_again("operator", destination="elsewhere", reason="why") == 409
    assert _started() == []
    assert load_again("operator", reason="two days\nbehind") == 303
    said, only = "settlement@warehouse is loaded again, started by", {"destinations": ["warehouse"]}
    (run,) = _started()
    assert run[1:] == ("operator", only, f"{said} operator (page): two days behind")
    address, by_rest = "/api/v1/syncs/settlement/streams/warehouse/load", {"X-Person": "approver", **BEARER}
    answer = page.post(address, json={"reason": "why"}, headers=by_rest)
    assert answer.status_code == 409 and f"run {run[0]} of {_ONBOARD} goes on" in answer.text
    _clear(is_paused=False)
    answer = page.post(address, json={"reason": "why"}, headers=by_rest)
    (run,) = _started()
    assert (answer.status_code, answer.json()) == (202, {"run": run[0]})
    assert run[1:] == ("approver", only, f"{said} approver (REST): why")
    _clear(is_paused=True)


def _started() -> list[tuple[Any, ...]]:
    """Of each run of the onboarding its name, who has asked, its parameters and its note."""
    with create_session() as session:
        found = session.scalars(select(DagRun).where(DagRun.dag_id == _ONBOARD))
        return [(one.run_id, one.triggering_user_name, one.conf, one.note) for one in found]


def _clear(*, is_paused: bool) -> None:
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == _ONBOARD))
        session.execute(update(DagModel).where(DagModel.dag_id == _ONBOARD).values(is_paused=is_paused))
