"""What a soak is given, and the journal and page that it leaves."""

import random
from pathlib import Path

import pytest

from tests.fault.soak.journal import Journal, page
from tests.fault.soak.nemesis import FAULTS, Fault

JOURNAL = pytest.StashKey[Journal]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", default="", help="seed of writers and faults; without it one is drawn and printed")
    parser.addoption("--hours", type=float, default=2.0, help="how long, with what the journal has already")
    parser.addoption("--only", default="", help="only faults whose name contains this")
    parser.addoption("--journal", default="", help="keep what was done in this file, and go on from it")
    parser.addoption("--report", default="", help="write the report of the journal to this file")


def pytest_configure(config: pytest.Config) -> None:
    seed = config.getoption("--seed", "") or str(random.SystemRandom().randrange(10_000))
    named = config.getoption("--journal", "")
    file = config.rootpath / named if named else Path(config.rootpath / ".seamline" / f"soak-{seed}.jsonl")
    config.stash[JOURNAL] = Journal.open(file, seed=seed)


def pytest_report_header(config: pytest.Config) -> str:
    journal = config.stash[JOURNAL]
    return f"seed of this soak: --seed {journal.seed}; {len(journal.faults)} faults done, journal {journal.file}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    file = session.config.getoption("--report", "")
    if file:
        (session.config.rootpath / file).write_text(page(session.config.stash[JOURNAL]), encoding="utf-8")


@pytest.fixture(scope="session")
def journal(request: pytest.FixtureRequest) -> Journal:
    return request.config.stash[JOURNAL]


@pytest.fixture(scope="session")
def hours(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--hours"))


@pytest.fixture(scope="session")
def faults(request: pytest.FixtureRequest) -> tuple[Fault, ...]:
    only = request.config.getoption("--only")
    return tuple(fault for fault in FAULTS if only in fault.name)
