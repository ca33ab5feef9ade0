"""Tables that lie in folders, of Delta and of Hudi, whose ledger is in PostgreSQL: what a killed worker leaves, cuts,
readers, preflight, maintenance."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.cut_keep import CutKeep, KeptCut, expired
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment
from seamline.domain.errors import Refused
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.kinds.reading import SyncTables
from seamline.kinds.sink import CutsLiveTables, ReadsBack
from seamline.plan.model import BusinessDate, NightlyPlan, TablePlan
from seamline.ports import Load
from seamline.ports.cuts import PinnedTables
from seamline.sinks.delta import reading as delta_reading
from seamline.sinks.delta import retention as delta_retention
from seamline.sinks.delta.log import DeltaLog
from seamline.sinks.delta.pointer import Pointer as DeltaPointer
from seamline.sinks.hudi import reading as hudi_reading
from seamline.sinks.hudi import retention as hudi_retention
from seamline.sinks.hudi.pointer import Pointer as HudiPointer
from seamline.sinks.hudi.state import TableState
from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.lake.cuts import LakeCuts
from seamline.sinks.lake.kind import LakeKind
from seamline.sinks.lake.loads import ABANDONED_AFTER_S
from seamline.values.build import batch_of
from tests.contract import lake_worker
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.lake_worlds import DELTA, HUDI, Lake, PostgresLakeWorld
from tests.integration.databases import either_of, postgres
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, insert, position, publication, update

DAY, RUN = date(2026, 11, 27), "settlement__nightly/2026-11-27"
TAG = "cut_2026_11_27_v1"
NIGHTLY = NightlyPlan(keep_days=2, keep_month_ends=0, keep_versions_days=7)


def reads_alike_in_delta(pointer: str) -> bool:
    """Without the ledger, as with it."""
    at = DeltaPointer.parsed(pointer)
    log = DeltaLog(at.folder)
    return log.newest().keys == log.at(at.version).keys


def reads_alike_in_hudi(pointer: str) -> bool:
    at = HudiPointer.parsed(pointer)
    timeline = Timeline(at.folder)
    head, named = timeline.at(max(timeline.commits().values())), timeline.at(at.instant)
    return head.rows_of == named.rows_of


def left_over_in_delta(folder: Path) -> Path:
    """A table that no row leads to; where its log is."""
    log = DeltaLog(folder)
    log.make()
    log.put(0, [{"txn": {"appId": "a", "version": 1}}])
    return folder / "_delta_log"


def left_over_in_hudi(folder: Path) -> Path:
    timeline = Timeline(folder)
    timeline.make()
    timeline.put(0, TableState(timeline.reserve(0), stream="a"), TableState())
    return timeline.numbers_path


@dataclass(frozen=True, slots=True)
class FolderLake:
    """What one format of them has its own way. `state`: the column of its catalogue. `refused_name`: what is said of a
    column `a b`. `left_over`: makes a table in a folder."""

    of: Lake
    state: str
    refused_name: str
    reading: ModuleType
    retention: ModuleType
    reads_alike: Callable[[str], bool]
    left_over: Callable[[Path], Path]

    @property
    def kind(self) -> LakeKind:
        return cast(LakeKind, sink_kind(self.of.name))

    @property
    def catalogue(self) -> str:
        return f"seamline.{self.of.name}_table"


FOLDER_LAKES = {
    "delta": FolderLake(
        DELTA,
        "version",
        "has ' ' in its name",
        delta_reading,
        delta_retention,
        reads_alike_in_delta,
        left_over_in_delta,
    ),
    "hudi": FolderLake(
        HUDI,
        "instant",
        "has a name that Hudi does not take",
        hudi_reading,
        hudi_retention,
        reads_alike_in_hudi,
        left_over_in_hudi,
    ),
}


@pytest.fixture(params=FOLDER_LAKES)
def lake(request: pytest.FixtureRequest) -> FolderLake:
    return FOLDER_LAKES[request.param]


@pytest.fixture
def world(
    lake: FolderLake, sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PostgresLakeWorld]:
    # What a kind opens by connection ids leads into the test's database.
    for module in ("cuts", "maintenance", "pinned", "preflight", "read_back"):
        monkeypatch.setattr(f"seamline.sinks.lake.{module}.resolve", either_of(sink_database))
    with closing(PostgresLakeWorld(TABLES, sink_database, tmp_path, lake=lake.of)) as world:
        yield world


def begun(world: PostgresLakeWorld) -> Applying:
    stream = published(world)
    stream.span(*(insert(ACCOUNT, **account(n)) for n in (1, 2)), insert(AUDIT, actor="x", action="y"))
    return stream


# ---- kills ----------------------------------------------------------------------------------------------------------

BEFORE = [texts(account(1), account(2)), [], texts({"actor": "x", "action": "y"})]
AFTER = [
    texts(account(1, "changed")),
    texts({"tx": 1, "leg": 1, "amount": "1.0000"}),
    texts({"actor": "x", "action": "z"}),
]


def rows_of(world: PostgresLakeWorld) -> list[list[str]]:
    return [world.rows(table) for table in TABLES]


# `app.dml_half` is reached once the first table is staged, behind each of three commits of tables, and behind the first
# pointer.
KILLS = {
    "delta": [
        *(f"app.dml_half=kill9@{number}" for number in range(1, 6)),
        "app.dest_begin=kill9",
        "app.dml_done=kill9",
    ],
    "hudi": [f"app.dml_half=kill9@{number}" for number in (1, 3, 5)],
}


@pytest.mark.parametrize(
    ("lake", "place", "is_applied"),
    [
        (name, place, is_applied)
        for name, own in KILLS.items()
        for place, is_applied in (
            *((one, False) for one in own),
            ("app.position_written=kill9", False),
            # The server has it by then, or not.
            ("app.commit_sent=kill9", None),
        )
    ],
    indirect=["lake"],
)
def test_after_any_kill_all_tables_stand_at_the_ledger_s_position(
    lake: FolderLake,
    world: PostgresLakeWorld,
    sink_database: Connection,
    tmp_path: Path,
    place: str,
    is_applied: bool | None,
) -> None:
    begun(world)
    killed = lake_worker.exit_code_of_commit(tmp_path, sink_database, place, lake=lake.of.name)
    assert killed == -signal.SIGKILL
    again = Applying(world)
    is_applied = again.next_offset == 20 if is_applied is None else is_applied
    assert again.next_offset == (20 if is_applied else 10)
    assert rows_of(world) == (AFTER if is_applied else BEFORE)
    for name, text in world.seen().heads.items():
        assert lake.reads_alike(text), f"{name} is read alike without the ledger"
    if not is_applied:
        again.span(*lake_worker.CHANGES)
        assert rows_of(world) == AFTER
    assert world.findings() == []


def test_the_ledger_names_a_state_of_each_table_that_belong_together(
    lake: FolderLake, world: PostgresLakeWorld
) -> None:
    stream = begun(world)
    stream.span(insert(TRANSFER, tx=1, leg=1, amount="1.0000"))
    named = world.session.execute(f"SELECT table_name, {lake.state} FROM {lake.catalogue} ORDER BY 1").fetchall()
    (kept,) = world.session.execute(
        "SELECT snapshots FROM seamline.lake_state ORDER BY state_id DESC LIMIT 1"
    ).fetchall()
    assert dict(named) == kept[0]
    view, other = lake.kind.open_live(world.plan, world.destination, 2)
    assert view.position == other.position == stream.sink.read_ledger(STREAM).position  # type: ignore[union-attr]
    digests = [view.digests(Segment(table.name), run_key="k") for table in TABLES]
    assert [sum(one.rows for one in found.values()) for found in digests] == [2, 1, 1]


def test_preflight_finds_what_would_stop_a_sync_and_nothing_else(
    lake: FolderLake, world: PostgresLakeWorld, sink_database: Connection
) -> None:
    assert lake.kind.problems(world.plan, world.destination) == ()
    published(world)
    assert lake.kind.problems(world.plan, world.destination) == ()
    with closing(postgres(sink_database)) as session:
        session.execute(f"REVOKE UPDATE ON {lake.catalogue} FROM warehouse_writer")
        (found,) = lake.kind.problems(world.plan, world.destination)
        assert f"warehouse_writer may not read and write {lake.catalogue}" in found.what
        session.execute(f"GRANT UPDATE ON {lake.catalogue} TO warehouse_writer")
    odd = Table("t", (Column("a b", Kind.STRING, "text"),))
    plan = replace(world.plan, tables=(TablePlan("t", table=odd),))
    (found,) = lake.kind.problems(plan, world.destination)
    assert f"column 'a b' of table t {lake.refused_name}" in found.what


# ---- cuts -----------------------------------------------------------------------------------------------------------


class Cutting:
    """A stream that goes on, and the cuts of what it has applied."""

    def __init__(self, world: PostgresLakeWorld) -> None:
        self.world = world
        self.kind = cast(LakeKind, sink_kind(world.destination.kind))
        self.plan = replace(world.plan, nightly=NIGHTLY)
        assert isinstance(self.kind, CutsLiveTables)
        assert isinstance(self.kind, ReadsBack)
        opened = self.kind.open_cuts(world.destination)
        assert isinstance(opened, LakeCuts)
        self.cuts = opened

    def pin(self, run: str = RUN) -> PinnedTables:
        return self.kind.pin_live(self.plan, self.world.destination, 1, run_id=run)

    def publish(self, pinned: PinnedTables, day: date = DAY, run: str = RUN, **more: Any) -> int:
        tables = tuple(
            StagedTable(name, more.get("mode", CutMode.WHOLE), number, 1, Verdict.MATCH)
            for name, number in pinned.staged_as.items()
        )
        cut = StagedCut(run, STREAM.sync, STREAM.destination, day, pinned.views[0].position, datetime.now(UTC), tables)
        return self.cuts.publish(cut, definitions={}).version

    def cut(self, day: date, run: str) -> int:
        return self.publish(self.pin(run), day, run)

    def opened(self, at: date | str) -> SyncTables:
        return self.kind.open_tables(self.world.destination, STREAM, at)

    def names(self, at: date | str) -> list[Any]:
        found: list[Any] = self.opened(at)["account"].arrow().column("name").to_pylist()
        return sorted(found)


@pytest.fixture
def cutting(world: PostgresLakeWorld) -> Iterator[Cutting]:
    published(world).span(insert(ACCOUNT, **account(1, "at the cut")), insert(AUDIT, actor="x", action="y"))
    cutting = Cutting(world)
    with closing(cutting.cuts):
        yield cutting


def changed(world: PostgresLakeWorld, before: str = "at the cut", after: str = "behind it") -> None:
    row = update(ACCOUNT, account(1, before), account(1, after))
    Applying(world).span(row, insert(AUDIT, actor="x", action="z"))


def test_a_cut_is_what_stood_when_it_was_compared_and_readers_see_all_its_tables_at_one_position(
    lake: FolderLake, cutting: Cutting, sink_database: Connection
) -> None:
    pinned = cutting.pin()
    changed(cutting.world)
    assert [cutting.publish(pinned) for _ in range(2)] == [1, 1], "a repeat finds it"
    for at in (DAY, "2026-11-27", "proven"):
        tables = cutting.opened(at)
        assert (tables.cut, list(tables)) == (TAG, ["account", "audit", "transfer"])
        assert tables["account"].arrow().to_pylist() == [account(1, "at the cut")]
        assert tables["audit"].arrow().to_pylist() == [{"actor": "x", "action": "y"}], "without the hash of its rows"
    live = cutting.opened("live")
    changed(cutting.world, "behind it", "later")
    assert {name: table.num_rows for name, table in live.arrow().items()} == {"account": 1, "audit": 2, "transfer": 0}
    assert live["account"].arrow().to_pylist() == [account(1, "behind it")]
    assert (live.cut, live.position.covers(tables.position)) == ("", True)
    changed(cutting.world, "later", "again")
    assert cutting.cut(DAY, "again") == 2
    assert cutting.names(DAY) == ["again"]
    of = sink_database
    uri = f"postgresql://{of.login}:{of.password}@{of.host}:{of.port}/{of.database}"
    warehouse = dict(cutting.world.destination.options)["warehouse"]
    alone = lake.reading.open_lake(
        uri, sync="settlement", destination="warehouse", warehouse=warehouse, namespace="settlement", at=DAY
    )
    assert alone["account"].arrow().to_pylist() == [account(1, "again")]
    with pytest.raises(Refused, match="no cut of 2026-11-26"):
        cutting.opened("2026-11-26")


def test_maintenance_leaves_what_cuts_hold_and_takes_the_rest_once_they_are_over(
    lake: FolderLake, cutting: Cutting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake.retention, "YOUNG_S", -60)
    folder = tmp_path / "settlement" / "account"
    for number in range(4):
        assert cutting.cut(date(2026, 11, 20 + number), f"run {number}") == 1
        changed(cutting.world, "at the cut" if number == 0 else f"v{number}", f"v{number + 1}")
    pinned = cutting.pin("nobody has published it yet")
    changed(cutting.world, "v4", "v5")
    cutting.world.session.execute("UPDATE seamline.lake_state SET committed_at = now() - interval '8 days'")

    def maintained() -> None:
        with closing(lake.kind.open_maintenance(cutting.world.destination)) as maintenance:
            maintenance.let_go()

    maintained()
    expected = {20: "at the cut", 21: "v1", 22: "v2", 23: "v3"}
    assert {day: cutting.names(date(2026, 11, day)) for day in expected} == {day: [n] for day, n in expected.items()}
    (view,) = pinned.views
    assert view.rows("account", ["1"])["1"]["name"] == "v4"
    assert cutting.names("live") == ["v5"]
    cutting.world.session.execute("UPDATE seamline.lake_cut SET published_at = published_at - interval '9 days'")
    kept, now = cutting.cuts.kept_cuts("settlement")
    gone: dict[date, list[KeptCut]] = {}
    for cut in expired(kept, CutKeep(2, 0, 7), now=now):
        gone.setdefault(cut.business_date, []).append(cut)
    for day, cuts in gone.items():
        cutting.cuts.expire("settlement", day, cuts)
    before = set(folder.rglob("*.parquet"))
    maintained()
    assert set(folder.rglob("*.parquet")) == before, "who has opened one of them goes on reading"
    cutting.world.session.execute("UPDATE seamline.lake_let_go SET at = at - interval '25 hours'")
    maintained()
    assert set(folder.rglob("*.parquet")) < before
    assert [cutting.names(date(2026, 11, day)) for day in (22, 23)] == [["v2"], ["v3"]]
    with pytest.raises(Refused, match="no cut of 2026-11-20"):
        cutting.names("2026-11-20")
    changed(cutting.world, "v5", "v6")
    assert cutting.names("live") == ["v6"], "the stream goes on"


def test_maintenance_of_another_destination_with_the_same_namespace_takes_nothing_of_it(
    lake: FolderLake, cutting: Cutting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake.retention, "YOUNG_S", -60)
    day = date(2026, 11, 20)
    cutting.cut(day, "run")
    changed(cutting.world, "at the cut", "later")
    cutting.world.session.execute("UPDATE seamline.lake_state SET committed_at = now() - interval '8 days'")
    before = set(tmp_path.rglob("*.parquet"))
    with closing(lake.kind.open_maintenance(replace(cutting.world.destination, name="elsewhere"))) as maintenance:
        maintenance.let_go()
    assert set(tmp_path.rglob("*.parquet")) == before
    assert (cutting.names(day), cutting.names("live")) == (["at the cut"], ["later"])


def test_folders_that_no_row_leads_to_go_once_they_are_old(
    lake: FolderLake, world: PostgresLakeWorld, tmp_path: Path
) -> None:
    begun(world)
    over = tmp_path / "settlement" / "over"
    log = lake.left_over(over)
    for age, is_there in ((0, True), (ABANDONED_AFTER_S + 60, False)):
        for path in (log, *log.iterdir()):
            os.utime(path, (path.stat().st_mtime - age,) * 2)
        with closing(lake.kind.open_maintenance(world.destination)) as maintenance:
            assert maintenance.let_go().orphan_files == (0 if is_there else 1)
        assert over.exists() is is_there
    assert rows_of(world) == BEFORE


DATED = Table("entry", (Column("id", Kind.INTEGER, "int", length=32), Column("day", Kind.DATE, "date")), ("id",))


def test_the_date_before_is_read_by_the_cut_s_state_and_for_its_date_alone(
    lake: FolderLake, world: PostgresLakeWorld, sink_database: Connection, tmp_path: Path
) -> None:
    del world
    with closing(PostgresLakeWorld([DATED], sink_database, tmp_path, lake=lake.of)) as other:
        rows = batch_of(DATED, [(1, DAY), (2, DAY), (3, DAY + timedelta(days=1)), (4, None)])
        place = lake.kind.load_area(other.destination, run_id="r").create([DATED])["entry"]
        lake.kind.load(other.destination, place, ArrowRows(rows.schema, iter([rows])))
        other.sink().publish(STREAM, [Load(DATED, place.name, 4)], publication=publication([DATED]))
        cutting = Cutting(other)
        plan = replace(cutting.plan, tables=(TablePlan("entry", BusinessDate("day", "date"), DATED),))
        with closing(cutting.cuts) as cuts:
            for run in ("one", "two"):
                cutting.publish(cutting.pin(run), DAY, run, mode=CutMode.DATE)
            found = cuts.date_before("settlement", DAY + timedelta(days=3))
        assert list(found) == [PublishedTable("entry", DAY, 2, "settlement", "cut_2026_11_27_v2")]
        view = lake.kind.open_published(plan, other.destination, found, position=position(0))
        assert sum(one.rows for one in view.digests(Segment("entry"), run_key="k").values()) == 2
