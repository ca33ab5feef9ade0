"""What `./seamline connect` refuses without asking a server, and what it shows."""

import io
import json
from pathlib import Path

import pytest

from seamline.adapters.connections import known_ids, put
from seamline.cli import connect
from seamline.cli.main import main
from seamline.domain.server_found import CAPTURES, MAKES, READS, ServerFound, Use

FOUND = ServerFound("PostgreSQL 17.2", "encrypted (TLSv1.3)", "postgres", (Use(READS), Use(CAPTURES, ("wal_level",))))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Connections and declarations of its own; every server answers as FOUND."""
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret\n"))
    monkeypatch.setattr(connect, "examined", lambda _: FOUND)
    return tmp_path


def test_a_password_in_the_url_is_refused_and_never_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "add", "core", "postgres://me:s3cret@db/bank"]) == 2
    said = capsys.readouterr().err
    assert "a password does not belong into a command" in said and "s3cret" not in said
    assert known_ids() == frozenset()


@pytest.mark.parametrize(
    "url",
    [
        "kafka://k1/?security.protocol=SASL_SSL&sasl.username=me&sasl.password=s3cret",
        "kafka://k1/?security.protocol=SSL&ssl.key.password=s3cret",
        "kafka://k1/?ssl.key.pem=s3cret",
        "kafka://k1/?__extra__=%7B%22sasl.password%22%3A%22s3cret%22%2C%22security.protocol%22%3A%22SASL_SSL%22%7D",
        "aws://?aws_session_token=s3cret",
        '{"conn_type": "hive_metastore", "host": "thrift://h", "port": 9083, "password": "s3cret"}',
    ],
)
def test_a_secret_among_the_settings_is_refused_and_never_printed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It was stored, and stood in the shell's history."""
    assert main(["connect", "add", "feed", url]) == 2
    said = capsys.readouterr().err
    assert "does not belong into a command" in said and "s3cret" not in said
    assert known_ids() == frozenset()


def test_settings_that_say_where_a_secret_stands_are_none() -> None:
    assert main(["connect", "add", "worker", "http://c1:8083/?secrets_file=/x"]) == 0


def test_a_uri_may_list_its_brokers_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "add", "feed", "kafka://?bootstrap.servers=k1:9093,k2:9093"]) == 0
    stored = json.loads((Path(connect.settings.load().connections)).read_text(encoding="utf-8"))["feed"]
    assert (stored["host"], stored["port"]) == ("k1", 9093)
    assert stored["extra"] == {"bootstrap.servers": "k1:9093,k2:9093"}


def test_no_hint_of_a_command_shows_a_password_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "add", "feed", "hbase://"]) == 2
    said = capsys.readouterr().err
    assert "is not a URI" in said and ":password@" not in said


def test_a_kind_has_its_own_port_and_the_password_comes_by_standard_input() -> None:
    assert main(["connect", "add", "core", "postgres://me@db.example/bank?sslmode=require"]) == 0
    stored = json.loads((Path(connect.settings.load().connections)).read_text(encoding="utf-8"))["core"]
    assert stored == {
        "conn_type": "postgres",
        "host": "db.example",
        "port": 5432,
        "login": "me",
        "password": "s3cret",
        "schema": "bank",
        "extra": {"sslmode": "require"},
    }


