"""`include/syncs/<sync>.yaml`: tables of one source to one or more destinations."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from seamline.domain.calendar import MOMENTS
from seamline.domain.cut_job import DERIVED_ROWS_MAX
from seamline.domain.measure import HASH_DIGITS
from seamline.spec.fields import (
    BY_BARRIER,
    BY_LOG,
    Declared,
    Duration,
    Modes,
    Name,
    SqlName,
    SqlNameEverywhere,
    TablePlaceName,
    TimeOfDay,
    TimeZone,
    TransformFile,
    Transforms,
    Why,
)
from seamline.spec.night import CutOff, Onboard, ReadyWhen, StagesBy
from seamline.spec.notify import Notify
from seamline.spec.tolerances import ToleranceEntry
from seamline.spec.work import Work

MIDNIGHT, NOON = "00:00", "12:00"


class DateColumn(Declared):
    """Which column holds the business date of a row."""

    column: SqlName = Field(description="Column that holds the business date.")
    as_: Literal["date", "local", "instant", "digits"] = Field(
        alias="as",
        description="What the column holds: date (the business date itself), local (a wall clock time in the sync's "
        "time zone), instant (a moment, kept in UTC) or digits (the business date as YYYYMMDD, in a column of whole"
        " numbers or texts).",
    )


class TableEntry(Declared):
    """A table of the sync. A bare name is short for an entry with this name alone."""

    name: TablePlaceName = Field(
        description="Name of the table in the source, as the source writes it: letters and digits of any script, `_`,"
        " `$`, `-` and blanks inside. Upper and lower case are two names. `schema.table`, or `database.table` of"
        " MariaDB, where it does not lie in the schema or database that the source declares."
    )
    as_: SqlName | None = Field(
        None,
        alias="as",
        description="Name of the table in this sync and its destinations. Left out it is the one in the source,"
        " `schema_table` for `schema.table`; one that is too long for a destination ends in a mark of 8 digits.",
    )
    business_date: DateColumn | None = Field(
        None, description="How a row's business date is found; without it the nightly cut holds the table whole."
    )

    cursor: SqlName | None = Field(
        None,
        description="Column of a date or time by which `nightly.from: incremental` finds new and changed rows: those"
        " from the newest value of the cut before on are read. Left out: the first column of the key, where it is a"
        " whole number.",
    )
    cut_storage: Literal["copies", "versions"] = Field(
        "copies",
        description="How destinations of PostgreSQL, MariaDB and MySQL store the cuts of a table that is read whole."
        " copies: each cut has all rows. versions: a row is stored once, with the first cut that has it and the first"
        " that has it no more, so a cut costs what has changed since the one before. Other destinations store cuts in"
        " their own way.",
    )
    transform: Transforms | None = Field(
        None,
        description="File with one query in Spark SQL over the table, by its name in the sync: include/transforms/"
        "<name>.sql; or with a Python function `transform(frame)` that returns a DataFrame: include/transforms/"
        "<name>.py. Destinations hold what it makes of each row, and are proven against that. Left out they hold the"
        " rows as they are. Where destinations shall differ: a mapping of their names to such files; one that is not"
        " named holds the rows as they are.",
    )
    sensitive: tuple[SqlName, ...] = Field(
        (),
        description="Columns, by their names in the destinations, whose values are masked on the page, by REST, in"
        " files and by `./seamline report`, in keys too. Whoever may work on the sync, or sign for it, sees them by an"
        " act with a reason, which is logged.",
        strict=False,
    )
    parked: Why | None = Field(
        None,
        description="Why the table is left out for now: it is not carried, and each report says so with this text. Take"
        " the key out and it comes back, loaded again. Either way by a run of the DAG `<sync>__tables`.",
    )

    def transform_at(self, destination: str) -> str | None:
        """The file by which this destination holds the table; None where it holds the source's rows."""
        return self.transform.get(destination) if isinstance(self.transform, dict) else self.transform

    @model_validator(mode="before")
    @classmethod
    def _from_bare_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        entry = handler.resolve_ref_schema(handler(schema))
        bare = {**entry["properties"]["name"], "description": "Name of the table."}
        return {"anyOf": [bare, entry]}


