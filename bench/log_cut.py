"""A cut from the log beside one that is read: a table of 1 M rows that is read whole, of which 100,000 have changed.

Source and destination are databases of PostgreSQL. The first date is read; then a tenth of the rows changes, in
transactions of 1,000, and the date after it is made from the log. Beside it the same rows are read. Both are timed from
the start of the night's job to its verdict, in this process: staging, comparison and self-test, without Spark and
without Airflow. The capture has brought all changes before, as it has when a night begins; how long that took is
printed beside. Each round has a new date. Both must be a MATCH.
Goal: from the log at least 2 x as fast as by a read.

On the servers of the local stack: `./seamline exec python -m bench.log_cut --rows 1000000 --changes 100000`
"""

import argparse
import statistics
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from unittest.mock import patch

from seamline import registry
from seamline.domain.calendar import Day
from seamline.domain.made_from import MadeFrom
from seamline.domain.verdict import Verdict
from seamline.plan.model import NightlyPlan
from seamline.platform import migrate
from seamline.ports import Marker
from seamline.sync.markers import read_until_marker
from tests.checkout import day_and_commit
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.nights import Nights
from tests.integration.snapshot_run import run_of
from tests.spark.hosts import uri

NAME = "bench_log_cut"
GOAL = 2.0
TABLE = (
    "CREATE TABLE entry (id bigint PRIMARY KEY, account_id bigint NOT NULL, currency varchar(3) NOT NULL,"
    " amount numeric(20,4) NOT NULL, booked_at timestamptz NOT NULL, memo varchar(140))"
)
FILL = (
    "INSERT INTO entry SELECT n, n % 1000, (ARRAY['EUR', 'USD', 'CNY'])[n % 3 + 1], (n % 1000003) * 1.25 - 600000,"
    " timestamptz '2026-01-01 00:00:00.123456+00' + n * interval '1 second',"
    " CASE WHEN n % 5 = 0 THEN NULL ELSE 'transfer ' || n END FROM generate_series(1, {rows}) n"
)
CHANGED_AT_ONCE = 1_000
CAPTURED_WITHIN_S = 900.0


@contextmanager
def opened(rows: int) -> Iterator[Nights]:
    destination = destination_plan(f"{NAME}_warehouse", "bank")
    with ExitStack() as around:
        warehouse = around.enter_context(postgres_database(destination.connection))
        platform = around.enter_context(postgres_database(f"{NAME}_platform"))
        around.enter_context(destination_known_by_id(warehouse, destination.connection))
        around.enter_context(patch.dict("os.environ", {"SEAMLINE_CONNECTION_SEAMLINE_DB": uri(platform)}))
        migrate.upgrade()
        bank = around.enter_context(captured_postgres(NAME, create=(TABLE,), tables=("entry",)))
        bank.execute(FILL.format(rows=rows), "ANALYZE entry")
        bank.plan = replace(bank.with_tables("entry"), destinations=(destination,))
        bank.ensure()
        plan = replace(run_of(bank, ("entry",)).plan, nightly=NightlyPlan(as_of_max_s=86_400))
        store = around.enter_context(closing(registry.platform()))
        nights = Nights(bank, plan, warehouse, None, store)
        start = datetime(2026, 1, 1, tzinfo=UTC)
        around.enter_context(patch("seamline.plan.model.day_of", lambda day, **_: Day(day, start, nights.ends[day])))
        yield nights


def change(nights: Nights, rows: int, changes: int, *, number: int) -> None:
    step = max(1, rows // changes)
    for first in range(0, changes, CHANGED_AT_ONCE):
        ids = f"SELECT n * {step} + 1 FROM generate_series({first}, {first + CHANGED_AT_ONCE - 1}) n"
        nights.bank.execute(f"UPDATE entry SET amount = amount + 1, memo = 'round {number}' WHERE id IN ({ids})")


def captured(nights: Nights) -> float:
    """Wait until the log has all that was committed before; seconds."""
    marker = Marker(uuid.uuid4().hex, "bench", {})
    started = time.monotonic()
    with closing(registry.log_reader(nights.plan)) as reader:
        reader.assign(reader.end_offset())
        registry.logged_source(nights.plan).commit_marker(marker)
        read_until_marker(
            reader, marker_table=nights.plan.source.marker_table, marker_id=marker.id, timeout_s=CAPTURED_WITHIN_S
        )
    return time.monotonic() - started


def timed(nights: Nights, day: date, way: MadeFrom) -> float:
    started = time.monotonic()
    ((cut, found),) = nights.take(day, way).values()
    took = time.monotonic() - started
    assert found.verdict is Verdict.MATCH, found.tables
    nights.publish(cut)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    read, by_log = list[float](), list[float]()
    with opened(asked.rows) as nights:
        nights.ends[yesterday] = datetime.now(UTC).replace(microsecond=0)
        # A first cut, with which the others begin.
        timed(nights, yesterday, MadeFrom.LOG)
        for number in range(1, asked.rounds + 1):
            change(nights, asked.rows, asked.changes, number=number)
            day = yesterday + timedelta(days=number)
            nights.end(day)
            waited = captured(nights)
            by_log.append(timed(nights, day, MadeFrom.LOG))
            read.append(timed(nights, yesterday, MadeFrom.READ))
            print(
                f"round {number}: read {read[-1]:.1f} s, from the log {by_log[-1]:.1f} s,"
                f" after a wait of {waited:.1f} s for the capture"
            )
    ratio = statistics.median(read) / statistics.median(by_log)
    print(f"{day_and_commit()}: {asked.rows:,} rows, {asked.changes:,} changes")
    print(f"read {statistics.median(read):.1f} s, from the log {statistics.median(by_log):.1f} s")
    print(f"{ratio:.2f} x as fast (goal {GOAL:g})")


if __name__ == "__main__":
    main()
