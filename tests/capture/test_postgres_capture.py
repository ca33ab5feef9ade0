"""The capture of a PostgreSQL source: every odd record, every kill, and what the log then says."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition

from seamline.adapters.connect.endpoint import offsets_topic
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.sources.postgres.position import PostgresPosition
from tests.conftest import RunningStack
from tests.integration.bank_writers import in_postgres, writing
from tests.integration.captured import (
    NULLS_AND_DEFAULTS,
    assert_begins_again,
    assert_too_large_is_reported,
    finish,
    lost_by_name,
    replay,
    stored,
)
from tests.integration.captured_postgres import ACCOUNT, AUDIT, FULL, PostgresCaptured, captured_postgres
from tests.integration.connect_worker import ConnectWorker
from tests.integration.replicated import restorable_postgres
from tests.integration.snapshot_run import transactions_of
from tests.waiting import wait_until

ROWS = 30_000
BYTES_PER_S = 20_000
ENDINGS = 4


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[PostgresCaptured]:
    with captured_postgres("capture_pg") as one:
        yield one


@pytest.fixture(scope="module")
def shared(stack: RunningStack) -> Iterator[PostgresCaptured]:
    """One capture, for tests that leave it as it is."""
    defaults = "a int DEFAULT 7, memo text DEFAULT 'none'"
    create = (
        ACCOUNT,
        AUDIT,
        FULL,
        f"CREATE TABLE default_account (id bigint PRIMARY KEY, {defaults})",
        f"CREATE TABLE default_audit ({defaults})",
        "ALTER TABLE default_audit REPLICA IDENTITY FULL",
    )
    tables = ("account", "audit", "default_account", "default_audit")
    with captured_postgres("capture_pg_shared", create=create, tables=tables) as one:
        one.ensure()
        yield one


def test_every_change_of_keyed_and_keyless_tables_comes_once_and_in_order(shared: PostgresCaptured) -> None:
    with closing(shared.session()) as session:
        session.execute("INSERT INTO account SELECT n, n, 'x' FROM generate_series(1, 100) n")
        session.execute("UPDATE account SET a = a + 1 WHERE id < 50")
        session.execute("UPDATE account SET id = id + 1000 WHERE id > 90")
        session.execute("DELETE FROM account WHERE id BETWEEN 50 AND 60")
        session.execute("INSERT INTO audit SELECT 1, 'same' FROM generate_series(1, 50)")
        session.execute("DELETE FROM audit WHERE ctid IN (SELECT ctid FROM audit LIMIT 20)")
        with session.transaction():
            session.execute("INSERT INTO account VALUES (7000, 1, 'rolled back')")
            raise psycopg.Rollback
        session.execute("SELECT pg_logical_emit_message(true, 'somebody', 'else')")
        session.execute("SELECT pg_logical_emit_message(false, 'somebody', 'else')")
    state = replay(shared, finish(shared))
    assert state.holds("account") == sorted(shared.rows("account"), key=repr)
    assert state.holds("audit") == sorted(shared.rows("audit"), key=repr)


def test_a_null_is_reported_as_null_where_the_column_has_a_default(shared: PostgresCaptured) -> None:
    """Connect's converters put the default in its place unless a setting says not to."""
    tables = {"account": "default_account", "audit": "default_audit"}
    for name, other in tables.items():
        shared.execute(*(one.replace(name, other) for one in NULLS_AND_DEFAULTS if f" {name} " in one))
    state = replay(shared, finish(shared))
    for table in tables.values():
        assert state.holds(table) == sorted(shared.rows(table), key=repr)


def test_a_table_that_is_published_and_not_captured_yet_is_passed_over(shared: PostgresCaptured) -> None:
    """So it is between what its owner does for it and the run that takes it into the sync."""
    shared.execute(
        "CREATE TABLE later (id bigint PRIMARY KEY, memo text)",
        f'ALTER PUBLICATION "{shared.source_plan.publication}" ADD TABLE later',
        "INSERT INTO later VALUES (1, 'a'), (2, 'b')",
        "UPDATE later SET memo = 'c'",
        "UPDATE later SET id = id + 10",
        "DELETE FROM later WHERE id = 11",
        "INSERT INTO account VALUES (8000, 1, 'captured')",
        "TRUNCATE later",
    )
    state = replay(shared, finish(shared))
    assert (8000, 1, "captured") in state.holds("account")
    assert state.holds("account") == sorted(shared.rows("account"), key=repr)
    assert state.holds("later") == []


def test_a_row_that_no_record_holds_stops_its_table_and_no_other(bank: PostgresCaptured) -> None:
    assert_too_large_is_reported(bank)


@pytest.fixture
def own_worker(worker: ConnectWorker) -> Iterator[PostgresCaptured]:
    client = ConnectClient(worker.connection)
    with captured_postgres("killed_pg", client=client, secrets_file=str(worker.secrets_file)) as one:
        yield one