class Stream(Declared):
    """How the live tables are kept current."""

    commit_every_ms: int = Field(0, ge=0, description="Least time between two commits, milliseconds; 0: none.")
    lag_max_s: float = Field(60, gt=0, description="Seconds of lag from which the stream counts as late.")
    pool: Name = Field("default", description="The stream host that runs the stream.")
    span_changes_max: int = Field(50_000, ge=1, description="Changes at which a span is closed at its last END.")
    held_max_s: float = Field(
        120,
        ge=30,
        le=3600,
        description="Seconds for which a comparison, or a table that joins, may let the stream stand still at most."
        " What is needed is measured, and usually under a second.",
    )
    cut_off_behind_gb: dict[Name, Annotated[float, Field(gt=0)]] = Field(
        {},
        description="Destinations that others need not wait for: name → GB of the log that its stream may have yet to"
        " apply. Beyond them it is cut off: it ends with an alarm, needs the log no more, and is onboarded again.",
    )


class Keep(Declared):
    """How long cuts are kept; the newest proven one of each table in any case."""

    days: int = Field(
        35,
        ge=1,
        description="Business dates kept, counted back from the newest that has a cut. A date that was cut again stays"
        " as many days from then.",
    )
    month_ends: int = Field(13, ge=0, description="Last business dates of months kept beyond that.")
    versions_days: int = Field(
        7,
        ge=1,
        description="Days for which a version of a kept date stays once a later one was published. The newest proven"
        " version of a kept date stays with it.",
    )


class Nightly(Declared):
    """The cut of each business date."""

    cut_off: CutOff = Field(
        MIDNIGHT,
        description="Local time at which a business date ends: up to 12:00 that of the day after it, later that of the"
        " day itself; or `{table, column}` of the core system's own date: a date is cut once that one is later.",
    )
    calendars: tuple[Name, ...] = Field(
        (),
        description="Names of declared calendars. Left out: every day is a business date. What is booked on a day that"
        " is no business date belongs to the next one.",
        strict=False,
    )
    business_date_if: Literal["all", "any"] = Field(
        "all", description="A day is a business date if all of the calendars are open on it, or if any is."
    )
    ready_when: ReadyWhen | None = Field(
        None,
        description="What a night waits for before it cuts, until `verdict_by`; left out: for nothing.",
    )
    run_at: TimeOfDay = Field("00:30", description="Local time, on the day after, at which the run starts.")
    timezone: TimeZone = Field(description="IANA time zone of the business dates.")
    from_: Literal["auto", "read", "log", "day_slice", "incremental"] = Field(
        "read",
        alias="from",
        description="How the cut is made. read: a snapshot of the source at a position. log: the cut before it and the"
        " log since, exact at the cut-off; only the first cut is read. auto: log where that can be, else read."
        " day_slice: as read, of tables with a `business_date` alone: any date may be replaced at any time."
        " incremental: as read, but of tables with a `cursor`, or whose key begins with a whole number, only the rows"
        " behind the newest cut; the whole is compared, and read where it differs.",
    )
    as_of_max: Duration = Field(
        timedelta(hours=2),
        json_schema_extra={"default": "2h"},
        description="A table read whole counts for a business date only this long after the date's end.",
    )
    keep: Keep = Field(default_factory=Keep, description="How long cuts are kept.")
    verdict_by: TimeOfDay | None = Field(
        None,
        description="Local time by which the verdict must be there. Without it: 6 hours after `run_at`.",
    )
    stages_by: StagesBy = Field(
        default_factory=StagesBy, description="By when stages of a night are to be through; left out: by no hour."
    )

    @model_validator(mode="after")
    def _ends_before_it_runs(self) -> "Nightly":
        if isinstance(self.cut_off, str) and self.run_at < self.cut_off <= NOON:
            raise ValueError(
                f"the night would run at {self.run_at}, before the date ends at {self.cut_off} of the same morning: a"
                f" cut-off up to {NOON} is the next day's. Let `run_at` be later"
            )
        return self

    @model_validator(mode="after")
    def _ends_at_one_moment(self) -> "Nightly":
        if self.from_ == "log" and self.ready_when is not None:
            raise ValueError(
                "`from: log` ends a business date where the log shows it, at a time or a system date, and `ready_when`"
                " is not in the log: what is booked until then would be left out. Write `from: read`"
            )
        return self

    def no_end_in_the_log(self, tables: tuple[TableEntry, ...]) -> str:
        """Why the log does not show where a date ends; "" where it does: at a time, or where it moves a table of the
        sync on that cuts hold whole. Rows that count by the clock end at midnight all the same."""
        if self.ready_when is not None:
            return "the source says by `ready_when` that its day is closed, and the log does not show that"
        if isinstance(self.cut_off, str):
            return ""
        if by_clock := [t for t in tables if t.business_date and not t.parked and t.business_date.as_ in MOMENTS]:
            return (
                f"a system date ends the date, and {by_clock[0].name} counts its rows by the clock (`business_date.as`)"
            )
        mine = [one for one in tables if one.name == self.cut_off.table]
        if any(not (one.parked or one.business_date or one.transform) for one in mine):
            return ""
        return (
            f"the system date in {self.cut_off.table} ends the date, and no table of the sync has its rows whole, so"
            " the log does not show when it moves on"
        )


