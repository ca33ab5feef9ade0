"""A database into topics of ours, and a second sync from these topics, with a transform, into a second database: two
captures, two ledgers, and a verdict of the second one by itself."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any

import pytest
from confluent_kafka import Producer

from seamline import registry
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.domain.catalogue import Table
from seamline.domain.row_transform import RowTransform
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import BreakType, Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan, Run, SyncPlan, TablePlan
from seamline.platform import migrate
from seamline.platform.store import PlatformStore
from seamline.ports import Marker
from seamline.sinks.kafka.loads import topics_of
from seamline.sinks.kafka.spec import KafkaDestination
from seamline.sync.onboard import publish
from seamline.sync.snapshot import take_snapshot
from seamline_spark.compare.main import compare_run
from seamline_spark.session import open_session
from seamline_spark.transform.analysis import analysed
from tests.conftest import RunningStack
from tests.integration.captured import Captured
from tests.integration.captured_postgres import FULL, captured_postgres
from tests.integration.captured_topics import TopicsCaptured, captured_topics_of_others
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan, known_by_id
from tests.integration.snapshot_run import Records, tools_of
from tests.integration.streaming_here import streaming
from tests.waiting import wait_until

NAME, PREFIX = "topic_chain", "chain-feed"
MASK = "SELECT id, sha2(memo, 256) AS memo, amount * 2 AS doubled FROM account WHERE amount > 0"
ACCOUNT = "CREATE TABLE account (id bigint PRIMARY KEY, amount numeric(18,2), memo text)"
AUDIT = "CREATE TABLE audit (a int, memo text)"
# As our own destination writes them: an envelope without schemas, decimals as texts.
OF_FEED: dict[str, Any] = {"format": "debezium", "schemas": False}
TABLES = (
    {
        **OF_FEED,
        "table": "account",
        "topic": f"{PREFIX}.account",
        "key": ["id"],
        "columns": [
            {"name": "id", "type": "bigint"},
            {"name": "amount", "type": "decimal(18,2)", "form": "text"},
            {"name": "memo", "type": "text"},
        ],
    },
    {
        **OF_FEED,
        "table": "audit",
        "topic": f"{PREFIX}.audit",
        "columns": [{"name": "a", "type": "integer"}, {"name": "memo", "type": "text"}],
    },
)


@dataclass
class Chain:
    """`around`: streams that run until the end of the test."""

    bank: Captured
    queue: TopicsCaptured
    store: PlatformStore
    around: ExitStack

    def onboarded(self, captured: Captured, plan: SyncPlan) -> None:
        """Captured, loaded, published and streamed until the end of the test."""
        captured.ensure(plan)
        run = self.run(plan, "onboard")
        (destination,) = plan.destination_names
        run.result["snapshot"] = take_snapshot(run, tools_of(captured, run, Records()))
        with closing(registry.sink(plan, destination)) as sink:
            assert publish(run, destination, sink=sink).ledger.epoch == 1
        self.around.enter_context(streaming(plan))

    def run(self, plan: SyncPlan, kind: str) -> Run:
        run_id = f"{plan.sync}/{kind}/-/{uuid.uuid4().hex}"
        self.store.start_run(run_id=run_id, sync=plan.sync, kind=kind, plan_json=plan_to_json(plan))
        return self.store.run(run_id)

    def compared(self, plan: SyncPlan) -> Reconciliation:
        (found,) = compare_run(self.run(plan, "reconcile").run_id)
        return found

    def passed_on(self, captured: Captured, plan: SyncPlan) -> None:
        """Until the plan's destination has all that its source holds now."""
        marker = Marker(f"barrier-{uuid.uuid4().hex}", "barrier")
        captured.source.commit_marker(marker)
        wait_until(lambda: _last_marker(plan) == marker.id, timeout_s=90, what=f"{plan.sync} to pass all on")


def _last_marker(plan: SyncPlan) -> str | None:
    (destination,) = plan.destination_names
    with closing(registry.sink(plan, destination)) as sink:
        ledger = sink.read_ledger(plan.stream_id(destination))
    return ledger.last_marker if ledger else None


@pytest.fixture
def chain(stack: RunningStack) -> Iterator[Chain]:
    with ExitStack() as around:
        platform = around.enter_context(postgres_database(f"{NAME}_platform"))
        around.enter_context(known_by_id(platform, "seamline_db", "postgres"))
        migrate.upgrade()
        bank = around.enter_context(captured_postgres(NAME, create=(ACCOUNT, AUDIT, FULL)))
        queue = around.enter_context(captured_topics_of_others(f"{NAME}_queue", TABLES))
        store = around.enter_context(closing(registry.platform()))
        yield Chain(bank, queue, store, around.enter_context(ExitStack()))


