"""A stream from a captured database into a PostgreSQL of the test's own, running in a thread."""

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

import psycopg

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.databases.postgres.read import Relation, open_views
from seamline.databases.postgres.types import column_definitions
from seamline.domain.catalogue import Table, fingerprint
from seamline.domain.cutover import Boundary
from seamline.domain.digest import Segment
from seamline.domain.errors import SeamlineError
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.verdict import TableVerdict
from seamline.plan.model import StreamPlan, SyncPlan, TablePlan
from seamline.ports import Load, Marker, Orders, Publication, ReadView, StreamReport
from seamline.sinks.postgres.sink import PostgresSink
from seamline.sync.comparison import Work, compare_tables
from seamline.sync.schema_proof import OpenLog
from seamline.sync.self_test import self_tested
from seamline.sync.span_loop import run_stream
from tests.integration.captured import Captured
from tests.integration.databases import either_of, postgres
from tests.integration.known import destination_plan
from tests.opened_sink import postgres_sink
from tests.waiting import wait_until

DESTINATION = destination_plan("warehouse", "live")


class HeldOrders:
    """StreamControl that a test turns by hand."""

    def __init__(self) -> None:
        self.given = Orders()
        self.reports: list[StreamReport] = []

    def orders(self) -> Orders:
        return self.given

    def report(self, report: StreamReport) -> None:
        self.reports.append(report)


@dataclass
class Streamed:
    """`start` runs the stream; its end is `error` or None. With `open_log` it waits for a source that is away."""

    one: Captured
    plan: SyncPlan
    database: Connection
    tables: tuple[Table, ...]
    control: HeldOrders = field(default_factory=HeldOrders)
    error: SeamlineError | None = None
    open_log: OpenLog | None = None
    _thread: threading.Thread | None = None
    _reports_before: int = 0

    @property
    def stream(self) -> StreamId:
        return self.plan.stream_id(DESTINATION.name)

    def sink(self) -> PostgresSink:
        return postgres_sink(self.plan, DESTINATION, resolve=either_of(self.database))

    def ledger(self) -> LedgerRow:
        row = self.sink().read_ledger(self.stream)
        assert row is not None
        return row

    def start(self) -> None:
        self.control.given = Orders()
        self.error = None
        self._reports_before = len(self.control.reports)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_until_it_runs(self) -> None:
        """Until it says its epoch: its first word comes before it has one."""
        wait_until(
            lambda: self.error is not None or any(one.epoch for one in self.control.reports[self._reports_before :]),
            timeout_s=60,
            what="a report of the stream with its epoch",
        )
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.control.given = Orders(wanted=False)
        if self._thread is not None:
            self._thread.join(timeout=60)
            assert not self._thread.is_alive(), "the stream does not stop"
            self._thread = None

    def _run(self) -> None:
        # As a worker is given it.
        plan = self.plan.of_stream(DESTINATION.name)
        schema_guard = registry.schema_guard(plan)
        try:
            with closing(registry.log_reader(plan)) as reader, closing(self.sink()) as sink:
                run_stream(
                    plan,
                    DESTINATION.name,
                    reader=reader,
                    sink=sink,
                    control=self.control,
                    schema_guard=schema_guard,
                    open_log=self.open_log,
                )
        except SeamlineError as exc:
            self.error = exc
        finally:
            if schema_guard is not None:
                schema_guard.close()

    def wait_until_applied(self) -> None:
        """Until everything that the source has committed is visible in the destination."""
        marker = Marker(id=f"applied-{uuid.uuid4().hex}", kind="barrier")
        self.one.source.commit_marker(marker)

        def is_applied() -> bool:
            if self.error is not None:
                raise self.error
            return self.ledger().last_marker == marker.id

        wait_until(is_applied, timeout_s=180, what="the barrier's marker in the ledger")

    def differences(self, *names: str, source: ReadView | None = None) -> dict[str, tuple[object, object]]:
        """Digest pairs of the tables that differ between source, as it is now or in this view, and destination."""
        found: dict[str, tuple[object, object]] = {}
        with self._views() as (now, right):
            left = source or now
            for name in names:
                pair = tuple(dict(view.digests(Segment(name), run_key="one run")) for view in (left, right))
                if pair[0] != pair[1]:
                    found[name] = (pair[0], pair[1])
        return found

    def differing_columns(self, name: str, keys: Sequence[str]) -> dict[str, tuple[object, object]]:
        """Per column the first pair of canonical texts that differ, over the rows of these keys."""
        found: dict[str, tuple[object, object]] = {}
        with self._views() as (left, right):
            here, there = (view.rows(name, keys) for view in (left, right))
        assert here.keys() == there.keys()
        for key, row in here.items():
            for column, text in row.items():
                if text != there[key][column]:
                    found.setdefault(column, (text, there[key][column]))
        return found

    def verdicts(self) -> dict[str, TableVerdict]:
        """Of all its tables, as both sides are now. The caller has seen to it that the same is applied there."""
        work = [Work(table, Segment(table.name), Segment(table.name)) for table in self.tables]
        with self._views() as (source, destination):
            found = compare_tables(work, source=[source], destination=[destination])
            # Under the self-test: of every type that a test streams.
            found, _ = self_tested(found, work, source=source, destination=destination)
        return {verdict.table: verdict for verdict in found}

    @contextmanager
    def _views(self) -> Iterator[tuple[ReadView, ReadView]]:
        (left,) = self.one.source.open_views(1)
        relations = {table.name: Relation(DESTINATION.namespace, table.name) for table in self.tables}
        with closing(left):
            (right,) = open_views(
                self.database, tables=self.tables, relations=relations, count=1, position_of=lambda _: left.position
            )
            with closing(right):
                yield left, right

    def findings(self) -> int:
        with postgres(self.database) as session:
            row = session.execute("SELECT count(*) FROM seamline.finding").fetchone()
        return int(row[0]) if row else -1

    def query(self, statement: str) -> list[tuple[object, ...]]:
        with postgres(self.database) as session:
            return session.execute(statement).fetchall()


