"""The typed digest of an Iceberg table of 2 M rows, beside DuckDB's scan of the same rows.

Seamline's is what a comparison asks of a lake: every value in its canonical form, hashed by row, summed by bucket. Its
peer says less, one number for the whole table: DuckDB adds up SHA-256 of each row's text over the batches that
pyiceberg reads. A tenth of the rows has been changed since the load, so both apply deletes. Goal: at most 1.3 times as
long.

On the servers of the local stack: `./seamline exec python -m bench.lake_digest`.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing

import duckdb

from bench.lake_changes import WAYS, lake, publish_first
from bench.lake_table import TABLE, History, table_changes
from seamline import registry
from seamline.domain.digest import Segment
from seamline.domain.log import Span
from seamline.kinds.found import power, sink_kind
from seamline.kinds.sink import ReadsBack
from seamline.plan.model import SyncPlan
from seamline.ports import Progress
from seamline.sinks.iceberg.kind import Iceberg
from tests.checkout import day_and_commit
from tests.log_topic import STREAM, position

GOAL = 1.3
SCAN = (
    "SELECT count(*), sum(('0x' || substr(sha256(concat_ws(',', id, account_id, currency, amount, booked_at,"
    " value_date, memo)), 1, 15))::BIGINT::HUGEINT) FROM entries"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with lake(WAYS["native"]) as (plan, _):
        publish_first(plan, chosen.rows)
        change(plan, History(chosen.rows, chosen.rows // 10))
        cases = {"seamline": lambda: digest(plan), "duckdb": lambda: scan(plan)}
        seconds = {name: [timed(case) for _ in range(chosen.rounds + 1)][1:] for name, case in cases.items()}
    for name, times in seconds.items():
        print(f"{name:10s} {statistics.median(times):6.2f} s ({min(times):.2f} to {max(times):.2f})")
    ratio = statistics.median(seconds["seamline"]) / statistics.median(seconds["duckdb"])
    print(f"{chosen.rows:,} rows; Seamline's takes {ratio:.2f}× (goal ≤ {GOAL:g}×)")
    return 0 if ratio <= GOAL else 1


def change(plan: SyncPlan, history: History) -> None:
    with closing(registry.sink(plan, plan.destinations[0].name)) as sink:
        lease = sink.acquire(STREAM)
        staged = [sink.stage(lease, table_changes(history.next(), offset=0))]
        sink.commit(lease, staged, progress=Progress(Span(0, 1, 1, position(1), 1_700_000_000_000)))


def digest(plan: SyncPlan) -> None:
    (destination,) = plan.destinations
    (view,) = power(sink_kind(destination.kind), ReadsBack, to="be read").open_live(plan, destination, 1)
    with closing(view):
        assert view.digests(Segment(TABLE.name), run_key="bench")


def scan(plan: SyncPlan) -> None:
    table = Iceberg().open_tables(plan.destinations[0], STREAM, "live")[TABLE.name]
    with duckdb.connect() as session:
        session.register("entries", table.arrow())
        assert session.execute(SCAN).fetchone()


def timed(case: Callable[[], None]) -> float:
    began = time.perf_counter()
    case()
    return time.perf_counter() - began


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    sys.exit(main())
