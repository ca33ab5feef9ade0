"""Derived tables of a lake: computed from what a run holds, compared with it, and a snapshot of their own per cut."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import TableChanges
from seamline.domain.cutover import BoundaryGate
from seamline.domain.errors import GateFailed, Refused
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable
from seamline.domain.verdict import BreakType, TableVerdict, Verdict
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.derived import derived_table, frame_schema
from seamline.kinds.found import sink_kind
from seamline.kinds.reading import SyncTables
from seamline.kinds.sink import Derives, ReadsAtOnePosition
from seamline.plan.model import DerivedTablePlan, TablePlan
from seamline.ports import Load
from seamline.sinks.lake import derived as lake_derived
from seamline.sinks.lake.loads import location_of
from seamline.sync.compaction import compact
from seamline.sync.transactions import TransactionAssembler
from seamline.values.build import batch_of
from seamline_spark.data_source import SeamlineReader, plain
from tests.contract.behaviours import Applying
from tests.contract.lake_worlds import LAKES, PostgresLakeWorld
from tests.contract.test_lake_cuts import Cutting, resolved
from tests.integration.databases import either_of
from tests.log_topic import MARKERS, STREAM, Change, LogTopic, insert, publication

DAY = date(2026, 11, 27)
ENTRY = Table(
    "entry",
    (
        Column("id", Kind.INTEGER, "bigint", length=64),
        Column("currency", Kind.CHAR, "char(3)", length=3),
        Column("day", Kind.DATE, "date"),
        Column("at", Kind.INSTANT, "timestamp(6)", precision=6),
        Column("took", Kind.TIME, "time(6)", precision=6),
        Column("who", Kind.UUID, "uuid"),
        Column("amount", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4),
        Column("count", Kind.UNSIGNED, "bigint unsigned", length=64),
    ),
    ("id",),
)
BY = ("currency", "day", "at", "took", "who")
BALANCE = DerivedTablePlan("balance", "entry", "amount", BY)
COUNTS = DerivedTablePlan("counts", "entry", "count", ("currency",))
WHO = "12345678-1234-5678-1234-567812345678"
MOMENT = datetime(2026, 11, 27, 8, 30, 0, 123456, UTC)
NOTHING = (None,) * 4
ROWS = [
    (1, "EUR", DAY, MOMENT, timedelta(hours=-3), WHO, Decimal("9999999999999999.9999"), 2**64 - 1),
    (2, "EUR", DAY, MOMENT, timedelta(hours=-3), WHO, Decimal("0.0001"), 2**64 - 1),
    (3, None, *NOTHING, Decimal("-5"), None),
    (4, None, *NOTHING, None, None),
    (5, "USD", *NOTHING, None, 7),
]


class Deriving(Cutting):
    """A stream that goes on, its cuts, and what is derived from them, by Arrow in place of Spark."""

    def __init__(self, world: PostgresLakeWorld) -> None:
        super().__init__(world)
        self.plan = replace(self.plan, tables=(TablePlan("entry", None, ENTRY),))
        self.derives = cast(Derives, self.kind)

    def opened(self, at: date | str) -> SyncTables:
        return cast(ReadsAtOnePosition, self.kind).open_tables(self.world.destination, STREAM, at)

    def staged_files(self, made: Load) -> list[Path]:
        return list(location_of(dict(self.world.destination.options)["warehouse"], made.staged_as).glob("data/*"))

    def held(self, run: str) -> Load:
        return Load(ENTRY, self.pin(run).staged_as["entry"], len(ROWS))

    def frames(self, base: Load, derived: DerivedTablePlan, parts: int = 1) -> pa.Table:
        columns = [ENTRY.column(name) for name in (*derived.by, derived.column)]
        found = self.derives.staged_parts(self.world.destination, base, parts_max=parts)
        assert 1 <= len(found) <= parts
        read = [self.derives.read_staged(self.world.destination, base, columns, part) for part in found]
        return pa.Table.from_batches([batch for part in read for batch in part], frame_schema(columns))

    def made(self, base: Load, derived: DerivedTablePlan, run: str, spoilt: Callable[[pa.Table], pa.Table]) -> Load:
        table = derived_table(derived, ENTRY)
        sums = self.frames(base, derived).group_by(list(derived.by)).aggregate([(derived.column, "sum")])
        rows = sums.rename_columns([*derived.by, derived.column]).cast(frame_schema(table.columns))
        return self.derives.stage_derived(self.world.destination, table, spoilt(rows), run_id=run)

    def judged(self, base: Load, made: Load, derived: DerivedTablePlan = BALANCE) -> TableVerdict:
        return self.derives.compare_derived(self.world.destination, derived, base=base, made=made, position="p")

    def published(self, run: str, day: date = DAY, name: str = "balance") -> tuple[int, Load]:
        pinned = self.pin(run)
        base = Load(ENTRY, pinned.staged_as["entry"], 0)
        made = self.made(base, replace(BALANCE, name=name), run, lambda rows: rows)
        tables = (
            StagedTable("entry", CutMode.WHOLE, base.staged_as, 1, Verdict.MATCH),
            StagedTable(name, CutMode.DERIVED, made.staged_as, made.rows, Verdict.MATCH),
        )
        at = pinned.views[0].position
        cut = StagedCut(run, STREAM.sync, STREAM.destination, day, at, datetime.now(UTC), tables)
        return self.cuts.publish(cut, definitions={}).version, made


@pytest.fixture(params=LAKES)
def deriving(
    request: pytest.FixtureRequest, sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Deriving]:
    resolved_to_derive(monkeypatch, sink_database)
    with closing(PostgresLakeWorld([ENTRY], sink_database, tmp_path, lake=LAKES[request.param])) as world:
        deriving = deriving_in(world)
        with closing(deriving.cuts):
            yield deriving


def resolved_to_derive(patch: pytest.MonkeyPatch, connection: Connection) -> None:
    resolved(patch, connection)
    for module in ("derived", "pinned"):
        patch.setattr(f"seamline.sinks.lake.{module}.resolve", either_of(connection))


def deriving_in(world: PostgresLakeWorld) -> Deriving:
    """Over a table that is published there."""
    rows = batch_of(ENTRY, ROWS)
    kind = sink_kind(world.destination.kind)
    place = kind.load_area(world.destination, run_id="a run").create([ENTRY])["entry"]
    kind.load(world.destination, place, ArrowRows(rows.schema, iter([rows])))
    loads = [Load(ENTRY, place.name, len(ROWS))]
    world.sink().publish(STREAM, loads, publication=publication([ENTRY]))
    return Deriving(world)


class Streaming(Applying):
    """A stream by hand of this one table."""

    def batches(self, *changes: Change, chunks: int = 1) -> list[TableChanges]:  # noqa: ARG002
        tables, log = {ENTRY.name: ENTRY}, LogTopic(tables=[ENTRY])
        log.transaction(*changes)
        transactions = TransactionAssembler(tables, marker_table=MARKERS).feed(log.records)
        return list(compact(transactions, tables=tables, gate=BoundaryGate({}), chunk=0).values())


def one_more(deriving: Deriving, number: int) -> None:
    """A span of the stream."""
    row = {"id": number, "currency": "CHF", **dict.fromkeys(("day", "at", "took", "who", "amount", "count"))}
    Streaming(deriving.world).span(insert(ENTRY, **row))


def every_digit_arrives(deriving: Deriving) -> None:
    base = deriving.held("run")
    made = deriving.made(base, BALANCE, "run", lambda rows: rows)
    verdict = deriving.judged(base, made)
    assert (verdict.verdict, verdict.reason, verdict.source_rows) == (Verdict.MATCH, "", 3)
    assert verdict.totals[0].source_sum == verdict.totals[0].destination_sum == Decimal("9999999999999995.0000")


def test_a_derived_table_equals_the_sums_of_what_is_held_to_the_last_digit(deriving: Deriving) -> None:
    every_digit_arrives(deriving)
    base = deriving.held("run")
    made = deriving.made(base, COUNTS, "run", lambda rows: rows)
    assert deriving.judged(base, made, COUNTS).verdict is Verdict.MATCH
    one_more(deriving, 10)
    assert deriving.judged(base, made, COUNTS).verdict is Verdict.MATCH, "what is held stays as it is"


def test_parts_of_what_is_held_leave_no_row_out_and_read_none_twice(deriving: Deriving) -> None:
    for number in range(10, 15):
        one_more(deriving, number)
    base = deriving.held("run")
    for parts in (1, 2, 4, 99):
        assert deriving.frames(base, COUNTS, parts).num_rows == 10


def test_what_a_job_has_made_is_read_back_as_it_was_staged(deriving: Deriving) -> None:
    """As Spark writes the values, and as Spark can read them again."""
    columns = (
        Column("is_open", Kind.BOOLEAN, "boolean"),
        Column("day", Kind.DATE, "date"),
        Column("at", Kind.INSTANT, "timestamp", precision=6),
        Column("written", Kind.DATETIME, "timestamp_ntz", precision=6),
        Column("year", Kind.YEAR, "smallint"),
        Column("total", Kind.UNSIGNED, "bigint unsigned", length=64),
        Column("memo", Kind.STRING, "string"),
    )
    table = Table("job", columns)
    staged = [
        ("1", "2024-02-29", "2026-03-29 01:00:00.5", "1969-12-31 23:59:59", 2026, Decimal(2**64 - 1), "工资"),
        ("0", "0001-01-01", "9999-12-31 23:59:59.999999", "2026-03-29 02:30:00", 1901, Decimal(0), ""),
        (None,) * 7,
    ]
    schema = frame_schema(columns)
    arrays = [
        pa.array(list(values), field.type) for values, field in zip(zip(*staged, strict=True), schema, strict=True)
    ]
    made = deriving.derives.stage_derived(
        deriving.world.destination, table, pa.Table.from_arrays(arrays, schema=schema), run_id="run"
    )
    read = pa.Table.from_batches(deriving.derives.read_derived(deriving.world.destination, made), schema).to_pylist()
    assert [tuple(row.values()) for row in read] == [
        ("true", *staged[0][1:2], "2026-03-29 01:00:00.500000Z", "1969-12-31 23:59:59.000000", *staged[0][4:]),
        ("false", *staged[1][1:2], "9999-12-31 23:59:59.999999Z", "2026-03-29 02:30:00.000000", *staged[1][4:]),
        staged[2],
    ]


def _digit(rows: pa.Table) -> pa.Table:
    last = len(rows.schema) - 1
    changed = pc.add(rows.column(last).cast(pa.decimal128(30, 4)), pa.scalar(Decimal("0.0001"), pa.decimal128(20, 4)))
    return rows.set_column(last, rows.schema.field(last), changed.cast(rows.schema.field(last).type))


@pytest.mark.parametrize(
    ("spoilt", "found"),
    [
        (_digit, {BreakType.VALUE}),
        (lambda rows: rows.slice(1), {BreakType.MISSING}),
        (lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]), {BreakType.UNEXPECTED}),
    ],
)
def test_a_derived_table_with_another_digit_or_group_breaks(
    deriving: Deriving, spoilt: Callable[[pa.Table], pa.Table], found: set[BreakType]
) -> None:
    base = deriving.held("run")
    verdict = deriving.judged(base, deriving.made(base, BALANCE, "run", spoilt))
    assert verdict.verdict is Verdict.BREAK
    assert {one.type for one in verdict.breaks} == found


def test_an_attempt_that_wakes_up_late_does_not_change_what_another_has_compared(deriving: Deriving) -> None:
    base = deriving.held("run")
    compared = deriving.made(base, BALANCE, "run", lambda rows: rows)
    deriving.made(base, BALANCE, "run", _digit)
    assert deriving.judged(base, compared).verdict is Verdict.MATCH
    assert len(deriving.staged_files(compared)) == 1


def test_readers_get_the_derived_tables_of_a_cut_with_the_others(deriving: Deriving) -> None:
    assert deriving.published("first")[0] == 1
    one_more(deriving, 10)
    assert deriving.published("second")[0] == 2
    assert deriving.published("third", DAY + timedelta(days=1))[0] == 1
    one_more(deriving, 11)
    for at in (DAY, "proven"):
        assert list(deriving.opened(at)) == ["balance", "entry"]
        assert deriving.opened(at)["balance"].arrow().num_rows == 4
    assert list(deriving.opened("live")) == ["entry"], "a derived table has no live state"
    assert deriving.world.findings() == []


def test_spark_s_tasks_read_of_a_cut_what_python_reads(deriving: Deriving) -> None:
    one_more(deriving, 10)
    deriving.published("first")
    one_more(deriving, 11)
    for name, rows in (("entry", 6), ("balance", 4)):
        table = deriving.opened(DAY)[name]
        reader = SeamlineReader(table, from_arrow_schema(plain(table.schema), prefer_timestamp_ntz=True))
        assert len(reader.partitions()) == table.parts
        found = pa.Table.from_batches([batch for part in reader.partitions() for batch in reader.read(part)])
        assert found.num_rows == rows
        wanted = [{**row, "who": row["who"] and str(row["who"])} for row in table.arrow().to_pylist()]
        assert found.to_pylist() == wanted


@pytest.mark.parametrize("deriving", ["iceberg"], indirect=True)
def test_a_cut_tags_its_derived_table_with_the_others(deriving: Deriving) -> None:
    deriving.published("first")
    one_more(deriving, 10)
    deriving.published("second")
    deriving.published("third", DAY + timedelta(days=1))
    tags = ["cut_2026_11_27_v1", "cut_2026_11_27_v2", "cut_2026_11_28_v1"]
    assert set(deriving.tags("balance")) == set(deriving.tags("entry")) == set(tags)
    assert [deriving.rows(tag, "balance").num_rows for tag in tags] == [3, 4, 4]


def test_a_retake_leaves_what_is_published_alone(deriving: Deriving) -> None:
    deriving.published("first")
    deriving.made(deriving.held("first"), BALANCE, "first", lambda rows: rows.slice(1))
    assert deriving.opened(DAY)["balance"].arrow().num_rows == 3


def test_cuts_that_expire_take_the_tags_of_their_derived_tables_along(deriving: Deriving) -> None:
    deriving.published("first")
    kept, _ = deriving.cuts.kept_cuts("settlement")
    assert {one.table for one in kept} == {"balance", "entry"}
    assert deriving.cuts.expire("settlement", DAY, kept).partitions == 2
    assert deriving.kind.name != "iceberg" or deriving.tags("balance") == {}, "only Iceberg has tags"
    assert deriving.published("second")[0] == 2, "the table is still the stream's own"


def test_a_table_of_somebody_else_s_is_not_written_over(deriving: Deriving) -> None:
    deriving.published("first", name="theirs")
    deriving.world.session.execute("DELETE FROM seamline.lake_derived")
    with pytest.raises(Refused, match="was not derived by"):
        deriving.published("second", name="theirs")


def test_files_that_changed_since_they_were_compared_are_not_published(
    deriving: Deriving, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Deriving.made

    def shortened(self: Deriving, *args: Any) -> Load:
        made = right(self, *args)
        return replace(made, rows=made.rows + 1)

    monkeypatch.setattr(Deriving, "made", shortened)
    with pytest.raises(GateFailed):
        deriving.published("first")
    assert "balance" not in deriving.world.seen().heads


def _one_part_alone(patch: pytest.MonkeyPatch) -> None:
    right = lake_derived.LakeDerived.read_staged

    def wrong(self: Any, *args: Any) -> Iterator[pa.RecordBatch]:
        for batch in right(self, *args):
            yield batch.slice(1)

    patch.setattr(lake_derived.LakeDerived, "read_staged", wrong)


def _nothing_is_added_up(patch: pytest.MonkeyPatch) -> None:
    def wrong(derived: DerivedTablePlan, parts: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(parts)

    patch.setattr(lake_derived, "_added", wrong)


@pytest.mark.parametrize("deriving", ["iceberg"], indirect=True)
@pytest.mark.parametrize("plant", [_one_part_alone, _nothing_is_added_up])
def test_a_planted_bug_is_caught(
    deriving: Deriving, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        every_digit_arrives(deriving)
