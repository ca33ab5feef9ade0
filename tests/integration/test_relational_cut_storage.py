"""Cuts in a real MariaDB: versions, pointers, views, and what readers see while one is published or stops half-way."""

import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from seamline.domain.canonical import digest_of, row_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import KeyedDigest, Segment
from seamline.domain.errors import GateFailed, Refused, SchemaConflict, TransientError
from seamline.domain.staged_cut import CutMode, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.kinds.bulk import ArrowRows
from seamline.plan.model import NightlyPlan
from seamline.ports import Load
from seamline.sinks.relational.cut_catalogue import locked_cuts
from seamline.sinks.relational.cuts import RelationalCuts
from seamline.sinks.relational.kind import RelationalKind
from seamline.sinks.relational.read_back import open_published, open_staged
from seamline.sources.mariadb.position import BinlogPosition
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of
from tests.integration.cuts_published import DAY, EARLIER, STAGED_ENTRY, Place, one, staged
from tests.integration.relational_cuts import DESTINATION, Server, Sql, opened, publish, publishing, stage
from tests.integration.relational_cuts import cuts as cuts
from tests.integration.relational_cuts import kind as kind
from tests.integration.relational_cuts import server as server
from tests.integration.relational_cuts import sql as sql
from tests.log_topic import sync_plan
from tests.waiting import wait_until

CURRENT, PROVEN, ALL = "cuts_cut.entry_current", "cuts.entry_proven", "cuts_cut.entry"


def test_a_cut_is_published_with_a_version_and_a_repeat_changes_nothing(cuts: RelationalCuts, sql: Sql) -> None:
    cut = staged("r1", {"entry": stage(sql, "e1", 3)})
    published = publish(cuts, cut)
    assert (published.version, published.is_new) == (1, True)
    assert one(sql, f"SELECT COUNT(*) FROM {CURRENT} WHERE cut_business_date = '2026-03-05'") == 3
    assert one(sql, f"SELECT COUNT(*), MIN(cut_version) FROM {PROVEN}") == (3, 1)
    assert one(sql, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'cuts_stage'") == 0
    again = publish(cuts, cut)
    assert (again.version, again.is_new) == (1, False)
    assert one(sql, f"SELECT COUNT(*) FROM {ALL}") == 3


def test_a_run_again_writes_the_next_version_and_keeps_the_earlier_one(cuts: RelationalCuts, sql: Sql) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3), "account": stage(sql, "a1", 2)}))
    assert publish(cuts, staged("r2", {"entry": stage(sql, "e2", 5)})).version == 2
    assert one(sql, f"SELECT COUNT(*), MIN(cut_version) FROM {CURRENT}") == (5, 2)
    assert one(sql, f"SELECT COUNT(*) FROM {ALL} WHERE cut_version = 1") == 3
    assert one(sql, "SELECT COUNT(*), MIN(cut_version) FROM cuts_cut.account_current") == (2, 1)
    assert publish(cuts, staged("r3", {"entry": stage(sql, "e3", 1)}, day=EARLIER)).version == 1
    assert one(sql, f"SELECT COUNT(*) FROM {CURRENT}") == 6


def test_proven_is_the_newest_cut_that_matched_or_was_signed(cuts: RelationalCuts, sql: Sql) -> None:
    proven = f"SELECT COUNT(*), MIN(cut_business_date) FROM {PROVEN}"
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    publish(cuts, staged("r2", {"entry": stage(sql, "e2", 5)}, verdict=Verdict.BREAK))
    assert one(sql, proven) == (3, EARLIER)
    cut = staged("r3", {"entry": stage(sql, "e3", 7)}, verdict=Verdict.BREAK)
    publish(cuts, cut)
    assert one(sql, proven) == (3, EARLIER)
    for signed_by in ("olga: late file", "bob: again", ""):
        stands = publish(cuts, cut, signed_by=signed_by).signed_by
        assert stands == (signed_by or "bob: again")
        assert one(sql, "SELECT signed_by FROM cuts_seamline.cut WHERE run_id = 'r3'") == stands
        assert one(sql, proven) == (7, DAY)


