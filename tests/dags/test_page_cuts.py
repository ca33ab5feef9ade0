"""Cuts that are asked for on the page: one date or a range, refused in one sentence, followed, paused and cancelled."""

import html
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.models.backfill import Backfill, BackfillDagRun
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from fastapi.testclient import TestClient
from sqlalchemy import delete, select, update

from seamline.domain.calendar import date_at
from seamline_airflow.page import dag_runs
from tests.dags.test_dag_run import dag_of
from tests.dags.test_page_tolerances import send
from tests.dags.test_page_work import _server as _server
from tests.dags.test_page_work import forms
from tests.dags.test_page_work import page as page
from tests.dags.test_page_work import store as store

DAG = "settlement__nightly"
ONE = {"first": "2026-11-18", "mode": "publish", "reason": "file\nwas late"}
RANGE = {**ONE, "last": "2026-11-20", "order": "newest", "at_once": "3"}


@pytest.fixture(scope="module")
def _dag(checkout: Path, airflow_database: Path) -> None:
    dag_of(checkout, DAG)


@pytest.fixture(autouse=True)
def _in_airflow(_dag: None) -> Iterator[None]:
    _paused(value=False)
    yield
    with create_session() as session:
        ours = select(Backfill.id).where(Backfill.dag_id == DAG)
        session.execute(delete(BackfillDagRun).where(BackfillDagRun.backfill_id.in_(ours)))
        session.execute(delete(DagRun).where(DagRun.dag_id == DAG))
        session.execute(delete(Backfill).where(Backfill.dag_id == DAG))


def _paused(*, value: bool) -> None:
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == DAG).values(is_paused=value))


def _runs() -> list[Any]:
    """Of each run its partition, state, kind, who has asked, note and parameters."""
    with create_session() as session:
        found = session.scalars(select(DagRun).where(DagRun.dag_id == DAG).order_by(DagRun.partition_key))
        return [
            (one.partition_key, str(one.state), str(one.run_type), one.triggering_user_name, one.note, one.conf)
            for one in found
        ]


def _order(page: TestClient, number: str, order: str, reason: str) -> int:
    return send(page, "/order_backfill", "operator", number=number, order=order, reason=reason).status_code


def _shown(page: TestClient, who: str = "operator") -> str:
    answer = page.get("/cuts", params={"sync": "settlement"}, headers={"X-Person": who})
    assert answer.status_code == 200
    return html.unescape(answer.text)


def test_the_form_says_which_date_is_taken_and_is_for_those_who_may(page: TestClient) -> None:
    newest = date_at(datetime.now(UTC), timezone="Asia/Shanghai") - timedelta(days=1)
    text = _shown(page)
    assert f'name="first" value="{newest}"' in text
    assert f"{newest} is the newest that has ended in Asia/Shanghai" in text
    assert 'action="make_cuts"' not in _shown(page, "viewer")
    assert send(page, "/make_cuts", "viewer", **ONE).status_code == 403
    assert send(page, "/order_backfill", "viewer", number="1", order="pause", reason="x").status_code == 403
    assert "cuts?sync=settlement" in page.get("/page", params={"sync": "settlement"}).text


def test_one_date_is_a_run_of_that_partition_that_says_who_and_why(page: TestClient) -> None:
    assert send(page, "/make_cuts", "operator", **ONE).status_code == 303
    ((key, state, kind, who, note, conf),) = _runs()
    assert (key, state, kind, who) == ("2026-11-18", "queued", "manual", "operator")
    assert note == "started by operator (page): file was late"
    assert conf == {"mode": "publish", "tables": [], "reason": "file was late", "keep_done": False}
    again = send(page, "/make_cuts", "operator", **ONE)
    assert (again.status_code, "2026-11-18 is taken by run manual__" in again.text) == (409, True)
    assert send(page, "/make_cuts", "operator", **{**ONE, "first": "2026-11-17"}).status_code == 303


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"first": "2999-01-01"}, "business date 2999-01-01 has not ended"),
        ({"last": "2026-11-17"}, "2026-11-17 comes before 2026-11-18"),
        ({"last": "2999-01-01"}, "has not ended"),
        ({"last": "soon"}, "not a business date"),
        ({"reason": " "}, "cuts are made with a reason"),
        ({"tables": "account"}, "only account cannot be published"),
        ({"tables": "fees", "mode": "compare only"}, "there is no table fees"),
        ({"at_once": "99"}, "from 1 to 30"),
    ],
)
def test_a_mistake_is_refused_in_one_sentence_before_a_run_exists(
    page: TestClient, fields: dict[str, str], what: str
) -> None:
    answer = send(page, "/make_cuts", "operator", **ONE | fields)
    assert (answer.status_code, what in html.unescape(answer.text)) == (409, True)
    assert _runs() == []
    _paused(value=True)
    answer = send(page, "/make_cuts", "operator", **ONE)
    assert (answer.status_code, "is paused" in answer.text) == (409, True)


def test_a_range_is_a_backfill_that_is_followed_paused_continued_and_cancelled(page: TestClient) -> None:
    assert send(page, "/make_cuts", "operator", **RANGE).status_code == 303
    assert [(key, str(kind)) for key, _, kind, *_ in _runs()] == [
        (f"2026-11-{day}", "backfill") for day in (18, 19, 20)
    ]
    assert {conf["keep_done"] for *_, conf in _runs()} == {True}
    seen = dag_runs.backfill_of(DAG)
    assert seen is not None
    assert [one.business_date.day for one in seen.dates] == [20, 19, 18], "newest first"
    assert (seen.at_once, seen.by) == (3, "operator")
    number = str(seen.number)
    notes = {note for *_, note, _ in _runs()}
    assert notes == {"backfill started by operator (page): file was late"}
    other = send(page, "/make_cuts", "operator", **{**RANGE, "last": "2026-11-21"})
    assert (other.status_code, "a backfill of settlement__nightly goes on" in other.text) == (409, True)

    text = _shown(page)
    assert "0 of 3 dates, 3 at once, started by operator" in text
    orders = [fields["order"] for action, fields, _ in forms(text) if action == "order_backfill"]
    assert orders == ["pause", "cancel"]
    assert _order(page, number, "pause", " ") == 409
    assert _order(page, number, "pause", "load") == 303
    assert "paused" in _shown(page)
    assert {note for *_, note, _ in _runs()} == {f"backfill {number} paused by operator (page): load"}
    assert _order(page, number, "continue", "ok") == 303
    with create_session() as session:
        done = (DagRun.dag_id == DAG, DagRun.partition_key == "2026-11-20")
        began = datetime(2026, 11, 21, 1, tzinfo=UTC)
        over = {"state": "success", "start_date": began, "end_date": began + timedelta(minutes=5)}
        session.execute(update(DagRun).where(*done).values(**over))
    assert "about 10 min left" in _shown(page)
    assert (
        send(page, "/order_backfill", "operator", number=number, order="cancel", reason="wrong month").status_code
        == 303
    )
    assert sorted(state for _, state, *_ in _runs()) == ["failed", "failed", "success"]
    text = _shown(page)
    assert ", over" in text and "order_backfill" not in text
    late = send(page, "/order_backfill", "operator", number=number, order="pause", reason="late")
    assert (late.status_code, "does not go on" in late.text) == (409, True)
    assert send(page, "/order_backfill", "operator", number="99", order="pause", reason="x").status_code == 409


def test_what_is_done_is_asked_for_again_by_a_box(page: TestClient) -> None:
    assert send(page, "/make_cuts", "operator", **{**RANGE, "again": "yes"}).status_code == 303
    assert {conf["keep_done"] for *_, conf in _runs()} == {False}
