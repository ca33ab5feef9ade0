"""The demo as a person runs it, at reduced size, on its own data folder and ports; then a second sync, from PostgreSQL,
what the pages for people say, the demo once more with a lake, and at the end the whole stack killed at once."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

import httpx
import psutil
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pymysql
import pytest

from seamline import registry, settings
from seamline.adapters import connections
from seamline.adapters.airflow_rest import FINISHED, AirflowRest
from seamline.domain.errors import SeamlineError
from seamline.domain.ledger import StreamId
from seamline.domain.runs import Cut, Reconciliation
from seamline.domain.verdict import BreakType, Verdict
from seamline.plan.model import AHEAD
from seamline.ports import StreamReport
from seamline.reading import open_sync
from seamline.stack import credentials, leftovers, supervisor
from seamline.stack.boot import log_tail
from seamline.stack.layout import Layout
from tests.documented import looking_blocks
from tests.e2e import brokerage, foreign, walks
from tests.e2e.airflow import address, ask_airflow, password, token_of
from tests.e2e.leaked_secrets import leaked_secrets
from tests.e2e.walk import Walk
from tests.waiting import wait_until

DEMO_WITHIN_S = 1200
UP_WITHIN_S = 300
RECONCILE_WITHIN_S = 300
# Until the scheduler looks at its calendars again, and a night, on a machine that does other things too.
NIGHT_WITHIN_S = 600
SYNC = "settlement"
DESTINATIONS = ("archive", "warehouse")
LAKE = "lake"
WITH_LAKE = ("archive", LAKE, "warehouse")
LIVE_TABLES = ("account", "ledger_entry", "payment_order", "access_audit")
DERIVED = "daily_balance"


def seamline(*arguments: str, within_s: float, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seamline.cli.main", *arguments]
    return subprocess.run(command, input=typed, capture_output=True, text=True, timeout=within_s, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.CompletedProcess[str]]:
    with pytest.MonkeyPatch.context() as patch:
        declared = brokerage.declare(tmp_path_factory.mktemp("declared"))
        patch.setenv("SEAMLINE_DECLARATIONS", str(declared))
        yield seamline("demo", "--size", "small", within_s=DEMO_WITHIN_S)
        seamline("down", within_s=120)


@pytest.fixture(scope="module")
def walk(checkout: Path) -> Walk:
    return Walk(checkout)


@pytest.fixture(scope="module")
def broken(demo: subprocess.CompletedProcess[str], walk: Walk) -> str:
    """The comparison that has found what the tutorial breaks in the warehouse: three payment orders."""
    return walks.three_rows_are_broken(walk)


@pytest.fixture(scope="module")
def given_up(broken: str, walk: Walk) -> None:
    """All rows are mended, by a repair and by what the page on disasters says; the log is a new one."""
    walks.rows_are_repaired(walk)
    walks.a_row_of_the_archive_is_found(walk)
    walks.a_log_is_given_up(walk)


@pytest.fixture(scope="module")
def with_lake(given_up: None, walk: Walk) -> str:
    """What a second demo says, on what the first has left: the lake joins the sync."""
    return walks.a_lake_joins(walk, within_s=DEMO_WITHIN_S)


@pytest.fixture
def warehouse(demo: subprocess.CompletedProcess[str]) -> Iterator[psycopg.Connection]:
    with warehouse_session() as session:
        yield session


def warehouse_session() -> psycopg.Connection:
    at = connections.resolve("warehouse")
    return psycopg.connect(
        host=at.host, port=at.port, user=at.login, password=at.password, dbname=at.database, autocommit=True
    )


def compare_live_tables(destinations: Sequence[str]) -> dict[str, Reconciliation]:
    """Run the reconcile DAG and return what this very run found, by destination; runs that a cut has started may be at
    work beside."""
    run_id = f"test-{datetime.now(UTC):%H%M%S%f}"
    run(f"{SYNC}__reconcile", run_id)
    found = {one.destination: one for one in registry.platform().live_reconciliations_named(SYNC, run_id)}
    assert sorted(found) == list(destinations)
    return found


def compared_cuts(sync: str) -> list[Reconciliation]:
    """Of each business date the comparison of its newest take."""
    return [state.found for state in registry.platform().cut_states(sync, 40) if state.found]


def published(sync: str) -> dict[date, Cut]:
    """Of each business date the newest version that readers have."""
    return {cut.business_date: cut for cut in reversed(registry.platform().cuts(sync))}


def compared_live(sync: str) -> tuple[Reconciliation, ...]:
    return registry.platform().live_reconciliations(sync, 40)


def run(dag_id: str, run_id: str, *, partition_key: str | None = None) -> str:
    """Run a DAG to its end, which is returned."""
    with AirflowRest(address(), "operator", password("operator")) as airflow:
        airflow.unpause(dag_id)
        airflow.trigger(dag_id, run_id=run_id, partition_key=partition_key)
        return airflow.wait(dag_id, run_id, timeout_s=RECONCILE_WITHIN_S, on_change=lambda task: None).state


def test_the_demo_ends_with_every_table_proven(demo: subprocess.CompletedProcess[str]) -> None:
    assert demo.returncode == 0, demo.stdout[-6000:] + demo.stderr[-3000:]
    assert "All agree." in demo.stdout


def test_the_report_shows_positions_totals_and_why_a_table_did_not_run(demo: subprocess.CompletedProcess[str]) -> None:
    for expected in ("live tables", "ledger_entry", "EUR", "rows on both sides", "NOT_RUN", "history", "lag"):
        assert expected in demo.stdout


def test_status_says_the_same_on_the_terminal(demo: subprocess.CompletedProcess[str]) -> None:
    output = seamline("status", within_s=60).stdout
    # A comparison may be under way, which is a line of its own.
    live = [line for line in output.splitlines() if line.endswith(", live tables")]
    assert len(live) == len(DESTINATIONS) and all(line.startswith("MATCH") for line in live), output
    assert all(table in output for table in LIVE_TABLES), output
    assert all(f"{SYNC}@{destination}" in output for destination in DESTINATIONS) and "lag" in output, output


def test_every_act_of_the_demo_is_in_the_log_with_what_is_stored_and_its_publications_are_anchored(
    demo: subprocess.CompletedProcess[str],
) -> None:
    verified = seamline("audit", "verify", "--sync", SYNC, within_s=60)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "anchored up to entry" in verified.stdout


def test_commands_that_only_look_run_as_the_documents_show_them(
    demo: subprocess.CompletedProcess[str], walk: Walk, checkout: Path
) -> None:
    pages = [checkout / "README.md", *sorted((checkout / "docs").rglob("*.md"))]
    shown = {block: page for page in pages for block in looking_blocks(page)}
    assert len(shown) > 4
    for block, page in shown.items():
        ended = walk.shell(block, within_s=120)
        assert ended.returncode == 0, (page, block, ended.stdout[-2000:], ended.stderr[-2000:])


def test_the_pages_on_the_first_hour_secrets_evidence_and_rest_are_right_for_this_stack(
    demo: subprocess.CompletedProcess[str], walk: Walk, warehouse: psycopg.Connection, tmp_path: Path
) -> None:
    newest = max(one.business_date for one in compared_cuts(SYNC) if one.business_date)
    walks.a_change_arrives(walk, warehouse)
    walks.compared_by_hand_and_by_curl(walk)
    walks.a_date_is_read_by_rest(walk, newest)
    walks.evidence_is_verified(walk, newest, tmp_path)
    walks.a_password_is_rotated(walk)


def test_every_verdict_is_a_match_at_a_position_or_explains_itself(demo: subprocess.CompletedProcess[str]) -> None:
    cuts, live = compared_cuts(SYNC), compared_live(SYNC)
    assert sorted(one.destination for one in cuts) == sorted(DESTINATIONS * 3)
    assert {one.destination for one in live} == set(DESTINATIONS)
    for one in (*cuts, *live):
        for table in one.tables:
            assert table.verdict is Verdict.MATCH or (table.verdict is Verdict.NOT_RUN and table.reason), table


def test_a_look_that_goes_on_shows_streams_and_work_as_plain_text_until_ctrl_c(
    demo: subprocess.CompletedProcess[str],
) -> None:
    command = [sys.executable, "-m", "seamline.cli.main", "status", "--watch"]
    # Whoever runs the tests in the background has its children ignore ctrl-C.
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=heeds) as watching:  # noqa: PLW1509
        assert watching.stdout is not None
        said = ""
        for line in watching.stdout:
            said += line
            if "who waits for whom" in line:
                break
        watching.send_signal(signal.SIGINT)
        assert watching.wait(60) in (0, 1)
    assert re.search(r"^  warehouse +\w+", said, re.MULTILINE) and "not known" not in said, said
    assert "\x1b" not in said
    answer = json.loads(seamline("status", SYNC, "--json", within_s=60).stdout)
    assert {one["destination"] for one in answer["syncs"][0]["streams"]} == set(DESTINATIONS)
    tables = json.loads(seamline("tables", SYNC, "--json", within_s=60).stdout)["tables"]
    assert {one["table"] for one in tables} == set(LIVE_TABLES)


def test_dates_that_are_done_are_kept_and_one_is_made_again_as_the_page_on_backfills_has_it(
    demo: subprocess.CompletedProcess[str], walk: Walk
) -> None:
    first, second, *_ = sorted({one.business_date for one in compared_cuts(SYNC) if one.business_date})
    walks.dates_are_made_again(walk, first, second)
    cuts = json.loads(seamline("cuts", SYNC, "--json", within_s=60).stdout)["cuts"]
    versions = {(one["date"], int(one["version"])) for one in cuts if one["destination"] == "warehouse"}
    assert {(str(first), 1), (str(first), 2), (str(second), 1)} <= versions
    assert (str(second), 2) not in versions, "what is done is kept"
    with AirflowRest(address(), "viewer", password("viewer")) as airflow:
        notes = [one.note for one in airflow.runs(f"{SYNC}__nightly")]
    for reason in ("the fee table was corrected", "a file came late"):
        assert any(note.endswith(f": {reason}") for note in notes if note), notes


def test_each_destinations_stream_is_alive_and_close_to_the_log(demo: subprocess.CompletedProcess[str]) -> None:
    director = registry.director()
    # A cut starts a comparison, which holds a stream for a moment.
    wait_until(
        lambda: {report.state for report in director.latest_reports().values()} == {"streaming"},
        timeout_s=RECONCILE_WITHIN_S,
        what="the streams to move",
    )
    reports = director.latest_reports()
    assert sorted(stream.destination for stream in reports) == list(DESTINATIONS)
    assert {report.findings for report in reports.values()} == {0}
    assert all(report.lag_s < 60 for report in reports.values())


def test_the_newest_published_cut_is_followed_by_a_comparison_of_the_live_tables(
    demo: subprocess.CompletedProcess[str],
) -> None:
    """Nobody asks for it: the cut's asset starts it. After the cuts of older dates there is none."""
    dates = {one.business_date for one in compared_cuts(SYNC) if one.business_date}
    assert len(dates) == 3
    wait_until(
        lambda: max(dates) in {one.business_date for one in compared_live(SYNC)},
        timeout_s=RECONCILE_WITHIN_S,
        what="the comparison",
    )