def test_a_password_question_that_is_left_by_ctrl_d_ends_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def left(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(connect.getpass, "getpass", left)
    assert main(["connect", "add", "core", "postgres://me@db/bank"]) == 2
    assert "no password was given" in capsys.readouterr().err
    assert known_ids() == frozenset()


def test_what_a_login_lacks_and_what_its_server_is_set_to_are_two_things() -> None:
    use = Use(CAPTURES, ("REPLICATION SLAVE",), unfit=("log_bin is OFF, wanted ON",))
    (_, line) = connect.found_lines("core", ServerFound("MariaDB", uses=(use,)), ())
    assert line == "  cannot read the log: it lacks REPLICATION SLAVE; log_bin is OFF, wanted ON"
    found = ServerFound("MariaDB", uses=(Use(CAPTURES, unfit=("log_bin is OFF",)),))
    (_, line) = connect.found_lines("core", found, ())
    assert line == "  cannot read the log: log_bin is OFF"


COPY = "destination: copy\nkind: postgres\nconnection: copy\nwriter_connection: copy_writer\nschema: copy\n"
CORE = "source: core\nkind: postgres\nconnection: core\ndatabase: bank\n"
_LOG, _TABLES = "cannot read the log: it lacks REPLICATION", "cannot make and write tables: it lacks CREATE"


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ("copy_writer", ["destination copy needs other rights of it: `./seamline validate --online` asks for them"]),
        ("copy", [_TABLES]),
        ("core", []),
        ("core_capture", [_LOG]),
        ("both", [_LOG]),
        ("nobodys", [_LOG, _TABLES]),
    ],
)
def test_only_what_declarations_use_a_login_for_is_called_lacking(
    connection: str,
    said: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A writer, which shall make no table, was said to lack CREATE."""
    uses = (Use(READS, extent="0 of 0"), Use(CAPTURES, ("REPLICATION",)), Use(MAKES, ("CREATE",)))
    monkeypatch.setattr(connect, "examined", lambda _: ServerFound("PostgreSQL 18.4", "in the clear", "postgres", uses))
    both = CORE.replace("core", "both") + "capture_connection: both\nmarker_connection: both\n"
    for name, text in {"destinations/copy": COPY, "sources/core": CORE, "sources/both": both}.items():
        file = folder / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert main(["connect", "add", connection, "postgres://me@db/bank"]) == 0
    can, *lacking, stored = capsys.readouterr().out.splitlines()[1:]
    assert (can, lacking) == ("  can read tables: 0 of 0", [f"  {one}" for one in said])
    assert stored.startswith(f"stored as `{connection}`")
    capsys.readouterr()
    assert main(["connect", "test", connection]) == int(bool(said) and connection not in ("copy_writer", "nobodys"))


def test_a_connection_that_the_platform_itself_needs_is_not_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """It was, and every stream ended: no declaration names the log's own connection."""
    put({"kafka": {"conn_type": "kafka", "host": "db", "port": 9092}})
    assert main(["connect", "remove", "kafka"]) == 2
    assert "connection `kafka` is one that Seamline itself needs" in capsys.readouterr().err
    assert known_ids() == {"kafka"}


def test_airflows_own_connection_of_spark_is_listed_as_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    put({"spark_default": {"conn_type": "spark", "host": "local[4]"}})
    assert main(["connect", "list"]) == 0
    assert "not usable" not in capsys.readouterr().out


def test_a_connection_that_is_there_is_replaced_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect", "add", "core", "postgres://me@db/bank"]) == 0
    assert main(["connect", "add", "core", "postgres://you@db/bank"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["connect", "add", "core", "postgres://you@db/bank", "--replace"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Core", "postgres://me@db/bank"), "is no id"),
        (("core", "postgres://db/bank"), "names no login"),
        (("core", "db.example"), "is not a URI"),
        (("core", "oracle://me@db:1521/bank"), "there is no kind oracle"),
        (("core", "postgres://me@db/bank?sslmod=require"), "did you mean `sslmode`?"),
        (("core", "postgres://me@db/bank?sslrootcert=/not/there"), "Connection `core`: sslrootcert"),
        (("core", "sftp://me@db?host_key=ssh-ed25519%20AA&key_file=/not/there"), "Connection `core`: key_file"),
        (("core", "db.example"), "write kind://login@host:port/database\n"),
    ],
)
def test_what_cannot_be_a_connection_is_said_in_one_sentence(
    arguments: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["connect", "add", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert known_ids() == frozenset()


def test_an_id_whose_variable_is_set_is_not_stored_behind_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTION_CORE", "postgres://me:pw@db:5432/bank")
    assert main(["connect", "add", "core", "postgres://me@db/bank"]) == 2
    assert "SEAMLINE_CONNECTION_CORE is set" in capsys.readouterr().err


def test_the_list_shows_where_each_leads_and_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    put({"core": {"conn_type": "mysql", "host": "db", "port": 3306, "login": "me", "password": "s3cret"}})
    put({"torn": {"conn_type": "mysql", "host": "db"}})
    assert main(["connect", "list"]) == 0
    said = capsys.readouterr().out
    assert "core  mysql://me@db:3306\n" in said and "torn  not usable" in said and "s3cret" not in said
    assert main(["connect", "list", "--json"]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == ["core", "torn"]


def test_a_connection_that_a_declaration_names_is_not_removed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(
        {
            name: {"conn_type": "mysql", "host": "db", "port": 3306}
            for name in ("core", "core_capture", "objects", "old")
        }
    )
    source = folder / "sources" / "core.yaml"
    source.parent.mkdir()
    archive = "log: {archive: {location: s3://logs, connection: objects}}\n"
    source.write_text(f"source: core\nkind: mariadb\nconnection: core\ndatabase: bank\n{archive}", encoding="utf-8")
    assert main(["connect", "remove", "core_capture"]) == 2
    assert "connection `core_capture` is used by source core" in capsys.readouterr().err
    assert main(["connect", "remove", "objects"]) == 2
    assert "connection `objects` is used by source core" in capsys.readouterr().err
    assert main(["connect", "remove", "old"]) == 0
    assert known_ids() == {"core", "core_capture", "objects"}
    assert main(["connect", "remove", "old"]) == 2
