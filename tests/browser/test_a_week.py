"""A week as somebody has it who knows the page, Airflow and docs/how-to: a sync is scheduled on a calendar, its night
passes by itself, the dates before are made from the log, a run is broken on purpose and recovered, the disk stays flat.

A business date ends where the bank moves its system date on (`cut_off: {table, column}`), which takes it a moment. So
a week passes in a test as it passes at a bank, and no time is set back."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
from playwright.sync_api import expect

from seamline import registry, settings
from seamline.adapters import connections
from seamline.adapters.airflow_rest import FINISHED, DagRun
from seamline.demo import bank
from seamline.domain.runs import Cut
from seamline.plan.compile import compile_plan
from seamline.spec.load import load_declarations
from tests.browser.conftest import Office, People, Person
from tests.waiting import wait_until

SYNC, WAREHOUSE, CALENDAR = "week", "week_warehouse", "week"
NIGHTLY, MAINTENANCE = f"{SYNC}__nightly", "seamline__maintenance"
ZONE = ZoneInfo("Asia/Shanghai")
FIRST_ACCOUNT = 900_000
# Onboarding, or one night after another, on a machine that does other things too.
WITHIN_S = 900
# `log.keep_days: 0.01`, and the broker's look at its segments.
PRUNED_WITHIN_S = 1800
UPDATES = 100
_DESTINATION = f"""\
destination: {WAREHOUSE}
kind: postgres
connection: warehouse
writer_connection: warehouse_writer
schema: {SYNC}
"""
_SYNC = f"""\
sync: {SYNC}
source: core_bank
destinations: [{WAREHOUSE}]
tables:
  - account
  - {{name: payment_order, business_date: {{column: business_date, as: date}}}}
  - system_date
nightly:
  timezone: Asia/Shanghai
  calendars: [{CALENDAR}]
  from: log
  cut_off: {{table: system_date, column: business_date}}
reconcile:
  control_totals:
    - {{table: payment_order, sum: amount, by: [currency]}}
