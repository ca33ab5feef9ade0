"""The demo as a person runs it, at reduced size, on its own data folder and ports; then a second sync, from PostgreSQL,
three planted differences, the demo once more with a lake, and at the end the whole stack killed at once."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

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
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import BreakType, Verdict
from seamline.ports import StreamReport
from seamline.reading import open_sync
from seamline.stack import credentials, leftovers, supervisor
from seamline.stack.boot import log_tail
from seamline.stack.layout import Layout
from tests.documented import looking_blocks
from tests.e2e import brokerage, foreign
from tests.e2e.leaked_secrets import leaked_secrets
from tests.waiting import wait_until

DEMO_WITHIN_S = 1200
UP_WITHIN_S = 300
RECONCILE_WITHIN_S = 300
# An answer is waited for as long as a busy machine may need; httpx by itself gives up after 5 s.
ANSWER_WITHIN_S = 60
SYNC = "settlement"
DESTINATIONS = ("archive", "warehouse")
LAKE = "lake"
WITH_LAKE = ("archive", LAKE, "warehouse")
LIVE_TABLES = ("account", "ledger_entry", "payment_order", "access_audit")
DERIVED = "daily_balance"
# The first command that fails ends a block. One that reports something red, as a date that is missing, has not failed.
STRICT = """trap 'code=$?; case "$BASH_COMMAND:$code" in "./seamline status"*:1) ;; *) exit $code ;; esac' ERR
"""


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
def deleted(demo: subprocess.CompletedProcess[str]) -> int:
    """The ledger entry that the warehouse lacks, one of the three differences that are planted there."""
    with warehouse_session() as session:
        return plant_differences(session)


@pytest.fixture(scope="module")
def with_lake(deleted: int) -> subprocess.CompletedProcess[str]:
    """A second demo, on what the first has left, once the planted differences are mended: the lake joins the sync."""
    with warehouse_session() as session:
        mend_planted_differences(session)
    return seamline("demo", "--size", "small", "--with", LAKE, within_s=DEMO_WITHIN_S)


@pytest.fixture
def warehouse(demo: subprocess.CompletedProcess[str]) -> Iterator[psycopg.Connection]:
    with warehouse_session() as session:
        yield session


def warehouse_session() -> psycopg.Connection:
    at = connections.resolve("warehouse")
    return psycopg.connect(
        host=at.host, port=at.port, user=at.login, password=at.password, dbname=at.database, autocommit=True
    )


def address() -> str:
    return f"http://127.0.0.1:{settings.load().ports.airflow}"


def ask_airflow(method: str, path: str, **request: Any) -> httpx.Response:
    """Each request stands by itself: no cookie that an answer sets proves anything with the next."""
    return httpx.request(
        method, address() + path, timeout=ANSWER_WITHIN_S, trust_env=False, follow_redirects=True, **request
    )


def password(user: str) -> str:
    return credentials.load_or_make(Layout(settings.load()))[f"airflow_user_{user}"]


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
    demo: subprocess.CompletedProcess[str], checkout: Path
) -> None:
    pages = [checkout / "README.md", *sorted((checkout / "docs").rglob("*.md"))]
    shown = {block: page for page in pages for block in looking_blocks(page)}
    assert len(shown) > 4
    for block, page in shown.items():
        ended = subprocess.run(
            ["bash", "-uc", STRICT + block], cwd=checkout, capture_output=True, text=True, timeout=120, check=False
        )
        assert ended.returncode == 0, (page, block, ended.stdout[-2000:], ended.stderr[-2000:])


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


def test_dates_that_are_done_are_kept_and_one_is_made_again_from_the_command_line(
    demo: subprocess.CompletedProcess[str],
) -> None:
    first, second, _ = sorted({one.business_date for one in compared_cuts(SYNC) if one.business_date})
    asked = ("--reason", "trying it", "--json")
    kept = seamline("backfill", SYNC, str(first), str(second), *asked, within_s=RECONCILE_WITHIN_S)
    assert kept.returncode == 0, kept.stdout + kept.stderr
    dates = json.loads(kept.stdout)["dates"]
    assert [(one["business_date"], one["version"]) for one in dates] == [(str(first), 1), (str(second), 1)]
    again = seamline("cut", SYNC, str(first), *asked, within_s=RECONCILE_WITHIN_S)
    assert again.returncode == 0, again.stdout + again.stderr
    (made,) = json.loads(again.stdout)["dates"]
    assert (made["verdict"] in ("MATCH", "PARTIAL"), made["version"]) == (True, 2)
    with AirflowRest(address(), "viewer", password("viewer")) as airflow:
        notes = [airflow.run(f"{SYNC}__nightly", run["run"]).note for run in (dates[0], made)]
    assert all(note.endswith(": trying it") for note in notes), notes


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


def test_every_published_cut_is_followed_by_a_comparison_of_the_live_tables(
    demo: subprocess.CompletedProcess[str],
) -> None:
    """Nobody asks for it: the cut's asset starts it."""

    def dates(found: Iterable[Reconciliation]) -> set[date | None]:
        return {one.business_date for one in found}

    wait_until(
        lambda: dates(compared_cuts(SYNC)) <= dates(compared_live(SYNC)),
        timeout_s=RECONCILE_WITHIN_S,
        what="the comparisons",
    )
    assert len(dates(compared_cuts(SYNC))) == 3


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
    yesterday = datetime.now(ZoneInfo("Asia/Shanghai")).date() - timedelta(days=1)
    with brokerage.trading():
        onboarded = seamline("onboard", brokerage.SYNC, "--json", within_s=RECONCILE_WITHIN_S)
        assert onboarded.returncode == 0, onboarded.stdout + onboarded.stderr
        assert json.loads(onboarded.stdout)["verdict"] == "MATCH"
        assert run(f"{brokerage.SYNC}__nightly", "cut", partition_key=str(yesterday)) == "success"
    (cut,), (live, *before) = compared_cuts(brokerage.SYNC), compared_live(brokerage.SYNC)
    assert {one.verdict for one in (cut, live, *before)} == {Verdict.MATCH}
    assert {table.table for table in cut.tables} == {*brokerage.TABLES, "daily_turnover"}
    assert {table.table for table in live.tables} == set(brokerage.TABLES)
    assert all(table.source_rows and table.source_rows == table.destination_rows for table in live.tables)