def test_a_viewer_looks_and_starts_nothing(demo: subprocess.CompletedProcess[str]) -> None:
    with AirflowRest(address(), "viewer", password("viewer")) as airflow:
        before = airflow.runs(f"{SYNC}__reconcile")
        assert before, "a viewer sees the runs"
        with pytest.raises(SeamlineError, match="403"):
            airflow.trigger(f"{SYNC}__reconcile", run_id="by-a-viewer")
        with pytest.raises(SeamlineError, match="403"):
            airflow.pause(f"{SYNC}__nightly")
        assert "by-a-viewer" not in {one.run_id for one in airflow.runs(f"{SYNC}__reconcile")}


def test_a_second_sync_from_postgres_is_onboarded_and_cut_under_writers_and_all_agree(
    demo: subprocess.CompletedProcess[str],
) -> None:
    brokerage.make_database()
    brokerage.add_connections()
    with brokerage.trading():
        onboarded = seamline("onboard", brokerage.SYNC, "--json", within_s=RECONCILE_WITHIN_S)
        assert onboarded.returncode == 0, onboarded.stdout + onboarded.stderr
        assert json.loads(onboarded.stdout)["verdict"] == "MATCH"
        # The onboarding switches the nights on, and the schedule begins with the date that has ended.
        wait_until(lambda: published(brokerage.SYNC), timeout_s=NIGHT_WITHIN_S, what="the first night", every_s=1)
    assert published(brokerage.SYNC).keys() == {brokerage.FIRST_DATE}
    (cut,), (live, *before) = compared_cuts(brokerage.SYNC), compared_live(brokerage.SYNC)
    assert {one.verdict for one in (cut, live, *before)} == {Verdict.MATCH}
    ahead = {f"{name}{AHEAD}" for name in brokerage.DATED}
    assert {table.table for table in cut.tables} == {*brokerage.TABLES, *ahead, "daily_turnover"}
    assert {table.table for table in live.tables} == set(brokerage.TABLES)
    assert all(table.source_rows and table.source_rows == table.destination_rows for table in live.tables)
    # Until a test asks for it, the scheduler has seen the calendar, and started the night.
    brokerage.close_the_week()