def test_only_the_tables_that_count_are_read(cuts: RelationalCuts, sql: Sql) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 500)}, day=EARLIER))
    publish(cuts, staged("r2", {"entry": stage(sql, "e2", 3)}))
    for question in (f"SELECT * FROM {PROVEN}", f"SELECT * FROM {CURRENT} WHERE cut_business_date = '2026-03-05'"):
        sql.execute("FLUSH STATUS")
        sql.execute(question).fetchall()
        read = sql.execute("SHOW SESSION STATUS LIKE 'Handler_read%'").fetchall()
        assert sum(int(count) for _, count in read) < 30


def test_late_and_gone_rows_are_counted_against_the_version_before(cuts: RelationalCuts, sql: Sql) -> None:
    first = stage(sql, "e1", 3)
    assert cuts.lateness("settlement", "entry", DAY, staged_as=first.name) is None
    publish(cuts, staged("r1", {"entry": first}))
    second = stage(sql, "e2", 5)
    sql.execute("DELETE FROM cuts_stage.e2 WHERE id = 1")
    sql.execute("UPDATE cuts_stage.e2 SET v = NULL WHERE id = 2")
    found = cuts.lateness("settlement", "entry", DAY, staged_as=second.name)
    assert found is not None
    assert (found.late_rows, found.gone_rows) == (3, 2), "4 and 5 are new, 2 changed, 1 is gone"
    assert cuts.lateness("settlement", "entry", EARLIER, staged_as=second.name) is None
    sql.execute("ALTER TABLE cuts_stage.e2 DROP COLUMN v, ADD COLUMN fee decimal(10,2) NOT NULL DEFAULT 2.5")
    found = cuts.lateness("settlement", "entry", DAY, staged_as=second.name)
    assert found is not None
    assert (found.late_rows, found.gone_rows) == (2, 1), "by the columns that both have"


def test_the_date_before_is_the_newest_published_one_with_its_newest_version(cuts: RelationalCuts, sql: Sql) -> None:
    assert not cuts.date_before("settlement", DAY), "nothing was ever published"
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    publish(cuts, staged("r2", {"entry": stage(sql, "e2", 5)}, day=EARLIER))
    publish(cuts, staged("r3", {"entry": stage(sql, "e3", 7)}))
    (found,) = cuts.date_before("settlement", DAY)
    assert (found.table, found.business_date, found.version) == ("entry", EARLIER, 2)
    assert one(sql, f"SELECT COUNT(*) FROM {found.schema}.{found.name}") == 5
    assert not cuts.date_before("settlement", EARLIER)


QUESTION = (
    f"SELECT (SELECT GROUP_CONCAT(DISTINCT cut_version, ':', v) FROM {CURRENT}),"
    " (SELECT GROUP_CONCAT(DISTINCT cut_version, ':', v) FROM cuts_cut.account_current),"
    f" (SELECT GROUP_CONCAT(DISTINCT cut_version, ':', v) FROM {PROVEN}),"
    f" (SELECT COUNT(*) FROM {PROVEN}), (SELECT COUNT(*) FROM cuts.account_proven),"
    f" (SELECT MAX(cut_version) FROM {ALL}) - (SELECT MAX(cut_version) FROM cuts_cut.account)"
)


@dataclass
class Reader:
    """Asks again and again, and keeps what it saw."""

    is_over: threading.Event = field(default_factory=threading.Event)
    seen: set[Any] = field(default_factory=set)
    halves: list[Any] = field(default_factory=list)

    def read(self) -> None:
        with opened() as session:
            while not self.is_over.is_set():
                entry, account, proven, *counts = session.execute(QUESTION).fetchone()
                self.seen.add(entry)
                if {entry, account, proven} != {entry} or counts != [300, 200, 0]:
                    self.halves.append((entry, account, proven, *counts))

    def has_seen_more_than(self, count: int) -> bool:
        return len(self.seen) > count


