"""Airflow's own forms, clicked: the night is started with a date, a cut that is not clean is signed with a reason."""

from contextlib import closing
from datetime import UTC, date, datetime
from typing import Any

from playwright.sync_api import Page, expect

from seamline import registry
from seamline.adapters import connections
from seamline.adapters.airflow_rest import FINISHED, DagRun
from seamline.demo import bank
from seamline.domain.calendar import last_ended
from seamline.domain.decision import DECISION
from seamline.domain.runs import MODE, ONLY_TABLES, REASON
from tests.browser.conftest import Office, People, Person
from tests.waiting import wait_until

NIGHTLY = "settlement__nightly"
ZONE = "Asia/Shanghai"
WITHIN_S = 600


def _newest_date() -> date:
    return last_ended(datetime.now(UTC), timezone=ZONE)


def _trigger(person: Person, filled: dict[str, str], *, mode: str = "", tables: str = "") -> DagRun:
    """Fill the form in and press its button; the run that it started."""
    with person.office.api("operator") as airflow:
        known = {run.run_id for run in airflow.runs(NIGHTLY)}
        page = person.look_at(f"/dags/{NIGHTLY}")
        page.get_by_test_id("trigger-dag-button").first.click()
        dialog = page.get_by_role("dialog")
        for name, text in filled.items():
            dialog.locator(f"#element_{name}").fill(text)
        for name, choice in (("mode", mode), ("tables", tables)):
            if choice:
                _choose(page, name, choice)
        dialog.get_by_test_id("trigger-dag-submit").click()

        def started() -> list[DagRun]:
            return [run for run in airflow.runs(NIGHTLY) if run.run_id not in known]

        wait_until(lambda: bool(started()), timeout_s=60, what="the run")
        return started()[0]


def _choose(page: Page, name: str, choice: str) -> None:
    page.locator(f"#element_{name}").click()
    page.get_by_role("option", name=choice, exact=True).click()


def _ended(office: Office, run: DagRun) -> dict[str, str]:
    """The state of each task when the run has ended."""
    with office.api("operator") as airflow:
        wait_until(lambda: airflow.run(NIGHTLY, run.run_id).state in FINISHED, timeout_s=WITHIN_S, what="its end")
        return {task.task_id: task.state for task in airflow.tasks(NIGHTLY, run.run_id)}


def _log(office: Office, run: DagRun, task_id: str) -> str:
    with office.api("operator") as airflow:
        (task,) = [task for task in airflow.tasks(NIGHTLY, run.run_id) if task.task_id == task_id]
        return airflow.log_tail(NIGHTLY, run.run_id, task)


def _kept(run: DagRun, day: date) -> Any:
    return registry.platform().run(f"settlement/nightly/{day}/{run.run_id}")


def test_the_form_of_the_night_refuses_no_date_and_one_to_come_and_takes_one_that_has_ended(people: People) -> None:
    person = people.sign_in("operator")
    day = _newest_date()
    for filled, logged in (
        ({}, "this run has no business date"),
        ({"business_date": "2999-01-01"}, f"the newest date that has ended is {day}"),
    ):
        run = _trigger(person, filled)
        assert {name for name, state in _ended(person.office, run).items() if state != "upstream_failed"} == {"open"}
        assert logged in _log(person.office, run, "open")
    run = _trigger(
        person,
        {"business_date": str(day), "reason": "before the audit"},
        mode="compare only",
        tables="payment_order",
    )
    states = _ended(person.office, run)
    assert (states["gate"], states["publish"]) == ("success", "skipped"), states
    kept = _kept(run, day).result
    assert [kept[key] for key in (MODE, ONLY_TABLES, REASON)] == ["compare only", ["payment_order"], "before the audit"]


def _order_below_zero(day: date) -> int:
    """Somebody books an order that no rule allows; its id."""
    with closing(bank.connect(connections.resolve("bank_app"))) as session, session.cursor() as cursor:
        cursor.execute(
            "INSERT INTO payment_order (account_id, currency, amount, status, business_date, reference, created_at)"
            " VALUES (1, 'EUR', -5, 'new', %s, 'PO-BELOW-ZERO', %s)",
            (day, datetime.now(UTC).replace(tzinfo=None)),
        )
        session.commit()
        return int(cursor.lastrowid or 0)


def _approve(office: Office, run: DagRun) -> str:
    with office.api("operator") as airflow:
        return {task.task_id: task.state for task in airflow.tasks(NIGHTLY, run.run_id)}["approve"]


def _waits(office: Office, run: DagRun) -> None:
    wait_until(lambda: _approve(office, run) == "awaiting_input", timeout_s=WITHIN_S, what="the question")


def test_a_cut_is_signed_with_a_reason_only_by_who_knows_the_row_and_is_said_to_be_the_one(people: People) -> None:
    day = _newest_date()
    order = _order_below_zero(day)
    operator, approver = people.sign_in("operator"), people.sign_in("approver")
    run = _trigger(operator, {"business_date": str(day)})
    office = operator.office
    _waits(office, run)
    place = f"/dags/{NIGHTLY}/runs/{run.run_id}/tasks/approve/required_actions"
    for person in (operator, approver):
        page = person.look_at(place)
        # Of each destination: both have the row.
        expect(page.get_by_text(f'{{"id": "{order}"}}')).to_have_count(2)
        expect(page.get_by_text("a payment order moves money one way")).to_have_count(2)
        expect(page.get_by_text("Only approver may answer")).to_be_visible()
        report = page.get_by_role("link", name="The report of this date").get_attribute("href")
        assert report == f"/seamline/page?sync=settlement&business_date={day}"
    expect(page.get_by_role("button", name="Approve")).to_be_disabled()

    # A program may send what the form does not: Airflow takes it, and the question stands again.
    asked = _kept(run, day).result[DECISION]
    answer = approver.page.request.patch(
        f"{office.address}/api/v2/dags/{NIGHTLY}/dagRuns/{run.run_id}/taskInstances/approve/-1/hitlDetails",
        data={"chosen_options": ["Approve"], "params_input": {"reason": "  "}},
    )
    assert answer.ok, answer.text()
    wait_until(lambda: _approve(office, run) != "awaiting_input", timeout_s=WITHIN_S, what="the answer to be read")
    _waits(office, run)
    assert _kept(run, day).result[DECISION] == asked

    page = approver.look_at(place)
    page.locator("#element_reason").fill("the payer was told")
    page.get_by_role("button", name="Approve").click()
    assert _ended(office, run)["publish_rest"] == "success"
    decision = _kept(run, day).result[DECISION]
    assert [decision[key] for key in ("state", "who", "reason")] == ["approved", "approver", "the payer was told"]
    _is_followed_by_a_comparison(office, day)


def _is_followed_by_a_comparison(office: Office, day: date) -> None:
    """Of the date that the form named, though the run has no partition key."""
    with office.api("operator") as airflow:
        wait_until(
            lambda: str(day) in {run.partition_key for run in airflow.runs("settlement__reconcile")},
            timeout_s=WITHIN_S,
            what="the comparison of the live tables",
        )
