"""A morning in front of the page: a difference is found, explained, tolerated or repaired, its date is signed and taken
away, and the log of acts verifies. `--pictures DIR` keeps pictures of the main pages there."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from playwright.sync_api import Page, expect

from seamline import registry
from seamline.adapters import connections
from seamline.adapters.airflow_rest import FINISHED
from seamline.platform.database import CONNECTION_ID as PLATFORM
from tests.browser.conftest import Office, People, Person
from tests.waiting import wait_until

SYNC = "settlement"
WITHIN_S = 600
BOUND = "0.01"
PHONE = {"width": 390, "height": 844}
WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
_BROKEN = "all => all.filter(one => one.getClientRects().length > 1).map(one => one.textContent)"
_PLANTED = """() => {
    const broad = document.body.appendChild(document.createElement("p"));
    broad.style.width = "600px";
    broad.textContent = "wider than a phone";
    const narrow = document.body.appendChild(document.createElement("p"));
    narrow.style.width = "50px";
    narrow.innerHTML = "<i>2026-11-20 09:00:00</i>";
}"""


@contextmanager
def _session(connection_id: str) -> Iterator[psycopg.Connection]:
    at = connections.resolve(connection_id)
    with closing(
        psycopg.connect(
            host=at.host, port=at.port, user=at.login, password=at.password, dbname=at.database, autocommit=True
        )
    ) as session:
        yield session


def _differences() -> None:
    """In the warehouse alone: a value, a row that is missing, and one too many."""
    with _session("warehouse") as session:
        session.execute("UPDATE settlement.account SET balance = balance + 0.0001 WHERE id = 7")
        session.execute("DELETE FROM settlement.ledger_entry WHERE id = (SELECT min(id) FROM settlement.ledger_entry)")
        session.execute(
            "INSERT INTO settlement.payment_order SELECT -1, account_id, currency, amount, status, business_date,"
            " reference, created_at FROM settlement.payment_order WHERE id = 1"
        )


def _ran(office: Office, kind: str, *, day: date | None = None) -> str:
    """Run a DAG of the sync to its end; its name."""
    dag, run_id = f"{SYNC}__{kind}", f"morning-{datetime.now(UTC):%H%M%S%f}"
    with office.api("operator") as airflow:
        airflow.unpause(dag)
        airflow.trigger(dag, run_id=run_id, partition_key=str(day) if day else None)
        wait_until(lambda: airflow.run(dag, run_id).state in FINISHED, timeout_s=WITHIN_S, what=f"the end of {dag}")
    return run_id


def published(office: Office) -> date:
    """The newest business date with a cut; where no night has run yet, one is run for the date that has ended."""
    store = registry.platform()
    if not store.cuts(SYNC):
        _ran(office, "nightly", day=datetime.now(UTC).date() - timedelta(days=2))
    return max(cut.business_date for cut in store.cuts(SYNC))


def _keep(page: Page, folder: Path | None, name: str) -> None:
    if folder is not None:
        page.screenshot(path=folder / f"{name}.png", full_page=True)


def _to_repair(person: Person) -> str:
    """The page of the newest repair."""
    page = person.look_at(f"/seamline/repairs?sync={SYNC}")
    page.locator('a[href^="repair?"]').first.click()
    return page.url.rpartition("/")[2]


def _to_break(person: Person, run_id: str, table: str) -> Page:
    """From the overview by clicks alone: the verdict of the live tables, its breaks, one of them."""
    page = person.look_at("/seamline/page")
    page.locator(f'a[href*="{run_id}"]').filter(has_text="BREAK").first.click()
    page.locator(f'a[href^="breaks?"][href$="table={table}"]').first.click()
    page.locator('a[href^="break?"]').first.click()
    return page


def _tolerated(operator: Person, approver: Person) -> None:
    page = operator.look_at(f"/seamline/tolerances?sync={SYNC}")
    page.get_by_label("column").select_option(label="account.balance in warehouse")
    page.get_by_label("per row, up to").fill(BOUND)
    page.get_by_label("until").fill(str(datetime.now(UTC).date() + timedelta(days=30)))
    page.get_by_label("why").fill("rounding of an old interface")
    page.get_by_role("button", name="ask", exact=True).click()
    expect(page.get_by_text("waits for approval")).to_be_visible()
    # Who has asked has no button to approve it.
    expect(page.get_by_role("button", name="approve")).to_have_count(0)
    page = approver.look_at(f"/seamline/tolerances?sync={SYNC}")
    page.get_by_role("button", name="approve").click()
    expect(page.get_by_text("in force")).to_be_visible()


def _repaired(operator: Person, approver: Person, folder: Path | None) -> None:
    dag, run_id = f"{SYNC}__repair", f"repair-{datetime.now(UTC):%H%M%S%f}"
    with operator.office.api("operator") as airflow:
        airflow.unpause(dag)
        airflow.trigger(dag, run_id=run_id, conf={"destination": "warehouse"})
        place = f"/seamline/repairs?sync={SYNC}"

        def planned() -> bool:
            return approver.look_at(place).locator('a[href^="repair?"]').count() > 0

        wait_until(planned, timeout_s=WITHIN_S, what="the plan")
        page = approver.page
        page.locator('a[href^="repair?"]').first.click()
        _keep(page, folder, "repair")
        page.get_by_label("reason").fill("an analyst wrote the warehouse by hand")
        page.get_by_role("button", name="approve").click()
        wait_until(lambda: airflow.run(dag, run_id).state in FINISHED, timeout_s=WITHIN_S, what="the repair")
        states = {task.task_id: task.state for task in airflow.tasks(dag, run_id)}
        assert airflow.run(dag, run_id).state == "success", states
    page = approver.look_at(place)
    expect(page.locator("tr").filter(has_text="applied").filter(has_text="MATCH")).to_be_visible()


@contextmanager
def _long_values(run_id: str) -> Iterator[None]:
    """Meanwhile each row that this comparison has found has twelve columns, and a name, a key and values of up to 4,000
    signs."""
    key = json.dumps(["k" * 4_000])
    values = {"c" * 60 if n == 3 else f"column_{n}": "<b>" * 1_300 if n == 5 else f"value {n}" for n in range(12)}
    texts = [json.dumps({name: f"{side}{value}" for name, value in values.items()}) for side in "sd"]
    which = "where reconciliation_id in (select reconciliation_id from reconciliation where run_id = %s)"
    with _session(PLATFORM) as session:
        of_row = "reconciliation_id, table_ordinal, ordinal"
        kept = f"select key, source_values::text, destination_values::text, {of_row} from break {which}"
        rows = session.execute(kept.encode(), (run_id,)).fetchall()
        change = "update break set key = %s, source_values = %s, destination_values = %s"
        assert session.execute(f"{change} {which}".encode(), (key, *texts, run_id)).rowcount == len(rows) > 0
        try:
            yield
        finally:
            for row in rows:
                session.execute(f"{change} where ({of_row}) = (%s, %s, %s)".encode(), row)


def _fits_a_phone(person: Person, places: Sequence[str]) -> None:
    """In both languages no page is wider than a phone, and no moment stands on two lines."""
    page = person.page
    page.set_viewport_size(PHONE)
    for language in ("zh-CN", "en"):
        for place in places:
            person.look_at(f"/seamline/language?to={language}&here={quote(place, safe='')}")
            assert page.url.endswith(place) and page.locator("html").get_attribute("lang") == language
            assert page.evaluate(WIDER) <= 0, (language, place)
            assert page.locator(".at").count() and page.locator(".at").evaluate_all(_BROKEN) == [], (language, place)
    page.evaluate(_PLANTED)
    assert page.evaluate(WIDER) > 0 and page.locator("i").evaluate_all(_BROKEN), "neither is found"


def _audited() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seamline.cli.main", "audit", "verify"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def _with_one_byte_changed(day: date, person: Person) -> subprocess.CompletedProcess[str]:
    """What the log's check says while one digit of the stored sums of `day` is another one; the page says it first."""
    with _session(PLATFORM) as session:
        change = (
            "update control_total set destination_sum = destination_sum + %s where (reconciliation_id, table_name) in"
            " (select reconciliation_id, 'ledger_entry' from reconciliation where business_date = %s)"
        )
        assert session.execute(change.encode(), (1, day)).rowcount
        found = _audited()
        page = person.look_at(f"/seamline/page?sync={SYNC}&business_date={day}")
        expect(page.locator("section").first).to_contain_text("the stored verdict is not the one that was recorded")
        expect(page.get_by_text("ALTERED").first).to_be_visible()
        session.execute(change.encode(), (-1, day))
    return found


