"""The destinations that the behaviour suite runs over, each with what a test needs beside the Sink contract."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import psycopg

from seamline.adapters.connections import Connection, resolve
from seamline.databases.postgres.binary_copy import binary_copy
from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.types import column_definitions
from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import CommitUnknown
from seamline.domain.ledger import LedgerRow
from seamline.domain.position import position_to_json
from seamline.plan.model import SyncPlan
from seamline.ports import Failpoints, Load, Publication, Sink
from seamline.sinks.postgres.sink import PostgresSink
from seamline.values.changes import ChangeDecoder
from tests.bank_history import text_of
from tests.integration.databases import either_of, postgres
from tests.log_topic import publication, sync_plan
from tests.memory_sink import LostAnswer, MemoryDestination, MemorySink, as_logged
from tests.opened_sink import decoder_of

Row = dict[str, Any]
# Kinds whose streams append what happened, and look at what they hold where a change needs it alone.
APPENDED = ("kafka", "change_files")


def lose_one_answer(
    sender: Any, lost: LostAnswer, *, end_at_server: Callable[[Any], None], close: Callable[[Any], None]
) -> None:
    """The next COMMIT that `sender` sends ends in CommitUnknown; where it is not to be applied, its session is ended
    at the server before."""
    send = sender._send_commit  # noqa: SLF001 (only there does not knowing begin)
    lost_before: list[LostAnswer] = []

    def send_and_lose(session: Any, failpoint: str) -> None:
        if lost_before:
            send(session, failpoint)
            return
        lost_before.append(lost)
        if lost is LostAnswer.NOT_APPLIED:
            end_at_server(session)
        send(session, failpoint)
        close(session)
        raise CommitUnknown("the answer is lost")

    sender._send_commit = send_and_lose  # noqa: SLF001


def end_postgres_session(session: "psycopg.Connection[Any]") -> None:
    with postgres(resolve("postgres_root")) as root:
        root.execute("SELECT pg_terminate_backend(%s, 5000)", (session.info.backend_pid,))


class World(Protocol):
    plan: SyncPlan

    def sink(self, *, failpoints: Failpoints | None = None) -> Sink:
        """Another session's sink over the same destination."""

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        """One whose next commit or publish ends in CommitUnknown."""

    def load(self, table: Table, rows: Sequence[Row]) -> Load:
        """Stage a whole table."""

    def rows(self, table: Table) -> list[str]:
        """The committed live rows as sorted JSON texts, values as the log writes them."""

    def findings(self) -> list[Finding]: ...

    def put_back(self, ledger: LedgerRow) -> None:
        """As a backup of that moment leaves the ledger; the rows stay."""

    def close(self) -> None: ...


def tables_of(world: World) -> list[Table]:
    """What a world keeps of the tables: all, or those with a key."""
    return [entry.definition for entry in world.plan.tables]


def loads_of(world: World, **rows: Sequence[Row]) -> list[Load]:
    """Each of its tables staged, with these rows or none."""
    return [world.load(table, rows.get(table.name, [])) for table in tables_of(world)]


def publication_of(world: World, **given: Any) -> Publication:
    """Of all of its tables."""
    return publication(tables_of(world), **given)


class MemoryWorld:
    def __init__(self, tables: Sequence[Table], *, kind: type[MemorySink] = MemorySink) -> None:
        self.plan = sync_plan(tables)
        self._destination = MemoryDestination()
        self._kind = kind

    def sink(self, *, failpoints: Failpoints | None = None) -> Sink:
        return self._kind(self.plan, self._destination, failpoints=failpoints)

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        self._destination.lose_answer = lost
        return self.sink()

    def load(self, table: Table, rows: Sequence[Row]) -> Load:
        staged_as = f"{table.name}__{len(self._destination.state.staged)}"
        self._destination.stage(table, staged_as, rows)
        return Load(table, staged_as, len(rows))

    def rows(self, table: Table) -> list[str]:
        return sorted(text_of(row) for row in self._destination.rows(table))

    def typed_rows(self, table: Table) -> list[tuple[Any, ...]]:
        """The committed live rows as the typed form's own values, in no order."""
        held = self._destination.state.tables.get(table.name, {})
        return [tuple(row) for row, copies in held.values() for _ in range(copies)]

    def findings(self) -> list[Finding]:
        return sorted(self._destination.findings, key=lambda finding: finding.offset)

    def put_back(self, ledger: LedgerRow) -> None:
        self._destination.ledgers[ledger.stream] = ledger

    def close(self) -> None:
        return


