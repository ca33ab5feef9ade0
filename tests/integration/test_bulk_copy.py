"""The bulk path: whole tables from MariaDB into staging tables of PostgreSQL, every value as it was."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from decimal import Context, Decimal

import pyarrow as pa
import pytest

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.bulk.copy import Copied, CopyItem, CopyTarget, copy_group, copy_one, grouped
from seamline.databases.mysql import snapshot_barrier
from seamline.databases.mysql.client import MARIADB, query
from seamline.databases.mysql.one_session import SessionReaders
from seamline.databases.mysql.snapshot_barrier import BarrierLocks, Coordinator, used
from seamline.databases.mysql.snapshot_sessions import BEGIN_SNAPSHOT, SnapshotLock, close_all
from seamline.databases.postgres.binary_copy import binary_copy
from seamline.databases.postgres.read import Relation, open_views
from seamline.domain.canonical import inexact_columns
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import SchemaConflict, TransientError
from seamline.domain.position import Position
from seamline.kinds.bulk import BulkRead, StagedPlace
from seamline.plan.model import DestinationPlan, SourcePlan
from seamline.ports import ReadView
from seamline.sinks.postgres.staging import StagingArea, fill
from seamline.sources.mariadb.bulk import BulkReaders
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mariadb.sessions import MariaDbSnapshots, address_of, open_session, views_at
from seamline.stack.layout import Layout
from seamline.values.build import batch_of
from seamline.values.digest import canonical_texts
from tests.integration.binary_values import exact, read_rows
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.kinds import CASES, INEXACT_CASES, LENIENT, KindCase
from tests.integration.known import known_by_id
from tests.postgres_wire import WIRE
from tests.waiting import wait_until

SOURCE_ID, DESTINATION_ID = "snap_bulk_source", "snap_bulk_destination"
SOURCE = SourcePlan("s", "mariadb", "snap_bulk", SOURCE_ID, SOURCE_ID, SOURCE_ID, "log", "connector")
DESTINATION = DestinationPlan("warehouse", "postgres", DESTINATION_ID, "bulk")
SOMEWHERE = BinlogPosition("0-1-1")
FLOATS = Table(
    "floats",
    (
        Column("id", Kind.INTEGER, "int", nullable=False, length=32),
        Column("f", Kind.FLOAT, "float"),
        Column("d", Kind.DOUBLE, "double"),
    ),
    ("id",),
)


def _definition(case: KindCase) -> Table:
    return Table(case.table.name, (case.table.columns[0], replace(case.column, name="v")), ("id",))


@pytest.fixture(scope="module")
def source() -> Iterator[Connection]:
    with mariadb_database("snap_bulk") as connection, known_by_id(connection, SOURCE_ID, "mysql"):
        with closing(mariadb(connection)) as session, session.cursor() as cursor:
            for case in (*CASES, *INEXACT_CASES):
                cursor.execute(f"CREATE TABLE {case.table.name} (id INT PRIMARY KEY, v {case.mariadb_type})")
                for number, literal in enumerate(["NULL", *(edge.mariadb for edge in case.edges)]):
                    cursor.execute(f"{LENIENT} INSERT INTO {case.table.name} VALUES ({number}, {literal})")
            cursor.execute("CREATE TABLE floats (id INT PRIMARY KEY, f FLOAT, d DOUBLE)")
            cursor.execute(
                "INSERT INTO floats VALUES (1, 0.1e0, 0.1), (2, -0e0, -0e0), (3, 3.4e38, 5e-324), (4, 16777217, 1e20)"
            )
        yield connection


@pytest.fixture(scope="module")
def destination() -> Iterator[Connection]:
    with postgres_database("snap_bulk") as connection, known_by_id(connection, DESTINATION_ID, "postgres"):
        yield connection


def copied(tables: Sequence[Table], source: Connection, destination: Connection) -> dict[str, StagedPlace]:
    """All tables through one task's children, at one address."""
    places = dict(StagingArea(destination, DESTINATION, run_id="bulk").create(tables))
    items = [
        CopyItem(BulkRead(table, Segment(table.name), number), (CopyTarget(places[table.name], DESTINATION),))
        for number, table in enumerate(tables)
    ]
    copy_at_one_address(items, source)
    return places


