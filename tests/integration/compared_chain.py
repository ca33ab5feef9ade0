"""A sync into a PostgreSQL with everything real: capture, log, stream, and comparisons of its live tables."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.domain.level import is_achieved
from seamline.domain.runs import Reconciliation
from seamline.domain.self_test import self_test_in_words
from seamline.domain.verdict import BreakType, Verdict
from seamline.plan.checks import ControlTotalPlan, ReconcilePlan
from seamline.plan.document import plan_to_json
from seamline.plan.model import SyncPlan
from seamline.platform import migrate
from seamline.platform.store import PlatformStore
from seamline_spark.compare.main import compare_run
from tests.integration.bank_writers import writing
from tests.integration.captured import Captured
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.streaming_here import streaming
from tests.spark.empty_sync import publish_empty
from tests.spark.hosts import uri
from tests.waiting import wait_until

TABLES = ("account", "audit")


@dataclass
class Chain:
    """One sync, published and wanted. `session_of` opens a session of a writer."""

    bank: Captured
    plan: SyncPlan
    warehouse: Connection
    store: PlatformStore
    session_of: Callable[[Connection], Any]
    runs: int = 0

    def compare(self) -> Reconciliation:
        self.runs += 1
        run_id = f"{self.plan.sync}/reconcile/-/{self.runs}"
        self.store.start_run(run_id=run_id, sync=self.plan.sync, kind="reconcile", plan_json=plan_to_json(self.plan))
        (found,) = compare_run(run_id)
        saved = self.store.reconciliation(run_id, "live")
        assert saved is not None
        assert (saved.verdict, saved.position) == (found.verdict, found.position)
        assert is_achieved(saved) is (saved.verdict is Verdict.MATCH)
        return found

    def spoil(self, *statements: str) -> None:
        with postgres(self.warehouse) as session:
            for statement in statements:
                session.execute(statement.encode())

    def applied(self, table: str) -> int:
        with postgres(self.warehouse) as session:
            row = session.execute(f"SELECT count(*) FROM live.{table}".encode()).fetchone()
        return int(row[0]) if row else 0


@contextmanager
def chained(
    name: str,
    bank_of: Callable[[str], AbstractContextManager[Captured]],
    session_of: Callable[[Connection], Any],
    *,
    by_log: bool = False,
) -> Iterator[Chain]:
    with ExitStack() as around:
        bank = around.enter_context(bank_of(name))
        warehouse = around.enter_context(postgres_database(f"{name}_warehouse"))
        platform = around.enter_context(postgres_database(f"{name}_platform"))
        patch = around.enter_context(pytest.MonkeyPatch.context())
        around.enter_context(destination_known_by_id(warehouse, warehouse.database))
        patch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(platform))
        migrate.upgrade()
        bank.ensure()
        plan = publish_empty(bank, warehouse, sync=bank.plan.sync, schema="live", tables=TABLES)
        reconcile = ReconcilePlan((ControlTotalPlan("account", "a"),), by_log=("warehouse",) if by_log else ())
        plan = replace(plan, reconcile=reconcile)
        store = around.enter_context(closing(registry.platform()))
        around.enter_context(streaming(plan))
        yield Chain(bank, plan, warehouse, store, session_of)


def caught_up(chain: Chain) -> None:
    report = registry.director().latest_report(chain.plan.stream_id("warehouse"))
    assert report is not None
    ledger_is_open = "SELECT count(*) FROM seamline.boundary WHERE ended_at IS NULL"

    def ended() -> bool:
        with postgres(chain.warehouse) as session:
            row = session.execute(ledger_is_open.encode()).fetchone()
        return row == (0,)

    wait_until(ended, timeout_s=60, what="the boundaries to end")


def listed(found: Reconciliation) -> dict[str, set[tuple[BreakType, str]]]:
    return {t.table: {(entry.type, entry.key) for entry in t.breaks} for t in found.tables}


def compared_while_writing(chain: Chain, *, count: int, comparisons: int) -> list[Reconciliation]:
    """Compare so often while so many write: no verdict may be BREAK, and less than 1 % INCONCLUSIVE."""
    found_all = list[Reconciliation]()
    positions, held, inconclusive = set[str](), list[float](), list[str]()
    # However many they are, they write as much as one does alone: no more than the stream can apply here.
    with writing(
        chain.bank.root, tables=TABLES, count=count, pause_max_s=0.04 * count, session_of=chain.session_of
    ) as writers:
        wait_until(lambda: chain.applied("account") > 100, timeout_s=60, what="rows to arrive")
        caught_up(chain)
        for _ in range(comparisons):
            before = writers.committed
            found = chain.compare()
            found_all.append(found)
            reasons = [f"{t.table} {t.verdict}: {t.reason}" for t in found.tables if t.verdict is not Verdict.MATCH]
            if found.verdict is Verdict.INCONCLUSIVE:
                inconclusive += reasons
                continue
            assert found.verdict is Verdict.MATCH, reasons
            held.append(float(str(found.evidence["held_s"])))
            assert held[-1] < 30
            inconclusive += found.evidence["inconclusive_before"]  # type: ignore[operator]
            assert found.tables[0].totals
            assert "0 others" in self_test_in_words(found.evidence)[0]
            positions.add(str(found.position))
            wait_until(lambda before=before: writers.committed > before, timeout_s=30, what="writers to go on")
        committed = writers.committed
    print(
        f"{count} writers, {committed} transactions, {comparisons} comparisons: {len(held)} MATCH at"
        f" {len(positions)} positions, inconclusive {inconclusive}, held for {statistics.median(held):.2f} s in the"
        f" middle and {max(held):.2f} s at most; {found.tables[0].source_rows} rows of account at the end"
    )
    # Of so few as in every run: none.
    assert 100 * len(inconclusive) < comparisons, inconclusive
    assert len(positions) == len(held)
    assert found.tables[0].source_rows
    return found_all
