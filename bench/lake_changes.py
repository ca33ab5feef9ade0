"""Changes into a lake's table of 2 M rows: Seamline's ways to write beside pyiceberg's own upsert and dlt's merge.

Each commit is a batch of changes, 80 % updates, 10 % deletes, 10 % inserts, spread over the whole table. Seamline
stages and commits what its span loop hands over (rows as a capture logs them), with its ledger in the same transaction.
Its peer gets the same rows as Arrow: `Table.upsert` of what is there behind the batch, `Table.delete` of what is not;
it keeps no progress, so the bench keeps it beside. Each writer is a process of its own. At the end both tables are read
by pyiceberg and held against the expected rows. With `--kill` each writer is killed (SIGKILL) so often, at any moment,
and goes on from its own progress.
Goals at 100,000 changes a commit: Iceberg without Spark 150,000 changes a second, by Spark 20,000; Delta 10,000.

On the servers of the local stack: `./seamline exec python -m bench.lake_changes`, `--ways spark delta --batches 6`, and
`--kill 5 --size 2000`.
"""

import argparse
import multiprocessing
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from bench import lake_dlt
from bench.lake_table import TABLE, History, rows_of, table_changes
from seamline import registry
from seamline.adapters.connections import Connection, resolve
from seamline.domain.log import Span
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import power, sink_kind
from seamline.kinds.frames import Frames
from seamline.kinds.sink import ReadsAtOnePosition
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load, Progress
from seamline.sinks.iceberg.types import typed
from seamline_spark.frames import SparkFrames
from seamline_spark.stream_host.main import end_spark, start_spark
from tests.checkout import day_and_commit
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id
from tests.log_topic import STREAM, position, publication, sync_plan

NAME = "bench_lake"


@dataclass(frozen=True, slots=True)
class Way:
    """A way of ours to write. `goal`: changes a second."""

    kind: str
    goal: int
    options: Mapping[str, str]


WAYS = {
    "native": Way("iceberg", 150_000, {"catalog": "lake", "write": "native"}),
    "spark": Way("iceberg", 20_000, {"catalog": "lake", "write": "spark"}),
    "delta": Way("delta", 10_000, {}),
}


@dataclass(frozen=True, slots=True)
class Job:
    """What a writer is to do: batches up to `batches`, exclusive, from its own progress on."""

    plan: str
    warehouse: str
    rows: int
    size: int
    batches: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=["native"])
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=100_000, help="changes of a commit")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--peer-size", type=int, default=2_000, help="changes of a commit of the peer, which is slower")
    parser.add_argument("--peer-batches", type=int, default=3)
    parser.add_argument("--kill", type=int, default=0, help="how often each writer is killed")
    chosen = parser.parse_args()
    rates = {}
    for name in chosen.ways:
        with lake(WAYS[name]) as (plan, warehouse):
            publish_first(plan, chosen.rows)
            ours = Job(plan_to_json(plan), warehouse, chosen.rows, chosen.size, chosen.batches)
            rates[name] = rate(f"seamline, {name}", ours, by_seamline, read_ours, kills=chosen.kill)
    of_peers = {}
    for name in chosen.peers:
        with lake(WAYS["native"]) as (plan, warehouse):
            theirs = Job(plan_to_json(plan), warehouse, chosen.rows, chosen.peer_size, chosen.peer_batches)
            create, write, read = PEERS[name]
            create(theirs)
            of_peers[name] = rate(name, theirs, write, read, kills=chosen.kill)
    for name, found in rates.items():
        against = ", ".join(f"{found / of_peer:.0f}× {peer}" for peer, of_peer in of_peers.items())
        print(f"{name}: {against}; goal ≥ {WAYS[name].goal:,}/s; all rows as expected", flush=True)
    return 0 if all(found >= WAYS[name].goal for name, found in rates.items()) else 1


def rate(
    name: str, job: Job, write: Callable[[Job, Pipe], None], read: Callable[[Job], pa.Table], *, kills: int
) -> float:
    """Changes a second, by the median commit. RuntimeError where a row is lost, doubled or stale."""
    seconds = written(job, write, kills=kills)
    expected = History(job.rows, job.size)
    for _ in range(job.batches):
        expected.next()
    expected.require(read(job))
    found = job.size / statistics.median(seconds)
    spread = f"{statistics.median(seconds):.3f} s ({min(seconds):.3f} to {max(seconds):.3f})"
    print(f"{name:18s} {job.size:8,} changes a commit  {spread}  {found:10,.0f} changes/s", flush=True)
    return found


@contextmanager
def lake(way: Way) -> Iterator[tuple[SyncPlan, str]]:
    with (
        postgres_database(NAME) as owner,
        destination_known_by_id(owner, NAME),
        tempfile.TemporaryDirectory(prefix=NAME) as warehouse,
    ):
        options = tuple({**way.options, "warehouse": warehouse}.items())
        destination = DestinationPlan(
            "warehouse", way.kind, NAME, "bank", writer_connection=f"{NAME}_writer", options=options
        )
        yield replace(sync_plan([TABLE]), destinations=(destination,)), warehouse


