"""Whole tables put in place, and tables that enter and leave a running stream: each one transaction of the stream,
whatever its spans are.

A topic is never exchanged for another one. What its rows are is read, and the records that make them the new ones are
sent: a row that is the same already costs nothing, and whoever reads the topic sees changes as all others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from seamline.adapters.kafka.committed import written_ends
from seamline.domain.catalogue import Table
from seamline.domain.errors import NotCaughtUp, Refused
from seamline.domain.ledger import StreamId
from seamline.kinds.ledger_rules import is_caught_up, row_of_publish
from seamline.kinds.row_json import batch_of_texts
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports import Joining, Load, Publication
from seamline.sinks.kafka.commit import StreamCommit, Where
from seamline.sinks.kafka.control import Control, StreamState
from seamline.sinks.kafka.fold import Fold
from seamline.sinks.kafka.loads import checked_batches
from seamline.sinks.kafka.repeated import Repeated


@dataclass(frozen=True, slots=True)
class PutInPlace:
    """Rows of tables of a stream."""

    settings: Mapping[str, Any]
    where: Where

    def loads(self, commit: StreamCommit, loads: Sequence[Load]) -> None:
        for load in loads:
            self._replace(commit, load.table, checked_batches(self.settings, load))

    def snapshot(self, commit: StreamCommit, tables: Sequence[Table], namespace: str, snapshot: StreamState) -> None:
        """Tables as an incremental snapshot has them in topics of its own."""
        there = replace(self.where, namespace=namespace)
        for table in tables:
            fold = there.fold(table)
            try:
                topic, form, marks = (
                    there.topic(table.name),
                    there.form(table.name),
                    snapshot.repeated.get(table.name, ()),
                )
                fold.read_on(self.settings, topic, snapshot.ends[table.name], form, marks)
                self._replace(commit, table, (batch_of_texts(table, texts) for texts in fold.rows(table.name)))
            finally:
                fold.close()

    def _replace(self, commit: StreamCommit, table: Table, batches: Iterable[pa.RecordBatch]) -> None:
        held = held_rows(self.settings, self.where, table, commit.after.repeated.get(table.name, ()))
        try:
            commit.table(table, lambda: held).replace(batches)
        finally:
            held.close()


def held_rows(
    settings: Mapping[str, Any],
    where: Where,
    table: Table,
    repeated: Sequence[Repeated],
    fold: Fold | None = None,
    *,
    markers: int = 0,
) -> Fold:
    """The rows of a table's topic as it is now, for the one who owns its stream. `repeated`: the records that do not
    count. `fold`: what was read of it before. `markers`: offsets behind that which hold no record, as the end of our
    own commit takes them in each partition."""
    topic, known = where.topic(table.name), fold or where.fold(table)
    ends = written_ends(settings, topic, where.options.partitions)
    if ends is None:
        raise Refused(f"topic {topic} is gone", hint="onboard the table again", table=table.name)
    if any(end - start > (markers if start else 0) for start, end in zip(known.ends, ends, strict=True)):
        known.read_on(settings, topic, ends, where.form(table.name), repeated)
    return known


def published(stream: StreamId, known: StreamState | None, publication: Publication) -> StreamState:
    """The stream's state once the tables are in place."""
    names = {boundary.table for boundary in publication.boundaries}
    row = row_of_publish(stream, known.row if known else None, publication)
    before = replace(known, row=row) if known else StreamState(row)
    left = [boundary.table for boundary in row.boundaries if boundary.table not in names]
    return before.with_tables(publication.boundaries, left=left, run_id=publication.run_id)


def joined(control: Control, stream: StreamId, joining: Joining) -> tuple[StreamState, StreamState | None]:
    """The stream's state once the tables have joined, and that of the incremental snapshot they come from.

    Refused: nothing was published. NotCaughtUp: the two stand elsewhere.
    """
    known = control.states.get(stream)
    if known is None:
        raise Refused(f"nothing was published for {stream}", hint="onboard the sync first", sync=stream.sync)
    snapshot = control.states.get(joining.incremental_stream) if joining.incremental_stream else None
    if joining.incremental_stream is not None and not is_caught_up(snapshot.row if snapshot else None, known.row):
        raise NotCaughtUp(
            f"{stream} stands at offset {known.row.next_offset}, its incremental snapshot elsewhere", sync=stream.sync
        )
    names = {table.name for table in joining.tables}
    entering = [one for one in snapshot.row.boundaries if one.table in names] if snapshot else []
    after = replace(known, row=replace(known.row, epoch=known.row.epoch + 1))
    return after.with_tables(entering, left=list(joining.kept_as), run_id=joining.run_id), snapshot


def require_staged(settings: Mapping[str, Any], loads: Sequence[Load]) -> None:
    """Before anybody is fenced. Refused: a staged table is gone."""
    for load in loads:
        if written_ends(settings, load.staged_as) is None:
            raise Refused(f"the staged table {load.staged_as} is gone", table=load.table.name)


def namespace_of(destination: DestinationPlan, incremental: StreamId) -> str:
    """Where the topics of an incremental snapshot lie."""
    return destination.incremental_namespace(incremental.sync.partition(INCREMENTAL)[2])


def incremental_streams(control: Control, stream: StreamId) -> Iterator[StreamId]:
    """Those of all incremental snapshots into it, also abandoned ones."""
    for one in control.states:
        if one.destination == stream.destination and one.sync.startswith(f"{stream.sync}{INCREMENTAL}"):
            yield one