def copy_at_one_address(items: Sequence[CopyItem], source: Connection, *, run: str = "bulk") -> list[Copied]:
    (group,) = grouped(items, source=SOURCE, tasks=1, children_max=4)
    group = replace(group, barrier=run)
    sessions = [open_session(source)]
    with (
        Coordinator(
            source,
            server=MARIADB,
            snapshots=(snapshots := MariaDbSnapshots(source, SnapshotLock.BRIEF)),
            locks=BarrierLocks(run),
            participants=len(group.participants),
            sessions=sessions,
        ) as coordinator,
        ThreadPoolExecutor(1) as pool,
    ):
        future = pool.submit(copy_group, group)
        try:
            position = coordinator.open_at_barrier(is_alive=lambda: not future.done())
        finally:
            # What the readers say goes first: they know why they ended.
            done = future.result()
    close_all(sessions)
    assert {one.proof for one in done} == {snapshots.proof_of(position)}
    return done


def _views(source: Connection, destination: Connection, places: dict[str, StagedPlace]) -> tuple[ReadView, ReadView]:
    tables = [place.table for place in places.values()]
    (left,) = views_at([open_session(source)], connection=source, position=SOMEWHERE, tables=tables)
    relations = {name: Relation(place.schema, place.name) for name, place in places.items()}
    (right,) = open_views(destination, tables=tables, relations=relations, count=1, position_of=lambda _: SOMEWHERE)
    return left, right


def copied_by_one_session(
    tables: Sequence[Table], source: Connection, destination: Connection
) -> dict[str, StagedPlace]:
    places = dict(StagingArea(destination, DESTINATION, run_id="one").create(tables))
    with closing(open_session(source)) as session:
        query(session, BEGIN_SNAPSHOT)
        reads = [BulkRead(table, Segment(table.name), 0) for table in tables]
        readers = SessionReaders(session, source, reads, server=MARIADB, proof=str(address_of(session)))
        for number, table in enumerate(tables):
            item = CopyItem(readers.reads[number], (CopyTarget(places[table.name], DESTINATION),))
            (copied_now,) = copy_one(readers, number, item, {})
            assert copied_now.proof == str(address_of(session))
    return places


@pytest.mark.parametrize("copying", [copied, copied_by_one_session])
def test_every_value_of_every_kind_arrives_as_it_was(
    source: Connection, destination: Connection, copying: Callable[..., dict[str, StagedPlace]]
) -> None:
    tables = [_definition(case) for case in (*CASES, *INEXACT_CASES)]
    places = copying(tables, source, destination)
    left, right = _views(source, destination, places)
    for table in tables:
        keys = [str(number) for number in range(0, 20)]
        assert dict(left.rows(table.name, keys)).keys() == dict(right.rows(table.name, keys)).keys()
        if not inexact_columns(table):
            assert left.rows(table.name, keys) == right.rows(table.name, keys), table.name
        segment = Segment(table.name)
        assert left.digests(segment, run_key="k") == right.digests(segment, run_key="k"), table.name
    with postgres(destination) as session:
        for case in INEXACT_CASES:
            place = places[case.table.name]
            found = session.execute(f'SELECT v::float8 FROM {place.schema}."{place.name}" ORDER BY id'.encode())
            # As Python writes them each double has a text of its own, zeros too.
            assert [str(v) for (v,) in found] == ["None", *(str(edge.value) for edge in case.edges)], case.column.name
    left.close()
    right.close()


def test_commits_go_on_between_two_attempts_of_a_snapshot_barrier(
    source: Connection, destination: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_barrier, "PAUSE_S", 1.0)
    held: list[tuple[float, float]] = []
    right = Coordinator._open  # noqa: SLF001

    def first_in_vain(coordinator: Coordinator, attempt: int) -> Position | None:
        began = time.monotonic()
        position = right(coordinator, attempt)
        held.append((began, time.monotonic()))
        return None if attempt == 0 else position

    monkeypatch.setattr(Coordinator, "_open", first_in_vain)
    copied([FLOATS], source, destination)
    assert all(after[0] - before[1] >= 1.0 for before, after in itertools.pairwise(held))
    assert len(held) > 1


