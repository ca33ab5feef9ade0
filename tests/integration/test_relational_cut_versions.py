"""Cuts stored as versions in a real MariaDB and MySQL: held against the same cuts stored as copies."""

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.cut_keep import expired
from seamline.domain.errors import GateFailed, SchemaConflict, TransientError
from seamline.kinds.bulk import ArrowRows, StagedPlace
from seamline.plan.model import NightlyPlan
from seamline.sinks.relational import cut_versions, staging
from seamline.sinks.relational.cut_expiry import RelationalCutExpiry
from seamline.sinks.relational.cuts import RelationalCuts
from seamline.sinks.relational.kind import RelationalKind
from seamline.sinks.relational.session import close, execute, open_session
from seamline.sinks.relational.statements import create_table
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of
from tests.integration.cut_history import KEYED, LOOSE, VERSIONED, Step, history
from tests.integration.cuts_published import DAY, EARLIER, Place, digested, one, stop, whole
from tests.integration.relational_cuts import DESTINATION, Server, Sql, publish, stage
from tests.integration.relational_cuts import kind as kind
from tests.integration.relational_cuts import server as server
from tests.integration.relational_cuts import sql as sql

BOTH_WAYS = replace(DESTINATION, versioned=VERSIONED)
AS_VERSIONS = replace(DESTINATION, versioned=("entry",))
KEEP = NightlyPlan(keep_days=2, keep_month_ends=0, keep_versions_days=7).keep


def opened(server: Server, destination: Any) -> RelationalCuts:
    return RelationalCuts(destination, open_session(server.publisher, server.kind.dialect), server.kind.dialect)