class ControlTotal(Declared):
    """A number that must be equal on both sides, per group. The rows of each group are counted with it, or alone."""

    table: SqlName = Field(description="Table of this sync, by its name in it.")
    sum: SqlName | None = Field(None, description="Exact numeric column to add up.")
    hash: SqlName | None = Field(
        None,
        description="Column for a hash total: numbers that are no amounts, as account numbers, are added up. Of a text"
        f" its digits are the number, the last {HASH_DIGITS} of them.",
    )
    min: SqlName | None = Field(None, description="Exact numeric column whose least value is taken.")
    max: SqlName | None = Field(None, description="Exact numeric column whose greatest value is taken.")
    by: tuple[SqlName, ...] = Field(
        (),
        description="Columns to group by, as currency, or the column of the business date where it holds a date.",
        strict=False,
    )

    @model_validator(mode="after")
    def _measures_one_thing(self) -> "ControlTotal":
        if len(self.measured) > 1:
            raise ValueError(f"one control total is one of {', '.join(self.measured)}: write another entry for each")
        return self

    @property
    def measured(self) -> dict[str, str]:
        """Which key says what is measured, and its column; {} where rows are only counted."""
        named = {"sum": self.sum, "hash": self.hash, "min": self.min, "max": self.max}
        return {key: column for key, column in named.items() if column is not None}


class Balance(Declared):
    """Debits and credits that must be equal in each group."""

    amount: SqlName | None = Field(
        None, description="Exact numeric column of signed amounts, which add up to 0 in each group."
    )
    debit: SqlName | None = Field(None, description="Instead of `amount`: exact numeric column of debits.")
    credit: SqlName | None = Field(None, description="Instead of `amount`: exact numeric column of credits.")
    by: tuple[SqlName, ...] = Field(
        description="Columns that name a group, as transaction and currency.", min_length=1, strict=False
    )

    @model_validator(mode="after")
    def _has_one_form(self) -> "Balance":
        if (self.debit is None) != (self.credit is None) or (self.amount is None) == (self.debit is None):
            raise ValueError("needs `amount` alone, or `debit` and `credit`")
        return self


class Movements(Declared):
    """What has moved a balance on the business date."""

    table: SqlName = Field(description="Table of this sync, by its name in it.")
    amount: SqlName = Field(description="Exact numeric column of signed amounts.")
    by: tuple[SqlName, ...] | None = Field(
        None,
        description="Columns to group by, in the order of those of the closing. Left out they have the same names.",
        strict=False,
    )


class RollForward(Declared):
    """Closing of the cut before, and the movements of the date, make the closing of the date."""

    amount: SqlName = Field(description="Exact numeric column of closing balances.")
    by: tuple[SqlName, ...] = Field((), description="Columns to group by, as currency.", strict=False)
    movements: Movements = Field(description="What has moved the balances.")

    @model_validator(mode="after")
    def _groups_alike(self) -> "RollForward":
        if self.movements.by is not None and len(self.movements.by) != len(self.by):
            raise ValueError("`movements.by` names as many columns as `by`, in the same order")
        return self


class Sequence(Declared):
    """Numbers that follow each other, as those of documents."""

    column: SqlName = Field(description="Column of whole numbers.")
    by: tuple[SqlName, ...] = Field(
        (), description="Columns to group by, each group with its own numbers.", strict=False
    )
    gaps: Literal["fail", "report"] = Field(
        "fail",
        description="What numbers that are missing between the least and the greatest do: fail the rule, or be"
        " counted in the report alone.",
    )