def test_readers_see_all_of_a_cut_or_nothing_of_it(cuts: RelationalCuts, sql: Sql) -> None:
    def publish_run(number: int) -> None:
        sizes = {"entry": 300, "account": 200}
        tables = {name: stage(sql, f"{name}{number}", rows, value=number) for name, rows in sizes.items()}
        publish(cuts, staged(f"r{number}", tables))

    publish_run(1)
    reader = Reader()
    threads = [threading.Thread(target=reader.read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(2, 6):
        waited_for = partial(reader.has_seen_more_than, len(reader.seen))
        publish_run(number)
        wait_until(waited_for, timeout_s=20, what="the reader to see the new version")
    reader.is_over.set()
    for thread in threads:
        thread.join()
    assert not reader.halves
    assert len(reader.seen) >= 4


def test_a_reader_of_a_view_holds_a_publish_back_and_notices_nothing(server: Server, sql: Sql) -> None:
    count = f"SELECT COUNT(*) FROM {CURRENT}"
    with publishing(server, reader_patience_s=0.2) as cuts, opened() as reader:
        publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
        stuck = staged("r2", {"entry": stage(sql, "e2", 5)})
        reader.session.begin()
        assert one(reader, count) == 3
        with pytest.raises(TransientError, match="is being read without an end"):
            publish(cuts, stuck)
        assert (one(reader, count), one(sql, count)) == (3, 3)
        reader.session.rollback()
        assert publish(cuts, staged("r3", {"entry": stage(sql, "e3", 7)})).version == 3
        assert one(sql, f"SELECT MAX(cut_version), COUNT(*) FROM {ALL}") == (3, 10), (
            "of the half-done one nothing shows"
        )
        published = publish(cuts, stuck)
        assert (published.version, published.is_new) == (2, True)
        assert one(sql, count) == 7, "the pointer is not turned back"


def test_a_transaction_that_is_older_than_a_publish_reads_the_cut_before_it(cuts: RelationalCuts, sql: Sql) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    with opened() as reader:
        reader.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        publish(cuts, staged("r2", {"entry": stage(sql, "e2", 5)}))
        for view in (CURRENT, PROVEN, ALL):
            assert one(reader, f"SELECT COUNT(*), MIN(cut_version) FROM {view}") == (3, 1)
            assert one(sql, f"SELECT MAX(cut_version) FROM {view}") == 2


STEPS = ("_record", "_put_in_place", "_remake_views", "_point_to")


@pytest.mark.parametrize("step", STEPS)
def test_a_publish_that_ends_after_any_step_shows_nothing_before_the_last_and_goes_on_there(
    cuts: RelationalCuts, sql: Sql, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3), "account": stage(sql, "a1", 3)}))
    cut = staged("r2", {"entry": stage(sql, "e2", 5), "account": stage(sql, "a2", 5)})
    real = getattr(cuts, step)

    def ends(*arguments: Any) -> None:
        real(*arguments)
        raise TransientError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(cuts, step, ends)
        with pytest.raises(TransientError, match="killed"):
            publish(cuts, cut)
    is_done = step == "_point_to"
    for view in (CURRENT, PROVEN, "cuts_cut.account_current", "cuts.account_proven"):
        assert one(sql, f"SELECT COUNT(*) FROM {view}") == (5 if is_done else 3)
    assert publish(cuts, cut).is_new is not is_done
    for view in (CURRENT, PROVEN, "cuts_cut.account_current", "cuts.account_proven"):
        assert one(sql, f"SELECT COUNT(*), MIN(cut_version) FROM {view}") == (5, 2)


