"""Cuts of a lake whose catalogue is in PostgreSQL: tags of all tables and the cut's rows in one transaction."""

import re
import runpy
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, cast

import pyarrow as pa
import pytest
from psycopg.pq import TransactionStatus
from pyiceberg.table import StaticTable
from pyiceberg.view.metadata import ViewMetadata

from seamline.adapters.connections import Connection
from seamline.databases.postgres import kept_open
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.cut_keep import CutKeep, KeptCut, expired
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment
from seamline.domain.errors import ConfigError, GateFailed, Refused
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.kinds.reading import SyncTables
from seamline.kinds.sink import CutsLiveTables, ReadsBack, SinkKind
from seamline.plan.model import BusinessDate, NightlyPlan, TablePlan
from seamline.ports import Joining, Load
from seamline.ports.cuts import PinnedTables
from seamline.sinks.iceberg import types
from seamline.sinks.iceberg.manifests import read_metadata
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.reading import open_catalogue
from seamline.sinks.iceberg.tags import IcebergTags
from seamline.sinks.iceberg.views import IcebergViewFiles
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.cut_views import CutView
from seamline.sinks.lake.cuts import LakeCuts
from seamline.sinks.lake.files import path_of
from seamline.sinks.lake.loads import LakeLoadArea, load
from seamline.sources.mariadb.position import BinlogPosition
from seamline.values.build import batch_of
from tests.contract.behaviours import Applying, account, published
from tests.contract.joining_behaviours import passed
from tests.contract.lake_worlds import CATALOG, PostgresLakeWorld
from tests.integration.databases import either_of
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, insert, position, publication, update

DAY, RUN = date(2026, 11, 27), "settlement__nightly/2026-11-27"
TAG = "cut_2026_11_27_v1"
NIGHTLY = NightlyPlan(keep_days=2, keep_month_ends=0, keep_versions_days=7)
KEEP = CutKeep(2, 0, 7)


class Cutting:
    """A stream that goes on, and the cuts of what it has applied."""

    def __init__(self, world: PostgresLakeWorld) -> None:
        self.world = world
        self.plan = replace(world.plan, nightly=NIGHTLY)
        kind = sink_kind(world.destination.kind)
        assert isinstance(kind, CutsLiveTables)
        assert isinstance(kind, ReadsBack)
        self.kind, self.reads = cast(CutsLiveTables, kind), cast(ReadsBack, kind)
        self.maintained = cast(SinkKind, kind)
        opened = kind.open_cuts(world.destination)
        assert isinstance(opened, LakeCuts)
        self.cuts = opened

    def pin(self, run: str = RUN) -> PinnedTables:
        return self.kind.pin_live(self.plan, self.world.destination, 1, run_id=run)

    def publish(self, pinned: PinnedTables, day: date = DAY, run: str = RUN, signed_by: str = "", **more: Any) -> int:
        tables = tuple(
            StagedTable(name, more.get("mode", CutMode.WHOLE), number, 1, more.get("verdict", Verdict.MATCH))
            for name, number in pinned.staged_as.items()
        )
        cut = StagedCut(run, STREAM.sync, STREAM.destination, day, pinned.views[0].position, datetime.now(UTC), tables)
        return self.cuts.publish(replace(cut, **more.get("of", {})), definitions={}, signed_by=signed_by).version

    def cut(self, day: date, run: str) -> int:
        return self.publish(self.pin(run), day, run)

    def tags(self, table: str = "account") -> dict[str, int]:
        refs = read_metadata(self.world.seen().heads[table]).refs
        return {name: ref.snapshot_id for name, ref in refs.items() if name != "main"}

    def rows(self, tag: str, table: str = "account") -> pa.Table:
        """As any client reads it."""
        found = StaticTable.from_metadata(self.world.seen().heads[table])
        snapshot = found.snapshot_by_name(tag)
        assert snapshot is not None
        return found.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def resolved(patch: pytest.MonkeyPatch, connection: Connection) -> None:
    """What a kind opens by connection ids leads into the test's database."""
    for module in ("sinks.iceberg.read_back", "sinks.lake.read_back", "sinks.lake.maintenance", "sinks.lake.cuts"):
        patch.setattr(f"seamline.{module}.resolve", either_of(connection))


