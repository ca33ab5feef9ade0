"""What a report shows of a take is held against the log of acts, on a real PostgreSQL: whatever was changed behind it
makes the take ALTERED. `test_audit` has the same changes for `audit verify`."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from seamline.domain.cut_state import CutState
from seamline.domain.runs import EXPECTATIONS
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
