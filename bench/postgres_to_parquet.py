"""A table of PostgreSQL as Parquet files on a local disk or on S3, beside what others need for it, in one run.

One table of mixed types. Seamline reads it as a snapshot does and writes the files of a load; `published` adds that
they are read again, checked, written as the first files of a destination of changes, read back, and put in place by a
manifest. DuckDB copies what psql writes as CSV into one Parquet file, with the same compression: its own reader of
PostgreSQL is an extension that is fetched from its maker's server, and is not used here. Cases take turns. At the end
DuckDB holds the rows of both against each other.
Goal: the load is at least 0.75 times as fast as DuckDB's copy.

`--into s3`: into a bucket of the server that SEAMLINE_TEST_S3 names (`tests/s3_server.py`). The peer puts the same rows
there as a program of boto3 does: DuckDB's copy as a file on this disk, then boto3's `upload_file` with its own
settings, which sends parts of 8 MB by ten threads. `upload` is a part of that work and no peer: boto3 sends the files
that the load has made, which are encoded already, so nothing is read from PostgreSQL.
Goal: the load is at least 0.6 times as fast as the peer.

On the servers of the local stack: `./seamline exec python -m bench.postgres_to_parquet --rows 1000000`
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import boto3
import duckdb

from bench.postgres_copy import Bench, bench_of
from seamline import registry, settings
from seamline.adapters.connections import parsed
from seamline.domain.digest import Segment
from seamline.domain.table_places import TablePlaces
from seamline.kinds.bulk import ArrowRows, BulkRead, Form
from seamline.kinds.found import sink_kind
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load
from seamline.sinks.files.changes.log import ChangesLog, open_changes_store
from seamline.sinks.files.spec import ChangeFilesDestination
from seamline.sinks.files.staging import staging_of
from seamline.sinks.lake.loads import staged_files
from seamline.sources.postgres.bulk import SnapshotReaders
from seamline.sources.postgres.client import open_session
from seamline.sources.postgres.sessions import SharedSnapshot, seen_by
from seamline.stack.postgres import binaries
from tests import s3_server
from tests.checkout import day_and_commit
from tests.log_topic import STREAM, publication, sync_plan
from tests.s3_server import ObjectStore

CONNECTION = "bench_objects"
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


@dataclass(frozen=True)
class Disk:
    """A place for files, beside which the peer's lie. `folder`: of this machine, for what is neither's."""

    folder: Path
    peer: ClassVar[str] = "DuckDB"
    goal: ClassVar[float] = 0.75

    def location(self, turn: int) -> str:
        place = self.folder / f"turn {turn}"
        place.mkdir()
        return str(place)

    def declared(self) -> dict[str, str]:
        return {}

    def by_peer(self, bench: Bench, copied: Path) -> float:
        """Seconds that the peer takes; a file of its rows is at `copied` afterwards."""
        return by_duckdb(bench, copied)

    def upload(self, load: Load, plan: SyncPlan) -> float | None:  # noqa: ARG002 (there is none)
        return None

    def local(self, location: str, paths: Sequence[str]) -> list[str]:
        return [f"{location}/{path}" for path in paths]


@dataclass(frozen=True)
class Bucket(Disk):
    """On the server that is named."""

    store: ObjectStore
    client: Any
    peer: ClassVar[str] = "boto3"
    goal: ClassVar[float] = 0.6

    def location(self, turn: int) -> str:
        return f"s3://{self.store.bucket}/{turn}"

    def declared(self) -> dict[str, str]:
        return {"connection": CONNECTION}

    def by_peer(self, bench: Bench, copied: Path) -> float:
        began = time.monotonic()
        by_duckdb(bench, copied)
        self.client.upload_file(str(copied), self.store.bucket, f"peer/{copied.name}")
        return time.monotonic() - began

    def upload(self, load: Load, plan: SyncPlan) -> float | None:
        files = [self._fetched(str(path)) for path in staged_files(staging_of(plan.destinations[0]), load).paths]
        began = time.monotonic()
        for file in files:
            self.client.upload_file(str(file), self.store.bucket, f"upload/{file.name}")
        return time.monotonic() - began

    def local(self, location: str, paths: Sequence[str]) -> list[str]:
        return [str(self._fetched(f"{location}/{path}")) for path in paths]

    def _fetched(self, url: str) -> Path:
        key = url.removeprefix(f"s3://{self.store.bucket}/")
        target = self.folder / key.rpartition("/")[2]
        self.client.download_file(self.store.bucket, key, str(target))
        return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--into", choices=("disk", "s3"), default="disk")
    chosen = parser.parse_args()
    if chosen.into == "s3" and s3_server.NAMED not in settings.process_environment():
        parser.error(f"name a server by {s3_server.NAMED}: moto in this process would be measured too")
    seconds = defaultdict[str, list[float]](list)
    with bench_of(chosen.rows) as bench, place_of(chosen.into) as place:
        for turn in range(chosen.repeats + 1):
            for name, took_s in one_turn(bench, place, turn, chosen.rows).items():
                if turn:  # the first one warms caches
                    seconds[name].append(took_s)
                    print(f"{name:10s} {took_s:7.2f} s  {chosen.rows / took_s / 1000:7.0f} krow/s", flush=True)
    middle = {name: statistics.median(took) for name, took in seconds.items()}
    ratios = {name: middle[place.peer] / took for name, took in middle.items()}
    said = f"load {ratios['load']:.2f}× {place.peer}, goal {place.goal}×"
    print(f"\n{chosen.rows:,} rows, median of {chosen.repeats}: {said}; published {ratios['published']:.2f}×")
    return 0 if ratios["load"] >= place.goal else 1


@contextmanager
def place_of(into: str) -> Iterator[Disk]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        if into == "disk":
            yield Disk(Path(folder))
            return
        store = opened.enter_context(s3_server.running())
        known = {f"SEAMLINE_CONNECTION_{CONNECTION.upper()}": store.connection}
        opened.enter_context(patch.dict("os.environ", known))
        at = parsed(store.connection)
        client = boto3.client(
            "s3",
            aws_access_key_id=at.login,
            aws_secret_access_key=at.password,
            endpoint_url=at.extra.get("endpoint_url"),
            region_name=at.extra.get("region_name", "us-east-1"),
        )
        yield Bucket(Path(folder), store, opened.enter_context(closing(client)))


def one_turn(bench: Bench, place: Disk, turn: int, rows: int) -> dict[str, float]:
    """Seconds of each case, its rows checked."""
    copied = place.folder / f"copied {turn}.parquet"
    peer_s = place.by_peer(bench, copied)
    load, load_s = by_seamline(bench, plan := plan_of(bench, place, turn))
    upload_s = place.upload(load, plan)
    publish_s = published(plan, load)
    require_equal(plan, place, copied, rows=rows)
    took = {place.peer: peer_s, "load": load_s, "published": load_s + publish_s}
    return took if upload_s is None else {**took, "upload": upload_s}


def plan_of(bench: Bench, place: Disk, turn: int) -> SyncPlan:
    location, connection = place.location(turn), place.declared()
    said = {"destination": "warehouse", "kind": "change_files", "location": location, "format": "parquet", **connection}
    declared = ChangeFilesDestination.model_validate(said)
    options = tuple(declared.options.items())
    destination = DestinationPlan(
        "warehouse", "change_files", connection.get("connection", ""), location, options=options, no_cuts=True
    )
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


def require_equal(plan: SyncPlan, place: Disk, copied: Path, *, rows: int) -> None:
    """RuntimeError where the two hold other rows."""
    (destination,) = plan.destinations
    with closing(open_changes_store(destination)) as store:
        state = ChangesLog(store, plan.sync).look().state.streams[STREAM]
    files = place.local(destination.namespace, [file.path for file in state.tables["entry"].files])
    ours, theirs = f"SELECT {NAMES} FROM read_parquet({files})", f"SELECT {NAMES} FROM read_parquet('{copied}')"
    with duckdb.connect() as session:
        count = session.sql(f"SELECT count(*) FROM ({ours})").fetchall()
        differing = session.sql(f"SELECT count(*) FROM (({ours}) EXCEPT ({theirs}))").fetchall()
    if count != [(rows,)] or differing != [(0,)]:
        raise RuntimeError(f"{count} rows, of which {differing} are not those that DuckDB has copied")


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    sys.exit(main())
