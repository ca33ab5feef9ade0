"""A source's capture on real servers: from nothing, again, changed, failed, full. The log says what the source has."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka.admin import NewTopic

from seamline.adapters.connect.debezium_capture import ConnectCaptureProbe
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import admin_client, client_settings
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.domain.capture_status import CaptureState
from seamline.domain.errors import ConfigError, PositionLost, Refused, TerminalError
from tests.conftest import RunningStack
from tests.integration.bank_writers import writing
from tests.integration.captured import (
    NULLS_AND_DEFAULTS,
    Captured,
    assert_too_large_is_reported,
    captured,
    finish,
    replay,
)
from tests.integration.databases import mariadb
from tests.waiting import wait_until

TABLES = ("account", "audit", "later")
VIRTUAL = "a INT, memo VARCHAR(200), twice INT AS (a * 2) VIRTUAL, loud VARCHAR(200) AS (UPPER(memo)) VIRTUAL INVISIBLE"
DEFAULTS = "a INT DEFAULT 7, memo VARCHAR(200) DEFAULT 'none'"
# Beside `account` and `audit`, of tests that leave the capture as it is.
OTHERS = {
    "virtual_account": f"id BIGINT PRIMARY KEY, {VIRTUAL}",
    "virtual_audit": VIRTUAL,
    "default_account": f"id BIGINT PRIMARY KEY, {DEFAULTS}",
    "default_audit": DEFAULTS,
    "parent": "id BIGINT PRIMARY KEY, a INT, memo VARCHAR(200)",
    "child": "id INT PRIMARY KEY, parent_id BIGINT, FOREIGN KEY (parent_id) REFERENCES parent (id) ON DELETE CASCADE",
}


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured("capture_test") as one:
        yield one


@pytest.fixture(scope="module")
def shared(stack: RunningStack) -> Iterator[Captured]:
    """One capture, brought up over empty tables; each test has tables of its own, or goes on where the log stands."""
    with captured("capture_shared") as one:
        one.execute(*(f"CREATE TABLE {name} ({columns})" for name, columns in OTHERS.items()))
        one.plan = one.with_tables("account", "audit", *OTHERS)
        one.ensure()
        yield one


def assert_log_equals_source(one: Captured, *tables: str) -> None:
    state = replay(one, finish(one))
    for table in tables:
        assert state.holds(table) == sorted(one.rows(table), key=repr), table


def test_a_capture_begun_under_writers_carries_every_later_transaction_whole(bank: Captured) -> None:
    with writing(bank.root, tables=("account", "audit")) as writers:
        wait_until(lambda: writers.committed > 50, timeout_s=30, what="writers at work")
        state = bank.ensure()
        before = writers.committed
        wait_until(lambda: writers.committed > before + 200, timeout_s=60, what="200 transactions more")
    assert state.generation == 1
    assert state.tables == ("account", "audit", "seamline_marker")
    # The log begins in the middle of the tables' life: transactions are checked, contents only from an empty start.
    assert replay(bank, finish(bank)).transactions > 200


def test_the_log_replayed_from_an_empty_database_equals_the_source(bank: Captured) -> None:
    bank.ensure()
    with writing(bank.root, tables=("account", "audit")) as writers:
        wait_until(lambda: writers.committed > 300, timeout_s=60, what="300 transactions")
    assert_log_equals_source(bank, "account", "audit")


def test_a_virtual_column_of_mariadb_is_in_the_log_as_the_source_shows_it(shared: Captured) -> None:
    shared.execute(
        "INSERT INTO virtual_account (id, a, memo) VALUES (1, 1, 'x'), (2, 2, 'y')",
        "UPDATE virtual_account SET a = 5 WHERE id = 1",
        "DELETE FROM virtual_account WHERE id = 2",
        "INSERT INTO virtual_audit (a, memo) VALUES (1, 'x'), (2, 'y')",
        "UPDATE virtual_audit SET memo = 'z' WHERE a = 1",
        "DELETE FROM virtual_audit WHERE a = 2",
    )
    state = replay(shared, finish(shared))
    keyed = shared.rows_of("SELECT id, a, memo, twice, loud FROM virtual_account")
    assert state.holds("virtual_account") == keyed == [(1, 5, "x", 10, "X")]
    keyless = shared.rows_of("SELECT a, memo, twice, loud FROM virtual_audit")
    assert state.holds("virtual_audit") == keyless == [(1, "z", 2, "Z")]


def test_a_null_is_reported_as_null_where_the_column_has_a_default(shared: Captured) -> None:
    """Connect's converters put the default in its place unless a setting says not to."""
    tables = {"account": "default_account", "audit": "default_audit"}
    for name, other in tables.items():
        shared.execute(*(one.replace(name, other) for one in NULLS_AND_DEFAULTS if f" {name} " in one))
    assert_log_equals_source(shared, *tables.values())


def test_rows_that_a_foreign_key_deletes_by_itself_never_reach_the_log(shared: Captured) -> None:
    # Why preflight refuses such keys: the source has no child row any more, its log still does.
    shared.execute(
        "INSERT INTO parent VALUES (1, 1, 'parent')", "INSERT INTO child VALUES (7, 1)", "DELETE FROM parent"
    )
    state = replay(shared, finish(shared))
    assert shared.rows("child") == []
    assert state.holds("child") == [(7, 1)]


