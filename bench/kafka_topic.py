"""Changes into a topic: Seamline's Kafka destination beside a plain producer of the same bytes.

Each commit is a span of changes, 80 % updates, 10 % deletes, 10 % inserts. Seamline stages and commits what its span
loop hands over (rows as a capture logs them), one Kafka transaction each. Its peer is a producer of the same client
with the same settings, idempotent, without transactions and callbacks: it is given keys, values and headers as they
stand in Seamline's topic, and only sends them. At the end the topic's rows are held against the expected ones.
By turns with that, the same changes go into topics of a sync that says `at_least_once`: large commits, then small ones,
because a transaction costs the same for a commit of any size.
Goals: 100,000 changes a second; `at_least_once` is 1.2 times as fast in small commits.

On the servers of the local stack: `./seamline exec python -m bench.kafka_topic`.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import pyarrow as pa
from confluent_kafka import Message, Producer

from bench.lake_table import TABLE, Batch, History, table_changes
from seamline import registry
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.committed import committed, written_ends
from seamline.domain.log import Span
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load, Progress
from seamline.sinks.kafka.commit import where_of
from seamline.sinks.kafka.control import read_control
from seamline.sinks.kafka.loads import topics_of
from seamline.sinks.kafka.read_back import TopicRows
from seamline.sinks.kafka.spec import KafkaDestination
from seamline.values.arrow import schema_of
from tests.checkout import day_and_commit
from tests.log_topic import STREAM, position, publication, sync_plan

GUARANTEES = ("exactly_once", "at_least_once")
PREFIX, PEER, GOAL, RATIO = "bench-topic", "bench-topic.peer", 100_000, 1.2
# As the destination's own, but for its transactions.
_PLAIN = {"acks": "all", "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 5}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000, help="rows of the table at the start")
    parser.add_argument("--size", type=int, default=20_000, help="changes of a large commit")
    parser.add_argument("--batches", type=int, default=8, help="large commits")
    parser.add_argument("--small", type=int, default=100, help="changes of a small commit")
    parser.add_argument("--many", type=int, default=200, help="small commits")
    chosen = parser.parse_args()
    syncs = {guarantee: sync_of(guarantee) for guarantee in GUARANTEES}
    topics = topics_of(syncs[GUARANTEES[0]].destinations[0])
    try:
        history = History(chosen.rows, chosen.size)
        for plan in syncs.values():
            publish_first(plan, history)
        large = by_turns(syncs, [history.next() for _ in range(chosen.batches)])
        topics.ensure_staging(PEER)
        theirs = by_peer(f"{PREFIX}-{GUARANTEES[0]}.{TABLE.name}", skip=chosen.rows)
        history.size = chosen.small
        small = by_turns(syncs, [history.next() for _ in range(chosen.many)])
        for plan in syncs.values():
            require(plan, history)
    finally:
        topics.delete(topics.names(PREFIX))
    ours, ratio = large["exactly_once"], small["at_least_once"] / small["exactly_once"]
    print(f"seamline {ours:,.0f}/s, plain producer {theirs:,.0f}/s, {ours / theirs:.2f}×; goal ≥ {GOAL:,}/s")
    for size, rates in ((chosen.size, large), (chosen.small, small)):
        least, exactly = rates["at_least_once"], rates["exactly_once"]
        print(f"{size:,} a commit: at_least_once {least:,.0f}/s, exactly_once {exactly:,.0f}/s, {least / exactly:.2f}×")
    print(f"goal in small commits ≥ {RATIO}×", flush=True)
    return 0 if ours >= GOAL and ratio >= RATIO else 1


def sync_of(guarantee: str) -> SyncPlan:
    prefix = f"{PREFIX}-{guarantee}"
    declared = KafkaDestination(destination="warehouse", kind="kafka", connection="kafka", prefix=prefix)
    options = tuple(declared.options.items())
    destination = DestinationPlan("warehouse", "kafka", "kafka", prefix, options=options, no_cuts=True)
    return replace(sync_plan((TABLE,)), destinations=(destination,), guarantee=guarantee)


def publish_first(plan: SyncPlan, history: History) -> None:
    kind, (destination,) = sink_kind("kafka"), plan.destinations
    place = kind.load_area(destination, run_id="bench").create([TABLE])[TABLE.name]
    schema = schema_of(TABLE)
    first = history.first().cast(schema).to_batches()
    count = kind.load(destination, place, ArrowRows(schema, iter(first)))
    with closing(registry.sink(plan, destination.name)) as sink:
        sink.publish(STREAM, [Load(TABLE, place.name, count)], publication=publication((TABLE,)))


def by_turns(syncs: Mapping[str, SyncPlan], batches: Sequence[Batch]) -> dict[str, float]:
    """Changes a second, from the span loop's hands to the answer of the last commit."""
    took = dict.fromkeys(syncs, 0.0)
    with ExitStack() as opened:
        sinks = {name: opened.enter_context(closing(registry.sink(plan, "warehouse"))) for name, plan in syncs.items()}
        leases = {name: sink.acquire(STREAM) for name, sink in sinks.items()}
        for turn, batch in enumerate(batches):
            for name in sorted(sinks, reverse=bool(turn % 2)):
                changes, start = table_changes(batch, offset=turn), leases[name].ledger.next_offset + turn
                progress = Progress(Span(start, start + 1, 1, position(start + 1), 0))
                begun = time.perf_counter()
                sinks[name].commit(leases[name], [sinks[name].stage(leases[name], changes)], progress=progress)
                took[name] += time.perf_counter() - begun
    return {name: sum(batch.changes for batch in batches) / spent for name, spent in took.items()}


def by_peer(topic: str, *, skip: int) -> float:
    """Records a second of those behind the first load."""
    settings = client_settings(resolve("kafka"))
    ends = written_ends(settings, topic)
    assert ends is not None
    sent: list[Message] = [one for some in committed(settings, topic, ends) for one in some][skip:]
    records = [(one.value(), one.key(), one.headers()) for one in sent]
    producer = Producer({**settings, **_PLAIN, "queue.buffering.max.messages": len(records) + 1})
    started = time.perf_counter()
    for value, key, headers in records:
        producer.produce(PEER, value, key, headers=headers)
    assert not producer.flush(60)
    return len(records) / (time.perf_counter() - started)


def require(plan: SyncPlan, history: History) -> None:
    """RuntimeError where the topic's rows are others."""
    settings, where = client_settings(resolve("kafka")), where_of(plan, plan.destinations[0])
    state = read_control(settings, where.options.control_topic).states[STREAM]
    rows = TopicRows(settings, where, TABLE, state.ends[TABLE.name])
    with closing(rows):
        history.require(pa.Table.from_batches(rows(), schema_of(TABLE)))


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    sys.exit(main())