def publish_first(plan: SyncPlan, rows: int) -> None:
    (destination,) = plan.destinations
    kind = sink_kind(destination.kind)
    place = kind.load_area(destination, run_id=NAME).create([TABLE])[TABLE.name]
    batches = [typed(TABLE, batch) for batch in History(rows, 0).first().to_batches(max_chunksize=100_000)]
    count = kind.load(destination, place, ArrowRows(batches[0].schema, iter(batches)))
    with closing(registry.sink(plan, destination.name)) as sink:
        sink.publish(STREAM, [Load(TABLE, place.name, count)], publication=publication([TABLE]))


# ---- writers, each in a process of its own --------------------------------------------------------------------------


def by_seamline(job: Job, reports: Pipe) -> None:
    """`next_offset` of the ledger is the number of the next batch."""
    plan = plan_from_json(job.plan)
    history = History(job.rows, job.size)
    name = plan.destinations[0].name
    with ExitStack() as opened:
        frames = opened.enter_context(spark()) if registry.needs_frames(plan, name) else None
        sink = opened.enter_context(closing(registry.sink(plan, name, frames=frames)))
        lease = sink.acquire(STREAM)
        for number in range(job.batches):
            batch = history.next()
            if number < lease.ledger.next_offset:
                continue
            changes = table_changes(batch, offset=number)
            began = time.perf_counter()
            staged = [sink.stage(lease, changes)]
            span = Span(number, number + 1, 1, position(number + 1), 1_700_000_000_000)
            sink.commit(lease, staged, progress=Progress(span))
            reports.send(time.perf_counter() - began)


@contextmanager
def spark() -> Iterator[Frames]:
    context = start_spark(NAME, slots=2)
    try:
        yield SparkFrames(SparkSession(context))
    finally:
        end_spark(context)


def by_upsert(job: Job, reports: Pipe) -> None:
    done = Path(job.warehouse, "peer.progress")
    history = History(job.rows, job.size)
    table = peer_catalogue(job).load_table("bank.entry")
    for number in range(job.batches):
        batch = history.next()
        if number < int(done.read_text()):
            continue
        rows = batch.written
        began = time.perf_counter()
        table.upsert(rows, join_cols=["id"])
        table.delete(f"id IN ({', '.join(map(str, batch.deleted.tolist()))})")
        reports.send(time.perf_counter() - began)
        done.write_text(str(number + 1))


def written(job: Job, write: Callable[[Job, Pipe], None], *, kills: int) -> list[float]:
    """Seconds of each commit that was reported."""
    spawn = multiprocessing.get_context("spawn")
    rng, seconds = random.Random(7), list[float]()
    for left in range(kills, -1, -1):
        here, there = spawn.Pipe(duplex=False)
        process = spawn.Process(target=write, args=(job, there))
        process.start()
        there.close()
        until = time.monotonic() + rng.uniform(0, 1) if left else float("inf")
        reported = 0
        while True:
            # A kill counts only where the writer is at work: from its first commit on.
            if reported and time.monotonic() > until:
                process.kill()
                break
            if here.poll(0.005):
                try:
                    seconds.append(here.recv())
                except EOFError:
                    break
                if not reported:
                    until = time.monotonic() + rng.uniform(0, 1) if left else float("inf")
                reported += 1
        process.join()
        if not left and process.exitcode != 0:
            raise RuntimeError(f"the writer ended with {process.exitcode}")
    return seconds


# ---- pyiceberg's own ------------------------------------------------------------------------------------------------


def peer_catalogue(job: Job) -> SqlCatalog:
    of: Connection = resolve(plan_from_json(job.plan).destinations[0].connection)
    uri = f"postgresql+psycopg2://{of.login}:{of.password}@{of.host}:{of.port}/{of.database}"
    return SqlCatalog("peer", uri=uri, warehouse=f"file://{job.warehouse}/peer")


def create_peer(job: Job) -> None:
    catalogue = peer_catalogue(job)
    catalogue.create_namespace("bank")
    first = rows_of(range(job.rows), [0] * job.rows)
    catalogue.create_table("bank.entry", first.schema).append(first)
    Path(job.warehouse, "peer.progress").write_text("0")


def read_peer(job: Job) -> pa.Table:
    return peer_catalogue(job).load_table("bank.entry").scan().to_arrow()


def read_ours(job: Job) -> pa.Table:
    (destination,) = plan_from_json(job.plan).destinations
    kind = power(sink_kind(destination.kind), ReadsAtOnePosition, to="read tables")
    return kind.open_tables(destination, STREAM, "live")[TABLE.name].arrow()


def by_dlt(job: Job, reports: Pipe) -> None:
    lake_dlt.write(job.warehouse, job.rows, job.size, job.batches, reports)


PEERS: dict[str, tuple[Callable[[Job], None], Callable[[Job, Pipe], None], Callable[[Job], pa.Table]]] = {
    "pyiceberg upsert": (create_peer, by_upsert, read_peer),
    "dlt merge": (
        lambda job: lake_dlt.create(job.warehouse, job.rows),
        by_dlt,
        lambda job: lake_dlt.read(job.warehouse),
    ),
}


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    sys.exit(main())