@pytest.fixture
def cutting(sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cutting]:
    resolved(monkeypatch, sink_database)
    with closing(PostgresLakeWorld(TABLES, sink_database, tmp_path)) as world:
        published(world).span(insert(ACCOUNT, **account(1, "at the cut")), insert(AUDIT, actor="x", action="y"))
        cutting = Cutting(world)
        with closing(cutting.cuts):
            yield cutting


def changed(world: PostgresLakeWorld, before: str = "at the cut", after: str = "behind it") -> None:
    row = update(ACCOUNT, account(1, before), account(1, after))
    Applying(world).span(row, insert(AUDIT, actor="x", action="z"))


def a_cut_is_what_stood_when_it_was_compared(cutting: Cutting) -> None:
    pinned = cutting.pin()
    changed(cutting.world)
    assert cutting.publish(pinned) == 1
    assert cutting.rows(TAG).column("name").to_pylist() == ["at the cut"]
    assert cutting.rows(TAG, "audit").num_rows == 1


def test_a_cut_is_a_tag_on_every_table_at_the_position_that_was_compared(cutting: Cutting) -> None:
    a_cut_is_what_stood_when_it_was_compared(cutting)
    assert {tuple(cutting.tags(table.name)) for table in TABLES} == {(TAG,)}, "the run's own tag has gone"
    found = cutting.world.session.execute(
        "SELECT c.tag, c.position = (SELECT position FROM seamline.lake_state ORDER BY state_id DESC OFFSET 1 LIMIT 1),"
        " count(*), bool_and(is_proven) FROM seamline.lake_cut c JOIN seamline.lake_cut_table USING (stream)"
        " GROUP BY 1, 2"
    ).fetchall()
    assert found == [(TAG, True, 3, True)]
    Applying(cutting.world).span(insert(ACCOUNT, **account(2)))
    assert cutting.world.findings() == [], "nobody takes a tag for somebody else's write"


def test_tags_and_views_may_be_written_for_long_while_the_stream_waits(
    cutting: Cutting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_open, "ASKED_EVERY_S", 0.1)
    cutting.cuts._session.execute("SET idle_in_transaction_session_timeout = 500")  # noqa: SLF001
    for writer, name in ((IcebergTags, "staged"), (IcebergViewFiles, "write")):
        right = getattr(writer, name)
        monkeypatch.setattr(writer, name, lambda *args, right=right, **more: Event().wait(1) or right(*args, **more))
    assert cutting.publish(cutting.pin()) == 1
    assert cutting.rows(TAG).column("name").to_pylist() == ["at the cut"]


def test_a_publish_that_is_repeated_finds_its_cut_and_another_run_s_is_the_next_version(cutting: Cutting) -> None:
    pinned = cutting.pin()
    assert [cutting.publish(pinned) for _ in range(2)] == [1, 1]
    with pytest.raises(Refused, match="not at"):
        cutting.publish(pinned, of={"position": replace(pinned.views[0].position, gtid="0-1-1")})
    changed(cutting.world)
    assert cutting.cut(DAY, "again") == 2
    assert cutting.rows("cut_2026_11_27_v2").column("name").to_pylist() == ["behind it"]
    assert cutting.rows(TAG).column("name").to_pylist() == ["at the cut"]
    cutting.publish(pinned, signed_by="Li")
    signed = cutting.world.session.execute("SELECT version, signed_by FROM seamline.lake_cut ORDER BY version")
    assert signed.fetchall() == [(1, "Li"), (2, "")]


