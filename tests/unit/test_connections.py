"""Connections by id: from the file that Airflow reads, or from a variable that wins over it."""

import json
import shlex
from pathlib import Path
from urllib.parse import quote

import pytest
from airflow.secrets.local_filesystem import load_connections_dict

from seamline import settings
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.domain.errors import ConfigError
from seamline.settings import Settings
from seamline.stack import credentials
from seamline.stack.layout import Layout
from tests.documented import block

WAREHOUSE = {
    "conn_type": "postgres",
    "host": "db.example",
    "port": 5432,
    "login": "writer",
    "password": "hunter2",
    "schema": "warehouse",
    "extra": {"sslmode": "require"},
}

ONE = {"conn_type": "kafka", "host": "k1", "port": 9092}


def within(folder: Path, entries: object = None, **variables: str) -> Settings:
    if entries is not None:
        (folder / "connections.json").write_text(json.dumps(entries))
    return settings.load({"SEAMLINE_DATA": str(folder), **variables})


def test_a_connection_is_found_by_its_id(tmp_path: Path) -> None:
    found = resolve("warehouse", within=within(tmp_path, {"warehouse": WAREHOUSE}))
    assert (found.kind, found.host, found.port, found.database) == ("postgres", "db.example", 5432, "warehouse")
    assert (found.login, found.password) == ("writer", "hunter2")
    assert found.extra["sslmode"] == "require"


def test_a_password_is_never_printed(tmp_path: Path) -> None:
    assert "hunter2" not in repr(resolve("warehouse", within=within(tmp_path, {"warehouse": WAREHOUSE})))


def test_a_variable_wins_over_the_file(tmp_path: Path) -> None:
    uri = "postgres://me:p%40ss@other:6000/else?sslmode=require"
    known = within(tmp_path, {"warehouse": WAREHOUSE}, SEAMLINE_CONNECTION_WAREHOUSE=uri)
    found = resolve("warehouse", within=known)
    assert (found.host, found.port, found.login, found.password) == ("other", 6000, "me", "p@ss")
    assert (found.database, found.extra["sslmode"]) == ("else", "require")


def test_the_variable_that_the_page_shows_names_a_connection(tmp_path: Path, checkout: Path) -> None:
    (shown,) = shlex.split(block(checkout, "docs/reference/connections.md", "SEAMLINE_CONNECTION_WAREHOUSE="))
    authority = tmp_path / "ca.pem"
    authority.touch()
    name, _, uri = shown.replace("/etc/seamline/ca.pem", str(authority)).partition("=")
    found = resolve("warehouse", within=within(tmp_path, **{name: uri}))
    assert (found.host, found.login, found.database) == ("db.example", "warehouse_publisher", "warehouse")


def test_an_unknown_id_names_the_file_and_the_nearest_id(tmp_path: Path) -> None:
    known = within(tmp_path, {"warehouse": WAREHOUSE})
    with pytest.raises(ConfigError) as caught:
        resolve("warehuose", within=known)
    said = str(caught.value)
    assert "`warehuose`" in said
    assert str(known.connections) in said
    assert "Did you mean `warehouse`?" in said
    assert "SEAMLINE_CONNECTION_WAREHUOSE" in said


def test_a_missing_file_leads_to_the_command_that_writes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="seamline up"):
        resolve("warehouse", within=within(tmp_path))


@pytest.mark.parametrize("broken", [{"warehouse": {"host": "x"}}, {"warehouse": "x"}, {"warehouse": {}}, ["warehouse"]])
def test_an_unusable_entry_says_what_is_needed(tmp_path: Path, broken: object) -> None:
    with pytest.raises(ConfigError):
        resolve("warehouse", within=within(tmp_path, broken))


def test_a_host_that_is_a_whole_url_needs_no_port_and_any_other_does(tmp_path: Path) -> None:
    entry = {"conn_type": "jdbc", "host": "jdbc:h2:tcp://db.bank:9092/core", "login": "reader"}
    known = within(tmp_path, {"core_bank": entry})
    assert (resolve("core_bank", within=known).host, resolve("core_bank", within=known).port) == (entry["host"], 0)
    with pytest.raises(ConfigError, match="port"):
        resolve("core_bank", within=within(tmp_path, {"core_bank": {**entry, "host": "db.bank"}}))


def test_a_uri_whose_host_is_a_whole_url_has_it_as_it_was_quoted(tmp_path: Path) -> None:
    """`connect add` stored it with its `%3A`, in small letters, and nothing could use the connection."""
    url = "jdbc:oracle:thin:@//DB.internal:1521/BANK"
    uri = f"jdbc://reader:s%40y@{quote(url, safe='')}?driver_class=oracle.jdbc.OracleDriver"
    known = resolve("core_bank", within=within(tmp_path, SEAMLINE_CONNECTION_CORE_BANK=uri))
    assert (known.kind, known.host, known.port, known.login, known.password) == ("jdbc", url, 0, "reader", "s@y")
    assert known.extra["driver_class"] == "oracle.jdbc.OracleDriver"