class Rule(Declared):
    """What must hold in each cut, whether or not the sides are equal. A cut that breaks it is not clean."""

    name: Why = Field(description="How reports call the rule.")
    table: SqlName = Field(description="Table of this sync, by its name in it.")
    balance: Balance | None = Field(None, description="Debits equal credits in each group.")
    roll_forward: RollForward | None = Field(
        None, description="Closing of the date before and movements of the date make the closing of the date."
    )
    sequence: Sequence | None = Field(None, description="No number is missing and none is there twice.")
    unique: tuple[SqlName, ...] | None = Field(
        None,
        description="Columns that no two rows have alike, also of a table without a key. A row with a NULL in one of"
        " them is like no other.",
        min_length=1,
        strict=False,
    )

    @model_validator(mode="after")
    def _says_one_thing(self) -> "Rule":
        said = [key for key in RULES if getattr(self, key) is not None]
        if len(said) != 1:
            raise ValueError(f"needs one of {', '.join(RULES)}" + (f", and has {' and '.join(said)}" if said else ""))
        return self


# The keys that say what a rule is.
RULES = ("balance", "roll_forward", "sequence", "unique")


class Repair(Declared):
    """How many rows of a table a repair of the live tables may change. Where more differ, load the table again."""

    rows_max: int = Field(1_000, ge=1, le=1_000, description="Most rows of a table that one repair may change.")
    rows_max_share: float = Field(
        0.001,
        ge=0,
        le=1,
        description="Largest share of a table's rows that one repair may change. 20 rows may always be changed.",
    )


class Sign(Declared):
    """How people sign for published cuts."""

    reason_required: Literal["always", "breaks"] = Field(
        "breaks", description="When a signature needs a reason: always, or only where the cut is not clean."
    )


# As long as both databases keep old rows for the views of a comparison.
BUDGET_MAX = timedelta(minutes=30)


class Budget(Declared):
    """What one comparison may cost the databases: of live tables, and of a night's cut in each destination."""

    time: Duration = Field(
        BUDGET_MAX,
        json_schema_extra={"default": "30min"},
        description="How long tables may be compared, from the opening of the views. What was not compared by then is"
        " INCONCLUSIVE, and says how far it came. At most 30min: no longer do the databases keep old rows for it.",
    )
    sessions: int = Field(2, ge=1, le=16, description="Sessions that ask on each side, each with one question.")
    pause_ms: int = Field(
        0,
        ge=0,
        le=10_000,
        description="Milliseconds that each session rests before each question. A table whose key is one integer is"
        " asked in questions of half a second each, but in a night's cut of a date's rows.",
    )

    @field_validator("time")
    @classmethod
    def _is_kept_so_long(cls, value: timedelta) -> timedelta:
        if not timedelta(0) < value <= BUDGET_MAX:
            raise ValueError("a comparison has between 1s and 30min: no longer do databases keep old rows for it")
        return value


class Repeated(Declared):
    """What comparisons of live tables have from those before them."""

    rotate: int = Field(
        7,
        ge=1,
        le=365,
        description="Of the parts of a table that the log has not touched since the last MATCH each comparison reads"
        " one in so many, those first that were read longest ago: each part is read at the latest in so many"
        " comparisons. 1: all of them.",
    )


class Reconcile(Declared):
    """What is compared beyond the digests, and what follows from a break."""

    control_totals: tuple[ControlTotal, ...] = Field((), description="Totals shown for both sides.", strict=False)
    rules: tuple[Rule, ...] = Field((), description="What must hold in each cut.", strict=False)
    expectations: Name | None = Field(
        None, description="Name of a suite in include/expectations that the staged cut must pass."
    )
    on_break: Literal["ask", "fail", "publish_and_flag"] = Field(
        "ask", description="What a break does to the nightly cut: ask a person, fail, or publish it with its verdict."
    )
    approvers: tuple[str, ...] = Field(
        (),
        description="Airflow users (by the id that the auth manager knows) who may sign for a cut that is not clean."
        " None: everybody who may run the DAG.",
        strict=False,
    )
    mode: Modes = Field(
        BY_BARRIER,
        description="How a comparison of the live tables brings both sides to one position. barrier: the stream stands"
        " for a moment where the source is read. log: nobody holds the stream; the log between both positions is"
        " applied to what the destination was read with. Where destinations shall differ: a mapping of their names to"
        " modes; one that is not named is compared by the barrier.",
    )
    wait_max_s: float = Field(
        600,
        ge=0,
        le=86_400,
        description="Seconds to wait for a stream that is behind, or in mode `log` for a log that is, before a"
        " comparison of the live tables is given up.",
    )
    budget: Budget | None = Field(
        None, description="What one comparison of live tables may cost; left out: as fast as two sessions can."
    )
    repeated: Repeated | None = Field(
        None,
        description="What live tables hold is kept at each MATCH, bucket by bucket: a break then says which side has"
        " moved, by the log since. Left out: nothing is kept.",
    )
    attempts: int = Field(
        3,
        ge=1,
        le=10,
        description="How often a run compares again what is INCONCLUSIVE, the first time counted. A break is never"
        " compared again.",
    )
    work: Work = Field(default_factory=Work, description="How people work on breaks.")
    repair: Repair = Field(default_factory=Repair, description="How many rows a repair of the live tables may change.")
    tolerances: tuple[ToleranceEntry, ...] = Field(
        (), description="What may differ, each once its approver has approved it on the page.", strict=False
    )
    notify: Notify = Field(default_factory=Notify, description="Who gets a mail of what.")
    sign: Sign = Field(default_factory=Sign, description="How people sign for published cuts on the page.")

    def is_by_log(self, destination: str) -> bool:
        """Whether the live tables of this destination are compared by the log."""
        return (self.mode.get(destination) if isinstance(self.mode, dict) else self.mode) == BY_LOG


