"""Cuts in a real Hive metastore: what each partition leads to, whatever was killed between."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.cut_keep import CutKeep, expired
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import KeyedDigest, Segment
from seamline.domain.errors import GateFailed, Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.staged_cut import CutMode, Lateness, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import HoldsCuts, ReadsBack, SinkKind
from seamline.plan.model import DestinationPlan, SyncPlan, TablePlan
from seamline.ports import Load
from seamline.sinks.hive import cut_rows, cuts
from seamline.sinks.hive.cuts import HiveCuts
from seamline.sinks.hive.maintenance import HiveMaintenance
from seamline.sinks.hive.metastore import Metastore, open_metastore
from seamline.sinks.lake.metastore_command_line import CLIENT
from seamline.values.build import batch_of
from seamline.values.digest import segment_digest
from tests.contract.conftest import Hive
from tests.integration.databases import postgres
from tests.log_topic import position, sync_plan

DAY, RUN = date(2026, 11, 27), "settlement__nightly/2026-11-27"
KEEP = CutKeep(2, 0, 7)
# Of a column without a zone.
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC).replace(tzinfo=None)
ACCOUNT = Table(
    "account",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("Name", Kind.STRING, "varchar(40)"),
        Column("at", Kind.DATETIME, "datetime(6)"),
    ),
    ("id",),
)
AUDIT = Table("audit", (Column("actor", Kind.STRING, "text"),))
MOVED = Table("movement", (Column("id", Kind.INTEGER, "int", nullable=False, length=32),), ("id",))
TABLES = (ACCOUNT, AUDIT, MOVED)
Rows = Sequence[tuple[Any, ...]]
NUMBERS = itertools.count()


class Killed(BaseException):
    """As a SIGKILL: nothing of the publisher goes on."""


class Night:
    """One destination in the metastore, its publisher, and what a client of the metastore reads."""

    def __init__(self, hive: Hive, warehouse: Path, database: str) -> None:
        self.hive = hive
        self.warehouse = warehouse
        options = (("metastore", "hive_metastore"), ("warehouse", str(warehouse)))
        self.destination = DestinationPlan("hive", "hive", "rows", database, options=options, cuts_only=True)
        self.plan = replace(
            sync_plan(TABLES),
            destinations=(self.destination,),
            tables=tuple(TablePlan(table.name, None, table) for table in TABLES),
        )
        self.stream = StreamId(self.plan.sync, "hive")
        kind = sink_kind("hive")
        assert isinstance(kind, ReadsBack)
        assert isinstance(kind, HoldsCuts)
        self.kind, self.reads, self.holds = cast(SinkKind, kind), cast(ReadsBack, kind), cast(HoldsCuts, kind)
        self.cuts = self.opened()
        self.metastore = open_metastore(hive.metastore, database)

    def opened(self) -> HiveCuts:
        found = self.holds.open_cuts(self.destination)
        assert isinstance(found, HiveCuts)
        return found

    def close(self) -> None:
        self.cuts.close()
        self.metastore.close()

    def staged(self, table: Table, rows: Rows) -> StagedTable:
        """Loaded, and read back as a comparison does."""
        place = self.kind.load_area(self.destination, run_id=RUN).create([table])[table.name]
        batch = batch_of(table, list(rows))
        count = self.kind.load(self.destination, place, ArrowRows(batch.schema, iter([batch])))
        load = Load(table, place.name, count)
        (view,) = self.reads.open_staged(self.plan, self.destination, [load], 1, position=position(1))
        found = sum(
            view.digests(Segment(table.name), run_key="k").values(), segment_digest(table, batch[:0], run_key="k")
        )
        assert found == segment_digest(table, batch, run_key="k")
        return StagedTable(table.name, CutMode.WHOLE, place.name, count, Verdict.MATCH, digest=KeyedDigest("k", found))

    def cut(self, mark: str, *, run: str = RUN, day: date = DAY, tables: Sequence[Table] = TABLES) -> StagedCut:
        """All tables staged with rows that bear the mark."""
        rows: dict[str, Rows] = {
            "account": [(1, mark, NOON), (2, None, None)],
            "audit": [(mark,), (mark,)],
            "movement": [(len(mark),)],
        }
        staged = tuple(self.staged(table, rows[table.name]) for table in tables)
        return StagedCut(run, self.plan.sync, "hive", day, position(1), datetime.now(UTC), staged)

    def publish(self, cut: StagedCut, *, by: HiveCuts | None = None, signed_by: str = "") -> int:
        definitions = {table.name: table for table in TABLES}
        return (by or self.cuts).publish(cut, definitions=definitions, signed_by=signed_by).version

    def read(self, table: str, day: date = DAY) -> pa.Table | None:
        """As a client of the metastore reads a partition: every file where it leads to."""
        found = self.metastore.location(table, day)
        if found is None:
            return None
        files = sorted(found.glob("*"))
        assert found.is_dir(), "a partition never leads to where there is nothing"
        return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files]) if files else pa.table({})

    def marks(self, day: date = DAY) -> dict[str, set[Any]]:
        """Of each table the mark that its rows bear."""
        found = {table.name: self.read(table.name, day) for table in TABLES}
        columns = {"account": "Name", "audit": "actor", "movement": "id"}
        return {
            name: set() if rows is None else {value for value in rows[columns[name]].to_pylist() if value is not None}
            for name, rows in found.items()
        }

    def execute(self, statement: str, *parameters: Any) -> list[Any]:
        found = self.cuts.session.execute(statement, parameters)
        return found.fetchall() if found.description else []


def marked(mark: str) -> dict[str, set[Any]]:
    return {"account": {mark}, "audit": {mark}, "movement": {len(mark)}}


@pytest.fixture
def night(hive: Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    def resolve(connection_id: str) -> Connection:
        return hive.metastore if connection_id == "hive_metastore" else hive.database

    for module in ("cuts", "read_back", "preflight"):
        monkeypatch.setattr(f"seamline.sinks.hive.{module}.resolve", resolve)
    with postgres(hive.database) as session:
        session.execute("DROP SCHEMA IF EXISTS seamline CASCADE")
    # The metastore keeps its databases for the session.
    with closing(Night(hive, tmp_path, f"night_{next(NUMBERS)}")) as night:
        yield night


def test_a_cut_is_a_partition_of_each_table_that_leads_to_what_was_compared(night: Night) -> None:
    assert night.publish(night.cut("first")) == 1
    assert night.marks() == marked("first")
    found = night.read("account")
    assert found is not None
    assert found["at"].to_pylist() == [NOON, None]
    table = night.metastore.table("account")
    assert table is not None
    assert table.columns == (("id", "bigint"), ("name", "string"), ("at", "timestamp"))
    assert table.keys == (("cut_business_date", "date"),)
    assert night.execute("SELECT version, published_at IS NOT NULL, signed_by FROM seamline.hive_cut") == [
        (1, True, "")
    ]


def test_a_repeat_finds_the_cut_and_another_run_s_is_the_next_version(night: Night) -> None:
    first = night.cut("first")
    assert [night.publish(first) for _ in range(2)] == [1, 1]
    with pytest.raises(Refused, match="not at"):
        night.publish(replace(first, position=position(2)))
    assert night.publish(night.cut("second", run="again")) == 2
    assert night.marks() == marked("second")
    assert night.publish(first, signed_by="Li") == 1, "a repeat signs, and moves nothing back"
    assert night.marks() == marked("second")
    assert night.execute("SELECT version, signed_by FROM seamline.hive_cut ORDER BY version") == [(1, "Li"), (2, "")]


def test_a_table_that_no_longer_holds_what_was_compared_is_not_published(night: Night) -> None:
    cut = night.cut("first")
    (path,) = night.cuts.files(cut.tables[0].staged_as)
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(1, "Name", pa.array(["other", None])), path)
    with pytest.raises(GateFailed, match="other values"):
        night.publish(cut)
    assert night.marks() == {name: set() for name in marked("")}, "nothing was begun"
    assert night.publish(night.cut("second", run="again")) == 1


def steps_of(night: Night, monkeypatch: pytest.MonkeyPatch, *, dies_before: int) -> list[str]:
    """From here on every step of a publish is counted, and the process dies before one of them."""
    taken: list[str] = []

    def watched(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def step(*args: Any, **kwargs: Any) -> Any:
            if len(taken) == dies_before:
                raise Killed(name)
            taken.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, step)

    for owner, names in {
        Metastore: ("make_database", "make_table", "place"),
        cut_rows: ("decide", "finish"),
        cuts: ("claim",),
    }.items():
        for name in names:
            watched(owner, name)
    return taken


STEPS = ["claim"] * 3 + ["make_database"] + ["make_table"] * 3 + ["decide"] + ["place"] * 3 + ["finish"]


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[f"{at}-{name}" for at, name in enumerate(STEPS)])
def test_a_publish_that_is_killed_before_any_step_is_completed_by_its_repeat(
    night: Night, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = night.cut("first")
    dying = night.opened()
    with monkeypatch.context() as patch, closing(dying):
        taken = steps_of(night, patch, dies_before=number)
        with pytest.raises(Killed, match=STEPS[number]):
            night.publish(cut, by=dying)
        assert taken == STEPS[:number]
    before = night.marks()
    assert all(before[name] in (set(), marked("first")[name]) for name in before), "each table whole or not at all"
    assert night.publish(cut) == 1
    assert night.marks() == marked("first")


@pytest.mark.parametrize("moved", range(4))
def test_what_a_crash_has_left_is_finished_before_another_run_of_the_date_publishes(
    night: Night, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the other run holds fewer tables: no date is left half of one and half of the other."""
    night.publish(night.cut("first"))
    second = night.cut("second", run="second")
    with monkeypatch.context() as patch, closing(night.opened()) as dying:
        # Before: three claims and the decision.
        steps_of(night, patch, dies_before=4 + moved)
        with pytest.raises(Killed):
            night.publish(second, by=dying)
    found = [night.marks()[table.name] for table in TABLES]
    assert found == [marked("second" if at < moved else "first")[one.name] for at, one in enumerate(TABLES)]
    assert night.publish(night.cut("third", run="third", tables=(ACCOUNT,))) == 3
    assert night.marks() == {**marked("second"), "account": {"third"}}
    assert night.execute("SELECT count(*) FROM seamline.hive_cut WHERE published_at IS NULL") == [(0,)]