def large_transaction(bank: PostgresCaptured, statement: str) -> None:
    with closing(bank.session()) as session, session.transaction():
        if statement == "COPY":
            with session.cursor() as cursor, cursor.copy("COPY account FROM STDIN") as copy:
                for number in range(ROWS):
                    copy.write_row((number, 0, "x" * 50))
        else:
            session.execute(f"INSERT INTO account SELECT n, 0, repeat('x', 50) FROM generate_series(1, {ROWS}) n")
        session.execute("INSERT INTO audit VALUES (1, 'the same transaction')")


@pytest.mark.parametrize(("statement", "ending"), [("INSERT", "stopped"), ("COPY", "killed")])
def test_a_transaction_whose_connector_ended_in_its_middle_is_sent_again_whole(
    statement: str,
    ending: str,
    own_worker: PostgresCaptured,
    worker: ConnectWorker,
) -> None:
    """Rows of one COPY share their LSNs by the hundred: a place in the log is no place between them."""
    bank = own_worker
    bank.ensure()
    start = bank.topics.end_offset()
    with bank.written_slowly(BYTES_PER_S):
        large_transaction(bank, statement)
        wait_until(lambda: bank.topics.end_offset() > start + 1_000, timeout_s=60, what="part of the transaction")
        if ending == "killed":
            worker.kill()
        else:
            bank.connector.stop()
        ended_at = bank.topics.end_offset()
    if ending == "killed":
        worker.start()
    bank.ensure()
    state = replay(bank, finish(bank))
    assert ended_at < start + ROWS, f"the worker was {ending} too late to prove anything"
    assert state.repeated > 0
    assert state.holds("account") == sorted(bank.rows("account"), key=repr)
    assert state.holds("audit") == bank.rows("audit")


def test_a_connector_that_ends_again_and_again_under_writers_loses_and_doubles_nothing(
    own_worker: PostgresCaptured, worker: ConnectWorker
) -> None:
    bank = own_worker
    bank.ensure()
    with writing(bank.root, tables=("account", "audit"), session_of=in_postgres) as writers:
        for number in range(ENDINGS):
            written = writers.committed
            wait_until(lambda at=written: writers.committed > at + 20, timeout_s=60, what="writers at work")
            if number % 4 == 3:
                worker.kill()
                worker.start()
                bank.ensure()
            else:
                bank.connector.stop()
                bank.connector.start()
    state = replay(bank, finish(bank))
    assert state.holds("account") == sorted(bank.rows("account"), key=repr)
    assert state.holds("audit") == sorted(bank.rows("audit"), key=repr)


def test_whatever_the_connector_stores_lies_behind_a_whole_transaction(bank: PostgresCaptured) -> None:
    """At no moment can it be ended such that it goes on inside of one: it never keeps a place there."""
    bank.ensure()
    large_transaction(bank, "COPY")
    ends = [end.position for end, _, _ in transactions_of(bank, finish(bank))]
    seed, *stored = stored_offsets(bank)
    assert len(stored) > len(ends), "the large transaction should have taken more than one commit"
    places = {seed["lsn"], *(end.lsn for end in ends if isinstance(end, PostgresPosition))}
    assert {offset["lsn"] for offset in stored} <= places


def stored_offsets(bank: PostgresCaptured) -> list[dict[str, Any]]:
    """All that Connect was given to keep, in order; the first is what we gave it to begin with."""
    topic = offsets_topic(bank.source_plan)
    settings = client_settings(resolve("kafka")) | {"group.id": "none", "isolation.level": "read_committed"}
    first, end = bank.kafka.offsets(topic)
    found: list[dict[str, Any]] = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, first)])
        while consumer.position([TopicPartition(topic, 0)])[0].offset < end:
            for message in consumer.consume(1_000, 1.0):
                value = message.value()
                assert value is not None
                found.append(json.loads(value))
    return found


def test_the_slot_lets_go_of_what_connect_has_stored_and_of_no_more(bank: PostgresCaptured) -> None:
    bank.ensure()
    bank.execute("INSERT INTO account SELECT n, n, 'x' FROM generate_series(1, 300) n")
    behind = confirmed(bank, "pg_current_wal_insert_lsn()")
    replay(bank, finish(bank))
    wait_until(lambda: confirmed(bank) >= behind, timeout_s=30, what="the slot to let go of the rows")
    bank.connector.stop()
    wait_until(lambda: not is_active(bank), timeout_s=20, what="the slot to be let go")
    assert confirmed(bank) <= stored(bank)["lsn"]


def confirmed(bank: PostgresCaptured, what: str = "confirmed_flush_lsn") -> int:
    """The bytes of the server's log before that place."""
    asked = f"SELECT ({what} - '0/0'::pg_lsn)::bigint FROM pg_replication_slots WHERE slot_name = %s"
    with closing(bank.session()) as session:
        ((place,),) = session.execute(asked.encode(), (bank.source_plan.slot,)).fetchall()
    return int(place)


