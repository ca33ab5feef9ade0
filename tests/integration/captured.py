"""A small database of a test's own with its capture, and what its log topic says of it."""

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Protocol

import pytest

from seamline.adapters.connect.debezium_capture import (
    ConnectCaptureProbe,
    DebeziumCapture,
    PlannedTopics,
    capture_endpoint,
)
from seamline.adapters.connect.endpoint import CaptureEndpoint, offsets_topic, schema_history_topic
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.log_reader import KafkaLogReader, open_log_reader
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.databases.mysql.grants import statements_of
from seamline.domain.errors import PositionLost
from seamline.domain.log import LogRecord, PrecedingTransaction, RecordKind, RowChange
from seamline.domain.position import Position
from seamline.kinds.logins import Logins
from seamline.plan.model import SourcePlan, SyncPlan, TablePlan
from seamline.ports import LoggedSource, Marker
from seamline.sources.mariadb.grants import script_of
from seamline.sources.mariadb.source import MariaDbSource
from seamline.sources.mysql.position import MySqlPosition
from seamline.sync.capture_lifecycle import CaptureSource, CaptureState, ensure_capture, reset_capture
from seamline.sync.capture_watch import CaptureWatch
from seamline.sync.stream_host import RaiseAlarm
from seamline.sync.transactions import TransactionAssembler
from tests.integration.databases import mariadb, mariadb_database
from tests.waiting import wait_until

NULLS_AND_DEFAULTS = (
    "INSERT INTO account (id) VALUES (1)",
    "INSERT INTO account VALUES (2, NULL, NULL), (3, 3, 'x')",
    "UPDATE account SET a = NULL WHERE id = 1",
    "UPDATE account SET memo = NULL WHERE id = 3",
    "INSERT INTO audit VALUES (NULL, NULL), (NULL, 'x'), (7, 'none')",
    "DELETE FROM audit WHERE memo = 'x'",
)
NAMED_WITHIN_S = 60
ACCOUNT = "CREATE TABLE account (id BIGINT PRIMARY KEY, a INT, memo VARCHAR(200))"
AUDIT = "CREATE TABLE audit (a INT, memo VARCHAR(200))"
LATER = "CREATE TABLE later (id BIGINT PRIMARY KEY, a INT, memo VARCHAR(200))"


class MemoryRegistry:
    """CaptureRegistry of one test; the platform's own has its own tests."""

    def __init__(self) -> None:
        self.generation = 0
        self.listed: tuple[str, ...] = ()
        self.is_locked = False

    @contextmanager
    def locked(self, source: str) -> Iterator[None]:
        assert not self.is_locked
        self.is_locked = True
        try:
            yield
        finally:
            self.is_locked = False

    def tables(self, source: str) -> tuple[int, tuple[str, ...]]:
        return self.generation, self.listed

    def set_tables(self, source: str, *, generation: int, tables: Sequence[str]) -> None:
        assert self.is_locked
        self.generation, self.listed = generation, tuple(tables)


class CapturedSource(LoggedSource, CaptureSource, Protocol):
    """What both kinds of source are to a test."""


