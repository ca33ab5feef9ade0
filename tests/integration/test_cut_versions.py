"""Cuts stored as versions in a real PostgreSQL: held against the same cuts stored as copies."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import open_session
from seamline.domain.cut_keep import expired
from seamline.domain.errors import GateFailed, SchemaConflict, TransientError
from seamline.plan.model import NightlyPlan
from seamline.sinks.postgres import cut_versions
from seamline.sinks.postgres.cut_expiry import PostgresCutExpiry
from seamline.sinks.postgres.cuts import LOCK, PostgresCuts
from tests.integration.cut_history import KEYED, LOOSE, VERSIONED, Step, history
from tests.integration.cuts_published import (
    DAY,
    DESTINATION,
    EARLIER,
    Place,
    digested,
    one,
    publish,
    stage,
    stop,
    whole,
)
from tests.integration.cuts_published import sql as sql
from tests.integration.databases import postgres_database
from tests.waiting import wait_until

BOTH_WAYS = replace(DESTINATION, versioned=VERSIONED)
AS_VERSIONS = replace(DESTINATION, versioned=("entry",))
KEEP = NightlyPlan(keep_days=2, keep_month_ends=0, keep_versions_days=7).keep
ROWS = "settlement_cut.entry__rows_1"


@pytest.fixture(scope="module")
def database() -> Iterator[Connection]:
    with postgres_database("versioned_cuts") as connection:
        yield connection


@pytest.fixture
def cuts(database: Connection, sql: Any) -> Iterator[PostgresCuts]:
    with closing(PostgresCuts(AS_VERSIONS, open_session(database, application_name="test cuts"))) as opened:
        yield opened


@pytest.fixture
def expiry(database: Connection, sql: Any) -> Iterator[PostgresCutExpiry]:
    with closing(PostgresCutExpiry(AS_VERSIONS, open_session(database, application_name="test expiry"))) as opened:
        yield opened


@pytest.mark.parametrize("seed", range(3))
def test_a_random_history_is_the_same_stored_as_copies_and_as_versions(
    database: Connection, sql: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with closing(PostgresCuts(BOTH_WAYS, open_session(database, application_name="test cuts"))) as cuts:
        for step in history(seed):
            cut = whole(f"run {step.number}", _staged_tables(sql, step), day=step.day)
            with monkeypatch.context() as patch:
                if step.is_half:
                    patch.setattr(cuts, "_wait_for_readers_of_old_plans", stop)
                try:
                    publish(cuts, cut)
                except TransientError:
                    assert step.is_half
    _require_same(sql)
    sql.execute("UPDATE seamline.cut SET published_at = published_at - interval '90 days', attached_at = '2026-01-01'")
    with closing(PostgresCutExpiry(BOTH_WAYS, open_session(database, application_name="test expiry"))) as expiry:
        _expire(expiry)
    _require_same(sql)
    for _, versioned in (KEYED, LOOSE):
        kept = [
            number
            for (number,) in sql.execute(
                f"SELECT number FROM seamline.cut_number WHERE rows_table = '{versioned}__rows_1'"
            )
        ]
        for begun, ended in sql.execute(f"SELECT cut_valid_from, cut_valid_to FROM settlement_cut.{versioned}__rows_1"):
            assert ended == 2**63 - 1 or any(begun <= number < ended for number in kept), "no kept cut needs this row"


def _staged_tables(sql: Any, step: Step) -> dict[str, Place]:
    fee = ", fee integer" if step.has_fee else ""
    rows = [(key, value, *([2 * (value or 0)] if fee else [])) for key, value in step.keyed.items()]
    loose = [(value, *([2 * value] if fee else [])) for value in step.loose]
    places = {}
    for names, columns, values in ((KEYED, "id bigint PRIMARY KEY, v integer", rows), (LOOSE, "v integer", loose)):
        for name in names:
            place = f"settlement_stage.{name}_{step.number}"
            sql.execute(f"CREATE TABLE {place} ({columns}{fee})")
            marks = ", ".join(["%s"] * (len(columns.split(",")) + bool(fee)))
            with sql.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {place} VALUES ({marks})", values)
            places[name] = Place(place, len(values))
    return places


def _require_same(sql: Any) -> None:
    copies_seen = False
    for copies, versioned in (KEYED, LOOSE):
        for view in (
            "settlement_cut.{}",
            "settlement_cut.{}_current",
            "settlement.{}_proven",
            "settlement_cut.{}_cut_changes",
        ):
            if view == "settlement_cut.{}":
                # The partitioned table shows partitions that were never published.
                of_copies = (
                    f"(SELECT c.* FROM settlement_cut.{copies} AS c JOIN seamline.cut_table AS t"
                    f" ON t.table_name = '{copies}' AND t.business_date = c.cut_business_date"
                    " AND t.version = c.cut_version) AS c"
                )
            else:
                of_copies = f"{view.format(copies)} AS c"
            found = [
                sorted(map(str, sql.execute(f"SELECT to_jsonb(c.*) FROM {place}").fetchall()))
                for place in (of_copies, f"{view.format(versioned)} AS c")
            ]
            assert found[0] == found[1], view
            copies_seen = copies_seen or bool(found[0])
    assert copies_seen


def _expire(expiry: PostgresCutExpiry) -> None:
    kept, now = expiry.kept_cuts("settlement")
    gone = expired(kept, KEEP, now=now)
    for day in sorted({cut.business_date for cut in gone}):
        expiry.expire("settlement", day, [cut for cut in gone if cut.business_date == day])
    assert gone


def test_a_cut_writes_what_changed_since_the_cut_before_and_nothing_else(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, whole("r1", {"entry": stage(sql, "e1", 5000)}, day=EARLIER))
    changed = stage(sql, "e2", 5000)
    sql.execute("UPDATE settlement_stage.e2 SET v = 7 WHERE id % 100 = 0")
    publish(cuts, whole("r2", {"entry": changed}))
    assert one(sql, f"SELECT count(*), count(*) FILTER (WHERE cut_valid_to = 2) FROM {ROWS}") == (5050, 50)
    assert one(
        sql, "SELECT count(*), sum(v) FROM settlement_cut.entry_current WHERE cut_business_date = '2026-03-05'"
    ) == (5000, 350)
    assert one(sql, "SELECT count(*), sum(v) FROM settlement_cut.entry_20260304_v1") == (5000, 0)
    assert one(sql, "SELECT to_regclass('settlement_stage.e2')") is None


def test_an_older_date_that_is_cut_again_changes_no_newer_one(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, whole("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    publish(cuts, whole("r2", {"entry": stage(sql, "e2", 5)}))
    assert publish(cuts, whole("r3", {"entry": stage(sql, "e3", 2, value=9)}, day=EARLIER)).version == 2
    found = sql.execute(
        "SELECT cut_business_date, cut_version, count(*) FROM settlement_cut.entry GROUP BY 1, 2"
    ).fetchall()
    assert sorted(found) == [(EARLIER, 1, 3), (EARLIER, 2, 2), (DAY, 1, 5)]
    (before,) = [one for one in [cuts.lateness("settlement", "entry", DAY, staged_as=stage(sql, "e4", 6).name)] if one]
    assert (before.late_rows, before.gone_rows) == (1, 0)


@pytest.mark.parametrize("planted", ["a row that is gone stays", "a value that changed is not noticed"])
def test_a_difference_that_is_written_wrong_is_not_published(
    cuts: PostgresCuts, sql: Any, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    publish(cuts, whole("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    of_key, is_blind = cut_versions._by_key, "value" in planted
    wrong = "now holds other values; 2 rows" if is_blind else "now holds 3 rows; 2 rows"
    cut = digested("r2", stage(sql, "e2", 2, value=1))
    with monkeypatch.context() as patch:
        if is_blind:
            patch.setattr(cut_versions, "_by_key", lambda rows, staged, key, values: of_key(rows, staged, key, ["id"]))
        else:
            patch.setattr(cut_versions, "_by_key", lambda *args: ("false AND true", of_key(*args)[1]))
            sql.execute("UPDATE settlement_stage.e2 SET v = 0")
            cut = digested("r2", Place("settlement_stage.e2", 2), value=0)
        with pytest.raises(GateFailed, match=f"entry_20260305_v1. {wrong} were compared"):
            publish(cuts, cut)
    assert one(sql, "SELECT count(*) FROM seamline.cut_number") == 1
    assert publish(cuts, cut).is_new


def test_cuts_stored_one_way_are_put_aside_before_the_other_begins(
    cuts: PostgresCuts, database: Connection, sql: Any
) -> None:
    with closing(PostgresCuts(DESTINATION, open_session(database, application_name="test cuts"))) as as_copies:
        publish(as_copies, whole("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
        cut = whole("r2", {"entry": stage(sql, "e2", 5)})
        with pytest.raises(
            SchemaConflict, match="declared to be stored as versions, and those there are copies"
        ) as met:
            publish(cuts, cut)
        sql.execute(met.value.hint[met.value.hint.index("BEGIN") :])
        publish(cuts, cut)
        back = whole("r3", {"entry": stage(sql, "e3", 7)})
        with pytest.raises(
            SchemaConflict, match="declared to be stored as copies, and those there are versions"
        ) as met:
            publish(as_copies, back)
        cure = met.value.hint[met.value.hint.index("BEGIN") :]
        sql.execute(cure.replace("entry_until_20260305", "entry_versions_until_20260305"))
        publish(as_copies, back)
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_current") == 7
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_20260305_v1") == 5


def test_tables_of_one_name_in_two_schemas_of_a_database_have_rows_of_their_own(
    cuts: PostgresCuts, database: Connection, sql: Any
) -> None:
    other = replace(AS_VERSIONS, namespace="mine", staged_in="settlement_stage")
    with closing(PostgresCuts(other, open_session(database, application_name="test cuts"))) as mine:
        for number, (into, sync) in enumerate(((cuts, "settlement"), (mine, "books")) * 2):
            day = EARLIER if number < 2 else DAY
            cut = whole(f"r{number}", {"entry": stage(sql, f"e{number}", 3 + number)}, day=day)
            publish(into, replace(cut, sync=sync))
    for schema, expected in (("settlement", [(EARLIER, 3), (DAY, 5)]), ("mine", [(EARLIER, 4), (DAY, 6)])):
        found = sql.execute(f"SELECT cut_business_date, count(*) FROM {schema}_cut.entry GROUP BY 1 ORDER BY 1")
        assert found.fetchall() == expected


def test_a_cut_whose_rows_were_put_aside_and_dropped_expires(
    cuts: PostgresCuts, expiry: PostgresCutExpiry, sql: Any
) -> None:
    publish(cuts, whole("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    sql.execute(cut_versions.aside_of(AS_VERSIONS, "entry", DAY, what="VIEW"))
    sql.execute(f"DROP TABLE {ROWS} CASCADE")
    publish(cuts, whole("r2", {"entry": stage(sql, "e2", 5)}))
    kept, _ = expiry.kept_cuts("settlement")
    expiry.expire("settlement", EARLIER, [cut for cut in kept if cut.business_date == EARLIER])
    assert sql.execute("SELECT business_date FROM seamline.cut_number").fetchall() == [(DAY,)]


def test_readers_wait_for_a_column_that_comes_and_not_for_the_difference(
    cuts: PostgresCuts, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(cuts, whole("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    wider = stage(sql, "e2", 3)
    sql.execute("ALTER TABLE settlement_stage.e2 ADD COLUMN fee integer NOT NULL DEFAULT 7")
    attach_all, seen = cuts._attach_all, []
    views = ("settlement_cut.entry", "settlement_cut.entry_current", "settlement.entry_proven")

    def before_its_commit(*args: Any) -> Any:
        attached = attach_all(*args)
        seen.extend(one(sql, f"SELECT count(*), count(fee) FROM {view}") for view in views)
        return attached

    monkeypatch.setattr(cuts, "_attach_all", before_its_commit)
    sql.execute("SET lock_timeout = '2s'")
    publish(cuts, whole("r2", {"entry": wider}))
    assert seen == [(3, 0)] * 3
    assert one(sql, "SELECT count(*), count(fee) FROM settlement_cut.entry") == (6, 3)


def test_a_publish_waits_for_its_turn_longer_than_for_a_table(cuts: PostgresCuts, sql: Any) -> None:
    cuts._session.execute("SET lock_timeout = '50ms'")
    place = stage(sql, "e1", 3)
    waits = "FROM pg_stat_activity WHERE application_name = 'test cuts' AND wait_event = 'advisory'"
    waits += " AND clock_timestamp() - query_start > interval '200 ms'"
    sql.execute(f"SELECT pg_advisory_lock({LOCK})")
    with ThreadPoolExecutor(1) as pool:
        publishing = pool.submit(publish, cuts, whole("r1", {"entry": place}))
        wait_until(
            lambda: publishing.done() or one(sql, f"SELECT count(*) {waits}") == 1, timeout_s=30, what="the turn"
        )
        sql.execute(f"SELECT pg_advisory_unlock({LOCK})")
        assert publishing.result().is_new
    assert one(cuts._session, "SHOW lock_timeout") == "50ms"


def test_ten_dates_of_which_one_percent_changes_take_less_than_a_quarter_of_the_space(
    database: Connection, sql: Any
) -> None:
    rows = 20_000
    with closing(PostgresCuts(BOTH_WAYS, open_session(database, application_name="test cuts"))) as cuts:
        for number in range(10):
            places = {name: stage(sql, f"{name}_{number}", rows) for name in KEYED}
            for place in places.values():
                # Those with a number of at most this date's, by the last two digits, have changed once.
                sql.execute(f"UPDATE {place.name} SET v = 1 WHERE id % 100 < {number}")
            publish(cuts, whole(f"run {number}", places, day=date(2026, 3, 1 + number)))
    partitions = "pg_inherits WHERE inhparent = 'settlement_cut.entry'::regclass"
    copies = one(sql, f"SELECT sum(pg_total_relation_size(inhrelid)) FROM {partitions}")
    versions = one(sql, "SELECT pg_total_relation_size('settlement_cut.entry_versioned__rows_1')")
    written = one(sql, "SELECT count(*) FROM settlement_cut.entry_versioned__rows_1")
    assert rows * 1.05 < written < rows * 1.2, "about one percent a day"
    assert versions < copies / 4
    of_dates = "SELECT cut_business_date, count(*), sum(v) FROM settlement_cut.{}_current GROUP BY 1 ORDER BY 1"
    found = [sql.execute(of_dates.format(name)).fetchall() for name in KEYED]
    assert found[0] == found[1]