def test_a_cut_that_changed_since_it_was_compared_is_not_published(cuts: RelationalCuts, sql: Sql) -> None:
    place = stage(sql, "e1", 3)
    held = [row_text(STAGED_ENTRY.columns, [str(n), "2026-03-05", "0"]) for n in range(1, 4)]
    cut = staged("r1", {"entry": place, "account": stage(sql, "a1", 2)})
    entry, account = cut.tables
    cut = replace(cut, tables=(replace(entry, digest=KeyedDigest("key", digest_of(held, run_key="key"))), account))
    sql.execute("UPDATE cuts_stage.e1 SET v = 1 WHERE id = 2")
    with pytest.raises(GateFailed, match="now holds other values; 3 rows were compared with the source at 0-1-7"):
        publish(cuts, cut)
    sql.execute("UPDATE cuts_stage.e1 SET v = 0 WHERE id = 2")
    sql.execute("DELETE FROM cuts_stage.a1 WHERE id = 1")
    with pytest.raises(GateFailed, match=r"a1.* now holds 1 rows; 2 rows were compared"):
        publish(cuts, cut, signed_by="olga")
    assert one(sql, "SELECT COUNT(*) FROM cuts_seamline.cut") == 0
    assert one(sql, "SELECT COUNT(*) FROM cuts_stage.e1") == 3, "the evidence stays where it is"
    sql.execute("INSERT INTO cuts_stage.a1 VALUES (1, '2026-03-05', 0)")
    assert publish(cuts, cut).version == 1


def test_doubles_are_held_against_what_was_compared_too(cuts: RelationalCuts, server: Server, sql: Sql) -> None:
    place = stage(sql, "e1", 3)
    sql.execute("ALTER TABLE cuts_stage.e1 ADD rate double")
    sql.execute("UPDATE cuts_stage.e1 SET rate = id / 4")
    definition = replace(STAGED_ENTRY, columns=(*STAGED_ENTRY.columns, Column("rate", Kind.DOUBLE, "double")))
    plan = sync_plan([definition])
    loads = [Load(definition, "e1", 3)]
    (view,) = open_staged(plan, DESTINATION, loads, 1, position=BinlogPosition("0-1-7"), dialect=server.kind.dialect)
    whole, exact = view.whole_digest("entry", run_key="key"), view.digests(Segment("entry"), run_key="key")[0]
    assert (view.columns("entry"), view.key_span("entry")) == (tuple(c.name for c in definition.columns), (1, 3))
    view.close()
    assert whole.rows == exact.rows == 3
    assert whole != exact
    cut = staged("r1", {"entry": place})
    cut = replace(cut, tables=(replace(cut.tables[0], digest=KeyedDigest("key", exact, whole)),))
    sql.execute("UPDATE cuts_stage.e1 SET rate = (4 - id) / 4")
    with pytest.raises(GateFailed, match="now holds other values"):
        cuts.publish(cut, definitions={"entry": definition}, signed_by="olga")
    sql.execute("UPDATE cuts_stage.e1 SET rate = id / 4")
    cuts.publish(cut, definitions={"entry": definition})
    (table,) = cuts.date_before("settlement", DAY.replace(day=6))
    published = open_published(plan, DESTINATION, [table], position=cut.position, dialect=server.kind.dialect)
    assert published.whole_digest("entry", run_key="key") == whole
    published.close()


TEXTS = (
    Column("memo", Kind.STRING, "varchar(20)", nullable=True, length=20),
    Column("rate", Kind.DOUBLE, "double", nullable=True),
)
KEYED = Table("keyed", (Column("id", Kind.INTEGER, "int", length=32), *TEXTS), ("id",))
KEYLESS = Table("keyless", TEXTS)


def staged_by_the_sink(
    kind: RelationalKind, run: str, rows: Sequence[tuple[str | None, float | None]]
) -> Sequence[Load]:
    """Loaded, and digested as a comparison does."""
    plan = sync_plan([KEYED, KEYLESS])
    loads = []
    places = kind.load_area(DESTINATION, run_id=run).create([KEYED, KEYLESS])
    for table in (KEYED, KEYLESS):
        batch = batch_of(table, [(n, *row) if table.is_keyed else row for n, row in enumerate(rows)])
        count = kind.load(DESTINATION, places[table.name], ArrowRows(schema_of(table), iter([batch])))
        loads.append(Load(table, places[table.name].name, count))
    (view,) = kind.open_staged(plan, DESTINATION, loads, 1, position=BinlogPosition("0-1-7"))
    digests = [(view.digests(Segment(one.table.name), run_key="key")[0], one) for one in loads]
    compared = [
        replace(one, digest=KeyedDigest("key", exact, view.whole_digest(one.table.name, run_key="key")))
        for exact, one in digests
    ]
    view.close()
    return compared


