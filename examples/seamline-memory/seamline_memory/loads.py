"""Whole tables on their way in, and what maintenance asks of a destination."""

from collections.abc import Mapping, Sequence
from secrets import token_hex

from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused
from seamline.domain.log_floor import LedgerPlace
from seamline.kinds.bulk import ArrowRows, LoadProgress, StagedPlace, TableRows
from seamline.ports.maintenance import LetGo
from seamline.values.arrow import require_schema
from seamline_memory.store import Store


class MemoryLoadArea:
    """`LoadArea` of one attempt: the names of its tables hold a mark that no other attempt has."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mark = token_hex(4)
        self._names: list[str] = []

    def create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        places = {table.name: StagedPlace(table, "", f"{table.name}_{self._mark}") for table in tables}
        self._names += [place.name for place in places.values()]
        with self._store.transaction() as state:
            state.staged.update({place.name: [] for place in places.values()})
        return places

    def progress(self) -> LoadProgress:
        staged = self._store.state.staged
        batches = [batch for name in self._names for batch in staged.get(name, ())]
        return LoadProgress(sum(batch.nbytes for batch in batches), (), is_working=False)

    def drop(self) -> None:
        with self._store.transaction() as state:
            for name in self._names:
                state.staged.pop(name, None)


def load(store: Store, place: StagedPlace, rows: TableRows) -> int:
    """`SinkKind.load`: the batches as they come."""
    if not isinstance(rows, ArrowRows):
        raise Refused("this destination takes no native copy", table=place.table.name)
    require_schema(place.table, rows.schema)
    batches = list(rows.batches)
    with store.transaction() as state:
        state.staged[place.name] = batches
    return sum(batch.num_rows for batch in batches)


class MemoryMaintenance:
    """`DestinationMaintenance`. What dead runs have left ends with the process, so nothing has to be let go."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def ledgers(self) -> Sequence[LedgerPlace]:
        found = self._store.state.ledgers
        return [LedgerPlace(str(stream), row.topic, row.topic_id, row.next_offset) for stream, row in found.items()]

    def let_go(self) -> LetGo:
        return LetGo(findings=0, incremental_snapshots=(), staged=0)

    def close(self) -> None:
        return