"""


@dataclass(frozen=True)
class Week:
    """`base`: the first date with a cut, of a bank that closes for some days then. `days`: those after it, up to
    yesterday, once it is open on them after all."""

    today: date

    @property
    def base(self) -> date:
        return self.today - timedelta(days=5)

    @property
    def days(self) -> list[date]:
        return [self.base + timedelta(days=n) for n in range(1, 5)]

    def calendar(self, closed: str = "") -> str:
        return (
            f"calendar: {CALENDAR}\nfrom: {self.today - timedelta(days=60)}\nuntil: {self.today + timedelta(days=90)}\n"
            f"weekend: []\n{closed}"
        )

    @property
    def holiday(self) -> str:
        return f"holidays:\n  - {{date: {self.days[0]}, until: {self.days[-1]}, name: Golden week}}\n"


def _declare(name: str, text: str) -> None:
    file = settings.load().declarations / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _said(*command: str, within_s: float = WITHIN_S) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "seamline.cli.main", *command]
    return subprocess.run(line, capture_output=True, text=True, timeout=within_s, check=False)


def _scheduled(week: Week) -> None:
    """As docs/how-to/schedule-on-a-calendar.md and cut-from-the-log.md have it."""
    _declare(f"destinations/{WAREHOUSE}", _DESTINATION)
    _declare(f"calendars/{CALENDAR}", week.calendar(week.holiday))
    _declare(f"syncs/{SYNC}", _SYNC)
    source = settings.load().declarations / "sources" / "core_bank.yaml"
    text = source.read_text(encoding="utf-8")
    assert "keep_days: 7}" in text
    source.write_text(text.replace("keep_days: 7}", "keep_days: 0.01}"), encoding="utf-8")
    validated = _said("validate", "--online")
    assert validated.returncode == 0, validated.stdout + validated.stderr
    explained = _said("explain", SYNC, "--date", str(week.base)).stdout
    assert f"yes: {week.base:%A} by calendar {CALENDAR}" in explained, explained
    onboarded = _said("onboard", SYNC)
    assert onboarded.returncode == 0, onboarded.stdout + onboarded.stderr


def _newest(day: date) -> Cut | None:
    """The newest version of a date that is published."""
    return next((cut for cut in registry.platform().cuts(SYNC) if cut.business_date == day), None)


def _mode(cut: Cut) -> str:
    found = registry.platform().reconciliation(cut.run_id, "cut", cut.destination)
    assert found is not None
    return str(found.mode)


@contextmanager
def _bank() -> Iterator[Any]:
    with closing(bank.connect(connections.resolve("bank_app"))) as session, session.cursor() as cursor:
        yield cursor
        session.commit()


def _has_a_system_date(day: date) -> None:
    """The bank has a table of it, which its owner lets the reader see."""
    with _bank() as cursor:
        cursor.execute("CREATE TABLE system_date (id INT PRIMARY KEY, business_date DATE NOT NULL)")
        cursor.execute("INSERT INTO system_date VALUES (1, %s)", (day,))
    at, reader = connections.resolve("bank_app"), connections.resolve("core_bank").login
    owner = replace(connections.resolve("core_bank_root"), database=at.database)
    with closing(bank.connect(owner)) as session, session.cursor() as cursor:
        cursor.execute(f"GRANT SELECT ON system_date TO '{reader}'@'%'")


def _closes(day: date) -> None:
    """The system date moves on: `day` is over."""
    with _bank() as cursor:
        cursor.execute("UPDATE system_date SET business_date = %s", (day + timedelta(days=1),))


def _booked(week: Week) -> None:
    """On each day an account is opened, and an order is booked for the day and one for the day after the week. When all
    of it is over the accounts are closed."""
    for number, day in enumerate(week.days, start=1):
        with _bank() as cursor:
            cursor.execute(
                "INSERT INTO account (id, owner, currency, balance, opened) VALUES (%s, 'Golden', 'EUR', 1, %s)",
                (FIRST_ACCOUNT + number, day),
            )
            cursor.executemany(
                "INSERT INTO payment_order (account_id, currency, amount, status, business_date, reference, created_at)"
                " VALUES (%s, 'EUR', 5, 'new', %s, 'GOLDEN', %s)",
                [(FIRST_ACCOUNT + number, at, datetime.now(UTC).replace(tzinfo=None)) for at in (day, week.today)],
            )
        _closes(day)
    with _bank() as cursor:
        cursor.execute("UPDATE account SET status = 'closed' WHERE id > %s", (FIRST_ACCOUNT,))


@contextmanager
def _warehouse() -> Iterator[psycopg.Connection]:
    at = connections.resolve("warehouse")
    with closing(
        psycopg.connect(
            host=at.host, port=at.port, user=at.login, password=at.password, dbname=at.database, autocommit=True
        )
    ) as session:
        yield session


def _held(day: date) -> tuple[int, int]:
    """Accounts that are open of those of the week, and orders of the date, as readers see the date."""
    with _warehouse() as session:
        where = "WHERE cut_business_date = %s"
        questions = (
            f"SELECT count(*) FROM {SYNC}_cut.account_current {where} AND id > {FIRST_ACCOUNT} AND status = 'open'",
            f"SELECT count(*) FROM {SYNC}_cut.payment_order_current {where} AND reference = 'GOLDEN'",
        )
        accounts, orders = (session.execute(one.encode(), (day,)).fetchone() for one in questions)
    assert accounts is not None and orders is not None
    return int(accounts[0]), int(orders[0])


def _is_right(week: Week, day: date, *, version: int = 1) -> None:
    """That a date is cut from the log, proven, and holds what was there when it was over."""
    cut = _newest(day)
    assert cut is not None, day
    assert (cut.version, cut.verdict, cut.partial, _mode(cut)) == (version, "MATCH", False, "log"), day
    assert _held(day) == (week.days.index(day) + 1, 1), day


def _make(person: Person, first: date, last: date | None, reason: str, *, again: str = "") -> None:
    """`again`: the label of the box for dates that are done, where it is to be ticked."""
    page = person.look_at(f"/seamline/page?sync={SYNC}")
    page.get_by_role("link", name="make cuts").click()
    form = page.locator("form").filter(has=page.get_by_role("button", name="make them"))
    form.get_by_label("first date").fill(str(first))
    form.get_by_label("last date").fill(str(last) if last else "")
    form.get_by_label("side by side").fill("2")
    if again:
        form.get_by_label(again).check()
    form.get_by_label("reason").fill(reason)
    form.get_by_role("button", name="make them").click()
    expect(page.get_by_role("button", name="make them")).to_be_visible()


def _runs(office: Office) -> list[DagRun]:
    with office.api("operator") as airflow:
        return list(airflow.runs(NIGHTLY))


def _made_again(person: Person, day: date, reason: str) -> DagRun:
    """The run of one date that the page's form has started, when it has ended."""
    known = {run.run_id for run in _runs(person.office)}
    _make(person, day, None, reason, again="also dates that are done")

    def ended() -> list[DagRun]:
        return [run for run in _runs(person.office) if run.run_id not in known and run.state in FINISHED]

    wait_until(lambda: bool(ended()), timeout_s=WITHIN_S, what=f"the end of the run of {day}", every_s=1)
    return ended()[0]


def _night_passes(person: Person, week: Week) -> None:
    """Of the day before the holiday: it begins by itself, waits for the bank, and is read once the bank is through."""
    office = person.office

    def waits() -> bool:
        with office.api("operator") as airflow:
            tasks = [task for run in airflow.runs(NIGHTLY) for task in airflow.tasks(NIGHTLY, run.run_id)]
        return any((task.task_id, task.state) == ("ready", "deferred") for task in tasks)

    wait_until(waits, timeout_s=WITHIN_S, what="the night to wait for the bank", every_s=1)
    _closes(week.base)
    wait_until(lambda: _newest(week.base) is not None, timeout_s=WITHIN_S, what="the night", every_s=1)
    first = _newest(week.base)
    assert first is not None and (first.verdict, first.partial, _mode(first)) == ("MATCH", False, "read")
    assert {run.run_type for run in _runs(office)} == {"scheduled"}, "nobody started it"


