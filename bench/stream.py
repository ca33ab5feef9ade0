"""Drain of a filled log topic, and commit → visible at a steady rate; MariaDB → Debezium → Kafka → PostgreSQL.

`drain`: the log is filled first; then the span loop and a JDBC-batch shape apply the same records, one after the other,
in rounds: one prepared upsert per record, sent in batches of 10,000 and committed per batch, which is what a JDBC sink
does. Both results must be equal to each other and to the source. Goal: at least 3 times as fast.

`latency`: 125 transactions of 4 changes a second; each is timed from the end of its COMMIT at the source to the moment
another session of the destination sees it, asked every 3 ms. Both servers write durably. Goal: p50 ≤ 100 ms,
p99 ≤ 500 ms.

On the servers of the local stack: `./seamline exec python -m bench.stream drain`, and the same with `latency`.
"""

import argparse
import dataclasses
import multiprocessing
import random
import statistics
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal

import orjson
import psycopg
import pytest

from seamline.adapters import registry
from seamline.adapters.connections import Connection
from seamline.domain.log import RecordKind
from seamline.plan.model import SyncPlan, TablePlan, plan_from_json, plan_to_json
from seamline.ports import Marker, Orders, StreamReport
from seamline.sync.markers import read_until_marker
from seamline.sync.span_loop import run_stream
from tests.integration.captured import Captured, captured
from tests.integration.databases import mariadb, postgres, postgres_database
from tests.spark.empty_sync import publish_empty
from tests.spark.hosts import uri
from tests.waiting import wait_until

NAME = "bench_stream"
TABLES = ("balance", "entry", "access")
ACCOUNTS = 1_000
BATCH = 10_000
DRAIN_GOAL, P50_GOAL_MS, P99_GOAL_MS = 3.0, 100.0, 500.0
CREATE = (
    "CREATE TABLE balance (id INT PRIMARY KEY, currency CHAR(3) NOT NULL, amount DECIMAL(20,4) NOT NULL,"
    " version BIGINT NOT NULL, updated_at TIMESTAMP(6) NOT NULL)",
    "CREATE TABLE entry (id BIGINT PRIMARY KEY, account_id INT NOT NULL, currency CHAR(3) NOT NULL,"
    " amount DECIMAL(20,4) NOT NULL, booked_at TIMESTAMP(6) NOT NULL, value_date DATE NOT NULL, memo VARCHAR(80))",
    "CREATE TABLE access (at DATETIME(6) NOT NULL, actor VARCHAR(40) NOT NULL, action VARCHAR(40))",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("drain", "latency"))
    parser.add_argument("--changes", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60)
    chosen = parser.parse_args()
    with captured(NAME) as bank, postgres_database(NAME) as warehouse, pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"SEAMLINE_CONNECTION_{warehouse.database.upper()}", uri(warehouse))
        bank.execute(*CREATE)
        bank.ensure(dataclasses.replace(bank.plan, tables=tuple(TablePlan(name) for name in TABLES)))
        if chosen.what == "drain":
            return drain(bank, warehouse, changes=chosen.changes, rounds=chosen.rounds)
        return latency(bank, warehouse, seconds=chosen.seconds)


# ---- drain ----------------------------------------------------------------------------------------------------------


def drain(bank: Captured, warehouse: Connection, *, changes: int, rounds: int) -> int:
    plans = [publish_empty(bank, warehouse, sync=f"s{n}", schema=f"live{n}", tables=TABLES) for n in range(rounds)]
    start = bank.topics.end_offset()
    written = fill(bank, changes)
    last = Marker(f"barrier-{uuid.uuid4().hex}", "barrier")
    bank.source.commit_marker(last)
    wait_for(bank, last, start)
    ours, theirs = [], []
    for number, plan in enumerate(plans):
        ours.append(drained_by_span_loop(plan, warehouse, last))
        theirs.append(drained_by_batches(plan, warehouse, last, start, schema=f"jdbc{number}"))
        require_equal(bank, warehouse, f"live{number}", f"jdbc{number}")
    mine, peer = statistics.median(ours), statistics.median(theirs)
    ratio = peer / mine
    print(f"{written:,} changes, {rounds} rounds, medians; all results equal to each other and to the source")
    print(f"span loop        {mine:6.2f} s  {written / mine:10,.0f} changes/s")
    print(f"JDBC-batch shape {peer:6.2f} s  {written / peer:10,.0f} changes/s")
    print(f"ratio {ratio:.1f}×  (goal ≥ {DRAIN_GOAL:g}×)")
    return 0 if ratio >= DRAIN_GOAL else 1