def test_a_partition_that_is_pointed_to_another_attempt_is_caught(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a publish that moves a partition to the folder of an attempt that nobody has compared."""
    stray = night.staged(AUDIT, [("stray",)])
    real = Metastore.place

    def wrong(self: Metastore, table: str, day: date, columns: Any, folder: Path, **more: Any) -> None:
        real(self, table, day, columns, night.cuts.path_of(stray.staged_as) if table == "audit" else folder, **more)

    cut = night.cut("first")
    with monkeypatch.context() as patch:
        patch.setattr(Metastore, "place", wrong)
        with pytest.raises(TransientError, match="not to the folder of version 1"):
            night.publish(cut)
        with pytest.raises(AssertionError):
            assert night.marks() == marked("first")
    assert night.publish(cut) == 1
    assert night.marks() == marked("first")


def test_a_partition_before_its_files_is_caught(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a publish that does not look whether the files of an attempt are there and whole."""
    cut = night.cut("first")
    for path in night.cuts.files(cut.tables[0].staged_as):
        path.unlink()
    with pytest.raises(Refused, match="is gone"):
        night.publish(cut)
    with monkeypatch.context() as patch:
        unseen = {one.table: cut_rows.Folder(one.table, one.staged_as, (("id", "bigint"),), 1) for one in cut.tables}
        patch.setattr(HiveCuts, "_checked", lambda _, staged, __: unseen[staged.table])
        night.publish(cut)
        with pytest.raises((AssertionError, KeyError)):
            assert night.marks() == marked("first")


def test_a_publisher_that_has_lost_its_session_moves_nothing_more(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, zombie = night.cut("first"), night.opened()
    night.publish(first)
    real = Metastore.place

    def overtaken(self: Metastore, *args: Any, **more: Any) -> None:
        real(self, *args, **more)
        if zombie.session.closed:
            return
        monkeypatch.setattr(Metastore, "place", real)
        pid = zombie.session.info.backend_pid
        night.execute("SELECT pg_terminate_backend(%s)", pid)
        # Whoever comes next finishes what it has decided and goes on.
        assert night.publish(night.cut("third", run="third")) == 3

    monkeypatch.setattr(Metastore, "place", overtaken)
    with closing(zombie), pytest.raises(TransientError):
        night.publish(night.cut("second", run="second"), by=zombie)
    assert night.marks() == marked("third")


def test_a_table_without_rows_is_an_empty_partition(night: Night) -> None:
    cut = night.cut("first")
    empty = night.staged(MOVED, [])
    night.publish(replace(cut, tables=(*cut.tables[:2], empty)))
    assert night.read("movement") == pa.table({})


def test_columns_that_come_are_added_and_one_of_another_type_is_refused(night: Night) -> None:
    night.publish(night.cut("first"))
    wider = replace(AUDIT, columns=(*AUDIT.columns, Column("why", Kind.STRING, "text")))
    staged = night.staged(wider, [("x", "because")])
    cut = replace(night.cut("second", run="second"), tables=(staged,))
    night.cuts.publish(cut, definitions={"audit": wider}, signed_by="")
    table = night.metastore.table("audit")
    assert table is not None
    assert table.columns == (("actor", "string"), ("why", "string"))
    other = replace(AUDIT, columns=(Column("actor", Kind.INTEGER, "int", length=32),))
    cut = replace(cut, run_id="third", tables=(night.staged(other, [(1,)]),))
    with pytest.raises(Refused, match="actor of .*audit is string in the metastore and would be int"):
        night.cuts.publish(cut, definitions={"audit": other}, signed_by="")


def test_rows_beyond_the_version_that_counts_and_those_that_it_alone_has_are_counted(night: Night) -> None:
    def late(rows: Rows) -> Lateness | None:
        staged_as = night.staged(AUDIT, rows).staged_as
        return night.cuts.lateness(night.plan.sync, "audit", DAY, staged_as=staged_as)

    assert late([("x",)]) is None, "no version counts yet"
    night.publish(night.cut("first"))
    assert late([("first",), ("first",)]) == Lateness(0, 0)
    assert late([("first",), ("first",), ("first",), ("new",)]) == Lateness(2, 0)
    assert late([("new",)]) == Lateness(1, 2)
    assert late([]) == Lateness(0, 2)


def test_a_published_cut_is_read_back_by_its_partition_and_one_that_somebody_moved_is_not(night: Night) -> None:
    cut = night.cut("first")
    dated = replace(cut, tables=tuple(replace(one, mode=CutMode.DATE) for one in cut.tables))
    night.publish(dated)
    found = night.cuts.date_before(night.plan.sync, DAY + timedelta(days=1))
    assert {(one.table, one.business_date, one.version) for one in found} == {(table.name, DAY, 1) for table in TABLES}
    assert night.cuts.date_before(night.plan.sync, DAY) == []

    def digest(tables: Sequence[PublishedTable]) -> Any:
        view = night.reads.open_published(night.plan, night.destination, tables, position=position(2))
        return sum(
            view.digests(Segment("account"), run_key="k").values(),
            segment_digest(ACCOUNT, batch_of(ACCOUNT, []), run_key="k"),
        )

    assert digest(found) == dated.tables[0].digest.digest  # type: ignore[union-attr]
    stray = night.staged(ACCOUNT, [(7, "stray", None)])
    night.metastore.place("account", DAY, (("id", "bigint"),), night.cuts.path_of(stray.staged_as), parameters={})
    with pytest.raises(Refused, match="leads to"):
        digest(found)


def published_days(night: Night, *days: date) -> None:
    for day in days:
        night.publish(night.cut(day.isoformat(), run=f"of {day}", day=day), signed_by="")


def test_what_expires_leaves_first_its_partition_then_its_rows_and_last_its_files(night: Night) -> None:
    days = [DAY + timedelta(days=number) for number in range(3)]
    published_days(night, *days)
    night.execute("UPDATE seamline.hive_cut SET published_at = published_at - interval '9 days'")
    kept, now = night.cuts.kept_cuts(night.plan.sync)
    gone = expired(kept, KEEP, now=now)
    assert {cut.business_date for cut in gone} == {DAY}
    folders = [
        night.cuts.path_of(one.location).parent for one in cut_rows.folders_of(night.cuts.session, night.stream, DAY, 1)
    ]
    assert night.cuts.expire(night.plan.sync, DAY, gone).partitions == 3
    assert night.cuts.expire(night.plan.sync, DAY, gone).partitions == 0, "a repeat finds nothing"
    assert night.cuts.expired(night.plan.sync) == [(DAY, 1)]
    assert [night.read("audit", day) is None for day in days] == [True, False, False]
    maintenance = HiveMaintenance(night.destination, night.cuts)
    maintenance.let_go()
    assert all(folder.is_dir() for folder in folders), "a query that was planned reads on"
    night.execute("UPDATE seamline.hive_folder SET released_at = released_at - interval '25 hours'")
    maintenance.let_go()
    assert not any(folder.exists() for folder in folders)
    assert night.marks(days[1]) == {**marked(days[1].isoformat())}


def test_a_version_that_was_replaced_expires_without_its_successor_s_partition(night: Night) -> None:
    night.publish(night.cut("first"))
    night.publish(night.cut("second", run="second"))
    night.execute("UPDATE seamline.hive_cut SET published_at = published_at - interval '9 days'")
    kept, now = night.cuts.kept_cuts(night.plan.sync)
    gone = expired(kept, KEEP, now=now)
    assert {(cut.version, cut.is_current) for cut in gone} == {(1, False)}
    assert night.cuts.expire(night.plan.sync, DAY, gone).partitions == 0
    assert night.marks() == marked("second")


def test_a_cut_that_was_begun_and_given_up_goes_and_its_tables_lead_back(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.publish(night.cut("first"))
    second = night.cut("second", run="second")
    with monkeypatch.context() as patch, closing(night.opened()) as dying:
        steps_of(night, patch, dies_before=6)
        with pytest.raises(Killed):
            night.publish(second, by=dying)
    night.execute("UPDATE seamline.hive_cut SET decided_at = decided_at - interval '9 days'")
    kept, now = night.cuts.kept_cuts(night.plan.sync)
    gone = expired(kept, KEEP, now=now)
    assert {(cut.version, cut.published_at) for cut in gone} == {(2, None)}
    night.cuts.expire(night.plan.sync, DAY, gone)
    assert night.marks() == marked("first")
    with pytest.raises(Refused, match="has expired"):
        night.publish(second)


def test_a_table_of_somebody_else_s_and_names_that_hive_does_not_have_are_problems(night: Night) -> None:
    def problems(plan: SyncPlan) -> list[str]:
        return [one.what.removeprefix("destination hive: ") for one in night.kind.problems(plan, night.destination)]

    assert problems(night.plan) == []
    night.publish(night.cut("first"))
    assert problems(night.plan) == [], "its own tables are no problem"
    other = replace(night.plan, sync="other")
    assert (
        f"table {night.destination.namespace}.audit exists in the metastore and was not made by other@hive"
        in problems(other)
    )
    odd = Table(
        "konten-ü",
        (
            Column("a", Kind.INTEGER, "int"),
            Column("A", Kind.INTEGER, "int"),
            Column("cut_business_date", Kind.DATE, "date"),
        ),
    )
    found = "\n".join(problems(replace(night.plan, tables=(TablePlan("konten-ü", None, odd),))))
    assert "no table called 'konten-ü'" in found
    assert "columns a and A of table konten-ü are one to Hive" in found
    assert "has the name of the partition's column" in found
    gone = replace(night.destination, options=(("metastore", "hive_metastore"), ("warehouse", "/nowhere")))
    assert "the warehouse /nowhere is no folder here" in [
        one.what.removeprefix("destination hive: ") for one in night.kind.problems(night.plan, gone)
    ]


def test_there_is_no_stream_and_no_live_table(night: Night) -> None:
    with pytest.raises(Refused, match="takes cuts by business date only"):
        night.reads.open_live(night.plan, night.destination, 1)
    with pytest.raises(Refused, match="takes cuts by business date only"):
        night.kind.open_sink(night.plan, night.destination, decoder=cast(Any, None))


def test_connect_asks_the_metastore_for_its_databases(night: Night) -> None:
    night.publish(night.cut("first"))
    found = CLIENT.examined(night.hive.metastore)
    assert int(found.product.removeprefix("a Hive metastore, databases: ")) > 1


def test_a_metastore_that_is_away_is_tried_again(night: Night) -> None:
    away = replace(night.hive.metastore, port=1)
    with pytest.raises(TransientError, match="does not answer"):
        open_metastore(away, "bank")
