"""Cuts end in a real PostgreSQL: partitions go, views stay valid, readers wait for a moment at most."""

from collections.abc import Iterator
from contextlib import closing
from datetime import date
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import open_session
from seamline.domain.cut_keep import CutKeep, expired
from seamline.domain.errors import Refused, TransientError
from seamline.domain.runs import Cut
from seamline.domain.staged_cut import StagedCut
from seamline.domain.verdict import Verdict
from seamline.plan.model import NightlyPlan
from seamline.platform import migrate
from seamline.platform.database import Database
from seamline.platform.maintenance import PlatformMaintenance
from seamline.platform.store import PlatformStore
from seamline.sinks.postgres.cut_expiry import PostgresCutExpiry
from seamline.sinks.postgres.cuts import PostgresCuts
from seamline.sync.cut_expiry import ExpiredCuts, expire_cuts
from tests.integration.cuts_published import DESTINATION, one, publish, stage, staged, stop
from tests.integration.cuts_published import cuts as cuts
from tests.integration.cuts_published import sql as sql
from tests.integration.databases import postgres, postgres_database
from tests.integration.platform_database import Server, database_of_its_own, empty_tables

DAYS = [date(2026, 3, day) for day in range(1, 7)]
KEEP = NightlyPlan(keep_days=2, keep_month_ends=0, keep_versions_days=7)


@pytest.fixture(scope="module")
def database() -> Iterator[Connection]:
    with postgres_database("expiring_cuts") as connection:
        yield connection


@pytest.fixture(scope="module")
def migrated() -> Iterator[Server]:
    with database_of_its_own("expiring_platform") as server:
        migrate.upgrade(server.open)
        yield server


@pytest.fixture
def expiry(database: Connection, sql: Any) -> Iterator[PostgresCutExpiry]:
    with closing(PostgresCutExpiry(DESTINATION, open_session(database, application_name="test expiry"))) as opened:
        yield opened


@pytest.fixture
def records(migrated: Server) -> Iterator[PlatformMaintenance]:
    with closing(PlatformMaintenance(Database(migrated.open))) as opened:
        yield opened
    empty_tables(migrated)


def published(cuts: PostgresCuts, sql: Any, *days: date, table: str = "entry", proven: bool = True) -> None:
    """Each date by a run of its own, long ago."""
    for day in days:
        mark = f"{table}{day:%d}"
        verdict = Verdict.MATCH if proven else Verdict.BREAK
        publish(cuts, staged(f"run {mark}", {table: stage(sql, mark, 3)}, day=day, verdict=verdict))
    sql.execute(
        "UPDATE seamline.cut SET published_at = published_at - interval '90 days',"
        " attached_at = attached_at - interval '90 days' WHERE published_at > now() - interval '80 days'"
    )


def expire(expiry: PostgresCutExpiry, records: PlatformMaintenance) -> ExpiredCuts:
    return expire_cuts("settlement", "warehouse", KEEP, store=expiry, records=records)


def dates_of(sql: Any, relation: str) -> list[date]:
    rows = sql.execute(f"SELECT DISTINCT cut_business_date FROM {relation} ORDER BY 1").fetchall()
    return [day for (day,) in rows]


def test_old_dates_go_with_their_partitions_and_every_view_stays_valid(
    cuts: PostgresCuts, expiry: PostgresCutExpiry, records: PlatformMaintenance, sql: Any, migrated: Server
) -> None:
    published(cuts, sql, *DAYS)
    sql.execute("CREATE SCHEMA mine CREATE VIEW mine.report AS SELECT count(*) AS n FROM settlement_cut.entry_current")
    with closing(PlatformStore(Database(migrated.open))) as store:
        for day in DAYS:
            cut = staged(f"run {day}", {}, day=day)
            listed = Cut("settlement", "warehouse", day, 1, cut.run_id, cut.position, cut.as_of, (), Verdict.MATCH)
            store.save_cut(listed)
        found = expire(expiry, records)
        assert found.dates == DAYS[:4]
        assert (found.partitions, found.rows, found.left) == (4, 4, [])
        assert found.size_bytes > 0
        assert [cut.business_date for cut in store.cuts("settlement")] == [DAYS[5], DAYS[4]]
    for relation in ("settlement_cut.entry", "settlement_cut.entry_current"):
        assert dates_of(sql, relation) == DAYS[4:]
    assert one(sql, "SELECT n FROM mine.report") == 6
    assert one(sql, "SELECT to_regclass('settlement_cut.entry_20260301_v1')") is None
    assert one(sql, "SELECT count(*), count(expired_at) FROM seamline.cut") == (6, 4), "who signed what stays known"
    assert expire(expiry, records).dates == []


def test_the_newest_proven_cut_stays_however_old_it_is(
    cuts: PostgresCuts, expiry: PostgresCutExpiry, records: PlatformMaintenance, sql: Any
) -> None:
    published(cuts, sql, *DAYS[:2])
    published(cuts, sql, *DAYS[2:], proven=False)
    assert expire(expiry, records).dates == [DAYS[0], DAYS[2], DAYS[3]]
    assert dates_of(sql, "settlement.entry_proven") == [DAYS[1]]


