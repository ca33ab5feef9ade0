"""An Airflow of its own for these tests: temporary home, SQLite, no server.

Airflow reads its settings when it is first imported, so they are set while this file is loaded.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seamline.platform import migrate
from tests.conftest import RunningStack
from tests.dags.platform_known import platform_known
from tests.integration.platform_database import Server, database_of_its_own

_CHECKOUT = Path(__file__).resolve().parents[2]
_HOME = Path(tempfile.mkdtemp(prefix="seamline-airflow-"))


def _settle() -> None:
    patch = pytest.MonkeyPatch()
    for name, value in {
        "AIRFLOW_HOME": _HOME,
        "AIRFLOW__CORE__DAGS_FOLDER": _CHECKOUT / "dags",
        "AIRFLOW__CORE__PLUGINS_FOLDER": _CHECKOUT / "plugins",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME / 'airflow.db'}",
        "AIRFLOW__STATE_STORE__CLEAR_ON_SUCCESS": "True",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "AIRFLOW__API_AUTH__JWT_SECRET": "for these tests only, long enough to be taken for a key by the signer....",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "viewer:viewer,operator:op,approver:op,olga:op",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": _HOME / "passwords.json",
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
    }.items():
        patch.setenv(name, str(value))


_settle()


def pytest_unconfigure() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(autouse=True)
def _own_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of these tests alone: tests of other folders in the same session keep their stack."""
    monkeypatch.setenv("SEAMLINE_DATA", str(_HOME / "data"))


@pytest.fixture(scope="session")
def airflow_home() -> Path:
    return _HOME


@pytest.fixture(scope="session")
def airflow_database(airflow_home: Path) -> Path:
    """The metadata database, migrated once."""
    from airflow.utils.db import initdb

    initdb()
    return airflow_home / "airflow.db"


@pytest.fixture(scope="session")
def _platform_of_drivers(stack: RunningStack) -> Iterator[tuple[Server, RunningStack]]:
    with database_of_its_own("platform_of_drivers") as server:
        migrate.upgrade(server.open)
        yield server, stack


@pytest.fixture
def rows_of_drivers(_platform_of_drivers: tuple[Server, RunningStack]) -> Iterator[Server]:
    """A real platform database, found by its connection id: drivers are known by their rows in it.

    It is not emptied: a driver that a test has left would take the row of the next test's for its own.
    """
    with platform_known(*_platform_of_drivers):
        yield _platform_of_drivers[0]


class StateStore:
    """Airflow's task state store, in memory."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def get(self, key: str, default: object = None) -> object:
        return self.values.get(key, default)

    def set(self, key: str, value: object, **_: object) -> None:
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


@pytest.fixture
def state_store() -> StateStore:
    return StateStore()
