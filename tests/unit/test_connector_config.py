"""The connector's settings are a pure function; the committed file is what Connect gets."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from seamline.adapters.connect.connector_config import (
    connector_config,
    literal_secrets,
    refuse_literal_secrets,
    untested_version,
)
from seamline.adapters.connect.endpoint import CaptureEndpoint, Start, offsets_topic, schema_history_topic
from seamline.adapters.connect.trace import cure_of, failed_as_it_ended, has_lost_its_place, short_trace
from seamline.adapters.tls import Tls
from seamline.databases.mysql.connector_settings import server_id
from seamline.domain.errors import ConfigError, InvariantViolated
from seamline.domain.position import Position
from seamline.domain.unavailable_values import UNAVAILABLE
from seamline.kinds.found import logged_kind
from seamline.plan.model import SourcePlan
from seamline.sources.mariadb.connector import MariaDbConnector
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.postgres.connector import PostgresConnector
from seamline.sources.postgres.position import PostgresPosition

MARIADB_CONNECTOR, POSTGRES_CONNECTOR = MariaDbConnector.plugin, PostgresConnector.plugin

EXPECTED = Path(__file__).with_name("connector_config.json")
SOURCE = SourcePlan(
    name="core_bank",
    kind="mariadb",
    database="bank",
    reader="core_bank",
    capture="core_bank_capture",
    marker="core_bank_marker",
    log_topic="seamline.core_bank.log",
    connector="seamline-core_bank",
)
ENDPOINT = CaptureEndpoint("db.example", 3306, "core_bank_capture", "/secrets/capture.properties", "kafka:9092")
TABLES = ("seamline_marker", "account", "odd$ name,x")
POSTGRES_EXPECTED = Path(__file__).with_name("postgres_connector_config.json")
POSTGRES_SOURCE = replace(SOURCE, kind="postgres", schema="public")
POSTGRES_ENDPOINT = replace(
    ENDPOINT, port=5432, tls=Tls("verify-full", "/tls/ca.crt", "/tls/seamline.crt", "/tls/seamline.key")
)


def config(start: Start = Start.AGAIN) -> dict[str, str]:
    return connector_config(SOURCE, TABLES, endpoint=ENDPOINT, start=start)


def postgres_config(start: Start = Start.AGAIN, *, source: SourcePlan = POSTGRES_SOURCE) -> dict[str, str]:
    return connector_config(source, TABLES, endpoint=POSTGRES_ENDPOINT, start=start)


def test_the_settings_are_those_of_the_committed_file() -> None:
    assert config() == json.loads(EXPECTED.read_text(encoding="utf-8"))
    assert postgres_config() == json.loads(POSTGRES_EXPECTED.read_text(encoding="utf-8"))


def test_the_first_start_differs_only_in_how_the_structure_is_read() -> None:
    assert {**config(Start.FIRST), "snapshot.mode": "no_data"} == config()


def test_both_starts_of_a_postgres_capture_are_the_same() -> None:
    assert postgres_config(Start.FIRST) == postgres_config(Start.AGAIN)
    assert postgres_config()["snapshot.mode"] == "no_data"


def test_a_postgres_capture_has_no_schema_history_and_no_setting_of_a_binlog() -> None:
    assert not [name for name in postgres_config() if re.match(r"schema\.history|binlog|database\.server", name)]


def test_a_postgres_capture_reads_its_own_slot_and_publication_and_makes_neither() -> None:
    found = postgres_config()
    assert (found["slot.name"], found["publication.name"]) == ("seamline_core_bank", "seamline_core_bank")
    assert (found["publication.autocreate.mode"], found["slot.drop.on.stop"]) == ("disabled", "false")
    assert found["database.dbname"] == "bank"
    assert found["database.sslmode"] == "verify-full"


def test_a_value_that_the_log_left_out_is_written_as_the_text_that_the_sink_knows() -> None:
    assert postgres_config()["unavailable.value.placeholder"] == UNAVAILABLE


def test_the_tables_of_a_postgres_source_are_matched_with_their_schema() -> None:
    found = postgres_config(source=replace(POSTGRES_SOURCE, schema="core-bank.eu"))
    assert found["schema.include.list"] == r"core\-bank\.eu"
    schema, tables = found["schema.include.list"], found["table.include.list"]
    # As Debezium does: it splits at commas that are not escaped, and each pattern matches a whole name.
    patterns = re.split(r"(?<!\\),", tables)
    assert patterns == [rf"{schema}\.account", rf"{schema}\.odd\$\x20name\,x", rf"{schema}\.seamline_marker"]
    for pattern, table in zip(patterns, sorted(TABLES), strict=True):
        assert re.fullmatch(pattern, f"core-bank.eu.{table}")
        assert not re.fullmatch(pattern, f"core-bankxeu.{table}")


def test_a_table_of_another_schema_is_captured_from_there() -> None:
    tables = ("seamline_marker", "account", "odd 银行.account")
    found = connector_config(POSTGRES_SOURCE, tables, endpoint=POSTGRES_ENDPOINT, start=Start.AGAIN)
    assert found["schema.include.list"] == r"odd\x20银行,public"
    assert found["table.include.list"] == r"public\.account,odd\x20银行\.account,public\.seamline_marker"


@pytest.mark.parametrize(
    ("kind", "position", "offset"),
    [
        (
            "mariadb",
            BinlogPosition("0-7-5", "mdb-bin.000002", 400),
            {"file": "mdb-bin.000002", "pos": 400, "gtids": "0-7-5"},
        ),
        ("postgres", PostgresPosition(lsn=41591136, xmin=745, xmax=750, in_progress=(746,)), {"lsn": 41591136}),
    ],
)
def test_a_capture_begins_at_a_position_as_its_connector_would_store_it(
    kind: str, position: Position, offset: dict[str, object]
) -> None:
    assert logged_kind(kind).connector().first_offset(position) == offset


def test_no_capture_begins_at_a_position_of_another_kind() -> None:
    for kind, position in (("postgres", BinlogPosition("0-7-5")), ("mariadb", PostgresPosition(1))):
        with pytest.raises(InvariantViolated, match="no capture of a"):
            logged_kind(kind).connector().first_offset(position)


def test_table_names_are_matched_as_they_are_and_in_one_order() -> None:
    assert config()["table.include.list"] == r"bank\.account,bank\.odd\$\x20name\,x,bank\.seamline_marker"
    again = connector_config(SOURCE, tuple(reversed(TABLES)), endpoint=ENDPOINT, start=Start.AGAIN)
    assert again == config()


def test_secrets_are_named_and_never_written() -> None:
    assert literal_secrets(config()) == ()
    assert literal_secrets(postgres_config()) == ()
    for found in (config(), postgres_config()):
        assert found["database.password"] == "${file:/secrets/capture.properties:core_bank_capture.password}"
        assert found["database.user"] == "${file:/secrets/capture.properties:core_bank_capture.user}"


@pytest.mark.parametrize(
    ("name", "value", "is_literal"),
    [
        ("database.password", "hunter2", True),
        ("database.password", "${file:/x:y}", False),
        ("database.password", "a${file:/x:y}", True),
        ("producer.override.ssl.key.password", "x", True),
        ("producer.override.sasl.jaas.config", 'Module required password="x";', True),
        ("producer.override.sasl.jaas.config", 'Module required password="${env:P}";', False),
        ("database.user", "me", False),
    ],
)
def test_a_literal_secret_is_distinguished_from_a_reference(name: str, value: str, is_literal: bool) -> None:
    assert literal_secrets({name: value}) == ((name,) if is_literal else ())


def test_a_literal_secret_is_refused_without_being_printed() -> None:
    with pytest.raises(ConfigError) as raised:
        refuse_literal_secrets("seamline-core_bank", {"database.password": "hunter2"})
    assert "database.password" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_the_server_id_is_stable_and_differs_between_stacks_and_sources() -> None:
    other_stack = replace(ENDPOINT, kafka_servers="kafka:9093")
    other_source = replace(SOURCE, connector="seamline-cards")
    ids = {server_id(SOURCE, ENDPOINT), server_id(SOURCE, other_stack), server_id(other_source, ENDPOINT)}
    assert len(ids) == 3
    assert server_id(SOURCE, ENDPOINT) == int(config()["database.server.id"])
    assert all(2**31 <= number < 2**32 for number in ids)


def test_a_source_has_its_own_offsets_and_history_topics() -> None:
    assert offsets_topic(SOURCE) == "seamline.core_bank.offsets"
    assert schema_history_topic(SOURCE) == "seamline.core_bank.schema-history"


@pytest.mark.parametrize(
    ("kind", "installed", "said"),
    [
        ("mariadb", {MARIADB_CONNECTOR: ("3.5.0.Final-seamline-15",)}, ""),
        # Beside a tested one: Connect would take the newest of them.
        ("mariadb", {MARIADB_CONNECTOR: ("3.5.0.Final-seamline-15", "3.5.0.Final-seamline-16")}, "was not tested"),
        ("mariadb", {MARIADB_CONNECTOR: ("3.5.0.Final-seamline-2",)}, "was not tested"),
        ("mariadb", {POSTGRES_CONNECTOR: ("3.5.0.Final",)}, "has no plugin"),
        ("mariadb", {}, "has no plugin"),
        ("postgres", {POSTGRES_CONNECTOR: ("3.7.0.Final-seamline-15",)}, ""),
        # It loses rows when it is killed in mid-transaction.
        ("postgres", {POSTGRES_CONNECTOR: ("3.6.3.Final",)}, "was not tested"),
        ("postgres", {MARIADB_CONNECTOR: ("3.7.0.Final",)}, "has no plugin"),
    ],
)
def test_only_tested_connector_versions_are_taken(kind: str, installed: dict[str, tuple[str, ...]], said: str) -> None:
    reason = untested_version(kind, installed)
    assert (said in reason) if said else not reason


def test_a_trace_is_shortened_to_its_causes_and_given_a_cure() -> None:
    trace = (
        "org.apache.kafka.connect.errors.ConnectException: An exception occurred\n"
        "\tat io.debezium.A.b(A.java:1)\n"
        "Caused by: io.debezium.DebeziumException: Access denied for user 'x'@'y'\n\tat c.d(E.java:2)\n"
    )
    assert short_trace(trace) == (
        "org.apache.kafka.connect.errors.ConnectException: An exception occurred | "
        "Caused by: io.debezium.DebeziumException: Access denied for user 'x'@'y'"
    )
    assert "password" in cure_of(trace)
    assert "Connect's log" in cure_of("something new")


@pytest.mark.parametrize(
    "said",
    [
        # MariaDB 11.4.5 at a purge, and to a client from another history; our own reader of its binlog; Debezium before
        # it begins; PostgreSQL 18.4.
        "Could not find GTID state requested by slave in any binlog files.",
        "Connecting slave requested to start from GTID 0-7-47, which is not in the master's binlog",
        "and what lies between is not in this server's binlog",
        "but this is no longer available on the server.",
        "requested WAL segment 000000010000000000000002 has already been removed",
    ],
)
def test_a_place_that_the_source_no_longer_has_is_distinguished_from_other_trouble(said: str) -> None:
    assert has_lost_its_place(f"io.debezium.DebeziumException: {said}")
    assert "onboard the syncs of this source again" in cure_of(said)
    assert not has_lost_its_place("io.debezium.DebeziumException: Access denied for user 'x'@'y'")


def test_a_task_that_kept_a_structure_while_it_was_ended_is_distinguished_from_other_trouble() -> None:
    closed = (
        "org.apache.kafka.connect.errors.ConnectException: An exception occurred in the change event producer.\n"
        "Caused by: java.util.concurrent.RejectedExecutionException: Task io.debezium.storage.kafka.history."
        "KafkaSchemaHistory$$Lambda$1600 rejected from java.util.concurrent.ThreadPoolExecutor@378d1e99[Terminated]"
    )
    assert failed_as_it_ended(closed)
    assert not failed_as_it_ended("java.util.concurrent.RejectedExecutionException: Task of somebody else rejected")


def test_a_marker_that_a_standby_may_yet_confirm_is_no_lost_place() -> None:
    said = "ConnectException: Marker m-1 stands in the log, and bank.seamline_marker does not show it yet: a standby"
    assert not has_lost_its_place(said)
    assert "goes on by itself" in cure_of(said)
