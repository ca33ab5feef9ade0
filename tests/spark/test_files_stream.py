"""A stream into change files on the real host: its worker dies by kill -9 in mid-commit while others write, and the
files end as the source, by the product's own comparison and by whoever folds them.

A bank on MariaDB with writers at work, its capture, Kafka, the stream host, files in a folder: no part is a fake.
"""

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seamline import registry
from seamline.domain.ledger import LedgerRow
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan
from seamline.sinks.files.changes.read_back import open_live
from seamline.sinks.files.spec import ChangeFilesDestination
from seamline.values.build import rows_of
from seamline_spark.compare.main import compare_run
from tests.conftest import RunningStack
from tests.integration.captured import captured
from tests.spark.chains import SCRIPT, TABLES, Chain
from tests.spark.empty_sync import publish_empty_into
from tests.spark.hosts import Failpoints, hosts_of, uri
from tests.waiting import wait_until

NAME = "files_stream_test"


@dataclass
class FilesChain(Chain):
    """`warehouse` is the bank's: files have no database."""

    def ledger(self) -> LedgerRow:
        with closing(registry.sink(self.plan, "warehouse")) as sink:
            found = sink.read_ledger(self.plan.stream_id("warehouse"))
        assert found is not None
        return found

    def applied_transactions(self) -> int:
        return self.ledger().applied_transactions

    def last_marker(self) -> str:
        return self.ledger().last_marker or ""

    def destination_rows(self, table: str) -> list[tuple[Any, ...]]:
        (view,) = open_live(self.plan, self.plan.destination("warehouse"), 1)
        with closing(view):
            definition, read = view._tables[table]  # noqa: SLF001 (the rows behind the digests)
            return [row for batch in read() for row in rows_of(definition, batch)]

    def compared(self) -> dict[str, Verdict]:
        run_id = f"{self.sync}/reconcile/-/{uuid.uuid4().hex}"
        document = plan_to_json(self.plan)
        self.hosts.store.start_run(run_id=run_id, sync=self.sync, kind="reconcile", plan_json=document)
        (found,) = compare_run(run_id)
        return {one.table: one.verdict for one in found.tables}


@pytest.fixture
def failpoints(tmp_path: Path) -> Failpoints:
    return Failpoints(tmp_path / "failpoints")


@pytest.fixture
def chain(stack: RunningStack, failpoints: Failpoints, tmp_path: Path) -> Iterator[FilesChain]:
    (tmp_path / "feed").mkdir()
    said = ChangeFilesDestination.model_validate(
        {"destination": "warehouse", "kind": "change_files", "location": str(tmp_path / "feed"), "format": "parquet"}
    )
    options = tuple(said.options.items())
    feed = DestinationPlan("warehouse", "change_files", "", said.location, options=options, no_cuts=True)
    with captured(NAME) as bank, pytest.MonkeyPatch.context() as patch:
        bank.ensure()
        plan = publish_empty_into(bank, feed, sync=bank.plan.sync, tables=TABLES)
        environment = {"SEAMLINE_FAILPOINTS_FILE": str(failpoints.file)}
        with hosts_of(SCRIPT, tmp_path, name=f"{NAME}_platform", **environment) as hosts:
            patch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(hosts.platform))
            hosts.director.want(plan.stream_id("warehouse"), plan_json=plan_to_json(plan))
            yield FilesChain(bank, plan, bank.root, hosts)


def test_change_files_of_a_stream_whose_worker_is_killed_in_mid_commit_end_as_the_source(
    chain: FilesChain, failpoints: Failpoints
) -> None:
    chain.host_is_up()
    with chain.writing() as writers:
        for place in ("app.dml_half", "app.commit_sent"):
            failpoints.arm(f"{place}=kill9")
            wait_until(lambda place=place: failpoints.fired()[place], timeout_s=90, what="a worker to die there")
            failpoints.arm("")
            before = chain.applied_transactions()
            wait_until(
                lambda seen=before: chain.applied_transactions() > seen, timeout_s=90, what="the stream to go on"
            )
        assert chain.compared() == dict.fromkeys(TABLES, Verdict.MATCH)
        writers.stop()
        chain.assert_equal_in_the_end()
    assert len(chain.destination_rows("account")) > 50