@dataclass
class Captured:
    """`name` is the source's; its database, connector and topics are named after it."""

    plan: SyncPlan
    root: Connection
    client: ConnectClient
    endpoint: CaptureEndpoint
    registry: MemoryRegistry = field(default_factory=MemoryRegistry)
    # How often a test has put a place by hand that names no transaction before it.
    places_put: int = 0

    @property
    def source_plan(self) -> SourcePlan:
        return self.plan.source

    @property
    def source(self) -> CapturedSource:
        return MariaDbSource(self.source_plan)

    @property
    def connector(self) -> DebeziumCapture:
        return DebeziumCapture(self.source_plan, client=self.client, endpoint=self.endpoint)

    @property
    def kafka(self) -> CaptureTopics:
        return CaptureTopics(client_settings(resolve("kafka")))

    @property
    def topics(self) -> PlannedTopics:
        return PlannedTopics(self.source_plan, self.kafka)

    def ensure(self, plan: SyncPlan | None = None) -> CaptureState:
        wanted = plan or self.plan
        self.grant(wanted)
        return ensure_capture(
            wanted,
            registry=self.registry,
            connect=DebeziumCapture(wanted.source, client=self.client, endpoint=self.endpoint),
            topics=PlannedTopics(wanted.source, self.kafka),
            source=self.source,
            open_log=self.open_log,
        )

    def reset(self) -> None:
        reset_capture(
            self.source_plan,
            registry=self.registry,
            connect=self.connector,
            topics=self.topics,
            source=self.source,
        )

    def with_tables(self, *names: str) -> SyncPlan:
        return replace(self.plan, tables=tuple(TablePlan(name) for name in names))

    def grant(self, plan: SyncPlan) -> None:
        """What the owner of the database runs for a sync: the printed script, whose logins the stack has made."""
        source = plan.source
        roles = {role: resolve(getattr(source, role)).login for role in ("reader", "capture", "marker")}
        tables = [source.places.captured(table.name) for table in plan.tables]
        script = script_of(source, tables, logins=Logins(**roles))
        self.execute(*(one for one in statements_of(script) if not one.startswith("CREATE USER")))

    def publishing(self, table: str) -> tuple[str, ...]:  # noqa: ARG002
        """What the owner does for one more table, beside `grant`: nothing, the binlog holds all of them."""
        return ()

    def open_log(self) -> KafkaLogReader:
        return open_log_reader(self.plan)

    def execute(self, *statements: str) -> None:
        with closing(mariadb(self.root)) as session, session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def execute_in(self, character_set: str, *statements: str) -> None:
        """By a client that writes its statements in this character set."""
        with closing(mariadb(self.root)) as session, session.cursor() as cursor:
            session.set_character_set(character_set)
            for statement in statements:
                cursor.execute(statement)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.rows_of(f"SELECT * FROM {table}")

    def rows_of(self, query: str) -> list[tuple[Any, ...]]:
        with closing(mariadb(self.root)) as session, session.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    @contextmanager
    def written_slowly(self, bytes_per_s: int) -> Iterator[None]:
        """The broker takes its records slowly: what a test kills in mid-transaction is then surely not through."""
        topic = self.source_plan.log_topic
        self.kafka.limit_producer(self.connector.name, bytes_per_s, topic=topic)
        try:
            yield
        finally:
            self.kafka.limit_producer(self.connector.name, None, topic=topic)

    def wait_until_failed(self) -> None:
        wait_until(
            lambda: (status := self.connector.status()) is not None and status.is_failed,
            timeout_s=60,
            what="the connector to fail",
        )


@contextmanager
def captured(
    name: str, *, client: ConnectClient | None = None, endpoint_of: Any = capture_endpoint
) -> Iterator[Captured]:
    """A database with `account` (keyed), `audit` (keyless), `later` and the marker table; nothing is captured yet."""
    source = SourcePlan(
        name=name,
        kind="mariadb",
        database=name,
        reader="core_bank",
        capture="core_bank_capture",
        marker="core_bank_marker",
        log_topic=f"seamline.{name}.log",
        connector=f"seamline-{name}",
    )
    plan = SyncPlan(f"{name}_sync", source, (), (TablePlan("account"), TablePlan("audit")))
    with mariadb_database(name) as root:
        one = Captured(plan, root, client or ConnectClient(resolve("connect")), endpoint_of(source))
        forget(one)
        one.execute(ACCOUNT, AUDIT, LATER)
        _revoke_what_others_need(source)
        one.grant(plan)
        try:
            yield one
        finally:
            forget(one)
            # A table's rights outlive it, and would be those of the next one of its name.
            one.execute(
                f"DELETE FROM mysql.tables_priv WHERE db = '{name}'",
                rf"DELETE FROM mysql.db WHERE replace(db, '\\', '') = '{name}'",
                "FLUSH PRIVILEGES",
            )


def forget(one: Captured) -> None:
    one.connector.delete()
    for topic in (one.source_plan.log_topic, offsets_topic(one.source_plan), schema_history_topic(one.source_plan)):
        one.kafka.delete(topic)
        wait_until(partial(_is_gone, one, topic), timeout_s=20, what=f"topic {topic} to be gone")


def _is_gone(one: Captured, topic: str) -> bool:
    return not one.kafka.topic_id(topic)


def _revoke_what_others_need(source: SourcePlan) -> None:
    """The demo's own source, of the same login, has the brief lock, for which the script gives RELOAD."""
    with closing(mariadb(resolve("core_bank_root"))) as session, session.cursor() as cursor:
        cursor.execute(f"REVOKE RELOAD ON *.* FROM '{resolve(source.reader).login}'@'%'")


