"""`seamline exec` runs programs of the environment and the servers' clients."""

import os
from pathlib import Path

import pytest

from seamline.cli.main import main
from seamline.domain.errors import ConfigError
from seamline.stack.postgres import binaries


@pytest.fixture(autouse=True)
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path))
    monkeypatch.setenv("SEAMLINE_CONNECTION_AIRFLOW_DB", "postgres://airflow:secret@127.0.0.1:1/airflow")


def test_the_servers_client_is_found_here_and_by_what_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, list[str], str]] = []
    monkeypatch.setattr(os, "execve", lambda file, words, variables: ran.append((file, words, variables["PATH"])))
    main(["exec", "psql", "--version"])
    ((file, words, path),) = ran
    assert Path(file) == binaries() / "psql"
    assert words[1:] == ["--version"]
    assert str(binaries()) in path.split(":")


CLIENTS = {
    "postgres://writer:s%20cret@127.0.0.1:5/warehouse": (
        [],
        {"PGHOST": "127.0.0.1", "PGPORT": "5", "PGUSER": "writer", "PGPASSWORD": "s cret", "PGDATABASE": "warehouse"},
    ),
    "mysql://reader:s%20cret@127.0.0.1:6/bank": (
        ["--host=127.0.0.1", "--port=6", "--user=reader", "--database=bank"],
        {"MYSQL_PWD": "s cret"},
    ),
}


@pytest.mark.parametrize("uri", CLIENTS)
def test_a_client_opens_a_connection_and_its_password_is_in_no_argument(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setenv("SEAMLINE_CONNECTION_PLACE", uri)
    monkeypatch.setattr(os, "execve", lambda file, words, variables: ran.append((words, variables)))
    main(["exec", "--as", "place", "psql", "-c", "SELECT 1"])
    ((words, variables),) = ran
    options, more = CLIENTS[uri]
    assert words[1:] == [*options, "-c", "SELECT 1"]
    assert variables.items() >= more.items()


def test_a_connection_that_no_client_opens_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTION_PLACE", "http://127.0.0.1:7")
    assert main(["exec", "--as", "place", "psql"]) == ConfigError.exit_code
    assert "kind http" in capsys.readouterr().err


def test_an_unknown_program_is_refused_with_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", "no-such-program"]) == ConfigError.exit_code
    assert "psql" in capsys.readouterr().err
