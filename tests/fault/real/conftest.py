"""What a run of the layer is given, and the report that it may leave."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import RunningStack
from tests.fault.real.bank_under_fire import BankUnderFire, bank_under_fire
from tests.fault.real.kinds import KINDS
from tests.fault.real.report import Tally, written
from tests.integration.conftest import mysql_root

__all__ = ["mysql_root"]

# Two thirds of what they could write: a longer history makes every load and every comparison after it longer.
PAUSE_S_MAX = 0.4
TALLY = pytest.StashKey[Tally]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", default="", help="seed of writers and hits; without it one is drawn and printed")
    parser.addoption("--report", default="", help="write the report of this run to this file")


def pytest_configure(config: pytest.Config) -> None:
    seed = config.getoption("--seed", "") or str(random.SystemRandom().randrange(10_000))
    config.stash[TALLY] = Tally(seed)


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed of this run: --seed {config.stash[TALLY].seed}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    file = session.config.getoption("--report", "")
    if file:
        text = written(session.config.stash[TALLY], tests=session.testscollected, failed=session.testsfailed)
        (session.config.rootpath / file).write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def tally(request: pytest.FixtureRequest) -> Tally:
    """What the whole run has found."""
    return request.config.stash[TALLY]


@pytest.fixture(scope="module", params=list(KINDS))
def bank(
    request: pytest.FixtureRequest, stack: RunningStack, tally: Tally, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BankUnderFire]:
    """One for each module and kind of source: no case compares the rows of all."""
    if request.param == "mysql":
        # Started for those who ask for it alone.
        request.getfixturevalue("mysql_root")
    folder: Path = tmp_path_factory.mktemp(f"t1_{request.param}")
    with bank_under_fire(request.param, folder=folder, seed=tally.seed, pause_s_max=PAUSE_S_MAX) as made:
        yield made