def test_tables_enter_and_leave_the_second_sync_while_its_stream_goes_on(
    demo: subprocess.CompletedProcess[str],
) -> None:
    brokerage.declare_fees()
    with brokerage.trading():
        assert run(f"{brokerage.SYNC}__tables", "fees") == "success"
    (live,) = registry.platform().live_reconciliations_named(brokerage.SYNC, "fees")
    assert live.verdict is Verdict.MATCH
    assert {table.table for table in live.tables} == {"account", "trade", "fill", "fee"}


def test_a_destination_that_is_declared_later_joins_while_the_others_stream_goes_on(
    demo: subprocess.CompletedProcess[str],
) -> None:
    """From PostgreSQL into MariaDB."""
    brokerage.declare_archive()
    stream = StreamId(brokerage.SYNC, "brokerage_warehouse")
    before = registry.director().latest_reports()[stream]
    with brokerage.trading():
        assert run(f"{brokerage.SYNC}__onboard", "late") == "success"
        assert run(f"{brokerage.SYNC}__reconcile", "both") == "success"
    (joined,) = registry.platform().live_reconciliations_named(brokerage.SYNC, "late")
    assert (joined.destination, joined.verdict) == (brokerage.LATE, Verdict.MATCH)
    both = registry.platform().live_reconciliations_named(brokerage.SYNC, "both")
    assert {one.destination: one.verdict for one in both} == {
        "brokerage_warehouse": Verdict.MATCH,
        brokerage.LATE: Verdict.MATCH,
    }
    after = registry.director().latest_reports()[stream]
    assert after.epoch == before.epoch, "the stream of the other destination was not started again"


def test_three_planted_differences_are_listed_and_nothing_else(deleted: int) -> None:
    of_each = compare_live_tables(DESTINATIONS)
    assert of_each["archive"].verdict is Verdict.MATCH
    found = of_each["warehouse"]
    assert found.verdict is Verdict.BREAK
    breaks = {(one.table, one.type, json.loads(one.key)["id"]) for table in found.tables for one in table.breaks}
    assert breaks == {
        ("account", BreakType.VALUE, "7"),
        ("ledger_entry", BreakType.MISSING, str(deleted)),
        ("payment_order", BreakType.UNEXPECTED, "-1"),
    }
    assert sum(table.breaks_total for table in found.tables) == 3


def test_the_page_is_behind_the_login_and_says_break(deleted: int) -> None:
    page = "/seamline/page"
    assert ask_airflow("GET", page).status_code == httpx.codes.UNAUTHORIZED
    led = ask_airflow("GET", page, headers={"Accept": "text/html"})
    assert (led.status_code, led.url.path) == (httpx.codes.OK, "/auth/login")
    assert led.url.params["next"] == page
    login = {"username": "viewer", "password": password("viewer")}
    token = ask_airflow("POST", "/auth/token", json=login).json()["access_token"]
    # By the header, as a program does, and by the cookie that a browser has from Airflow's own login.
    for proof in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"_token={token}"}):
        answer = ask_airflow("GET", page, headers=proof)
        assert answer.status_code == httpx.codes.OK
        assert "BREAK" in answer.text


def test_a_second_demo_works_on_what_is_there_and_a_lake_joins_it(
    demo: subprocess.CompletedProcess[str], with_lake: subprocess.CompletedProcess[str]
) -> None:
    assert with_lake.returncode == 0, with_lake.stdout[-6000:] + with_lake.stderr[-3000:]
    assert "All agree." in with_lake.stdout
    assert "is there already" in with_lake.stdout
    assert "the bank is filled" in demo.stdout
    assert "the bank is filled" not in with_lake.stdout


