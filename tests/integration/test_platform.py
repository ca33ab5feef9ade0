"""The platform database on a real PostgreSQL: migrations, the store, and streams that hear and report through it."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from seamline.domain.digest import SegmentDigest
from seamline.domain.errors import ConfigError, InvariantViolated, Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.runs import FAILURE, Cut, Receipt, Reconciliation, RunKind, RunState, Scope, SyncState
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import StreamPlan
from seamline.platform import migrate
from seamline.platform.capture_registry import PlatformCaptureRegistry, PlatformPruningHolds
from seamline.platform.control import PlatformStreamControl
from seamline.platform.database import Database, Session
from seamline.platform.host_lease import PlatformHostLease, this_process
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector, put_report
from seamline.ports import StreamReport
from seamline.sources.mariadb.position import BinlogPosition
from tests.integration.platform_database import STREAM, Server, database_of_its_own, empty_tables, plan
from tests.waiting import wait_until

# Tables and what belongs to them, and what the database does by itself.
SCHEMA = [Path(__file__).with_name(f"platform_{name}.txt") for name in ("schema", "functions")]
POSITION = BinlogPosition("0-1-42", "mdb-bin.000003", 1234)


@pytest.fixture
def empty() -> Iterator[Server]:
    with database_of_its_own("platform_test_empty") as server:
        yield server


@pytest.fixture(scope="module")
def migrated() -> Iterator[Server]:
    with database_of_its_own("platform_test") as server:
        migrate.upgrade(server.open)
        yield server


@pytest.fixture
def server(migrated: Server) -> Iterator[Server]:
    yield migrated
    empty_tables(migrated)


@pytest.fixture
def store(server: Server) -> Iterator[PlatformStore]:
    with closing(PlatformStore(Database(server.open))) as store:
        yield store


@pytest.fixture
def director(server: Server) -> Iterator[PlatformStreamDirector]:
    with closing(Database(server.open)) as database:
        yield PlatformStreamDirector(database)


def start_run(store: PlatformStore, run_id: str = "r1", kind: str = "nightly") -> None:
    store.start_run(
        run_id=run_id, sync="settlement", kind=kind, plan_json=plan_to_json(plan()), business_date=date(2026, 3, 1)
    )


def test_the_destinations_that_were_onboarded_are_known_each_as_it_was_last(store: PlatformStore) -> None:
    (first,) = plan().destinations
    moved, late = replace(first, namespace="moved"), replace(first, name="archive")
    runs = {"r1": (first,), "r2": (moved,), "r3": (late,), "r4": (replace(late, namespace="failed"),), "r5": (late,)}
    for number, (run_id, destinations) in enumerate(runs.items()):
        kind = "nightly" if run_id == "r5" else "onboard"
        plan_json = plan_to_json(replace(plan(), destinations=destinations))
        store.start_run(run_id=run_id, sync="settlement", kind=kind, plan_json=plan_json)
        store.put_result(run_id, "publish", {} if number > 2 else {one.name: "p" for one in destinations})
    published = store.published_into("settlement")
    assert [(name, run.run_id) for name, run in published.items()] == [("warehouse", "r2"), ("archive", "r3")]
    assert [run.plan.destination(name) for name, run in published.items()] == [moved, late]
    assert store.published_into("other") == {}


# ---- migrations ----------------------------------------------------------------------------------------------------


def described(server: Server) -> list[str]:
    """Columns, keys and indexes of the tables; functions and triggers: as PostgreSQL itself shows them."""
    with server.open() as session:
        cursor = session.execute(
            """
            select 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                || case when a.attnotnull then ' not null' else '' end
                || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
            from pg_attribute a join pg_class c on c.oid = a.attrelid and c.relkind = 'r'
            left join pg_attrdef d on (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
            where c.relnamespace = 'seamline'::regnamespace and a.attnum > 0 and not a.attisdropped
            union all
            select 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
            from pg_constraint where connamespace = 'seamline'::regnamespace and contype <> 'n'
            union all select 'index ' || indexdef from pg_indexes where schemaname = 'seamline'
            union all
            select 'trigger ' || pg_get_triggerdef(t.oid) from pg_trigger t join pg_class c on c.oid = t.tgrelid
            where c.relnamespace = 'seamline'::regnamespace and not t.tgisinternal
            union all
            select 'function ' || pg_get_functiondef(oid) from pg_proc where pronamespace = 'seamline'::regnamespace
            order by 1
            """
        )
        found = [str(text) for (text,) in cursor]
    acting = [text for text in found if text.startswith(("function ", "trigger "))]
    return ["".join(f"{text}\n" for text in part) for part in ([one for one in found if one not in acting], acting)]


def test_migrations_make_the_schema_from_nothing_and_a_repeat_changes_nothing(empty: Server) -> None:
    assert migrate.upgrade(empty.open) == migrate.latest()
    first = described(empty)
    assert migrate.upgrade(empty.open) == migrate.latest()
    assert described(empty) == first


@pytest.mark.parametrize("older", migrate.revisions()[:-1])
def test_a_database_of_an_older_version_comes_to_the_same_schema_and_keeps_its_rows(empty: Server, older: str) -> None:
    migrate.upgrade(empty.open, to=older)
    with empty.open() as session:
        session.execute("insert into run (run_id, sync, kind, plan_json) values ('r1', 'settlement', 'nightly', '{}')")
        session.execute("insert into stream values ('settlement', 'warehouse', 'default', '{}', true)")
        session.execute("insert into stream_report values ('settlement', 'warehouse', 'streaming', '{}', now())")
    assert migrate.upgrade(empty.open) == migrate.latest()
    assert described(empty) == [file.read_text(encoding="utf-8") for file in SCHEMA]
    with empty.open() as session:
        kept = session.execute(
            "select run_id, final_want, moved_to, now() - moved_at < '1 min', paused_by, paused_at"
            " from run, stream, stream_report"
        )
        assert kept.fetchall() == [("r1", -1, 0, True, "", None)]


def test_two_processes_that_migrate_at_once_do_it_one_after_the_other(empty: Server) -> None:
    with ThreadPoolExecutor(3) as pool:
        revisions = list(pool.map(lambda _: migrate.upgrade(empty.open), range(3)))
    assert revisions == [migrate.latest()] * 3


def test_the_migrated_schema_is_the_one_written_down(migrated: Server) -> None:
    for file, found in zip(SCHEMA, described(migrated), strict=True):
        if not file.exists():
            file.write_text(found, encoding="utf-8")
            pytest.fail(f"{file.name} was written again: review it and run this again")
        assert found == file.read_text(encoding="utf-8"), (
            f"a migration changed the schema: delete {file.name}, run this again and review the difference"
        )


def test_a_database_without_the_tables_names_the_cure(empty: Server) -> None:
    with pytest.raises(ConfigError, match="migrate"):
        PlatformStore(Database(empty.open)).run("r1")


# ---- the store -----------------------------------------------------------------------------------------------------


def test_a_run_started_twice_is_one_run_with_the_results_it_had(store: PlatformStore) -> None:
    start_run(store)
    store.put_result("r1", "snapshot", {"rows": 3})
    store.put_result("r1", "cut", [1, "two"])
    store.put_result("r1", "cut", [1, "two"])
    start_run(store)
    run = store.run("r1")
    assert (run.kind, run.state, run.business_date) == (RunKind.NIGHTLY, RunState.RUNNING, date(2026, 3, 1))
    assert run.result == {"snapshot": {"rows": 3}, "cut": [1, "two"]}
    assert run.plan == plan()
    store.finish_run("r1", state="succeeded")
    assert store.run("r1").state is RunState.SUCCEEDED


def test_a_failed_run_that_goes_on_is_running_and_says_no_more_why_it_failed(store: PlatformStore) -> None:
    start_run(store)
    store.put_result("r1", "cut", 1)
    store.resume_run("r1")
    store.put_result("r1", FAILURE, {"task": "cut"})
    store.finish_run("r1", state="failed")
    assert store.run("r1").state is RunState.FAILED
    store.resume_run("r1")
    assert (store.run("r1").state, store.run("r1").result) == (RunState.RUNNING, {"cut": 1})
    store.finish_run("r1", state="succeeded")
    store.resume_run("r1")
    store.resume_run("nothing")
    assert store.run("r1").state is RunState.SUCCEEDED


def test_a_run_id_is_never_shared_by_two_kinds_of_run(store: PlatformStore) -> None:
    start_run(store)
    with pytest.raises(InvariantViolated, match="r1"):
        start_run(store, kind="onboard")


def test_an_unknown_run_is_refused_by_name(store: PlatformStore) -> None:
    for call in (
        lambda: store.run("nothing"),
        lambda: store.put_result("nothing", "a", 1),
        lambda: store.finish_run("nothing", state="failed"),
    ):
        with pytest.raises(Refused, match="nothing"):
            call()
    assert store.latest_run("settlement", "nightly") is None


def test_the_latest_run_is_the_one_that_started_last(store: PlatformStore) -> None:
    for run_id in ("r1", "r2"):
        start_run(store, run_id)
    start_run(store, "other", kind="reconcile")
    store.put_result("r1", "publish", {})
    published = store.latest_run("settlement", "nightly", with_result="publish")
    assert published is not None
    assert published.run_id == "r1"
    latest = store.latest_run("settlement", "nightly")
    assert latest is not None
    assert latest.run_id == "r2"


def test_receipts_come_back_whole_with_sums_wider_than_64_bits(store: PlatformStore) -> None:
    start_run(store)
    digest = SegmentDigest(10, 10, 2**90 + 1, 3)
    receipts = [
        Receipt("account", 0, "account_r1_0", 7, None, None),
        Receipt("account", 1, "account_r1_1", 10, digest, POSITION),
    ]
    for receipt in [*receipts, receipts[-1]]:
        store.put_receipt("r1", receipt)
    assert list(store.receipts("r1")) == receipts


def reconciliation(verdict: Verdict = Verdict.BREAK) -> Reconciliation:
    at = datetime(2026, 3, 2, 0, 31, tzinfo=UTC)
    found = TableVerdict(
        "account",
        verdict,
        reason="1 row differs",
        position=str(POSITION),
        source_rows=3,
        destination_rows=3,
        totals=(ControlTotal("account", "balance", ("EUR",), 3, 3, Decimal("12.3400"), Decimal("12.3300")),),
        breaks=(
            Break("account", BreakType.VALUE, '["7"]', {"zulu": "1", "alpha": None}, {"zulu": "2", "alpha": None}),
            Break("account", BreakType.MISSING, '["8"]', {"zulu": "1"}, None),
        ),
        breaks_total=2,
    )
    skipped = TableVerdict("audit", Verdict.NOT_RUN, reason="parked")
    return Reconciliation(
        "r1", "settlement", "warehouse", Scope.CUT, date(2026, 3, 1), POSITION, at, "read", verdict,
        (found, skipped), at, at + timedelta(seconds=5), {"buckets": [1, 2]},
    )  # fmt: skip


def test_a_reconciliation_comes_back_whole_and_a_repeat_replaces_it(store: PlatformStore) -> None:
    store.save_reconciliation(reconciliation(Verdict.MATCH))
    store.save_reconciliation(reconciliation())
    found = store.reconciliation("r1", "cut")
    assert found == reconciliation()
    assert found.tables[0].breaks[0].source is not None
    assert list(found.tables[0].breaks[0].source) == ["zulu", "alpha"]
    assert store.reconciliation("r1", "live") is None


def test_cuts_are_listed_newest_first_and_a_version_belongs_to_one_run(store: PlatformStore) -> None:
    as_of = datetime(2026, 3, 2, tzinfo=UTC)
    first = Cut("settlement", "warehouse", date(2026, 3, 1), 1, "r1", POSITION, as_of, ("account",), Verdict.MATCH)
    second = replace(first, version=2, run_id="r2", partial=True)
    for cut in (first, first, second):
        store.save_cut(cut)
    assert store.cuts("settlement") == (second, first)
    assert store.cuts("settlement", date(2026, 3, 2)) == ()
    with pytest.raises(InvariantViolated):
        store.save_cut(replace(second, run_id="r3"))


def test_the_state_of_a_sync_is_kept(store: PlatformStore) -> None:
    assert store.sync_state("settlement") is None
    store.set_sync_state("settlement", "onboarding")
    store.set_sync_state("settlement", "enabled")
    assert store.sync_state("settlement") is SyncState.ENABLED
    with pytest.raises(ValueError, match="half"):
        store.set_sync_state("settlement", "half done")


def test_an_alarm_is_open_once_until_it_ends(store: PlatformStore) -> None:
    for message in ("first", "second"):
        store.raise_alarm("no_slot", "settlement@warehouse", message)
    assert [(alarm.kind, alarm.message) for alarm in store.open_alarms()] == [("no_slot", "second")]
    store.end_alarm("no_slot", "settlement@warehouse")
    store.end_alarm("no_slot", "settlement@warehouse")
    assert store.open_alarms() == ()


def test_a_store_goes_on_after_its_session_was_ended(store: PlatformStore, server: Server) -> None:
    start_run(store)
    server.cut()
    with pytest.raises(TransientError):
        store.run("r1")
    server.mend()
    assert store.run("r1").run_id == "r1"
    server.admin(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{server.name}'")
    store.put_result("r1", "a", 1)
    assert store.run("r1").result == {"a": 1}


# ---- captures and holds --------------------------------------------------------------------------------------------


def test_table_lists_grow_by_generations_and_a_repeat_is_a_no_op(server: Server) -> None:
    registry = PlatformCaptureRegistry(Database(server.open), server.open)
    assert registry.tables("core_bank") == (0, ())
    with registry.locked("core_bank"):
        for _ in range(2):
            registry.set_tables("core_bank", generation=1, tables=["account"])
        registry.set_tables("core_bank", generation=2, tables=["account", "audit"])
    assert registry.tables("core_bank") == (2, ("account", "audit"))


def test_a_generation_written_by_somebody_else_meanwhile_is_never_overwritten(server: Server) -> None:
    registry = PlatformCaptureRegistry(Database(server.open), server.open)
    registry.set_tables("core_bank", generation=1, tables=["account"])
    for generation in (1, 3):
        with pytest.raises(InvariantViolated):
            registry.set_tables("core_bank", generation=generation, tables=["other"])
    assert registry.tables("core_bank") == (1, ("account",))


def test_only_one_process_changes_a_capture_and_the_other_learns_who(server: Server) -> None:
    registry = PlatformCaptureRegistry(Database(server.open), server.open)
    with registry.locked("core_bank"):
        with (
            pytest.raises(TransientError, match=r"core_bank is being changed by process \d+"),
            registry.locked("core_bank"),
        ):
            pytest.fail("two holders of one lock")
        with registry.locked("other_source"):
            pass
    with registry.locked("core_bank"):
        pass


def test_a_hold_on_the_log_is_renewed_by_its_holder_and_ends_by_itself(server: Server) -> None:
    holds = PlatformPruningHolds(Database(server.open))
    first = holds.hold_log("log", holder="run r1", offset=100, lease_s=60)
    assert holds.hold_log("log", holder="run r1", offset=100, lease_s=60) == first
    holds.hold_log("log", holder="run r2", offset=50, lease_s=0)
    holds.hold_log("other", holder="run r2", offset=7, lease_s=60)
    assert holds.lowest_held("log") == 100
    holds.release_log(first)
    holds.release_log(first)
    assert holds.lowest_held("log") is None


# ---- streams hear and report ---------------------------------------------------------------------------------------


def test_a_stream_hears_want_pause_and_unwant_at_once(server: Server, director: PlatformStreamDirector) -> None:
    director.want(STREAM, plan_json=plan_to_json(plan()))
    with PlatformStreamControl(STREAM, open_one=server.open, poll_s=60) as control:
        control.report(StreamReport(STREAM, "starting"))
        wait_until(lambda: director.latest_report(STREAM), timeout_s=30, what="the first report")
        director.pause(STREAM, by="ann")
        wait_until(lambda: control.orders().paused, timeout_s=30, what="the pause to be heard")
        director.resume(STREAM, by="ann")
        wait_until(lambda: not control.orders().paused, timeout_s=30, what="the end of the pause")
        director.unwant(STREAM)
        wait_until(lambda: not control.orders().wanted, timeout_s=30, what="the stream to be unwanted")


def leased(server: Server) -> str:
    """The name of a host that has the lease of the default pool."""
    PlatformHostLease(Database(server.open), pool="default", holder=this_process()).take()
    return str(this_process())


def test_a_stream_that_ended_for_good_is_known_until_a_later_want(
    server: Server, director: PlatformStreamDirector
) -> None:
    holder = leased(server)
    director.want(STREAM, plan_json=plan_to_json(plan()))
    for error in ("fenced by epoch 7", "the same again"):
        director.give_up(STREAM, want_number=1, error=error, holder=holder)
    [wanted] = director.wanted("default")
    assert (wanted.want_number, wanted.final_want, wanted.final_error) == (1, 1, "fenced by epoch 7")
    director.try_again(STREAM, holder="another host")
    assert director.wanted("default")[0].final_want == 1
    director.try_again(STREAM, holder=holder)
    assert director.wanted("default")[0].final_want == -1
    director.give_up(STREAM, want_number=1, error="the same again", holder=holder)
    director.want(STREAM, plan_json=plan_to_json(plan()))
    [wanted] = director.wanted("default")
    assert (wanted.want_number, wanted.final_want) == (2, 1)


def test_alarms_left_by_an_earlier_host_end_but_not_those_of_other_pools(
    store: PlatformStore, director: PlatformStreamDirector
) -> None:
    other = replace(plan(), sync="other", stream=StreamPlan(pool="night"))
    director.want(StreamId("other", "warehouse"), plan_json=plan_to_json(other))
    for kind, subject in (("no_slot", "gone@warehouse"), ("no_slot", "other@warehouse"), ("late", "gone@warehouse")):
        store.raise_alarm(kind, subject, "message")
    store.end_alarms_left("default", ["no_slot", "stream_failed"])
    assert {(alarm.kind, alarm.subject) for alarm in store.open_alarms()} == {
        ("no_slot", "other@warehouse"),
        ("late", "gone@warehouse"),
    }


def test_a_stream_with_an_older_plan_or_a_lost_host_is_asked_to_stop(
    server: Server, director: PlatformStreamDirector
) -> None:
    older, newer = plan_to_json(plan()), plan_to_json(plan(lag_max_s=5))
    holder = this_process()
    lease = PlatformHostLease(Database(server.open), pool="default", holder=holder)
    lease.take()
    director.want(STREAM, plan_json=older)
    with PlatformStreamControl(STREAM, plan_json=older, host=str(holder), open_one=server.open, poll_s=60) as control:
        control.report(StreamReport(STREAM, "streaming"))
        wait_until(lambda: director.latest_report(STREAM), timeout_s=30, what="a report")
        assert control.orders().wanted
        director.want(STREAM, plan_json=newer)
        wait_until(lambda: not control.orders().wanted, timeout_s=30, what="the new plan to be heard")
        director.want(STREAM, plan_json=older)
        wait_until(lambda: control.orders().wanted, timeout_s=30, what="the old plan to be heard")
        lease.begin_stop()
        wait_until(lambda: not control.orders().wanted, timeout_s=30, what="the host's stop to be heard")


def test_the_first_orders_are_those_of_now_also_after_a_sleep_in_which_the_session_was_lost(
    server: Server, director: PlatformStreamDirector
) -> None:
    """They come before the right to write is taken: whoever was wanted only when he was sent does not begin."""
    director.want(STREAM, plan_json=plan_to_json(plan()))
    sessions: list[Session] = []

    def opened() -> Session:
        sessions.append(server.open())
        return sessions[-1]

    with PlatformStreamControl(STREAM, open_one=opened, poll_s=60) as control:
        control.report(StreamReport(STREAM, "starting"))
        wait_until(lambda: director.latest_report(STREAM), timeout_s=30, what="a report")
        with server.open() as other:
            # Without a notice: the stream's session hears nothing of it, as that of somebody who sleeps.
            other.execute("update stream set is_wanted = false where sync = %s", (STREAM.sync,))
            other.execute("select pg_terminate_backend(%s, 5000)", (sessions[0].info.backend_pid,))
        assert not control.orders().wanted
        assert len(sessions) == 2


def test_a_hold_is_heard_obeyed_up_to_a_position_and_ends_by_itself(
    server: Server, director: PlatformStreamDirector
) -> None:
    director.want(STREAM, plan_json=plan_to_json(plan()))
    with PlatformStreamControl(STREAM, open_one=server.open, poll_s=60) as control:
        hold_id = director.hold(STREAM, lease_s=30)
        later = director.hold(STREAM, lease_s=30)
        wait_until(lambda: control.orders().hold_id == hold_id, timeout_s=30, what="the hold")
        director.apply_up_to(hold_id, POSITION)
        wait_until(lambda: control.orders().apply_to == POSITION, timeout_s=30, what="the position")
        director.release(hold_id)
        director.release(hold_id)
        wait_until(lambda: control.orders().hold_id == later, timeout_s=30, what="the second hold")
        director.release(later)
        soon = director.hold(STREAM, lease_s=2)
        director.extend(soon, lease_s=600)
        wait_until(lambda: control.orders().hold_until_s > time.time() + 500, timeout_s=30, what="the longer lease")
        director.extend(soon, lease_s=0.5)
        wait_until(lambda: not control.orders().hold_id, timeout_s=30, what="the end of what nobody extends any more")
        with pytest.raises(TransientError, match="ended"):
            director.extend(soon, lease_s=30)
        short = director.hold(STREAM, lease_s=0.5)
        wait_until(lambda: control.orders().hold_id == short, timeout_s=30, what="the short hold")
        wait_until(lambda: not control.orders().hold_id, timeout_s=30, what="the lease to end without a word")
        with pytest.raises(TransientError, match="ended"):
            director.apply_up_to(short, POSITION)


def test_a_stream_that_tries_in_vain_is_known_to_stand_still(server: Server, director: PlatformStreamDirector) -> None:
    def reported(state: str, next_offset: int = 0) -> float:
        report = StreamReport(STREAM, state, next_offset=next_offset)
        Database(server.open).transact(lambda session: put_report(session, report))
        return director.latest_reports()[STREAM].still_s

    def minutes_pass() -> None:
        moved = "update stream_report set moved_at = moved_at - interval '10 minutes'"
        Database(server.open).transact(lambda session: session.execute(moved))

    reported("streaming", 10)
    minutes_pass()
    for state, offset in (("streaming", 10), ("backing_off", 0), ("starting", 0), ("streaming", 10)):
        assert 600 <= reported(state, offset) < 660
    assert reported("streaming", 11) == 0
    minutes_pass()
    assert reported("paused", 11) == 0
    assert reported("catching_up", 11) < 60
    reported("stopped", 11)
    minutes_pass()
    assert reported("starting") < 60, "it was stopped meanwhile"
    hours = "update stream_report set moved_at = moved_at - interval '9 h', reported_at = reported_at - interval '9 h'"
    Database(server.open).transact(lambda session: session.execute(hours))
    assert reported("streaming", 11) < 60, "its host was away meanwhile"


def test_a_stream_that_tries_again_does_so_since_its_first_failure(
    server: Server, director: PlatformStreamDirector
) -> None:
    """Found by a newcomer: each attempt moved the start of the outage."""

    def since(state: str) -> datetime | None:
        Database(server.open).transact(lambda session: put_report(session, StreamReport(STREAM, state)))
        return director.latest_reports()[STREAM].since

    for ended_by in ("streaming", "catching_up"):
        first = since("backing_off")
        assert since("starting") != first
        assert since("backing_off") == since("backing_off") == first
        assert since(ended_by) != first
        assert since("backing_off") != first


def test_a_stream_that_is_not_wanted_cannot_be_held(director: PlatformStreamDirector) -> None:
    with pytest.raises(Refused, match="not wanted"):
        director.hold(STREAM, lease_s=30)


def test_a_report_shows_its_host_and_age_and_each_state_is_an_event(
    server: Server, director: PlatformStreamDirector
) -> None:
    start = datetime.now(UTC) - timedelta(minutes=1)
    report = StreamReport(STREAM, "streaming", 3, 10, 12, POSITION, 0.5, 100, 1000, 1)
    with PlatformStreamControl(STREAM, host="node1/1/1", open_one=server.open, poll_s=0.1) as control:
        for state in ("starting", "streaming", "streaming"):
            control.report(replace(report, state=state))
            wait_until(
                lambda wanted=state: (reported := director.latest_report(STREAM)) and reported.state == wanted,
                timeout_s=30,
                what="the report",
            )
        control.report(replace(report, state="stopped"))
    reported = director.latest_report(STREAM)
    assert reported is not None
    assert 0 <= reported.age_s < 5
    events = director.events(STREAM, since=start, until=start + timedelta(hours=1))
    assert [event.state for event in events] == ["starting", "streaming", "stopped"]
    assert replace(reported, age_s=0) == replace(report, state="stopped", host="node1/1/1", since=events[-1].at)


def test_a_stream_goes_on_while_the_platform_database_is_away(server: Server, director: PlatformStreamDirector) -> None:
    director.want(STREAM, plan_json=plan_to_json(plan()))
    hold_id = director.hold(STREAM, lease_s=2)
    director.pause(STREAM, by="ann")
    with PlatformStreamControl(STREAM, open_one=server.open, poll_s=0.2) as control:
        wait_until(lambda: control.orders().hold_id == hold_id, timeout_s=30, what="the hold")
        control.report(StreamReport(STREAM, "held", transactions=1))
        server.cut()
        slowest_s = 0.0

        def reports_are_dropped() -> bool:
            nonlocal slowest_s
            before = time.monotonic()
            control.report(StreamReport(STREAM, "held", transactions=2))
            assert control.orders().paused
            slowest_s = max(slowest_s, time.monotonic() - before)
            return control.reports_dropped >= 3

        wait_until(reports_are_dropped, timeout_s=10, what="reports to be dropped")
        assert slowest_s < 0.1
        wait_until(lambda: not control.orders().hold_id, timeout_s=30, what="the lease to end by the clock")
        server.mend()

        def reported() -> bool:
            latest = director.latest_report(STREAM)
            return latest is not None and latest.transactions == 2 and latest.reports_dropped >= 3

        wait_until(reported, timeout_s=30, what="the newest report after the cut")
