"""Cuts in a real PostgreSQL: versions, pointers, views, and what readers see while one is published."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import open_session
from seamline.databases.postgres.types import column_definitions
from seamline.domain.canonical import digest_of, row_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import KeyedDigest
from seamline.domain.errors import GateFailed, Refused, SchemaConflict, TransientError
from seamline.domain.verdict import BreakType, Verdict
from seamline.kinds.derived import derived_table
from seamline.plan.model import DerivedTablePlan
from seamline.ports import Load
from seamline.sinks.postgres.cuts import PostgresCuts
from seamline.sinks.postgres.derived import compare_derived
from seamline.sources.mariadb.position import BinlogPosition
from tests.integration.cuts_published import (
    DAY,
    DESTINATION,
    EARLIER,
    STAGED_ENTRY,
    Place,
    one,
    publish,
    stage,
    staged,
    stop,
)
from tests.integration.cuts_published import cuts as cuts
from tests.integration.cuts_published import sql as sql
from tests.integration.databases import postgres, postgres_database
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def database() -> Iterator[Connection]:
    with postgres_database("reconcile_cuts") as connection:
        yield connection


@contextmanager
def impatient_cuts(database: Connection) -> Iterator[PostgresCuts]:
    session = open_session(database, application_name="test cuts")
    with closing(PostgresCuts(DESTINATION, session, reader_patience_s=0.2)) as opened:
        yield opened


def test_a_cut_is_published_with_a_version_and_can_be_asked_for(cuts: PostgresCuts, sql: Any) -> None:
    published = publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    assert (published.version, published.is_new) == (1, True)
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_current WHERE cut_business_date = '2026-03-05'") == 3
    assert one(sql, "SELECT count(*), min(cut_version) FROM settlement.entry_proven") == (3, 1)
    assert one(sql, "SELECT to_regclass('settlement_stage.e1')") is None, "the staged rows became the partition"


def test_a_repeat_of_the_same_run_changes_nothing(cuts: PostgresCuts, sql: Any) -> None:
    cut = staged("r1", {"entry": stage(sql, "e1", 3)})
    publish(cuts, cut)
    again = publish(cuts, cut)
    assert (again.version, again.is_new) == (1, False)
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry") == 3


def test_a_run_again_writes_the_next_version_and_keeps_the_earlier_one(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    assert publish(cuts, staged("r2", {"entry": stage(sql, "e2", 5)})).version == 2
    assert one(sql, "SELECT count(*), min(cut_version) FROM settlement_cut.entry_current") == (5, 2)
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry WHERE cut_version = 1") == 3
    assert publish(cuts, staged("r3", {"entry": stage(sql, "e3", 1)}, day=EARLIER)).version == 1
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_current") == 6


def test_proven_is_the_newest_cut_that_matched_or_was_signed(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    publish(cuts, staged("r2", {"entry": stage(sql, "e2", 5)}, verdict=Verdict.BREAK))
    assert one(sql, "SELECT count(*), min(cut_business_date) FROM settlement.entry_proven") == (3, EARLIER)
    publish(cuts, staged("r3", {"entry": stage(sql, "e3", 7)}, verdict=Verdict.BREAK), signed_by="olga")
    assert one(sql, "SELECT count(*), min(cut_business_date) FROM settlement.entry_proven") == (7, DAY)
    plan = " ".join(row[0] for row in sql.execute("EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM settlement.entry_proven"))
    assert "never executed" in plan, "other dates' partitions are not read"


def test_a_cut_that_failed_its_checks_is_proven_by_a_signature_alone(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    publish(cuts, replace(staged("r2", {"entry": stage(sql, "e2", 5)}), checks=Verdict.BREAK))
    assert one(sql, "SELECT count(*), min(cut_business_date) FROM settlement.entry_proven") == (3, EARLIER)
    assert one(sql, "SELECT verdict FROM seamline.cut WHERE run_id = 'r2'") == "BREAK"
    publish(cuts, replace(staged("r3", {"entry": stage(sql, "e3", 7)}), checks=Verdict.BREAK), signed_by="olga")
    assert one(sql, "SELECT count(*), min(cut_business_date) FROM settlement.entry_proven") == (7, DAY)


def test_beside_a_table_that_is_not_clean_no_table_of_the_cut_is_proven(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3), "account": stage(sql, "a1", 3)}, day=EARLIER))
    entry, account = staged("r2", {"entry": stage(sql, "e2", 5), "account": stage(sql, "a2", 5)}).tables
    broken = replace(staged("r2", {}), tables=(entry, replace(account, verdict=Verdict.BREAK)))
    publish(cuts, broken)
    for table in ("entry", "account"):
        assert one(sql, f"SELECT count(*), min(cut_business_date) FROM settlement.{table}_proven") == (3, EARLIER)


def test_a_table_that_a_later_version_lacks_stays_as_it_was(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3), "account": stage(sql, "a1", 2)}))
    publish(cuts, staged("r2", {"entry": stage(sql, "e2", 5)}))
    assert one(sql, "SELECT count(*), min(cut_version) FROM settlement_cut.account_current") == (2, 1)
    assert one(sql, "SELECT count(*), min(cut_version) FROM settlement_cut.entry_current") == (5, 2)


def test_late_and_gone_rows_are_counted_against_the_version_before(cuts: PostgresCuts, sql: Any) -> None:
    first = stage(sql, "e1", 3)
    assert cuts.lateness("settlement", "entry", DAY, staged_as=first.name) is None
    publish(cuts, staged("r1", {"entry": first}))
    second = stage(sql, "e2", 5)
    sql.execute("DELETE FROM settlement_stage.e2 WHERE id = 1")
    sql.execute("UPDATE settlement_stage.e2 SET v = 9 WHERE id = 2")
    found = cuts.lateness("settlement", "entry", DAY, staged_as=second.name)
    assert found is not None
    assert (found.late_rows, found.gone_rows) == (3, 2), "4 and 5 are new, 2 changed, 1 is gone"
    assert cuts.lateness("settlement", "entry", EARLIER, staged_as=second.name) is None


def test_the_date_before_is_the_newest_published_one_with_its_newest_version(cuts: PostgresCuts, sql: Any) -> None:
    assert not cuts.date_before("settlement", DAY), "nothing was ever published"
    publish(cuts, staged("r0", {"entry": stage(sql, "e0", 3)}, day=date(2026, 3, 1)))
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    publish(cuts, staged("r2", {"entry": stage(sql, "e2", 5)}, day=EARLIER))
    publish(cuts, staged("r3", {"entry": stage(sql, "e3", 7)}))
    (found,) = cuts.date_before("settlement", DAY)
    assert (found.table, found.business_date, found.version) == ("entry", EARLIER, 2)
    assert one(sql, f'SELECT count(*) FROM {found.schema}."{found.name}"') == 5
    assert not cuts.date_before("settlement", date(2026, 3, 1))


def test_readers_see_all_of_a_cut_or_nothing_of_it(cuts: PostgresCuts, sql: Any, database: Connection) -> None:
    seen: set[Any] = set()
    halves: list[Any] = []
    stop = threading.Event()

    def read() -> None:
        question = (
            "SELECT (SELECT array_agg(DISTINCT (cut_version, v)::text) FROM settlement_cut.entry_current),"
            " (SELECT array_agg(DISTINCT (cut_version, v)::text) FROM settlement_cut.account_current),"
            " (SELECT count(*) FROM settlement.entry_proven), (SELECT count(*) FROM settlement.account_proven)"
        )
        with postgres(database) as reader:
            while not stop.is_set():
                entry, account, entries, accounts = reader.execute(question).fetchone()  # type: ignore[misc]
                seen.add(str(entry))
                if entry is None or entry != account or len(entry) != 1 or (entries, accounts) != (300, 200):
                    halves.append((entry, account, entries, accounts))

    def publish_run(number: int) -> None:
        tables = {
            "entry": stage(sql, f"e{number}", 300, value=number),
            "account": stage(sql, f"a{number}", 200, value=number),
        }
        publish(cuts, staged(f"r{number}", tables))

    publish_run(1)
    thread = threading.Thread(target=read)
    thread.start()
    for number in range(2, 8):
        before = len(seen)
        publish_run(number)
        wait_until(lambda before=before: len(seen) > before, timeout_s=20, what="the reader to see the new version")
    stop.set()
    thread.join()
    assert not halves
    assert len(seen) >= 6


def test_a_publish_that_cannot_have_its_lock_leaves_everything_as_it_was(
    cuts: PostgresCuts, sql: Any, database: Connection
) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    cut = staged("r2", {"entry": stage(sql, "e2", 5)})
    cuts._session.execute("SET lock_timeout = '100ms'")
    with postgres(database) as other:
        other.autocommit = False
        other.execute("LOCK TABLE settlement_cut.entry IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(TransientError):
            publish(cuts, cut)
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_current") == 3
    assert publish(cuts, cut).version == 2


def test_a_publish_waits_for_readers_that_cannot_know_the_new_partitions(sql: Any, database: Connection) -> None:
    with closing(
        PostgresCuts(DESTINATION, open_session(database, application_name="test"), reader_patience_s=0.2)
    ) as cuts:
        publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
        cut = staged("r2", {"entry": stage(sql, "e2", 5)})
        with postgres(database) as reader:
            reader.autocommit = False
            count = "SELECT count(*) FROM settlement_cut.entry_current"
            assert one(reader, count) == 3
            with pytest.raises(TransientError, match=f"process {reader.info.backend_pid}"):
                publish(cuts, cut)
            assert one(reader, count) == 3, "readers have noticed nothing"
        published = publish(cuts, cut)
    assert (published.version, published.is_new) == (2, True)
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_current") == 5


def test_a_repeat_after_a_later_run_does_not_turn_the_pointer_back(sql: Any, database: Connection) -> None:
    with closing(
        PostgresCuts(DESTINATION, open_session(database, application_name="test"), reader_patience_s=0.2)
    ) as cuts:
        publish(cuts, staged("r0", {"entry": stage(sql, "e0", 1)}))
        stuck = staged("r1", {"entry": stage(sql, "e1", 3)})
        with postgres(database) as reader, pytest.raises(TransientError):
            reader.autocommit = False
            one(reader, "SELECT count(*) FROM settlement_cut.entry_current")
            publish(cuts, stuck)
        assert publish(cuts, staged("r2", {"entry": stage(sql, "e2", 5)})).version == 3
        assert publish(cuts, stuck).version == 2
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_current") == 5


@pytest.mark.parametrize("is_published", [False, True])
@pytest.mark.parametrize("first", ["", "olga: late file"])
def test_the_signature_that_stands_is_the_newest(
    cuts: PostgresCuts, sql: Any, monkeypatch: pytest.MonkeyPatch, first: str, is_published: bool
) -> None:
    """A first attempt got as far as its partitions, or was published; then the gate was cleared and asked."""
    cut = staged("r1", {"entry": stage(sql, "e1", 3)}, verdict=Verdict.BREAK)
    with monkeypatch.context() as patch:
        if not is_published:
            patch.setattr(cuts, "_wait_for_readers_of_old_plans", stop)
        with nullcontext() if is_published else pytest.raises(TransientError):
            publish(cuts, cut, signed_by=first)
    for signed_by in ("bob: again", ""):
        assert publish(cuts, cut, signed_by=signed_by).signed_by == "bob: again"
        assert one(sql, "SELECT signed_by FROM seamline.cut") == "bob: again"
        assert one(sql, "SELECT count(*) FROM settlement.entry_proven") == 3


def test_an_unlogged_stage_becomes_durable(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3, kind="UNLOGGED")}))
    assert one(sql, "SELECT relpersistence FROM pg_class WHERE relname = 'entry_20260305_v1'") == "p"


def test_a_cut_that_lost_a_row_since_it_was_compared_is_not_published(cuts: PostgresCuts, sql: Any) -> None:
    cut = staged("r1", {"entry": stage(sql, "e1", 3), "account": stage(sql, "a1", 2)})
    sql.execute("DELETE FROM settlement_stage.a1 WHERE id = 1")
    with pytest.raises(GateFailed, match=r"a1.* now holds 1 rows; 2 rows were compared"):
        publish(cuts, cut, signed_by="olga")
    assert one(sql, "SELECT count(*) FROM seamline.cut") == 0
    assert one(sql, "SELECT count(*) FROM settlement_stage.e1") == 3, "the evidence stays where it is"


def test_a_cut_whose_values_changed_since_they_were_compared_is_not_published(cuts: PostgresCuts, sql: Any) -> None:
    place = stage(sql, "e1", 3)
    held = [row_text(STAGED_ENTRY.columns, [str(n), "2026-03-05", "0"]) for n in range(1, 4)]
    cut = staged("r1", {"entry": place})
    cut = replace(cut, tables=(replace(cut.tables[0], digest=KeyedDigest("key", digest_of(held, run_key="key"))),))
    sql.execute("UPDATE settlement_stage.e1 SET v = 1 WHERE id = 2")
    with pytest.raises(GateFailed, match="now holds other values; 3 rows were compared with the source at 0-1-7"):
        publish(cuts, cut)
    sql.execute("UPDATE settlement_stage.e1 SET v = 0 WHERE id = 2")
    assert publish(cuts, cut).version == 1


def test_a_cut_whose_doubles_changed_since_they_were_compared_is_not_published(cuts: PostgresCuts, sql: Any) -> None:
    place = stage(sql, "e1", 3)
    sql.execute("ALTER TABLE settlement_stage.e1 ADD rate double precision")
    sql.execute("UPDATE settlement_stage.e1 SET rate = id / 4.0")
    definition = replace(STAGED_ENTRY, columns=(*STAGED_ENTRY.columns, Column("rate", Kind.DOUBLE, "double")))
    held = [[str(n), "2026-03-05", "0"] for n in range(1, 4)]
    whole = digest_of([row_text(definition.columns, [*row, str(int(row[0]) / 4)]) for row in held], run_key="key")
    exact = digest_of([row_text(STAGED_ENTRY.columns, row) for row in held], run_key="key")
    cut = staged("r1", {"entry": place})
    cut = replace(cut, tables=(replace(cut.tables[0], digest=KeyedDigest("key", exact, whole)),))
    sql.execute("UPDATE settlement_stage.e1 SET rate = (4 - id) / 4.0")
    with pytest.raises(GateFailed, match="now holds other values; 3 rows were compared with the source at 0-1-7"):
        cuts.publish(cut, definitions={"entry": definition}, signed_by="olga")
    sql.execute("UPDATE settlement_stage.e1 SET rate = id / 4.0")
    assert cuts.publish(cut, definitions={"entry": definition}, signed_by="").version == 1


ALTERED = "ALTER TABLE settlement_stage.{} DROP COLUMN v, ADD COLUMN fee numeric(10,2) NOT NULL DEFAULT 2.5"


def test_a_column_that_came_or_left_between_two_cuts_is_null_in_the_cut_that_had_none(
    cuts: PostgresCuts, sql: Any
) -> None:
    first, second, third = stage(sql, "e1", 3, value=7), stage(sql, "e2", 2), stage(sql, "e3", 1, value=9)
    for name in ("e1", "e3"):
        sql.execute(f"ALTER TABLE settlement_stage.{name} ALTER v SET NOT NULL")
    publish(cuts, staged("r1", {"entry": first}, day=EARLIER))
    sql.execute(ALTERED.format("e2"))
    publish(cuts, staged("r2", {"entry": second}))
    asked = "SELECT DISTINCT cut_business_date, v, fee FROM {} ORDER BY 1"
    both = [(EARLIER, 7, None), (DAY, None, Decimal("2.50"))]
    assert sql.execute(asked.format("settlement_cut.entry_current")).fetchall() == both
    assert sql.execute(asked.format("settlement.entry_proven")).fetchall() == both[1:]
    publish(cuts, staged("r3", {"entry": third}))
    assert sql.execute(asked.format("settlement_cut.entry_current")).fetchall() == [both[0], (DAY, 9, None)]


def test_late_rows_are_counted_by_the_columns_that_both_versions_have(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    second = stage(sql, "e2", 4)
    sql.execute(ALTERED.format("e2"))
    found = cuts.lateness("settlement", "entry", DAY, staged_as=second.name)
    assert found is not None
    assert (found.late_rows, found.gone_rows) == (1, 0)


def test_a_column_of_another_type_is_named_and_the_earlier_cuts_are_put_aside_as_they_were(
    cuts: PostgresCuts, sql: Any
) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    sql.execute("ALTER VIEW settlement_cut.entry_current SET (security_invoker = true)")
    second = stage(sql, "e2", 5)
    sql.execute('ALTER TABLE settlement_stage.e2 ALTER v TYPE bigint, ADD COLUMN memo varchar(9) COLLATE "C"')
    cut = staged("r2", {"entry": second})
    with pytest.raises(SchemaConflict, match="v is bigint now and integer there") as raised:
        publish(cuts, cut)
    assert one(sql, "SELECT count(*) FROM settlement_stage.e2") == 5, "nothing was published"
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_current") == 3
    sql.execute(raised.value.hint.partition(": ")[2])
    assert publish(cuts, cut).version == 1
    assert one(sql, "SELECT count(*), count(v), count(memo) FROM settlement_cut.entry_current") == (5, 5, 0)
    assert one(sql, "SELECT count(*) FROM settlement.entry_proven") == 5
    assert one(sql, "SELECT count(v), min(pg_typeof(v)::text) FROM settlement_cut.entry_until_20260305") == (
        3,
        "integer",
    )
    again = stage(sql, "e3", 4)
    sql.execute("ALTER TABLE settlement_stage.e3 ALTER v TYPE bigint")
    assert cuts.lateness("settlement", "entry", EARLIER, staged_as=again.name) is not None
    assert publish(cuts, staged("r3", {"entry": again}, day=EARLIER)).version == 2


def test_all_tables_that_do_not_fit_are_named_at_once_and_one_script_puts_all_of_them_aside(
    cuts: PostgresCuts, sql: Any
) -> None:
    names = ("account", "entry", "fee")
    publish(cuts, staged("r1", {name: stage(sql, f"{name}1", 3) for name in names}, day=EARLIER))
    cut = staged("r2", {name: stage(sql, f"{name}2", 5) for name in names})
    for name in ("account", "fee"):
        sql.execute(f"ALTER TABLE settlement_stage.{name}2 ALTER v TYPE bigint".encode())
    both = r"2 tables do not fit their earlier cuts: account \(v is bigint.*\); fee \(v is bigint.*\)"
    with pytest.raises(SchemaConflict, match=both) as raised:
        publish(cuts, cut)
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry") == 3, "nothing was published"
    sql.execute(raised.value.hint.partition(": ")[2])
    assert publish(cuts, cut).version == 1
    assert [one(sql, f"SELECT count(*) FROM settlement_cut.{name}") for name in names] == [5, 8, 5]


REKEYED = (
    "ALTER TABLE settlement_stage.e2 DROP COLUMN id, ADD COLUMN code varchar(9) NOT NULL DEFAULT 'x',"
    " ADD PRIMARY KEY (code)"
)


@pytest.mark.parametrize("made_by", ["this version", "an earlier version, which said NOT NULL of all cuts"])
def test_a_key_that_gives_way_to_another_is_null_in_the_new_cut(cuts: PostgresCuts, sql: Any, made_by: str) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    if made_by != "this version":
        sql.execute("ALTER TABLE settlement_cut.entry ALTER id SET NOT NULL, ALTER business_date SET NOT NULL")
    second = stage(sql, "e2", 1)
    sql.execute(REKEYED)
    publish(cuts, staged("r2", {"entry": second}))
    asked = "SELECT cut_business_date, count(id), min(code) FROM settlement_cut.entry_current GROUP BY 1 ORDER BY 1"
    assert sql.execute(asked).fetchall() == [(EARLIER, 3, None), (DAY, 0, "x")]


def test_a_view_that_is_made_wider_keeps_what_its_owner_has_set(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    sql.execute("ALTER VIEW settlement.entry_proven SET (security_invoker = true, security_barrier = true)")
    second = stage(sql, "e2", 2)
    sql.execute(ALTERED.format("e2"))
    publish(cuts, staged("r2", {"entry": second}))
    options = one(sql, "SELECT reloptions FROM pg_class WHERE oid = 'settlement.entry_proven'::regclass")
    assert sorted(options) == ["security_barrier=true", "security_invoker=true"]
    assert one(sql, "SELECT count(fee) FROM settlement.entry_proven") == 2


def test_the_views_of_another_sync_are_not_taken_for_this_ones(cuts: PostgresCuts, sql: Any) -> None:
    """A table may go from one sync to another: nobody shall read the last cut of the first one for ever."""
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    moved = replace(staged("r2", {"entry": stage(sql, "e2", 5)}), sync="other")
    with pytest.raises(SchemaConflict, match='"entry_current" is the view of another sync.s cuts'):
        publish(cuts, moved)
    sql.execute("DROP VIEW settlement_cut.entry_current, settlement.entry_proven, settlement_cut.entry_cut_changes")
    assert publish(cuts, moved).version == 2, "the first one has cut this date too"
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_current") == 5
    assert one(sql, "SELECT count(*) FROM settlement.entry_proven") == 5
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry") == 8


def test_a_view_of_somebody_else_is_not_overwritten(cuts: PostgresCuts, sql: Any) -> None:
    sql.execute("CREATE SCHEMA settlement CREATE VIEW settlement.entry_proven AS SELECT 1 AS mine")
    with pytest.raises(SchemaConflict, match='"settlement"."entry_proven" is a view that no sync made') as raised:
        publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    assert "ALTER VIEW" in raised.value.hint
    assert one(sql, "SELECT mine FROM settlement.entry_proven") == 1
    sql.execute("DROP VIEW settlement.entry_proven; CREATE TABLE settlement.entry_proven AS SELECT 1 AS live")
    with pytest.raises(SchemaConflict, match="entry_proven. is a table") as raised:
        publish(cuts, staged("r2", {"entry": stage(sql, "e2", 3)}))
    assert "drop" not in raised.value.hint.lower(), "rows of a live table are not what is in the way"


def test_a_run_whose_cut_stands_at_another_position_is_not_taken_for_it(cuts: PostgresCuts, sql: Any) -> None:
    """The platform database was made again: names of runs come back."""
    publish(cuts, staged("r1", {"entry": stage(sql, "e1", 3)}))
    again = replace(staged("r1", {"entry": stage(sql, "e2", 5)}), position=BinlogPosition("0-1-9"))
    with pytest.raises(Refused, match="at 0-1-7 and not at 0-1-9"):
        publish(cuts, again)
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_current") == 3


def test_long_names_stay_apart(cuts: PostgresCuts, sql: Any) -> None:
    long = "ledger_entry_of_the_settlement_system_of_the_central_bank_abc"
    publish(cuts, staged("r1", {f"{long}_1": stage(sql, "e1", 3), f"{long}_2": stage(sql, "e2", 4)}))
    names = [row[0] for row in sql.execute("SELECT partition_name FROM seamline.cut_table ORDER BY table_name")]
    assert len(set(names)) == 2


def test_cuts_of_a_table_have_its_name_of_any_script_and_either_case(cuts: PostgresCuts, sql: Any) -> None:
    names = ("票据 Buch-2$", "Entry", "entry")
    for number, name in enumerate(names, 1):
        staged_as = stage(sql, f"plain{number}", number)
        sql.execute(f'ALTER TABLE {staged_as.name} RENAME TO "{name} 1"')
        made = Place(f"settlement_stage.{name} 1", number)
        for again in (True, False):
            cut = staged(f"r{number}", {name: made})
            assert cuts.publish(cut, definitions={name: replace(STAGED_ENTRY, name=name)}).is_new is again
    for number, name in enumerate(names, 1):
        assert one(sql, f'SELECT count(*) FROM settlement_cut."{name}_current"') == number
        assert one(sql, f'SELECT count(*) FROM settlement."{name}_proven"') == number


def test_a_vanished_stage_and_a_clashing_column_are_named(cuts: PostgresCuts, sql: Any) -> None:
    with pytest.raises(Refused, match="is not there any more"):
        publish(cuts, staged("r1", {"entry": Place("settlement_stage.nothing")}))
    sql.execute("CREATE TABLE settlement_stage.odd (id int, cut_version int)")
    with pytest.raises(SchemaConflict, match="cut_version"):
        publish(cuts, staged("r1", {"entry": Place("settlement_stage.odd")}))


ENTRY = Table(
    "entry",
    (
        Column("account_id", Kind.INTEGER, "bigint", length=64),
        Column("currency", Kind.CHAR, "char(3)", length=3),
        Column("amount", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4),
    ),
)
BALANCE = DerivedTablePlan("daily_balance", "entry", "amount", ("account_id", "currency"))


def test_a_derived_table_is_compared_with_the_sums_of_its_cut(
    cuts: PostgresCuts, sql: Any, database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = f"{database.login}:{database.password}@{database.host}:{database.port}/{database.database}"
    monkeypatch.setenv(f"SEAMLINE_CONNECTION_{DESTINATION.connection.upper()}", f"postgres://{where}")
    sql.execute("CREATE TABLE settlement_stage.e (account_id bigint, currency varchar(3), amount numeric(20,4))")
    sql.execute("INSERT INTO settlement_stage.e SELECT n % 7, 'EUR', n / 8.0 FROM generate_series(1, 100) n")
    sql.execute("INSERT INTO settlement_stage.e VALUES (1, NULL, 0.0001), (1, NULL, 0.0001)")
    sql.execute(f"CREATE TABLE settlement_stage.b ({column_definitions(derived_table(BALANCE, ENTRY))})")
    sql.execute(
        "INSERT INTO settlement_stage.b SELECT account_id, currency, sum(amount) FROM settlement_stage.e GROUP BY 1, 2"
    )
    places: Any = {"base": Load(ENTRY, "e", 102), "made": Load(derived_table(BALANCE, ENTRY), "b", 8)}
    verdict = compare_derived(DESTINATION, BALANCE, **places, position="0-1-7")
    assert (verdict.verdict, verdict.source_rows, verdict.destination_rows) == (Verdict.MATCH, 8, 8)
    assert verdict.totals[0].is_equal
    sql.execute("UPDATE settlement_stage.b SET amount = amount + 1 WHERE account_id = 2")
    sql.execute("DELETE FROM settlement_stage.b WHERE currency IS NULL")
    sql.execute("INSERT INTO settlement_stage.b VALUES (99, 'EUR', 5)")
    verdict = compare_derived(DESTINATION, BALANCE, **places, position="0-1-7")
    assert verdict.verdict is Verdict.BREAK
    assert {(entry.type, entry.key) for entry in verdict.breaks} == {
        (BreakType.VALUE, '{"account_id": "2", "currency": "EUR"}'),
        (BreakType.MISSING, '{"account_id": "1", "currency": null}'),
        (BreakType.UNEXPECTED, '{"account_id": "99", "currency": "EUR"}'),
    }
    assert verdict.totals[0].source_sum == Decimal("631.2502")


def test_a_derived_sum_must_be_exact() -> None:
    double = replace(ENTRY, columns=(*ENTRY.columns[:2], Column("amount", Kind.DOUBLE, "double")))
    with pytest.raises(SchemaConflict, match="which holds double"):
        derived_table(BALANCE, double)
