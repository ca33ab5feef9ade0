"""Commit → visible at a steady rate: source → Debezium → Kafka → PostgreSQL, from either kind of source.

125 transactions of 4 changes a second; each is timed from the end of its COMMIT at the source to the moment another
session of the destination sees it, asked every 3 ms. All servers write durably. Goal: p50 ≤ 60 ms, p99 ≤ 300 ms.

On the servers of the local stack: `./seamline exec python -m bench.latency mariadb`, and the same with `postgres`.
"""

import argparse
import dataclasses
import multiprocessing
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.databases.mysql.connector_settings import binlog_settings
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.model import SyncPlan, TablePlan
from seamline.ports import Orders, StreamReport
from seamline.sources.mariadb import connector
from seamline.sync.span_loop import run_stream
from tests.checkout import day_and_commit
from tests.integration.captured import Captured, captured
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.integration.databases import mariadb, postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.spark.empty_sync import publish_empty
from tests.waiting import wait_until

NAME = "bench_latency"
TABLES = ("balance", "entry")
ACCOUNTS = 1_000
PER_S = 125.0
P50_GOAL_MS, P99_GOAL_MS = 60.0, 300.0
CREATE = (
    "CREATE TABLE balance (id INT PRIMARY KEY, currency CHAR(3) NOT NULL, amount DECIMAL(20,4) NOT NULL,"
    " version BIGINT NOT NULL, updated_at TIMESTAMP(6) NOT NULL)",
    "CREATE TABLE entry (id BIGINT PRIMARY KEY, account_id INT NOT NULL, currency CHAR(3) NOT NULL,"
    " amount DECIMAL(20,4) NOT NULL, booked_at TIMESTAMP(6) NOT NULL, value_date DATE NOT NULL, memo VARCHAR(80))",
)
Execute = Callable[[str], object]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=("mariadb", "postgres"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--poll-ms", type=int, help="another poll.interval.ms of the MariaDB connector than it has")
    chosen = parser.parse_args()
    with (
        bank_in(chosen.source) as bank,
        postgres_database(f"{NAME}_warehouse") as warehouse,
        destination_known_by_id(warehouse, warehouse.database),
        pytest.MonkeyPatch.context() as patch,
    ):
        if chosen.poll_ms:
            settings_of = binlog_settings
            patch.setattr(connector, "binlog_settings", partial(polling_every, chosen.poll_ms, settings_of))
        bank.ensure(dataclasses.replace(bank.plan, tables=tuple(TablePlan(name) for name in TABLES)))
        return latency(bank, warehouse, seconds=chosen.seconds)


def polling_every(
    poll_ms: int, settings_of: Callable[..., dict[str, str]], *about: Any, **words: Any
) -> dict[str, str]:
    return settings_of(*about, **words) | {"poll.interval.ms": str(poll_ms)}


@contextmanager
def bank_in(kind: str) -> Iterator[Captured]:
    if kind == "postgres":
        with captured_postgres(NAME, create=CREATE, tables=TABLES) as in_postgres:
            yield in_postgres
        return
    with captured(NAME) as in_mariadb:
        in_mariadb.execute(*CREATE)
        yield in_mariadb


@contextmanager
def session_of(bank: Captured) -> Iterator[Execute]:
    if isinstance(bank, PostgresCaptured):
        with closing(bank.session()) as in_postgres:
            yield lambda statement: in_postgres.execute(statement.encode())
        return
    with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
        yield cursor.execute


def latency(bank: Captured, warehouse: Connection, *, seconds: float) -> int:
    plan = publish_empty(bank, warehouse, sync="latency", schema="live", tables=TABLES)
    open_accounts(bank)
    with streaming(plan), postgres(warehouse) as session:
        # The stream has started when what was there before it has come.
        there = "SELECT count(*) FROM live.balance"
        wait_until(lambda: session.execute(there).fetchone() == (ACCOUNTS,), timeout_s=60, what="the stream")
        committed: dict[int, float] = {}
        seen: dict[int, float] = {}
        stop = threading.Event()
        watcher = threading.Thread(target=watch, args=(warehouse, seen, stop))
        watcher.start()
        write_steadily(bank, committed, seconds=seconds)
        wait_until_seen(committed, seen)
        stop.set()
        watcher.join()
    waits = sorted(visible(committed, seen))
    p50, p99 = waits[len(waits) // 2] * 1000, waits[int(len(waits) * 0.99)] * 1000
    print(f"{len(waits):,} transactions of 4 changes in {seconds:g} s, {bank.source_plan.kind}; commit → visible")
    print(
        f"p50 {p50:.0f} ms (goal ≤ {P50_GOAL_MS:g})  p99 {p99:.0f} ms (goal ≤ {P99_GOAL_MS:g})  max {waits[-1]:.3f} s"
    )
    return 0 if p50 <= P50_GOAL_MS and p99 <= P99_GOAL_MS else 1


def open_accounts(bank: Captured) -> None:
    rows = ",".join(f"({number},'EUR',1000000,0,CURRENT_TIMESTAMP(6))" for number in range(1, ACCOUNTS + 1))
    bank.execute(f"INSERT INTO balance VALUES {rows}")


@contextmanager
def streaming(plan: SyncPlan, destination: str = "warehouse") -> Iterator[None]:
    """The loop in a process of its own, as in a Spark worker."""
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    process = spawn.Process(target=stream_until, args=(plan_to_json(plan), destination, stop))
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join(30)


class UntilStopped:
    def __init__(self, stop: "multiprocessing.synchronize.Event") -> None:
        self._stop = stop

    def orders(self) -> Orders:
        return Orders(wanted=not self._stop.is_set())

    def report(self, report: StreamReport) -> None:
        return


def stream_until(plan_json: str, destination: str, stop: "multiprocessing.synchronize.Event") -> None:
    plan = plan_from_json(plan_json)
    with closing(registry.log_reader(plan)) as reader, closing(registry.sink(plan, destination)) as sink:
        run_stream(plan, destination, reader=reader, sink=sink, control=UntilStopped(stop))


def write_steadily(
    bank: Captured,
    committed: dict[int, float],
    *,
    seconds: float,
    lowest: int = 0,
    stop: threading.Event | None = None,
    per_s: float = PER_S,
) -> None:
    """`committed`: by the last entry of each transaction, the moment after its COMMIT. Entries are numbered from twice
    `lowest` on. `per_s`: transactions. Ends early where `stop` is set."""
    rng = random.Random(7)
    asked = stop or threading.Event()
    with session_of(bank) as execute:
        began = time.perf_counter()
        number = lowest
        while (due := (number - lowest) / per_s) < seconds and not asked.is_set():
            threading.Event().wait(max(0.0, began + due - time.perf_counter()))
            number += 1
            first, second = sorted(rng.sample(range(1, ACCOUNTS + 1), 2))
            execute("BEGIN")
            execute(f"UPDATE balance SET version = version + 1 WHERE id IN ({first},{second})")
            execute(
                f"INSERT INTO entry VALUES ({2 * number},{first},'EUR',-1,CURRENT_TIMESTAMP(6),CURRENT_DATE,NULL),"
                f"({2 * number + 1},{second},'EUR',1,CURRENT_TIMESTAMP(6),CURRENT_DATE,NULL)"
            )
            execute("COMMIT")
            committed[2 * number + 1] = time.perf_counter()


def watch(warehouse: Connection, seen: dict[int, float], stop: threading.Event) -> None:
    with postgres(warehouse) as session:
        while not stop.wait(0.003):
            row = session.execute("SELECT max(id) FROM live.entry").fetchone()
            if row and row[0] is not None:
                seen.setdefault(int(str(row[0])), time.perf_counter())


def wait_until_seen(committed: dict[int, float], seen: dict[int, float]) -> None:
    """Until the last transaction is visible, or a minute has passed."""
    deadline = time.monotonic() + 60
    while max(seen, default=0) < max(committed) and time.monotonic() < deadline:
        threading.Event().wait(0.05)


def visible(committed: dict[int, float], seen: dict[int, float]) -> Iterator[float]:
    """Per transaction: the first moment at which its own entry or a later one was seen, less its commit."""
    moments = sorted(seen.items())
    place = 0
    for entry, at in sorted(committed.items()):
        while place < len(moments) and moments[place][0] < entry:
            place += 1
        assert place < len(moments), f"entry {entry} was never seen"
        yield max(0.0, moments[place][1] - at)


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    raise SystemExit(main())
