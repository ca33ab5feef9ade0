"""Derived tables by a real Spark session over a real PostgreSQL, and over lakes: every group, every digit."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from seamline import registry, settings
from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import open_session
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.cut_job import CutJob
from seamline.domain.errors import Refused, SchemaConflict
from seamline.domain.staged_cut import CutMode, CutSource, StagedCut, StagedTable
from seamline.domain.verdict import BreakType, Verdict
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.plan.document import plan_to_json
from seamline.plan.model import DerivedTablePlan, DestinationPlan, NightlyPlan, TablePlan
from seamline.platform import migrate
from seamline.ports import Load
from seamline.sinks.lake.kind import LakeKind
from seamline.sinks.postgres.arrow_rows import page_ranges, read_batches
from seamline.sync.derived import Derived
from seamline.values.build import batch_of
from seamline_spark.cut.derived import derive, require_publishable
from seamline_spark.cut.main import cut
from seamline_spark.session import Application
from seamline_spark.transform.job import AnalysedJob, analysed_job
from tests.contract.lake_worlds import LAKES, PostgresLakeWorld
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import known_by_id as known
from tests.log_topic import STREAM, publication

ENTRY = Table(
    "entry",
    (
        Column("account_id", Kind.INTEGER, "bigint", length=64),
        Column("currency", Kind.CHAR, "char(3)", length=3),
        Column("amount", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4),
        Column("memo", Kind.STRING, "varchar(40)", length=40),
    ),
)
BALANCE = DerivedTablePlan("daily_balance", "entry", "amount", ("account_id", "currency"))
VARIABLE = "SEAMLINE_CONNECTION_RECONCILE_DERIVED"
BY_MEMO = DerivedTablePlan("by_memo", "entry", "amount", ("memo",))
ACCOUNT = Table(
    "account",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("owner", Kind.STRING, "varchar(40)", nullable=False, length=40),
        Column("opened", Kind.DATE, "date", nullable=False),
        Column("is_frozen", Kind.BOOLEAN, "boolean"),
        Column("seen_at", Kind.INSTANT, "timestamptz", nullable=False, precision=6),
        Column("written_at", Kind.DATETIME, "timestamp", precision=6),
        Column("papers", Kind.JSON, "json"),
    ),
    ("id",),
)
DAY = date(2026, 11, 27)
NIGHTLY = NightlyPlan(keep_days=2, keep_month_ends=0, keep_versions_days=7)
BEFORE_1970 = datetime(1969, 12, 31, 23, 59, 59)  # noqa: DTZ001 (a wall clock)
ACCOUNTS = [
    (number, ("工资", "o'wner", "")[number % 3], date(2024, 2, 29), (True, False, None)[number % 3],
     datetime(2026, 3, 29, 1, number % 60, 0, number, UTC), (None, BEFORE_1970)[number % 2], "{}")
    for number in range(900)
]  # fmt: skip
OWNERS = """
WITH held AS (
  SELECT account_id, sum(amount) AS amount, count(*) AS entries FROM entry GROUP BY account_id
)
SELECT a.owner, bool_or(a.is_frozen) AS is_frozen, max(a.seen_at) AS seen_at, min(a.written_at) AS written_at,
       sum(h.amount) AS amount, sum(h.entries) AS entries,
       max(date_add(a.opened, 1)) AS due, bool_or(a.written_at IS NULL) AS is_silent
FROM account a LEFT JOIN held h ON h.account_id = a.id
GROUP BY a.owner
"""
BY_OWNER = DerivedTablePlan("by_owner", job=CutJob("include/transforms/by_owner.sql", OWNERS, ("entry", "account")))
FUNCTION = """
from pyspark.sql import Window
from pyspark.sql import functions as F


def transform(tables):
    newest = Window.partitionBy("owner").orderBy(F.desc("opened"), "id")
    account = tables["account"].withColumn("place", F.row_number().over(newest)).where("place = 1")
    held = tables["entry"].groupBy("account_id").agg(F.sum("amount").alias("amount"))
    return account.join(held, F.col("id") == F.col("account_id"), "left").select("owner", "seen_at", "amount")