def as_cut(run: str, loads: Sequence[Load]) -> StagedCut:
    tables = tuple(
        StagedTable(one.table.name, CutMode.DATE, one.staged_as, one.rows, Verdict.MATCH, digest=one.digest)
        for one in loads
    )
    return replace(staged(run, {}), tables=tables)


def test_what_the_sink_has_staged_is_published_and_read_back_as_it_was_compared(server: Server, sql: Sql) -> None:
    definitions = {table.name: table for table in (KEYED, KEYLESS)}
    loads = staged_by_the_sink(server.kind, "r1", [("a", 0.1), ("a", 0.1), ("b ", -0.0), (None, None)])
    with closing(server.kind.open_cuts(DESTINATION)) as cuts:
        assert cuts.publish(as_cut("r1", loads), definitions=definitions, signed_by="").version == 1
        published = cuts.date_before("settlement", DAY.replace(day=6))
        plan = sync_plan([KEYED, KEYLESS])
        view = server.kind.open_published(plan, DESTINATION, published, position=BinlogPosition("0-1-7"))
        for load in loads:
            assert load.digest is not None
            assert view.digests(Segment(load.table.name), run_key="key")[0] == load.digest.digest
        view.close()
        names = [row[0] for row in sql.execute("SHOW COLUMNS FROM cuts.keyless_proven").fetchall()]
        assert names == ["memo", "rate", "cut_business_date", "cut_version"], "none of ours"
        assert one(sql, "SELECT COUNT(*), COUNT(DISTINCT memo) FROM cuts.keyless_proven") == (4, 2)
        for load in staged_by_the_sink(server.kind, "r2", [("A", 0.1), ("a", 0.1), ("b", -0.0), (None, None)]):
            late = cuts.lateness("settlement", load.table.name, DAY, staged_as=load.staged_as)
            assert late is not None
            assert (late.late_rows, late.gone_rows) == (2, 2), "no case and no blank is overlooked"


ALTERED = "ALTER TABLE cuts_stage.{} DROP COLUMN v, ADD COLUMN fee decimal(10,2) NOT NULL DEFAULT 2.5"


def test_a_column_that_came_or_left_between_two_cuts_is_null_in_the_cut_that_had_none(
    cuts: RelationalCuts, sql: Sql
) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3, value=7)}, day=EARLIER))
    sql.execute(f"ALTER SQL SECURITY INVOKER VIEW {PROVEN} AS {definition_of(sql, 'cuts', 'entry_proven')}")
    second = stage(sql, "e2", 2)
    sql.execute(ALTERED.format("e2"))
    publish(cuts, staged("r2", {"entry": second}))
    asked = "SELECT DISTINCT cut_business_date, v, fee FROM {} ORDER BY 1"
    both = ((EARLIER, 7, None), (DAY, None, Decimal("2.50")))
    assert sql.execute(asked.format(CURRENT)).fetchall() == both
    assert sql.execute(asked.format(PROVEN)).fetchall() == both[1:]
    kept = "SELECT security_type FROM information_schema.views WHERE table_schema = 'cuts'"
    assert one(sql, kept) == "INVOKER", "a view keeps what its owner has set"
    publish(cuts, staged("r3", {"entry": stage(sql, "e3", 1, value=9)}))
    assert sql.execute(asked.format(CURRENT)).fetchall() == (both[0], (DAY, 9, None))
    names = [row[0] for row in sql.execute(f"SHOW COLUMNS FROM {ALL}").fetchall()]
    assert names == ["id", "business_date", "v", "cut_business_date", "cut_version", "fee"]


