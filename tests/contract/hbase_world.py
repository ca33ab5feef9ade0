"""An HBase as the destination that the behaviour suite runs over."""

import base64
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import CommitUnknown
from seamline.domain.ledger import LedgerRow
from seamline.kinds.bulk import ArrowRows, StagedPlace
from seamline.plan.model import DestinationPlan
from seamline.ports import Failpoints, Load, Sink
from seamline.sinks.hbase.findings import kept_findings
from seamline.sinks.hbase.gateway import open_store
from seamline.sinks.hbase.ledger import Ledgers, now_ms
from seamline.sinks.hbase.loads import LoadedTables, load_rows
from seamline.sinks.hbase.places import Place, Places
from seamline.sinks.hbase.reading import fetched
from seamline.sinks.hbase.rows import scanned
from seamline.sinks.hbase.sink import HBaseSink
from seamline.values.arrow import schema_of
from seamline.values.build import rows_of
from tests import hbase_server
from tests.bank_history import text_of
from tests.contract.worlds import Row
from tests.hbase_server import HBaseServer
from tests.log_topic import position, sync_plan
from tests.memory_sink import LostAnswer, as_logged
from tests.opened_sink import decoder_of
from tests.waiting import wait_until

_AHEAD_MS = 200


class HBaseWorld:
    """A namespace of a server of the test session. Tables stay from one world to the next, without rows: making one
    takes HBase a second."""

    def __init__(self, tables: Sequence[Table], server: HBaseServer, *, kind: type[HBaseSink] = HBaseSink) -> None:
        self.plan = sync_plan(tables)
        self.places = Places(hbase_server.NAMESPACE)
        self.server = server
        self._kind = kind
        self._loads = 0
        self.store = open_store(server.connection)
        self.ledgers = Ledgers(self.store, self.places)
        self._empty(tables)

    def _empty(self, tables: Sequence[Table]) -> None:
        for own in (self.places.own, self.places.beside):
            self.store.make(own)
        stream = self.plan.stream_id("warehouse")
        for key, cells in list(scanned(self.store, Place(self.places.own))):
            # The tables stay its own.
            if not key.startswith(b"table/"):
                self.store.forget(self.places.own, key, cells["s"].encode())
        # A number behind those of all worlds before, which are a little ahead of the clock.
        number = now_ms() + _AHEAD_MS
        for table in tables:
            place = self.places.live(hbase_server.NAMESPACE, table.name)
            if self.store.exists(place.table):
                self.store.sweep(place.table, b"", b"", number)
        wait_until(lambda: now_ms() > number, timeout_s=10, what="the clock")
        assert self.ledgers.read(stream) is None

    @property
    def destination(self) -> DestinationPlan:
        return hbase_server.destination_of(self.plan)

    def sink(self, *, failpoints: Failpoints | None = None) -> HBaseSink:
        return self._made(self._kind, failpoints=failpoints)

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        made = self._made(_of_losing(self._kind), failpoints=None)
        made.lost = lost  # type: ignore[attr-defined]
        return made

    def _made(self, kind: type[HBaseSink], *, failpoints: Failpoints | None) -> HBaseSink:
        return kind(
            self.plan,
            self.destination,
            decoder=decoder_of(self.plan),
            resolve=self.server.resolve,
            failpoints=failpoints,
        )

    def load(self, table: Table, rows: Sequence[Row]) -> Load:
        batch, _ = decoder_of(self.plan).rows(table, [json.dumps(row).encode() for row in rows])
        place = self.place(table)
        count = load_rows(self.store, self.destination, place, ArrowRows(schema_of(table), iter([batch])))
        return Load(table, place.name, count)

    def place(self, table: Table) -> StagedPlace:
        self._loads += 1
        area = LoadedTables(self.server.connection, self.destination, run_id=f"load {self._loads}")
        return area.create([table])[table.name]

    def rows(self, table: Table) -> list[str]:
        """Read back as typed values and written as the log writes them; only for the plain test tables."""
        place = self.places.live(hbase_server.NAMESPACE, table.name)
        if not self.store.exists(place.table):
            return []
        with closing(fetched(self.store, {table: place}, position(0))) as view:
            names = [column.name for column in table.columns]
            found = [row for batch in view.batches(table.name) for row in rows_of(table, batch)]
        return sorted(text_of({name: _logged(value) for name, value in zip(names, row, strict=True)}) for row in found)

    def findings(self) -> list[Finding]:
        known = self.ledgers.read(self.plan.stream_id("warehouse"))
        found = [one for _, one in kept_findings(self.store, self.places, known)] if known else []
        return sorted(found, key=lambda one: one.offset)

    def put_back(self, ledger: LedgerRow) -> None:
        known = self.ledgers.read(ledger.stream)
        assert known is not None
        at = {"next_offset": ledger.next_offset, "epoch": ledger.epoch, "position": ledger.position}
        row = replace(known.state.row, **at)  # type: ignore[arg-type]
        assert self.ledgers.exchange(known, replace(known.state, row=row)) is not None

    def close(self) -> None:
        self.store.close()


def _of_losing(kind: type[HBaseSink]) -> type[HBaseSink]:
    """One whose next move of the ledger ends in CommitUnknown."""

    class Losing(kind):  # type: ignore[misc, valid-type]
        lost: LostAnswer | None = None

        def _send_commit(self, *given: Any) -> Any:
            return self._losing(super()._send_commit, *given)

        def _send_first(self, *given: Any) -> Any:
            return self._losing(super()._send_first, *given)

        def _losing(self, send: Any, *given: Any) -> Any:
            lost, self.lost = self.lost, None
            answer = None if lost is LostAnswer.NOT_APPLIED else send(*given)
            if lost is None:
                return answer
            self.close()
            raise CommitUnknown("the answer is lost")

    return Losing


def _logged(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else as_logged(value)