"""
NEWEST = DerivedTablePlan("newest", job=CutJob("include/transforms/newest.py", FUNCTION, ("entry", "account")))


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Connection]:
    with postgres_database("reconcile_derived") as connection, postgres(connection) as sql:
        sql.execute("CREATE SCHEMA stage")
        sql.execute(
            "CREATE TABLE stage.entry (account_id bigint, currency varchar(3), amount numeric(20,4), memo varchar(40))"
        )
        sql.execute(
            "INSERT INTO stage.entry SELECT n % 997, (ARRAY['EUR','USD',NULL])[n % 3 + 1], n * 1234567890.1234,"
            r" (ARRAY[NULL, '', ' ', 'a,b', 'q\"q', E'line\nbreak', '\N', '工资'])[n % 8 + 1]"
            " FROM generate_series(1, 30000) n"
        )
        sql.execute("CREATE TABLE stage.empty (LIKE stage.entry)")
        sql.execute(
            "CREATE TABLE stage.account (id bigint PRIMARY KEY, owner varchar(40) NOT NULL, opened date NOT NULL,"
            " is_frozen boolean, seen_at timestamptz NOT NULL, written_at timestamp, papers json)"
        )
        with sql.cursor() as cursor:
            cursor.executemany("INSERT INTO stage.account VALUES (%s, %s, %s, %s, %s, %s, %s)", ACCOUNTS)
        yield connection


@pytest.fixture(scope="module")
def known_by_id(warehouse: Connection) -> Iterator[str]:
    """The test's database by a connection id, as driver and tasks resolve any other."""
    where = f"{warehouse.login}:{warehouse.password}@{warehouse.host}:{warehouse.port}/{warehouse.database}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, f"postgres://{where}")
        yield VARIABLE.removeprefix("SEAMLINE_CONNECTION_").lower()


@pytest.fixture(scope="module")
def spark(known_by_id: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder: Path = tmp_path_factory.mktemp("spark")
    builder: Any = SparkSession.builder
    session = (
        builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config(f"spark.executorEnv.{VARIABLE}", settings.process_environment()[VARIABLE])
        .getOrCreate()
    )
    # Workers are `python3` of PATH otherwise, which need not be this environment.
    session.sparkContext.pythonExec = sys.executable
    yield session
    session.stop()


@pytest.fixture(scope="module")
def platform() -> Iterator[Any]:
    with (
        postgres_database("reconcile_derived_platform") as connection,
        known(connection, "seamline_db", "postgres"),
    ):
        migrate.upgrade()
        with closing(registry.platform()) as store:
            yield store


def named(loads: Sequence[Load]) -> dict[str, Load]:
    return {load.table.name: load for load in loads}


@contextmanager
def spoilt(kind: Any) -> Iterator[None]:
    """What is staged has one value altered: the first amount is a hundredth too large."""

    def wrong(self: Any, destination: DestinationPlan, table: Table, rows: pa.Table, *, run_id: str) -> Load:
        place = rows.column_names.index("amount")
        first, *others = rows.column(place).to_pylist()
        altered = pa.array([first + Decimal("0.01"), *others], rows.schema.field(place).type)
        right = rows.set_column(place, "amount", altered)
        staged: Load = stage(self, destination, table, right, run_id=run_id)
        return staged

    stage = type(kind).stage_derived
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(kind), "stage_derived", wrong)
        yield


def test_a_job_over_several_tables_is_computed_twice_and_gives_the_same_rows(
    spark: SparkSession, warehouse: Connection, known_by_id: str
) -> None:
    destination = DestinationPlan("warehouse", "postgres", known_by_id, "kept", staged_in="stage")
    bases = named([Load(ENTRY, "entry", 0), Load(ACCOUNT, "account", 0)])
    by_owner, newest = (
        derive(spark, destination, job, bases, run_id="a run", position="0-1-1") for job in (BY_OWNER, NEWEST)
    )
    for made in (by_owner, newest):
        assert (made.verdict.verdict, made.verdict.reason, made.rows) == (Verdict.MATCH, "", 3)
    with postgres(warehouse) as sql:
        kept = sql.execute(f'SELECT * FROM stage."{by_owner.staged_as}"'.encode()).fetchall()
        sql.execute("SET search_path = stage")
        again = sql.execute(OWNERS.replace("date_add(a.opened, 1)", "a.opened + 1").encode()).fetchall()
        assert sorted(kept) == sorted(again)
        seen = sql.execute(f'SELECT seen_at FROM stage."{newest.staged_as}" ORDER BY 1'.encode()).fetchall()
        assert seen == [(ACCOUNTS[number][4],) for number in range(3)]
    with spoilt(sink_kind("postgres")):
        found = derive(spark, destination, BY_OWNER, bases, run_id="a run", position="0-1-1")
    (one,) = found.verdict.breaks
    assert (found.verdict.verdict, one.type) == (Verdict.BREAK, BreakType.VALUE)
    assert one.source is not None and one.destination is not None
    assert {name for name in one.source if one.source[name] != one.destination[name]} == {"amount"}


