"""The control topic: one record per commit, and the newest one of a stream is its ledger.

A record is in the transaction of the rows that it speaks of, so it is committed with them or not at all; without
transactions it comes once they have arrived. `ends` is what a reader goes by: every row of the stream's tables below
these offsets belongs to this position but for those that `repeated` names, and none behind them.

A record's key is its stream. One of a commit without a transaction has the owner's epoch in its key, too: nothing
fences such an owner, and what it says late must not be the newest record of a key that its successor writes, since
compaction keeps that one alone. The next commit in a transaction takes the keys of earlier owners away.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seamline.adapters.kafka.committed import committed, committed_end, written_ends
from seamline.domain.cutover import Boundary
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import position_from_json, position_to_json
from seamline.kinds.ledger_json import boundary_from_json, boundary_to_json, stream_of
from seamline.kinds.ledger_rules import with_tables
from seamline.sinks.kafka.repeated import Repeated

# Of the newest, by which a publish or a join finds itself done.
_RUNS_KEPT = 100
# No name has it.
_OF_EPOCH = "#"
_MOMENT_S, _PAUSE_S = 1.0, 0.01


@dataclass(frozen=True, slots=True)
class StreamState:
    """`ends`: table → per partition of its topic the first offset that does not belong to `row`. `generations`: table →
    its last one, also of tables that have left. `runs`: the last ones that have published. `may_repeat`: its owner
    commits without transactions. `repeated`: table → the records of its topic that do not count, also of tables that
    have left. `offset` of its record in the control topic, and `written_ms`: when it came there, by the broker's clock.
    `epochs`: of the owners who have keys of their own there. `form`: of the records in its topics, as
    `KafkaOptions.format`; "" of a record that an earlier version has written. `topic_ids`: table → the broker's id of
    the topic that `ends` counts in; of such a record none.
    """

    row: LedgerRow
    ends: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    may_repeat: bool = False
    repeated: Mapping[str, tuple[Repeated, ...]] = field(default_factory=dict)
    offset: int = -1
    written_ms: int = 0
    epochs: frozenset[int] = frozenset()
    form: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> list[bytes]:
        """Under which the control topic may hold records of its stream."""
        return [key_of(self.row.stream), *(key_of(self.row.stream, one) for one in sorted(self.epochs))]

    def with_tables(self, entering: Sequence[Boundary], *, left: Sequence[str], run_id: str) -> "StreamState":
        """The tables that enter begin their next generation, in whatever topic is there now. Of those with a key every
        record of before counts: the rows that come are held against what readers see."""
        row, generations = with_tables(self.row, self.generations, entering, left=left)
        kept, touched = dict(self.repeated), (*(one.table for one in entering), *left)
        for table in touched:
            kept[table] = tuple(one for one in kept.get(table, ()) if one.until is None)
        return replace(
            self,
            row=row,
            ends={table: ends for table, ends in self.ends.items() if table not in left},
            generations=generations,
            runs=(*self.runs, run_id)[-_RUNS_KEPT:],
            repeated=_without_empty(kept),
            topic_ids={table: topic_id for table, topic_id in self.topic_ids.items() if table not in touched},
        )

    def followed_by(self, row: LedgerRow) -> "StreamState":
        """Behind the next commit. A mark is needed as long as its records are the newest of their keys: one commit
        longer, for who reads the topic commit by commit."""
        needed = {
            table: tuple(one for one in marks if one.until is None or one.until > self.row.next_offset)
            for table, marks in self.repeated.items()
        }
        return replace(self, row=row, repeated=_without_empty(needed))


@dataclass(frozen=True, slots=True)
class Control:
    """The states of all streams. `end`: where the topic was read to; `written`: where it ended behind the last record
    that is known here, but for the marker that ends a transaction; -1: what lies before that is not known."""

    states: Mapping[StreamId, StreamState] = field(default_factory=dict)
    end: int = 0
    written: int = 0

    def with_own(self, state: StreamState, *, forgotten: Sequence[StreamState]) -> "Control":
        """Behind a commit of ours. Whether its marker is there yet nobody knows."""
        gone = [one.row.stream for one in forgotten]
        states = {stream: known for stream, known in self.states.items() if stream not in gone}
        follows = not forgotten and state.offset in (self.written, self.written + 1)
        return Control({**states, state.row.stream: state}, self.end, state.offset + 1 if follows else -1)


def read_control(settings: Mapping[str, Any], topic: str, known: Control | None = None) -> Control:
    """As committed now; empty where there is no such topic. Waits a moment for transactions on their way; where
    one stays open, what lies behind it is not seen. `known`: what was read, or written, before."""
    ends = written_ends(settings, topic)
    written = ends[0] if ends else 0
    if known is not None and written in (known.written, known.written + 1):
        return known
    if known is None or written < max(known.written, known.end):
        # A cluster that was put back has lost what is known.
        known = Control()
    return _read_on(settings, topic, known, _committed_end(settings, topic, written))


def settled_control(settings: Mapping[str, Any], topic: str) -> Control:
    """All that is written now, once the transactions that hold it have ended: for the owner of a stream, who has ended
    those of its own. TransientError: one of another stream stays open."""
    ends = written_ends(settings, topic)
    return _read_on(settings, topic, Control(), ends[0] if ends else 0)


def _committed_end(settings: Mapping[str, Any], topic: str, written: int) -> int:
    """A commit is answered some ms before its marker is there."""
    deadline = time.monotonic() + _MOMENT_S
    while (end := committed_end(settings, topic)) < written and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    return end


def _read_on(settings: Mapping[str, Any], topic: str, known: Control, end: int) -> Control:
    found = dict(known.states)
    epochs = {stream: set(state.epochs) for stream, state in known.states.items()}
    for messages in committed(settings, topic, (end,), starts=(known.end,)):
        for message in messages:
            (stream, epoch), value, offset = _stream_of(message.key() or b""), message.value(), message.offset() or 0
            _take_in(epochs.setdefault(stream, set()), epoch, value)
            if stream in found and offset <= found[stream].offset:
                continue
            if value is None:
                if epoch is None:
                    found.pop(stream, None)
                continue
            state = _read(json.loads(value), stream)
            # Without transactions nothing fences an owner that is over: what it says late does not count.
            if stream not in found or state.row.epoch >= found[stream].row.epoch:
                found[stream] = replace(state, offset=offset, written_ms=message.timestamp()[1])
    states = {stream: replace(state, epochs=frozenset(epochs.get(stream, ()))) for stream, state in found.items()}
    return Control(states, end, end)


def _take_in(epochs: set[int], epoch: int | None, value: bytes | None) -> None:
    """A record under the key of an epoch, or that it went."""
    if epoch is not None:
        (epochs.discard if value is None else epochs.add)(epoch)


def key_of(stream: StreamId, epoch: int | None = None) -> bytes:
    """`epoch`: of an owner that commits without transactions."""
    return str(stream).encode() if epoch is None else f"{stream}{_OF_EPOCH}{epoch}".encode()


def _stream_of(key: bytes) -> tuple[StreamId, int | None]:
    text, _, epoch = key.decode().partition(_OF_EPOCH)
    return stream_of(text), int(epoch) if epoch else None


def record_of(state: StreamState, *, start: int, records: Mapping[str, int]) -> bytes:
    """`start`: the log's offset where this commit goes on from. `records`: table → how many of its records are in
    this commit."""
    row = state.row
    document = {
        "stream": str(row.stream),
        "epoch": row.epoch,
        "span": [start, row.next_offset],
        "position": position_to_json(row.position),
        "committed_ms": row.committed_ms,
        "records": dict(records),
        "ends": {table: list(ends) for table, ends in state.ends.items()},
        "topic_ids": dict(state.topic_ids),
        "topic": row.topic,
        "topic_id": row.topic_id,
        "applied_transactions": row.applied_transactions,
        "last_marker": row.last_marker,
        "boundaries": [boundary_to_json(one) for one in row.boundaries],
        "generations": dict(state.generations),
        "runs": list(state.runs),
        "may_repeat": state.may_repeat,
        "format": state.form,
        "repeated": {
            table: [[one.partition, one.first, one.end, one.until] for one in marks]
            for table, marks in state.repeated.items()
        },
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
        tuple(map(boundary_from_json, said["boundaries"])),
        said["last_marker"],
    )
    ends = {table: tuple(offsets) for table, offsets in said["ends"].items()}
    repeated = {table: tuple(Repeated(*one) for one in marks) for table, marks in said.get("repeated", {}).items()}
    return StreamState(
        row,
        ends,
        said["generations"],
        tuple(said["runs"]),
        may_repeat=said.get("may_repeat", False),
        repeated=repeated,
        form=said.get("format", ""),
        topic_ids=said.get("topic_ids", {}),
    )


def _without_empty(marks: Mapping[str, tuple[Repeated, ...]]) -> dict[str, tuple[Repeated, ...]]:
    return {table: some for table, some in marks.items() if some}
