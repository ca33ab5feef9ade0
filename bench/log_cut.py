"""A cut from the log beside one that is read: a table of 1 M rows that is read whole, of which 100,000 have changed.

Source and destination are databases of PostgreSQL. The first date is read; then a tenth of the rows changes, in
transactions of 1,000, and the date after it is made from the log. Beside it the same rows are read. Both are timed from
the start of the night's job to its verdict, in this process: staging, comparison and self-test, without Spark and
without Airflow. The capture has brought all changes before, as it has when a night begins; how long that took is
printed beside. Each round has a new date. Both must be a MATCH.
Goal: from the log at least 2 x as fast as by a read.

On the servers of the local stack: `./seamline exec python -m bench.log_cut --rows 1000000 --changes 100000`

With `--steps` it prints where the seconds of each cut went. With `--dates 30` it makes that many dates from the log
alone, after all of them have ended, as a backfill does: each has its own changes, and each must be a MATCH.
"""

import argparse
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

from seamline import registry
from seamline.domain.calendar import Day
from seamline.domain.log_patch import LOG
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
from tests.waiting import wait_until

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
Watch = Callable[[], AbstractContextManager[None]]
# By name the function whose seconds they are. An indented one is a part of the one before it.
STEPS = {
    "read the log": "seamline.bulk.log_cut.read_to_cut_off",
    "its changes as texts": "seamline.values.log_patch.patch_of",
    "prove the earlier cut": "seamline.bulk.log_cut.require_as_proven",
    "stage from the cut": "seamline.sinks.postgres.carry_on.carry_on",
    "  its key and ANALYZE": "seamline.sinks.postgres.carry_on.index_rows",
    "stage from the source": "seamline.sinks.postgres.staging.fill",
    "  the key and ANALYZE": "seamline.sinks.postgres.staging.build_index",
    "compare": "seamline.sync.nightly_cut.compare_tables",
    "  the proof by keys": "seamline.bulk.log_cut.proven_by_keys",
    "self-test": "seamline.sync.nightly_cut.self_tested",
}


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


def end(nights: Nights, day: date) -> None:
    """As `Nights.end`, which also keeps all rows: that many objects would slow down what is measured."""
    nights.ends[day] = ends = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    wait_until(lambda: datetime.now(UTC) >= ends, timeout_s=5, what="the end of the date")


@contextmanager
def stepped() -> Iterator[None]:
    """Prints the seconds of each step that was taken."""
    took: dict[str, float] = {}

    def measured(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            started = time.monotonic()
            try:
                return step(*args, **named)
            finally:
                took[name] = took.get(name, 0.0) + time.monotonic() - started

        return run

    with ExitStack() as around:
        for name, place in STEPS.items():
            around.enter_context(patch(place, measured(name, resolve_name(place))))
        yield
    for name in STEPS:
        if name in took:
            print(f"    {name:<24}{took[name]:7.2f} s")


def timed(nights: Nights, day: date, way: MadeFrom, watched: Watch = nullcontext) -> float:
    started = time.monotonic()
    with watched():
        ((cut, found),) = nights.take(day, way).values()
    took = time.monotonic() - started
    assert found.verdict is Verdict.MATCH, found.tables
    assert way is not MadeFrom.LOG or nights.runs == 1 or found.mode == LOG, found.evidence
    nights.publish(cut)
    return took


def backfill(nights: Nights, first: date, rows: int, changes: int, dates: int) -> None:
    """Makes dates from the log that have all ended before, the oldest first."""
    days = [first + timedelta(days=number) for number in range(1, dates + 1)]
    for number, day in enumerate(days, start=1):
        change(nights, rows, changes, number=number)
        end(nights, day)
    waited = captured(nights)
    took = [timed(nights, day, MadeFrom.LOG) for day in days]
    print(f"{day_and_commit()}: {rows:,} rows, {dates} dates of {changes:,} changes, after a wait of {waited:.1f} s")
    print(f"all {len(took)} are MATCH: {sum(took):.1f} s, of which each took {min(took):.1f} to {max(took):.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", action="store_true", help="print where the seconds of each cut went")
    parser.add_argument("--dates", type=int, default=0, help="make so many dates from the log, and measure no reads")
    asked = parser.parse_args()
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    read, by_log = list[float](), list[float]()
    watched: Watch = stepped if asked.steps else nullcontext
    with opened(asked.rows) as nights:
        nights.ends[yesterday] = datetime.now(UTC).replace(microsecond=0)
        # A first cut, with which the others begin.
        timed(nights, yesterday, MadeFrom.LOG)
        if asked.dates:
            backfill(nights, yesterday, asked.rows, asked.changes, asked.dates)
            return
        for number in range(1, asked.rounds + 1):
            change(nights, asked.rows, asked.changes, number=number)
            day = yesterday + timedelta(days=number)
            end(nights, day)
            waited = captured(nights)
            by_log.append(timed(nights, day, MadeFrom.LOG, watched))
            read.append(timed(nights, yesterday, MadeFrom.READ, watched))
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