MISTAKEN = (
    ("SELECT sum(1) AS n\nFROM entr", 2, "`entr` cannot be found"),
    ("SELECT id,\n  papers FROM account", 2, "name `papers` cannot be resolved"),
    ("SELECT id,\n  now() AS at FROM account", 2, "another value each time"),
    ("SELECT id FROM account WHERE\n  rand() < 0.5", 2, "another value each time"),
    ("SELECT\n  first(owner) AS owner FROM account", 2, "First gives may depend on the order"),
    ("SELECT id FROM account\nLIMIT 3", 2, "Limit is not taken"),
    ("SELECT\n  sum(CAST(id AS DOUBLE)) > 1 AS x FROM account", 2, "adds up double"),
    ("SELECT\n  avg(id) > 1 AS x FROM account", 2, "adds up bigint as double"),
    ("SELECT id, row_number()\n  OVER (ORDER BY owner) AS n FROM account", 1, "depends on the order of rows"),
    (
        "SELECT id, sum(id) OVER (ORDER BY owner ROWS UNBOUNDED PRECEDING) AS n FROM account",
        1,
        "depends on the order of rows",
    ),
    ("SELECT id,\n  CAST(id AS DOUBLE) AS x FROM account", 2, "x is of type double"),
    ("SELECT id,\n  collect_list(owner) AS x FROM account GROUP BY id", 2, "CollectList gives may depend"),
    ("SELECT id,\n  encode(owner, 'utf-8') AS x FROM account", 2, "x is of type binary"),
    ("SELECT 1 AS x", 1, "it reads no table of the sync"),
    ("DROP TABLE account", 1, "this is no query"),
    ("SELECT id FROM account WHERE id IN (SELECT account_id FROM entry\n WHERE rand() > 1)", 2, "another value"),
)


def test_what_may_give_other_rows_another_time_is_refused_with_its_line(spark: SparkSession) -> None:
    wrong = {}
    for text, line, what in MISTAKEN:
        job = CutJob("include/transforms/x.sql", text, ("entry", "account"))
        found = analysed_job(spark, "x", job, [ENTRY, ACCOUNT])
        assert not isinstance(found, AnalysedJob), text
        if not any(one.line == line and what in one.what for one in found):
            wrong[text] = found
    assert wrong == {}


def test_a_job_reads_what_it_needs_and_its_groups_are_its_key(spark: SparkSession) -> None:
    def of(text: str) -> AnalysedJob:
        job = CutJob("include/transforms/x.sql", text, ("entry", "account"))
        found = analysed_job(spark, "x", job, [ENTRY, ACCOUNT])
        assert isinstance(found, AnalysedJob), found
        return found

    found = of(
        "SELECT a.owner AS who, a.opened, max(e.currency) AS currency"
        ", sum(amount) AS amount FROM entry e JOIN account a ON a.id = e.account_id"
        " GROUP BY a.owner, a.opened HAVING count(*) > 1"
    )
    reads = {name: [column.name for column in columns] for name, columns in found.reads.items()}
    assert reads == {"entry": ["account_id", "currency", "amount"], "account": ["id", "owner", "opened"]}
    assert found.target.key == ("who", "opened")
    assert [(one.kind, one.source_type) for one in found.target.columns] == [
        (Kind.STRING, "varchar(40)"),
        (Kind.DATE, "date"),
        (Kind.STRING, "string"),
        (Kind.DECIMAL, "decimal(30,4)"),
    ]
    assert of("SELECT upper(owner) AS owner, count(*) AS n FROM account GROUP BY upper(owner)").target.key == ()
    assert of("SELECT is_frozen, count(*) AS n FROM account GROUP BY is_frozen").target.key == ()
    of(
        "SELECT id, sum(id) OVER (ORDER BY owner) AS n, rank() OVER (ORDER BY owner) AS place,"
        " max(id) OVER (PARTITION BY owner) AS last, lag(owner) OVER (ORDER BY owner, id) AS one_before FROM account"
    )
    # It is never NULL, so Spark counts rows of empty frames by it.
    (counted,) = of("SELECT count(id) AS n FROM account").reads["account"]
    assert (counted.name, counted.nullable) == ("id", False)
    assert of("SELECT count(*) AS n FROM account").reads == {"entry": (), "account": ()}


