"""The copy stage of a snapshot, MariaDB → PostgreSQL or PostgreSQL → MariaDB, beside what else moves a table.

One table of mixed types, copied to a finished table (rows, key, statistics) by: Seamline's snapshot in a warm Spark
session; into PostgreSQL the text pipe `mariadb --quick | psql COPY`; Spark JDBC → JDBC in the same session, as its
documentation has it and at the best settings found (two partitions, large fetches and batches, each sent as one
statement or by the server's bulk protocol). Cases take turns, the destination is fresh each time, and a case counts
only if the typed digest of its result equals the source's.
Goals: into PostgreSQL at least 1.2 times the text pipe and 3 times Spark JDBC at its best, into MariaDB 2 times the
latter; into Iceberg, from PostgreSQL, 1.7 times Spark JDBC with two partitions and 2.5 times as documented.
`./seamline exec python -m bench.snapshot_copy --rows 2000000`, and the same with `--into mariadb` or `--into iceberg`
"""

import argparse
import statistics
import sys
import time

import psutil

from bench import mariadb_to_postgres, postgres_to_iceberg, postgres_to_mariadb
from bench.copied_table import Bench, Case, check
from tests.checkout import day_and_commit

ROUTES = {
    "postgres": mariadb_to_postgres.opened,
    "mariadb": postgres_to_mariadb.opened,
    "iceberg": postgres_to_iceberg.opened,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", choices=tuple(ROUTES), default="postgres")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    with ROUTES[chosen.into](chosen.rows) as bench:
        for case in bench.cases.values():
            measured(bench, case)  # the first time warms workers, caches and classes
        seconds: dict[str, list[float]] = {name: [] for name in bench.cases}
        spent: dict[str, list[float]] = {name: [] for name in bench.cases}
        for _ in range(chosen.repeats):
            for name, case in bench.cases.items():
                took_s, cpu_s = measured(bench, case)
                seconds[name].append(took_s)
                spent[name].append(cpu_s / chosen.rows * 1e6)
                print(f"{name:26s} {took_s:7.2f} s  {chosen.rows / took_s / 1000:7.0f} krow/s", flush=True)
        return report(bench, seconds, spent)


def report(bench: Bench, seconds: dict[str, list[float]], spent: dict[str, list[float]]) -> int:
    print(f"\n{bench.rows:,} rows, median of {len(seconds['seamline'])} (least to most), values checked each time")
    print(f"{'case':26s} {'s':>20s} {'krow/s':>8s} {'CPU-s per million':>18s} {'Seamline is':>12s} {'goal':>6s}")
    own = statistics.median(seconds["seamline"])
    reached = True
    for name, times in seconds.items():
        middle = statistics.median(times)
        spread = f"{middle:.2f} ({min(times):.2f} to {max(times):.2f})"
        ratio, goal = middle / own, bench.goals.get(name)
        reached = reached and (goal is None or ratio >= goal)
        compared = f"{ratio:11.2f}x {goal or '':>6}" if name != "seamline" else ""
        rate = bench.rows / middle / 1000
        print(f"{name:26s} {spread:>20s} {rate:8.0f} {statistics.median(spent[name]):18.2f} {compared}")
    return 0 if reached else 1


def measured(bench: Bench, case: Case) -> tuple[float, float]:
    """(seconds, CPU-seconds of all processes of the machine that took part) of one case, its result checked."""
    bench.settle()
    cpu, began = machine_cpu_s(), time.monotonic()
    place = case(bench)
    took_s, cpu_s = time.monotonic() - began, machine_cpu_s() - cpu
    check(bench, place)
    bench.drop(place)
    return took_s, cpu_s


def machine_cpu_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    sys.exit(main())
