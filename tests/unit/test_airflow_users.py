"""Who can be an approver is said by Airflow's own settings."""

from pathlib import Path

import pytest

from seamline import settings
from seamline.stack.airflow_users import known_users
from seamline.stack.layout import Layout

NAMES = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (NAMES, "AIRFLOW_HOME", "AIRFLOW__CORE__AUTH_MANAGER", "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS"):
        monkeypatch.delenv(name, raising=False)


def users() -> frozenset[str]:
    return known_users(Layout(settings.load()))


def test_the_local_stack_has_the_users_that_it_makes() -> None:
    assert users() == {"viewer", "operator", "approver"}


def test_variables_come_before_the_file_of_an_airflow_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    assert users() == frozenset(), "nothing is known of it"
    text = "[core]\nsimple_auth_manager_users = olga:admin, ivan : op\nfernet_key = a%b\n"
    (tmp_path / "airflow.cfg").write_text(text, encoding="utf-8")
    assert users() == {"olga", "ivan"}
    monkeypatch.setenv(NAMES, "li:admin")
    assert users() == {"li"}


def test_users_of_another_auth_manager_and_of_one_that_asks_nobody_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "airflow.providers.fab.auth_manager.FabAuthManager")
    assert users() == frozenset()
    monkeypatch.delenv("AIRFLOW__CORE__AUTH_MANAGER")
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")
    assert users() == frozenset()