def test_an_empty_table_proves_its_position_too(source: Connection, destination: Connection) -> None:
    with closing(mariadb(source)) as session, session.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE nothing (id INT PRIMARY KEY, at TIMESTAMP(6) NULL)")
    table = Table("nothing", (Column("id", Kind.INTEGER, "int", False, 32), Column("at", Kind.INSTANT, "", True, 0, 6)))
    place = StagingArea(destination, DESTINATION, run_id="empty").create([table])["nothing"]
    item = CopyItem(BulkRead(table, Segment("nothing"), 0), (CopyTarget(place, DESTINATION),))
    (done,) = copy_at_one_address([item], source, run="empty")
    assert done.rows == 0


def test_one_date_of_a_table_is_read_where_its_segment_says_so(source: Connection, destination: Connection) -> None:
    with closing(mariadb(source)) as session, session.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE dated (id INT PRIMARY KEY, at TIMESTAMP(6) NULL)")
        cursor.execute(
            "INSERT INTO dated VALUES (1, '2026-01-01 15:59:59.999999'), (2, '2026-01-01 16:00:00'),"
            " (3, '2026-01-02 15:59:59.999999'), (4, '2026-01-02 16:00:00'), (5, NULL)"
        )
    id_column = Column("id", Kind.INTEGER, "int", False, 32)
    table = Table("dated", (id_column, Column("at", Kind.INSTANT, "timestamp(6)", True, 0, 6)), ("id",))
    place = StagingArea(destination, DESTINATION, run_id="dated").create([table])["dated"]
    segment = Segment("dated", "at", "2026-01-01 16:00:00", "2026-01-02 16:00:00")
    copy_at_one_address([CopyItem(BulkRead(table, segment, 0), (CopyTarget(place, DESTINATION),))], source, run="dated")
    with postgres(destination) as written:
        found = written.execute(f'SELECT id FROM {place.schema}."{place.name}" ORDER BY id'.encode()).fetchall()
    assert found == [(2,), (3,)]


def test_a_table_without_a_planned_column_ends_the_read_by_name(source: Connection, destination: Connection) -> None:
    with closing(mariadb(source)) as session, session.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE moved (id INT PRIMARY KEY)")
    table = Table("moved", (Column("id", Kind.INTEGER, "int", False, 32), Column("gone", Kind.INTEGER, "int")), ("id",))
    place = StagingArea(destination, DESTINATION, run_id="moved").create([table])["moved"]
    item = CopyItem(BulkRead(table, Segment("moved"), 0), (CopyTarget(place, DESTINATION),))
    with pytest.raises((TransientError, SchemaConflict), match="moved"):
        copy_at_one_address([item], source, run="moved")


def test_a_text_that_the_destination_cannot_hold_ends_the_copy_with_its_cure(
    source: Connection, destination: Connection
) -> None:
    with closing(mariadb(source)) as session, session.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE memo (id INT PRIMARY KEY, text VARCHAR(20))")
        cursor.execute("INSERT INTO memo VALUES (1, 'before'), (2, CONCAT('nul', CHAR(0)))")
    table = Table("memo", (Column("id", Kind.INTEGER, "int", False, 32), Column("text", Kind.STRING, "varchar(20)")))
    place = StagingArea(destination, DESTINATION, run_id="memo").create([table])["memo"]
    item = CopyItem(BulkRead(table, Segment("memo"), 0), (CopyTarget(place, DESTINATION),))
    with pytest.raises(SchemaConflict, match="column text of table memo holds the character NUL") as refused:
        copy_at_one_address([item], source, run="memo")
    assert "WHERE INSTR(text, CHAR(0))` lists the rows" in refused.value.hint
    with postgres(destination) as session:
        assert session.execute(f'SELECT count(*) FROM {place.schema}."{place.name}"'.encode()).fetchone() == (0,)