def test_what_a_run_does_not_hold_any_more_or_holds_otherwise_is_not_published(cutting: Cutting) -> None:
    first = cutting.pin()
    changed(cutting.world)
    second = cutting.pin()
    assert len(cutting.tags()) == 1, "in place of what the attempt before has held"
    with pytest.raises(GateFailed, match="not what was compared"):
        cutting.publish(first)
    with pytest.raises(Refused, match="holds no tables for run other"):
        cutting.publish(second, run="other")
    assert cutting.publish(second) == 1


def test_a_cut_is_published_that_was_compared_at_another_address_of_the_same_place(cutting: Cutting) -> None:
    pinned = cutting.pin()
    at = pinned.views[0].position
    assert isinstance(at, BinlogPosition)
    assert cutting.publish(pinned, of={"position": replace(at, offset=at.offset + 269)}) == 1
    with pytest.raises(GateFailed, match="not what was compared"):
        cutting.publish(cutting.pin("again"), run="again", of={"position": replace(at, gtid="0-1-999999")})


def test_a_pointer_that_the_stream_moves_meanwhile_is_gone_on_from(
    cutting: Cutting, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned, stream = cutting.pin(), Applying(cutting.world)
    heads, left = cutting.cuts._heads, iter(range(1))  # noqa: SLF001

    def heads_before_a_commit() -> Any:
        found = heads()
        if (number := next(left, None)) is not None:
            stream.span(insert(ACCOUNT, **account(100 + number)))
        return found

    monkeypatch.setattr(cutting.cuts, "_heads", heads_before_a_commit)
    assert cutting.publish(pinned) == 1
    assert cutting.rows(TAG).num_rows == 1
    assert len(cutting.world.rows(ACCOUNT)) == 2
    stream.span(insert(ACCOUNT, **account(9)))
    assert next(left, None) is None


def test_a_stream_that_never_rests_holds_no_cut_up(cutting: Cutting) -> None:
    """Each attempt of a cut that wrote its tags first would find all pointers elsewhere."""
    stop, stream = threading.Event(), Applying(cutting.world)

    def run() -> int:
        number = 0
        while not stop.is_set():
            stream.span(insert(ACCOUNT, **account(100 + number)), insert(AUDIT, actor="x", action=f"{number}"))
            number += 1
        return number

    with ThreadPoolExecutor(1) as pool:
        commits = pool.submit(run)
        try:
            versions = [cutting.cut(DAY, f"run {number}") for number in range(3)]
        finally:
            stop.set()
    assert versions == [1, 2, 3]
    assert commits.result() > 0
    assert cutting.world.findings() == []


def test_cuts_end_by_the_rules_of_every_kind_and_runs_that_nobody_publishes_are_given_up(cutting: Cutting) -> None:
    for number in range(4):
        assert cutting.cut(date(2026, 11, 20 + number), f"run {number}") == 1
    changed(cutting.world)
    cutting.pin("nobody publishes it")
    cutting.world.session.execute("UPDATE seamline.lake_cut SET published_at = published_at - interval '9 days'")
    kept, now = cutting.cuts.kept_cuts("settlement")
    gone: dict[date, list[KeptCut]] = {}
    for cut in expired(kept, KEEP, now=now):
        gone.setdefault(cut.business_date, []).append(cut)
    assert [cutting.cuts.expire("settlement", day, cuts).partitions for day, cuts in sorted(gone.items())] == [3, 3]
    assert [cutting.cuts.expire("settlement", day, cuts).partitions for day, cuts in gone.items()] == [0, 0]
    assert set(cutting.cuts.expired("settlement")) == {(date(2026, 11, day), 1) for day in (20, 21)}
    pinned = [tag for tag in cutting.tags() if tag.startswith("seamline_run_")]
    assert set(cutting.tags()) == {"cut_2026_11_22_v1", "cut_2026_11_23_v1", *pinned}
    assert len(pinned) == 1
    with pytest.raises(Refused, match="has expired"):
        cutting.cut(date(2026, 11, 20), "run 0")
    cutting.world.session.execute("UPDATE seamline.lake_pin SET pinned_at = pinned_at - interval '15 days'")
    with closing(cutting.maintained.open_maintenance(cutting.world.destination)) as maintenance:
        assert maintenance.let_go().staged == 2, "the pin of the run above, and the one before"
    assert set(cutting.tags()) == {"cut_2026_11_22_v1", "cut_2026_11_23_v1"}


def test_a_tag_on_what_stands_when_it_is_published_is_caught(cutting: Cutting, monkeypatch: pytest.MonkeyPatch) -> None:
    right = LakeCuts._pin_of  # noqa: SLF001

    def wrong(self: LakeCuts, stream: Any, cut: StagedCut) -> Any:
        return replace(right(self, stream, cut), snapshots=self._tags.heads(dict(self._heads())))

    monkeypatch.setattr(LakeCuts, "_pin_of", wrong)
    with pytest.raises(AssertionError):
        a_cut_is_what_stood_when_it_was_compared(cutting)


def test_a_cut_whose_tables_nobody_has_agreed_on_is_not_proven(cutting: Cutting) -> None:
    cutting.publish(cutting.pin(), verdict=Verdict.BREAK)
    proven = cutting.world.session.execute("SELECT bool_or(is_proven) FROM seamline.lake_cut_table").fetchone()
    assert proven == (False,)
    tag = read_metadata(cutting.world.seen().heads["account"]).refs[TAG]
    assert timedelta(milliseconds=tag.max_ref_age_ms or 0) > timedelta(days=30), "as long as the rules may keep it"


# ---- views ----------------------------------------------------------------------------------------------------------


def views(cutting: Cutting) -> dict[str, str]:
    """View → the tag that its statement reads."""
    found = Catalogue(CATALOG).views(cutting.world.session, "settlement_cut")
    shown = {name: ViewMetadata.model_validate_json(path_of(one).read_bytes()) for name, one in found.items()}
    statements = {name: one.versions[0].representations[0].root.sql for name, one in shown.items()}
    return {name: statement.split("VERSION AS OF ")[1].strip("'") for name, statement in statements.items()}


def test_files_of_views_and_tags_are_written_many_at_once_and_views_are_read_before_the_transaction(
    cutting: Cutting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another, those of hundreds of tables would take longer in a store than a transaction may idle."""
    pairs = {name: threading.Barrier(2) for name in ("write", "staged")}
    write, staged, read = IcebergViewFiles.write, IcebergTags.staged, IcebergViewFiles.read
    statuses: list[TransactionStatus] = []

    def writing(self: IcebergViewFiles, name: str, view: CutView, table_location: str) -> str:
        # Each table has two views.
        pairs["write"].wait(timeout=60)
        return write(self, name, view, table_location)

    def staging(self: IcebergTags, table: str, *given: Any, **more: Any) -> Any:
        if table != "transfer":
            pairs["staged"].wait(timeout=60)
        return staged(self, table, *given, **more)

    def reading(self: IcebergViewFiles, location: str) -> CutView | None:
        statuses.append(cutting.cuts._session.info.transaction_status)  # noqa: SLF001
        return read(self, location)

    monkeypatch.setattr(IcebergViewFiles, "write", writing)
    monkeypatch.setattr(IcebergTags, "staged", staging)
    monkeypatch.setattr(IcebergViewFiles, "read", reading)
    assert cutting.cut(DAY, RUN) == 1
    changed(cutting.world)
    assert cutting.cut(DAY, "again") == 2
    assert statuses == [TransactionStatus.IDLE] * 6


def test_views_show_the_newest_proven_cut_and_the_version_of_each_date_that_counts(cutting: Cutting) -> None:
    cutting.cut(DAY, "first")
    assert set(views(cutting)) == {f"{table.name}_{end}" for table in TABLES for end in ("proven", "2026_11_27")}, (
        "each in the transaction of its cut"
    )
    cutting.publish(cutting.pin("second"), DAY, "second", verdict=Verdict.BREAK)
    assert {name: views(cutting)[name] for name in ("account_proven", "account_2026_11_27")} == {
        "account_proven": TAG,
        "account_2026_11_27": "cut_2026_11_27_v2",
    }
    cutting.publish(cutting.pin("third"), date(2026, 11, 28), "third", verdict=Verdict.BREAK)
    assert views(cutting)["account_proven"] == TAG
    cutting.publish(cutting.pin("second"), DAY, "second", verdict=Verdict.BREAK, signed_by="Li")
    assert views(cutting)["account_proven"] == "cut_2026_11_27_v2", "a person has signed for it"
    kept, _ = cutting.cuts.kept_cuts("settlement")
    cutting.cuts.expire("settlement", DAY, [cut for cut in kept if cut.business_date == DAY])
    assert set(views(cutting)) == {f"{table.name}_2026_11_28" for table in TABLES}
    files = list(Path(options_of(cutting.world.destination).warehouse).glob("settlement_cut/*"))
    assert len(files) == len(TABLES), "what no view has any more is deleted"


def test_a_view_of_somebody_else_s_stays_under_its_name(cutting: Cutting) -> None:
    Catalogue(CATALOG).add_view(cutting.world.session, "settlement_cut", "account_proven", "file:///theirs.json")
    cutting.cut(DAY, "first")
    found = Catalogue(CATALOG).views(cutting.world.session, "settlement_cut")
    assert found["account_proven"] == "file:///theirs.json"
    assert "audit_proven" in found


def test_a_table_that_left_its_sync_and_came_back_has_no_views_of_the_cuts_before_and_nights_go_on(
    cutting: Cutting, sink_database: Connection
) -> None:
    cutting.cut(DAY, "first")
    whole, world = cutting.plan, cutting.world
    world.sink().join(STREAM, Joining("leaving", kept_as={"account": "account__kept"}))
    without = tuple(table for table in whole.tables if table.name != "account")
    cutting.plan = replace(whole, tables=without)
    cutting.cut(DAY + timedelta(days=1), "without it")
    assert {name for name in views(cutting) if name.startswith("account")} == set()
    cutting.plan = whole
    world.sink().join(STREAM, passed(world, ACCOUNT, rows=[account(1, "came back")], at=10))
    assert cutting.cut(DAY + timedelta(days=2), "with it again") == 1
    assert {name: tag for name, tag in views(cutting).items() if name.startswith("account")} == {
        "account_proven": "cut_2026_11_29_v1",
        "account_2026_11_29": "cut_2026_11_29_v1",
    }
    assert views(cutting)["audit_2026_11_27"] == TAG
    tables = open_catalogue(
        uri_of(sink_database),
        sync="settlement",
        destination="warehouse",
        catalog=CATALOG,
        namespace="settlement",
        at=DAY,
    )
    assert tables["audit"].arrow().num_rows == 1
    with pytest.raises(Refused, match="is called account now"):
        tables["account"].arrow()
    kept, _ = cutting.cuts.kept_cuts("settlement")
    cutting.cuts.expire("settlement", DAY, [cut for cut in kept if cut.business_date == DAY])
    assert "audit_2026_11_27" not in views(cutting)


def test_a_table_that_came_back_between_two_nights_loses_the_views_that_nothing_stands_behind(cutting: Cutting) -> None:
    cutting.cut(DAY, "first")
    world = cutting.world
    world.sink().join(STREAM, Joining("leaving", kept_as={"account": "account__kept"}))
    world.sink().join(STREAM, passed(world, ACCOUNT, rows=[account(1, "came back")], at=10))
    cutting.publish(cutting.pin("next"), DAY + timedelta(days=1), "next", verdict=Verdict.BREAK)
    assert {name for name in views(cutting) if name.startswith("account")} == {"account_2026_11_28"}
    assert views(cutting)["audit_proven"] == TAG


# ---- readers --------------------------------------------------------------------------------------------------------


def uri_of(of: Connection) -> str:
    return f"postgresql://{of.login}:{of.password}@{of.host}:{of.port}/{of.database}"


def test_readers_see_all_tables_at_one_position_while_the_stream_goes_on(
    cutting: Cutting, sink_database: Connection
) -> None:
    a_cut_is_what_stood_when_it_was_compared(cutting)
    uri = uri_of(sink_database)

    def opened(at: date | str) -> SyncTables:
        return open_catalogue(
            uri, sync="settlement", destination="warehouse", catalog=CATALOG, namespace="settlement", at=at
        )

    for at in (DAY, "2026-11-27", "proven"):
        tables = opened(at)
        assert (tables.cut, list(tables)) == (TAG, ["account", "audit", "transfer"])
        assert tables["account"].arrow().to_pylist() == [account(1, "at the cut")]
    live = opened("live")
    changed(cutting.world, "behind it", "later")
    assert {name: table.num_rows for name, table in live.arrow().items()} == {"account": 1, "audit": 2, "transfer": 0}
    assert live["account"].arrow().to_pylist() == [account(1, "behind it")]
    assert (live.cut, live.position.covers(tables.position)) == ("", True)
    with pytest.raises(Refused, match="no cut of 2026-11-26"):
        opened("2026-11-26")
    with pytest.raises(ConfigError, match="is no place"):
        opened("yesterday")
    cutting.publish(cutting.pin("later"), date(2026, 11, 28), "later", verdict=Verdict.BREAK)
    assert (opened("proven").cut, opened("2026-11-28").cut) == (TAG, "cut_2026_11_28_v1")


def test_the_programs_of_the_how_to_get_equal_sums_of_a_cut(
    cutting: Cutting, sink_database: Connection, checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_cut_is_what_stood_when_it_was_compared(cutting)
    Applying(cutting.world).span(insert(ACCOUNT, **account(70)))
    page = (checkout / "docs/how-to/read-a-lake.md").read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    for theirs, ours in {
        "postgresql://reader:secret@catalogue.example:5432/lake": uri_of(sink_database),
        'destination="lake"': 'destination="warehouse"',
        "payment_order": "account",
        '"amount"': '"id"',
        "sum(amount)": "sum(id)",
    }.items():
        assert theirs in program
        program = program.replace(theirs, ours)
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    runpy.run_path(str(tmp_path / "page.py"))
    said = capsys.readouterr().out.splitlines()
    # Seamline's reader, pyiceberg, DuckDB.
    assert [said[0].split()[0], *said[1:]] == [TAG, "1", "1", "1"]


DATED = Table("entry", (Column("id", Kind.INTEGER, "int", length=32), Column("day", Kind.DATE, "date")), ("id",))


def test_the_date_before_is_read_by_its_tag_and_for_its_date_alone(
    sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved(monkeypatch, sink_database)
    with closing(PostgresLakeWorld([DATED], sink_database, tmp_path)) as world:
        rows = batch_of(DATED, [(1, DAY), (2, DAY), (3, DAY + timedelta(days=1)), (4, None)])
        options = options_of(world.destination)
        place = LakeLoadArea(options.warehouse, "settlement").create([DATED])["entry"]
        load(options.warehouse, place, ArrowRows(rows.schema, iter([rows])), types)
        world.sink().publish(STREAM, [Load(DATED, place.name, 4)], publication=publication([DATED]))
        cutting = Cutting(world)
        dated = (TablePlan("entry", BusinessDate("day", "date"), DATED),)
        plan = replace(cutting.plan, tables=dated)
        with closing(cutting.cuts) as cuts:
            assert list(cuts.date_before("settlement", DAY)) == []
            for run in ("one", "two"):
                cutting.publish(cutting.pin(run), DAY, run, mode=CutMode.DATE)
            assert list(cuts.date_before("settlement", DAY)) == []
            found = cuts.date_before("settlement", DAY + timedelta(days=3))
        assert list(found) == [PublishedTable("entry", DAY, 2, "settlement", "cut_2026_11_27_v2")]
        view = cutting.reads.open_published(plan, world.destination, found, position=position(0))
        assert sum(one.rows for one in view.digests(Segment("entry"), run_key="k").values()) == 2
