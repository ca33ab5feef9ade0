"""What maintenance reads from a destination, and what it deletes there."""

from collections.abc import Iterator, Sequence

from seamline.adapters.connections import resolve
from seamline.domain.log_floor import LedgerPlace
from seamline.kinds.ledger_json import stream_of
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports.maintenance import INCREMENTAL_KEPT_DAYS, LetGo
from seamline.sinks.hbase.gateway import Store, open_store
from seamline.sinks.hbase.ledger import Ledgers, State, now_ms
from seamline.sinks.hbase.loads import drop_abandoned
from seamline.sinks.hbase.places import Places
from seamline.sinks.hbase.placing import end_snapshot


class HBaseMaintenance:
    """`ports.maintenance.DestinationMaintenance`."""

    def __init__(self, destination: DestinationPlan, store: Store) -> None:
        self._destination = destination
        self._store = store
        self._places = Places.of(destination)
        self._ledgers = Ledgers(store, self._places)

    def ledgers(self) -> Sequence[LedgerPlace]:
        rows = [state.row for state in self._states()]
        return tuple(LedgerPlace(str(row.stream), row.topic, row.topic_id, row.next_offset) for row in rows)

    def let_go(self) -> LetGo:
        """Findings go with the rows in which they were met, when their table is put in place again."""
        oldest = now_ms() - INCREMENTAL_KEPT_DAYS * 86_400_000
        still = [
            str(state.row.stream)
            for state in self._states()
            if INCREMENTAL in state.row.stream.sync
            and state.row.stream.destination == self._destination.name
            and state.updated_ms < oldest
        ]
        dead = tuple(name for name in still if end_snapshot(self._store, self._ledgers, self._destination, name))
        staged = drop_abandoned(self._store, self._places) if self._store.exists(self._places.own) else 0
        return LetGo(findings=0, incremental_snapshots=dead, staged=staged)

    def close(self) -> None:
        self._store.close()

    def _states(self) -> Iterator[State]:
        for name in list(self._ledgers.streams()):
            if (known := self._ledgers.read(stream_of(name))) is not None:
                yield known.state


def open_maintenance(destination: DestinationPlan) -> HBaseMaintenance:
    return HBaseMaintenance(destination, open_store(resolve(destination.connection)))