@pytest.mark.parametrize("seed", range(2))
def test_a_random_history_is_the_same_stored_as_copies_and_as_versions(
    server: Server, kind: RelationalKind, sql: Sql, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with closing(opened(server, BOTH_WAYS)) as cuts:
        for step in history(seed):
            cut = whole(f"run {step.number}", _staged_tables(server, step), day=step.day)
            with monkeypatch.context() as patch:
                if step.is_half:
                    patch.setattr(cuts, "_remake_views", stop)
                try:
                    publish(cuts, cut)
                except TransientError:
                    assert step.is_half
    _require_same(sql)
    sql.execute(
        "UPDATE cuts_seamline.cut SET published_at = published_at - INTERVAL 90 DAY, attached_at = '2026-01-01'"
    )
    with closing(RelationalCutExpiry(BOTH_WAYS, open_session(server.publisher, server.kind.dialect))) as expiry:
        kept, now = expiry.kept_cuts("settlement")
        gone = expired(kept, KEEP, now=now)
        assert gone
        for day in sorted({cut.business_date for cut in gone}):
            expiry.expire("settlement", day, [cut for cut in gone if cut.business_date == day])
    _require_same(sql)
    for _, versioned in (KEYED, LOOSE):
        rows = f"{versioned}__rows_1"
        numbers = sql.execute(f"SELECT number FROM cuts_seamline.cut_number WHERE rows_table = '{rows}'").fetchall()
        for begun, ended in sql.execute(f"SELECT cut_valid_from, cut_valid_to FROM cuts_cut.{rows}").fetchall():
            needed = any(begun <= number < ended for (number,) in numbers)
            assert ended == 2**63 - 1 or needed, "no kept cut needs this row"


def _staged_tables(server: Server, step: Step) -> dict[str, Place]:
    fee = (Column("fee", Kind.INTEGER, "int", length=32),) if step.has_fee else ()
    value = Column("v", Kind.INTEGER, "int", length=32)
    number = Column("id", Kind.INTEGER, "bigint", length=64, nullable=False)
    rows = [(key, held, *([2 * (held or 0)] if fee else [])) for key, held in step.keyed.items()]
    loose = [(held, *([2 * held] if fee else [])) for held in step.loose]
    places = {}
    for names, columns, key, values in ((KEYED, (number, value), ("id",), rows), (LOOSE, (value,), (), loose)):
        for name in names:
            place = StagedPlace(Table(name, (*columns, *fee), key), "cuts_stage", f"{name}_{step.number}")
            _load(server, place, values)
            places[name] = Place(f"cuts_stage.{place.name}", len(values))
    return places


def _load(server: Server, place: StagedPlace, values: list[Any]) -> None:
    dialect = server.kind.dialect
    session = open_session(server.publisher, dialect)
    execute(session, create_table(f"cuts_stage.`{place.name}`", place.table, dialect))
    close(session)
    rows = ArrowRows(schema_of(place.table), iter([batch_of(place.table, values)]))
    staging.load(DESTINATION, place, rows, dialect)


def _require_same(sql: Sql) -> None:
    for copies, versioned in (KEYED, LOOSE):
        for view in ("cuts_cut.{}", "cuts_cut.{}_current", "cuts.{}_proven", "cuts_cut.{}_cut_changes"):
            names = [name for (name, *_) in sql.execute(f"SHOW COLUMNS FROM {view.format(copies)}").fetchall()]
            listed = ", ".join(f"`{name}`" for name in names)
            found = [
                sorted(map(str, sql.execute(f"SELECT {listed} FROM {view.format(name)}").fetchall()))
                for name in (copies, versioned)
            ]
            assert found[0] == found[1], view
            assert found[0] or "changes" in view


def test_a_repeat_whose_staged_table_is_gone_shows_what_was_written(
    server: Server, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(server, AS_VERSIONS)) as cuts:
        cut = whole("r1", {"entry": stage(sql, "e1", 3)})
        with monkeypatch.context() as patch:
            patch.setattr(cuts, "_require_stored", stop)
            with pytest.raises(TransientError):
                publish(cuts, cut)
        sql.execute("DROP TABLE cuts_stage.e1")
        assert publish(cuts, cut).is_new
    assert one(sql, "SELECT count(*) FROM cuts_cut.entry_current") == 3


def test_a_cut_writes_what_changed_since_the_cut_before_and_nothing_else(server: Server, sql: Sql) -> None:
    with closing(opened(server, AS_VERSIONS)) as cuts:
        publish(cuts, whole("r1", {"entry": stage(sql, "e1", 2000)}, day=EARLIER))
        changed = stage(sql, "e2", 2000)
        sql.execute("UPDATE cuts_stage.e2 SET v = 7 WHERE id % 100 = 0")
        publish(cuts, whole("r2", {"entry": changed}))
        publish(cuts, whole("r3", {"entry": stage(sql, "e3", 2, value=9)}, day=EARLIER))
    assert one(sql, "SELECT COUNT(*), SUM(cut_valid_to = 2) FROM cuts_cut.entry__rows_1") == (2022, 20)
    of_day = "SELECT COUNT(*), SUM(v) FROM cuts_cut.entry_current WHERE cut_business_date ="
    assert one(sql, f"{of_day} '2026-03-05'") == (2000, 140)
    assert one(sql, f"{of_day} '2026-03-04'") == (2, 18), "an older date that is cut again changes no newer one"
    assert one(sql, "SELECT COUNT(*), SUM(v) FROM cuts_cut.entry_20260304_v1") == (2000, 0)
    assert one(sql, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'cuts_stage'") == 0


def test_a_difference_that_is_written_wrong_is_not_published(
    server: Server, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(server, AS_VERSIONS)) as cuts:
        publish(cuts, whole("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
        cut = digested("r2", stage(sql, "e2", 3, value=1))
        with monkeypatch.context() as patch:
            patch.setattr(cut_versions, "row_hash", lambda columns, of="": "1")
            with pytest.raises(GateFailed, match="entry_20260305_v1. now holds other values; 3 rows were compared"):
                publish(cuts, cut)
        assert one(sql, "SELECT COUNT(*), SUM(v) FROM cuts_cut.entry_current") == (3, 0)
        with pytest.raises(GateFailed, match="now holds other values"):
            publish(cuts, cut)
        assert publish(cuts, digested("r3", stage(sql, "e3", 3, value=1))).version == 2, "the next run is right again"
        assert one(sql, "SELECT SUM(v), MIN(cut_version) FROM cuts.entry_proven") == (3, 2)


def test_cuts_stored_one_way_are_put_aside_before_the_other_begins(server: Server, sql: Sql) -> None:
    with closing(opened(server, DESTINATION)) as as_copies, closing(opened(server, AS_VERSIONS)) as cuts:
        publish(as_copies, whole("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
        cut = whole("r2", {"entry": stage(sql, "e2", 5)})
        with pytest.raises(
            SchemaConflict, match="declared to be stored as versions, and those there are copies"
        ) as met:
            publish(cuts, cut)
        sql.execute(met.value.hint[met.value.hint.index("UPDATE") :])
        publish(cuts, cut)
        back = whole("r3", {"entry": stage(sql, "e3", 7)})
        with pytest.raises(SchemaConflict, match="declared to be stored as copies, and those there are versions"):
            publish(as_copies, back)
    assert one(sql, "SELECT COUNT(*) FROM cuts_cut.entry_current WHERE cut_business_date = DATE'2026-03-05'") == 5
    assert one(sql, "SELECT COUNT(*) FROM cuts_cut.entry_until_20260305") == 3
    assert DAY > EARLIER
