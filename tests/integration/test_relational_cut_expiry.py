"""Cuts end in a real MariaDB: tables go, views stay valid, readers wait for a moment at most."""

from collections.abc import Iterator
from contextlib import closing
from datetime import date
from typing import Any

import pytest

from seamline.domain.cut_keep import CutKeep, expired
from seamline.domain.errors import Refused, TransientError
from seamline.domain.staged_cut import StagedCut
from seamline.domain.verdict import Verdict
from seamline.plan.model import NightlyPlan
from seamline.sinks.relational.cut_expiry import RelationalCutExpiry
from seamline.sinks.relational.cuts import RelationalCuts
from seamline.sinks.relational.session import open_session
from seamline.sync.cut_expiry import ExpiredCuts, expire_cuts
from tests.integration.cuts_published import one, staged
from tests.integration.relational_cuts import DESTINATION, Server, Sql, opened, publish, stage
from tests.integration.relational_cuts import cuts as cuts
from tests.integration.relational_cuts import server as server
from tests.integration.relational_cuts import sql as sql

DAYS = [date(2026, 3, day) for day in range(1, 6)]
KEEP = NightlyPlan(keep_days=2, keep_month_ends=0, keep_versions_days=7)


@pytest.fixture
def expiry(server: Server, sql: Sql) -> Iterator[RelationalCutExpiry]:
    with closing(RelationalCutExpiry(DESTINATION, open_session(server.publisher, server.kind.dialect))) as opened:
        yield opened


class Listed:
    """The platform database's list, of which every cut is on."""

    def drop_cuts(self, sync: str, destination: str, gone: Any) -> int:
        return len(gone)


def published(cuts: RelationalCuts, sql: Sql, *days: date, table: str = "entry", proven: bool = True) -> None:
    """Each date by a run of its own, long ago."""
    for day in days:
        mark = f"{table}{day:%d}"
        verdict = Verdict.MATCH if proven else Verdict.BREAK
        publish(cuts, staged(f"run {mark}", {table: stage(sql, mark, 3)}, day=day, verdict=verdict))
    age(sql, days=90)


def age(sql: Sql, *, days: int) -> None:
    sql.execute(
        f"UPDATE cuts_seamline.cut SET published_at = published_at - INTERVAL {days} DAY,"
        f" attached_at = attached_at - INTERVAL {days} DAY WHERE attached_at > UTC_TIMESTAMP() - INTERVAL 80 DAY"
    )


def expire(expiry: RelationalCutExpiry) -> ExpiredCuts:
    return expire_cuts("settlement", "warehouse", KEEP, store=expiry, records=Listed())


def dates_of(sql: Sql, relation: str) -> list[date]:
    rows = sql.execute(f"SELECT DISTINCT cut_business_date FROM {relation} ORDER BY 1").fetchall()
    return [day for (day,) in rows]