class ReconcileOnly(Declared):
    """Another tool carries the tables; here they are compared and nothing else."""

    in_flight_max: Duration = Field(
        description="The longest that the other tool takes to carry a change, as its owner promises it. Rows that"
        " differ are read again once so much time has passed: only what stands unchanged on both sides is a break.",
    )
    at: tuple[TimeOfDay, ...] = Field(
        (), description="Local times of each day at which the tables are compared; left out: on demand.", strict=False
    )
    timezone: TimeZone = Field("UTC", description="IANA time zone of these times.")


class DerivedTable(Declared):
    """A table computed from the staged cut, published and reconciled with it: what `transform` makes, or a sum."""

    name: SqlNameEverywhere = Field(description="Name of the derived table.")
    transform: TransformFile | None = Field(
        None,
        description="File with one query in Spark SQL over tables of this sync, by their names in it: include/"
        "transforms/<name>.sql; or with a Python function `transform(tables)` of DataFrames by these names, which"
        " returns a DataFrame: include/transforms/<name>.py. It may join, aggregate and use windows.",
    )
    table: SqlName | None = Field(
        None, description="Without `transform`: table of this sync of which a column is added up."
    )
    sum: SqlName | None = Field(None, description="Without `transform`: exact numeric column to add up.")
    by: tuple[SqlName, ...] = Field((), description="Without `transform`: columns to group by.", strict=False)
    sensitive: tuple[SqlName, ...] = Field(
        (),
        description="Columns whose values are masked, as those of a table of the source. What a sum groups by is"
        " sensitive where it is in `table`.",
        strict=False,
    )
    rows_max: int = Field(
        DERIVED_ROWS_MAX,
        ge=1,
        description="Most rows that it may have: the night's Spark driver holds them all in memory, and a cut with more"
        " fails by name.",
    )

    @model_validator(mode="after")
    def _is_a_transform_or_a_sum(self) -> "DerivedTable":
        is_sum = bool(self.table and self.sum and self.by)
        if self.transform is None and not is_sum:
            raise ValueError("a derived table needs `transform`, or all of `table`, `sum` and `by`")
        if self.transform is not None and (self.table or self.sum or self.by):
            raise ValueError("`transform` says all of a derived table: write it without `table`, `sum` and `by`")
        return self


class SyncSpec(Declared):
    """One declared pipeline."""

    sync: Name = Field(description="Name of the sync; the file has the same name.")
    source: Name = Field(description="Name of a declared source.")
    destinations: tuple[Name, ...] = Field(description="Names of declared destinations.", min_length=1, strict=False)
    tables: tuple[TableEntry, ...] = Field(
        description="Tables of the source, as names or as entries.", min_length=1, strict=False
    )
    guarantee: Literal["exactly_once", "at_least_once"] = Field(
        "exactly_once", description="What the sync promises; refused where source or destination cannot give it."
    )
    stream: Stream = Field(default_factory=Stream, description="How the live tables are kept current.")
    onboard: Onboard = Field(default_factory=Onboard, description="What is expected of its onboarding.")
    nightly: Nightly | None = Field(None, description="The cut of each business date; without it there is none.")
    reconcile: Reconcile = Field(default_factory=Reconcile, description="What is compared, and what a break does.")
    reconcile_only: ReconcileOnly | None = Field(
        None,
        description="Declared: another tool carries the tables into the destinations, and this sync compares them. It"
        " has no capture, no stream, no onboarding and no cuts.",
    )
    derived: tuple[DerivedTable, ...] = Field(
        (), description="Tables computed from the staged cut of each date.", strict=False
    )
