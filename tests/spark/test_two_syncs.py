"""Two syncs of one source, each with a transform of its own: one masks a table row by row, the other holds its rows and
computes sums from each cut. One capture and one log serve both; each is loaded, streamed and proven by itself."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from seamline import registry, settings
from seamline.adapters.connections import Connection
from seamline.bulk.read import RunReader
from seamline.bulk.threads import CopyingHere
from seamline.domain.catalogue import Table
from seamline.domain.cut_job import CutJob
from seamline.domain.ledger import LedgerRow
from seamline.domain.row_transform import RowTransform
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import DerivedTablePlan, DestinationPlan, NightlyPlan, Run, SyncPlan, TablePlan
from seamline.platform import migrate
from seamline.platform.store import PlatformStore
from seamline.ports import Load
from seamline.sync.derived import Derived
from seamline.sync.nightly_cut import CutTools, take_conclusive_cut
from seamline.sync.onboard import publish
from seamline.sync.snapshot import take_snapshot
from seamline_spark.compare.main import compare_run
from seamline_spark.cut.derived import derive
from seamline_spark.session import open_session
from seamline_spark.transform.analysis import analysed
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, marker_in_log, replay
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan, known_by_id
from tests.integration.snapshot_run import Records, tools_of
from tests.integration.streaming_here import streaming
from tests.waiting import wait_until

NAME = "two_syncs"
MASK = "SELECT id, sha2(memo, 256) AS memo, a * 2 AS doubled FROM account WHERE a > 0"
SUMS = """
SELECT c.memo, sum(c.a) AS amount, count(*) AS entries FROM account c JOIN audit d ON d.a = c.id GROUP BY c.memo
"""


@dataclass
class Office:
    """The bank and the one database into which both syncs go, each with a schema of its own."""

    bank: Captured
    warehouse: Connection
    store: PlatformStore
    around: ExitStack

    def onboarded(self, plan: SyncPlan) -> SyncPlan:
        """Captured, loaded, published and streamed until the end of the test."""
        self.bank.ensure(plan)
        run = self.run(plan, "onboard", "1")
        run.result["snapshot"] = take_snapshot(run, tools_of(self.bank, run, Records()))
        with closing(registry.sink(plan, "warehouse")) as sink:
            publish(run, "warehouse", sink=sink)
        published = ledger_of(plan).epoch
        self.around.enter_context(streaming(plan))
        wait_until(lambda: ledger_of(plan).epoch > published, timeout_s=60, what="the stream to begin")
        return plan

    def run(self, plan: SyncPlan, kind: str, number: str, **more: object) -> Run:
        run_id = f"{plan.sync}/{kind}/-/{number}"
        self.store.start_run(run_id=run_id, sync=plan.sync, kind=kind, plan_json=plan_to_json(plan), **more)  # type: ignore[arg-type]
        return self.store.run(run_id)

    def compared(self, plan: SyncPlan, number: str) -> Reconciliation:
        (found,) = compare_run(self.run(plan, "reconcile", number).run_id)
        return found

    def rows(self, place: str) -> list[tuple[object, ...]]:
        with postgres(self.warehouse) as session:
            return session.execute(f"SELECT * FROM {place} ORDER BY 1, 2".encode()).fetchall()

    def execute(self, statement: str) -> None:
        with postgres(self.warehouse) as session:
            session.execute(statement.encode())


def ledger_of(plan: SyncPlan) -> LedgerRow:
    with closing(registry.sink(plan, "warehouse")) as sink:
        ledger = sink.read_ledger(plan.stream_id("warehouse"))
    assert ledger is not None
    return ledger


@pytest.fixture
def office(stack: RunningStack) -> Iterator[Office]:
    with ExitStack() as around:
        platform = around.enter_context(postgres_database(f"{NAME}_platform"))
        around.enter_context(known_by_id(platform, "seamline_db", "postgres"))
        migrate.upgrade()
        warehouse = around.enter_context(postgres_database(f"{NAME}_warehouse"))
        around.enter_context(destination_known_by_id(warehouse, warehouse.database))
        bank = around.enter_context(captured(NAME))
        store = around.enter_context(closing(registry.platform()))
        yield Office(bank, warehouse, store, around.enter_context(ExitStack()))


@pytest.fixture
def spark(office: Office) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", "--master local[2] --driver-memory 512m pyspark-shell")
        session = open_session("two syncs")
    # Of what this process came to know since Spark began, its tasks know what they are given.
    for name, value in settings.process_environment().items():
        if name.startswith("SEAMLINE_CONNECTION_"):
            session.sparkContext.environment[name] = value
    yield session
    session.stop()


def masked(spark: SparkSession, account: Table) -> TablePlan:
    transform = analysed(spark, account, RowTransform("include/transforms/mask.sql", MASK))
    assert isinstance(transform, RowTransform), transform
    return TablePlan("account", table=account, transform=transform)


def night(office: Office, spark: SparkSession, plan: SyncPlan) -> Reconciliation:
    day = datetime.now(UTC).date() - timedelta(days=1)
    run = office.run(plan, "nightly", "1", business_date=day)

    def derived(
        destination: DestinationPlan, table: DerivedTablePlan, bases: dict[str, Load], position: str
    ) -> Derived:
        return derive(spark, destination, table, bases, run_id=run.run_id, position=position)

    reader = RunReader(run, tasks=lambda _: 1, copying_of=lambda groups, _: CopyingHere(groups))
    tools = CutTools(
        open_read=reader.open_read,
        open_staged=reader.open_staged,
        derive=derived,  # type: ignore[arg-type]
        lateness=lambda *_: None,
        date_before=lambda *_: (),
        open_cut=reader.open_cut,
        records=office.store,
    )
    take_conclusive_cut(run, tools)
    found = office.store.reconciliation(run.run_id, Scope.CUT, "warehouse")
    assert found is not None
    return found


def test_two_syncs_with_transforms_of_their_own_are_fed_by_one_capture_and_proven_each(
    office: Office, spark: SparkSession
) -> None:
    bank, warehouse = office.bank, office.warehouse.database
    account, audit = bank.source.catalogue(("account", "audit"))
    base = replace(bank.plan, nightly=NightlyPlan("UTC", as_of_max_s=26 * 3600))
    masks = replace(
        base, sync="masks", destinations=(destination_plan(warehouse, "masked"),), tables=(masked(spark, account),)
    )
    sums = replace(
        base,
        sync="sums",
        destinations=(destination_plan(warehouse, "plain"),),
        tables=(TablePlan("account", table=account), TablePlan("audit", table=audit)),
        derived=(DerivedTablePlan("by_memo", job=CutJob("include/transforms/sums.sql", SUMS, ("account", "audit"))),),
    )
    bank.ensure(masks)
    bank.execute("INSERT INTO account VALUES (1, 10, 'anna'), (2, -2, 'berta'), (3, 3, 'anna')")
    office.onboarded(masks)
    epoch = ledger_of(masks).epoch
    # The second sync brings a table to the capture, beside the stream of the first.
    office.onboarded(sums)
    bank.execute(
        "UPDATE account SET a = 20 WHERE id = 1",
        "UPDATE account SET a = 2 WHERE id = 2",
        "DELETE FROM account WHERE id = 3",
        "INSERT INTO audit VALUES (1, 'x'), (2, 'y'), (2, 'z')",
        "INSERT INTO account VALUES (9, 9, 'last')",
    )
    for place in ("masked.account", "plain.account"):
        wait_until(lambda: 9 in [row[0] for row in office.rows(place)], timeout_s=60, what="the last row")  # noqa: B023
    assert [(row[0], row[2]) for row in office.rows("masked.account")] == [(1, 40), (2, 4), (9, 18)]
    assert office.rows("plain.account") == [(1, 20, "anna"), (2, 2, "berta"), (9, 9, "last")]

    assert bank.registry.listed == ("account", "audit", bank.source_plan.marker_table)
    assert bank.connector.carries(bank.registry.listed), "one connector has the tables of both"
    topic = bank.kafka.topic_id(bank.source_plan.log_topic)
    assert ledger_of(masks).topic_id == ledger_of(sums).topic_id == topic
    logged = replay(bank, marker_in_log(bank))
    assert logged.holds("account") == bank.rows("account"), "each change stands in the log once"
    assert ledger_of(masks).epoch == epoch, "its stream has noticed nothing of the other sync"

    assert [office.compared(one, "1").verdict for one in (masks, sums)] == [Verdict.MATCH] * 2
    found = night(office, spark, sums)
    assert {one.table: one.verdict for one in found.tables} == dict.fromkeys(
        ("account", "audit", "by_memo"), Verdict.MATCH
    )
    (total,) = [one for one in found.tables if one.table == "by_memo"]
    assert total.destination_rows == 2
    found = night(office, spark, masks)
    assert {one.table: one.verdict for one in found.tables} == {"account": Verdict.MATCH}

    office.execute("UPDATE masked.account SET memo = 'in the clear' WHERE id = 2")
    assert [office.compared(one, "2").verdict for one in (masks, sums)] == [Verdict.BREAK, Verdict.MATCH]
