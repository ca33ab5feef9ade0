"""What needed a terminal or an editor before, by clicks: a table is taken in, the night is moved, a backfill watched.
Beside them what a terminal is for: the date's report, and declarations that servers deny."""

import re
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import Page, expect

from seamline import settings
from seamline.adapters import connections
from seamline.adapters.airflow_rest import FINISHED
from seamline.demo import bank
from tests.browser.conftest import Office, People, Person
from tests.browser.test_work import SYNC, WITHIN_S, published
from tests.waiting import wait_until

NIGHTLY = f"{SYNC}__nightly"


def _file() -> Path:
    return settings.load().declarations / f"syncs/{SYNC}.yaml"


def _declared() -> str:
    return _file().read_text(encoding="utf-8")


def _propose(person: Person, button: str, value: str, reason: str) -> Page:
    page = person.look_at(f"/seamline/page?sync={SYNC}")
    page.get_by_role("link", name="tables and schedule").click()
    form = page.locator("form").filter(has=page.get_by_label(button))
    form.get_by_label(button).fill(value)
    form.get_by_label("reason").fill(reason)
    form.get_by_role("button", name="propose").click()
    return page


def _accept(person: Person, what: str) -> Page:
    page = person.look_at(f"/seamline/declaration?sync={SYNC}")
    change = page.locator("section").filter(has_text=what).first
    change.get_by_role("button", name="accept").click()
    expect(page.locator("section").filter(has_text=what).first).to_contain_text("accepted")
    return page


def test_the_night_is_moved_by_clicks_of_two_people_and_the_file_says_so(people: People) -> None:
    operator, approver = people.sign_in("operator"), people.sign_in("approver")
    page = _propose(operator, "begin the night at", "01:15", "the source is busy until one")
    expect(page.get_by_text('+  run_at: "01:15"')).to_be_visible()
    expect(page.get_by_role("button", name="accept")).to_have_count(0)
    before = _declared()
    page = _accept(approver, "01:15")
    assert _declared() == before.replace('run_at: "00:30"', 'run_at: "01:15"')
    expect(page.get_by_text("the source is busy until one")).to_be_visible()
    _propose(operator, "begin the night at", "00:30", "the source is quiet again")
    _accept(approver, "begins at 00:30")
    assert _declared() == before


def test_a_table_is_taken_in_by_clicks_and_one_that_the_source_has_not_is_refused(people: People) -> None:
    operator, approver = people.sign_in("operator"), people.sign_in("approver")
    page = _propose(operator, "take in the table of the source", "no_such_table", "a slip")
    expect(page.get_by_text("Nothing was changed")).to_be_visible()
    _make_fee()
    before = _declared()
    try:
        _propose(operator, "take in the table of the source", "fee", "fees are reconciled from December on")
        page = _accept(approver, "take in the table fee")
        assert [line for line in _declared().splitlines() if line not in before.splitlines()] == ["  - fee"]
        page.get_by_role("link", name=f"{SYNC}__tables").click()
        expect(page).to_have_url(re.compile(f"/dags/{SYNC}__tables"))
        expect(page.get_by_test_id("trigger-dag-button").first).to_be_visible()
    finally:
        # The tables of the other tests are those of before.
        _file().write_text(before, encoding="utf-8")


def test_a_backfill_shows_what_is_left_and_a_verdict_for_each_date_and_is_cancelled_with_a_reason(
    people: People,
) -> None:
    operator = people.sign_in("operator")
    office, newest = operator.office, published(operator.office)
    page = operator.look_at(f"/seamline/page?sync={SYNC}")
    page.get_by_role("link", name="make cuts").click()
    form = page.locator("form").filter(has=page.get_by_role("button", name="make them"))
    form.get_by_label("first date").fill(str(newest - timedelta(days=3)))
    form.get_by_label("last date").fill(str(newest - timedelta(days=1)))
    form.get_by_label("side by side").fill("1")
    form.get_by_label("reason").fill("the auditors want these dates")
    form.get_by_role("button", name="make them").click()
    expect(page.get_by_text("0 of 3 dates, 1 at once, started by operator")).to_be_visible()

    def has_a_measure() -> bool:
        page.reload()
        return page.get_by_text(re.compile("about .* left")).count() > 0

    wait_until(has_a_measure, timeout_s=WITHIN_S, what="its first date to end, by which the others are measured")
    expect(page.locator("td .verdict").first).to_be_visible()
    cancel = page.locator("form").filter(has=page.get_by_role("button", name="cancel the dates that wait"))
    cancel.get_by_label("reason").fill("one is enough")
    cancel.get_by_role("button").click()
    expect(page.get_by_role("button", name="cancel the dates that wait")).to_have_count(0)
    with office.api("operator") as airflow:
        wait_until(
            lambda: all(run.state in FINISHED for run in airflow.runs(NIGHTLY)), timeout_s=WITHIN_S, what="its last run"
        )


def test_a_terminal_prints_the_report_of_a_date_and_says_what_servers_deny_of_a_declaration(office: Office) -> None:
    day = published(office)
    said = _said("report", SYNC, "--date", str(day))
    assert "payment_order" in said.stdout and "warehouse" in said.stdout, said.stderr
    before = _declared()
    try:
        wrong = before.replace("approvers: [approver]", "approvers: [nobody_here]").replace("sum: balance", "sum: none")
        _file().write_text(wrong, encoding="utf-8")
        denied = _said("validate", "--online")
    finally:
        _file().write_text(before, encoding="utf-8")
    assert denied.returncode != 0
    for name in ("nobody_here", "none"):
        assert name in denied.stdout + denied.stderr


def _make_fee() -> None:
    """A table at the bank, whose owner lets the reader see it."""
    at, reader = connections.resolve("bank_app"), connections.resolve("core_bank").login
    with closing(bank.connect(at)) as session, session.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS fee (id BIGINT PRIMARY KEY, amount DECIMAL(20, 4) NOT NULL)")
    owner = replace(connections.resolve("core_bank_root"), database=at.database)
    with closing(bank.connect(owner)) as session, session.cursor() as cursor:
        cursor.execute(f"GRANT SELECT ON fee TO '{reader}'@'%'")


def _said(*command: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "seamline.cli.main", *command]
    return subprocess.run(line, capture_output=True, text=True, timeout=180, check=False)
