"""The Reconciliation page, reached by clicks from Airflow's own pages, and Airflow's pages reached from it."""

import re
from datetime import UTC, datetime

from playwright.sync_api import expect

from seamline.adapters.airflow_rest import FINISHED
from tests.browser.conftest import Office, People
from tests.waiting import wait_until

RECONCILE = "settlement__reconcile"
WITHIN_S = 300
_SHOWN_MS = 60_000


def _compared(office: Office) -> str:
    """The name of a run that has compared the live tables."""
    run_id = f"seen-{datetime.now(UTC):%H%M%S%f}"
    with office.api("operator") as airflow:
        airflow.unpause(RECONCILE)
        airflow.trigger(RECONCILE, run_id=run_id)
        wait_until(lambda: airflow.run(RECONCILE, run_id).state in FINISHED, timeout_s=WITHIN_S, what="its end")
    return run_id


def test_the_menu_opens_the_page_from_which_links_lead_to_the_run_and_in_the_run_s_tab_its_address_is_shown(
    people: People,
) -> None:
    person = people.sign_in("viewer")
    run_id = _compared(person.office)
    run = f"/dags/{RECONCILE}/runs/{run_id}"
    airflow = person.look_at("/")
    airflow.get_by_role("button", name="Browse").click()
    with airflow.expect_popup() as opened:
        airflow.get_by_role("menuitem", name="Reconciliation").click()
    page = opened.value
    expect(page).to_have_url(re.compile(r"/seamline/page$"))
    page.get_by_role("link", name="settlement", exact=True).click()
    # Each of the two destinations has a verdict of its own.
    page.locator(f'a[href$="{run_id}"]').filter(has_text="MATCH").first.click()
    page.get_by_role("link", name=f"settlement/reconcile/-/{run_id}").first.click()
    expect(page).to_have_url(re.compile(f"{run}(/|$)"))
    tab = person.look_at(f"{run}/plugin/reconciliation-run").frame_locator("iframe")
    expect(tab.get_by_text(f"{person.office.address}{run}", exact=True).first).to_be_visible(timeout=_SHOWN_MS)
    assert tab.locator(f'a[href*="{run}"]').count() == 0
