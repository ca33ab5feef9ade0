"""Commit → visible at a steady rate into Iceberg tables: MariaDB → Debezium → Kafka → Iceberg, `write: native`.

125 transactions of 4 changes a second; each is timed from the end of its COMMIT at the source to the moment at which
the table's pointer in the catalogue, asked every 3 ms, leads to a snapshot that has it. The stream commits at most once
in `--commit-every-ms`. Goal: p50 ≤ 1.5 s with one commit a second.

On the servers of the local stack: `./seamline exec python -m bench.lake_latency`.
"""

import argparse
import dataclasses
import tempfile
import threading
import time

from pyiceberg.conversions import from_bytes
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType

from bench.latency import (
    ACCOUNTS,
    CREATE,
    TABLES,
    streaming,
    visible,
    wait_until_seen,
    write_steadily,
)
from seamline.adapters.connections import Connection
from seamline.plan.model import DestinationPlan, TablePlan
from tests.checkout import day_and_commit
from tests.integration.captured import captured
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.spark.empty_sync import publish_empty_into
from tests.waiting import wait_until

NAME = "bench_lake_latency"
P50_GOAL_S = 1.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--commit-every-ms", type=int, default=1_000)
    chosen = parser.parse_args()
    with (
        captured(NAME) as bank,
        postgres_database(f"{NAME}_lake") as catalogue,
        destination_known_by_id(catalogue, catalogue.database),
        tempfile.TemporaryDirectory(prefix=NAME) as warehouse,
    ):
        bank.execute(*CREATE)
        bank.ensure(dataclasses.replace(bank.plan, tables=tuple(TablePlan(name) for name in TABLES)))
        destination = DestinationPlan(
            "warehouse",
            "iceberg",
            catalogue.database,
            "live",
            writer_connection=f"{catalogue.database}_writer",
            options=(("catalog", "lake"), ("warehouse", warehouse), ("write", "native")),
            commit_every_ms=chosen.commit_every_ms,
        )
        plan = publish_empty_into(bank, destination, sync="latency", tables=TABLES)
        rows = ",".join(f"({number},'EUR',1000000,0,CURRENT_TIMESTAMP(6))" for number in range(1, ACCOUNTS + 1))
        bank.execute(f"INSERT INTO balance VALUES {rows}")
        with streaming(plan):
            wait_until(lambda: has_rows(catalogue), timeout_s=60, what="the stream")
            committed: dict[int, float] = {}
            seen: dict[int, float] = {}
            stop = threading.Event()
            watcher = threading.Thread(target=watch, args=(catalogue, seen, stop))
            watcher.start()
            write_steadily(bank, committed, seconds=chosen.seconds)
            wait_until_seen(committed, seen)
            stop.set()
            watcher.join()
    waits = sorted(visible(committed, seen))
    p50, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    print(f"{len(waits):,} transactions of 4 changes in {chosen.seconds:g} s into Iceberg; commit → visible")
    print(
        f"p50 {p50:.2f} s (goal ≤ {P50_GOAL_S:g})  p99 {p99:.2f} s  max {waits[-1]:.2f} s  {len(seen)} snapshots seen"
    )
    return 0 if p50 <= P50_GOAL_S else 1


def has_rows(catalogue: Connection) -> bool:
    with postgres(catalogue) as session:
        return newest(session.execute(POINTER.format("balance").encode()).fetchone()) == ACCOUNTS


POINTER = "SELECT metadata_location FROM public.iceberg_tables WHERE table_name = '{}' AND table_namespace = 'live'"


def watch(catalogue: Connection, seen: dict[int, float], stop: threading.Event) -> None:
    with postgres(catalogue) as session:
        before = None
        while not stop.wait(0.003):
            pointer = session.execute(POINTER.format("entry").encode()).fetchone()
            if pointer == before:
                continue
            # What the pointer leads to is there, however long this process takes to read it.
            at, before = time.perf_counter(), pointer
            if (entry := newest(pointer)) is not None:
                seen.setdefault(entry, at)


def newest(pointer: object) -> int | None:
    """The highest id of a table, by the bounds of its files; None of an empty table."""
    assert isinstance(pointer, tuple)
    tasks = StaticTable.from_metadata(pointer[0]).scan().plan_files()
    bounds = [(task.file.upper_bounds or {}).get(1) for task in tasks]
    return max((int(from_bytes(LongType(), bound)) for bound in bounds if bound), default=None)


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    raise SystemExit(main())
