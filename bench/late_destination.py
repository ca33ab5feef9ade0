"""How much a destination's stream falls back while another one is onboarded late from the same source.

A sync of 2 M rows streams from MariaDB into PostgreSQL, 125 transactions of 4 changes a second, each timed from the end
of its COMMIT at the source to the moment another session of PostgreSQL sees it. After a minute a second destination is
declared, MariaDB or another PostgreSQL, and onboarded: the job `snapshot_load.py` as a process of its own, publish,
stream, until it has caught up. Both destinations must match the source at the end.

No Airflow takes part: its tasks' use cases are called here. By default the late destination lies in the same server as
the source, as in the demo, whose capture then reads past all that is written into it.
Goals: p99 and the longest grow by less than a second while it joins.

On the servers of the local stack: `./seamline exec python -m bench.late_destination`.
"""

import argparse
import math
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import date

from bench.latency import CREATE, TABLES, streaming, visible, wait_until_seen, watch, write_steadily
from seamline import registry, settings
from seamline.adapters.connections import Connection
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment
from seamline.domain.runs import RunState, SyncState
from seamline.domain.verdict import Verdict
from seamline.kinds.found import power, sink_kind
from seamline.kinds.sink import HoldsCuts
from seamline.plan.model import DestinationPlan, SyncPlan, TablePlan
from seamline.platform import migrate
from seamline.platform.store import PlatformStore
from seamline.ports import Marker
from seamline.sync.comparison import Work, compare_tables
from seamline_airflow import onboarding, runs
from tests.checkout import day_and_commit
from tests.integration.captured import Captured, captured
from tests.integration.databases import mariadb_destination, mariadb_writer_of, postgres_database
from tests.integration.known import destination_known_by_id, destination_plan, known_by_id
from tests.waiting import wait_until