@contextmanager
def streamed(one: Captured, database: Connection, *names: str, options: StreamPlan | None = None) -> Iterator[Streamed]:
    """Capture these tables, which must be empty, publish them and give a stream that is not started yet."""
    wanted = one.with_tables(*names)
    one.ensure(wanted)
    tables = one.source.catalogue(names)
    plan = replace(
        wanted,
        destinations=(DESTINATION,),
        tables=tuple(TablePlan(table.name, table=table) for table in tables),
        stream=options or StreamPlan(),
    )
    made = Streamed(one, plan, database, tables)
    _publish(made)
    try:
        yield made
    finally:
        made.stop()


def _publish(made: Streamed) -> None:
    one = made.one
    topic = one.plan.source.log_topic
    low = one.kafka.offsets(topic)[0]
    (view,) = one.source.open_views(1)
    with closing(view):
        at = view.position
    # Of this publication alone: the log may hold that of an earlier one.
    high = f"high-{uuid.uuid4().hex}"
    loads = stage_empty(made)
    made.sink().publish(
        made.stream,
        loads,
        publication=Publication(
            "run-1",
            topic,
            one.kafka.topic_id(topic),
            low,
            at,
            tuple(Boundary(table.name, at, high_marker=high, fingerprint=fingerprint(table)) for table in made.tables),
        ),
    )
    one.source.commit_marker(Marker(id=high, kind="high"))


def stage_empty(made: Streamed) -> list[Load]:
    """An empty staged table for each of its own."""
    with postgres(made.database) as session:
        return [_stage(session, table) for table in made.tables]


def _stage(session: "psycopg.Connection[tuple[object, ...]]", table: Table) -> Load:
    session.execute(f"CREATE SCHEMA IF NOT EXISTS {DESTINATION.stage_namespace}")
    place = Relation(DESTINATION.stage_namespace, table.name)
    session.execute(f"CREATE TABLE {place} ({column_definitions(table)})".encode())
    return Load(table, table.name, 0)
