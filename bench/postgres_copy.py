"""The copy stage of a snapshot, PostgreSQL → PostgreSQL, side by side with two psqls and a pipe.

One table of mixed types, copied by Seamline's readers (sessions that join an exported snapshot, binary COPY passed on)
and by `psql COPY BINARY | psql COPY`. `copy` is the rows alone; `finished` adds key and statistics on Seamline's side
only, and is held against the pipe's rows alone. Cases take turns, the destination is fresh each time, and a case counts
only if the typed digest of its result equals the source's.
Goals: copy at least 0.85 times the pipe, finished at least 0.65 times.
`./seamline exec python -m bench.postgres_copy --rows 2000000`
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.read import Relation, open_views
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.table_places import TablePlaces
from seamline.kinds.bulk import BulkRead, Form, PostgresCopy, StagedPlace
from seamline.plan.model import DestinationPlan, SourcePlan
from seamline.sinks.postgres.staging import StagingArea, build_index, relation
from seamline.sources.postgres.bulk import SnapshotReaders
from seamline.sources.postgres.catalogue import read_catalogue
from seamline.sources.postgres.client import open_session
from seamline.sources.postgres.position import PostgresPosition
from seamline.sources.postgres.sessions import SharedSnapshot, seen_by
from seamline.stack.postgres import binaries
from tests.checkout import day_and_commit
from tests.integration.databases import postgres, postgres_database

DESTINATION = DestinationPlan("warehouse", "postgres", "bench_pg_copy", "bench")
SOURCE = SourcePlan(
    name="bench",
    kind="postgres",
    database="bench_pg_copy",
    reader="",
    capture="",
    marker="",
    log_topic="",
    connector="",
    schema="public",
)
GOALS = {"copy": 0.85, "finished": 0.65}
DDL = """
CREATE TABLE entry (
  id bigint PRIMARY KEY, account_id int NOT NULL, status_code smallint NOT NULL, currency text NOT NULL,
  amount numeric(18,4) NOT NULL, fee numeric(12,4), merchant varchar(60), rate double precision,
  booked_at timestamptz NOT NULL, value_date date, reference varchar(40), note text, flag smallint NOT NULL,
  updated_at timestamp)
"""
FILL = """
INSERT INTO entry SELECT n, n * 7919 % 100003, n % 40, (array['EUR', 'USD', 'CNY'])[n % 3 + 1],
  (n * 104729 % 100000000) / 10000.0 - 5000, CASE WHEN n % 5 > 0 THEN (n % 997) / 100.0 END,
  CASE WHEN n % 7 > 0 THEN 'Händler ' || n % 5000 END, CASE WHEN n % 11 > 0 THEN n / 7.0 END,
  timestamptz '2026-01-01' + n * interval '13.000001 seconds', date '2020-01-01' + (n % 2000)::int,
  'R' || lpad(n::text, 12, '0'), CASE WHEN n % 3 > 0 THEN 'memo, "quoted" ' || n % 100 || ' 工资' END, n % 2,
  timestamp '2026-01-01' + n * interval '17 seconds' FROM generate_series(1::bigint, {rows}) n
