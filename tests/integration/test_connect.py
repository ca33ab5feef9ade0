"""`./seamline connect` asks real servers before it stores a connection, and says what its login can and cannot do."""

import io
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from seamline.adapters.connections import Connection, resolve
from seamline.cli.main import main
from tests.conftest import RunningStack
from tests.integration.databases import mariadb_destination, postgres_database
from tests.integration.test_postgres_preflight import DATABASE, LOGINS
from tests.integration.test_postgres_preflight import root as root


@pytest.fixture
def file(stack: RunningStack, tmp_path: Path) -> Path:
    """A connections file of the commands alone; the tests' own logins stand in the stack's."""
    return tmp_path / "connections.json"


def connect(file: Path, *arguments: str, password: str = "") -> int:
    """The command, in a folder of declarations beside `file`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEAMLINE_CONNECTIONS", str(file))
        patch.setenv("SEAMLINE_DECLARATIONS", str(file.parent / "declared"))
        patch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        return main(["connect", *arguments])


def stored(file: Path) -> dict[str, dict[str, Any]]:
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def address(of: Connection, kind: str, *, login: str = "", database: str | None = None) -> str:
    place = of.database if database is None else database
    return f"{kind}://{login or of.login}@{of.host}:{of.port}/{place}"


def test_a_reader_of_postgresql_is_stored_with_what_it_can_and_cannot_do(
    root: Connection, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = address(root, "postgres", login=LOGINS.reader)
    assert connect(file, "add", "core", url, password="pw") == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "core: PostgreSQL 1" in said and "in the clear" in said
    assert f"can read tables: 3 of 3 in database {DATABASE}" in said
    assert "cannot read the log: it lacks the attribute REPLICATION" in said
    assert f"cannot make and write tables: it lacks CREATE on database {DATABASE}" in said
    assert stored(file)["core"]["password"] == "pw"
    assert file.stat().st_mode & 0o077 == 0, "nobody else may read it"


def test_a_login_of_postgresql_that_may_replicate_can_read_the_log(
    root: Connection, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = address(root, "postgres", login=LOGINS.capture)
    assert connect(file, "add", "core_capture", url, password="pw") == 0, capsys.readouterr().err
    assert "  can read the log\n" in capsys.readouterr().out


def test_the_publisher_of_a_destination_in_postgresql_can_make_tables(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with postgres_database("connect_test") as publisher:
        url = address(publisher, "postgres")
        assert connect(file, "add", "dwh", url, password=publisher.password) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "  can make and write tables\n" in said
    assert "cannot read tables" not in said, "an empty database lacks no right"


def test_a_publisher_in_mariadb_can_make_tables_and_lacks_the_rights_of_a_capture(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mariadb_destination("connect_test") as publisher:
        url = address(publisher, "mariadb", database="")
        assert connect(file, "add", "archive", url, password=publisher.password) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "archive: MariaDB 11.4" in said
    assert "  can make and write tables\n" in said and "cannot read tables" not in said
    assert "cannot read the log: it lacks REPLICATION SLAVE; REPLICATION CLIENT" in said
    assert stored(file)["archive"]["conn_type"] == "mysql"


def test_mysql_is_known_by_its_name_and_its_root_can_do_everything(
    mysql_root: Connection, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = address(mysql_root, "mysql", database="mysql")
    assert connect(file, "add", "core", url) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "core: MySQL 9.7" in said and "cannot" not in said


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_wrong_password_is_refused_and_nothing_is_stored(
    kind: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = resolve("warehouse" if kind == "postgres" else "core_bank")
    assert connect(file, "add", "core", address(known, kind), password="wrong") == 2
    said = capsys.readouterr().err
    assert "password" in said and "nothing was stored" in said and "wrong" not in said
    assert not stored(file)


def test_a_server_that_is_away_is_refused_unless_it_shall_be_stored_untested(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"postgres://reader@127.0.0.1:{free.getsockname()[1]}/bank"
    assert connect(file, "add", "core", url, password="pw") != 0
    assert "cannot be reached" in capsys.readouterr().err
    assert not stored(file)
    assert connect(file, "add", "core", url, "--untested", password="pw") == 0
    assert "not tested: PostgreSQL at 127.0.0.1" in capsys.readouterr().out
    assert list(stored(file)) == ["core"]


def test_tls_that_the_server_does_not_have_is_one_sentence_with_the_next_step(
    root: Connection, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{address(root, 'postgres', login=LOGINS.reader)}?sslmode=require"
    assert connect(file, "add", "core", url, password="pw") == 2
    said = capsys.readouterr().err
    assert "server does not support SSL" in said and "check sslmode" in said


def refused(file: Path, url: str, capsys: pytest.CaptureFixture[str], *, password: str) -> str:
    """The sentence; behind it stands one line with the next step, and nothing was stored."""
    assert connect(file, "add", "core", url, password=password) != 0
    sentence, step = capsys.readouterr().err.strip().splitlines()
    assert step.startswith("  → ") and "nothing was stored" in step, step
    assert not stored(file)
    return sentence


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "mysql"])
def test_a_host_that_nobody_knows_and_a_port_where_nobody_listens_end_in_one_sentence(
    kind: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for place in (f"127.0.0.1:{port}", "nobody.invalid:1"):
        said = refused(file, f"{kind}://reader@{place}/bank", capsys, password="pw")
        assert place.partition(":")[0] in said and "cannot be reached" in said


@pytest.mark.parametrize("mode", ["require", "verify-full"])
def test_tls_that_mariadb_does_not_have_ends_in_one_sentence(
    mode: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = resolve("core_bank")
    ca = "/etc/ssl/certs/ca-certificates.crt" if mode == "verify-full" else ""
    url = f"{address(known, 'mariadb')}?sslmode={mode}{f'&sslrootcert={ca}' if ca else ''}"
    said = refused(file, url, capsys, password=known.password)
    assert "SSL" in said or "TLS" in said, said


def test_a_certificate_of_another_authority_and_a_wrong_password_of_mysql_end_in_one_sentence(
    mysql_root: Connection, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = address(mysql_root, "mysql", database="mysql")
    assert "refused login `root`" in refused(file, url, capsys, password="wrong")
    other = f"{url}?sslmode=verify-ca&sslrootcert=/etc/ssl/certs/ca-certificates.crt"
    said = refused(file, other, capsys, password="")
    assert "certificate" in said, said


def test_a_login_that_cannot_what_its_declaration_needs_ends_with_one(
    root: Connection, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = address(root, "postgres", login=LOGINS.reader)
    assert connect(file, "add", "core_capture", url, password="pw") == 0
    declared = file.parent / "declared" / "sources" / "core.yaml"
    declared.parent.mkdir(parents=True)
    declared.write_text("source: core\nkind: postgres\nconnection: core\ndatabase: bank\n", encoding="utf-8")
    capsys.readouterr()
    assert connect(file, "test", "core_capture", "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["lacking"] == [
        "source core needs it to read the log: `./seamline grants core` prints what the owner runs"
    ]
