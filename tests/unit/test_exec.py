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


def test_an_unknown_program_is_refused_with_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", "no-such-program"]) == ConfigError.exit_code
    assert "psql" in capsys.readouterr().err