def test_three_rows_that_the_tutorial_breaks_are_listed_and_nothing_else(broken: str, walk: Walk) -> None:
    of_each = {one.destination: one for one in registry.platform().live_reconciliations_named(SYNC, broken)}
    assert of_each["archive"].verdict is Verdict.MATCH
    found = of_each["warehouse"]
    assert found.verdict is Verdict.BREAK
    breaks = {(one.table, one.type, json.loads(one.key)["id"]) for table in found.tables for one in table.breaks}
    assert breaks == {
        ("payment_order", BreakType.VALUE, "17"),
        ("payment_order", BreakType.MISSING, "18"),
        ("payment_order", BreakType.UNEXPECTED, "900000001"),
    }
    assert sum(table.breaks_total for table in found.tables) == 3
    walks.a_break_is_explained_by_rest(walk, found.run_id)


def test_the_page_is_behind_the_login_and_says_break(broken: str) -> None:
    page = "/seamline/page"
    assert ask_airflow("GET", page).status_code == httpx.codes.UNAUTHORIZED
    led = ask_airflow("GET", page, headers={"Accept": "text/html"})
    assert (led.status_code, led.url.path) == (httpx.codes.OK, "/auth/login")
    assert led.url.params["next"] == page
    token = token_of("viewer")
    # By the header, as a program does, and by the cookie that a browser has from Airflow's own login.
    for proof in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"_token={token}"}):
        answer = ask_airflow("GET", page, headers=proof)
        assert answer.status_code == httpx.codes.OK
        assert "BREAK" in answer.text