def definition_of(sql: Sql, schema: str, view: str) -> str:
    where = f"table_schema = '{schema}' AND table_name = '{view}'"
    return str(one(sql, f"SELECT view_definition FROM information_schema.views WHERE {where}"))


def test_a_column_of_another_type_is_named_and_the_earlier_cuts_are_put_aside_as_they_were(
    cuts: RelationalCuts, sql: Sql
) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    second = stage(sql, "e2", 5)
    sql.execute("ALTER TABLE cuts_stage.e2 MODIFY v bigint, ADD COLUMN memo varchar(9)")
    cut = staged("r2", {"entry": second})
    with pytest.raises(SchemaConflict, match="v is bigint.* now and int.* there") as raised:
        publish(cuts, cut)
    assert one(sql, "SELECT COUNT(*) FROM cuts_stage.e2") == 5, "nothing was published"
    assert one(sql, f"SELECT COUNT(*) FROM {CURRENT}") == 3
    sql.execute(raised.value.hint.rpartition(": ")[2])
    assert publish(cuts, cut).version == 1
    assert one(sql, f"SELECT COUNT(*), COUNT(v), COUNT(memo) FROM {CURRENT}") == (5, 5, 0)
    assert one(sql, f"SELECT COUNT(*) FROM {PROVEN}") == 5
    assert one(sql, "SELECT COUNT(v), MIN(cut_version) FROM cuts_cut.entry_until_20260305") == (3, 1)


def test_all_tables_that_do_not_fit_are_named_at_once_and_the_statements_put_all_of_them_aside(
    cuts: RelationalCuts, sql: Sql
) -> None:
    names = ("account", "entry", "fee")
    publish(cuts, staged("r1", {name: stage(sql, f"{name}1", 3) for name in names}, day=EARLIER))
    cut = staged("r2", {name: stage(sql, f"{name}2", 5) for name in names})
    for name in ("account", "fee"):
        sql.execute(f"ALTER TABLE cuts_stage.{name}2 MODIFY v bigint")
    both = r"2 tables do not fit their earlier cuts: account \(v is bigint.*\); fee \(v is bigint.*\)"
    with pytest.raises(SchemaConflict, match=both) as raised:
        publish(cuts, cut)
    assert one(sql, "SELECT COUNT(*) FROM cuts_cut.entry") == 3, "nothing was published"
    for statement in raised.value.hint.rpartition(": ")[2].split("; "):
        sql.execute(statement)
    assert publish(cuts, cut).version == 1
    assert [one(sql, f"SELECT COUNT(*) FROM cuts_cut.{name}") for name in names] == [5, 8, 5]


def test_the_views_of_another_sync_are_not_taken_for_this_ones(cuts: RelationalCuts, sql: Sql) -> None:
    """A table may go from one sync to another: nobody shall read the last cut of the first one for ever."""
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    moved = replace(staged("r2", {"entry": stage(sql, "e2", 5)}), sync="other")
    with pytest.raises(SchemaConflict, match="`entry_current` is the view of another sync.s cuts"):
        publish(cuts, moved)
    sql.execute(f"DROP VIEW {CURRENT}, {PROVEN}, cuts_cut.entry_cut_changes")
    assert publish(cuts, moved).version == 2, "the first one has cut this date too"
    assert one(sql, f"SELECT COUNT(*) FROM {CURRENT}") == 5
    assert one(sql, f"SELECT COUNT(*) FROM {PROVEN}") == 5
    assert one(sql, f"SELECT COUNT(*) FROM {ALL}") == 8


