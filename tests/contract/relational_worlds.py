"""MariaDB and MySQL as destinations that the behaviour suite runs over."""

import base64
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar

import pymysql
import pytest

from seamline.adapters import connections
from seamline.adapters.connections import Connection
from seamline.databases.mysql.canonical import quoted
from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.ledger import LedgerRow
from seamline.domain.position import position_to_json
from seamline.kinds.found import logged_kind
from seamline.ports import Failpoints, Load, Sink
from seamline.sinks.mariadb.dialect import MARIADB
from seamline.sinks.mysql.dialect import MYSQL
from seamline.sinks.relational.dialect import Dialect
from seamline.sinks.relational.session import Session, close, execute, load_rows, open_session
from seamline.sinks.relational.sink import RelationalSink
from seamline.sinks.relational.staging import index_rows, rows_document
from seamline.sinks.relational.statements import create_table, load_table
from tests.bank_history import text_of
from tests.contract.worlds import Row, lose_one_answer
from tests.integration.databases import mariadb, mariadb_writer_of
from tests.log_topic import sync_plan
from tests.memory_sink import LostAnswer

DATABASE = "settlement"
AT = f"`{DATABASE}_seamline`"


class MariaDbWorld:
    """Its databases on a server of the test session; `publisher` has the rights of one there, `root` all."""

    kind: ClassVar[str] = "mariadb"
    dialect: ClassVar[Dialect] = MARIADB

    def __init__(
        self,
        tables: Sequence[Table],
        publisher: Connection,
        *,
        root: Connection | None = None,
        kind: type[RelationalSink] = RelationalSink,
        resolve: Callable[[str], Connection] | None = None,
    ) -> None:
        plan = sync_plan(tables)
        self.plan = replace(plan, destinations=tuple(replace(one, kind=self.kind) for one in plan.destinations))
        self.publisher = publisher
        self.root = root or connections.resolve("core_bank_root")
        self._sink = kind
        self._resolve = resolve or (
            lambda name: mariadb_writer_of(publisher) if name.endswith("_writer") else publisher
        )
        self._sinks: list[RelationalSink] = []
        self._staged = 0
        self.session = open_session(publisher, self.dialect)
        self._clear()

    def sink(self, *, failpoints: Failpoints | None = None) -> RelationalSink:
        made = self._sink(
            self.plan,
            self.plan.destinations[0],
            decoder=logged_kind(self.plan.source.kind).change_decoder(self.plan.source),
            dialect=self.dialect,
            resolve=self._resolve,
            failpoints=failpoints,
        )
        self._sinks.append(made)
        return made

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        made = self.sink()
        lose_one_answer(made, lost, end_at_server=self._end_at_server, close=close)
        return made

    def _end_at_server(self, session: Session) -> None:
        (number,) = session.server_thread_id  # type: ignore[attr-defined]
        with closing(mariadb(replace(self.root, database=""))) as root:
            root.cursor().execute(f"KILL CONNECTION {number}")

    def load(self, table: Table, rows: Sequence[Row]) -> Load:
        self._staged += 1
        name = f"{table.name[:40]}__{self._staged}"
        place = f"{DATABASE}_stage.{quoted(name)}"
        execute(self.session, create_table(place, table, self.dialect))
        if rows:
            decoder = logged_kind(self.plan.source.kind).change_decoder(self.plan.source)
            batch, _ = decoder.rows(table, [json.dumps(row).encode() for row in rows])
            load_rows(self.session, load_table(place, table), [rows_document(table, batch)])
        index_rows(self.session, table, place)
        return Load(table, name, len(rows))

    def rows(self, table: Table) -> list[str]:
        """Read back as typed values and written as the log writes them; only for the plain test tables."""
        names = [column.name for column in table.columns]
        try:
            found = self.fetch(f"SELECT {', '.join(map(quoted, names))} FROM {DATABASE}.{quoted(table.name)}")
        except pymysql.err.ProgrammingError:
            return []
        return sorted(
            text_of({name: _as_logged(value) for name, value in zip(names, row, strict=True)}) for row in found
        )

    def findings(self) -> list[Finding]:
        statement = f"SELECT table_name, kind, row_key, log_offset FROM {AT}.finding ORDER BY log_offset"
        return [Finding(*row) for row in self.fetch(statement)]

    def put_back(self, ledger: LedgerRow) -> None:
        execute(
            self.session,
            f"UPDATE {AT}.ledger SET next_offset = %s, position = %s, epoch = %s WHERE stream = %s",
            (ledger.next_offset, json.dumps(position_to_json(ledger.position)), ledger.epoch, str(ledger.stream)),
        )

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()
        close(self.session)

    def _clear(self) -> None:
        """As if nothing had been published; tables of the ledger stay, which are costly to make."""
        found = {name for (name,) in self.fetch("SELECT schema_name FROM information_schema.schemata")}
        ledger = f"{DATABASE}_seamline"
        for name in found - {ledger}:
            if name == DATABASE or name.startswith(f"{DATABASE}_"):
                execute(self.session, f"DROP DATABASE {name}")
        if ledger in found:
            for (table,) in self.fetch(f"SHOW TABLES IN {ledger}"):
                execute(self.session, f"DELETE FROM {AT}.{table}")
        execute(self.session, f"CREATE DATABASE {DATABASE}_stage")

    def fetch(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """By a session whose login is the publisher."""
        with self.session.cursor() as cursor:
            cursor.execute(statement)
            found: Sequence[tuple[Any, ...]] = cursor.fetchall()
            return found

    def do(self, *statements: str) -> None:
        """As the administrator."""
        with closing(mariadb(replace(self.root, database=""))) as root, root.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


class MySqlWorld(MariaDbWorld):
    kind = "mysql"
    dialect = MYSQL


RELATIONAL = {world.kind: world for world in (MariaDbWorld, MySqlWorld)}


def relational_maker(kind: str, request: pytest.FixtureRequest) -> Callable[[Sequence[Table]], MariaDbWorld]:
    publisher = request.getfixturevalue(f"{kind}_publisher")
    root = request.getfixturevalue("mysql_root") if kind == MySqlWorld.kind else None
    return lambda tables: RELATIONAL[kind](tables, publisher, root=root)


def _as_logged(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if value is None or isinstance(value, (int, str)) else str(value)
