"""One commit of a stream: records of tables, then its control record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from seamline.domain.catalogue import Table
from seamline.domain.position import position_to_json
from seamline.kinds.row_json import text_of
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sinks.kafka.control import StreamState, key_of, record_of
from seamline.sinks.kafka.fold import Fold
from seamline.sinks.kafka.formats import Form, form_of
from seamline.sinks.kafka.options import KafkaOptions, options_of, topic_of
from seamline.sinks.kafka.standing import ids_as_counted, lost_records, other_partitions
from seamline.sinks.kafka.table_writer import TableWriter
from seamline.sinks.kafka.transaction import Sending


@dataclass(frozen=True, slots=True)
class Where:
    """Where the tables of a stream lie, and in what form."""

    source: str
    sync: str
    namespace: str
    options: KafkaOptions

    def topic(self, table: str) -> str:
        return topic_of(self.namespace, table)

    def form(self, table: str) -> Form:
        return form_of(self.options.format, source=self.source, sync=self.sync, table=table)

    def fold(self, table: Table) -> Fold:
        """Nothing of it was read yet."""
        return Fold(keyed=table.is_keyed, partitions=self.options.partitions)


def where_of(plan: SyncPlan, destination: DestinationPlan) -> Where:
    return Where(plan.source.name, plan.sync, destination.namespace, options_of(destination))


@dataclass(slots=True)
class StreamCommit:
    """`before`: the stream's state; None before its first publish. `after`: what it will be but for `ends`."""

    transactions: Sending
    where: Where
    after: StreamState
    start: int
    _writers: dict[str, TableWriter] = field(default_factory=dict)

    def table(self, table: Table, held: Callable[[], Fold]) -> TableWriter:
        row = self.after.row
        position = text_of(position_to_json(row.position))
        span = f"{row.epoch}/{self.start}-{row.next_offset}".encode()
        made = self._writers[table.name] = TableWriter(
            table,
            self.where.topic(table.name),
            self.transactions,
            partitions=self.where.options.partitions,
            form=self.where.form(table.name),
            headers=[("span", span), ("position", position)],
            held=held,
        )
        return made

    @property
    def looked_at(self) -> frozenset[str]:
        """The tables whose held rows were read, and followed what was sent."""
        return frozenset(name for name, writer in self._writers.items() if writer.known_ends)

    def close(self, *, forgotten: Sequence[StreamState] = ()) -> StreamState:
        """Seal it by the control record once all rows have arrived; the state that its commit makes the stream's.
        `forgotten`: of other streams, whose ledgers end with this commit. Diverged: a topic has other partitions than
        the ledger knows, has lost records that it has counted, or is another one of that name."""
        arrived = self.transactions.arrived()
        carried = [boundary.table for boundary in self.after.row.boundaries]
        ends = {table: self._ends(table, arrived) for table in carried}
        # Behind the arrival of all rows: a topic that is another one by then may be where they have come.
        topics = {table: self.where.topic(table) for table in carried}
        ids = ids_as_counted(self.transactions.settings, topics, self.after.topic_ids)
        state = replace(self.after, ends=ends, form=self.where.options.format, topic_ids=ids)
        records = {name: writer.records for name, writer in self._writers.items() if writer.records}
        record = record_of(state, start=self.start, records=records)
        ended = [(key, None) for one in forgotten for key in one.keys]
        if self.transactions.is_fenced:
            own, *earlier = state.keys
            ended += [(key, None) for key in earlier]
            state = replace(state, epochs=frozenset())
        else:
            own = key_of(state.row.stream, state.row.epoch)
            state = replace(state, epochs=state.epochs | {state.row.epoch})
        self.transactions.seal(self.where.options.control_topic, [*ended, (own, record)])
        return state

    def _ends(self, table: str, arrived: Mapping[tuple[str, int], range]) -> tuple[int, ...]:
        writer = self._writers.get(table)
        known = writer.known_ends if writer is not None else ()
        before = known or self.after.ends.get(table) or (0,) * self.where.options.partitions
        topic = self.where.topic(table)
        of_topic = {number: offsets for (name, number), offsets in arrived.items() if name == topic}
        for number, offsets in of_topic.items():
            if number >= len(before):
                raise other_partitions(topic, table, there=number + 1, wanted=len(before))
            if offsets.start < before[number]:
                raise lost_records(topic, table, number, end=offsets.start, counted=before[number])
        return tuple(of_topic[number].stop if number in of_topic else end for number, end in enumerate(before))
