"""The nightly job on real servers while money moves: cuts, versions, dates without history, verdicts, publication."""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from seamline import registry, settings
from seamline.adapters.connections import Connection
from seamline.demo.bank import SMALL, connect, fill
from seamline.demo.writers import PAUSE_S_MIN, Writer, write_until
from seamline.domain.calendar import last_ended
from seamline.domain.cut_job import CutJob
from seamline.domain.date_before import DATE_BEFORE, late_in_words
from seamline.domain.errors import Refused
from seamline.domain.level import is_achieved, level_of
from seamline.domain.runs import EXPECTATIONS, LOADED, Cut, Reconciliation, Scope
from seamline.domain.staged_cut import CutMode, StagedCut
from seamline.domain.verdict import Verdict
from seamline.plan.checks import ControlTotalPlan, ReconcilePlan
from seamline.plan.document import plan_to_json
from seamline.plan.model import (
    BusinessDate,
    DerivedTablePlan,
    DestinationPlan,
    NightlyPlan,
    SourcePlan,
    SyncPlan,
    TablePlan,
)
from seamline.platform import migrate
from seamline.sources.mariadb.catalogue import read_catalogue
from seamline.sync.cut import publish_cut
from seamline_spark.cut.main import cut
from seamline_spark.session import Application, open_session
from tests.integration.databases import mariadb, mariadb_database, mariadb_destination, postgres, postgres_database
from tests.waiting import wait_until

NAME = "nightly_cut"
SOURCE_ID, WAREHOUSE_ID, COPY = f"{NAME}_source", f"{NAME}_warehouse", f"{NAME}_copy"
DATES = {"ledger_entry": BusinessDate("booked_at", "instant"), "payment_order": BusinessDate("business_date", "date")}
DERIVED = "include/transforms/daily_balance.sql"
NAMES = ("account", "ledger_entry", "payment_order", "access_audit")
TIMEZONE = "Asia/Shanghai"


@contextmanager
def known(connection: Connection, connection_id: str, kind: str) -> Iterator[None]:
    """A test's database by a connection id, as driver and tasks resolve any other."""
    where = f"{connection.login}:{quote(connection.password)}@{connection.host}:{connection.port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"SEAMLINE_CONNECTION_{connection_id.upper()}", f"{kind}://{where}/{connection.database}")
        yield


@pytest.fixture(scope="module")
def bank() -> Iterator[Connection]:
    with mariadb_database(NAME) as connection, known(connection, SOURCE_ID, "mysql"):
        with closing(connect(connection)) as session:
            fill(session, SMALL, now=datetime.now(UTC), timezone=TIMEZONE)
        yield connection


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Connection]:
    with postgres_database(NAME) as connection, known(connection, WAREHOUSE_ID, "postgres"):
        yield connection


@pytest.fixture(scope="module")
def plan(bank: Connection) -> SyncPlan:
    source = SourcePlan(
        NAME, "mariadb", bank.database, SOURCE_ID, SOURCE_ID, SOURCE_ID, "log", "connector", snapshot_lock="brief"
    )
    with closing(mariadb(bank)) as session:
        definitions = read_catalogue(session, bank.database, NAMES)
    text = (settings.load().root / DERIVED).read_text(encoding="utf-8")
    totals = (
        ControlTotalPlan("ledger_entry", "amount", ("currency",)),
        ControlTotalPlan("account", "balance", ("currency",)),
    )
    return SyncPlan(
        "settlement",
        source,
        (DestinationPlan("warehouse", "postgres", WAREHOUSE_ID, "settlement"),),
        tuple(TablePlan(definition.name, DATES.get(definition.name), definition) for definition in definitions),
        nightly=NightlyPlan(timezone=TIMEZONE, as_of_max_s=26 * 3600),
        reconcile=ReconcilePlan(totals),
        derived=(DerivedTablePlan("daily_balance", job=CutJob(DERIVED, text, ("ledger_entry",))),),
    )


@pytest.fixture(scope="module")
def platform() -> Iterator[Any]:
    with postgres_database(f"{NAME}_platform") as connection, known(connection, "seamline_db", "postgres"):
        migrate.upgrade()
        with closing(registry.platform()) as store:
            yield store


