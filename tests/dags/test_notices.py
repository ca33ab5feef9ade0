"""Mails about what waits for people, to a mail server and from a platform database that are both real."""

import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from fastapi.testclient import TestClient

from seamline.domain.break_work import Work, WorkRules, WorkState
from seamline.domain.notice import Event
from seamline.domain.runs import PUBLISH, Cut, Scope
from seamline.domain.severity import Severity
from seamline.domain.verdict import Break, BreakType, Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import NightlyPlan
from seamline.platform.breaks import Money
from seamline.platform.store import PlatformStore
from seamline.platform.work import Waiting
from seamline_airflow import notices, parts
from seamline_airflow.dag_factory import streams_dag
from seamline_airflow.operators.notify import NotifyOperator
from seamline_airflow.page import reports, waiting
from tests.dags import results
from tests.dags.test_page_work import _server as _server
from tests.dags.test_page_work import page as page
from tests.dags.test_page_work import store as store
from tests.integration.platform_database import Server
from tests.smtp_server import MailServer, body, mail_server
from tests.unit.declared import FILES, write_declarations

# What stands in the rows, in their keys and in their amounts; nothing else in these tests has it.
KEY, VALUE, AMOUNT, THEIRS = "DE89370400440532013000", "Erika Mustermann", "123456.78", "876543.21"
NOTIFY = "    breaks: [ops@bank.example, lead@bank.example]\n    late: [ops@bank.example]\n"
AT = datetime.now(UTC)
MATCH = Verdict.MATCH
LIVE = "settlement/reconcile/-/manual__9"


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server() as server:
        reach(monkeypatch, server.port)
        yield server


def reach(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "seamline@bank.example", "retry_limit": 0}
    known = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": {**extra, "timeout": 5}}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(known))


@pytest.fixture(autouse=True)
def _declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.bank.example/")
    declare(monkeypatch, tmp_path / "with", NOTIFY)


def declare(monkeypatch: pytest.MonkeyPatch, folder: Path, notify: str) -> None:
    folder.mkdir()
    name = "syncs/settlement.yaml"
    before, found, behind = FILES[name].partition("reconcile:\n")
    text = f"{before}reconcile:\n  notify:\n{notify}{behind}" if found else f"{before}reconcile:\n  notify:\n{notify}"
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(folder, {name: text})))


@pytest.fixture
def platform(store: PlatformStore, _server: Server) -> Iterator[Server]:
    with _server.open() as session:
        session.execute("truncate notice")
    compared(store)
    yield _server


def compared(store: PlatformStore, run_id: str = LIVE, breaks: int = 3, at: datetime = AT) -> None:
    """Live tables with values, keys and amounts that no mail may carry."""
    found = tuple(
        Break("account", BreakType.VALUE, f"{KEY}{n}", {"name": VALUE, "balance": AMOUNT}, {"balance": THEIRS})
        for n in range(breaks)
    )
    table = results.table("account", Verdict.BREAK, breaks=found, breaks_total=breaks)
    made = results.reconciliation(table, run_id=run_id, scope=Scope.LIVE)
    store.save_reconciliation(replace(made, started_at=at, ended_at=at))


def notify() -> int:
    return NotifyOperator(task_id="notify").execute({})


def later(server: Server) -> None:
    """As if an hour had gone by since the last attempt."""
    with server.open() as session:
        session.execute("update notice set tried_at = tried_at - interval '2 hours'")


def test_each_event_is_sent_once_to_each_address_with_its_number_and_a_link(
    platform: Server, store: PlatformStore, mails: MailServer
) -> None:
    assert notify() == 2
    assert sorted(address for address, _ in mails.mails) == ["lead@bank.example", "ops@bank.example"]
    _, mail = mails.mails[0]
    assert (mail["From"], mail["Subject"]) == ("seamline@bank.example", "[Seamline] settlement: breaks were found (1)")
    assert mail["Auto-Submitted"] == "auto-generated" and mail["Message-ID"].endswith("@seamline>")
    assert "3 breaks in the live tables in warehouse" in body(mail)
    assert re.findall(r'href="([^"]+)"', body(mail))[1] == (
        "https://airflow.bank.example/seamline/page?sync=settlement&amp;run=settlement%2Freconcile%2F-%2Fmanual__9"
    )
    later(platform)
    assert (notify(), len(mails.mails)) == (0, 2)
    compared(store, f"{LIVE}0", breaks=1)
    assert (notify(), len(mails.mails)) == (2, 4)
    assert "1 break in the live tables" in body(mails.mails[-1][1])


