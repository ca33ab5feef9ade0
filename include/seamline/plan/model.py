"""SyncPlan: the frozen, secret-free JSON value that crosses from Airflow to Spark. Connection ids, never secrets."""

import dataclasses
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from seamline.domain.business_dates import EVERY_DAY, BusinessDates
from seamline.domain.calendar import Day, day_of, segment_of
from seamline.domain.catalogue import Table, fingerprint
from seamline.domain.cut_job import DERIVED_ROWS_MAX, CutJob
from seamline.domain.cut_keep import CutKeep
from seamline.domain.day_closed import ClosedBy, DayClosed
from seamline.domain.digest import Segment
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.made_from import MadeFrom
from seamline.domain.names import NameLimit, NameUnit
from seamline.domain.row_transform import RowTransform, meaning_of
from seamline.domain.runs import KEPT, PUBLISH, PUT_TABLES_IN_PLACE, RunKind, RunState
from seamline.domain.staged_cut import CutSource
from seamline.domain.table_places import TablePlaces
from seamline.domain.verdict import TableVerdict, parked
from seamline.plan.checks import ReconcileOnlyPlan, ReconcilePlan, SourceBudgetPlan

# What the rows of later dates are called, behind the name of their table; with it a name must fit all destinations.
AHEAD = "__ahead"
_AHEAD_NAME_BYTES_MAX = 56
# Between the name of a sync and the mark of an incremental snapshot into its stream.
INCREMENTAL = "~incremental_"


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """Where records of a log go before they are pruned. `connection` is "" of a folder, or where a client of S3 finds
    its login by itself. `keep_days`: how long they stay there; 0: for good."""

    location: str
    connection: str = ""
    keep_days: float = 0.0


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """`reader`, `capture` and `marker` are connection ids; three roles, least privilege each.

    `schema` is where the tables of a PostgreSQL source lie; "" for MariaDB, whose databases have none. `elsewhere`:
    name and place (`schema.table`) of each table of the sync that lies in another one, or under another name.
    `log_behind_max_gb`: what a stream may have before it until the capture is slowed down; 0: by `log_max_gb`.
    `source_backlog_max_gb`: what its server may keep of its own log until the capture is given up; 0: it never is.
    `databases`: of a MariaDB source, those beside `database` that its capture reads. `name_limits`: length and unit of
    the names of columns at each destination of the sync. `capture`, `marker`, `log_topic` and `connector` are "" of a
    source without a log. `options`: what the kind's own keys say, by their names. `budget`: what reading it in bulk may
    cost; None: anything.
    """

    name: str
    kind: str
    database: str
    reader: str
    capture: str
    marker: str
    log_topic: str
    connector: str
    marker_table: str = "seamline_marker"
    snapshot_lock: str = "none"  # none | brief
    log_max_gb: float = 50.0
    log_keep_days: float = 7
    log_behind_max_gb: float = 0.0
    source_backlog_max_gb: float = 0.0
    schema: str = ""
    elsewhere: tuple[tuple[str, str], ...] = ()
    databases: tuple[str, ...] = ()
    name_limits: tuple[tuple[int, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    archive: ArchivePlan | None = None
    budget: SourceBudgetPlan | None = None

    @property
    def has_log(self) -> bool:
        """Whether its log is captured. Without one there are no streams, and each read stands for itself."""
        return bool(self.log_topic)

    @property
    def namespace(self) -> str:
        """Where a table lies whose name says nothing else, and the marker table."""
        return self.schema or self.database

    @property
    def shared(self) -> "SourcePlan":
        """What all syncs of the source have in common."""
        return dataclasses.replace(self, elsewhere=(), name_limits=())

    @property
    def limits(self) -> tuple[NameLimit, ...]:
        return tuple(NameLimit(length, NameUnit(unit)) for length, unit in self.name_limits)

    @property
    def places(self) -> TablePlaces:
        return TablePlaces(self.namespace, self.elsewhere)

    @property
    def publication(self) -> str:
        """The publication of a PostgreSQL source, made and altered by the owner of its tables."""
        return f"seamline_{self.name}"

    @property
    def slot(self) -> str:
        """The replication slot from which a PostgreSQL source's connector reads."""
        return f"seamline_{self.name}"


@dataclass(frozen=True, slots=True)
class DestinationPlan:
    """Live tables lie in `namespace`, which a kind calls a schema or a database, cuts in `<namespace>_cut`, staging in
    `<namespace>_stage`, tables on their way into a running stream in `<namespace>_incremental_<mark>`. `staged_in`:
    another namespace to stage in.

    `connection` is of the login that makes all of these and owns them, `writer_connection` of one that streams write
    their rows with; "" where that is the same. `origins`: by table the `Table.origin` of its load into this
    destination, where that is another than the plan's. `options`: what the kind's own keys say, by their names.
    `commit_every_ms`: the least time between two commits here, where the stream's own is less. `cuts_only`: it has no
    live tables and no stream; `no_cuts`: nothing else. `transforms`: by table the transform by which this destination
    alone holds it, where that is another one than the plan's: it was declared so, or a change of it has joined in some
    destinations and not in all. None: it holds the source's rows. `rows_apart`: no SQL reaches the rows that are
    staged for its cuts, so Great Expectations looks at none of them unless a check is declared.
    """

    name: str
    kind: str
    connection: str
    namespace: str
    staged_in: str = ""
    writer_connection: str = ""
    origins: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    commit_every_ms: int = 0
    cut_source: CutSource = CutSource.ROWS
    cuts_only: bool = False
    no_cuts: bool = False
    transforms: tuple[tuple[str, RowTransform | None], ...] = ()
    versioned: tuple[str, ...] = ()
    rows_apart: bool = False

    @property
    def writer(self) -> str:
        """Id of the connection that streams write with."""
        return self.writer_connection or self.connection

    @property
    def cut_namespace(self) -> str:
        return f"{self.namespace}_cut"

    @property
    def stage_namespace(self) -> str:
        return self.staged_in or f"{self.namespace}_stage"

    def incremental_namespace(self, mark: str) -> str:
        """Where the tables of one incremental snapshot lie."""
        return f"{self.namespace}_incremental_{mark}"


@dataclass(frozen=True, slots=True)
class BusinessDate:
    """How a row's business date is found: `column` holds a date, a local datetime or an instant."""

    column: str
    holds: str  # date | local | instant


@dataclass(frozen=True, slots=True)
class TablePlan:
    """`table` is the source's, None until its catalogue was read (`compile_plan` with a survey). `transform`: what
    destinations hold of its rows, where that is not the rows themselves (ADR 50). `ahead_of`: the table by
    business date of which this has the rows of later dates than that of the cut; only a plan of cuts has such
    tables."""

    name: str
    business_date: BusinessDate | None = None
    table: Table | None = None
    transform: RowTransform | None = None
    ahead_of: str = ""

    @property
    def definition(self) -> Table:
        if self.table is None:
            raise Refused(f"the plan holds no catalogue for table {self.name}", hint="run preflight first")
        return self.table

    @property
    def target(self) -> Table:
        """The table that destinations hold: all that ledgers, comparisons and cuts know of it."""
        return self.definition if self.transform is None else self.transform.planned

    @property
    def fingerprint(self) -> str:
        """Of what was loaded: another one where a stream would go on with rows of another form."""
        made = fingerprint(self.target)
        if self.transform is None:
            return made
        return hashlib.sha256(f"{made}\0{meaning_of(self.transform)}".encode()).hexdigest()[: len(made)]


@dataclass(frozen=True, slots=True)
class ParkedTable:
    """A table that a person took out of the guarantee: nothing is read, captured or published of it for this sync."""

    name: str
    reason: str

    @property
    def verdict(self) -> TableVerdict:
        return parked(self.name, self.reason)


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """`cut_off_behind_gb`: by destination how much of the log a stream may have before it."""

    commit_every_ms: int = 0
    lag_max_s: float = 60.0
    pool: str = "default"
    span_changes_max: int = 50_000
    held_max_s: float = 120.0
    cut_off_behind_gb: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class NightlyPlan:
    """`cut_off`: local time at which a date ends (`domain.calendar`). `closed_when`: what has to say so before a date
    is cut, all of it. `stages_by`: local times of the day after by which stages are to be through. `cursors`: table →
    column of times, of increments. `not_by_log`: what keeps `from: auto` from the log whatever the log holds, a line
    each."""

    timezone: str = "UTC"
    cut_off: str = "00:00"
    run_at_delay_minutes: int = 30
    as_of_max_s: float = 7200.0
    keep_days: int = 35
    keep_month_ends: int = 13
    keep_versions_days: int = 7
    verdict_by: str = ""
    dates: BusinessDates = EVERY_DAY
    closed_when: tuple[DayClosed, ...] = ()
    stages_by: tuple[tuple[str, str], ...] = ()
    made_from: MadeFrom = MadeFrom.READ
    cursors: tuple[tuple[str, str], ...] = ()
    not_by_log: tuple[str, ...] = ()

    def day_of(self, business_date: date) -> Day:
        """The instants of a business date: those of the closed days before it belong to it."""
        first = self.dates.first_day(business_date)
        return day_of(business_date, timezone=self.timezone, first=first, cut_off=self.cut_off)

    def last_ended(self, now: datetime) -> date | None:
        """The newest business date that has ended at `now`; None where none is known."""
        return self.dates.last_ended(now, timezone=self.timezone, cut_off=self.cut_off)

    @property
    def is_delivered(self) -> bool:
        """Whether each date has tables of its own at the source: they are read whole, whatever date it is."""
        return any(one.by is ClosedBy.DELIVERY for one in self.closed_when)

    @property
    def keep(self) -> CutKeep:
        return CutKeep(self.keep_days, self.keep_month_ends, self.keep_versions_days, self.dates)

    def segment_of(self, table: TablePlan, business_date: date) -> Segment:
        """The rows of a business date of a table; all of one that has none."""
        if table.business_date is None:
            return Segment(table.name)
        return segment_of(
            table.name,
            column=table.business_date.column,
            holds=table.business_date.holds,
            business_date=business_date,
            timezone=self.timezone,
            first=self.dates.first_day(business_date),
            cut_off=self.cut_off,
        )


@dataclass(frozen=True, slots=True)
class DerivedTablePlan:
    """A DataFrame job that runs on the staged cut, published with it: what `job` computes, or without one the sum of
    `column` of `table` by `by`."""

    name: str
    table: str = ""
    column: str = ""
    by: tuple[str, ...] = ()
    job: CutJob | None = None
    rows_max: int = DERIVED_ROWS_MAX

    @property
    def bases(self) -> tuple[str, ...]:
        """Names of the tables that it is computed from."""
        return (self.table,) if self.job is None else self.job.tables


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """`tables` are those that the sync carries, `parked` those that it only names. `derived` and the control totals
    stand here as they were declared: those of a parked table are not computed."""

    sync: str
    source: SourcePlan
    destinations: tuple[DestinationPlan, ...]
    tables: tuple[TablePlan, ...]
    guarantee: str = "exactly_once"
    stream: StreamPlan = field(default_factory=StreamPlan)
    nightly: NightlyPlan | None = None
    reconcile: ReconcilePlan = field(default_factory=ReconcilePlan)
    derived: tuple[DerivedTablePlan, ...] = ()
    config_hash: str = ""
    parked: tuple[ParkedTable, ...] = ()
    reconcile_only: ReconcileOnlyPlan | None = None

    def destination(self, name: str) -> DestinationPlan:
        for destination in self.destinations:
            if destination.name == name:
                return destination
        raise Refused(f"sync {self.sync} has no destination {name!r}", sync=self.sync)

    def table(self, name: str) -> TablePlan:
        for table in self.tables:
            if table.name == name:
                return table
        raise Refused(f"sync {self.sync} has no table {name!r}", sync=self.sync)

    @property
    def table_names(self) -> frozenset[str]:
        return frozenset(table.name for table in self.tables)

    @property
    def destination_names(self) -> frozenset[str]:
        return frozenset(destination.name for destination in self.destinations)

    @property
    def derived_of_parked(self) -> tuple[DerivedTablePlan, ...]:
        """Those that cannot be computed: a table of theirs is not in the cut."""
        names = {table.name for table in self.parked}
        return tuple(derived for derived in self.derived if names.intersection(derived.bases))

    def stream_id(self, destination: str) -> StreamId:
        return StreamId(self.sync, self.destination(destination).name)

    def incremental_plan(self, tables: Collection[str], mark: str) -> "SyncPlan":
        """The plan of an incremental snapshot of these tables: a stream with its own schema and its own ledger.

        `mark` is unique to it. Its name cannot be that of a declared sync, whose names are plain words.
        """
        destinations = tuple(
            dataclasses.replace(one, namespace=one.incremental_namespace(mark), staged_in=one.stage_namespace)
            for one in self.destinations
        )
        kept = tuple(table for table in self.tables if table.name in tables)
        return dataclasses.replace(self, sync=f"{self.sync}{INCREMENTAL}{mark}", destinations=destinations, tables=kept)

    def at_destination(self, name: str) -> "SyncPlan":
        """The plan as this destination knows it: each table as it holds it."""
        held = self.held_by(name)
        return dataclasses.replace(held, tables=tuple(map(_as_held, held.tables)))

    def held_by(self, destination: str) -> "SyncPlan":
        """The plan with each table by the transform by which this destination holds it. Its destinations have none of
        their own any more: it is a plan for this one."""
        mine = dict(self.destination(destination).transforms)
        tables = (dataclasses.replace(one, transform=mine.get(one.name, one.transform)) for one in self.tables)
        destinations = (dataclasses.replace(one, transforms=()) for one in self.destinations)
        return dataclasses.replace(self, tables=tuple(tables), destinations=tuple(destinations))

    def transforms_at(self, destination: str) -> Mapping[str, str]:
        """By table the file of the transform by which this destination holds it, of those that have one."""
        own = dict(self.destination(destination).transforms) if destination in self.destination_names else {}
        held = {table.name: own.get(table.name, table.transform) for table in self.tables}
        return {name: one.file for name, one in held.items() if one is not None}

    def only(self, tables: Collection[str]) -> "SyncPlan":
        """The plan of these tables alone, without what is computed from others or added up of them."""
        totals = tuple(total for total in self.reconcile.control_totals if total.table in tables)
        rules = tuple(rule for rule in self.reconcile.rules if set(rule.tables) <= set(tables))
        return dataclasses.replace(
            self,
            tables=tuple(table for table in self.tables if table.name in tables),
            derived=tuple(derived for derived in self.derived if set(derived.bases) <= set(tables)),
            reconcile=dataclasses.replace(self.reconcile, control_totals=totals, rules=rules),
            parked=(),
        )

    def into(self, destinations: Collection[str]) -> "SyncPlan":
        """The plan of these destinations alone."""
        kept = tuple(one for one in self.destinations if one.name in destinations)
        return dataclasses.replace(self, destinations=kept)

    @property
    def streamed(self) -> "SyncPlan":
        """The plan of the destinations that have live tables and a stream: what is onboarded, joined and reconciled."""
        has_streams = self.source.has_log and self.reconcile_only is None
        return self.into([one.name for one in self.destinations if has_streams and not one.cuts_only])

    @property
    def cuts_only(self) -> tuple[DestinationPlan, ...]:
        """The destinations that nights alone write to."""
        return tuple(one for one in self.destinations if one.cuts_only or not self.source.has_log)

    @property
    def cut(self) -> "SyncPlan":
        """The plan of the destinations that nights write to."""
        return self.into([one.name for one in self.destinations if not one.no_cuts])

    def of_stream(self, destination: str) -> "SyncPlan":
        """What a stream runs by: nothing that another destination, or an edit which does not concern it, changes. Its
        tables have the origins of their loads into this destination, and the transforms."""
        held = self.held_by(destination)
        mine = held.destination(destination)
        return dataclasses.replace(
            held,
            source=dataclasses.replace(self.source, name_limits=self._limits_in_use()),
            destinations=(dataclasses.replace(mine, origins=(), versioned=()),),
            tables=tuple(_with_origin(table, dict(mine.origins)) for table in held.tables),
            nightly=self.nightly
            and dataclasses.replace(self.nightly, dates=EVERY_DAY, closed_when=(), stages_by=(), cursors=()),
            config_hash="",
        )

    def _limits_in_use(self) -> tuple[tuple[int, str], ...]:
        """Those by which columns of these tables have other names than at the source."""
        columns = [column for table in self.tables if table.table for column in table.table.columns]
        renamed = [column.source_name for column in columns if column.source_name]
        return tuple(
            pair
            for pair, limit in zip(self.source.name_limits, self.source.limits, strict=True)
            if not all(map(limit.takes, renamed)) and all(limit.takes(column.name) for column in columns)
        )

    @property
    def of_cuts(self) -> "SyncPlan":
        """What a night takes: where cuts are made from the log, each table by business date has a second one beside it
        for the rows of later dates, with which the next cut begins. A table with a transform has none."""
        if self.nightly is None or not self.nightly.made_from.uses_log:
            return self
        transformed = {name for one in self.destinations for name, transform in one.transforms if transform}
        ahead = [
            _ahead(table)
            for table in self.tables
            if table.business_date
            and not table.transform
            and table.name not in transformed
            and _takes_ahead(table, self)
        ]
        places = self.source.places
        elsewhere = tuple((one.name, places.of(one.ahead_of).text) for one in ahead)
        source = dataclasses.replace(self.source, elsewhere=(*self.source.elsewhere, *elsewhere))
        return dataclasses.replace(self, source=source, tables=(*self.tables, *ahead))

    @property
    def is_incremental(self) -> bool:
        return INCREMENTAL in self.sync


def _takes_ahead(table: TablePlan, plan: SyncPlan) -> bool:
    is_taken = table.name + AHEAD in plan.table_names
    return not (table.ahead_of or table.transform or is_taken) and len(table.name.encode()) <= _AHEAD_NAME_BYTES_MAX


def _ahead(table: TablePlan) -> TablePlan:
    name = table.name + AHEAD
    definition = dataclasses.replace(table.definition, name=name)
    return dataclasses.replace(table, name=name, table=definition, ahead_of=table.name)


def _with_origin(table: TablePlan, origins: Mapping[str, str]) -> TablePlan:
    if table.name not in origins:
        return table
    return dataclasses.replace(table, table=dataclasses.replace(table.definition, origin=origins[table.name]))


def _as_held(table: TablePlan) -> TablePlan:
    if table.transform is None:
        return table
    return dataclasses.replace(table, table=table.transform.target, transform=None)


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a plan. `result` grows by `PlatformStore.put_result`, one JSON value per key. `started_at` is
    filled in by the platform database; a run that is opened again starts again."""

    run_id: str
    sync: str
    kind: RunKind
    business_date: date | None
    plan: SyncPlan
    state: RunState
    result: dict[str, Any] = field(default_factory=dict)
    started_at: datetime | None = field(default=None, compare=False)

    @property
    def published_into(self) -> tuple[str, ...]:
        """Names of the destinations in which this onboarding, or change of tables, has put its tables in place."""
        published = self.result.get(PUBLISH) or {}
        return tuple(one.name for one in self.plan.destinations if one.name in published)

    @property
    def is_published_everywhere(self) -> bool:
        return len(self.published_into) == len(self.plan.destinations)

    @property
    def where_published(self) -> "Run":
        """The run in those destinations alone that have its tables; where it puts none in place, in those that take its
        cut. Refused where none has them."""
        if self.kind not in PUT_TABLES_IN_PLACE:
            return self.taking
        if not self.published_into:
            raise Refused(f"run {self.run_id} has put no tables in place", hint="clear the task that does")
        return dataclasses.replace(self, plan=self.plan.into(self.published_into))

    @property
    def taking(self) -> "Run":
        """The run in those destinations alone that take its cut: the others have what it would bring (`KEPT`)."""
        kept = self.result.get(KEPT) or {}
        names = self.plan.destination_names - kept.keys()
        return dataclasses.replace(self, plan=self.plan.into(names)) if kept else self