def test_a_bad_uri_is_named_by_its_variable_and_not_printed(tmp_path: Path) -> None:
    known = within(tmp_path, SEAMLINE_CONNECTION_WAREHOUSE="postgres://me:hunter2@host:port/x")
    with pytest.raises(ConfigError) as caught:
        resolve("warehouse", within=known)
    assert "SEAMLINE_CONNECTION_WAREHOUSE" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_airflow_reads_the_same_file_to_the_same_values(tmp_path: Path) -> None:
    known = written(tmp_path)
    theirs = load_connections_dict(str(known.connections))
    entries = json.loads(known.connections.read_text())
    # `spark_default` names no server: only Airflow's Spark operators read it.
    for connection_id in entries.keys() - {"spark_default"}:
        ours = resolve(connection_id, within=known)
        other = theirs[connection_id]
        assert (ours.kind, ours.host, ours.port) == (other.conn_type, other.host, other.port)
        assert (ours.login, ours.password) == (other.login or "", other.password or "")
        assert dict(ours.extra) == other.extra_dejson


def test_secrets_are_made_once_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    known = written(tmp_path)
    first = known.connections.read_text()
    written(tmp_path)
    assert known.connections.read_text() == first
    for path in (known.connections, tmp_path / "secrets.json", tmp_path / "connect" / "secrets.properties"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_connection_that_a_person_added_stays(tmp_path: Path) -> None:
    known = written(tmp_path)
    entries = json.loads(known.connections.read_text())
    known.connections.write_text(json.dumps({**entries, "mine": WAREHOUSE}))
    written(tmp_path)
    assert resolve("mine", within=known).host == "db.example"


def test_connect_is_given_the_capture_accounts_and_no_other(tmp_path: Path) -> None:
    written(tmp_path)
    lines = (tmp_path / "connect" / "secrets.properties").read_text().splitlines()
    assert [line.split("=")[0] for line in lines] == ["core_bank_capture.user", "core_bank_capture.password"]


def written(folder: Path) -> Settings:
    known = settings.load({"SEAMLINE_DATA": str(folder)})
    layout = Layout(known)
    credentials.write_files(layout, credentials.load_or_make(layout))
    return known


@pytest.mark.parametrize(
    ("uri", "cure"),
    [
        # As `?sslmode=${SSLMODE:-}` without the variable: the session would be in the clear.
        ("postgres://me:hunter2@db.example:5432/warehouse?sslmode=", "verify-full"),
        ("postgres://me:hunter2@db.example:5432/warehouse?sslmod", "did you mean `sslmode`?"),
        # SQLAlchemy's: what its extra says would be passed over.
        ("mysql+pymysql://me:hunter2@db.example:3306/bank?ssl_ca=/ca.pem", "mysql"),
        ("postgres-ssl://me:hunter2@db.example:5432/warehouse?sslmod=require", "postgres"),
    ],
)
def test_a_uri_whose_settings_would_be_passed_over_is_refused(tmp_path: Path, uri: str, cure: str) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve("warehouse", within=within(tmp_path, SEAMLINE_CONNECTION_WAREHOUSE=uri))
    assert "arehouse" in refused.value.message
    assert cure in refused.value.hint
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("password", ["12/hunter2", "hunter2\u2100", "[hunter2"])
def test_a_password_that_breaks_its_uri_is_in_no_error(tmp_path: Path, password: str) -> None:
    uri = f"postgres://me:{password}@db.example:5432/warehouse?sslmode=require"
    with pytest.raises(ConfigError) as refused:
        resolve("warehouse", within=within(tmp_path, SEAMLINE_CONNECTION_WAREHOUSE=uri))
    assert "SEAMLINE_CONNECTION_WAREHOUSE is not a URI" in refused.value.message
    assert refused.value.__cause__ is None
    assert "hunter2" not in str(refused.value)


def test_airflows_http_connection_that_says_https_is_encrypted(tmp_path: Path) -> None:
    entry = {"conn_type": "http", "host": "connect.example", "port": 8083, "schema": "https", "login": "me"}
    assert resolve("connect", within=within(tmp_path, {"connect": entry})).kind == "https"


def test_a_connection_of_kafka_may_list_its_brokers_as_airflows_own_form_has_it(tmp_path: Path) -> None:
    extra = {"bootstrap.servers": "k1:9093, k2:9093", "servers_for_connect": "inner:9093"}
    known = within(tmp_path, {"feed": {"conn_type": "kafka", "extra": json.dumps(extra)}})
    found = resolve("feed", within=known)
    assert (found.host, found.port) == ("k1", 9093)
    made = client_settings(found)
    assert made["bootstrap.servers"] == "k1:9093, k2:9093"
    assert "servers_for_connect" not in made, "librdkafka knows no such setting"
    assert client_settings(resolve("one", within=within(tmp_path, {"one": ONE})))["bootstrap.servers"] == "k1:9092"


@pytest.mark.parametrize("servers", ["k1:9093,k2", "k1:9093;k2:9093", "", "kafka://k1:9093"])
def test_a_list_of_brokers_that_java_could_not_read_is_refused(tmp_path: Path, servers: str) -> None:
    known = within(tmp_path, {"feed": {**ONE, "extra": {"bootstrap.servers": servers}}})
    with pytest.raises(ConfigError, match=r"bootstrap\.servers names .*\n.*host:port for each broker"):
        resolve("feed", within=known)
