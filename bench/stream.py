"""Drain of a filled log topic; MariaDB → Debezium → Kafka → PostgreSQL.

The log is filled first; then the span loop and a JDBC batch loop apply the same records, one after the other,
in rounds: one prepared upsert per record, sent in batches of 10,000 and committed per batch, which is what a JDBC sink
does. Both results must be equal to each other and to the source. Goal: at least 3 times as fast.

On the servers of the local stack: `./seamline exec python -m bench.stream`.
"""

import argparse
import dataclasses
import random
import statistics
import time
import uuid
from contextlib import closing
from decimal import Decimal
from itertools import chain

import orjson

from bench.warehouses import Ask, PostgresWarehouse, Warehouse, differing, postgres_warehouse
from seamline import registry
from seamline.plan.model import SyncPlan, TablePlan
from seamline.ports import Marker, Orders, StreamReport
from seamline.sync.markers import read_until_marker
from seamline.sync.span_loop import run_stream
from tests.checkout import day_and_commit
from tests.integration.captured import Captured, captured
from tests.integration.databases import mariadb, postgres
from tests.spark.empty_sync import publish_empty_into

NAME = "bench_stream"
TABLES = ("balance", "entry", "access")
ACCOUNTS = 1_000
BATCH = 10_000
GOAL = 3.0
CREATE = (
    "CREATE TABLE balance (id INT PRIMARY KEY, currency CHAR(3) NOT NULL, amount DECIMAL(20,4) NOT NULL,"
    " version BIGINT NOT NULL, updated_at TIMESTAMP(6) NOT NULL)",
    "CREATE TABLE entry (id BIGINT PRIMARY KEY, account_id INT NOT NULL, currency CHAR(3) NOT NULL,"
    " amount DECIMAL(20,4) NOT NULL, booked_at TIMESTAMP(6) NOT NULL, value_date DATE NOT NULL, memo VARCHAR(80))",
    "CREATE TABLE access (at DATETIME(6) NOT NULL, actor VARCHAR(40) NOT NULL, action VARCHAR(40))",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=600_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with captured(NAME) as bank, postgres_warehouse(NAME) as warehouse:
        bank.execute(*CREATE)
        bank.ensure(dataclasses.replace(bank.plan, tables=tuple(TablePlan(name) for name in TABLES)))
        return drain(bank, warehouse, changes=chosen.changes, rounds=chosen.rounds)


# ---- drain ----------------------------------------------------------------------------------------------------------


def drain(bank: Captured, warehouse: PostgresWarehouse, *, changes: int, rounds: int) -> int:
    plans = published_empty(bank, warehouse, rounds)
    start = bank.topics.end_offset()
    written = fill(bank, changes)
    last = Marker(f"barrier-{uuid.uuid4().hex}", "barrier")
    bank.source.commit_marker(last)
    wait_for(bank, last, start)
    ours, theirs = [], []
    for number, plan in enumerate(plans):
        ours.append(drained_by_span_loop(plan, warehouse, last))
        peer_schema = warehouse.peer_schema(str(number))
        theirs.append(drained_by_batches(plan, warehouse, last, start, schema=peer_schema))
        require_equal(bank, warehouse, plan.destinations[0].namespace, peer_schema)
    mine, peer = statistics.median(ours), statistics.median(theirs)
    ratio = peer / mine
    print(f"{written:,} changes, {rounds} rounds, medians; all results equal to each other and to the source")
    print(f"span loop        {mine:6.2f} s  {written / mine:10,.0f} changes/s")
    print(f"JDBC batch loop {peer:6.2f} s  {written / peer:10,.0f} changes/s")
    print(f"ratio {ratio:.1f}×  (goal ≥ {GOAL:g}×)")
    return 0 if ratio >= GOAL else 1


def published_empty(bank: Captured, warehouse: Warehouse, rounds: int) -> list[SyncPlan]:
    """A sync of its own for each round."""
    return [
        publish_empty_into(bank, warehouse.destination(str(number)), sync=f"s{number}", tables=TABLES)
        for number in range(rounds)
    ]


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

    def __init__(self, ask: Ask, question: str, marker: Marker) -> None:
        self._ask = ask
        self._question = question
        self._marker = marker.id
        self.done_at = 0.0

    def orders(self) -> Orders:
        if self._ask(self._question) == [(self._marker,)]:
            self.done_at = self.done_at or time.perf_counter()
        return Orders(wanted=not self.done_at)

    def report(self, report: StreamReport) -> None:
        return


def drained_by_span_loop(plan: SyncPlan, warehouse: Warehouse, last: Marker) -> float:
    (destination,) = plan.destinations
    stream = plan.stream_id(destination.name)
    question = f"SELECT last_marker FROM {warehouse.ledger(destination)} WHERE stream = '{stream}'"
    with (
        warehouse.asking() as ask,
        closing(registry.log_reader(plan)) as reader,
        closing(registry.sink(plan, destination.name)) as sink,
    ):
        control = UntilMarker(ask, question, last)
        began = time.perf_counter()
        run_stream(plan, destination.name, reader=reader, sink=sink, control=control)
        return control.done_at - began


def drained_by_batches(plan: SyncPlan, warehouse: PostgresWarehouse, last: Marker, start: int, *, schema: str) -> float:
    warehouse.make_like(plan, schema)
    statements = {table.name: upsert(table, schema) for table in plan.tables}
    with postgres(warehouse.connection) as session, closing(registry.log_reader(plan)) as reader:
        session.autocommit = False
        reader.assign(start)
        began = time.perf_counter()
        batch: dict[str, list[dict[str, object]]] = {}
        size, is_last = 0, False
        while not is_last:
            for row in chain.from_iterable(record.rows for record in reader.poll(0.2, BATCH - size)):
                is_last = is_last or (row.table == "seamline_marker" and last.id.encode() in (row.after or b""))
                if row.table in statements:
                    batch.setdefault(row.table, []).append(orjson.loads(row.after or b""))
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
    for column in table.definition.columns:
        mark = f"%({column.name})s"
        given = f"({mark})::{types[column.name]}" if column.name in types else f"({mark})"
        if column.name in casts:
            given = casts[column.name].format(f"({mark})::{'bigint' if column.name == 'at' else 'integer'}")
        values.append(given)
    names = [column.name for column in table.definition.columns]
    statement = f"INSERT INTO {schema}.{table.name} ({', '.join(names)}) VALUES ({', '.join(values)})"
    if table.definition.is_keyed:
        assigned = ", ".join(f"{name} = excluded.{name}" for name in names if name not in table.definition.key)
        statement += f" ON CONFLICT ({', '.join(table.definition.key)}) DO UPDATE SET {assigned}"
    return statement


def require_equal(bank: Captured, warehouse: Warehouse, one: str, other: str) -> None:
    """The tables of these schemas, to each other and to the source."""
    with warehouse.asking() as ask, closing(mariadb(bank.root)) as source, source.cursor() as cursor:
        for table in TABLES:
            differences = differing(ask, f"{one}.{table}", f"{other}.{table}")
            assert not differences, f"{one}.{table} and {other}.{table} differ in {differences} rows"
        for table, column in (("balance", "amount"), ("entry", "amount"), ("access", "1")):
            ((count, total),) = ask(f"SELECT count(*), sum({column}) FROM {one}.{table}")
            cursor.execute(f"SELECT count(*), sum({column}) FROM {table}")
            assert cursor.fetchall() == ((count, Decimal(total)),), (table, count, total)


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    raise SystemExit(main())
