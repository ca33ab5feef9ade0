"""A destination's topics as views of a comparison: the rows that their records make, up to the ledger's position.

The whole of a topic is read and folded into a temporary file (`fold.py`), once per table and comparison, when a view is
first asked for it. Where the file stands is what the control record says, so the stream may go on meanwhile: what comes
behind does not belong to the view, and what it replaces stays for `COMPACTION_LAG_S`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import pyarrow as pa

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused, TransientError
from seamline.domain.position import Position
from seamline.kinds.row_json import batch_of_texts
from seamline.kinds.sink import AT_LEAST_ONCE
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load
from seamline.sinks.kafka.commit import Where, where_of
from seamline.sinks.kafka.control import StreamState, read_control
from seamline.sinks.kafka.fold import Fold
from seamline.sinks.kafka.loads import staged_batches
from seamline.sinks.kafka.repeated import Repeated
from seamline.sinks.kafka.standing import require_same_form
from seamline.sinks.kafka.topics import COMPACTION_LAG_S
from seamline.sinks.lake.read_view import LakeView


class TopicRows:
    """The rows of one table at an offset of each partition. Each call reads the same ones, also from other threads."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        where: Where,
        table: Table,
        ends: Sequence[int],
        repeated: Sequence[Repeated] = (),
    ) -> None:
        self._settings = settings
        self._where = where
        self._table = table
        self._ends = ends
        self._repeated = repeated
        self._since = time.monotonic()
        self._lock = Lock()
        self._fold: Fold | None = None

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """Diverged: of a row without a key more copies went than had come."""
        for texts in self._read().rows(self._table.name):
            yield batch_of_texts(self._table, texts)

    def close(self) -> None:
        with self._lock:
            if self._fold is not None:
                self._fold.close()
            self._fold = None

    def _read(self) -> Fold:
        with self._lock:
            if self._fold is None:
                name = self._table.name
                fold, topic, form = self._where.fold(self._table), self._where.topic(name), self._where.form(name)
                self._fold = fold.read_on(self._settings, topic, self._ends, form, self._repeated)
                self._require_young()
            return self._fold

    def _require_young(self) -> None:
        if time.monotonic() - self._since > COMPACTION_LAG_S:
            raise TransientError(
                f"reading the topic of {self._table.name} took longer than its broker keeps what newer records replace",
                hint="compare again, at a quieter time",
            )


class LiveTopics(LakeView):
    """`ports.ReadView` over topics; closed once, the temporary files of all tables go. `guarantee`: as of
    `ports.SaysGuarantee`."""

    def __init__(self, position: Position, rows: Mapping[Table, TopicRows], *, guarantee: str) -> None:
        super().__init__(position, rows)
        self._rows = list(rows.values())
        self.guarantee = guarantee

    def close(self) -> None:
        for rows in self._rows:
            rows.close()


def open_live(plan: SyncPlan, destination: DestinationPlan, count: int) -> list[LiveTopics]:
    settings, where = client_settings(resolve(destination.connection)), where_of(plan, destination)
    stream = plan.stream_id(destination.name)
    state = read_control(settings, where.options.control_topic).states.get(stream)
    if state is None:
        raise Refused(f"{stream} was never published", hint="onboard the sync first", sync=plan.sync)
    require_same_form(state, where.options)
    return [live_of(settings, where, [entry.definition for entry in plan.tables], state)] * count


def live_of(settings: Mapping[str, Any], where: Where, tables: Sequence[Table], state: StreamState) -> LiveTopics:
    """Refused: the stream does not carry one of them."""
    for table in tables:
        if table.name not in state.ends:
            raise Refused(f"table {table.name} is not in the stream", hint="onboard it again", table=table.name)
    found = {
        table: TopicRows(settings, where, table, state.ends[table.name], state.repeated.get(table.name, ()))
        for table in tables
    }
    may_repeat = state.may_repeat or any(state.repeated.get(table.name) for table in tables)
    return LiveTopics(state.row.position, found, guarantee=AT_LEAST_ONCE if may_repeat else "")


def open_staged(
    destination: DestinationPlan, loads: Sequence[Load], count: int, *, position: Position
) -> list[LakeView]:
    settings = client_settings(resolve(destination.connection))
    return [LakeView(position, {load.table: _staged(settings, load) for load in loads})] * count


def _staged(settings: Mapping[str, Any], load: Load) -> Any:
    return lambda: staged_batches(settings, load)
