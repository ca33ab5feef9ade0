"""A night of many small tables through Airflow, and a date of one, PostgreSQL → PostgreSQL: from `./seamline cut` until
the cut is published, with its verdict.

It declares, onboards and cuts two syncs by the command line, as a new user does, so the stack must be a new one with
declarations of its own: `SEAMLINE_DATA=… SEAMLINE_DECLARATIONS=… ./seamline up`, then with the same two
`./seamline exec python -m bench.nightly_tables`. A night that does not end with a MATCH of every table does not count.
Goals: 0.1 s a table, all in; 10 s for the date of one table.
"""

import argparse
import statistics
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, date, datetime, timedelta

from seamline import registry
from seamline.domain.verdict import Verdict
from tests.checkout import day_and_commit
from tests.e2e import foreign
from tests.waiting import wait_until

TABLE_GOAL_S, DATE_GOAL_S = 0.1, 10.0
MANY, ONE = "bench_many", "bench_one"
_TABLE = """CREATE TABLE {sync}_{n} (id bigint PRIMARY KEY, account_id bigint NOT NULL, booked_on date NOT NULL,
  amount numeric(20, 4) NOT NULL, currency varchar(3) NOT NULL, memo varchar(140));
INSERT INTO {sync}_{n} SELECT i, i % 97, current_date - 1 - (i % 5)::int, i / 7.0, 'EUR', md5(i::text)
FROM generate_series(1, {rows}) i;"""
_LOGIN = "bench_nights"
_WAIT_S = 3600


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000, help="of each table")
    parser.add_argument("--dates", type=int, default=2, help="dates that are cut one after another")
    chosen = parser.parse_args()
    make({MANY: chosen.tables, ONE: 1}, chosen.rows)
    newest = datetime.now(UTC).date() - timedelta(days=1)
    dates = [newest - timedelta(days=ago) for ago in range(1, chosen.dates + 1)]
    onboard(ONE, newest)
    date_s = statistics.median(night(ONE, day, tables=1) for day in dates)
    onboard(MANY, newest)
    table_s = statistics.median(night(MANY, day, tables=chosen.tables) for day in dates) / chosen.tables
    print(f"a date of one table {date_s:.1f} s (goal ≤ {DATE_GOAL_S:g}); of {chosen.tables:,} tables {table_s:.3f} s")
    print(f"a table (goal ≤ {TABLE_GOAL_S:g})", flush=True)
    return 0 if date_s <= DATE_GOAL_S and table_s <= TABLE_GOAL_S else 1


def make(tables: dict[str, int], rows: int) -> None:
    """By the owner of the server, who is no concern of Seamline's: a database of each sync's tables, and one for all
    copies."""
    foreign.run("postgres", f"CREATE ROLE {_LOGIN} LOGIN REPLICATION PASSWORD 'pw'", f"CREATE DATABASE {_LOGIN}")
    connect(_LOGIN, _LOGIN)
    for sync, count in tables.items():
        foreign.run("postgres", f"CREATE DATABASE {sync}")
        foreign.run(sync, *(_TABLE.format(sync=sync, n=n, rows=rows) for n in range(count)))
        connect(sync, sync)


def connect(connection: str, database: str) -> None:
    seamline("connect", "add", connection, foreign.url(_LOGIN, database), typed="pw\n")


def onboard(sync: str, newest: date) -> None:
    """Until its schedule has made the cut of the newest date."""
    seamline("init", sync, "--from", sync, "--to", _LOGIN, "--yes", "--timezone", "UTC", "--nights-only")
    for owner in (sync, _LOGIN):
        foreign.run(owner, seamline("grants", owner))
    began = time.monotonic()
    seamline("onboard", sync)
    print(f"{sync}: onboarded in {time.monotonic() - began:.1f} s", flush=True)
    with closing(registry.platform()) as store:
        wait_until(lambda: store.cuts(sync, newest), timeout_s=_WAIT_S, what="the scheduled night")


def night(sync: str, day: date, *, tables: int) -> float:
    """Seconds until the cut is published."""
    began = datetime.now(UTC)
    seamline("cut", sync, str(day))
    with closing(registry.platform()) as store:
        found = next(state.found for state in store.cut_states(sync, 10) if state.business_date == day)
        newest = max(store.cuts(sync, day), key=lambda cut: cut.version)
    if found is None or {one.verdict for one in found.tables} != {Verdict.MATCH} or len(found.tables) != tables:
        sys.exit(f"{sync}: the cut of {day} is not a MATCH of {tables:,} tables")
    assert newest.saved_at is not None
    took = (newest.saved_at - began).total_seconds()
    print(f"{sync}: the cut of {day} took {took:.1f} s", flush=True)
    return took


def seamline(*arguments: str, typed: str = "") -> str:
    """Its output; the bench ends where it does not end with 0."""
    command = [sys.executable, "-m", "seamline.cli.main", *arguments]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=_WAIT_S, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    sys.exit(main())