def stuck(cuts: RelationalCuts, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> StagedCut:
    """A cut whose publish ended before its pointers were moved, eight days ago."""

    def ends(*_: Any) -> None:
        raise TransientError("killed")

    cut = staged("stuck", {"entry": stage(sql, "stuck", 7)}, day=DAYS[0])
    with monkeypatch.context() as patch, pytest.raises(TransientError, match="killed"):
        patch.setattr(cuts, "_point_to", ends)
        publish(cuts, cut)
    return cut


def test_old_dates_go_with_their_tables_and_every_view_stays_valid(
    cuts: RelationalCuts, expiry: RelationalCutExpiry, sql: Sql
) -> None:
    assert expire(expiry).kept == 0, "there never was a cut"
    published(cuts, sql, *DAYS)
    sql.execute("CREATE DATABASE cuts_mine")
    sql.execute("CREATE VIEW cuts_mine.report AS SELECT COUNT(*) AS n FROM cuts_cut.entry_current")
    found = expire(expiry)
    assert (found.dates, found.partitions, found.rows, found.left) == (DAYS[:3], 3, 3, [])
    assert found.size_bytes > 0
    for relation in ("cuts_cut.entry", "cuts_cut.entry_current"):
        assert dates_of(sql, relation) == DAYS[3:]
    assert one(sql, "SELECT n FROM cuts_mine.report") == 6
    tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'cuts_cut' AND table_type <> 'VIEW'"
    assert one(sql, tables) == 2
    assert one(sql, "SELECT COUNT(*), COUNT(expired_at) FROM cuts_seamline.cut") == (5, 3), "who signed stays known"
    assert expire(expiry).dates == []


def test_the_newest_proven_cut_stays_and_a_view_without_any_cut_too(
    cuts: RelationalCuts, expiry: RelationalCutExpiry, sql: Sql
) -> None:
    published(cuts, sql, *DAYS[:2])
    published(cuts, sql, *DAYS[2:], proven=False)
    published(cuts, sql, DAYS[0], table="account", proven=False)
    assert expire(expiry).dates == [DAYS[0], DAYS[2]]
    assert dates_of(sql, "cuts.entry_proven") == [DAYS[1]]
    for view in ("cuts_cut.account", "cuts_cut.account_current", "cuts.account_proven"):
        assert sql.execute(f"SELECT id, v, cut_version FROM {view}").fetchall() == ()
    publish(cuts, staged("again", {"account": stage(sql, "again", 5)}, day=DAYS[4]))
    assert one(sql, "SELECT COUNT(v) FROM cuts.account_proven") == 5


def test_old_versions_and_half_done_publishes_of_a_kept_date_go(
    cuts: RelationalCuts, expiry: RelationalCutExpiry, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(cuts, sql, DAYS[0])
    publish(cuts, staged("again", {"entry": stage(sql, "again", 5)}, day=DAYS[0]))
    cut = stuck(cuts, sql, monkeypatch)
    assert expire(expiry).dates == [], "the follower is young, and so is the half-done one"
    age(sql, days=8)
    assert expire(expiry).partitions == 2
    assert one(sql, "SELECT COUNT(*), MIN(cut_version) FROM cuts_cut.entry") == (5, 2)
    gone = sql.execute("SELECT version FROM cuts_seamline.cut WHERE expired_at IS NOT NULL ORDER BY 1").fetchall()
    assert gone == ((1,), (3,))
    with pytest.raises(Refused, match="that run stuck made of 2026-03-01 has expired"):
        publish(cuts, cut)
    assert publish(cuts, staged("next", {"entry": stage(sql, "next", 7)}, day=DAYS[0])).version == 4


def test_a_cut_that_is_published_after_somebody_decided_that_it_may_go_stays(
    cuts: RelationalCuts, expiry: RelationalCutExpiry, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person clears the publish that stood for a week while maintenance goes over the dates before it."""
    cut = stuck(cuts, sql, monkeypatch)
    age(sql, days=8)
    kept, now = expiry.kept_cuts("settlement")
    gone = expired(kept, CutKeep(35, 13, 7), now=now)
    assert len(gone) == 1
    assert publish(cuts, cut).is_new
    assert expiry.expire("settlement", DAYS[0], gone).partitions == 0
    assert one(sql, "SELECT COUNT(*) FROM cuts_cut.entry_current") == 7
    assert one(sql, "SELECT expired_at FROM cuts_seamline.cut") is None


def test_a_date_that_somebody_builds_on_stays_whole(
    cuts: RelationalCuts, expiry: RelationalCutExpiry, sql: Sql
) -> None:
    published(cuts, sql, *DAYS[:4])
    published(cuts, sql, *DAYS[:4], table="account")
    sql.execute("CREATE DATABASE cuts_mine")
    sql.execute("CREATE VIEW cuts_mine.first AS SELECT * FROM cuts_cut.entry_20260301_v1")
    found = expire(expiry)
    assert found.dates == [DAYS[1]]
    assert "view `cuts_mine`.`first` reads `cuts_cut`.`entry_20260301_v1`" in found.left[0]
    assert dates_of(sql, "cuts_cut.account_current") == [DAYS[0], *DAYS[2:4]], "a date goes whole or stays whole"
    assert one(sql, "SELECT COUNT(*) FROM cuts_mine.first") == 3


def test_a_reader_keeps_a_date_for_an_hour_and_is_not_kept_waiting_itself(
    cuts: RelationalCuts, expiry: RelationalCutExpiry, sql: Sql
) -> None:
    published(cuts, sql, *DAYS[:4])
    with opened() as reader:
        reader.session.begin()
        one(reader, "SELECT COUNT(*) FROM cuts_cut.entry_current")
        found = expire(expiry)
        assert (found.dates, len(found.left)) == ([], 1)
        assert "are being read" in found.left[0]
        for session in (reader, sql):
            assert one(session, "SELECT COUNT(*) FROM cuts_cut.entry_current") == 12
    assert expire(expiry).dates == DAYS[:2]


@pytest.mark.parametrize("step", ["_drop", "_forget"])
def test_what_an_expiry_leaves_that_ends_half_way_shows_nowhere_and_goes_with_the_next(
    cuts: RelationalCuts, expiry: RelationalCutExpiry, sql: Sql, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    published(cuts, sql, *DAYS[:3])
    published(cuts, sql, *DAYS[:3], table="account")

    def ends(*_: Any) -> None:
        raise TransientError("a reader came meanwhile")

    with monkeypatch.context() as patch:
        patch.setattr(expiry, step, ends)
        assert expire(expiry).left == ["a reader came meanwhile"]
    for view in ("entry", "entry_current", "account", "account_current"):
        assert dates_of(sql, f"cuts_cut.{view}") == DAYS[1:3]
    assert one(sql, "SELECT COUNT(expired_at) FROM cuts_seamline.cut") == 0
    assert expire(expiry).dates == DAYS[:1]
    assert one(sql, "SELECT COUNT(expired_at) FROM cuts_seamline.cut") == 2
    assert one(sql, "SELECT COUNT(*) FROM cuts_seamline.cut_table") == 4


def test_cuts_that_were_put_aside_end_like_others(cuts: RelationalCuts, expiry: RelationalCutExpiry, sql: Sql) -> None:
    published(cuts, sql, *DAYS[:2])
    sql.execute("UPDATE cuts_seamline.cut_table SET shown_in = 'entry_until_20260303'")
    published(cuts, sql, *DAYS[2:4])
    assert dates_of(sql, "cuts_cut.entry_until_20260303") == DAYS[:2]
    assert dates_of(sql, "cuts_cut.entry") == DAYS[2:4]
    assert expire(expiry).dates == DAYS[:2]
    assert dates_of(sql, "cuts_cut.entry_until_20260303") == []
    assert dates_of(sql, "cuts_cut.entry") == DAYS[2:4]