def test_each_cut_in_the_lake_is_compared_and_listed_as_a_tag_of_its_tables(
    with_lake: subprocess.CompletedProcess[str],
) -> None:
    of_date = {one.business_date: one for one in compared_cuts(SYNC) if one.destination == LAKE}
    assert len(of_date) == 3 and {one.verdict for one in of_date.values()} == {Verdict.MATCH}
    listed = dict(re.findall(r"^  (\w+) +snapshot \d+, tags (.+)$", with_lake.stdout, re.MULTILINE))
    assert {table: set(tags.split(", ")) for table, tags in listed.items()} == {
        table: {tag_of(day) for day, cut in of_date.items() if table in matched(cut)}
        for table in (*LIVE_TABLES, DERIVED)
    }


def test_a_cut_of_the_lake_is_read_at_one_position_and_holds_the_warehouse_s_rows_of_its_date(
    with_lake: subprocess.CompletedProcess[str], warehouse: psycopg.Connection
) -> None:
    newest = max(one.business_date for one in compared_cuts(SYNC) if one.business_date)
    (cut,) = [one for one in compared_cuts(SYNC) if (one.destination, one.business_date) == (LAKE, newest)]
    tables = open_sync(SYNC, at=newest)
    assert (tables.cut, tables.position) == (tag_of(newest), cut.position)
    sums = tables["ledger_entry"].arrow().group_by(["account_id", "currency"]).aggregate([("amount", "sum")])
    assert rows_of(tables[DERIVED].arrow(), "account_id", "currency", "amount") == rows_of(sums, *sums.column_names)
    # Nobody writes into a date that has ended, so it does not matter that each cut has a position of its own.
    of_date = tables["payment_order"].arrow().filter(pc.field("business_date") == newest)
    published = warehouse.execute(
        "SELECT id, amount FROM settlement_cut.payment_order_current WHERE cut_business_date = %s", [newest]
    )
    assert rows_of(of_date, "id", "amount") == sorted(published) != []


def test_no_log_no_command_line_and_no_stored_plan_shows_a_secret(with_lake: subprocess.CompletedProcess[str]) -> None:
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
    demo: subprocess.CompletedProcess[str],
) -> None:
    """From the first connection to MATCH, as docs/how-to/your-own-database.md has it; rows are few."""
    foreign.make()
    began = time.monotonic()
    for login, database in ((foreign.LOGIN, foreign.DATABASE), (foreign.KEEPER, foreign.WAREHOUSE)):
        known_as, password = database, f"pw-{login}\n"
        added = seamline("connect", "add", known_as, foreign.url(login, database), within_s=60, typed=password)
        assert added.returncode == 0, added.stdout + added.stderr
    asked = ("--from", foreign.DATABASE, "--to", foreign.WAREHOUSE, "--timezone", "Europe/Berlin", "--yes", "--json")
    proposed = seamline("init", "orders", *asked, within_s=60)
    assert proposed.returncode == 0, proposed.stdout + proposed.stderr
    for name in (foreign.DATABASE, foreign.WAREHOUSE):
        foreign.run(name, seamline("grants", name, within_s=60).stdout)
    onboarded = seamline("onboard", "orders", "--wait", "2", "--json", within_s=600)
    assert onboarded.returncode == 0, onboarded.stdout + onboarded.stderr
    assert json.loads(onboarded.stdout)["verdict"] == "MATCH"
    assert time.monotonic() - began < 600
    (live,) = compared_live("orders")
    assert len(live.tables) == foreign.KEYED + foreign.KEYLESS
    assert {table.source_rows for table in live.tables} == {foreign.ROWS}


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


def plant_differences(warehouse: psycopg.Connection) -> int:
    """A value, a row that is missing and one too many. The id of the missing one."""
    found = warehouse.execute("SELECT min(id) FROM settlement.ledger_entry").fetchone()
    assert found is not None
    warehouse.execute("UPDATE settlement.account SET balance = balance + 0.0001 WHERE id = 7")
    warehouse.execute("DELETE FROM settlement.ledger_entry WHERE id = %s", found)
    warehouse.execute(
        "INSERT INTO settlement.payment_order SELECT -1, account_id, currency, amount, status, business_date,"
        " reference, created_at FROM settlement.payment_order WHERE id = 1"
    )
    return int(found[0])


def mend_planted_differences(warehouse: psycopg.Connection) -> None:
    """Put back by hand what the test has planted: the destination is its own to change."""
    warehouse.execute("UPDATE settlement.account SET balance = balance - 0.0001 WHERE id = 7")
    warehouse.execute("DELETE FROM settlement.payment_order WHERE id = -1")
    with bank() as session, session.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(
            "SELECT id, transfer_id, account_id, currency, amount, booked_at, memo FROM ledger_entry LIMIT 1"
        )
        row = cursor.fetchone()
    warehouse.execute("SET TimeZone = 'UTC'")
    warehouse.execute("INSERT INTO settlement.ledger_entry VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