def test_a_view_or_table_of_somebody_else_is_not_overwritten(cuts: RelationalCuts, sql: Sql) -> None:
    sql.execute("CREATE DATABASE cuts")
    sql.execute(f"CREATE VIEW {PROVEN} AS SELECT 1 AS mine")
    with pytest.raises(SchemaConflict, match="`entry_proven` is a view that no sync made") as raised:
        publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    assert "RENAME TABLE" in raised.value.hint
    assert one(sql, f"SELECT mine FROM {PROVEN}") == 1
    sql.execute(f"DROP VIEW {PROVEN}")
    sql.execute(f"CREATE TABLE {PROVEN} AS SELECT 1 AS live")
    with pytest.raises(SchemaConflict, match="entry_proven. is a table") as raised:
        publish(cuts, staged("r2", {"entry": stage(sql, "e2", 3)}))
    assert "drop" not in raised.value.hint.lower(), "rows of a live table are not what is in the way"


def test_preflight_says_what_stands_in_the_way_of_cuts(kind: RelationalKind, sql: Sql) -> None:
    sql.execute("CREATE DATABASE cuts")
    sql.execute(f"CREATE VIEW {PROVEN} AS SELECT 1 AS mine")
    clashing = replace(
        STAGED_ENTRY, columns=(*STAGED_ENTRY.columns, Column("Cut_Version", Kind.INTEGER, "int", length=32))
    )
    plan = replace(sync_plan([clashing]), destinations=(DESTINATION,), nightly=NightlyPlan())
    found = [problem.what for problem in kind.problems(plan, DESTINATION) if problem.is_fatal]
    wanted = (
        "has a column Cut_Version",
        "entry_proven` is a view that no sync",
    )
    assert all(any(words in what for what in found) for words in wanted)
    assert not [one for one in kind.problems(replace(plan, nightly=None), DESTINATION) if one.is_fatal]


def test_a_run_whose_cut_stands_at_another_position_is_not_taken_for_it(cuts: RelationalCuts, sql: Sql) -> None:
    """The platform database was made again: names of runs come back."""
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    again = replace(staged("r1", {"entry": stage(sql, "e2", 5)}), position=BinlogPosition("0-1-9"))
    with pytest.raises(Refused, match="at 0-1-7 and not at 0-1-9"):
        publish(cuts, again)
    assert one(sql, f"SELECT COUNT(*) FROM {CURRENT}") == 3


def test_cuts_of_a_table_have_its_name_of_any_script_and_either_case(cuts: RelationalCuts, sql: Sql) -> None:
    long = "ledger_entry_of_the_settlement_system_of_the_central_bank_ab"
    names = ("票据 Buch-2$", "Entry", "entry", f"{long}1", f"{long}2")
    for number, name in enumerate(names, 1):
        cut = staged(f"r{number}", {name: stage(sql, f"{name}s", number)})
        for again in (True, False):
            assert cuts.publish(cut, definitions={name: replace(STAGED_ENTRY, name=name)}).is_new is again
    for number, name in enumerate(names[:3], 1):
        assert one(sql, f"SELECT COUNT(*) FROM cuts_cut.`{name}_current`") == number
        assert one(sql, f"SELECT COUNT(*) FROM cuts.`{name}_proven`") == number
    assert one(sql, "SELECT COUNT(DISTINCT version_table) FROM cuts_seamline.cut_table") == 5


def test_a_vanished_stage_and_a_clashing_column_are_named(cuts: RelationalCuts, sql: Sql) -> None:
    with pytest.raises(Refused, match="is not there any more"):
        publish(cuts, staged("r1", {"entry": Place("cuts_stage.nothing")}))
    sql.execute("CREATE TABLE cuts_stage.odd (id int, Cut_Version int)")
    with pytest.raises(SchemaConflict, match="cut_version"):
        publish(cuts, staged("r1", {"entry": Place("cuts_stage.odd")}))


def test_two_publishers_take_turns(
    cuts: RelationalCuts, server: Server, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seamline.sinks.relational.cut_catalogue.PATIENCE_S", 0)
    cut = staged("r1", {"entry": stage(sql, "e1", 3)})
    busy = pytest.raises(TransientError, match="another session publishes cuts")
    with publishing(server) as other, locked_cuts(other._session, DESTINATION), busy:
        publish(cuts, cut)
    assert publish(cuts, cut).version == 1