NAME = "bench_late"
GOAL_S = 1.0
JOIN_MAX_S = 900
FIRST = destination_plan(f"{NAME}_warehouse", "live")
LATE = {
    "mariadb": DestinationPlan(
        "archive", "mariadb", f"{NAME}_archive", f"{NAME}_archive", writer_connection=f"{NAME}_archive_writer"
    ),
    "postgres": replace(destination_plan(f"{NAME}_archive", "live"), name="archive"),
}
FILL = (
    "INSERT INTO balance SELECT seq, 'EUR', 1000000, 0, NOW(6) FROM seq_1_to_1000",
    "INSERT INTO entry SELECT seq, seq % 1000 + 1, 'EUR', seq % 20000000 / 100 - 90000, NOW(6), CURDATE(),"
    " CONCAT('transfer ', seq) FROM seq_1_to_{rows}",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--late", choices=tuple(LATE), default="mariadb", help="what the second destination is")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=60, help="how long the stream is timed before")
    chosen = parser.parse_args()
    with (
        platform() as store,
        postgres_database(FIRST.connection) as warehouse,
        destination_known_by_id(warehouse, FIRST.connection),
        late_destination(LATE[chosen.late]) as late,
        captured(NAME) as bank,
    ):
        bank.execute(*CREATE, *(statement.format(rows=chosen.rows) for statement in FILL))
        plan = replace(
            bank.with_tables(*TABLES),
            source=replace(bank.source_plan, snapshot_lock="brief"),
            destinations=(FIRST,),
        )
        bank.ensure(plan)
        tables = tuple(TablePlan(table.name, table=table) for table in bank.source.catalogue(TABLES))
        sync = Sync(bank, store, replace(plan, tables=tables))
        sync.onboard("first")
        store.set_sync_state(plan.sync, SyncState.ENABLED)
        return sync.joined_by(late, warehouse, lowest=chosen.rows // 2 + 1, seconds=chosen.seconds)


@contextmanager
def platform() -> Iterator[PlatformStore]:
    with postgres_database(f"{NAME}_platform") as connection, known_by_id(connection, "seamline_db", "postgres"):
        migrate.upgrade()
        with closing(registry.platform()) as store:
            yield store


@contextmanager
def late_destination(late: DestinationPlan) -> Iterator[DestinationPlan]:
    if late.kind == "postgres":
        with postgres_database(late.connection) as connection, destination_known_by_id(connection, late.connection):
            yield late
        return
    with (
        mariadb_destination(late.namespace) as publisher,
        known_by_id(publisher, late.connection, "mysql"),
        known_by_id(mariadb_writer_of(publisher), late.writer, "mysql"),
    ):
        yield late


@dataclass(frozen=True, slots=True)
class Sync:
    bank: Captured
    store: PlatformStore
    plan: SyncPlan

    def onboard(self, name: str) -> SyncPlan:
        """Into the destinations that are not onboarded yet, as the tasks of Airflow do it; the plan of the run."""
        into = runs.to_onboard(self.store, self.plan, ())
        plan, run_id = self.plan.into(into), f"{self.plan.sync}/onboard/-/{name}"
        runs.open_onboarding(self.store, plan, run_id, beside=self.plan.into(self.plan.destination_names - set(into)))
        self.bank.ensure(plan)
        job = [sys.executable, str(settings.load().root / "spark_jobs" / "snapshot_load.py"), "--run", run_id]
        done = subprocess.run(job, env=settings.process_environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"snapshot_load ended with {done.returncode}: {done.stderr[-3000:]}")
        onboarding.publish(self.store.run(run_id), self.store)
        self.store.finish_run(run_id, state=RunState.SUCCEEDED)
        return plan

    def joined_by(self, late: DestinationPlan, warehouse: Connection, *, lowest: int, seconds: float) -> int:
        committed: dict[int, float] = {}
        seen: dict[int, float] = {}
        stop_writing, stop_watching = threading.Event(), threading.Event()
        both = replace(self, plan=replace(self.plan, destinations=(*self.plan.destinations, late)))
        writer = threading.Thread(
            target=write_steadily,
            args=(self.bank, committed),
            kwargs={"seconds": math.inf, "lowest": lowest, "stop": stop_writing},
        )
        watcher = threading.Thread(target=watch, args=(warehouse, seen, stop_watching))
        with streaming(self.plan):
            self.wait_until_applied(FIRST.name)
            writer.start()
            watcher.start()
            try:
                stop_writing.wait(seconds)
                began = time.perf_counter()
                plan = both.onboard("late")
                with streaming(plan, late.name):
                    both.wait_until_applied(late.name)
                    ended = time.perf_counter()
                    stop_writing.set()
                    writer.join()
                    for destination in both.plan.destinations:
                        both.wait_until_applied(destination.name)
                wait_until_seen(committed, seen)
            finally:
                stop_writing.set()
                writer.join()
                stop_watching.set()
                watcher.join()
        both.require_match()
        return report(committed, seen, began=began, ended=ended)

    def wait_until_applied(self, destination: str) -> None:
        """Until all that the source has committed by now is there."""
        marker = Marker(f"applied-{uuid.uuid4().hex}", "barrier")
        self.bank.source.commit_marker(marker)

        def is_applied() -> bool:
            with closing(registry.sink(self.plan, destination)) as sink:
                ledger = sink.read_ledger(self.plan.stream_id(destination))
            return ledger is not None and ledger.last_marker == marker.id

        wait_until(is_applied, timeout_s=JOIN_MAX_S, what=f"{destination} to have all of it")

    def require_match(self) -> None:
        """Every table of every destination, now that nobody writes."""
        work = [Work(table.definition, Segment(table.name), Segment(table.name)) for table in self.plan.tables]
        for destination in self.plan.destinations:
            (source,) = self.bank.source.open_views(1)
            # In one server with the source, the last commit of the stream itself has moved the source's position.
            reads = power(sink_kind(destination.kind), HoldsCuts, to="hold cuts")
            names = [table.name for table in self.plan.tables]
            live = [PublishedTable(name, date.min, 0, destination.namespace, name) for name in names]
            view = reads.open_published(self.plan, destination, live, position=source.position)
            with closing(source), closing(view):
                verdicts = compare_tables(work, source=[source], destination=[view])
            wrong = [f"{one.table} {one.verdict} {one.reason}" for one in verdicts if one.verdict is not Verdict.MATCH]
            if wrong:
                raise RuntimeError(f"{destination.name} differs from the source: {', '.join(wrong)}")


def report(committed: dict[int, float], seen: dict[int, float], *, began: float, ended: float) -> int:
    waits = list(zip(sorted(committed), visible(committed, seen), strict=True))
    before = sorted(wait for entry, wait in waits if committed[entry] < began)
    during = sorted(wait for entry, wait in waits if began <= committed[entry] < ended)
    print(f"commit → visible in the first destination; the second joined in {ended - began:.0f} s; all tables match")
    for name, found in (("before", before), ("during", during)):
        p50, p99 = (percentile(found, share) for share in (0.5, 0.99))
        print(f"{name}: {len(found):,} transactions  p50 {p50:.3f} s  p99 {p99:.3f} s  max {found[-1]:.3f} s")
    growth = [percentile(during, 0.99) - percentile(before, 0.99), during[-1] - before[-1]]
    print(f"growth: p99 {growth[0]:.3f} s, max {growth[1]:.3f} s (goal < {GOAL_S:g} s each)")
    return 0 if max(growth) < GOAL_S else 1


def percentile(waits: Sequence[float], share: float) -> float:
    """Of sorted waits."""
    return waits[int(len(waits) * share)]


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    raise SystemExit(main())