def test_a_night_and_three_dates_before_it_are_cut_from_the_log_by_the_schedule_and_a_backfill(
    demo: subprocess.CompletedProcess[str], warehouse: psycopg.Connection
) -> None:
    """Each as it was when the system date moved on: nothing of that is left in the tables."""
    *earlier, night = brokerage.WEEK

    wait_until(lambda: night in published(brokerage.SYNC), timeout_s=NIGHT_WITHIN_S, what="the night", every_s=1)
    dates = (str(earlier[0]), str(earlier[-1]))
    ended = seamline("backfill", brokerage.SYNC, *dates, "--at-once", "2", within_s=NIGHT_WITHIN_S)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    cuts, found = published(brokerage.SYNC), {one.business_date: one for one in compared_cuts(brokerage.SYNC)}
    for day in brokerage.WEEK:
        assert (found[day].mode, found[day].verdict, cuts[day].verdict) == ("log", Verdict.MATCH, Verdict.MATCH), day
        assert brokerage.held(warehouse, day) == brokerage.expected(day)


def test_tables_enter_and_leave_the_second_sync_while_its_stream_goes_on(
    demo: subprocess.CompletedProcess[str], walk: Walk
) -> None:
    brokerage.declare_fees()
    with brokerage.trading():
        run_id = walks.tables_are_taken_up(walk, brokerage.SYNC)
    (live,) = registry.platform().live_reconciliations_named(brokerage.SYNC, run_id)
    assert live.verdict is Verdict.MATCH
    assert {table.table for table in live.tables} == {"account", "trade", "fill", "fee", "system_date"}


def test_a_destination_that_is_declared_later_joins_while_the_others_stream_goes_on(
    demo: subprocess.CompletedProcess[str], walk: Walk
) -> None:
    """From PostgreSQL into MariaDB."""
    brokerage.declare_archive()
    stream = StreamId(brokerage.SYNC, "brokerage_warehouse")
    before = registry.director().latest_reports()[stream]
    with brokerage.trading():
        late = walks.a_destination_is_loaded(walk, brokerage.SYNC, brokerage.LATE)
        assert run(f"{brokerage.SYNC}__reconcile", "both") == "success"
    (joined,) = registry.platform().live_reconciliations_named(brokerage.SYNC, late)
    assert (joined.destination, joined.verdict) == (brokerage.LATE, Verdict.MATCH)
    both = registry.platform().live_reconciliations_named(brokerage.SYNC, "both")
    assert {one.destination: one.verdict for one in both} == {
        "brokerage_warehouse": Verdict.MATCH,
        brokerage.LATE: Verdict.MATCH,
    }
    after = registry.director().latest_reports()[stream]
    assert after.epoch == before.epoch, "the stream of the other destination was not started again"


