"""Whole tables on their way in: each a topic of its own, whose records are batches in Arrow's stream format."""

import time
from collections.abc import Iterator, Mapping, Sequence
from secrets import token_hex
from typing import Any

import pyarrow as pa

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.committed import committed, written_ends
from seamline.domain.catalogue import Table
from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import GateFailed, Refused
from seamline.kinds.bulk import ArrowRows, LoadProgress, StagedPlace, TableRows
from seamline.plan.model import DestinationPlan
from seamline.ports import Load
from seamline.sinks.kafka.options import options_of, topic_of
from seamline.sinks.kafka.topics import DestinationTopics
from seamline.sinks.kafka.transaction import BY_KEY, Transactions
from seamline.values.arrow import require_schema
from seamline.values.digest import segment_digest

_RECORD_BYTES = 512 * 1024
# So much is in one transaction: what has come shows in `progress`, and no transaction is long.
_TRANSACTION_BYTES = 64 * 1024 * 1024


class KafkaLoadArea:
    """`LoadArea` of one attempt: the names of its topics hold a mark that no other attempt has."""

    def __init__(self, destination: DestinationPlan) -> None:
        self._namespace = destination.stage_namespace
        self._topics = topics_of(destination)
        self._mark = f"{int(time.time()):x}-{token_hex(4)}"
        self._names: list[str] = []

    def create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        places = {
            one.name: StagedPlace(one, "", f"{topic_of(self._namespace, one.name)}.{self._mark}") for one in tables
        }
        self._names += [place.name for place in places.values()]
        for place in places.values():
            self._topics.ensure_staging(place.name)
        return places

    def progress(self) -> LoadProgress:
        """In bytes of full records: smaller ones count as much."""
        records = sum(map(self._topics.records, self._names))
        return LoadProgress(records * _RECORD_BYTES, (), is_working=False)

    def drop(self) -> None:
        self._topics.delete(self._names)


def begun_at(topic: str) -> int | None:
    """When the load of a staged table began, in seconds since 1970; None of a topic of other names."""
    mark, _, _ = topic.rpartition(".")[2].partition("-")
    try:
        return int(mark, 16)
    except ValueError:
        return None


def load(destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
    """`SinkKind.load`. Who has loaded this place before is fenced first, so that nothing of his comes behind it."""
    if not isinstance(rows, ArrowRows):
        raise Refused("this destination takes no native copy", table=place.table.name)
    require_schema(place.table, rows.schema)
    options = options_of(destination)
    settings = _settings(destination)
    transactions = Transactions(
        settings, f"{options.prefix}.load.{place.name}", timeout_s=options.transaction_timeout_s
    )
    topics_of(destination).empty(place.name)
    count = size = 0
    transactions.begin()
    for batch in rows.batches:
        count += batch.num_rows
        for record in _records(batch):
            transactions.send(place.name, [(None, record, [], BY_KEY)], table=place.table.name)
            size += len(record)
        if size >= _TRANSACTION_BYTES:
            transactions.arrived()
            transactions.commit()
            transactions.begin()
            size = 0
    transactions.arrived()
    transactions.commit()
    return count


def staged_batches(settings: Mapping[str, Any], load: Load) -> Iterator[pa.RecordBatch]:
    """Refused: the staged table is gone."""
    ends = written_ends(settings, load.staged_as)
    if ends is None:
        raise Refused(f"the staged table {load.staged_as} is gone", table=load.table.name)
    for messages in committed(settings, load.staged_as, ends):
        for message in messages:
            with pa.ipc.open_stream(message.value()) as reader:
                yield from reader


def checked_batches(settings: Mapping[str, Any], load: Load) -> Iterator[pa.RecordBatch]:
    """The same to the end, where GateFailed says that these are not the rows that were staged, or compared."""
    count, total = 0, SegmentDigest()
    for batch in staged_batches(settings, load):
        count += batch.num_rows
        if load.digest is not None:
            total += segment_digest(load.table, batch, run_key=load.digest.run_key)
        yield batch
    if count != load.rows or (load.digest is not None and total != load.digest.digest):
        what = f"{count} rows" if count != load.rows else "other values"
        raise GateFailed(
            f"the staged table {load.staged_as} now holds {what}; {load.rows} rows were staged",
            hint="nothing was published. Somebody wrote into its topic: clear the task that staged it",
            table=load.table.name,
        )


def topics_of(destination: DestinationPlan) -> DestinationTopics:
    return DestinationTopics(_settings(destination), options_of(destination))


def _settings(destination: DestinationPlan) -> dict[str, Any]:
    return client_settings(resolve(destination.connection))


def _records(batch: pa.RecordBatch) -> Iterator[bytes]:
    """At least one row in each."""
    step = max(1, batch.num_rows * _RECORD_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, step):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch.slice(start, step))
        yield sink.getvalue().to_pybytes()
