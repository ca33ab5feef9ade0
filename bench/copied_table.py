"""One table that is copied whole, by Seamline and by what it is compared with; every result is checked."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from seamline import registry, settings
from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.runs import RunKind, RunState
from seamline.kinds.bulk import StagedPlace
from seamline.kinds.found import power, sink_kind
from seamline.kinds.sink import ReadsBack
from seamline.plan.model import Run, SourcePlan, SyncPlan
from seamline.ports import Load, TableRead
from seamline_spark.session import Application, open_session
from seamline_spark.snapshot.bulk_read import run_reader

NAME = "bench_copy"
TABLE = "entry"
# What a Spark of two cores reads with: half of the keys in each task.
PARTED = {"partitionColumn": "id", "lowerBound": "1", "numPartitions": "2", "fetchsize": "10000"}


@dataclass(frozen=True, slots=True)
class Bench:
    """`settle` is called before each case; `drop` ends its table. `goals`: how many times as long each case is to take
    as Seamline's. `check` is for results that have no typed digest."""

    spark: SparkSession
    plan: SyncPlan
    source: Connection
    destination: Connection
    rows: int
    cases: "Mapping[str, Case]"
    goals: Mapping[str, float]
    settle: Callable[[], None]
    drop: Callable[[StagedPlace], None]
    check: Callable[[StagedPlace], None] | None = None

    @property
    def table(self) -> Table:
        return self.plan.table(TABLE).definition

    def empty_place(self) -> StagedPlace:
        """A staged table as Seamline makes it."""
        (destination,) = self.plan.destinations
        area = sink_kind(destination.kind).load_area(destination, run_id=f"bench {time.monotonic_ns()}")
        return area.create([self.table])[TABLE]


Case = Callable[[Bench], StagedPlace]


def source_plan(kind: str) -> SourcePlan:
    """One login has every role of the source; nothing is captured."""
    login = f"{NAME}_source"
    return SourcePlan(NAME, kind, NAME, login, login, login, "log", "connector")


def spark_session(*more_jars: str, **conf: str) -> SparkSession:
    """`more_jars`: groups of jars beside the JDBC drivers."""
    groups = [settings.load().env / "jars" / group for group in ("jdbc", *more_jars)]
    jars = ",".join(str(jar) for group in groups for jar in sorted(group.glob("*.jar")))
    settings_of = " ".join(f"--conf {name}={value}" for name, value in conf.items())
    began = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYSPARK_SUBMIT_ARGS", f"--master local[2] --driver-memory 2g --jars {jars} {settings_of} pyspark-shell"
        )
        session = open_session("bench")
    for name, value in settings.process_environment().items():
        if name.startswith(f"SEAMLINE_CONNECTION_{NAME.upper()}"):
            session.sparkContext.environment[name] = value
    session.range(1).collect()
    print(f"session start {time.monotonic() - began:.1f} s", flush=True)
    return session


def by_seamline(bench: Bench) -> StagedPlace:
    (destination,) = bench.plan.destinations
    run = Run(f"bench/{time.monotonic_ns()}", NAME, RunKind.ONBOARD, None, bench.plan, RunState.RUNNING)
    with run_reader(Application.of(bench.spark), run).open_read([TableRead(bench.table, Segment(TABLE))]) as read:
        (load,) = read.stage(destination)
    return StagedPlace(bench.table, destination.stage_namespace, load.staged_as)


@dataclass(frozen=True, slots=True)
class JdbcTable:
    """`options`: of Spark, beside the connection's own."""

    connection: Connection
    driver: str
    url: str
    table: str
    options: Mapping[str, str]

    def spark_options(self) -> dict[str, str]:
        known = {"url": self.url, "driver": self.driver, "dbtable": self.table}
        return {**known, "user": self.connection.login, "password": self.connection.password, **self.options}


def copy_by_spark_jdbc(spark: SparkSession, source: JdbcTable, into: JdbcTable) -> None:
    rows = spark.read.format("jdbc").options(**source.spark_options()).load()
    rows.write.format("jdbc").options(**into.spark_options()).mode("append").save()


def check(bench: Bench, place: StagedPlace) -> None:
    """The typed digest of every exact column, and the floats within their precision."""
    if bench.check is not None:
        bench.check(place)
        return
    segment, (destination,) = Segment(TABLE), bench.plan.destinations
    (mine,) = registry.logged_source(bench.plan).open_views(1)
    with closing(mine):
        loads = [Load(bench.table, place.name, bench.rows)]
        reads = power(sink_kind(destination.kind), ReadsBack, to="be compared with the source")
        (theirs,) = reads.open_staged(bench.plan, destination, loads, 1, position=mine.position)
        with closing(theirs):
            same = mine.digests(segment, run_key="bench") == theirs.digests(segment, run_key="bench")
            # Only those that two servers may keep differently: the digest has the others.
            there = theirs.float_summaries(segment)
            floats = all(
                summary.agrees_with(there[name], kind=bench.table.column(name).kind)
                for name, summary in mine.float_summaries(segment).items()
            )
    if not (same and floats):
        raise RuntimeError(f"{place.name} does not hold what the source holds: this case alters values")


def of_rows(bench: Bench) -> dict[str, str]:
    """`PARTED` for all rows of the table."""
    return {**PARTED, "upperBound": str(bench.rows + 1)}