def fill(bank: Captured, changes: int) -> int:
    """Transactions of 16 balances updated, 16 entries and 4 access rows inserted."""
    rng = random.Random(7)
    with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
        cursor.execute("INSERT INTO balance SELECT seq, 'EUR', 1000000, 0, NOW(6) FROM seq_1_to_1000")
        written, entry = ACCOUNTS, 0
        while written < changes:
            accounts = sorted(rng.sample(range(1, ACCOUNTS + 1), 16))
            listed = ",".join(map(str, accounts))
            rows = ",".join(
                f"({entry + n},{account},'EUR',{rng.randint(-(10**7), 10**7) / 100},NOW(6),CURDATE(),'transfer {n}')"
                for n, account in enumerate(accounts)
            )
            entry += len(accounts)
            cursor.execute("BEGIN")
            cursor.execute(f"UPDATE balance SET amount = amount + 1.25, version = version + 1 WHERE id IN ({listed})")
            cursor.execute(f"INSERT INTO entry VALUES {rows}")
            cursor.execute("INSERT INTO access VALUES " + ",".join(["('2026-11-20 10:00:00','teller','view')"] * 4))
            cursor.execute("COMMIT")
            written += 36
    return written


def wait_for(bank: Captured, marker: Marker, start: int) -> None:
    with closing(bank.open_log()) as reader:
        reader.assign(start)
        read_until_marker(reader, marker_table="seamline_marker", marker_id=marker.id, timeout_s=600)


class UntilMarker:
    """StreamControl of one drain: wanted until the ledger has the marker, whose moment it keeps."""

    def __init__(self, session: "psycopg.Connection[tuple[object, ...]]", plan: SyncPlan, marker: Marker) -> None:
        self._session = session
        self._stream = str(plan.stream_id("warehouse"))
        self._marker = marker.id
        self.done_at = 0.0

    def orders(self) -> Orders:
        row = self._session.execute(
            "SELECT last_marker FROM seamline.ledger WHERE stream = %s", (self._stream,)
        ).fetchone()
        if row and row[0] == self._marker:
            self.done_at = self.done_at or time.perf_counter()
        return Orders(wanted=not self.done_at)

    def report(self, report: StreamReport) -> None:
        return


def drained_by_span_loop(plan: SyncPlan, warehouse: Connection, last: Marker) -> float:
    with (
        postgres(warehouse) as session,
        closing(registry.log_reader(plan)) as reader,
        closing(registry.sink(plan, "warehouse")) as sink,
    ):
        control = UntilMarker(session, plan, last)
        began = time.perf_counter()
        run_stream(plan, "warehouse", reader=reader, sink=sink, control=control)
        return control.done_at - began


def drained_by_batches(plan: SyncPlan, warehouse: Connection, last: Marker, start: int, *, schema: str) -> float:
    with postgres(warehouse) as admin:
        admin.execute(f"CREATE SCHEMA {schema}")
        for table in plan.tables:
            like = f"{plan.destinations[0].schema}.{table.name}"
            # Both write into tables of the same shape, with the same key or index.
            admin.execute(f"CREATE TABLE {schema}.{table.name} (LIKE {like} INCLUDING ALL)")
    statements = {table.name: upsert(table, schema) for table in plan.tables}
    with postgres(warehouse) as session, closing(registry.log_reader(plan)) as reader:
        session.autocommit = False
        reader.assign(start)
        began = time.perf_counter()
        batch: dict[str, list[dict[str, object]]] = {}
        size, is_last = 0, False
        while not is_last:
            for record in reader.poll(0.2, BATCH - size):
                if record.kind is not RecordKind.ROW:
                    continue
                is_last = is_last or (record.table == "seamline_marker" and last.id.encode() in (record.after or b""))
                if record.table in statements:
                    batch.setdefault(record.table, []).append(orjson.loads(record.after or b""))
                    size += 1
            if size >= BATCH or is_last:
                with session.cursor() as cursor:
                    for name, rows in batch.items():
                        cursor.executemany(statements[name], rows)
                session.commit()
                batch, size = {}, 0
        return time.perf_counter() - began


def upsert(table: TablePlan, schema: str) -> str:
    """One row of the log as one statement, as a JDBC sink prepares it."""
    casts = {"at": "timestamp 'epoch' + {} * interval '1 microsecond'", "value_date": "date 'epoch' + {}"}
    types = {"updated_at": "timestamptz", "booked_at": "timestamptz", "amount": "numeric"}
    values = []
    for column in table.shape.columns:
        mark = f"%({column.name})s"
        given = f"({mark})::{types[column.name]}" if column.name in types else f"({mark})"
        if column.name in casts:
            given = casts[column.name].format(f"({mark})::{'bigint' if column.name == 'at' else 'integer'}")
        values.append(given)
    names = [column.name for column in table.shape.columns]
    statement = f"INSERT INTO {schema}.{table.name} ({', '.join(names)}) VALUES ({', '.join(values)})"
    if table.shape.is_keyed:
        assigned = ", ".join(f"{name} = excluded.{name}" for name in names if name not in table.shape.key)
        statement += f" ON CONFLICT ({', '.join(table.shape.key)}) DO UPDATE SET {assigned}"
    return statement