def _broken(person: Person, week: Week) -> None:
    """Somebody deletes a row of a published cut; the next date is not made from it, and says why."""
    changed, day = week.days[1], week.days[2]
    with _warehouse() as session:
        gone = f"DELETE FROM {SYNC}_cut.account WHERE cut_business_date = %s AND id = {FIRST_ACCOUNT + 1}"
        assert session.execute(gone.encode(), (changed,)).rowcount == 1
    run = _made_again(person, day, "the auditors ask for it once more")
    assert run.state == "failed"
    with person.office.api("operator") as airflow:
        (task,) = [one for one in airflow.tasks(NIGHTLY, run.run_id) if one.task_id == "cut"]
        log = airflow.log_tail(NIGHTLY, run.run_id, task)
    assert f"account of the cut of {changed}, version 1, no longer holds what was compared" in log, log
    _is_right(week, day)


def _recovered(person: Person, week: Week) -> None:
    """As docs/how-to/cut-from-the-log.md says: that date is cut again, then the other."""
    for day in (week.days[1], week.days[2]):
        assert _made_again(person, day, "the cut before it was changed by hand").state == "success"
        _is_right(week, day, version=2)


@dataclass(frozen=True)
class Log:
    """The first record that the source's log still has, its end, and what it takes of the broker's disk."""

    begin: int
    end: int
    size_bytes: int


def _log() -> Log:
    topic = compile_plan(load_declarations(settings.load().declarations), "settlement").source.log_topic
    topics = registry.log_topics()
    return Log(*topics.offsets(topic), topics.size_bytes(topic))


def _much_is_written() -> Log:
    """Changes that nobody needs once they are applied. What is left of the log when they are gone: where it begins at
    the earliest, and what it takes at most, the week being smaller than half of them."""
    before = _log()
    for _ in range(UPDATES):
        with _bank() as cursor:
            cursor.execute("UPDATE account SET balance = balance + 1 WHERE id <= 300")
    until = before.end + 300 * UPDATES
    wait_until(lambda: _log().end >= until, timeout_s=WITHIN_S, what="the capture of all of them")
    full = _log()
    assert full.size_bytes > before.size_bytes
    return Log(full.end, full.end, (before.size_bytes + full.size_bytes) // 2)


def _maintained(person: Person) -> None:
    """Maintenance is asked for by a click, and has ended."""
    page = person.look_at(f"/dags/{MAINTENANCE}")
    page.get_by_test_id("trigger-dag-button").first.click()
    page.get_by_role("dialog").get_by_test_id("trigger-dag-submit").click()
    with person.office.api("operator") as airflow:
        wait_until(
            lambda: all(run.state in FINISHED for run in airflow.runs(MAINTENANCE)),
            timeout_s=WITHIN_S,
            what="the end of maintenance",
            every_s=1,
        )


def _is_pruned_to(person: Person, left: Log) -> None:
    """Until the log begins behind what was written, and its disk is free again."""

    def pruned() -> bool:
        _maintained(person)
        now = _log()
        # The broker frees whole segments, a little later.
        return now.begin >= left.begin and now.size_bytes <= left.size_bytes

    wait_until(pruned, timeout_s=PRUNED_WITHIN_S, every_s=60, what="the disk of what nobody needs to be free")


def test_a_week_is_scheduled_passes_is_made_again_broken_and_recovered_on_a_flat_disk(people: People) -> None:
    person = people.sign_in("operator")
    week = Week(datetime.now(ZONE).date())
    left = _much_is_written()
    _has_a_system_date(week.base)
    _scheduled(week)
    # By the new `keep_days` segments of the log end sooner from here on: only ended ones are freed.
    _maintained(person)
    _night_passes(person, week)
    _booked(week)
    _declare(f"calendars/{CALENDAR}", week.calendar())
    *before, yesterday = week.days
    wait_until(lambda: _newest(yesterday) is not None, timeout_s=WITHIN_S, what="the night of yesterday", every_s=1)
    _is_right(week, yesterday)

    _make(person, before[0], before[-1], "these days were no holiday")
    expect(person.page.get_by_text(re.compile("of 3 dates, 2 at once, started by operator"))).to_be_visible()
    wait_until(lambda: all(map(_newest, week.days)), timeout_s=WITHIN_S, what="the week", every_s=1)
    for day in week.days:
        _is_right(week, day)

    _broken(person, week)
    _recovered(person, week)
    page = person.look_at(f"/seamline/page?sync={SYNC}")
    expect(page.locator("td .verdict").first).to_be_visible()
    expect(page.get_by_text("Business dates without a published cut")).to_have_count(0)
    _is_pruned_to(person, left)