def test_old_versions_and_half_done_publishes_of_a_kept_date_go(
    cuts: PostgresCuts,
    expiry: PostgresCutExpiry,
    records: PlatformMaintenance,
    sql: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    published(cuts, sql, DAYS[0])
    publish(cuts, staged("again", {"entry": stage(sql, "again", 5)}, day=DAYS[0]))
    with monkeypatch.context() as patch:
        patch.setattr(cuts, "_wait_for_readers_of_old_plans", stop)
        with pytest.raises(TransientError):
            publish(cuts, staged("stuck", {"entry": stage(sql, "stuck", 7)}, day=DAYS[0]))
    assert expire(expiry, records).dates == [], "the follower is young, and so is the half-done one"
    sql.execute(
        "UPDATE seamline.cut SET attached_at = attached_at - interval '8 days',"
        " published_at = published_at - interval '8 days'"
    )
    assert expire(expiry, records).partitions == 2
    assert one(sql, "SELECT count(*), min(cut_version) FROM settlement_cut.entry") == (5, 2)
    assert one(sql, "SELECT array_agg(version ORDER BY version) FROM seamline.cut WHERE expired_at IS NOT NULL") == [
        1,
        3,
    ]
    with pytest.raises(Refused, match="that run stuck made of 2026-03-01 has expired"):
        publish(cuts, staged("stuck", {"entry": stage(sql, "again2", 7)}, day=DAYS[0]))
    assert publish(cuts, staged("next", {"entry": stage(sql, "next", 7)}, day=DAYS[0])).version == 4


def stuck(cuts: PostgresCuts, sql: Any, monkeypatch: pytest.MonkeyPatch) -> StagedCut:
    """A cut whose publish ended between its two commits, eight days ago."""
    cut = staged("stuck", {"entry": stage(sql, "stuck", 7)}, day=DAYS[0])
    with monkeypatch.context() as patch:
        patch.setattr(cuts, "_wait_for_readers_of_old_plans", stop)
        with pytest.raises(TransientError):
            publish(cuts, cut)
    sql.execute("UPDATE seamline.cut SET attached_at = attached_at - interval '8 days'")
    return cut


def test_a_cut_that_is_published_after_somebody_decided_that_it_may_go_stays(
    cuts: PostgresCuts, expiry: PostgresCutExpiry, sql: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person clears the publish that stood for a week while maintenance goes over the dates before it."""
    cut = stuck(cuts, sql, monkeypatch)
    kept, now = expiry.kept_cuts("settlement")
    gone = expired(kept, CutKeep(35, 13, 7), now=now)
    assert len(gone) == 1
    assert publish(cuts, cut).is_new
    assert expiry.expire("settlement", DAYS[0], gone).partitions == 0
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_current") == 7
    assert one(sql, "SELECT expired_at FROM seamline.cut") is None


def test_a_cut_that_expires_while_its_publish_waits_for_readers_is_not_published(
    cuts: PostgresCuts,
    expiry: PostgresCutExpiry,
    records: PlatformMaintenance,
    sql: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else there would be a published cut without rows."""
    cut = stuck(cuts, sql, monkeypatch)
    monkeypatch.setattr(cuts, "_wait_for_readers_of_old_plans", lambda _: expire(expiry, records))
    with pytest.raises(Refused, match="that run stuck made of 2026-03-01 has expired"):
        publish(cuts, cut)
    assert one(sql, "SELECT count(*) FROM seamline.cut_pointer") == 0
    assert one(sql, "SELECT published_at FROM seamline.cut") is None


def test_a_date_that_somebody_builds_on_stays_and_a_detached_partition_too(
    cuts: PostgresCuts, expiry: PostgresCutExpiry, records: PlatformMaintenance, sql: Any
) -> None:
    published(cuts, sql, *DAYS[:5])
    published(cuts, sql, *DAYS[:5], table="account")
    sql.execute("CREATE SCHEMA mine CREATE VIEW mine.first AS SELECT * FROM settlement_cut.entry_20260301_v1")
    sql.execute("ALTER TABLE settlement_cut.entry DETACH PARTITION settlement_cut.entry_20260302_v1")
    found = expire(expiry, records)
    assert found.dates == DAYS[1:3]
    assert "view mine.first depends on table settlement_cut.entry_20260301_v1" in found.left[0]
    assert dates_of(sql, "settlement_cut.account_current") == [DAYS[0], *DAYS[3:5]], "a date goes whole or stays whole"
    assert one(sql, "SELECT count(*) FROM mine.first") == 3
    assert one(sql, "SELECT count(*) FROM settlement_cut.entry_20260302_v1") == 3


def test_a_reader_keeps_a_date_for_an_hour_and_is_not_kept_waiting_itself(
    cuts: PostgresCuts, expiry: PostgresCutExpiry, records: PlatformMaintenance, sql: Any, database: Connection
) -> None:
    published(cuts, sql, *DAYS[:4])
    with postgres(database) as reader:
        reader.autocommit = False
        one(reader, "SELECT count(*) FROM settlement_cut.entry_current")
        found = expire(expiry, records)
        assert (found.dates, len(found.left)) == ([], 1)
        assert "are being read" in found.left[0]
        assert one(reader, "SELECT count(*) FROM settlement_cut.entry_current") == 12
    assert expire(expiry, records).dates == DAYS[:2]


def test_a_destination_that_never_had_a_cut_has_none_to_lose(
    expiry: PostgresCutExpiry, records: PlatformMaintenance
) -> None:
    found = expire(expiry, records)
    assert (found.dates, found.rows, found.kept) == ([], 0, 0)
