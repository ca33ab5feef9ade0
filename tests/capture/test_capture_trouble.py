"""What can happen to a capture from outside: its worker killed, its password wrong, its source away."""

import re
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from seamline.adapters.connect.debezium_capture import ConnectCaptureProbe, capture_endpoint
from seamline.adapters.connect.endpoint import CaptureEndpoint, offsets_topic
from seamline.adapters.connect.rest import ConnectClient
from seamline.domain.capture_status import CaptureState
from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline.domain.log import RecordKind
from seamline.plan.model import SourcePlan
from seamline.ports import Marker
from seamline.sources.mariadb.source import MariaDbSource
from tests.conftest import RunningStack
from tests.integration.captured import Captured, Replayed, captured, replay
from tests.integration.connect_worker import ConnectWorker
from tests.integration.databases import mariadb
from tests.waiting import wait_until

ROWS_PER_STATEMENT = 1_000
STATEMENTS = 30
# So slowly a part of the transaction is sent for many seconds.
BYTES_PER_S = 20_000
MEMO = "a value of a row " * 3


@pytest.fixture
def bank(stack: RunningStack, worker: ConnectWorker) -> Iterator[Captured]:
    def endpoint(source: SourcePlan) -> CaptureEndpoint:
        return replace(capture_endpoint(source), secrets_file=str(worker.secrets_file))

    with captured("capture_trouble", client=ConnectClient(worker.connection), endpoint_of=endpoint) as one:
        yield one


def write_secrets(stack: RunningStack, worker: ConnectWorker, *, password: str | None = None) -> None:
    capture = stack.connection("core_bank_capture")
    values = {"user": capture.login, "password": capture.password if password is None else password}
    worker.write_secrets({f"core_bank_capture.{name}": value for name, value in values.items()})


def test_a_worker_killed_in_mid_transaction_loses_and_doubles_nothing(
    bank: Captured, stack: RunningStack, worker: ConnectWorker
) -> None:
    bank.ensure()
    with in_mid_transaction(bank) as whole_at:
        worker.kill()
        killed_at = bank.topics.end_offset()
    worker.start()
    bank.ensure()
    state = replay_all(bank)
    assert killed_at < whole_at, "the worker was killed too late to prove anything"
    assert not re.search(r"Skip [1-9]\d* (events|rows) on streaming start", worker.log()), "a part was passed over"
    assert MEMO not in worker.log(), "the log of Connect holds values of rows"
    assert state.repeated == 1
    assert_equals_source(bank, state)


def test_a_worker_killed_between_transactions_sends_none_of_them_again(
    bank: Captured, stack: RunningStack, worker: ConnectWorker
) -> None:
    """A table without a key would hold twice what comes twice."""
    bank.ensure()
    bank.execute("INSERT INTO audit VALUES (1, 'before'), (1, 'before')")
    replay_all(bank)
    worker.kill()
    worker.start()
    # With offsets in a topic that all connectors share it would wait for the transactions of all of them.
    wait_until(lambda: (status := bank.connector.status()) and status.is_running, timeout_s=30, what="the capture")
    bank.ensure()
    assert_equals_source(bank, replay_all(bank))


def test_a_worker_killed_behind_a_change_of_structure_knows_it_and_sends_the_rows_after_it(
    bank: Captured, stack: RunningStack, worker: ConnectWorker
) -> None:
    """Such a statement has a BEGIN and no END, and is sent again with it."""
    bank.ensure()
    replay_all(bank)
    for column in ("b", "c"):
        before = bank.topics.end_offset()
        bank.execute(f"ALTER TABLE account ADD COLUMN {column} INT DEFAULT 7")
        wait_until(lambda before=before: is_ddl_in_log(bank, before), timeout_s=30, what="the statement in the topic")
        worker.kill()
        worker.start()
        bank.ensure()
    bank.execute("INSERT INTO account VALUES (1, 1, 'x', 2, 3)", "TRUNCATE audit", "INSERT INTO audit VALUES (1, 'y')")
    assert_equals_source(bank, replay_all(bank))


def test_a_place_that_debeziums_own_class_left_inside_of_a_transaction_is_read_as_the_one_before_it(
    bank: Captured,
) -> None:
    bank.ensure()
    replay_all(bank)
    bank.connector.stop()
    place = bank.client.offset(bank.connector.name) or {}
    bank.execute("INSERT INTO account SELECT seq, seq, 'x' FROM seq_1_to_300")
    bank.places_put += 1
    bank.client.put_offset(
        bank.connector.name,
        partition={"server": bank.connector.name},
        offset={**place, "event": 2, "row": 100, "ts_sec": 1, "server_id": 1, "transaction_id": "0-1-77"},
    )
    bank.ensure()
    assert_equals_source(bank, replay_all(bank))


def replay_all(bank: Captured) -> Replayed:
    """What the log holds up to now."""
    marker = Marker(id=f"last-{uuid.uuid4().hex}", kind="heartbeat")
    bank.source.commit_marker(marker)
    return replay(bank, marker.id)


def assert_equals_source(bank: Captured, state: Replayed) -> None:
    for table in ("account", "audit"):
        assert state.holds(table) == sorted(bank.rows(table), key=repr), table