def test_a_second_call_changes_nothing_and_is_quick(shared: Captured) -> None:
    topic_id, tables = shared.kafka.topic_id(shared.source_plan.log_topic), shared.registry.listed
    markers = shared.rows("seamline_marker")
    second = shared.ensure()
    assert not second.changed
    assert (second.generation, second.tables, second.topic_id) == (1, tables, topic_id)
    assert shared.rows("seamline_marker") == markers


def test_a_stopped_connector_is_started_again_at_its_place(shared: Captured) -> None:
    shared.connector.stop()
    shared.execute("INSERT INTO account VALUES (1, 1, 'while stopped')")
    state = shared.ensure()
    assert state.changed
    assert state.generation == 1
    assert_log_equals_source(shared, "account")


def test_at_its_byte_limit_the_capture_is_stopped_and_refused_until_the_limit_is_raised(shared: Captured) -> None:
    generation, tables = shared.registry.tables(shared.source_plan.name)
    probe = ConnectCaptureProbe(
        shared.source_plan, client=shared.client, topics=shared.kafka, end_left_open=lambda *_: ()
    )
    assert probe.status().state is CaptureState.RUNNING
    size = probe.log_fill().size_bytes
    assert size > 0
    probe.stop()
    assert probe.status().state is CaptureState.STOPPED
    small = replace(shared.plan, source=replace(shared.source_plan, log_max_gb=size / 2**30 / 2))
    with pytest.raises(Refused, match="its limit is") as refused:
        shared.ensure(small)
    assert f"seamline capture start {shared.source_plan.name}" in refused.value.hint
    assert probe.status().state is CaptureState.STOPPED
    # As `seamline capture start` asks: for the tables that it has carried.
    state = shared.ensure(replace(shared.plan, tables=()))
    assert probe.status().state is CaptureState.RUNNING
    assert (state.generation, state.tables) == (generation, tables)


def test_a_table_added_while_a_transaction_is_open_loses_no_change_of_it(bank: Captured) -> None:
    bank.ensure()
    with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
        session.autocommit(False)
        cursor.execute("INSERT INTO account VALUES (1, 1, 'before the stop')")
        cursor.execute("INSERT INTO later VALUES (1, 1, 'before the stop')")
        with writing(bank.root, tables=("audit",)):
            state = bank.ensure(bank.with_tables("account", "later"))
        cursor.execute("INSERT INTO later VALUES (2, 1, 'after the resume')")
        session.commit()
    assert state.generation == 2
    assert state.tables == ("account", "audit", "later", "seamline_marker")
    assert_log_equals_source(bank, *TABLES)


def test_changing_the_list_again_and_again_under_writers_loses_and_doubles_nothing(bank: Captured) -> None:
    bank.ensure()
    with writing(bank.root, tables=("account", "audit"), count=2) as writers:
        for number in range(2):
            bank.execute(f"CREATE TABLE added_{number} (id INT PRIMARY KEY)")
            before = writers.committed
            bank.ensure(bank.with_tables("account", "audit", f"added_{number}"))
            wait_until(lambda before=before: writers.committed > before + 30, timeout_s=60, what="more transactions")
    assert bank.registry.generation == 3
    assert_log_equals_source(bank, "account", "audit")


def test_a_deleted_connector_comes_back_at_its_place(bank: Captured) -> None:
    bank.ensure()
    bank.connector.delete()
    bank.execute("ALTER TABLE account ADD COLUMN note INT", "INSERT INTO account VALUES (1, 1, 'while gone', 7)")
    bank.ensure()
    # The old structure came from its history, the new one from the log.
    assert_log_equals_source(bank, "account")


def test_a_connector_that_lost_its_place_is_refused(bank: Captured) -> None:
    bank.ensure()
    bank.connector.delete()
    bank.kafka.delete(f"seamline.{bank.source_plan.name}.offsets")
    with pytest.raises(PositionLost, match="lost its place"):
        bank.ensure()


def test_a_session_without_full_row_images_stops_the_capture_with_its_cure(bank: Captured) -> None:
    bank.ensure()
    bank.execute("SET SESSION binlog_row_image = MINIMAL", "INSERT INTO account VALUES (1, 1, 'x')",
                 "UPDATE account SET a = 2")  # fmt: skip
    bank.wait_until_failed()
    said = "binlog_row_image was not FULL when a row of capture_test.account was written"
    with pytest.raises(TerminalError, match=rf"{said} \(binlog\.\d+ from position \d+\)") as raised:
        bank.ensure()
    assert "has set another binlog_row_image" in raised.value.hint
    assert "capture reset" in raised.value.hint


def test_a_row_that_no_record_holds_stops_its_table_and_no_other(bank: Captured) -> None:
    bank.execute("ALTER TABLE account MODIFY memo LONGTEXT")
    assert_too_large_is_reported(bank)


def test_a_log_topic_with_another_retention_is_refused_by_name(bank: Captured) -> None:
    create_topic(bank.kafka, bank.source_plan.log_topic, {"retention.ms": "1000"})
    with pytest.raises(ConfigError, match=r"retention.ms is 1000, wanted -1") as raised:
        bank.ensure()
    assert "--add-config" in raised.value.hint


def create_topic(topics: CaptureTopics, name: str, settings: dict[str, str]) -> None:
    admin = admin_client(client_settings(resolve("kafka")))
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result()
    wait_until(lambda: topics.topic_id(name), timeout_s=20, what=f"topic {name}")
