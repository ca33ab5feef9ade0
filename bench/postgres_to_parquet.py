"""A table of PostgreSQL as Parquet files on a local disk, beside DuckDB's own copy of the same rows, in one run.

One table of mixed types. Seamline reads it as a snapshot does and writes the files of a load; `published` adds that
they are read again, checked, written as the first files of a destination of changes, read back, and put in place by a
manifest. DuckDB copies what psql writes as CSV into one Parquet file, with the same compression: its own reader of
PostgreSQL is an extension that is fetched from its maker's server, and is not used here. Cases take turns. At the end
DuckDB holds the rows of both against each other.
Goal: the load is at least 0.75 times as fast as DuckDB's copy.

On the servers of the local stack: `./seamline exec python -m bench.postgres_to_parquet --rows 1000000`
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb

from bench.postgres_copy import Bench, bench_of
from seamline import registry, settings
from seamline.domain.digest import Segment
from seamline.domain.table_places import TablePlaces
from seamline.kinds.bulk import ArrowRows, BulkRead, Form
from seamline.kinds.found import sink_kind
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load
from seamline.sinks.files.changes.log import ChangesLog, open_changes_store
from seamline.sinks.files.spec import ChangeFilesDestination
from seamline.sources.postgres.bulk import SnapshotReaders
from seamline.sources.postgres.client import open_session
from seamline.sources.postgres.sessions import SharedSnapshot, seen_by
from seamline.stack.postgres import binaries
from tests.checkout import day_and_commit
from tests.log_topic import STREAM, publication, sync_plan

GOAL = 0.75
COLUMNS = {
    "id": "BIGINT",
    "account_id": "INTEGER",
    "status_code": "SMALLINT",
    "currency": "VARCHAR",
    "amount": "DECIMAL(18,4)",
    "fee": "DECIMAL(12,4)",
    "merchant": "VARCHAR",
    "rate": "DOUBLE",
    "booked_at": "TIMESTAMPTZ",
    "value_date": "DATE",
    "reference": "VARCHAR",
    "note": "VARCHAR",
    "flag": "SMALLINT",
    "updated_at": "TIMESTAMP",
}
NAMES = ", ".join(COLUMNS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    seconds: dict[str, list[float]] = {"DuckDB": [], "load": [], "published": []}
    with bench_of(chosen.rows) as bench, tempfile.TemporaryDirectory() as folder:
        for turn in range(chosen.repeats + 1):
            place = Path(folder, str(turn))
            place.mkdir()
            duckdb_s = by_duckdb(bench, place / "copied.parquet")
            load, load_s = by_seamline(bench, plan := plan_of(bench, place))
            publish_s = published(plan, load)
            require_equal(plan, place / "copied.parquet", rows=chosen.rows)
            if turn:  # the first one warms caches
                for name, took_s in zip(seconds, (duckdb_s, load_s, load_s + publish_s), strict=True):
                    seconds[name].append(took_s)
                    print(f"{name:10s} {took_s:7.2f} s  {chosen.rows / took_s / 1000:7.0f} krow/s", flush=True)
    middle = {name: statistics.median(took) for name, took in seconds.items()}
    ratios = {name: middle["DuckDB"] / took for name, took in middle.items()}
    print(
        f"\n{chosen.rows:,} rows, median of {chosen.repeats}: load {ratios['load']:.2f}× DuckDB's copy, goal {GOAL}×;"
    )
    print(f"published {ratios['published']:.2f}×")
    return 0 if ratios["load"] >= GOAL else 1


def plan_of(bench: Bench, place: Path) -> SyncPlan:
    said = {"destination": "warehouse", "kind": "change_files", "location": str(place), "format": "parquet"}
    declared = ChangeFilesDestination.model_validate(said)
    options = tuple(declared.options.items())
    destination = DestinationPlan("warehouse", "change_files", "", str(place), options=options, no_cuts=True)
    return replace(sync_plan((bench.table,)), destinations=(destination,))


def by_seamline(bench: Bench, plan: SyncPlan) -> tuple[Load, float]:
    kind, (destination,) = sink_kind("change_files"), plan.destinations
    place = kind.load_area(destination, run_id="bench").create([bench.table])[bench.table.name]
    with closing(open_session(bench.database)) as holder:
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        seen = seen_by(holder)
        row = holder.execute("SELECT pg_export_snapshot()").fetchone()
        shared = SharedSnapshot(str(row[0]) if row else "", seen)
        began = time.monotonic()
        reads = [BulkRead(bench.table, Segment("entry"), 0, Form.TYPED)]
        with closing(SnapshotReaders(bench.database, TablePlaces("public"), reads, shared)) as readers:
            readers.open_at_barrier()
            rows = readers.rows(0, proven=lambda _: None)
            assert isinstance(rows, ArrowRows)
            count = kind.load(destination, place, rows)
        return Load(bench.table, place.name, count), time.monotonic() - began


def published(plan: SyncPlan, load: Load) -> float:
    began = time.monotonic()
    with closing(registry.sink(plan, "warehouse")) as sink:
        sink.publish(STREAM, [load], publication=publication((load.table,)))
    return time.monotonic() - began


def by_duckdb(bench: Bench, target: Path) -> float:
    began = time.monotonic()
    at = bench.database
    psql = [str(binaries() / "psql"), "-q", "-h", at.host, "-p", str(at.port), "-U", at.login, "-d", at.database]
    psql += ["-v", "ON_ERROR_STOP=1", "-c", f"COPY (SELECT {NAMES} FROM entry) TO STDOUT (FORMAT csv)"]
    env = {**settings.process_environment(), "PGPASSWORD": at.password}
    with subprocess.Popen(psql, stdout=subprocess.PIPE, env=env) as reader, duckdb.connect() as session:
        assert reader.stdout is not None
        source = f"read_csv('/dev/fd/{reader.stdout.fileno()}', columns={COLUMNS}, header=false, auto_detect=false)"
        session.execute(f"COPY (SELECT * FROM {source}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
    if reader.returncode:
        raise RuntimeError("psql could not read")
    return time.monotonic() - began


def require_equal(plan: SyncPlan, copied: Path, *, rows: int) -> None:
    """RuntimeError where the two hold other rows."""
    (destination,) = plan.destinations
    with closing(open_changes_store(destination)) as store:
        state = ChangesLog(store, plan.sync).look().state.streams[STREAM]
    files = [f"{destination.namespace}/{file.path}" for file in state.tables["entry"].files]
    ours, theirs = f"SELECT {NAMES} FROM read_parquet({files})", f"SELECT {NAMES} FROM read_parquet('{copied}')"
    with duckdb.connect() as session:
        count = session.sql(f"SELECT count(*) FROM ({ours})").fetchall()
        differing = session.sql(f"SELECT count(*) FROM (({ours}) EXCEPT ({theirs}))").fetchall()
    if count != [(rows,)] or differing != [(0,)]:
        raise RuntimeError(f"{count} rows, of which {differing} are not those that DuckDB has copied")


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    sys.exit(main())