def require_equal(bank: Captured, warehouse: Connection, one: str, other: str) -> None:
    with postgres(warehouse) as session:
        for table in TABLES:
            for left, right in ((one, other), (other, one)):
                row = session.execute(
                    f"SELECT count(*) FROM (TABLE {left}.{table} EXCEPT ALL TABLE {right}.{table}) AS d"
                ).fetchone()
                assert row == (0,), f"{left}.{table} and {right}.{table} differ in {row} rows"
        for table, column in (("balance", "amount"), ("entry", "amount"), ("access", "1")):
            here = session.execute(f"SELECT count(*), sum({column}) FROM {one}.{table}").fetchone()
            with closing(mariadb(bank.root)) as source, source.cursor() as cursor:
                cursor.execute(f"SELECT count(*), sum({column}) FROM {table}")
                there = cursor.fetchone()
            assert here is not None
            assert there is not None
            assert (here[0], Decimal(here[1])) == (there[0], Decimal(there[1])), (table, here, there)


# ---- latency --------------------------------------------------------------------------------------------------------


def latency(bank: Captured, warehouse: Connection, *, seconds: float) -> int:
    plan = publish_empty(bank, warehouse, sync="latency", schema="live", tables=TABLES)
    bank.execute("INSERT INTO balance SELECT seq, 'EUR', 1000000, 0, NOW(6) FROM seq_1_to_1000")
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
        deadline = time.monotonic() + 60
        while max(seen, default=0) < max(committed) and time.monotonic() < deadline:
            threading.Event().wait(0.05)
        stop.set()
        watcher.join()
    waits = sorted(visible(committed, seen))
    p50, p99 = waits[len(waits) // 2] * 1000, waits[int(len(waits) * 0.99)] * 1000
    print(f"{len(waits):,} transactions of 4 changes in {seconds:g} s; commit → visible in another session")
    print(
        f"p50 {p50:.0f} ms (goal ≤ {P50_GOAL_MS:g})  p99 {p99:.0f} ms (goal ≤ {P99_GOAL_MS:g})  max {waits[-1]:.3f} s"
    )
    return 0 if p50 <= P50_GOAL_MS and p99 <= P99_GOAL_MS else 1


@contextmanager
def streaming(plan: SyncPlan) -> Iterator[None]:
    """The loop in a process of its own, as in a Spark worker."""
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    process = spawn.Process(target=stream_until, args=(plan_to_json(plan), stop))
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


def stream_until(plan_json: str, stop: "multiprocessing.synchronize.Event") -> None:
    plan = plan_from_json(plan_json)
    with closing(registry.log_reader(plan)) as reader, closing(registry.sink(plan, "warehouse")) as sink:
        run_stream(plan, "warehouse", reader=reader, sink=sink, control=UntilStopped(stop))


def write_steadily(bank: Captured, committed: dict[int, float], *, seconds: float) -> None:
    rng = random.Random(7)
    with closing(mariadb(bank.root)) as session, session.cursor() as cursor:
        began = time.perf_counter()
        number = 0
        while (due := number / 125) < seconds:
            threading.Event().wait(max(0.0, began + due - time.perf_counter()))
            number += 1
            first, second = sorted(rng.sample(range(1, ACCOUNTS + 1), 2))
            cursor.execute("BEGIN")
            cursor.execute(f"UPDATE balance SET version = version + 1 WHERE id IN ({first},{second})")
            cursor.execute(
                f"INSERT INTO entry VALUES ({2 * number},{first},'EUR',-1,NOW(6),CURDATE(),NULL),"
                f"({2 * number + 1},{second},'EUR',1,NOW(6),CURDATE(),NULL)"
            )
            cursor.execute("COMMIT")
            committed[2 * number + 1] = time.perf_counter()


def watch(warehouse: Connection, seen: dict[int, float], stop: threading.Event) -> None:
    with postgres(warehouse) as session:
        while not stop.wait(0.003):
            row = session.execute("SELECT max(id) FROM live.entry").fetchone()
            if row and row[0] is not None:
                seen.setdefault(int(str(row[0])), time.perf_counter())


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
    raise SystemExit(main())
