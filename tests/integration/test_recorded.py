"""What a report shows of a take is held against the log of acts, on a real PostgreSQL: whatever was changed behind it
makes the take ALTERED. `test_audit` has the same changes for `audit verify`."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from seamline.domain.cut_state import CutState, of_live
from seamline.domain.runs import EXPECTATIONS, Reconciliation, Scope
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.platform import migrate
from seamline.platform.audit import UNREADABLE, verdicts_of
from seamline.platform.database import Database
from seamline.platform.reconciliations import Detail
from seamline.platform.store import PlatformStore
from tests.integration.platform_database import Server, database_of_its_own, plan
from tests.integration.test_audit import CUT, DAY, INSERTED, STORED, a_night, tamper
from tests.integration.test_platform import reconciliation


@pytest.fixture(scope="module")
def template() -> Iterator[Server]:
    with database_of_its_own("recorded_test_migrated") as server:
        migrate.upgrade(server.open)
        yield server


@pytest.fixture
def server(template: Server) -> Iterator[Server]:
    """Its own for each test: nothing can empty the log of acts."""
    made = Server("recorded_test")
    made.admin("drop database if exists recorded_test with (force)")
    made.admin(f"create database recorded_test template {template.name}")
    yield made
    made.admin("drop database if exists recorded_test with (force)")


@pytest.fixture
def store(server: Server) -> Iterator[PlatformStore]:
    with closing(PlatformStore(Database(server.open))) as store:
        yield store


@pytest.mark.parametrize("what", STORED)
def test_a_take_that_was_changed_behind_the_log_is_altered_and_nothing_of_it_is_a_match(
    store: PlatformStore, server: Server, what: str
) -> None:
    a_night(store)
    statement, fault = STORED[what]
    tamper(server, statement)
    for detail in (Detail.WHOLE, Detail.TOTALS):
        assert bool(shown(store, detail)) == (what not in ("a position that is none", "the date of a decision"))
        for one in shown(store, detail):
            said = fault.rpartition(", run r")[2].partition(": ")[2]
            assert (one.headline, one.recorded and one.recorded.faults) == ("ALTERED", (said,)), detail
            tables = one.found.tables if one.found else ()
            assert Verdict.MATCH not in [one.compared, *(table.verdict for table in tables)]


def test_a_version_that_was_inserted_makes_every_take_of_its_date_altered(store: PlatformStore, server: Server) -> None:
    a_night(store)
    statement, fault = INSERTED["a cut"]
    tamper(server, statement)
    (one,) = shown(store, Detail.TOTALS)
    assert (one.headline, one.recorded and one.recorded.faults) == ("ALTERED", (fault.partition("r9: ")[2],))


def shown(store: PlatformStore, detail: Detail) -> tuple[CutState, ...]:
    """What a report of the date shows; nothing where its run is of another date, or its verdict cannot be read."""
    try:
        return store.takes("settlement", DAY, detail=detail)
    except UNREADABLE:
        return ()


def test_a_report_holds_what_it_shows_against_the_log_and_a_list_of_dates_what_looks_well(
    store: PlatformStore, server: Server
) -> None:
    for number, day in enumerate((DAY, DAY + timedelta(days=1)), start=1):
        store.start_run(
            run_id=f"r{number}", sync="settlement", kind="nightly", plan_json=plan_to_json(plan()), business_date=day
        )
        found = replace(reconciliation(Verdict.MATCH), run_id=f"r{number}", business_date=day)
        store.save_reconciliation(found)
        store.put_result(f"r{number}", EXPECTATIONS, {"verdict": "MATCH", "checked": 1, "failed": []})
        store.save_cut(replace(CUT, run_id=f"r{number}", business_date=day, verdict=Verdict.MATCH))

    def words() -> list[list[str]]:
        lists = [store.cut_states("settlement", 5, detail=detail) for detail in Detail]
        return [[one.headline for one in found] for found in (*lists, store.states_of_dates("settlement", [DAY]))]

    whole = [one.recorded for one in store.takes("settlement", DAY)]
    with server.open() as session, session.transaction():
        hashes = verdicts_of(session, "r1")
    assert [one and (one.verdict_hash, one.faults) for one in whole] == [(hashes["warehouse"], ())]
    before = words()
    assert not any("ALTERED" in found for found in before)
    tamper(server, "update reconciliation set mode = 'other' where run_id = 'r1'")
    after = words()
    assert [found[-1] for found in after] == ["ALTERED"] * 4, "of the older date"
    assert [found[:-1] for found in after] == [found[:-1] for found in before]


def test_a_list_of_cuts_says_of_none_that_it_is_a_match_which_the_log_has_otherwise(
    store: PlatformStore, server: Server
) -> None:
    a_night(store)
    assert [one.shown for one in store.published_cuts("settlement")] == ["BREAK"]
    tamper(server, "update cut set verdict = 'MATCH'")
    assert [one.shown for one in store.published_cuts("settlement")] == ["ALTERED"]


def test_a_comparison_of_live_tables_that_was_changed_behind_the_log_is_altered_wherever_it_is_read(
    store: PlatformStore, server: Server
) -> None:
    made = replace(reconciliation(Verdict.MATCH), scope=Scope.LIVE, tables=reconciliation(Verdict.MATCH).tables[:1])
    found = [replace(made, run_id=name) for name in ("s/reconcile/-/a", "b")]
    found[1] = replace(found[1], started_at=found[1].started_at + timedelta(hours=1), business_date=None)
    for one in found:
        store.save_reconciliation(one)

    def read(detail: Detail) -> list[Reconciliation]:
        first = found[0]
        sync = first.sync
        assert first.business_date is not None
        newest = store.live_reconciliations(sync, 5, detail=detail)
        assert [one.run_id for one in newest] == ["b", first.run_id]
        return [
            newest[1],
            *store.live_reconciliations(sync, 5, before=found[1].started_at, detail=detail),
            *store.live_reconciliations_of(sync, first.run_id, detail=detail),
            *store.live_reconciliations_after_cut(sync, first.business_date, detail=detail),
            *store.live_reconciliations_named(sync, "a", detail=detail),
        ]

    for detail in Detail:
        assert [of_live(one) for one in read(detail)] == ["MATCH"] * 5
        assert all(one.recorded and one.recorded.verdict_hash for one in read(detail))
    tamper(
        server,
        f"update table_verdict set source_rows = 4 from reconciliation r where r.run_id = '{found[0].run_id}'"
        " and table_verdict.reconciliation_id = r.reconciliation_id and table_name = 'account'",
    )
    for detail in Detail:
        for one in read(detail):
            said = ("table account was changed after entry 2 (compared)",)
            assert (of_live(one), one.recorded and one.recorded.faults) == ("ALTERED", said)
            assert Verdict.MATCH not in [one.verdict, *(table.verdict for table in one.tables)]
        assert of_live(store.live_reconciliations("settlement", 5, detail=detail)[0]) == "MATCH"
    whole = store.recorded("b", "warehouse", Scope.LIVE), store.recorded(found[0].run_id, "warehouse", Scope.LIVE)
    assert [one and len(one.faults) for one in whole] == [0, 1]


def test_a_comparison_of_live_tables_that_was_taken_away_is_altered_and_none_before_it_stands_in_its_place(
    store: PlatformStore, server: Server
) -> None:
    before = replace(reconciliation(Verdict.MATCH), run_id="a", scope=Scope.LIVE, business_date=None)
    store.save_reconciliation(before)
    store.save_reconciliation(replace(reconciliation(), run_id="b", scope=Scope.LIVE, business_date=None))
    tamper(server, "delete from reconciliation where run_id = 'b'")
    newest, other = store.live_reconciliations("settlement", 5)
    assert (newest.run_id, of_live(newest), other) == ("b", "ALTERED", before)
    assert newest.recorded and newest.recorded.faults == ("the verdict of entry 3 (compared) is missing",)
    assert store.live_reconciliations("settlement", 1) == (newest,)
    assert store.live_reconciliations_of("settlement", "b") == (newest,)
    assert store.live_reconciliations("other", 5) == ()