@pytest.mark.parametrize(
    ("precision", "scale"), [(1, 0), (4, 4), (18, 4), (20, 0), (38, 0), (38, 38), (65, 0), (65, 30)]
)
def test_decimals_of_every_magnitude_arrive_as_they_were(destination: Connection, precision: int, scale: int) -> None:
    """An encoder that drops a group of four zeros moves the digits behind it (pgpq did so before 0.12)."""
    unscaled = [0, *(10**n for n in range(precision)), *(10 ** (n + 1) - 1 for n in range(precision))]
    unscaled += [sum(10**n for n in range(start, precision, step)) for start in range(5) for step in (3, 4, 5, 8, 9)]
    exact = Context(prec=100)
    values = [exact.scaleb(Decimal(sign * number), -scale) for number in unscaled for sign in (1, -1)]
    columns = (
        Column("id", Kind.INTEGER, "int", False, 32),
        Column("d", Kind.DECIMAL, "decimal", True, 0, precision, scale),
    )
    table = Table("amount", columns, ("id",))
    place = StagingArea(destination, DESTINATION, run_id=f"{precision}.{scale}").create([table])["amount"]
    assert fill(destination, place, binary_copy([batch_of(table, enumerate(values))], table)) == len(values)
    with postgres(destination) as session:
        found = session.execute(f'SELECT d::text FROM {place.schema}."{place.name}" ORDER BY id'.encode()).fetchall()
    assert [text for (text,) in found] == [f"{abs(v) if v == 0 else v:f}" for v in values]


VALUES_OF = {
    "mariadb": {case.column: [edge.value for edge in case.edges] for case in (*CASES, *INEXACT_CASES)},
    "postgres": {column: [value for _, value in pairs if "\0" not in str(value)] for column, pairs in WIRE.items()},
}


@pytest.mark.parametrize("source_kind", VALUES_OF)
def test_every_value_of_the_typed_form_is_stored_as_it_is(destination: Connection, source_kind: str) -> None:
    values = VALUES_OF[source_kind]
    table = Table("typed", (Column("id", Kind.INTEGER, "int", False, 32), *values), ("id",))
    count = max(map(len, values.values()))
    rows = [(number, *(some[number % len(some)] for some in values.values())) for number in range(count)]
    batch = batch_of(table, [*rows, (count, *[None] * len(values))])
    place = StagingArea(destination, DESTINATION, run_id=f"typed {source_kind}").create([table])["typed"]
    assert fill(destination, place, binary_copy([batch.slice(0, 3), batch.slice(3)], table)) == count + 1
    with postgres(destination) as session:
        stored = read_rows(session, f'SELECT {exact(table)} FROM {place.schema}."{place.name}" ORDER BY id')
    found = batch_of(table, stored)
    for column, wanted, got in zip(table.columns, batch.columns, found.columns, strict=True):
        assert canonical_texts(column, got).equals(canonical_texts(column, wanted)), column.name


def test_a_reader_that_lost_its_session_while_it_waited_may_be_tried_again(source: Connection) -> None:
    table = FLOATS
    readers = BulkReaders(source, [BulkRead(table, Segment(table.name), 0)], locks=BarrierLocks("lost"), participant=0)
    readers._open(0)
    assert readers._session is not None
    readers._begin_to_read(readers._session, "")
    with closing(mariadb(source)) as session, session.cursor() as cursor:
        cursor.execute(f"KILL {readers._session.thread_id()}")
    wait_until(lambda: not used(readers._control, [readers._named]), timeout_s=30, what="the session to end")
    with pytest.raises(TransientError, match="was lost"):
        next(readers.batches(0, proven=lambda _: None))
    readers.close()


def test_what_ends_the_source_s_rows_stays_out_of_the_destination_s_log(destination: Connection) -> None:
    """A COPY that is given up gives the server the reason, and the server's log is not for row values."""

    def broken() -> Iterator[pa.RecordBatch]:
        yield batch_of(FLOATS, [(1, 0.5, 0.5)])
        raise SchemaConflict("the value 4711-secret does not fit", table="floats")

    place = StagingArea(destination, DESTINATION, run_id="broken").create([FLOATS])["floats"]
    with pytest.raises(SchemaConflict, match="4711-secret"):
        fill(destination, place, binary_copy(broken(), FLOATS))
    logged = Layout(settings.load()).log_of("postgres").read_text(encoding="utf-8", errors="replace")
    assert "the source's rows have ended early" in logged
    assert "4711-secret" not in logged
    with postgres(destination) as session:
        assert session.execute(f'SELECT count(*) FROM {place.schema}."{place.name}"'.encode()).fetchone() == (0,)