@pytest.mark.parametrize("derived", [BALANCE, BY_MEMO], ids=lambda derived: derived.name)
@pytest.mark.parametrize("relation", ["entry", "empty"])
def test_a_derived_table_equals_the_sums_of_its_rows_to_the_last_digit(
    derived: DerivedTablePlan, relation: str, spark: SparkSession, warehouse: Connection, known_by_id: str
) -> None:
    destination = DestinationPlan("warehouse", "postgres", known_by_id, "kept", staged_in="stage")
    base = {"entry": Load(ENTRY, relation, 0)}
    found = derive(spark, destination, derived, base, run_id=f"run of {relation}", position="0-1-1")
    assert (found.verdict.verdict, found.verdict.reason) == (Verdict.MATCH, "")
    groups = 0 if relation == "empty" else 8 if derived is BY_MEMO else 997 * 3
    assert found.rows == found.verdict.source_rows == groups
    with postgres(warehouse) as sql:
        assert sql.execute(f'SELECT count(*) FROM stage."{found.staged_as}"').fetchone() == (groups,)


@pytest.mark.parametrize("derived", [BALANCE, BY_OWNER], ids=lambda derived: derived.name)
def test_more_rows_than_the_driver_is_to_hold_are_refused_by_the_name_of_the_job(
    derived: DerivedTablePlan, spark: SparkSession, known_by_id: str
) -> None:
    destination = DestinationPlan("warehouse", "postgres", known_by_id, "kept", staged_in="stage")
    bases = named([Load(ENTRY, "entry", 0), Load(ACCOUNT, "account", 0)])
    found = derive(spark, destination, derived, bases, run_id="a run", position="0-1-1")
    as_many = replace(derived, rows_max=found.rows)
    assert derive(spark, destination, as_many, bases, run_id="a run", position="0-1-1").rows == found.rows
    of = "include/transforms/by_owner.sql" if derived.job else "the sums of entry.amount"
    said = re.escape(f"derived table {derived.name} has more than {found.rows - 1:,} rows ({of}), its rows_max")
    with pytest.raises(Refused, match=said):
        derive(spark, destination, replace(derived, rows_max=found.rows - 1), bases, run_id="a run", position="0-1-1")


class LakeNights:
    """Nights of a lake: what a run holds of its tables, what Spark derives of it, and their cuts."""

    def __init__(self, world: PostgresLakeWorld, connection_id: str) -> None:
        self.destination = replace(world.destination, connection=connection_id, cut_source=CutSource.LIVE)
        tables = tuple(TablePlan(table.name, None, table) for table in (ENTRY, ACCOUNT))
        self.plan = replace(world.plan, destinations=(self.destination,), tables=tables, nightly=NIGHTLY)
        self.kind = cast(LakeKind, sink_kind(self.destination.kind))

    def load(self, table: Table, rows: Sequence[Sequence[Any]]) -> Load:
        place = self.kind.load_area(self.destination, run_id="a run").create([table])[table.name]
        batch = batch_of(table, rows)
        self.kind.load(self.destination, place, ArrowRows(batch.schema, iter([batch])))
        return Load(table, place.name, len(rows))

    def publish(self, spark: SparkSession, run: str, derived: Sequence[DerivedTablePlan]) -> list[Derived]:
        """The cut of a run: of what it holds alone. Returns what was derived."""
        pinned = self.kind.pin_live(self.plan, self.destination, 1, run_id=run)
        position = pinned.views[0].position
        bases = {table.name: Load(table, pinned.staged_as[table.name], 0) for table in (ENTRY, ACCOUNT)}
        found = [derive(spark, self.destination, one, bases, run_id=run, position=str(position)) for one in derived]
        tables = [StagedTable(name, CutMode.WHOLE, at, 1, Verdict.MATCH) for name, at in pinned.staged_as.items()]
        tables += [
            StagedTable(one.name, CutMode.DERIVED, made.staged_as, made.rows, made.verdict.verdict)
            for one, made in zip(derived, found, strict=True)
        ]
        staged = StagedCut(run, STREAM.sync, STREAM.destination, DAY, position, datetime.now(UTC), tuple(tables))
        with closing(self.kind.open_cuts(self.destination)) as cuts:
            cuts.publish(staged, definitions={}, signed_by="")
        return found

    def rows(self, table: str) -> list[Any]:
        """Of the date's cut, as readers get it."""
        opened = self.kind.open_tables(self.destination, STREAM, DAY)
        return sorted(map(repr, opened[table].arrow().to_pylist()))

    def take(self, spark: SparkSession, platform: Any, derived: DerivedTablePlan) -> None:
        """The job of a night. Its source is no connection of anybody's: what is read ends it by another error."""
        plan, run_id = replace(self.plan, derived=(derived,)), f"settlement/nightly/{DAY}/{self.kind.name}"
        platform.start_run(
            run_id=run_id, sync="settlement", kind="nightly", plan_json=plan_to_json(plan), business_date=DAY
        )
        cut(Application.of(spark), run_id)

    def require_publishable(self, spark: SparkSession, *derived: DerivedTablePlan) -> None:
        require_publishable(Application.of(spark), replace(self.plan, derived=derived), self.destination)


