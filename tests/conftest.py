"""What every layer shares. Fixtures of one layer live beside its tests."""

import gc
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.settings import Settings
from tests.once_more import pytest_addoption, pytest_collection_modifyitems, pytest_configure

__all__ = ["pytest_addoption", "pytest_collection_modifyitems", "pytest_configure"]

# A failed assertion of a suite or a world says its values too, not only that of a test's own file.
pytest.register_assert_rewrite("tests.contract", "tests.fault", "tests.integration", "tests.compose")

# Machines with two busy cores: a slow example is not a wrong one, so no deadline per example.
hypothesis_settings.register_profile("seamline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("seamline")


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the collector of garbage needs to look at none of it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


@dataclass(frozen=True)
class RunningStack:
    """The servers that tests run against: those of the settings, started by `./seamline test` or `./seamline up`."""

    settings: Settings

    def connection(self, connection_id: str) -> Connection:
        return resolve(connection_id, within=self.settings)


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the checkout under test."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def stack() -> RunningStack:
    """Settings and connections of running servers. Make your own databases and topics in them, and drop them after."""
    known = settings.load()
    if not known.connections.is_file():
        pytest.fail(f"no stack in {known.data}: run this through `./seamline test`, or `./seamline up` first")
    return RunningStack(known)
