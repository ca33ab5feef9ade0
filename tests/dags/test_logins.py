"""What Airflow's secrets backends say of a connection reaches those who read the connections file only."""

import json
from pathlib import Path

import pytest

from seamline.adapters.connections import resolve
from seamline.domain.errors import ConfigError
from seamline_airflow.errors import task_errors
from seamline_airflow.logins import take_from_airflow

OTHER = {"conn_type": "http", "host": "127.0.0.1", "port": 1}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "connections.json"
    path.write_text(json.dumps({"connect": OTHER, "warehouse_writer": {**OTHER, "password": "old"}}))
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(path))
    monkeypatch.delenv("SEAMLINE_CONNECTION_WAREHOUSE_WRITER", raising=False)
    monkeypatch.setenv("SEAMLINE_CONNECTIONS_FROM_AIRFLOW", "warehouse_writer")
    return path


def airflow_says(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    uri = f"postgresql://writer:{password}@db.example:5432/warehouse?sslmode=require"
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE_WRITER", uri)


def test_a_task_begins_with_the_logins_that_airflow_knows_now(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for password in ("first", "rotated"):
        airflow_says(monkeypatch, password)
        with task_errors():
            found = resolve("warehouse_writer")
        assert (found.kind, found.host, found.port, found.database) == ("postgres", "db.example", 5432, "warehouse")
        assert (found.login, found.password, dict(found.extra)) == ("writer", password, {"sslmode": "require"})
    assert json.loads(file.read_text())["connect"] == OTHER
    assert file.stat().st_mode & 0o077 == 0
    written = file.stat().st_mtime_ns
    take_from_airflow()
    assert file.stat().st_mtime_ns == written, "the file is written only where something changed"


def test_what_is_not_named_is_left_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    airflow_says(monkeypatch, "first")
    monkeypatch.delenv("SEAMLINE_CONNECTIONS_FROM_AIRFLOW")
    take_from_airflow()
    assert resolve("warehouse_writer").password == "old"


def test_a_secrets_backend_that_is_away_for_a_moment_leaves_the_logins_of_before(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow says the same of a backend that does not answer and of a connection that is not there."""
    with task_errors():
        assert resolve("warehouse_writer").password == "old"
    assert "warehouse_writer" in caplog.text


def test_an_extra_that_airflow_cannot_read_is_refused_and_is_no_session_in_the_clear(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {**OTHER, "conn_type": "postgres", "password": "hunter2", "extra": '{"sslmode": "verify-full",}'}
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE_WRITER", json.dumps(broken))
    with pytest.raises(ConfigError, match="`warehouse_writer`") as refused:
        take_from_airflow()
    assert "hunter2" not in str(refused.value)
    assert resolve("warehouse_writer").password == "old"


def test_a_file_that_airflow_itself_asks_first_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else Airflow would answer with what was written there once, and never with a login that was rotated."""
    airflow_says(monkeypatch, "rotated")
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", "airflow.secrets.local_filesystem.LocalFilesystemBackend")
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps({"connections_file_path": str(file)}))
    with pytest.raises(ConfigError, match=str(file)):
        take_from_airflow()
    other = {"connections_file_path": str(file.parent / "other")}
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps(other))
    take_from_airflow()
    assert resolve("warehouse_writer").password == "rotated"


def test_a_connection_that_airflow_does_not_know_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTIONS_FROM_AIRFLOW", "nowhere_to_be_found")
    with pytest.raises(ConfigError, match="`nowhere_to_be_found`"):
        take_from_airflow()