class PostgresWorld:
    """Its own schemas in a database of the test session, whose publisher `connection` is. `decoder`: of another kind of
    source than the plan's."""

    def __init__(
        self,
        tables: Sequence[Table],
        connection: Connection,
        *,
        kind: type[PostgresSink] = PostgresSink,
        decoder: ChangeDecoder | None = None,
        resolve: Callable[[str], Connection] | None = None,
    ) -> None:
        self.plan = sync_plan(tables)
        self._connection = connection
        self._kind = kind
        self._decoder = decoder
        self._resolve = resolve or either_of(connection)
        self._sinks: list[PostgresSink] = []
        self._staged = 0
        self.session: psycopg.Connection[Any] = postgres(connection)
        found = self.session.execute(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, 'settlement_incremental_')"
        )
        for schema in ("seamline", "settlement", "settlement_stage", *(name for (name,) in found.fetchall())):
            self.session.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        self.session.execute("CREATE SCHEMA settlement_stage")

    def sink(self, *, failpoints: Failpoints | None = None) -> PostgresSink:
        made = self._kind(
            self.plan,
            self.plan.destinations[0],
            decoder=self._decoder or decoder_of(self.plan),
            resolve=self._resolve,
            failpoints=failpoints,
        )
        self._sinks.append(made)
        return made

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        made = self.sink()
        lose_one_answer(made, lost, end_at_server=end_postgres_session, close=psycopg.Connection.close)
        return made

    def load(self, table: Table, rows: Sequence[Row]) -> Load:
        self._staged += 1
        name = f"{table.name}__{self._staged}"
        place = f"settlement_stage.{quoted(name)}"
        self.session.execute(f"CREATE TABLE {place} ({column_definitions(table)})")
        decoder = self._decoder or decoder_of(self.plan)
        batch, _ = decoder.rows(table, [json.dumps(row).encode() for row in rows])
        with self.session.cursor().copy(f"COPY {place} FROM STDIN (FORMAT binary)") as copy:
            for part in binary_copy([batch], table):
                copy.write(part)
        return Load(table, name, len(rows))

    def rows(self, table: Table) -> list[str]:
        """Read back as typed values and written as the log writes them; only for the plain test tables."""
        place = f"settlement.{quoted(table.name)}"
        if self.session.execute("SELECT to_regclass(%s)", (place,)).fetchone() == (None,):
            return []
        names = [column.name for column in table.columns]
        found = self.session.execute(f"SELECT {', '.join(quoted(name) for name in names)} FROM {place}").fetchall()
        return sorted(
            text_of({name: as_logged(value) for name, value in zip(names, row, strict=True)}) for row in found
        )

    def findings(self) -> list[Finding]:
        return [
            Finding(*row)
            for row in self.session.execute(
                "SELECT table_name, kind, row_key, log_offset FROM seamline.finding ORDER BY log_offset"
            ).fetchall()
        ]

    def put_back(self, ledger: LedgerRow) -> None:
        self.session.execute(
            "UPDATE seamline.ledger SET next_offset = %s, position = %s, epoch = %s WHERE stream = %s",
            (ledger.next_offset, json.dumps(position_to_json(ledger.position)), ledger.epoch, str(ledger.stream)),
        )

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()
        self.session.close()


WorldMaker = Callable[[Sequence[Table]], World]
