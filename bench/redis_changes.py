"""Changes into Redis: 100,000 of them in spans of 10,000, beside redis-py's pipelines of the same rows, which compare
no ledger and report nothing that they met. And for how long a script of 100,000 rows serves nobody else: a publish over
as many.

On a Redis of its own: `./seamline exec python -m bench.redis_changes`.
"""

import argparse
import json
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from bench.lake_table import TABLE, Batch, History, table_changes
from seamline import settings
from seamline.domain.log import Span
from seamline.kinds.bulk import ArrowRows
from seamline.ports import Load, Progress
from seamline.sinks.redis.keys import Keyspace
from seamline.sinks.redis.loads import LoadedTables, load_rows
from seamline.sinks.redis.reading import fetched
from seamline.sinks.redis.session import open_session
from seamline.sinks.redis.sink import RedisSink
from seamline.values.arrow import schema_of
from tests import redis_server
from tests.checkout import day_and_commit
from tests.log_topic import STREAM, position, publication, sync_plan
from tests.opened_sink import decoder_of
from tests.redis_server import RedisServer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--spans", type=int, default=10)
    parser.add_argument("--fsync", default="everysec", help="Redis' appendfsync")
    chosen = parser.parse_args()
    with redis_server.running(settings.load(), appendfsync=chosen.fsync) as server:
        history = History(chosen.rows, 10_000)
        first = history.first()
        batches = [history.next() for _ in range(chosen.spans)]
        peer_s = pipelined(server, first, batches)
        require_memos(server, history)
        ours = Ours(server, rows_max=10 * chosen.rows)
        ours_s = ours.stream(first, batches)
        history.require(ours.fetch())
        load = ours.load(first)
        with longest_wait(server) as waits, timed() as publish:
            ours.publish(load, run_id="again")
        with timed() as fetch:
            ours.fetch()
    changes = sum(one.changes for one in batches)
    print(f"{day_and_commit()}, appendfsync {chosen.fsync}")
    print(f"seamline   {changes / ours_s:9,.0f} changes/s, each span and its ledger by one script")
    print(f"pipelines  {changes / peer_s:9,.0f} changes/s; Seamline's takes {ours_s / peer_s:.2f}×")
    print(f"publish of {chosen.rows:,} rows over as many: {publish[0]:.2f} s, others waited {max(waits):.2f} s at most")
    print(f"fetch of {chosen.rows:,} rows: {fetch[0]:.2f} s")
    return 0


class Ours:
    """The destination of a stream of one table, on an empty server."""

    def __init__(self, server: RedisServer, *, rows_max: int) -> None:
        with closing(server.admin()) as admin:
            admin.flushall()
        self._server = server
        self._plan = sync_plan([TABLE])
        self._destination = redis_server.destination_of(self._plan, rows_max=rows_max)
        self._session = open_session(server.publisher, rows_max=rows_max)
        self._keys = Keyspace.of(self._destination)

    def stream(self, first: pa.Table, batches: Sequence[Batch]) -> float:
        """Seconds that the spans took, without the load before them."""
        self.publish(self.load(first), run_id="first")
        sink = self._sink()
        lease = sink.acquire(STREAM)
        made = [table_changes(one, offset=number) for number, one in enumerate(batches)]
        with timed() as taken:
            for number, changes in enumerate(made):
                progress = Progress(Span(number * 10, number * 10 + 10, 1, position(number + 1), 0))
                commit = sink.commit(lease, [sink.stage(lease, changes)], progress=progress)
                if commit.findings_total:
                    raise RuntimeError(f"span {number} met what it did not expect")
        return taken[0]

    def load(self, rows: pa.Table) -> Load:
        area = LoadedTables(self._server.publisher, self._destination, run_id=secrets.token_hex(4))
        place, schema = area.create([TABLE])[TABLE.name], schema_of(TABLE)
        typed = ArrowRows(schema, iter(rows.cast(schema).combine_chunks().to_batches()))
        return Load(TABLE, place.name, load_rows(self._session, self._destination, place, typed))

    def publish(self, load: Load, *, run_id: str) -> None:
        self._sink().publish(STREAM, [load], publication=publication([TABLE], run_id=run_id))

    def fetch(self) -> pa.Table:
        """All rows, as a comparison fetches them."""
        where = self._keys.live(redis_server.PREFIX, TABLE.name)
        with closing(fetched(self._session, {TABLE: where}, position(0), ledger=self._keys.own("nothing"))) as view:
            return pa.Table.from_batches(list(view.batches(TABLE.name)), schema_of(TABLE))

    def _sink(self) -> RedisSink:
        decoder = decoder_of(self._plan)
        return RedisSink(self._plan, self._destination, decoder=decoder, resolve=self._server.resolve)


def pipelined(server: RedisServer, first: pa.Table, batches: Sequence[Batch]) -> float:
    """As somebody writes it who trusts his network: the same hashes, nothing else."""
    with closing(server.admin()) as admin:
        admin.flushall()
        _sent(admin, first.to_pylist(), ())
        made = [(one, [json.loads(change.row) for change in table_changes(one, offset=0).keyed]) for one in batches]
        with timed() as taken:
            for batch, images in made:
                gone = len(batch.deleted)
                _sent(admin, images[gone:], [image["id"] for image in images[:gone]])
    return taken[0]


def require_memos(server: RedisServer, history: History) -> None:
    """RuntimeError where the pipelines have left other rows than the history, by the column that says their version."""
    wanted = {number: f"transfer {number} {version}" for number, version in enumerate(history.versions) if version >= 0}
    with closing(server.admin()) as admin:
        pipeline = admin.pipeline(transaction=False)
        for number in wanted:
            pipeline.hget(f"{{peer}}:entry:{number}", "memo")
        if [one and one.decode() for one in pipeline.execute()] != list(wanted.values()) or admin.dbsize() != len(
            wanted
        ):
            raise RuntimeError("the pipelines have left other rows than they were given")


def _sent(client: Any, rows: Sequence[dict[str, object]], deleted: Sequence[object]) -> None:
    pipeline = client.pipeline(transaction=False)
    for row in rows:
        pipeline.hset(f"{{peer}}:entry:{row['id']}", mapping={name: str(value) for name, value in row.items()})
    for number in deleted:
        pipeline.delete(f"{{peer}}:entry:{number}")
    pipeline.execute()


@contextmanager
def longest_wait(server: RedisServer) -> Iterator[list[float]]:
    """How long each PING of another client took."""
    waits, over = [0.0], threading.Event()

    def ask() -> None:
        with closing(server.admin()) as client:
            while not over.is_set():
                with timed() as taken:
                    client.ping()
                waits.append(taken[0])

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield waits
    finally:
        over.set()
        asking.join()


@contextmanager
def timed() -> Iterator[list[float]]:
    taken, began = [0.0], time.perf_counter()
    try:
        yield taken
    finally:
        taken[0] = time.perf_counter() - began


if __name__ == "__main__":
    raise SystemExit(main())
