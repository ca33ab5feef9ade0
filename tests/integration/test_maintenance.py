"""What nobody asks for any more leaves the platform database and the destinations, and evidence stays."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import open_session
from seamline.databases.postgres.ledger import create_tables
from seamline.domain.log_keepers import held_for_cut, held_for_load
from seamline.domain.runs import NOT_PUBLISHED, PUBLISH, Cut, Receipt, RunState
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan
from seamline.platform import migrate
from seamline.platform.capture_registry import PlatformPruningHolds
from seamline.platform.database import Database
from seamline.platform.expiry import PlatformExpiry
from seamline.platform.maintenance import PlatformMaintenance
from seamline.platform.store import PlatformStore
from seamline.sinks.postgres.maintenance import PostgresMaintenance
from seamline.sources.mariadb.position import BinlogPosition
from tests.integration.cuts_published import one
from tests.integration.databases import postgres, postgres_database
from tests.integration.platform_database import Server, database_of_its_own, plan
from tests.integration.test_platform import reconciliation

DESTINATION = DestinationPlan("warehouse", "postgres", "warehouse", "settlement")
POSITION = BinlogPosition("0-1-7")
DAY = date(2025, 3, 5)
RUNS = {
    "first": "onboard",
    "into lake": "onboard",
    "onboarded": "onboard",
    "joined": "tables",
    "failed": "tables",
    "plain": "nightly",
    "kept": "nightly",
    "asked": "nightly",
    "reported": "nightly",
    "newest": "nightly",
    "compared": "reconcile",
}


@pytest.fixture(scope="module")
def platform() -> Iterator[Server]:
    with database_of_its_own("maintained_platform") as server:
        migrate.upgrade(server.open)
        yield server


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Connection]:
    with postgres_database("maintained_warehouse") as connection:
        yield connection


def test_old_rows_of_the_platform_go_and_what_somebody_may_ask_for_stays(platform: Server) -> None:
    store = PlatformStore(Database(platform.open))
    with closing(store):
        plan_json = plan_to_json(plan())
        for run_id, kind in RUNS.items():
            store.start_run(run_id=run_id, sync="settlement", kind=kind, plan_json=plan_json, business_date=DAY)
            store.put_receipt(run_id, Receipt("account", 0, "s_account", 3))
        for run_id in ("first", "onboarded", "joined", "plain"):
            store.put_result(run_id, PUBLISH, {"warehouse": "p"})
        # The newest of a destination says where its tables lie.
        store.put_result("into lake", PUBLISH, {"lake": "p"})
        store.put_result("asked", "gate", {"subject": "x", "lines": ["account BREAK"], "asked_at": "-"})
        store.put_result("plain", "gate", {"subject": "x", "lines": [], "asked_at": "-"})
        as_of = datetime(2025, 3, 5, 17, tzinfo=UTC)
        store.save_cut(Cut("settlement", "warehouse", DAY, 1, "kept", POSITION, as_of, (), Verdict.MATCH))
        # The cut is gone; what was found, checked and signed of it is evidence.
        store.save_reconciliation(replace(reconciliation(), run_id="reported", business_date=DAY))
        store.put_result("reported", "expectations", {"verdict": "MATCH", "checked": 3, "failed": []})
        for kind in ("stream_late", "host_gone"):
            store.raise_alarm(kind, "settlement@warehouse", "late")
        store.end_alarm("stream_late", "settlement@warehouse")
    PlatformPruningHolds(Database(platform.open)).hold_log("log", holder="run r1", offset=1, lease_s=-2 * 86_400)
    PlatformPruningHolds(Database(platform.open)).hold_log("log", holder="run r2", offset=1, lease_s=60)
    with platform.open() as session:
        for age in (250, 1):
            session.execute(
                "insert into stream_event (sync, destination, state, error, host, at)"
                " select 'settlement', 'warehouse', 'streaming', '', '', now() - make_interval(days => %s)"
                " from generate_series(1, 6000)",
                (age,),
            )
        # Of a stream that has not changed since, the newest event says since when it is as it is.
        session.execute(
            "insert into stream_event (sync, destination, state, error, host, at)"
            " values ('settlement', 'lake', 'streaming', '', '', now() - make_interval(days => 250))"
        )
        with closing(PlatformExpiry(Database(platform.open))) as expiry:
            young = expiry.expire()
            session.execute("update run set started_at = started_at - interval '401 days'")
            session.execute("update alarm set ended_at = ended_at - interval '300 days'")
            old = expiry.expire()
            again = expiry.expire()
        assert {what: rows for what, (rows, _) in young.items() if rows} == {
            "changes of state of streams": 6000,
            "ended holds of logs": 1,
        }
        assert {what: rows for what, (rows, _) in old.items() if rows} == {
            "runs with their receipts": 2,
            "ended alarms": 1,
        }
        assert not any(rows for rows, _ in again.values())
        assert one(session, "select count(*) from stream_event where destination = 'lake'") == 1
        stay = sorted(set(RUNS) - {"first", "plain"})
        assert [run_id for (run_id,) in session.execute("select run_id from run order by 1")] == stay
        assert one(session, "select count(*) from receipt") == len(stay)
        assert one(session, "select kind from alarm") == "host_gone"
    with closing(store):
        (reported,) = [take for take in store.takes("settlement", DAY) if take.run_id == "reported"]
    assert (reported.compared, reported.checks.checked) == (Verdict.BREAK, 3)


def test_a_run_whose_publish_failed_holds_its_log_until_it_or_a_later_one_is_published(platform: Server) -> None:
    """It waits for a person, and a weekend is longer than its lease."""

    def held() -> list[tuple[str, int]]:
        return [(hold.holder, hold.next_offset) for hold in maintenance.living_holds("log of onboardings")]

    with (
        closing(PlatformStore(Database(platform.open))) as store,
        closing(PlatformMaintenance(Database(platform.open))) as maintenance,
    ):
        for number, run_id in enumerate(("friday", "monday"), 1):
            store.start_run(run_id=run_id, sync="weekend", kind="onboard", plan_json=plan_to_json(plan()))
            store.put_result(run_id, "snapshot", {"topic": "log of onboardings", "next_offset": 100 * number})
            store.put_result(run_id, PUBLISH, {})
            store.finish_run(run_id, state=RunState.FAILED)
        assert held() == [("the unpublished run friday", 100), ("the unpublished run monday", 200)]
        store.put_result("monday", PUBLISH, {"warehouse": "0-1-7"})
        store.put_result("monday", NOT_PUBLISHED, {"archive": "it is down"})
        assert held() == [("the unpublished run monday", 200)], "one of its destinations waits"
        store.put_result("monday", NOT_PUBLISHED, {})
        assert held() == []


def test_a_run_that_reads_for_longer_than_its_lease_holds_its_log_until_it_ends(platform: Server) -> None:
    with (
        closing(PlatformStore(Database(platform.open))) as store,
        closing(PlatformMaintenance(Database(platform.open))) as maintenance,
        closing(PlatformExpiry(Database(platform.open))) as expiry,
    ):
        store.start_run(run_id="slow", sync="large", kind="onboard", plan_json=plan_to_json(plan()))
        PlatformPruningHolds(Database(platform.open)).hold_log("l", holder="slow", offset=7, lease_s=-2 * 86_400)
        expiry.expire()
        assert [(hold.holder, hold.next_offset) for hold in maintenance.living_holds("l")] == [("slow", 7)]
        store.finish_run("slow", state=RunState.FAILED)
        assert maintenance.living_holds("l") == ()
        assert expiry.expire()["ended holds of logs"] == (1, 1)


def test_what_a_lost_run_keeps_of_the_log_is_let_go_once_another_run_has_published_its_date(
    platform: Server,
) -> None:
    """Its leases last for days, and a log that they fill would stop the capture."""
    night = date(2026, 11, 19)
    with (
        closing(PlatformStore(Database(platform.open))) as store,
        closing(PlatformMaintenance(Database(platform.open))) as maintenance,
    ):
        holds = PlatformPruningHolds(Database(platform.open))
        for run_id, day in (("lost", night), ("again", night), ("of_before", night - timedelta(days=1))):
            store.start_run(
                run_id=run_id, sync="nights", kind="nightly", plan_json=plan_to_json(plan()), business_date=day
            )
            for number, of_run in enumerate((held_for_load(run_id), held_for_cut(run_id))):
                holds.hold_log("nights", holder=of_run + "warehouse", offset=number, lease_s=60)

        def held() -> set[str]:
            return {hold.holder.split()[3] for hold in maintenance.living_holds("nights")}

        def publish(run_id: str, day: date) -> None:
            store.save_cut(Cut("nights", "warehouse", day, 1, run_id, POSITION, datetime.now(UTC), (), Verdict.MATCH))

        store.finish_run("lost", state=RunState.FAILED)
        publish("of_before", night - timedelta(days=1))
        assert held() == {"lost", "again", "of_before"}, "the task that was lost may be cleared"
        publish("again", night)
        assert held() == {"again", "of_before"}


def test_what_dead_runs_left_in_a_destination_goes_and_the_living_stays(warehouse: Connection) -> None:
    with postgres(warehouse) as sql, closing(open_session(warehouse, application_name="test")) as session:
        maintenance = PostgresMaintenance(DESTINATION, session)
        assert maintenance.let_go().staged == 0, "nothing was ever published there"
        create_tables(sql)  # type: ignore[arg-type]
        for mark, days in (("dead000001", 8), ("alive00001", 1)):
            _incremental(sql, f"settlement~incremental_{mark}@warehouse", days)
            sql.execute(
                f"CREATE SCHEMA settlement_incremental_{mark}"
                f" CREATE TABLE settlement_incremental_{mark}.account (id int)".encode()
            )
        _incremental(sql, "settlement@warehouse", 400)
        _incremental(sql, "other~incremental_dead000002@archive", 8)
        sql.execute("CREATE SCHEMA settlement_stage")
        for days in (15, 1):
            made = one(sql, f"SELECT to_hex(extract(epoch FROM now() - interval '{days} days')::bigint)")
            sql.execute(f"CREATE TABLE settlement_stage.account_0123_{'0' * 8}_{made}{'0' * 8} (id int)".encode())
        for over in ("now() - interval '101 days'", "now() - interval '1 day'", "NULL"):
            sql.execute(
                "INSERT INTO seamline.finding (stream, table_name, kind, row_key, log_offset, position, over_at)"
                f" VALUES ('settlement@warehouse', 'account', 'k', '1', 1, '{{}}', {over})".encode()
            )
        gone = maintenance.let_go()
        assert (gone.staged, gone.findings, gone.incremental_snapshots) == (
            1,
            1,
            ("settlement~incremental_dead000001@warehouse",),
        )
        assert [place.stream for place in maintenance.ledgers()] == [
            "other~incremental_dead000002@archive",
            "settlement@warehouse",
            "settlement~incremental_alive00001@warehouse",
        ]
        schemas = sql.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'settlement_incremental%'"
        ).fetchall()
        assert schemas == [("settlement_incremental_alive00001",)]
        again = maintenance.let_go()
        assert (again.staged, again.findings, again.incremental_snapshots) == (0, 0, ())


def _incremental(sql: Any, stream: str, days: int) -> None:
    sql.execute(
        "INSERT INTO seamline.ledger (stream, topic, topic_id, next_offset, position, epoch, updated_at)"
        " VALUES (%s, 't', 'id', 1, '{}', 1, now() - make_interval(days => %s))",
        (stream, days),
    )
