"""`./seamline connect` opens a session of every kind that has a client: what does not let it in is not stored."""

import io
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from seamline.adapters.connections import Connection, known_ids, parsed
from seamline.cli import connect
from seamline.cli.main import main
from seamline.domain.errors import ConfigError, TransientError
from seamline.domain.server_found import MAKES, ServerFound, Use, keeps
from seamline.sinks.hbase import gateway
from seamline.sources.jdbc.session import JdbcSession

Added = Callable[..., tuple[int, str]]


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Added:
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))

    def add(*arguments: str, password: str = "s3cret") -> tuple[int, str]:  # noqa: S107
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        return main(["connect", *arguments]), "".join(capsys.readouterr())

    return add


@pytest.mark.parametrize("kind", ["redis", "kafka", "hive-metastore", "hbase"])
def test_a_port_where_nobody_listens_is_refused_at_once_and_not_stored(kind: str, added: Added) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        login, settings = (
            ("me@", "?security.protocol=SASL_PLAINTEXT&sasl.mechanism=PLAIN") if kind == "kafka" else ("", "")
        )
        code, said = added("add", "one", f"{kind}://{login}127.0.0.1:{port}/{settings}")
    assert (code, known_ids()) == (1, frozenset()), said
    assert "nothing was stored" in said
    assert "s3cret" not in said


def test_what_is_no_metastore_is_not_taken_for_one(added: Added) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as link:
                link.recv(1)
                link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = Thread(target=answer)
        answering.start()
        code, said = added("add", "one", f"hive-metastore://127.0.0.1:{server.getsockname()[1]}/")
        answering.join()
    assert (code, known_ids()) == (1, frozenset())
    assert "cannot ask connection `one` for its databases" in said


def test_a_jdbc_url_keeps_its_capital_letters_and_takes_no_secret(added: Added) -> None:
    url = "jdbc://reader@jdbc%3Asqlserver%3A%2F%2Fdb%3BdatabaseName%3DBank"
    assert parsed(f"{url}?driver_class=a.B").host == "jdbc:sqlserver://db;databaseName=Bank"
    for name in ("password", "PWD"):
        code, said = added("add", "one", f"{url}%3B{name}%3Ds3cret?driver_class=a.B")
        assert (code, known_ids()) == (2, frozenset())
        assert f"`{name}` does not belong into a command" in said
        assert "s3cret" not in said
    code, said = added("add", "one", url)
    assert (code, known_ids()) == (2, frozenset())
    assert "names no driver" in said
    assert "one: a JVM with the database's driver is started, which takes seconds" in said


@pytest.mark.parametrize(("state", "error"), [("28000", ConfigError), ("08001", TransientError), ("", TransientError)])
def test_a_login_that_a_driver_says_is_not_let_in_is_no_trouble_of_the_moment(
    state: str, error: type[Exception]
) -> None:
    session = object.__new__(JdbcSession)
    session._connection = Connection("one", "jdbc", "jdbc:a:b;password=s3cret", 0, "me", "s3cret")
    refused = session._refused("SQLException: no driver for jdbc:a:b;password=s3cret", state)
    assert type(refused) is error
    assert "s3cret" not in str(refused)


def test_an_hbase_that_is_too_old_for_its_destination_is_called_so(
    added: Added, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of each version cannot be had here: what the client answers is made."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        for version, said_of in (("2.3.7", "  cannot make and write tables: HBase 2.3.7 is too old\n"), ("2.6.1", "")):
            java = SimpleNamespace(version=lambda version=version: version)
            monkeypatch.setattr(gateway, "open_store", lambda _, java=java: gateway.Store(java))
            code, said = added("add", "one", f"hbase://me@127.0.0.1:{server.getsockname()[1]}", "--replace")
            assert code == 0
            assert "one: a JVM with HBase's client is started, which takes seconds\n" in said
            assert f"one: HBase {version}, in the clear; it believes the name of the login\n" in said
            assert (said_of or "  can make and write tables\n") in said


REDIS = "destination: cache\nkind: redis\nconnection: cache\nwriter_connection: writer\nprefix: settlement\n"


def test_rights_that_are_given_by_name_are_asked_for_by_the_names_of_declared_destinations(
    added: Added, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "destinations").mkdir()
    (tmp_path / "destinations" / "cache.yaml").write_text(REDIS, encoding="utf-8")

    class Client:
        def examined(self, _: Connection) -> ServerFound:
            return ServerFound("Redis 8", "in the clear", uses=(Use(MAKES),))

        def namespace(self, known: Connection, namespace: str) -> Use:
            return Use(keeps(namespace), missing=("HSET",) if known.connection_id == "writer" else ())

    monkeypatch.setattr(connect, "server_client", lambda _: Client())
    assert added("add", "cache", "redis://a@h:1")[0] == 0
    assert "  can keep rows in settlement\n" in added("test", "cache")[1]
    code, said = added("add", "writer", "redis://a@h:1")
    assert code == 0
    assert "  cannot keep rows in settlement: it lacks HSET\n" in said
    assert "needs other rights" not in said
    code, said = added("test", "writer")
    assert code == 1
    assert "destination cache needs it to keep rows in settlement: `./seamline grants cache`" in said