def test_a_second_demo_works_on_what_is_there_and_a_lake_joins_it(
    demo: subprocess.CompletedProcess[str], with_lake: str
) -> None:
    assert "All agree." in with_lake
    assert "is there already" in with_lake
    assert "the bank is filled" in demo.stdout
    assert "the bank is filled" not in with_lake


def test_each_cut_in_the_lake_is_compared_and_listed_as_a_tag_of_its_tables(
    with_lake: str,
) -> None:
    of_date = {one.business_date: one for one in compared_cuts(SYNC) if one.destination == LAKE}
    assert len(of_date) == 3 and {one.verdict for one in of_date.values()} == {Verdict.MATCH}
    listed = dict(re.findall(r"^  (\w+) +snapshot \d+, tags (.+)$", with_lake, re.MULTILINE))
    assert {table: set(tags.split(", ")) for table, tags in listed.items()} == {
        table: {tag_of(day) for day, cut in of_date.items() if table in matched(cut)}
        for table in (*LIVE_TABLES, DERIVED)
    }


def test_a_cut_of_the_lake_is_read_at_one_position_and_holds_the_warehouse_s_rows_of_its_date(
    with_lake: str, warehouse: psycopg.Connection, walk: Walk
) -> None:
    newest = max(one.business_date for one in compared_cuts(SYNC) if one.business_date)
    (cut,) = [one for one in compared_cuts(SYNC) if (one.destination, one.business_date) == (LAKE, newest)]
    tables = open_sync(SYNC, destination=LAKE, at=newest)
    assert (tables.cut, tables.position) == (tag_of(newest), cut.position)
    sums = tables["ledger_entry"].arrow().group_by(["account_id", "currency"]).aggregate([("amount", "sum")])
    assert rows_of(tables[DERIVED].arrow(), "account_id", "currency", "amount") == rows_of(sums, *sums.column_names)
    # Nobody writes into a date that has ended, so it does not matter that each cut has a position of its own.
    of_date = tables["payment_order"].arrow().filter(pc.field("business_date") == newest)
    published = warehouse.execute(
        "SELECT id, amount FROM settlement_cut.payment_order_current WHERE cut_business_date = %s", [newest]
    )
    assert rows_of(of_date, "id", "amount") == sorted(published) != []
    walks.a_lake_is_read(walk, newest)
    walks.what_changed_is_read(walk, newest)
    walks.a_database_is_read(walk, newest)


def test_no_log_no_command_line_and_no_stored_plan_shows_a_secret(with_lake: str) -> None:
    layout = Layout(settings.load())
    assert leaked_secrets(layout) == []
    planted = layout.logs / "planted.log"
    planted.write_text(f"password={password('viewer')}\n", encoding="utf-8")
    registry.platform().raise_alarm("planted", "planted", credentials.load_or_make(layout)["warehouse"])
    output = leaked_secrets(layout)
    planted.unlink()
    registry.platform().end_alarm("planted", "planted")
    assert f"{planted}: airflow_user_viewer" in output
    assert any(one.startswith("seamline.") and one.endswith(": warehouse") for one in output)


def test_a_stack_killed_at_once_under_writers_comes_back_by_up_and_every_live_table_matches(
    demo: subprocess.CompletedProcess[str],
) -> None:
    # Airflow takes a run whose task was killed up again only after a minute or two, and ours would wait behind it.
    wait_until(no_comparison_is_at_work, timeout_s=RECONCILE_WITHIN_S, what="the comparisons after the cuts to end")
    rows = wait_until_written()
    old_hosts = {report.host for report in stream_reports()}
    kill_everything(Layout(settings.load()))

    for command in (["up"], ["up", "--only", "bank_writers"]):
        answer = seamline(*command, within_s=UP_WITHIN_S)
        assert answer.returncode == 0, answer.stdout + answer.stderr
    wait_until_written()
    wait_until(
        lambda: all(one.state == "streaming" and one.host not in old_hosts for one in stream_reports()),
        timeout_s=UP_WITHIN_S,
        what="the streams of a new host to be at the end of the log",
    )
    for found in compare_live_tables(WITH_LAKE).values():
        verdicts = {table.table: table.verdict for table in found.tables}
        assert verdicts == dict.fromkeys(LIVE_TABLES, Verdict.MATCH), found
        (entries,) = [table for table in found.tables if table.table == "ledger_entry"]
        assert entries.source_rows == entries.destination_rows
        assert (entries.source_rows or 0) > rows