def as_logged(table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG001
    return row


@dataclass
class Replayed:
    """What the log says a database holds: keyed rows by key, keyless rows counted; and how many transactions said so.

    `meant`: of a table and the values of a row in it, as the log writes them, the row as it is held here.
    """

    keyed: dict[str, dict[bytes, tuple[Any, ...]]] = field(default_factory=dict)
    keyless: dict[str, Counter[tuple[Any, ...]]] = field(default_factory=dict)
    transactions: int = 0
    repeated: int = 0
    rows: int = 0
    meant: Callable[[str, tuple[Any, ...]], tuple[Any, ...]] = as_logged

    def holds(self, table: str) -> list[tuple[Any, ...]]:
        if table in self.keyless:
            return sorted(self.keyless[table].elements(), key=repr)
        return sorted(self.keyed.get(table, {}).values(), key=repr)


def replay(one: Captured, marker_id: str, *, since: int | None = None) -> Replayed:
    """Read the whole log up to this marker's transaction; every transaction must be whole, in place and counted right.

    `since`: an offset behind the end of a transaction from where on it is read, as if nothing had been before it.
    """
    reader = one.open_log()
    try:
        reader.assign(one.kafka.offsets(one.source_plan.log_topic)[0] if since is None else since)
        return _replay(one, reader, marker_id)
    finally:
        reader.close()


def finish(one: Captured) -> str:
    """Commit a last marker and return its id."""
    marker = Marker(id=f"last-{uuid.uuid4().hex}", kind="heartbeat")
    one.source.commit_marker(marker)
    return marker.id


def marker_in_log(one: Captured) -> str:
    """The id of a marker that is committed and stands in the log."""
    marker_id = finish(one)
    replay(one, marker_id)
    return marker_id


def stored(one: Captured) -> dict[str, Any]:
    """The place of its capture, as Connect keeps it."""
    return one.client.offset(one.connector.name) or {}


def lost_by_name(one: Captured, match: str, *, since_s: float | None = None) -> PositionLost:
    """Invariant I9: within a minute whoever asks for the capture is reported by name; so is the host's watch, whose
    alarm holds the cure. `since_s`: of `time.monotonic`, when a capture that ran could know; a stopped one is asked
    now."""
    began = time.monotonic() if since_s is None else since_s
    with pytest.raises(PositionLost, match=match) as lost:
        one.ensure()
    probe = ConnectCaptureProbe(one.source_plan, client=one.client, topics=one.kafka, end_left_open=lambda *_: ())
    watch = CaptureWatch(one.source_plan.name, one.connector.name, one.source_plan.log_max_gb)
    alarms = [done.message for done in watch.seen(probe.status(), now_s=0) if isinstance(done, RaiseAlarm)]
    assert len(alarms) == 1 and "capture reset" in alarms[0], alarms
    assert time.monotonic() - began < NAMED_WITHIN_S
    return lost.value


def assert_begins_again(one: Captured) -> None:
    """The cure of a lost place: the new log holds what comes from now on, and nothing that was before."""
    before = one.topics.ensure()
    one.reset()
    assert one.ensure().topic_id != before
    one.execute("INSERT INTO account VALUES (9, 9, 'in the new log')")
    assert replay(one, finish(one)).holds("account") == [(9, 9, "in the new log")]


def rows_in_log(one: Captured, table: str, count: int) -> list[dict[str, Any]]:
    """The newest images of the first rows of a table in the log, at least so many."""
    found: list[dict[str, Any]] = []
    with closing(one.open_log()) as reader:
        reader.assign(one.kafka.offsets(one.source_plan.log_topic)[0])

        def is_whole() -> bool:
            rows = chain.from_iterable(record.rows for record in reader.poll(1.0, 1_000))
            found.extend(json.loads(row.after or row.before or b"") for row in rows if row.table == table)
            return len(found) >= count

        wait_until(is_whole, timeout_s=60, what="the rows in the log")
    return found


def assert_too_large_is_reported(one: Captured) -> None:
    """A row that no record holds: its transaction is whole, and only a stream of its table has to stop."""
    one.ensure()
    one.execute(
        "INSERT INTO account VALUES (1, 1, 'x')",
        "INSERT INTO audit VALUES (1, 'before it')",
        "UPDATE account SET memo = repeat('x', 40000000) WHERE id = 1",
        "UPDATE account SET memo = repeat('\"', 16000000) WHERE id = 1",
        "INSERT INTO audit VALUES (2, 'behind it')",
    )
    marker_id = finish(one)
    transactions = TransactionAssembler(("account", "audit"), marker_table=one.source_plan.marker_table)
    rows: list[RowChange] = []
    with closing(one.open_log()) as reader:
        reader.assign(0)

        def is_there() -> bool:
            made = transactions.feed(reader.poll(1.0, 1_000))
            rows.extend(row for transaction in made for row in transaction.rows)
            return any(marker_id in str(transaction.markers) for transaction in made)

        wait_until(is_there, timeout_s=60, what="the marker")
    assert transactions.trouble is None
    images: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for row in rows:
        images.setdefault((row.table, row.op), []).append((row.before is not None, row.after is not None))
    assert images == {
        ("account", "c"): [(False, True)],
        ("account", "u"): [(False, False), (False, True)],
        ("audit", "c"): [(False, True)] * 2,
    }


def _replay(one: Captured, reader: KafkaLogReader, marker_id: str) -> Replayed:
    state = Replayed()
    transaction: list[RowChange] = []
    counted: Counter[str] = Counter()
    open_id, is_last = "", False
    begun: Position | None = None
    before: PrecedingTransaction | None = None
    odd = chains = 0
    for record in _records(reader):
        if record.kind is RecordKind.BEGIN:
            if begun is not None and record.transaction_id != open_id:
                before = PrecedingTransaction(begun, has_end=False, records=odd)
            # The first BEGIN of a chain names none.
            chains += record.follows is None
            assert record.follows in (None, before) or before is None, record
            begun, odd = record.position, 0
            assert not transaction or record.transaction_id == open_id, (
                f"{open_id} has rows and no END before {record.transaction_id}"
            )
            # A restarted connector sends an open transaction again, all of it.
            state.repeated += bool(transaction)
            assert record.is_whole, record
            transaction = []
            counted = Counter()
            open_id = record.transaction_id
        elif record.kind is RecordKind.ROWS:
            assert record.transaction_id == open_id, f"row of {record.transaction_id} inside {open_id}"
            transaction += record.rows
            counted.update(row.table for row in record.rows)
            is_last = is_last or any(row.op == "c" and marker_id.encode() in (row.after or b"") for row in record.rows)
        elif record.kind is RecordKind.END:
            assert record.transaction_id == open_id, f"END of {record.transaction_id} inside {open_id}"
            assert (dict(counted), counted.total()) == (record.counts, record.total), record
            apply_transaction(state, transaction)
            state.transactions += 1
            transaction = []
            assert record.position is not None
            open_id, begun, before = "", None, PrecedingTransaction(record.position, has_end=True)
            if is_last:
                assert chains <= 1 + one.places_put, "a BEGIN names nothing although something was sent before it"
                return state
        elif record.kind in (RecordKind.TRUNCATE, RecordKind.DDL):
            odd += 1
            before = _alone(record, begun) or before
    raise AssertionError(f"the log ended before marker {marker_id}; {state.transactions} transactions")


def _alone(record: LogRecord, begun: Position | None) -> PrecedingTransaction | None:
    """What a BEGIN says that follows a TRUNCATE or a statement of MySQL, which has no BEGIN and no END."""
    if begun is not None or not isinstance(record.position, MySqlPosition):
        return None
    return PrecedingTransaction(replace(record.position, file="", offset=0), has_end=True)


def _records(reader: KafkaLogReader) -> Iterator[LogRecord]:
    while records := wait_until(lambda: reader.poll(1.0, 20_000), timeout_s=60, what="more of the log"):
        yield from records


def _row(state: Replayed, table: str, image: bytes | None) -> tuple[Any, ...] | None:
    return state.meant(table, tuple(json.loads(image).values())) if image else None


def apply_transaction(state: Replayed, transaction: Sequence[RowChange]) -> None:
    for row in transaction:
        state.rows += 1
        before, after = (_row(state, row.table, image) for image in (row.before, row.after))
        if row.key is None:
            counter = state.keyless.setdefault(row.table, Counter())
            counter.update([after] if after else [])
            counter.subtract([before] if before else [])
            assert not before or counter[before] >= 0, f"offset {row.offset} deletes a row of {row.table} not there"
        elif after is None:
            held = state.keyed.get(row.table, {}).pop(row.key, None)
            assert held is not None, f"offset {row.offset} deletes {row.table} {row.key!r}, which is not there"
        else:
            is_known = row.key in state.keyed.get(row.table, {})
            assert row.op != "c" or not is_known, f"offset {row.offset} inserts {row.table} {row.key!r}, which is there"
            state.keyed.setdefault(row.table, {})[row.key] = after
