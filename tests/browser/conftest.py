"""A stack with an onboarded bank, and a person in front of a Chromium who knows Airflow's own pages only."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from seamline import registry, settings
from seamline.adapters.airflow_rest import AirflowRest
from seamline.cli.demo import SYNC, Demo
from seamline.demo import bank
from seamline.demo.story import Story
from seamline.domain.runs import SyncState
from seamline.stack import boot, components, credentials
from seamline.stack.layout import Layout

_CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
_SHOWN_WITHIN_MS = 60_000
_DOWN_WITHIN_S = 120


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pictures", type=Path, default=None, help="folder in which pictures of the pages are kept")


@dataclass(frozen=True)
class Office:
    """Where Airflow is, and who works there."""

    address: str
    passwords: dict[str, str]

    def api(self, user: str) -> AirflowRest:
        return AirflowRest(self.address, user, self.passwords[user])


@pytest.fixture(scope="session")
def office(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """The shipped sync over a small bank without writers, onboarded. Its declarations are a copy: people change them.
    A machine without `chromium` is known before minutes are spent."""
    declared = tmp_path_factory.mktemp("declared")
    for name in ("sources", "destinations", "syncs", "expectations", "transforms"):
        shutil.copytree(settings.load().declarations / name, declared / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEAMLINE_DECLARATIONS", str(declared))
        yield from _office()


def _office() -> Iterator[Office]:
    try:
        yield _opened(Demo(Layout(settings.load())))
    finally:
        subprocess.run([sys.executable, "-m", "seamline.cli.main", "down"], check=True, timeout=_DOWN_WITHIN_S)


def _opened(demo: Demo) -> Office:
    boot.up(demo.layout, components.choose(), demo.progress)
    demo.fill_bank(bank.SMALL)
    made = credentials.load_or_make(demo.layout)
    passwords = {user: made[f"airflow_user_{user}"] for user in ("viewer", "operator", "approver")}
    one = Office(f"http://127.0.0.1:{settings.load().ports.airflow}", passwords)
    with one.api("operator") as airflow:
        story = Story(airflow, demo.plan(SYNC), demo.progress)
        story.wait_for_dags()
        if registry.platform().sync_state(SYNC) is not SyncState.ENABLED:
            story.onboard()
    return one


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, _CHROMIUMS)), None)
    if program is None:
        pytest.fail(f"these tests need one of {', '.join(_CHROMIUMS)}: on Debian `apt-get install chromium`")
    # Playwright's 5 s are over on a busy machine before Airflow has drawn its page.
    expect.set_options(timeout=_SHOWN_WITHIN_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@dataclass(frozen=True)
class Person:
    """Somebody who has signed in by the form. `page` is what they look at."""

    office: Office
    page: Page

    def look_at(self, place: str) -> Page:
        self.page.goto(f"{self.office.address}{place}")
        return self.page


@pytest.fixture
def people(office: Office, chromium: Browser) -> Iterator["People"]:
    one = People(office, chromium)
    yield one
    one.leave()


class People:
    """Each with a browser of their own."""

    def __init__(self, office: Office, chromium: Browser) -> None:
        self._office = office
        self._chromium = chromium
        self._pages: list[Page] = []

    def sign_in(self, user: str) -> Person:
        context = self._chromium.new_context(viewport={"width": 1400, "height": 1000})
        page = context.new_page()
        page.set_default_timeout(_SHOWN_WITHIN_MS)
        self._pages.append(page)
        page.goto(f"{self._office.address}/")
        page.fill("input[name=username]", user)
        page.fill("input[name=password]", self._office.passwords[user])
        page.click("button[type=submit]")
        page.wait_for_url(lambda address: "/auth/login" not in address)
        return Person(self._office, page)

    def leave(self) -> None:
        for page in self._pages:
            page.context.close()