def test_a_foreign_database_of_fifty_tables_is_proven_in_six_commands_and_ten_minutes(
    demo: subprocess.CompletedProcess[str], walk: Walk
) -> None:
    """From the first connection to MATCH, by docs/how-to/your-own-database.md; rows are few."""
    foreign.make()
    began = time.monotonic()
    walks.own_database_is_onboarded(walk)
    assert time.monotonic() - began < 600
    (live,) = compared_live("positions")
    assert len(live.tables) == foreign.KEYED + foreign.KEYLESS
    assert {table.source_rows for table in live.tables} == {foreign.ROWS}


def test_a_backfill_is_paused_continued_and_cancelled_as_its_page_shows(
    demo: subprocess.CompletedProcess[str], walk: Walk
) -> None:
    """The date that runs goes on behind it, so this stands where nothing follows that asks for dates."""
    first, second, *_ = sorted({one.business_date for one in compared_cuts(SYNC) if one.business_date})
    walks.a_backfill_is_cancelled(walk, first, second)


def test_down_leaves_no_process(demo: subprocess.CompletedProcess[str]) -> None:
    layout = Layout(settings.load())
    assert processes_with_files_in(layout.data), "found without the marks by which `down` finds them"
    assert seamline("down", within_s=120).returncode == 0
    assert leftovers.processes(layout) == ()
    assert processes_with_files_in(layout.data) == []


def processes_with_files_in(folder: Path) -> list[str]:
    """Those that work there, name a file of it on their command line, or hold one open."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            said = [*process.cmdline(), process.cwd(), *(file.path for file in process.open_files())]
            if process.pid != os.getpid() and any(str(folder) in text for text in said):
                found.append(" ".join(process.cmdline())[:200])
    return found


def tag_of(day: date | None) -> str:
    """Of the first version of a date's cut."""
    assert day is not None
    return f"cut_{day:%Y_%m_%d}_v1"


def rows_of(table: pa.Table, *columns: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.select(columns).to_pylist())


def matched(found: Reconciliation) -> set[str]:
    return {table.table for table in found.tables if table.verdict is Verdict.MATCH}


def no_comparison_is_at_work() -> bool:
    with AirflowRest(address(), "operator", password("operator")) as airflow:
        return all(run.state in FINISHED for run in airflow.runs(f"{SYNC}__reconcile"))


def stream_reports() -> list[StreamReport]:
    reports = [one for one in registry.director().latest_reports().values() if one.stream.sync == SYNC]
    assert len(reports) == len(WITH_LAKE)
    return reports


def wait_until_written() -> int:
    """Until the bank's writers have committed something more. How many ledger entries there were before."""
    before = wait_until(lambda: max(ledger_entries(), 0), timeout_s=30, what="the bank's server to answer")
    wait_until(lambda: ledger_entries() > before, timeout_s=30, what="the bank's writers to write")
    return before


def ledger_entries() -> int:
    """How many there are; -1 while the bank's server does not answer, with what its log said last."""
    try:
        with bank() as session, session.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM ledger_entry")
            row = cursor.fetchone()
    except pymysql.err.OperationalError as exc:
        log = log_tail(Layout(settings.load()), "mariadb", lines=40)
        print(f"{datetime.now(UTC)}: the bank's server does not answer ({exc}):", *log, sep="\n  ")
        return -1
    return int(row[0]) if row else 0


def kill_everything(layout: Layout) -> None:
    """As a machine that loses its power, but for the disk's cache: nobody gets to say a last word."""
    victims = leftovers.processes(layout)
    # The keeper first: it must not bring anything back in between.
    for pid in [supervisor.pid_of(layout), *(victim.pid for victim in victims)]:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)

    def nothing_is_left() -> bool:
        # Something may have been started between the look and its parent's death.
        leftovers.kill(leftovers.processes(layout))
        return not leftovers.processes(layout)

    wait_until(nothing_is_left, timeout_s=30, what="everything to be dead")


def bank() -> "pymysql.Connection[pymysql.cursors.Cursor]":
    at = connections.resolve("bank_app")
    return pymysql.connect(host=at.host, port=at.port, user=at.login, password=at.password, database=at.database)