def test_the_open_alarms_are_asked_for_once_so_that_no_two_mails_of_one_look_disagree(
    platform: Server, store: PlatformStore, mails: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    answer = PlatformStore.open_alarms
    monkeypatch.setattr(PlatformStore, "open_alarms", lambda self: (asked.append(1), answer(self))[1])
    store.raise_alarm("calendar_ends", "settlement bank", "it ends on 2026-12-31")
    notify()
    assert len(asked) == 1
    store.end_alarm("calendar_ends", "settlement bank")


def night_without_verdict(store: PlatformStore, server: Server) -> None:
    """The sync is onboarded for days, and its verdicts are due at midnight."""
    nightly = NightlyPlan(timezone="Asia/Shanghai", verdict_by="00:00")
    made = plan_to_json(results.plan(nightly=nightly))
    store.start_run(run_id="onboarded", sync="settlement", kind="onboard", plan_json=made)
    store.put_result("onboarded", PUBLISH, {"warehouse": "p"})
    with server.open() as session:
        session.execute("update run set started_at = started_at - interval '5 days' where run_id = 'onboarded'")
    store.start_run(run_id="newest", sync="settlement", kind="reconcile", plan_json=made)


def test_a_calendar_that_ends_is_told_to_those_who_hear_what_is_late(
    platform: Server, store: PlatformStore, mails: MailServer
) -> None:
    assert notify() == 2
    store.raise_alarm("calendar_ends", "settlement cn_bank", "calendar cn_bank ends on 2026-12-31, in 32 days")
    store.raise_alarm("stream_late", "settlement@warehouse", "it lags")
    assert notify() == 1
    address, mail = mails.mails[-1]
    assert address == "ops@bank.example" and "calendar cn_bank ends" in body(mail)
    store.end_alarm("calendar_ends", "settlement cn_bank")
    assert notify() == 0


def test_no_mail_of_any_event_has_a_value_a_key_or_an_amount_of_a_row(
    platform: Server, store: PlatformStore, mails: MailServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A ping goes to a webhook alone.
    everything = "".join(f"    {event}: [ops@bank.example]\n" for event in Event if event is not Event.ALIVE)
    severe = "  work:\n    severity:\n      - {class: old, age: 1s, due: 1s, escalate_to: head}\n"
    declare(monkeypatch, tmp_path / "all", everything + severe)
    night_without_verdict(store, platform)
    as_of = results.clean().ended_at
    store.save_cut(Cut("settlement", "warehouse", results.DATE, 1, results.RUN, results.POSITION, as_of, (), MATCH))
    assert notify() > 0
    text = mails.texts()
    for said in (
        "3 breaks in the live tables in warehouse",
        f"version 1 of {results.DATE} in warehouse waits for a signature",
        "a break of the class old is late",
    ):
        assert said in text
    assert re.search(r"the verdict of \d{4}-\d\d-\d\d is not there by its hour", text)
    for secret in (KEY, VALUE, AMOUNT, THEIRS, "Mustermann", "3704", "123,456", "876543"):
        assert secret not in text
    # The check finds what is planted.
    assert "settlement" in text


def test_a_dead_mail_server_is_shown_and_the_mails_are_sent_when_it_is_back(
    platform: Server, page: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mail_server() as gone:
        port = gone.port
    reach(monkeypatch, port)
    with pytest.raises(AirflowException, match="2 mails were not sent: the mail server does not answer"):
        notify()
    assert notify() == 0, "the next attempt has its time"
    shown = page.get("/page").text
    assert "Mails that could not be sent" in shown and "does not answer" in shown
    later(platform)
    with mail_server() as back:
        reach(monkeypatch, back.port)
        assert notify() == 2
        assert len(back.mails) == 2
    assert "could not be sent" not in page.get("/page").text


def test_an_address_that_is_refused_holds_no_other(platform: Server, mails: MailServer) -> None:
    mails.refused = {"lead@bank.example"}
    with pytest.raises(AirflowException, match="1 mails were not sent: the mail server refuses the address: 550"):
        notify()
    assert [address for address, _ in mails.mails] == ["ops@bank.example"]
    mails.refused = set()
    later(platform)
    assert notify() == 1
    assert [address for address, _ in mails.mails] == ["ops@bank.example", "lead@bank.example"]


def test_what_was_found_long_ago_is_no_news(platform: Server, store: PlatformStore, mails: MailServer) -> None:
    compared(store, f"{LIVE}old", at=AT - timedelta(days=3))
    assert notify() == 2
    assert "manual__9" in mails.texts() and "manual__9old" not in mails.texts()


def test_a_declaration_that_is_wrong_and_a_page_without_an_address_are_red(
    platform: Server, mails: MailServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    declare(monkeypatch, tmp_path / "wrong", "    breaks: [nobody]\n")
    with pytest.raises(AirflowFailException, match="does not say who gets mails"):
        notify()
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "")
    with pytest.raises(AirflowFailException, match="no address to lead to"):
        notify()
    assert mails.mails == []


def test_a_sync_that_cannot_be_read_keeps_no_mail_of_another_and_makes_the_task_red(
    platform: Server, store: PlatformStore, mails: MailServer, tmp_path: Path
) -> None:
    mine = tmp_path / "with" / "syncs" / "settlement.yaml"
    text = mine.read_text(encoding="utf-8").replace("sync: settlement", "sync: payroll")
    mine.with_name("payroll.yaml").write_text(text, encoding="utf-8")
    store.start_run(run_id="unreadable", sync="payroll", kind="onboard", plan_json="{}")
    store.raise_alarm("verdict_late", "payroll 2026-11-19", "the cut has no verdict yet")
    try:
        with pytest.raises(AirflowFailException, match="payroll: the stored plan cannot be read"):
            notify()
    finally:
        store.end_alarm("verdict_late", "payroll 2026-11-19")
        with platform.open() as session:
            session.execute("delete from run where run_id = 'unreadable'")
    assert {mail["Subject"] for _, mail in mails.mails} == {"[Seamline] settlement: breaks were found (1)"}


def test_the_task_stands_beside_the_look_and_only_where_somebody_is_notified(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dag = streams_dag()
    assert [task.task_id for task in dag.tasks] == ["look", "nights", "notify"]
    assert not any(task.upstream_task_ids or task.downstream_task_ids for task in dag.tasks)
    (tmp_path / "none").mkdir()
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(tmp_path / "none")))
    assert [task.task_id for task in streams_dag().tasks] == ["look", "nights"]


def test_a_late_verdict_goes_to_one_after_another_and_whoever_heard_it_hears_that_it_has_come(
    platform: Server, store: PlatformStore, mails: MailServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    day = AT.date() - timedelta(days=2)
    steps = (
        "    late_steps:\n      - {after: 1h, to: [lead@bank.example]}\n      - {after: 7d, to: [head@bank.example]}\n"
    )
    declare(monkeypatch, tmp_path / "steps", f"    late: [ops@bank.example]\n{steps}")
    night_without_verdict(store, platform)
    store.raise_alarm("verdict_late", f"settlement {day}", "the cut has no verdict yet")

    def sent() -> list[tuple[str, str]]:
        notify()
        found = [(to, line) for to, mail in mails.mails for line in re.findall(r"<li><a[^>]*>([^<]+)", body(mail))]
        mails.mails.clear()
        return sorted(one for one in found if str(day) in one[1])

    is_late = f"the verdict of {day} is not there"
    assert sent() == [
        ("lead@bank.example", f"{is_late} 1 h 0 min after its hour"),
        ("ops@bank.example", f"{is_late} by its hour"),
    ]
    assert sent() == [], "each step is sent once"
    run_id = f"settlement/nightly/{day}/manual__1"
    as_of = results.clean().ended_at
    store.save_cut(Cut("settlement", "warehouse", day, 1, run_id, results.POSITION, as_of, (), MATCH))
    store.start_run(
        run_id=run_id,
        sync="settlement",
        kind="nightly",
        plan_json=plan_to_json(results.plan()),
        business_date=day,
    )
    store.put_result(run_id, PUBLISH, {"warehouse": 1})
    store.end_alarm("verdict_late", f"settlement {day}")
    came = sent()
    assert [to for to, _ in came] == ["lead@bank.example", "ops@bank.example"]
    assert all(f"the verdict of {day} has come" in line for _, line in came)
    assert sent() == []


def test_a_large_break_behind_hundreds_of_older_small_ones_is_escalated_by_mail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a day with many breaks only the 500 oldest were judged, whatever their amounts."""
    rules = WorkRules(severity=(Severity("large", timedelta(hours=1), Decimal(100), escalate_to="head"),))
    days_ago = AT - timedelta(days=2)

    def waits(number: int, amount: str) -> Waiting:
        found = Break("account", BreakType.VALUE, f"k{number}", {"balance": amount}, {"balance": "0"})
        work = Work(f"{number:016}", WorkState.OPEN, since=days_ago, first_at=days_ago)
        return Waiting(work, "settlement", "warehouse", found)

    stored = [*(waits(number, "1") for number in range(600)), waits(600, "5000")]

    class Store:
        def waiting(self, syncs: object, *, owner: str = "", most: int) -> tuple[Waiting, ...]:
            return () if owner else tuple(stored[:most])

    monkeypatch.setattr(parts, "work", lambda: nullcontext(Store()))
    monkeypatch.setattr(reports, "shown_rules", lambda sync: rules)
    monkeypatch.setattr(waiting, "_money", lambda syncs: {"settlement": [Money("account", "balance")]})
    (one,) = notices._escalated(["settlement"], AT)
    assert f"{600:016}" in one.about
    # Airflow's managers of logins with a directory let a person in by either.
    judged = waiting.of("Head", ["settlement"], AT, most=601)
    assert ([one.is_escalated for one in judged.waits], judged.are_more) == ([True], False)
    assert waiting.of("head", ["settlement"], AT, most=600) == waiting.Judged((), are_more=True)
