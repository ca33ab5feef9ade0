"""The control topic: one record per transaction, and the newest one of a stream is its ledger.

A record is in the transaction of the rows that it speaks of, so it is committed with them or not at all. `ends` is what
a reader goes by: every row of the stream's tables below these offsets belongs to this position, and none behind them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seamline.domain.cutover import Boundary
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import position_from_json, position_to_json
from seamline.sinks.kafka.reading import committed, written_ends

# Of the newest, by which a publish or a join finds itself done.
_RUNS_KEPT = 100


@dataclass(frozen=True, slots=True)
class StreamState:
    """`ends`: table → per partition of its topic the first offset that does not belong to `row`. `generations`: table →
    its last one, also of tables that have left. `runs`: the last ones that have published. `written_ms`: when, by the
    broker's clock."""

    row: LedgerRow
    ends: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    written_ms: int = 0

    def with_tables(self, entering: Sequence[Boundary], *, left: Sequence[str], run_id: str) -> "StreamState":
        """The tables that enter begin their next generation."""
        fresh = {one.table: replace(one, generation=self.generations.get(one.table, 0) + 1) for one in entering}
        stay = {one.table: one for one in self.row.boundaries if one.table not in left}
        return replace(
            self,
            row=replace(self.row, boundaries=tuple({**stay, **fresh}.values())),
            ends={table: ends for table, ends in self.ends.items() if table not in left},
            generations={**self.generations, **{name: one.generation for name, one in fresh.items()}},
            runs=(*self.runs, run_id)[-_RUNS_KEPT:],
        )


@dataclass(frozen=True, slots=True)
class Control:
    """The states of all streams as committed below `end`."""

    states: Mapping[StreamId, StreamState]
    end: int


def read_control(settings: Mapping[str, Any], topic: str) -> Control:
    """Waits for transactions that are on their way; empty where there is no such topic."""
    ends = written_ends(settings, topic)
    found: dict[StreamId, StreamState] = {}
    for messages in committed(settings, topic, ends or ()):
        for message in messages:
            stream, value = stream_of(message.key() or b""), message.value()
            found.pop(stream, None)
            if value is not None:
                found[stream] = replace(_read(json.loads(value), stream), written_ms=message.timestamp()[1])
    return Control(found, ends[0] if ends else 0)


def stream_of(key: bytes) -> StreamId:
    sync, _, destination = key.decode().rpartition("@")
    return StreamId(sync, destination)


def record_of(state: StreamState, *, start: int, records: Mapping[str, int]) -> bytes:
    """`start`: the log's offset where this transaction goes on from. `records`: table → how many of its records are in
    this transaction."""
    row = state.row
    document = {
        "stream": str(row.stream),
        "epoch": row.epoch,
        "span": [start, row.next_offset],
        "position": position_to_json(row.position),
        "committed_ms": row.committed_ms,
        "records": dict(records),
        "ends": {table: list(ends) for table, ends in state.ends.items()},
        "topic": row.topic,
        "topic_id": row.topic_id,
        "applied_transactions": row.applied_transactions,
        "last_marker": row.last_marker,
        "boundaries": [
            {"table": one.table, "position": position_to_json(one.position), "generation": one.generation}
            | {"high_marker": one.high_marker, "ended": one.ended, "fingerprint": one.fingerprint}
            for one in row.boundaries
        ],
        "generations": dict(state.generations),
        "runs": list(state.runs),
    }
    return json.dumps(document).encode()


def _read(said: Mapping[str, Any], stream: StreamId) -> StreamState:
    row = LedgerRow(
        stream,
        said["topic"],
        said["topic_id"],
        said["span"][1],
        position_from_json(said["position"]),
        said["epoch"],
        said["applied_transactions"],
        said["committed_ms"],
        tuple(Boundary(**{**one, "position": position_from_json(one["position"])}) for one in said["boundaries"]),
        said["last_marker"],
    )
    ends = {table: tuple(offsets) for table, offsets in said["ends"].items()}
    return StreamState(row, ends, said["generations"], tuple(said["runs"]))