def test_a_morning_ends_with_a_signed_date_and_a_log_of_acts_that_verifies(
    people: People, pytestconfig: pytest.Config
) -> None:
    folder = pytestconfig.getoption("--pictures")
    operator, approver = people.sign_in("operator"), people.sign_in("approver")
    office = operator.office
    day = published(office)
    _differences()
    compared = _ran(office, "reconcile")

    page = operator.look_at("/seamline/page")
    page.locator(f'a[href*="{compared}"]').filter(has_text="BREAK").first.click()
    expect(page.get_by_role("heading", name="Breaks by age").first).to_be_visible()
    _keep(page, folder, "live")
    page = _to_break(operator, compared, "payment_order")
    one_break = page.url.rpartition("/")[2]
    form = page.locator("form").filter(has=page.get_by_role("button", name="explain this break"))
    form.locator("select").select_option(index=1)
    form.locator("textarea").fill("the order was booked by hand")
    page.get_by_role("button", name="explain this break").click()
    expect(page.get_by_text(re.compile("explained"))).not_to_have_count(0)
    _keep(page, folder, "break")
    _tolerated(operator, approver)
    page = _to_break(operator, _ran(office, "reconcile"), "account")
    expect(page.get_by_text("tolerated").first).to_be_visible()
    _keep(operator.look_at("/seamline/page"), folder, "overview")
    _repaired(operator, approver, folder)
    viewer, run = people.sign_in("viewer"), f"{SYNC}/reconcile/-/{compared}"
    breaks = f"breaks?sync={SYNC}&run={quote(run, safe='')}&destination=warehouse&scope=live"
    of_date = [f"page?sync={SYNC}", f"page?sync={SYNC}&business_date={day}"]
    with _long_values(run):
        _fits_a_phone(viewer, ["page", *of_date, breaks, one_break, _to_repair(viewer)])

    page = approver.look_at(f"/seamline/page?sync={SYNC}&business_date={day}")
    section = page.locator("section").filter(has_text="Sign-off of version").filter(has_text="in warehouse")
    section.get_by_label(re.compile("reason")).fill("read and agreed")
    section.get_by_role("button", name=re.compile("^Sign version")).click()
    section = page.locator("section").filter(has_text="Sign-off of version").filter(has_text="in warehouse")
    expect(section.get_by_text(re.compile("signed by approver"))).to_be_visible()
    _keep(page, folder, "date")
    # Locked for who has signed; the other person may re-open it.
    expect(section.get_by_role("button", name="Re-open")).to_have_count(0)
    with page.expect_download() as taken:
        page.get_by_role("link", name="XLSX").click()
    assert taken.value.suggested_filename == f"reconciliation-{SYNC}-{day}.xlsx"
    assert Path(taken.value.path()).read_bytes().startswith(b"PK")

    verified = _audited()
    assert verified.returncode == 0, verified.stdout + verified.stderr
    found = _with_one_byte_changed(day, approver)
    assert found.returncode != 0 and f"{SYNC} → warehouse {day}" in found.stdout, found.stdout
    assert "table ledger_entry was changed after entry" in found.stdout