@pytest.fixture(scope="module")
def spark(bank: Any, warehouse: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder: Path = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        said = "--master local[2] --driver-memory 512m"
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{said} --conf spark.sql.warehouse.dir={folder} pyspark-shell")
        session = open_session("nightly cut test")
    session.sparkContext.pythonExec = sys.executable
    for name, value in settings.process_environment().items():
        if name.startswith(f"SEAMLINE_CONNECTION_{NAME.upper()}"):
            session.sparkContext.environment[name] = value
    yield session
    session.stop()


@pytest.fixture(scope="module")
def writers(bank: Connection) -> Iterator[list[Writer]]:
    stop = threading.Event()
    made = [Writer(number, seed=11) for number in range(2)]
    with known(bank, "bank_app", "mysql"), ExitStack() as stack:
        for writer in made:
            thread = threading.Thread(target=write_until, kwargs={"pause_s": PAUSE_S_MIN}, args=(stop, writer))
            thread.start()
            stack.callback(thread.join)
        stack.callback(stop.set)
        wait_until(lambda: all(w.counts["transfer"] for w in made), timeout_s=60, what="every writer to write")
        yield made


@pytest.fixture
def run_nightly(spark: SparkSession, plan: SyncPlan, platform: Any) -> Any:
    def take(number: str, day: date) -> StagedCut:
        run_id = f"settlement/nightly/{day}/{number}"
        platform.start_run(
            run_id=run_id, sync="settlement", kind="nightly", plan_json=plan_to_json(plan), business_date=day
        )
        return cut(Application.of(spark), run_id)["warehouse"]

    return take


@pytest.fixture
def publish(platform: Any) -> Any:
    def go(staged: StagedCut, *, signed_by: str = "") -> Cut:
        platform.put_result(staged.run_id, EXPECTATIONS, {"verdict": "MATCH"})
        run = platform.run(staged.run_id)
        with closing(registry.cuts(run.plan.destination("warehouse"))) as publisher:
            return publish_cut(run, "warehouse", publisher=publisher, records=platform, signed_by=signed_by)

    return go


def ended() -> date:
    return last_ended(datetime.now(UTC), timezone=TIMEZONE)


def one(warehouse: Connection, query: str) -> Any:
    with postgres(warehouse) as session:
        row = session.execute(query.encode()).fetchone()
    return row[0] if row and len(row) == 1 else row


def reconciled(platform: Any, staged: StagedCut) -> Reconciliation:
    found = platform.reconciliation(staged.run_id, Scope.CUT, "warehouse")
    assert found is not None
    return found


def test_the_cut_of_the_date_that_has_ended_matches_while_money_moves(
    run_nightly: Any, publish: Any, platform: Any, writers: Any, warehouse: Connection
) -> None:
    staged = run_nightly("1", ended())
    assert {t.table: (t.mode, t.verdict) for t in staged.tables} == {
        "account": (CutMode.WHOLE, Verdict.MATCH),
        "ledger_entry": (CutMode.DATE, Verdict.MATCH),
        "payment_order": (CutMode.DATE, Verdict.MATCH),
        "access_audit": (CutMode.WHOLE, Verdict.MATCH),
        "daily_balance": (CutMode.DERIVED, Verdict.MATCH),
    }
    found = reconciled(platform, staged)
    assert found.verdict is Verdict.MATCH
    assert [t.table for t in found.tables] == [*NAMES, "daily_balance"]
    entry = found.tables[1]
    assert entry.totals
    assert all(total.is_equal and total.source_sum == 0 for total in entry.totals)
    assert one(warehouse, "SELECT to_regclass('settlement.ledger_entry_proven')") is None, "nothing is published yet"
    record = publish(staged)
    assert (record.version, record.partial, record.verdict) == (1, False, Verdict.MATCH)
    assert platform.cuts("settlement", ended())[0].tables == (*NAMES, "daily_balance")
    rows = {t.table: t.rows for t in staged.tables}
    for table, count in rows.items():
        assert one(warehouse, f"SELECT count(*) FROM settlement.{table}_proven") == count
    assert rows["account"] >= SMALL.accounts
    assert 0 < rows["ledger_entry"] < 2 * SMALL.transfers + 1
    outside = one(
        warehouse,
        "SELECT count(*) FROM settlement.ledger_entry_proven"
        f" WHERE (booked_at AT TIME ZONE '{TIMEZONE}')::date <> cut_business_date",
    )
    assert outside == 0
    torn = one(
        warehouse,
        "SELECT count(*) FROM (SELECT account_id, currency, sum(amount) AS s FROM settlement.ledger_entry_proven"
        " GROUP BY 1, 2 EXCEPT SELECT account_id, currency, amount FROM settlement.daily_balance_proven) AS d",
    )
    assert torn == 0


def test_a_night_without_a_log_is_one_session_s_snapshot_and_says_which_read_it_was(
    spark: SparkSession, plan: SyncPlan, platform: Any, writers: Any
) -> None:
    source = replace(plan.source, capture="", marker="", log_topic="", connector="", snapshot_lock="none")
    run_id = f"unlogged/nightly/{ended()}/1"
    text = plan_to_json(replace(plan, sync="unlogged", source=source))
    platform.start_run(run_id=run_id, sync="unlogged", kind="nightly", plan_json=text, business_date=ended())
    staged = cut(Application.of(spark), run_id)["warehouse"]
    assert {table.verdict for table in staged.tables} == {Verdict.MATCH}
    found = reconciled(platform, staged)
    assert (found.verdict, found.mode) == (Verdict.MATCH, "unlogged")
    assert str(found.position).startswith("this read alone (20")


def test_a_night_of_small_tables_opens_no_session(plan: SyncPlan, platform: Any, warehouse: Connection) -> None:
    run_id = f"settlement/nightly/{ended()}/small"
    small = replace(plan, derived=())
    platform.start_run(
        run_id=run_id, sync="settlement", kind="nightly", plan_json=plan_to_json(small), business_date=ended()
    )
    application = Application("nightly cut test")
    staged = cut(application, run_id)["warehouse"]
    assert {one.table: one.verdict for one in staged.tables} == dict.fromkeys(NAMES, Verdict.MATCH)
    assert cut(application, run_id)["warehouse"] == staged, "it was interrupted behind its cut, and reads nothing"
    platform.put_result(run_id, LOADED, None)
    assert cut(application, run_id)["warehouse"].as_of > staged.as_of, "a later task has begun, and it is cleared"
    assert not application.is_open


def test_a_second_run_is_version_2_and_counts_what_came_late(
    run_nightly: Any, publish: Any, bank: Connection, warehouse: Connection
) -> None:
    first = publish(run_nightly("2a", ended()))
    noon = datetime(ended().year, ended().month, ended().day, 4)  # noqa: DTZ001 - UTC noon of Shanghai, naive for the driver
    with closing(mariadb(bank)) as session, session.cursor() as cursor:
        # Numbers below zero: the writers' own are counted upwards.
        cursor.executemany(
            "INSERT INTO ledger_entry VALUES (%s, -1, 1, 'CNY', %s, %s, 'late')", [(-1, 5, noon), (-2, -5, noon)]
        )
        # An order of the reserve, which no writer touches, is settled after its date.
        cursor.execute(
            "SELECT min(id) FROM payment_order WHERE business_date = %s AND account_id <= 100 AND status <> 'settled'",
            (ended(),),
        )
        ((order,),) = cursor.fetchall()
        cursor.execute("UPDATE payment_order SET status = 'settled' WHERE id = %s", (order,))
    staged = run_nightly("2b", ended())
    late = {t.table: (t.late_rows, t.gone_rows) for t in staged.tables}
    assert late["ledger_entry"] == (2, 0)
    assert late["payment_order"][0] >= 1
    assert late["payment_order"][1] >= 1
    assert late["account"] == (None, None)
    second = publish(staged)
    assert second.version == first.version + 1
    assert one(warehouse, "SELECT DISTINCT cut_version FROM settlement.ledger_entry_proven") == second.version
    kept = f"SELECT count(*) FROM settlement_cut.ledger_entry WHERE cut_version = {first.version}"
    assert one(warehouse, kept) + 2 == one(warehouse, "SELECT count(*) FROM settlement.ledger_entry_proven")
    assert publish(staged).version == second.version, "a repeat of the publish finds it done"


def test_an_earlier_date_has_its_rows_and_says_what_has_no_history(
    run_nightly: Any, publish: Any, platform: Any, warehouse: Connection
) -> None:
    if not platform.cuts("settlement", ended()):
        # Run alone, there is no newer date yet that readers could be kept from.
        publish(run_nightly("newest", ended()))
    day = ended() - timedelta(days=2)
    staged = run_nightly("3", day)
    assert [t.table for t in staged.tables] == ["ledger_entry", "payment_order", "daily_balance"]
    assert set(staged.left_out) == {"account", "access_audit"}
    verdicts = {t.table: (t.verdict, t.reason.partition(" for ")[0]) for t in reconciled(platform, staged).tables}
    assert verdicts["account"] == verdicts["access_audit"] == (Verdict.NOT_RUN, "not in this cut, it has no history")
    record = publish(staged)
    assert (record.version, record.partial, record.verdict) == (1, True, Verdict.MATCH)
    where = f"WHERE cut_business_date = '{day}'"
    assert one(warehouse, f"SELECT count(*) FROM settlement_cut.ledger_entry_current {where}") > 0
    assert one(warehouse, f"SELECT count(*) FROM settlement_cut.account_current {where}") == 0
    assert one(warehouse, "SELECT max(cut_business_date) FROM settlement.ledger_entry_proven") == ended()


def test_the_next_night_finds_what_came_after_the_cut_of_the_date_before(
    run_nightly: Any, publish: Any, platform: Any, bank: Connection
) -> None:
    day = ended() - timedelta(days=4)
    publish(run_nightly("5a", day))
    quiet = run_nightly("5b", day + timedelta(days=1))
    before = {one["table"]: one for one in reconciled(platform, quiet).evidence[DATE_BEFORE]}  # type: ignore[attr-defined]
    # Writers go on with old orders; entries of an ended date are never added by them.
    assert before.keys() == {"ledger_entry", "payment_order"}
    assert (before["ledger_entry"]["business_date"], before["ledger_entry"]["is_same"]) == (str(day), True)
    noon = datetime(day.year, day.month, day.day, 4)  # noqa: DTZ001 - UTC noon of Shanghai, naive for the driver
    with closing(mariadb(bank)) as session, session.cursor() as cursor:
        cursor.execute("INSERT INTO ledger_entry VALUES (-9, -1, 1, 'CNY', 5, %s, 'late')", (noon,))
    after = run_nightly("5c", day + timedelta(days=1))
    found = reconciled(platform, after)
    assert (found.verdict, is_achieved(found)) == (Verdict.MATCH, True)
    assert level_of(found, None) == "one commit moves all tables of the sync and the ledger"
    lines = [line for line in late_in_words(reconciled(platform, after).evidence) if line.startswith("ledger_entry")]
    assert [line.partition(",")[0] for line in lines] == [f"ledger_entry of {day}: late rows: 1 since its cut"]


def test_a_night_is_published_in_mariadb_as_in_postgresql_from_one_read(
    spark: SparkSession, plan: SyncPlan, platform: Any, bank: Connection, warehouse: Connection
) -> None:
    day = ended() - timedelta(days=6)
    with mariadb_destination(COPY) as publisher, known(publisher, COPY, "mysql"), closing(mariadb(publisher)) as copy:
        spark.sparkContext.environment[f"SEAMLINE_CONNECTION_{COPY.upper()}"] = settings.process_environment()[
            f"SEAMLINE_CONNECTION_{COPY.upper()}"
        ]
        both = replace(
            plan, destinations=(*plan.destinations, DestinationPlan("copy", "mariadb", COPY, COPY)), derived=()
        )

        def night(number: str) -> Mapping[str, StagedCut]:
            run_id = f"settlement/nightly/{day}/{number}"
            platform.start_run(
                run_id=run_id, sync="settlement", kind="nightly", plan_json=plan_to_json(both), business_date=day
            )
            cuts = cut(Application.of(spark), run_id)
            platform.put_result(run_id, EXPECTATIONS, {"verdict": "MATCH"})
            run = platform.run(run_id)
            for name in ("warehouse", "copy"):
                assert platform.reconciliation(run_id, Scope.CUT, name).verdict is Verdict.MATCH
                with closing(registry.cuts(run.plan.destination(name))) as publisher:
                    publish_cut(run, name, publisher=publisher, records=platform)
            return cuts

        first = night("6a")
        assert first["warehouse"].position == first["copy"].position
        question = "SELECT count(*), sum(id), max(cut_version) FROM {}.ledger_entry_{} WHERE cut_business_date = '{}'"
        of_copy = question.format(f"{COPY}_cut", "current", day)
        of_warehouse = question.format("settlement_cut", "current", day)
        found = rows_of(copy, of_copy)
        assert found == [tuple(one(warehouse, of_warehouse))]
        with closing(mariadb(bank)) as session, session.cursor() as cursor:
            noon = datetime(day.year, day.month, day.day, 4)  # noqa: DTZ001 - as above
            cursor.execute("INSERT INTO ledger_entry VALUES (-19, -1, 1, 'CNY', 5, %s, 'late')", (noon,))
        late = {table.table: table.late_rows for table in night("6b")["copy"].tables}
        assert late["ledger_entry"] == 1
        assert rows_of(copy, of_copy) == [(found[0][0] + 1, found[0][1] - 19, 2)]
        assert rows_of(copy, of_copy.replace("_cut.ledger_entry_current", ".ledger_entry_proven"))[0][2] == 2


def rows_of(copy: Any, question: str) -> list[Any]:
    with copy.cursor() as cursor:
        cursor.execute(question)
        return list(cursor.fetchall())


def test_a_date_that_has_not_ended_is_refused(run_nightly: Any) -> None:
    with pytest.raises(Refused, match="has not ended"):
        run_nightly("4", ended() + timedelta(days=1))