@pytest.fixture(params=LAKES)
def nights(
    request: pytest.FixtureRequest, warehouse: Connection, known_by_id: str, tmp_path: Path
) -> Iterator[LakeNights]:
    with postgres(warehouse) as sql:
        rows = sql.execute("SELECT * FROM stage.entry").fetchall()
    lake = LAKES[request.param]
    with closing(PostgresLakeWorld([ENTRY, ACCOUNT], warehouse, tmp_path / "lake", lake=lake)) as world:
        nights = LakeNights(world, known_by_id)
        loads = [nights.load(ENTRY, rows), nights.load(ACCOUNT, ACCOUNTS)]
        world.sink().publish(STREAM, loads, publication=publication([ENTRY, ACCOUNT]))
        yield nights


def test_a_derived_table_of_a_lake_equals_what_its_cut_gives_and_keeps_its_columns(
    nights: LakeNights, spark: SparkSession, platform: Any
) -> None:
    nights.require_publishable(spark, BALANCE, BY_MEMO, BY_OWNER)
    found = nights.publish(spark, "first", [BALANCE, BY_MEMO, BY_OWNER])
    for one, rows in zip(found, (997 * 3, 8, 3), strict=True):
        assert (one.verdict.verdict, one.verdict.reason) == (Verdict.MATCH, "")
        assert one.rows == one.verdict.source_rows == rows
    assert len(nights.rows("daily_balance")) == 997 * 3
    before = nights.rows("by_owner")
    assert len(before) == 3
    with spoilt(nights.kind):
        (wrong,) = nights.publish(spark, "second", [NEWEST])
    assert wrong.verdict.reason.startswith("2 rows differ from what the staged cut gives")
    types = sorted(one.type for one in wrong.verdict.breaks)
    assert (wrong.verdict.verdict, types) == (Verdict.BREAK, [BreakType.MISSING, BreakType.UNEXPECTED])

    # The query is edited: another filter is the same table still, another column is not.
    nights.require_publishable(
        spark, of_owners(OWNERS.replace("GROUP BY a.owner\n", "WHERE a.id > 3 GROUP BY a.owner"))
    )
    for text, named in (
        (OWNERS.replace("sum(h.entries) AS entries,", ""), "entries"),
        (OWNERS.replace("sum(h.entries) AS entries", "CAST(sum(h.entries) AS string) AS entries"), "entries"),
        (OWNERS.replace("a.owner,", "a.owner, count(*) AS owners,"), "owners"),
    ):
        with pytest.raises(SchemaConflict, match=f"derived table by_owner of .* other columns.*{named}") as refused:
            nights.require_publishable(spark, BALANCE, of_owners(text))
        assert "give the derived table another name" in refused.value.hint
    nights.require_publishable(spark, replace(of_owners(OWNERS.replace("a.owner,", "a.owner, 1 AS x,")), name="other"))
    with pytest.raises(SchemaConflict, match=r"by_owner\.sql:1  .*cannot be found"):
        nights.require_publishable(spark, of_owners("SELECT id FROM accounts"))
    with pytest.raises(SchemaConflict, match="derived table by_owner of .* other columns"):
        nights.take(spark, platform, of_owners(OWNERS.replace("a.owner,", "a.owner, count(*) AS owners,")))
    nights.publish(spark, "third", [BY_OWNER])
    assert nights.rows("by_owner") == before


def of_owners(text: str) -> DerivedTablePlan:
    return replace(BY_OWNER, job=replace(BY_OWNER.job, text=text))


def test_page_ranges_leave_no_row_out_and_read_none_twice(warehouse: Connection) -> None:
    columns = ENTRY.columns[:1]
    with closing(open_session(warehouse, application_name="test")) as session:
        for parts in (1, 3, 7, 10_000):
            ranges = page_ranges(session, "stage.entry", parts=parts)
            counts = [
                sum(batch.num_rows for batch in read_batches(session, "stage.entry", columns, pages))
                for pages in ranges
            ]
            assert sum(counts) == 30_000
            assert len(ranges) <= parts
