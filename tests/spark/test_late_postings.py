"""A posting that comes late for a signed date, with everything real: PostgreSQL, its capture, the log, a stream, the
nightly cut by Spark, the signature, the flag beside the stream, and the version that restates it."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from seamline import registry, settings
from seamline.domain.calendar import last_ended
from seamline.domain.runs import ASKED_BY, EXPECTATIONS, RunState
from seamline.domain.sign_off import SignOff, SignOrder, SignState
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import BusinessDate, NightlyPlan, SyncPlan
from seamline.platform import migrate
from seamline.platform.database import open_session as open_session_of_platform
from seamline.platform.signatures import Take
from seamline.sync.cut import publish_cut
from seamline_spark.cut.main import cut
from seamline_spark.session import Application, open_session
from seamline_spark.stream_host.main import watching_for_late_postings
from tests.conftest import RunningStack
from tests.integration.captured import Captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.streaming_here import streaming
from tests.spark.empty_sync import publish_empty
from tests.spark.hosts import uri
from tests.waiting import wait_until

NAME = "late_postings"
ENTRY = "CREATE TABLE entry (id bigint PRIMARY KEY, business_date date NOT NULL, amount numeric(12, 2))"
DAY = last_ended(datetime.now(UTC), timezone="UTC")
OTHER = DAY - timedelta(days=1)


@dataclass
class World:
    """One sync with its stream. `spark` takes its nights."""

    bank: Captured
    plan: SyncPlan
    spark: SparkSession

    def night(self, number: int, *, by: str = "") -> Take:
        """The cut of the date, published as its next version."""
        run_id = f"{self.plan.sync}/nightly/{DAY}/{number}"
        with closing(registry.platform()) as store:
            plan_json = plan_to_json(self.plan)
            store.start_run(run_id=run_id, sync=self.plan.sync, kind="nightly", plan_json=plan_json, business_date=DAY)
            store.put_result(run_id, ASKED_BY, by)
            wait_until(lambda: self.is_watched(run_id), timeout_s=30, what="the place of the stream to be noted")
            cut(Application.of(self.spark), run_id)
            store.put_result(run_id, EXPECTATIONS, {"verdict": "MATCH"})
            run = store.run(run_id)
            with closing(registry.cuts(self.plan.destination("warehouse"))) as publisher:
                made = publish_cut(run, "warehouse", publisher=publisher, records=store)
            store.finish_run(run_id, state=RunState.SUCCEEDED)
        assert made.verdict is Verdict.MATCH
        return Take(self.plan.sync, "warehouse", DAY, made.version)

    def is_watched(self, run_id: str) -> bool:
        with closing(open_session_of_platform()) as session:
            return bool(session.execute("select from late_watch where run_id = %s", (run_id,)).fetchall())

    def signs(self) -> tuple[SignOff, ...]:
        with closing(registry.signatures()) as store:
            return store.of_date(self.plan.sync, DAY)

    def sign(self, take: Take, who: str, reason: str = "") -> None:
        with closing(registry.signatures()) as store:
            (found,) = (one for one in self.signs() if one.version == take.version)
            store.sign(take, SignOrder(who, reason, found.verdict_hash))

    def post(self, *statements: str) -> None:
        self.bank.execute(*statements)


@pytest.fixture(scope="module")
def world(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as around:
        bank = around.enter_context(captured_postgres(NAME, create=(ENTRY,), tables=("entry",)))
        warehouse = around.enter_context(postgres_database(f"{NAME}_warehouse"))
        platform = around.enter_context(postgres_database(f"{NAME}_platform"))
        patch = around.enter_context(pytest.MonkeyPatch.context())
        around.enter_context(destination_known_by_id(warehouse, warehouse.database))
        patch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(platform))
        migrate.upgrade()
        bank.ensure()
        plan = publish_empty(bank, warehouse, sync=bank.plan.sync, schema="live", tables=("entry",))
        by_date = BusinessDate("business_date", "date")
        dated = tuple(replace(one, business_date=by_date) for one in plan.tables)
        plan = replace(plan, tables=dated, nightly=NightlyPlan(timezone="UTC"))
        spark = _session(tmp_path_factory.mktemp("spark"))
        around.callback(spark.stop)
        around.enter_context(streaming(plan))
        around.enter_context(watching_for_late_postings(plan.stream.pool, every_s=0.5))
        yield World(bank, plan, spark)


def _session(folder: Path) -> SparkSession:
    with pytest.MonkeyPatch.context() as patch:
        said = "--master local[2] --driver-memory 512m"
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{said} --conf spark.sql.warehouse.dir={folder} pyspark-shell")
        session = open_session("late postings test")
    session.sparkContext.pythonExec = sys.executable
    for name, value in settings.process_environment().items():
        if name.startswith("SEAMLINE_CONNECTION_"):
            session.sparkContext.environment[name] = value
    return session


def test_a_posting_that_comes_late_for_a_signed_date_is_flagged_by_its_stream_and_restated(world: World) -> None:
    world.post(*(f"INSERT INTO entry VALUES ({n}, '{DAY}', {n}.50)" for n in range(1, 4)))
    first = world.night(1)
    world.post(f"INSERT INTO entry VALUES (4, '{DAY}', 4.50)")  # behind the cut, and before anybody signs
    world.sign(first, "ann")
    world.post(
        f"INSERT INTO entry VALUES (5, '{DAY}', 5.50), (6, '{DAY}', 6.50)",
        f"UPDATE entry SET amount = 20 WHERE business_date = '{DAY}' AND id = 2",
        f"INSERT INTO entry VALUES (7, '{OTHER}', 7.50)",
        # Of a deleted row PostgreSQL's log has the key alone; the signed cut has the row.
        "DELETE FROM entry WHERE id = 1 OR id = 7",
        # Of an updated row it has what the row became alone: this one leaves the signed date.
        f"UPDATE entry SET business_date = '{OTHER}' WHERE id = 3",
    )

    def flagged() -> SignOff | None:
        (found,) = world.signs()
        return found if found.watch is not None and found.watch.rows >= 6 else None

    wait_until(lambda: flagged() is not None, timeout_s=60, what="what came late to be flagged")
    (one,) = world.signs()
    assert one.watch is not None
    assert (one.state, one.is_overtaken, one.watch.unknown) == (SignState.SIGNED, True, "")
    assert one.late_in_words == ["late postings since its cut: 6; entry: 6 in 5 transactions"]
    with closing(registry.late_postings()) as store:
        found = store.of_take(one.run_id, "warehouse", limit=10)
    posted = [('{"id": "4"}', 1), ('{"id": "5"}', 2), *((f'{{"id": "{n}"}}', 1) for n in (2, 1, 3))]
    assert [(two.key, two.rows) for two in reversed(found)] == posted
    assert all(two.position and two.committed_at for two in found)

    second = world.night(2, by="bob")

    by_version = {two.version: two for two in world.signs()}
    assert (second.version, by_version[1].state) == (2, SignState.RESTATED)
    assert by_version[1].signature is not None and by_version[1].signature.who == "ann"
    assert (by_version[2].waits, by_version[2].late_in_words, by_version[2].preparer) == (True, [], "bob")
    assert by_version[2].earlier is not None
    world.sign(second, "ann", "six postings came late")
    world.post(f"INSERT INTO entry VALUES (8, '{DAY}', 8.50)")
    wait_until(
        lambda: any(two.is_overtaken for two in world.signs() if two.version == 2), timeout_s=60, what="the next flag"
    )