"""


@dataclass(frozen=True, slots=True)
class Bench:
    database: Connection
    table: Table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    seconds: dict[str, list[float]] = {"psql pipe": [], "copy": [], "finished": []}
    with bench_of(chosen.rows) as bench:
        for turn in range(chosen.repeats + 1):
            (pipe_s, _), (copy_s, key_s) = measured(bench, by_psql), measured(bench, by_seamline)
            if turn:  # the first one warms caches
                for name, took_s in (("psql pipe", pipe_s), ("copy", copy_s), ("finished", copy_s + key_s)):
                    seconds[name].append(took_s)
                    print(f"{name:10s} {took_s:7.2f} s  {chosen.rows / took_s / 1000:7.0f} krow/s", flush=True)
    return report(seconds, rows=chosen.rows)


def report(seconds: dict[str, list[float]], *, rows: int) -> int:
    print(f"\n{rows:,} rows, median of {len(seconds['copy'])} (least to most), values checked each time")
    pipe, reached = statistics.median(seconds["psql pipe"]), True
    for name, times in seconds.items():
        middle, goal = statistics.median(times), GOALS.get(name)
        reached = reached and (goal is None or pipe / middle >= goal)
        ratio = f"{pipe / middle:6.2f}x the pipe, goal {goal}" if goal else ""
        spread = f"{middle:6.2f} s ({min(times):.2f} to {max(times):.2f})"
        print(f"{name:10s} {spread} {rows / middle / 1000:7.0f} krow/s {ratio}")
    return 0 if reached else 1


@contextmanager
def bench_of(rows: int) -> Iterator[Bench]:
    with postgres_database("bench_pg_copy") as database:
        with postgres(database) as session:
            session.execute(DDL)
            session.execute(FILL.format(rows=rows).encode())
            session.execute("VACUUM ANALYZE entry")
        with closing(open_session(database)) as session:
            (table,) = read_catalogue(session, SOURCE, ["entry"])
        yield Bench(database, table)


def measured(bench: Bench, case: Callable[[Bench, StagedPlace], None]) -> tuple[float, float]:
    """(seconds for the rows, seconds for key and statistics) of one case, its result checked."""
    area = StagingArea(bench.database, DESTINATION, run_id=f"bench {time.monotonic_ns()}")
    place = area.create([bench.table])["entry"]
    with postgres(resolve("postgres_root")) as session:
        session.execute("CHECKPOINT")
    began = time.monotonic()
    case(bench, place)
    copied = time.monotonic()
    build_index(bench.database, place)
    finished = time.monotonic()
    check(bench, place)
    area.drop()
    return copied - began, finished - copied


def by_seamline(bench: Bench, place: StagedPlace) -> None:
    with closing(open_session(bench.database)) as holder:
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        seen = seen_by(holder)
        row = holder.execute("SELECT pg_export_snapshot()").fetchone()
        shared = SharedSnapshot(str(row[0]) if row else "", seen)
        reads = [BulkRead(bench.table, Segment("entry"), 0, Form.NATIVE)]
        readers = SnapshotReaders(bench.database, TablePlaces("public"), reads, shared)
        with closing(readers), postgres(bench.database) as session, session.transaction(), session.cursor() as cursor:
            readers.open_at_barrier()
            cursor.execute(f"TRUNCATE {relation(place)}".encode())
            with cursor.copy(f"COPY {relation(place)} FROM STDIN (FORMAT binary, FREEZE)".encode()) as copy:
                rows = readers.rows(0, proven=lambda _: None)
                for chunk in rows.blocks if isinstance(rows, PostgresCopy) else ():
                    copy.write(chunk)


def by_psql(bench: Bench, place: StagedPlace) -> None:
    at = bench.database
    psql = [str(binaries() / "psql"), "-q", "-h", at.host, "-p", str(at.port), "-U", at.login, "-d", at.database]
    psql += ["-v", "ON_ERROR_STOP=1", "-c"]
    env = {**settings.process_environment(), "PGPASSWORD": at.password}
    out, into = "COPY entry TO STDOUT (FORMAT binary)", f"COPY {relation(place)} FROM STDIN (FORMAT binary)"
    reader = subprocess.Popen([*psql, out], stdout=subprocess.PIPE, env=env)
    subprocess.run([*psql, into], stdin=reader.stdout, env=env, check=True)
    if reader.wait() != 0:
        raise RuntimeError("psql could not read")


def check(bench: Bench, place: StagedPlace) -> None:
    """The typed digest of every exact column."""
    digests = []
    for where in (Relation("public", "entry"), Relation(place.schema, place.name)):
        (view,) = open_views(
            bench.database,
            tables=[bench.table],
            relations={"entry": where},
            count=1,
            position_of=lambda _: PostgresPosition(0),
        )
        with closing(view):
            digests.append(view.digests(Segment("entry"), run_key="bench"))
    if digests[0] != digests[1]:
        raise RuntimeError(f"{quoted(place.name)} does not hold what the source holds: this case alters values")


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    sys.exit(main())
