"""A Redis server as the destination that the behaviour suite runs over."""

import base64
import json
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import CommitUnknown
from seamline.domain.ledger import LedgerRow
from seamline.kinds.bulk import ArrowRows, StagedPlace
from seamline.plan.model import DestinationPlan
from seamline.ports import Failpoints, Load, Sink
from seamline.sinks.redis import ledger as ledgers
from seamline.sinks.redis.keys import Keyspace
from seamline.sinks.redis.loads import LoadedTables, load_rows
from seamline.sinks.redis.options import ROWS_MAX_DEFAULT
from seamline.sinks.redis.read_back import kept_findings
from seamline.sinks.redis.reading import fetched
from seamline.sinks.redis.session import Session, open_session
from seamline.sinks.redis.sink import RedisSink
from seamline.values.arrow import schema_of
from seamline.values.build import rows_of
from tests import redis_server
from tests.bank_history import text_of
from tests.contract.worlds import Row
from tests.log_topic import position, sync_plan
from tests.memory_sink import LostAnswer, as_logged
from tests.opened_sink import decoder_of
from tests.redis_server import RedisServer


class RedisWorld:
    """All keys of a server of the test session, whose logins have the rights of the grant script."""

    def __init__(
        self,
        tables: Sequence[Table],
        server: RedisServer,
        *,
        kind: type[RedisSink] = RedisSink,
        rows_max: int = ROWS_MAX_DEFAULT,
    ) -> None:
        self.plan = sync_plan(tables)
        self.keys = Keyspace(redis_server.PREFIX)
        self._server = server
        self._kind = kind
        self._rows_max = rows_max
        self._sinks: list[RedisSink] = []
        self.admin = server.admin()
        self.admin.flushall()
        self.session = open_session(server.publisher, rows_max=rows_max)

    @property
    def destination(self) -> DestinationPlan:
        return redis_server.destination_of(self.plan, rows_max=self._rows_max)

    def sink(self, *, failpoints: Failpoints | None = None) -> RedisSink:
        return self._made(self._kind, failpoints=failpoints)

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        made = self._made(_of_losing(self._kind), failpoints=None)
        made.lost = lost  # type: ignore[attr-defined]
        made.server = self._server  # type: ignore[attr-defined]
        return made

    def _made(self, kind: type[RedisSink], *, failpoints: Failpoints | None) -> RedisSink:
        made = kind(
            self.plan,
            self.destination,
            decoder=decoder_of(self.plan),
            resolve=self._server.resolve,
            failpoints=failpoints,
        )
        self._sinks.append(made)
        return made

    def load(self, table: Table, rows: Sequence[Row]) -> Load:
        batch, _ = decoder_of(self.plan).rows(table, [json.dumps(row).encode() for row in rows])
        place = self.place(table)
        count = load_rows(self.session, self.destination, place, ArrowRows(schema_of(table), iter([batch])))
        return Load(table, place.name, count)

    def place(self, table: Table) -> StagedPlace:
        area = LoadedTables(self._server.publisher, self.destination, run_id=f"load {len(self._sinks)}")
        area._drop_leftovers = lambda session: None  # type: ignore[method-assign]  # noqa: SLF001 (loads of one run)
        return area.create([table])[table.name]

    def rows(self, table: Table) -> list[str]:
        """Read back as typed values and written as the log writes them; only for the plain test tables."""
        namespace = redis_server.PREFIX
        where = self.keys.live(namespace, table.name)
        view = fetched(self.session, {table: where}, position(0), ledger=self.keys.own("nothing"))
        with closing(view):
            names = [column.name for column in table.columns]
            found = [row for batch in view.batches(table.name) for row in rows_of(table, batch)]
        assert len(list(self.admin.scan_iter(f"{where.rows}*", 5_000))) == len(found), "a row without an index"
        return sorted(text_of({name: _logged(value) for name, value in zip(names, row, strict=True)}) for row in found)

    def findings(self) -> list[Finding]:
        found = [one for _, one in kept_findings(self.session, self.keys, self.plan.stream_id("warehouse"))]
        return sorted(found, key=lambda one: one.offset)

    def put_back(self, ledger: LedgerRow) -> None:
        at = {"next_offset": str(ledger.next_offset), "epoch": str(ledger.epoch)}
        at["position"] = ledgers.position_text(ledger.position)
        self.admin.hset(self.keys.of_stream("ledger", ledger.stream), mapping=at)

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()
        self.session.close()
        self.admin.close()


def _of_losing(kind: type[RedisSink]) -> type[RedisSink]:
    """One whose next script ends in CommitUnknown."""

    class Losing(kind):  # type: ignore[misc, valid-type]
        lost: LostAnswer | None = None
        server: RedisServer

        def _send_commit(self, session: Session, *given: Any, **more: Any) -> Any:
            lost, self.lost = self.lost, None
            if lost is LostAnswer.NOT_APPLIED:
                host, port = session.client.connection._sock.getsockname()  # noqa: SLF001 (by it the server knows us)
                with closing(self.server.admin()) as admin:
                    admin.client_kill(f"{host}:{port}")
            answer = super()._send_commit(session, *given, **more)
            if lost is None:
                return answer
            self.close()
            raise CommitUnknown("the answer is lost")

    return Losing


def _logged(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else as_logged(value)
