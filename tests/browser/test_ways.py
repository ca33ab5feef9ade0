"""What people met on the page before it had its ways: links from every verdict, phones, the sync's zone, the login,
files of what is shown, and a stream that is paused by clicks."""

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, Page, expect

from seamline.adapters.airflow_rest import FINISHED
from tests.browser.conftest import Office, People
from tests.browser.test_work import PHONE, SYNC, WIDER, WITHIN_S, published
from tests.waiting import wait_until

NIGHTLY = f"{SYNC}__nightly"
_OFFSET = "+08:00"  # of the sync's own zone, Asia/Shanghai
# Between text and ground, as WCAG 2 asks for it.
_CONTRAST = 4.5
_COLOURS = """(one) => {
    const ground = (node) => {
        for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (!/, 0\\)$/.test(colour)) return colour;
        }
        return getComputedStyle(document.documentElement).backgroundColor;
    };
    return [getComputedStyle(one).color, ground(one)];
}"""


def _contrast(colours: list[str]) -> float:
    """As WCAG 2 defines it, from 1 to 21."""
    lights = sorted((_luminance(colour) for colour in colours), reverse=True)
    return (lights[0] + 0.05) / (lights[1] + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _listed(page: Page) -> list[str]:
    return [text.strip() for text in page.locator('td:first-child a[href*="business_date="]').all_text_contents()]


def test_each_verdict_leads_to_its_report_and_from_there_to_the_run_its_log_and_back(people: People) -> None:
    person = people.sign_in("viewer")
    day = str(published(person.office))
    page = person.look_at("/seamline/page")
    assert page.locator("td .verdict").count()
    expect(page.locator("td .verdict:not(a .verdict)")).to_have_count(0)
    page.locator(f'a[href*="business_date={day}"]').first.click()
    expect(page.locator(".verdict.big").first).to_be_visible()
    for link, path in (("its log", r"/tasks/"), ("settlement.nightly.", r"/dags/settlement__nightly/runs/")):
        page.get_by_role("link", name=re.compile(link)).first.click()
        expect(page).to_have_url(re.compile(path))
        page.go_back()
    page.get_by_role("link", name=SYNC, exact=True).first.click()
    dates = _listed(page)
    assert day in dates and dates == sorted(dates, reverse=True)


def test_a_phone_and_a_dark_page_show_the_verdict_in_words_and_nothing_runs_out_of_the_page(
    office: Office, people: People
) -> None:
    person = people.sign_in("viewer")
    day = published(office)
    page = person.page
    page.set_viewport_size(PHONE)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for place in ("", f"?sync={SYNC}", f"?sync={SYNC}&business_date={day}"):
            person.look_at(f"/seamline/page{place}")
            assert page.evaluate(WIDER) <= 0, (scheme, place)
            verdicts = page.locator(".verdict")
            assert verdicts.count()
            for one in verdicts.all():
                assert re.search(r"[A-Z]{3}", one.inner_text()), "colour alone carries nothing"
                found = _contrast(one.evaluate(_COLOURS))
                assert found >= _CONTRAST, (scheme, place, one.inner_text(), found)
    # The grid scrolls in a box of its own, which begins with the newest date.
    newest = person.look_at("/seamline/page").locator(".matrix th time").first
    box, grid = newest.bounding_box(), page.locator(".wide").filter(has=newest).bounding_box()
    assert box and grid and box["x"] + box["width"] <= grid["x"] + grid["width"] <= PHONE["width"]


def test_times_are_those_of_the_sync_s_own_zone(people: People) -> None:
    person = people.sign_in("viewer")
    day = published(person.office)
    page = person.look_at(f"/seamline/page?sync={SYNC}&business_date={day}")
    shown = page.locator("main, body").first.inner_text()
    moments = re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (\S{6})", shown)
    assert moments and set(moments) == {_OFFSET}


def test_who_has_not_signed_in_comes_by_the_login_to_what_was_asked_for(office: Office, chromium: Browser) -> None:
    day = published(office)
    asked = f"/seamline/page?sync={SYNC}&business_date={day}"
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{office.address}{asked}")
    assert urlsplit(page.url).path == "/auth/login"
    page.fill("input[name=username]", "viewer")
    page.fill("input[name=password]", office.passwords["viewer"])
    page.click("button[type=submit]")
    expect(page).to_have_url(f"{office.address}{asked}")
    context.close()


def test_a_stream_is_paused_by_clicks_stands_red_and_is_let_go_on_by_another(people: People) -> None:
    operator, approver = people.sign_in("operator"), people.sign_in("approver")
    page = operator.look_at(f"/seamline/page?sync={SYNC}")
    form = page.locator("form").filter(has=page.get_by_role("button", name=re.compile("^Pause .*warehouse")))
    form.get_by_label("reason").fill("the warehouse moves")
    form.get_by_role("button").click()
    expect(page.get_by_text("by operator, “the warehouse moves”").first).to_be_visible()
    stream = page.locator("tr").filter(has_text="warehouse").filter(has_text="the warehouse moves").first
    expect(stream.locator(".differs")).to_contain_text("paused")
    page = approver.look_at(f"/seamline/page?sync={SYNC}")
    page.get_by_role("button", name=re.compile("^Let .*warehouse go on")).click()
    expect(page.get_by_text("the warehouse moves")).to_have_count(0)

    def well() -> bool:
        page.reload()
        row = page.locator("tr").filter(has=page.get_by_text(re.compile("warehouse$"))).first
        return row.locator(".well").count() > 0

    wait_until(well, timeout_s=WITHIN_S, what="the stream to move again")


def test_the_run_s_tab_says_where_its_report_is_and_that_is_taken_away_in_each_form(people: People) -> None:
    person = people.sign_in("operator")
    office = person.office
    starts = {"XLSX": b"PK", "CSV": b"", "JSON": b"[", "PDF": b"%PDF"}
    with office.api("operator") as airflow:
        run = next(one for one in airflow.runs(NIGHTLY) if one.state in FINISHED)
    tab = person.look_at(f"/dags/{NIGHTLY}/runs/{run.run_id}/plugin/reconciliation-run").frame_locator("iframe")
    # Airflow's frame lets nothing be downloaded: it shows where the report is.
    shown = tab.locator("code").filter(has_text=f"/seamline/page?sync={SYNC}&business_date=").first
    page = person.page
    address = shown.inner_text(timeout=WITHIN_S * 1_000)
    # Of the run's own date, which need not be the newest one that is published.
    (day,) = parse_qs(urlsplit(address).query)["business_date"]
    page.goto(address)
    for name, start in starts.items():
        with page.expect_download() as taken:
            page.get_by_role("link", name=name, exact=True).first.click()
        content = taken.value.path().read_bytes()
        assert content.startswith(start) and len(content) > 100, name
        assert taken.value.suggested_filename.startswith(f"reconciliation-{SYNC}-{day}")
