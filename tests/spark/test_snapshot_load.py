"""The job `snapshot_load.py --run R` as a process: from a run in the platform database to tables ready to publish."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from seamline import registry, settings
from seamline.adapters.connections import Connection
from seamline.domain.errors import Refused
from seamline.domain.position import position_from_json
from seamline.plan.document import plan_to_json
from seamline.plan.model import SyncPlan
from seamline.platform import migrate
from seamline.platform.store import PlatformStore
from seamline.sync.onboard import publish
from tests.conftest import RunningStack
from tests.integration.bank_writers import writing
from tests.integration.captured import Captured, captured
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan, known_by_id
from tests.opened_sink import postgres_sink

NAME = "snap_load"
WAREHOUSE = destination_plan(f"{NAME}_warehouse", "bank")
JOB_WITHIN_S = 300


@pytest.fixture(scope="module")
def store() -> Iterator[PlatformStore]:
    with postgres_database(f"{NAME}_platform") as connection, known_by_id(connection, "seamline_db", "postgres"):
        migrate.upgrade()
        with closing(registry.platform()) as one:
            yield one


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Connection]:
    with (
        postgres_database(WAREHOUSE.connection) as connection,
        destination_known_by_id(connection, WAREHOUSE.connection),
    ):
        yield connection


@pytest.fixture(scope="module")
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured(NAME) as one:
        one.plan = replace(one.plan, destinations=(WAREHOUSE,), source=replace(one.source_plan, snapshot_lock="brief"))
        one.ensure()
        yield one


def plan_of(bank: Captured) -> SyncPlan:
    definitions = bank.source.catalogue([table.name for table in bank.plan.tables])
    tables = tuple(
        replace(table, table=definition) for table, definition in zip(bank.plan.tables, definitions, strict=True)
    )
    return replace(bank.plan, tables=tables)


def run_job(run_id: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return run([str(settings.load().root / "spark_jobs" / "snapshot_load.py"), "--run", run_id], **environment)


def run(command: list[str], **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *command],
        env={**settings.process_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=JOB_WITHIN_S,
        check=False,
    )


def test_a_run_is_staged_with_receipts_and_can_be_published(
    store: PlatformStore, bank: Captured, warehouse: Connection, tmp_path: Path
) -> None:
    plan = plan_of(bank)
    run_id = f"{plan.sync}/onboard/-/manual__2026-11-21T00:00:00+00:00"
    store.start_run(run_id=run_id, sync=plan.sync, kind="onboard", plan_json=plan_to_json(plan))
    with writing(bank.root, tables=("account", "audit"), first_id=1):
        failed = run_job(run_id, SEAMLINE_FAILPOINTS="snap.chunk_staged=error")
        done = run_job(run_id)
        through = run_job(run_id)
    assert failed.returncode == 1, failed.stderr
    assert "failpoint snap.chunk_staged" in failed.stderr, failed.stderr
    assert done.returncode == 0, done.stderr
    assert through.returncode == 0, through.stderr
    assert "are staged: the attempt before was interrupted behind its load" in through.stderr
    staged = store.run(run_id)
    snapshot = staged.result["snapshot"]
    receipts = {receipt.table: receipt for receipt in store.receipts(run_id)}
    for load in snapshot["loads"]["warehouse"]:
        receipt = receipts[load["table"]]
        assert (receipt.staged_as, receipt.rows) == (load["staged_as"], load["rows"])
        assert receipt.position == position_from_json(snapshot["position"])
        assert receipt.digest is not None and receipt.digest.rows == receipt.digest.hashed == receipt.rows
    with closing(postgres_sink(plan, WAREHOUSE)) as sink:
        commit = publish(staged, "warehouse", sink=sink)
    assert commit.ledger.next_offset == snapshot["next_offset"]
    with postgres(warehouse) as session:
        left = session.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'bank_stage'").fetchone()
        assert left == (0,)


def test_an_unknown_run_is_reported_by_its_id(store: PlatformStore) -> None:
    ended = run_job("nobody/onboard/-/1")
    assert ended.returncode == Refused.exit_code
    assert "there is no run 'nobody/onboard/-/1'" in ended.stderr
    assert "Traceback" not in ended.stderr