def is_ddl_in_log(bank: Captured, start: int) -> bool:
    with closing(bank.open_log()) as reader:
        reader.assign(start)
        return any(record.kind is RecordKind.DDL for record in reader.poll(1.0, 1_000))


def test_a_worker_that_slept_in_mid_transaction_sends_no_row_of_it_twice(
    bank: Captured, stack: RunningStack, worker: ConnectWorker
) -> None:
    """Debezium's binlog client, left to itself, connects again then and sends the transaction from its first row on."""
    bank.ensure()
    with in_mid_transaction(bank) as whole_at:
        # Debezium looks after its session every minute by default; ours was once set to do so every ten seconds.
        worker.suspend(13)
        slept_at = bank.topics.end_offset()
    assert slept_at < whole_at, "the worker slept too late to prove anything"
    assert_equals_source(bank, replay_all(bank))


@contextmanager
def in_mid_transaction(bank: Captured) -> Iterator[int]:
    """A part of a large transaction is in the topic, more comes slowly; before the offset given it cannot be whole."""
    start = bank.topics.end_offset()
    with bank.written_slowly(BYTES_PER_S):
        insert_large(bank)
        wait_until(lambda: bank.topics.end_offset() > start + 1_000, timeout_s=60, what="part of the transaction")
        yield start + ROWS_PER_STATEMENT * STATEMENTS


def insert_large(bank: Captured) -> None:
    with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
        session.autocommit(False)
        for statement in range(STATEMENTS):
            rows = [(statement * ROWS_PER_STATEMENT + n, statement, MEMO) for n in range(ROWS_PER_STATEMENT)]
            cursor.executemany("INSERT INTO account VALUES (%s, %s, %s)", rows)
            cursor.execute("INSERT INTO audit VALUES (%s, 'one of many'), (0, 'always the same')", (statement,))
        cursor.execute("INSERT INTO audit VALUES (1, 'the same transaction')")
        session.commit()


def test_a_wrong_password_is_named_and_the_capture_mended_once_it_is_right(
    bank: Captured, stack: RunningStack, worker: ConnectWorker
) -> None:
    bank.ensure()
    write_secrets(stack, worker, password="wrong")
    bank.connector.stop()
    with pytest.raises(SeamlineError) as raised:
        bank.ensure()
    assert "password" in raised.value.hint
    probe = ConnectCaptureProbe(bank.source_plan, client=bank.client, topics=bank.kafka, end_left_open=lambda *_: ())
    assert probe.status().state is CaptureState.FAILED
    assert "password" in probe.status().error
    write_secrets(stack, worker)
    bank.execute("INSERT INTO account VALUES (1, 1, 'while it could not log in')")
    probe.restart_failed()
    wait_until(lambda: probe.status().state is CaptureState.RUNNING, timeout_s=60, what="the capture to run again")
    marker = Marker(id=f"last-{uuid.uuid4().hex}", kind="heartbeat")
    bank.source.commit_marker(marker)
    assert replay(bank, marker.id).holds("account") == bank.rows("account")


def test_a_config_with_a_literal_secret_is_refused(bank: Captured) -> None:
    bank.ensure()
    config = bank.client.config(bank.connector.name)
    assert config is not None
    bank.client.stop(bank.connector.name)
    bank.client.put_config(bank.connector.name, {**config, "producer.override.ssl.key.password": "hunter2"})
    with pytest.raises(ConfigError, match="plain text: producer.override.ssl.key.password") as raised:
        bank.ensure()
    assert "hunter2" not in str(raised.value)


def test_no_secret_reaches_connects_rest_interface(bank: Captured, stack: RunningStack) -> None:
    bank.ensure()
    config = bank.client.config(bank.connector.name)
    assert stack.connection("core_bank_capture").password not in str(config)


def test_a_capture_keeps_its_place_in_an_offsets_topic_of_its_own(bank: Captured) -> None:
    bank.ensure()
    assert bank.kafka.offsets(offsets_topic(bank.source_plan))[1] > 0


def test_connect_away_is_trouble_that_may_pass(worker: ConnectWorker) -> None:
    away = ConnectClient(replace(worker.connection, port=1))
    with pytest.raises(TransientError, match="does not answer"):
        away.status("any")


def test_a_source_that_is_away_or_refuses_the_login_is_distinguished(
    bank: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = bank.root
    place = f"{root.host}:{root.port}"
    monkeypatch.setenv("SEAMLINE_CONNECTION_CORE_BANK", f"mysql://nobody:wrong@{place}/bank")
    with pytest.raises(ConfigError, match="refused login `nobody`"):
        MariaDbSource(bank.source_plan).catalogue(["account"])
    monkeypatch.setenv("SEAMLINE_CONNECTION_CORE_BANK", f"mysql://nobody:wrong@{root.host}:1/bank")
    with pytest.raises(TransientError, match="cannot be reached"):
        MariaDbSource(bank.source_plan).catalogue(["account"])


def test_a_topics_folder_is_measured_in_bytes(bank: Captured) -> None:
    bank.ensure()
    before = bank.topics.size_bytes()
    insert_large(bank)
    wait_until(lambda: bank.topics.size_bytes() > before + 10_000, timeout_s=60, what="the log topic to grow")
