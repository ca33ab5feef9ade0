"""`seamline exec` runs programs of the environment and the servers' clients."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread

import pytest

from seamline.adapters.airflow_rest import AirflowRest
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


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """Of servers that say their version to whoever comes, and nothing else."""
    with ExitStack() as opened:
        found = {}
        for client, version in (("mariadb", b"11.4.5-MariaDB-log"), ("mysql", b"9.7.4")):
            listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
            Thread(target=_greet, args=(listener, b"\x0a" + version + bytes(50)), daemon=True).start()
            found[client] = listener.getsockname()[1]
        yield found


def _greet(listener: socket.socket, greeting: bytes) -> None:
    with suppress(OSError):
        while True:
            with listener.accept()[0] as session:
                session.sendall(len(greeting).to_bytes(3, "little") + b"\0" + greeting)


CLIENTS = {
    "psql": (
        "postgres://writer:s%20cret@127.0.0.1:5/warehouse",
        [],
        {"PGHOST": "127.0.0.1", "PGPORT": "5", "PGUSER": "writer", "PGPASSWORD": "s cret", "PGDATABASE": "warehouse"},
    ),
    "mariadb": (
        "mysql://reader:s%20cret@127.0.0.1:{mariadb}/bank",
        ["--host=127.0.0.1", "--port={mariadb}", "--user=reader", "--database=bank"],
        {"MYSQL_PWD": "s cret"},
    ),
    "mysql": (
        "mysql://reader:s%20cret@127.0.0.1:{mysql}/bank",
        ["--host=127.0.0.1", "--port={mysql}", "--user=reader", "--database=bank"],
        {"MYSQL_PWD": "s cret"},
    ),
}
UNASKED = {"mysql": ["--get-server-public-key"], "mariadb": ["--skip-ssl-verify-server-cert"]}


@pytest.mark.parametrize("named", ["by its name", "by its connection"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_opens_a_connection_and_its_password_is_in_no_argument(
    client: str, named: str, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options, more = CLIENTS[client]
    words_of_mine = [client, "-x"] if named == "by its name" else []
    ran: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setenv("SEAMLINE_CONNECTION_PLACE", uri.format(**ports))
    monkeypatch.setattr("shutil.which", lambda name, path: f"/bin/{name}")
    monkeypatch.setattr(os, "execve", lambda file, words, variables: ran.append((words, variables)))
    main(["exec", "--as", "place", *words_of_mine])
    ((words, variables),) = ran
    wanted = [*(option.format(**ports) for option in options), *UNASKED.get(client, [])]
    assert words == [f"/bin/{client}", *wanted, *words_of_mine[1:]]
    assert variables.items() >= more.items()


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("disable", {"mariadb": ["--skip-ssl"], "mysql": ["--ssl-mode=DISABLED", "--get-server-public-key"]}),
        ("require", {"mariadb": ["--ssl", "--skip-ssl-verify-server-cert"], "mysql": ["--ssl-mode=REQUIRED"]}),
        (
            "verify-full",
            {
                "mariadb": ["--ssl", "--ssl-verify-server-cert", "--ssl-ca={ca}"],
                "mysql": ["--ssl-mode=VERIFY_IDENTITY", "--ssl-ca={ca}"],
            },
        ),
    ],
)
def test_the_servers_clients_are_configured_for_tls(
    mode: str, more: dict[str, list[str]], tmp_path: Path, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ca = tmp_path / "ca.pem"
    ca.touch()
    said = f"?sslmode={mode}" + (f"&sslrootcert={ca}" if mode.startswith("verify") else "")
    ran: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr("shutil.which", lambda name, path: f"/bin/{name}")
    monkeypatch.setattr(os, "execve", lambda file, words, variables: ran.append((words, variables)))
    for client, (uri, options, _) in CLIENTS.items():
        monkeypatch.setenv("SEAMLINE_CONNECTION_PLACE", uri.format(**ports) + said)
        main(["exec", "--as", "place", client, "-x"])
        (words, variables) = ran.pop()
        if client == "psql":
            assert variables["PGSSLMODE"] == mode
            assert variables.get("PGSSLROOTCERT", "") == (str(ca) if mode.startswith("verify") else "")
        else:
            wanted = [word.format(ca=ca, **ports) for word in (*options, *more[client])]
            assert words == [f"/bin/{client}", *wanted, "-x"]


@pytest.mark.parametrize("there", [[], ["mariadb"]])
def test_a_mysql_without_its_own_client_is_refused_with_the_cure(
    there: list[str],
    tmp_path: Path,
    ports: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What many systems call `mysql` is MariaDB's."""
    for name in there:
        (tmp_path / name).touch(mode=0o755)
        (tmp_path / "mysql").symlink_to(tmp_path / name)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SEAMLINE_CONNECTION_PLACE", CLIENTS["mysql"][0].format(**ports))
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("a client was started"))
    assert main(["exec", "--as", "place"]) == ConfigError.exit_code
    assert "mysql-community-client" in capsys.readouterr().err


def test_what_the_mariadb_client_cannot_verify_is_refused(
    tmp_path: Path, ports: dict[str, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ca.pem").touch()
    uri = f"{CLIENTS['mariadb'][0].format(**ports)}?sslmode=verify-ca&sslrootcert={tmp_path / 'ca.pem'}"
    monkeypatch.setenv("SEAMLINE_CONNECTION_PLACE", uri)
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("a client was started"))
    assert main(["exec", "--as", "place", "mariadb"]) == ConfigError.exit_code
    assert "sslmode verify-full" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("uri", "client"),
    [
        ("http://127.0.0.1:7", "psql"),
        (CLIENTS["mariadb"][0], "psql"),
        (CLIENTS["psql"][0], "mariadb"),
        (CLIENTS["mysql"][0], "mariadb"),
        (CLIENTS["mariadb"][0], "mysql"),
    ],
)
def test_a_client_of_another_kind_of_server_opens_nothing(
    uri: str,
    client: str,
    ports: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTION_PLACE", uri.format(**ports))
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("a client was started"))
    assert main(["exec", "--as", "place", client]) == ConfigError.exit_code
    assert f"{client} does not open connection place" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["settlement__reconcile"], ""),
        (["-o", "plain", "settlement__reconcile", "--conf", "{}"], ""),
        (["--help"], ""),
        (["settlement__reconcil"], "Did you mean `settlement__reconcile`?"),
        (["--conf", "{}", "orders__onboard"], "for those of another folder run `up` again"),
    ],
)
def test_a_trigger_of_a_dag_that_airflow_does_not_know_is_refused_with_the_cure(
    words: list[str], named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(AirflowRest, "dag_ids", lambda _: {"settlement__reconcile", "seamline__streams"})
    monkeypatch.setattr(AirflowRest, "import_errors", lambda _: ["dags/syncs.py: orders.yaml is not valid"])
    monkeypatch.setattr(os, "execve", lambda file, words, variables: ran.append(file))
    code = main(["exec", "airflow", "dags", "trigger", *words])
    said = capsys.readouterr().err
    assert (code, bool(ran)) == ((ConfigError.exit_code, False) if named else (0, True))
    assert named in said
    if named:
        assert f"Airflow knows no DAG `{words[-1]}`" in said
        assert "orders.yaml is not valid" in said


def test_an_unknown_program_is_refused_with_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exec", "no-such-program"]) == ConfigError.exit_code
    assert "psql" in capsys.readouterr().err
