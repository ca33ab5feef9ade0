"""Notices to URLs of Airflow's connections, from a platform database that is real to a server that is."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from airflow.sdk.exceptions import AirflowException

from seamline import registry
from seamline.domain.errors import TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.runs import EXPECTATIONS, Cut
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.platform.store import PlatformStore
from seamline_airflow import parts
from tests.dags import results
from tests.dags.test_notices import AMOUNT, AT, KEY, VALUE, declare, later, notify
from tests.dags.test_notices import _declared as _declared
from tests.dags.test_notices import mails as mails
from tests.dags.test_notices import platform as platform
from tests.dags.test_page_work import _server as _server
from tests.dags.test_page_work import store as store
from tests.integration.platform_database import Server
from tests.smtp_server import MailServer

CHAT = "slack:chat"
BREAKS = f"    breaks: [{CHAT}, 'webhook:pager', ops@bank.example]\n"


class Posts(HTTPServer):
    """Takes what is posted; answers with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.taken: list[tuple[str, str, dict[str, Any]]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Posts

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.status == 200:
            self.server.taken.append((self.path, self.headers.get("Authorization", ""), said))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Posts]:
    with Posts() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = {"host": "http://127.0.0.1", "port": server.server_port}
        chat = {**here, "conn_type": "slackwebhook", "password": "T00/B00/secret"}
        pager = {**here, "conn_type": "http", "password": "its-token", "extra": {"path": "/hook?team=a"}}
        monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps(chat))
        monkeypatch.setenv("AIRFLOW_CONN_PAGER", json.dumps(pager))
        yield server
        server.shutdown()


def test_a_webhook_and_slack_get_each_event_once_with_counts_and_links_and_no_data(
    platform: Server, mails: MailServer, posts: Posts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(monkeypatch, tmp_path / "posted", BREAKS)
    assert notify() == 3
    (chat, pager) = sorted(posts.taken)
    assert (chat[0], chat[1]) == ("/T00/B00/secret", "")
    assert (
        "*[Seamline] settlement: breaks were found (1)*\n• <https://airflow.bank.example/seamline/" in chat[2]["text"]
    )
    assert (pager[0], pager[1]) == ("/hook?team=a", "Bearer its-token")
    (one,) = pager[2]["notices"]
    assert one["what"] == "3 breaks in the live tables in warehouse"
    said = json.dumps([body for _, _, body in posts.taken])
    assert not any(secret in said for secret in (KEY, VALUE, AMOUNT))
    later(platform)
    assert (notify(), len(posts.taken), len(mails.mails)) == (0, 2, 1)


def test_a_url_that_takes_nothing_holds_no_mail_and_its_words_are_not_kept(
    platform: Server, mails: MailServer, posts: Posts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(monkeypatch, tmp_path / "posted", BREAKS)
    posts.status = 503
    with pytest.raises(AirflowException, match="2 mails were not sent") as said:
        notify()
    assert "status 503" in str(said.value)
    assert len(mails.mails) == 1
    with platform.open() as session:
        failures = session.execute("select failure from notice where failure <> ''").fetchall()
    assert len(failures) == 2 and "secret" not in str(failures)
    posts.status = 200
    later(platform)
    assert (notify(), len(posts.taken)) == (2, 2)


def test_a_date_that_is_proven_in_every_destination_is_said_once(
    platform: Server, store: PlatformStore, posts: Posts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(monkeypatch, tmp_path / "proven", "    proven: ['webhook:pager']\n")
    assert (notify(), posts.taken) == (0, [])
    made = plan_to_json(results.plan())
    store.start_run(run_id=results.RUN, sync="settlement", kind="nightly", plan_json=made, business_date=results.DATE)
    found = replace(results.clean(), started_at=AT, ended_at=AT)
    store.save_reconciliation(found)
    assert notify() == 0, "it is not published"
    place = ("settlement", "warehouse", results.DATE)
    store.save_cut(Cut(*place, 1, results.RUN, results.POSITION, AT, (), Verdict.MATCH))
    store.put_result(results.RUN, EXPECTATIONS, results.PASSED)
    store.finish_run(results.RUN, state="succeeded")
    assert notify() == 1
    assert posts.taken[0][2]["notices"][0]["what"] == f"{results.DATE} is proven in every destination"
    later(platform)
    assert notify() == 0


def test_an_alarm_about_a_stream_or_its_source_is_said_once_and_so_is_its_end(
    platform: Server, store: PlatformStore, posts: Posts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(monkeypatch, tmp_path / "alarms", "    alarms: ['webhook:pager']\n")
    stream, source = ("stream_cut_off", "settlement@warehouse"), ("source_unreachable", "core_bank")
    with closing(registry.director()) as director:
        director.want(StreamId("settlement", "warehouse"), plan_json=plan_to_json(results.plan()))
    for kind, subject in (stream, source, ("source_unreachable", "of_others"), ("stage_late", "settlement 2026-11-19")):
        store.raise_alarm(kind, subject, "could not connect to server db.bank.example")

    def said() -> list[str]:
        later(platform)
        notify()
        found = [one["what"] for _, _, body in posts.taken for one in body["notices"]]
        assert "db.bank.example" not in str(posts.taken)
        posts.taken.clear()
        return sorted(found)

    opened = ["source cannot be reached: core_bank", "stream is cut off: settlement@warehouse"]
    assert (said(), said()) == (opened, [])
    store.end_alarm(*source)
    assert (said(), said()) == ([f"is over: {opened[0]}"], [])
    store.raise_alarm(*source, "again")
    assert said() == opened[:1]


def test_a_ping_comes_with_each_look_and_with_none_that_could_not_read_the_platform_database(
    platform: Server, posts: Posts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(monkeypatch, tmp_path / "alive", "    alive: ['webhook:pager']\n")
    for number in (1, 2):
        notify()
        assert len(posts.taken) == number
    assert posts.taken[0][2]["subject"] == "[Seamline] settlement: it is looked at (1)"
    posts.status = 503
    with pytest.raises(AirflowException, match="status 503"):
        notify()
    with platform.open() as session:
        assert session.execute("select count(*) from notice").fetchall() == [(0,)], "none is tried again"
    posts.status = 200
    monkeypatch.setattr(parts, "platform", Mock(side_effect=TransientError("the platform database is away")))
    with pytest.raises(AirflowException):
        notify()
    assert len(posts.taken) == 2