@pytest.fixture
def feed(chain: Chain) -> Iterator[SyncPlan]:
    """The first sync: both tables into topics."""
    said = KafkaDestination(
        destination="feed", kind="kafka", connection="kafka", prefix=PREFIX, partitions=2, format="debezium"
    )
    feed = DestinationPlan("feed", "kafka", "kafka", PREFIX, options=tuple(said.options.items()), no_cuts=True)
    tables = tuple(TablePlan(one.name, table=one) for one in chain.bank.source.catalogue(("account", "audit")))
    yield replace(chain.bank.plan, destinations=(feed,), tables=tables)
    # Its stream writes no more.
    chain.around.close()
    topics = topics_of(feed)
    topics.delete([*topics.names(f"{PREFIX}."), *topics.names(f"{PREFIX}_")])


@pytest.fixture
def office(chain: Chain) -> Iterator[SyncPlan]:
    """The second sync: from these topics, one table by a transform."""
    with postgres_database(f"{NAME}_office") as database, destination_known_by_id(database, database.database):
        account, audit = chain.queue.source.catalogue(("account", "audit"))
        yield replace(
            chain.queue.plan,
            destinations=(destination_plan(database.database, "office"),),
            tables=(TablePlan("account", table=account, transform=masked(account)), TablePlan("audit", table=audit)),
        )
        chain.around.close()


def masked(account: Table) -> RowTransform:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", "--master local[1] --driver-memory 512m pyspark-shell")
        session = open_session("topic chain")
    try:
        found = analysed(session, account, RowTransform("include/transforms/mask.sql", MASK))
    finally:
        session.stop()
    assert isinstance(found, RowTransform), found
    return found


def take_back(topic: str) -> None:
    """Somebody else begins a transaction in this topic and aborts it."""
    producer = Producer({**client_settings(resolve("kafka")), "transactional.id": NAME})
    producer.init_transactions(30)
    producer.begin_transaction()
    row = '{"before":null,"after":{"id":99,"amount":"1.00","memo":"taken back"},"op":"c","source":{}}'
    producer.produce(topic, row, '{"id":99}')
    producer.flush(30)
    producer.abort_transaction(30)


def rows(plan: SyncPlan, table: str, statement: str = "") -> list[tuple[Any, ...]]:
    with closing(postgres(resolve(plan.destinations[0].connection))) as session:
        if statement:
            session.execute(statement.encode())
        return list(session.execute(f"SELECT * FROM office.{table} ORDER BY 1".encode()).fetchall())


def test_a_second_sync_reads_the_topics_that_the_first_one_writes_and_is_proven_by_itself(
    chain: Chain, feed: SyncPlan, office: SyncPlan
) -> None:
    bank = chain.bank
    bank.execute("INSERT INTO account SELECT i, i - 5.25, 'a' || i FROM generate_series(1, 40) i")
    bank.execute("INSERT INTO audit SELECT i % 3, NULL FROM generate_series(1, 9) i")
    chain.onboarded(bank, feed)
    chain.onboarded(chain.queue, office)
    bank.execute(
        "UPDATE account SET amount = -1 WHERE id = 40",
        "UPDATE account SET id = 1000 WHERE id = 10",
        "DELETE FROM account WHERE id = 11",
        "DELETE FROM audit WHERE a = 2",
        "INSERT INTO audit VALUES (7, '余额')",
        "INSERT INTO account SELECT i, i, 'later' FROM generate_series(2001, 2500) i",
    )
    chain.passed_on(bank, feed)
    take_back(f"{PREFIX}.account")
    chain.passed_on(chain.queue, office)
    wanted = "SELECT id, encode(sha256(memo::bytea), 'hex'), amount * 2 FROM account WHERE amount > 0 ORDER BY id"
    with closing(postgres(bank.root)) as session:
        assert rows(office, "account") == session.execute(wanted.encode()).fetchall()
        assert rows(office, "audit") == session.execute(b"SELECT * FROM audit ORDER BY 1").fetchall()
    found = chain.compared(office)
    assert {one.table: (one.verdict, one.reason) for one in found.tables} == {
        "account": (Verdict.MATCH, ""), "audit": (Verdict.MATCH, "")
    }  # fmt: skip
    assert set(found.position.to_json()["topics"]) == {
        f"{PREFIX}.account", f"{PREFIX}.audit", f"seamline.{NAME}_queue.markers"
    }  # fmt: skip
    rows(office, "account", "UPDATE office.account SET memo = 'in the clear' WHERE id = 12")
    found = chain.compared(office)
    assert [(one.type, one.key) for table in found.tables for one in table.breaks] == [
        (BreakType.VALUE, '{"id": "12"}')
    ]