def test_a_slot_that_was_dropped_stops_the_capture_and_is_named(bank: PostgresCaptured) -> None:
    bank.ensure()
    bank.connector.stop()
    wait_until(lambda: not is_active(bank), timeout_s=20, what="the slot to be let go")
    bank.execute(f"SELECT pg_drop_replication_slot('{bank.source_plan.slot}')")
    bank.execute("INSERT INTO account VALUES (1, 1, 'lost to the log')")
    lost_by_name(bank, "replication slot dropped or made again")
    assert_begins_again(bank)


def test_a_slot_that_was_made_again_is_not_taken_for_the_old_one(bank: PostgresCaptured) -> None:
    """What committed between the two is in neither."""
    bank.ensure()
    bank.connector.stop()
    wait_until(lambda: not is_active(bank), timeout_s=20, what="the slot to be let go")
    slot = bank.source_plan.slot
    bank.execute(f"SELECT pg_drop_replication_slot('{slot}')")
    bank.execute("INSERT INTO account VALUES (1, 1, 'lost to the log')")
    bank.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    lost_by_name(bank, "no longer holds its place")
    assert_begins_again(bank)


def test_a_slot_that_the_server_gave_up_stops_the_capture_and_is_named_at_once(stack: RunningStack) -> None:
    """Preflight asks for the bound that makes it so. Debezium's own class would be silent for half an hour."""
    with restorable_postgres("-c", "max_slot_wal_keep_size=16MB"), captured_postgres("given_up") as bank:
        bank.ensure()
        bank.connector.stop()
        wait_until(lambda: not is_active(bank), timeout_s=20, what="the slot to be let go")
        wait_until(lambda: is_given_up(bank), timeout_s=60, what="the slot to be given up")
        lost_by_name(bank, r"was invalidated.*max_slot_wal_keep_size")
        assert_begins_again(bank)


def test_a_slot_that_somebody_moved_on_stops_the_capture_and_is_named(bank: PostgresCaptured) -> None:
    bank.ensure()
    bank.connector.stop()
    wait_until(lambda: not is_active(bank), timeout_s=20, what="the slot to be let go")
    bank.execute(
        "INSERT INTO account VALUES (1, 1, 'lost to the log')",
        f"SELECT pg_replication_slot_advance('{bank.source_plan.slot}', pg_current_wal_lsn())",
    )
    lost_by_name(bank, "no longer holds its place")


def stopped_at(bank: PostgresCaptured) -> dict[str, Any]:
    """The place of a capture that has sent everything and was stopped."""
    bank.ensure()
    replay(bank, finish(bank))
    bank.connector.stop()
    wait_until(lambda: not is_active(bank), timeout_s=20, what="the slot to be let go")
    return stored(bank)


def put_place(bank: PostgresCaptured, **offset: Any) -> None:
    bank.places_put += 1
    bank.client.put_offset(bank.connector.name, partition={"server": bank.connector.name}, offset=offset)


@pytest.mark.parametrize("message", ["BEGIN", "INSERT"])
def test_a_place_that_debeziums_own_class_left_inside_of_a_transaction_is_read_as_the_commit_before(
    message: str, bank: PostgresCaptured
) -> None:
    """There `lsn` is that of a row, which other writers' commits may lie behind; it is no place to go on from."""
    place = stopped_at(bank)["lsn"]
    bank.execute("INSERT INTO account SELECT n, n, 'x' FROM generate_series(1, 300) n")
    put_place(
        bank,
        lsn=place - 8,
        lsn_proc=place,
        lsn_commit=place,
        lsn_events_processed=1,
        messageType=message,
        transaction_id="77",
        transaction_data_collection_order_public_account=3,
    )
    bank.ensure()
    state = replay(bank, finish(bank))
    assert state.holds("account") == sorted(bank.rows("account"), key=repr)


def test_a_server_whose_log_ends_before_the_place_of_the_capture_is_not_gone_on_with(bank: PostgresCaptured) -> None:
    """As one that was restored: what commits there next would be taken for sent."""
    beyond = stopped_at(bank)["lsn"] + (1 << 30)
    put_place(bank, lsn=beyond, lsn_commit=beyond)
    lost_by_name(bank, "restored, or another one")


def is_given_up(bank: PostgresCaptured) -> bool:
    """Once the slot's log would be longer than the bound: each look writes a segment and lets the server look too."""
    bank.execute(
        "INSERT INTO account SELECT 1000 + count(*), 1, 'lost' FROM account", "SELECT pg_switch_wal()", "CHECKPOINT"
    )
    asked = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s"
    with closing(bank.session()) as session:
        return session.execute(asked, (bank.source_plan.slot,)).fetchall() == [("lost",)]


def is_active(bank: PostgresCaptured) -> bool:
    with closing(bank.session()) as session:
        row = session.execute(
            "SELECT active FROM pg_replication_slots WHERE slot_name = %s", (bank.source_plan.slot,)
        ).fetchone()
    return bool(row and row[0])
