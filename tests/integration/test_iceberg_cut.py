"""The nightly cut of a sync into Iceberg tables on real servers, and everybody who reads it."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seamline import registry
from seamline.domain.runs import EXPECTATIONS
from seamline.domain.staged_cut import CutSource
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan, NightlyPlan, Run
from seamline.platform import migrate
from seamline.platform.store import PlatformStore
from seamline.reading import open_changes, open_sync
from seamline.sync.cut import publish_cut
from seamline.sync.nightly_cut import CutTools, take_conclusive_cut
from seamline_spark.cut.live import live_cut_tools
from seamline_spark.cut.main import date_before_of
from seamline_spark.data_source import SeamlineDataSource
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.streaming_here import streaming
from tests.spark.empty_sync import publish_empty_into
from tests.spark.hosts import uri
from tests.waiting import wait_until

NAME = "ice_cut"
TODAY = datetime.now(UTC).date()
DAY = TODAY - timedelta(days=1)


def nothing(*_: object, **__: object) -> Any:
    raise AssertionError("only rows that are read for a cut need it")


@pytest.fixture
def bank(stack: RunningStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Captured]:
    """Captured, published empty into a lake, and streaming there."""
    with ExitStack() as around:
        bank = around.enter_context(captured(NAME))
        catalogue = around.enter_context(postgres_database(f"{NAME}_catalogue"))
        platform = around.enter_context(postgres_database(f"{NAME}_platform"))
        around.enter_context(destination_known_by_id(catalogue, catalogue.database))
        monkeypatch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(platform))
        migrate.upgrade()
        bank.ensure()
        options = (("catalog", "lake"), ("warehouse", str(tmp_path)), ("write", "native"))
        plan = DestinationPlan("warehouse", "iceberg", catalogue.database, "bank", options=options)
        lake = replace(plan, writer_connection=f"{catalogue.database}_writer", cut_source=CutSource.LIVE)
        published = publish_empty_into(bank, lake, sync=bank.plan.sync, tables=("account", "audit"))
        # Whole tables of yesterday count until the end of today.
        bank.plan = replace(published, nightly=NightlyPlan(as_of_max_s=86_400))
        around.enter_context(streaming(bank.plan))
        yield bank


def nightly(store: PlatformStore, bank: Captured, day: date, take: int = 1) -> Run:
    run_id = f"{bank.plan.sync}__nightly/{day}/{take}"
    store.start_run(
        run_id=run_id, sync=bank.plan.sync, kind="nightly", plan_json=plan_to_json(bank.plan), business_date=day
    )
    run = store.run(run_id)
    tools = CutTools(
        *[nothing] * 6, records=store,
        live=lambda one: live_cut_tools(run, one, date_before=date_before_of(run, store), derive=nothing),
    )  # fmt: skip
    assert {cut.verdict for cut in take_conclusive_cut(run, tools).values()} == {Verdict.MATCH}
    store.put_result(run_id, EXPECTATIONS, {"destinations": {"warehouse": {"verdict": "MATCH"}}})
    return store.run(run_id)


def live_rows(sync: str) -> int:
    return open_sync(sync, at="live")["account"].arrow().num_rows


def read_by_spark(sync: str, table: str, **options: str) -> pa.Table:
    """As Spark's planner and its tasks call the data source, without a JVM."""
    source = SeamlineDataSource({"sync": sync, "date": DAY.isoformat(), "table": table, **options})
    reader = source.reader(source.schema())
    return pa.Table.from_batches([batch for part in reader.partitions() for batch in reader.read(part)])


def test_a_night_tags_the_live_tables_while_the_stream_goes_on_and_readers_get_equal_sums(bank: Captured) -> None:
    sync = bank.plan.sync
    bank.execute(
        "INSERT INTO account VALUES (1, 10, 'ü'), (2, 20, NULL)", "INSERT INTO audit VALUES (1, 'same'), (1, 'same')"
    )
    wait_until(lambda: live_rows(sync) == 2, timeout_s=60, what="rows to arrive")
    with closing(registry.platform()) as store:
        run = nightly(store, bank, DAY)
        bank.execute("UPDATE account SET a = 99 WHERE id = 1", "INSERT INTO account VALUES (3, 30, 'later')")
        wait_until(lambda: live_rows(sync) == 3, timeout_s=60, what="later rows to arrive")
        with closing(registry.cuts(bank.plan.destinations[0])) as cuts:
            cut = publish_cut(run, "warehouse", publisher=cuts, records=store)
    assert (cut.version, cut.verdict, cut.tables) == (1, Verdict.MATCH, ("account", "audit"))
    tables = open_sync(sync, at=DAY)
    assert tables.position == cut.position
    assert {name: table.num_rows for name, table in tables.arrow().items()} == {"account": 2, "audit": 2}
    expected = {"id": [1, 2], "a": [10, 20], "memo": ["ü", None]}
    for found in (tables["account"].arrow(), open_sync(sync)["account"].arrow(), read_by_spark(sync, "account")):
        assert found.sort_by("id").to_pydict() == expected
    assert read_by_spark(sync, "audit").to_pydict() == {"a": [1, 1], "memo": ["same", "same"]}

    with closing(registry.platform()) as store:
        run = nightly(store, bank, DAY, take=2)
        with closing(registry.cuts(bank.plan.destinations[0])) as cuts:
            assert publish_cut(run, "warehouse", publisher=cuts, records=store).version == 2
    first = f"cut_{DAY:%Y_%m_%d}_v1"
    assert open_sync(sync, at=first).position == cut.position, "a version that no longer counts is read by its tag"
    expected = {"cut_change": ["changed_from", "changed_to", "added"], "id": [1, 1, 3], "a": [10, 99, 30]}
    for found in (
        open_changes(sync, "account", since=first, at=DAY).arrow(),
        read_by_spark(sync, "account", since=first),
    ):
        in_order = found.sort_by([("id", "ascending"), ("cut_change", "ascending")])
        assert in_order.select(list(expected)).to_pydict() == expected
    assert not open_changes(sync, "audit", since=first, at="live").arrow().num_rows
