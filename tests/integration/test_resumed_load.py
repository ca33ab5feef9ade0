"""A load whose process is killed at 80 %, and what the next attempt of its run makes of that, on real servers."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.adapters.failpoints import ArmedFailpoints
from seamline.bulk.copy import Copied, copy_one
from seamline.bulk.read import RunReader
from seamline.bulk.resume import Resumes, SplitLoads
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import TransientError
from seamline.domain.made_from import MadeFrom
from seamline.domain.row_transform import Expression, RowTransform
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import BusinessDate, Run
from seamline.sync.onboard import publish
from tests.conftest import RunningStack
from tests.integration.captured import AUDIT as MYSQL_AUDIT
from tests.integration.captured import Captured, captured
from tests.integration.captured_mysql import captured_mysql
from tests.integration.captured_postgres import ACCOUNT, AUDIT, FULL, captured_postgres
from tests.integration.databases import mariadb, postgres, postgres_database
from tests.integration.interrupted_load import ROWS, SPLITS, SPLITTING, load_as_its_job
from tests.integration.into_mariadb import plan_of, warehouse_in_mariadb
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.nights import Nights, nights_of
from tests.integration.snapshot_run import Records, run_of
from tests.once_more import ONCE_MORE
from tests.waiting import wait_until

TABLES = ("account", "audit")
DONE = SPLITS * 8 // 10 + 1
# The table without a key is read first, for it is said to be the largest.
KILLED_BEHIND = DONE + 1
# Read whole, a table is cut for the date that has just ended.
DAY = datetime.now(UTC).date() - timedelta(days=1)
EARLIER = DAY - timedelta(days=7)
FILLED = "INSERT INTO account VALUES " + ", ".join(f"({one}, {one % 7}, 'row {one}')" for one in range(1, ROWS + 1))
# Of rows whose splits are done, of such that are not, and of both.
MEANWHILE = (
    "UPDATE account SET memo = 'later' WHERE id BETWEEN 90 AND 410",
    "DELETE FROM account WHERE id IN (7, 8, 1599)",
    "INSERT INTO account VALUES (0, 1, 'below all'), (5000, 2, 'above all')",
    "UPDATE account SET id = 6000 WHERE id = 20",
    "UPDATE account SET id = 21000 - 20980 WHERE id = 1598",
    "UPDATE account SET id = 1598 WHERE id = 30",
    # Out of what the second destination holds, and into it.
    "UPDATE account SET a = 3 WHERE id IN (501, 1590)",
    "UPDATE account SET a = 4 WHERE id = 3",
)
OF_TWO_COLUMNS = "CREATE TABLE account (id BIGINT, a INT, memo VARCHAR(200), PRIMARY KEY (id, a))"
AUDITS = "INSERT INTO audit VALUES (1, 'x'), (1, 'x'), (2, 'gone'), (3, 'y'), (3, 'y')"
AUDITS_MEANWHILE = (
    "INSERT INTO audit VALUES (1, 'x'), (9, 'later'), (9, 'later')",
    "DELETE FROM audit WHERE a = 2",
    "UPDATE audit SET a = 4 WHERE a = 3",
    # Equal to those that are there already.
    "UPDATE audit SET a = 1, memo = 'x' WHERE a = 4",
)
POSTING = "CREATE TABLE posting (booked DATE, memo VARCHAR(20))"
POSTINGS = (
    f"INSERT INTO posting VALUES ('{DAY}', 'x'), ('{DAY}', 'x'), ('{DAY}', 'out'),"
    f" ('{EARLIER}', 'in'), ('{EARLIER}', 'gone'), (NULL, 'never')"
)
POSTINGS_MEANWHILE = (
    f"INSERT INTO posting VALUES ('{DAY}', 'x'), ('{EARLIER}', 'late')",
    f"UPDATE posting SET booked = '{EARLIER}' WHERE memo = 'out'",
    f"UPDATE posting SET booked = '{DAY}' WHERE memo = 'in'",
    # Of rows that are not staged, which nothing is to be taken from.
    "DELETE FROM posting WHERE memo = 'gone'",
    "UPDATE posting SET memo = 'nowhere' WHERE booked IS NULL",
)


def tenfold(account: Table) -> RowTransform:
    """What preflight finds its text to mean."""
    text = "SELECT id, a, a * 10 AS tenfold FROM account WHERE a <> 3"
    read, of = Expression("column", "int", value="a"), partial(Expression, "literal", "int")
    made = Column("tenfold", Kind.INTEGER, "int", length=32)
    target = Table("account", (account.column("id"), account.column("a"), made), account.key)
    columns = (Expression("column", "bigint", value="id"), read, Expression("multiply", "int", (read, of(value="10"))))
    condition = Expression("not", "boolean", (Expression("equal", "boolean", (read, of(value="3"))),))
    return RowTransform("include/transforms/account.sql", text, target, columns, condition)


@dataclass
class World:
    bank: Captured
    run: Run
    folder: Path
    query: Callable[[str], list[tuple[Any, ...]]]
    query_second: Callable[[str], list[tuple[Any, ...]]]

    def killed(self) -> None:
        """An attempt that stands at 80 % when its process and all of its children are killed."""
        (self.folder / "plan.json").write_text(plan_to_json(self.run.plan), encoding="utf-8")
        (self.folder / "run_id").write_text(self.run.run_id, encoding="utf-8")
        log = (self.folder / "log").open("w")
        command = [sys.executable, "-m", "tests.integration.interrupted_load", str(self.folder), str(KILLED_BEHIND)]
        with log, subprocess.Popen(command, stderr=log, start_new_session=True) as process:
            try:
                wait_until(lambda: self.done(process) == KILLED_BEHIND, timeout_s=90, what="80 % of the splits")
            finally:
                os.killpg(process.pid, signal.SIGKILL)

    def done(self, process: "subprocess.Popen[bytes]") -> int:
        assert process.poll() is None, (self.folder / "log").read_text()
        (there,) = self.query("SELECT count(*) FROM information_schema.tables WHERE table_name = 'staged_split'")
        (noted,) = self.query("SELECT count(*) FROM bank_stage.staged_read") if there[0] else ((0,),)
        if not noted[0]:
            return 0
        ((found,),) = self.query("SELECT count(*) FROM bank_stage.staged_split WHERE row_count > 0")
        return int(found)


@pytest.fixture(params=["postgres", "mysql", pytest.param("mariadb", marks=ONCE_MORE)])
def world(request: pytest.FixtureRequest, stack: RunningStack, tmp_path: Path) -> Iterator[World]:
    """Into PostgreSQL (`warehouse`) and MariaDB (`second`), which holds one table transformed. In MySQL the key of that
    one has two columns."""
    server = request.getfixturevalue("mysql_root") if request.param == "mysql" else None
    with world_of(request.param, tmp_path, server) as one:
        yield one


@contextmanager
def world_of(kind: str, folder: Path, server: Connection | None) -> Iterator[World]:
    name = f"resumed_{kind}"
    warehouse = destination_plan(f"{name}_warehouse", "bank")
    with ExitStack() as around:
        connection = around.enter_context(postgres_database(warehouse.connection))
        around.enter_context(destination_known_by_id(connection, warehouse.connection))
        bank: Captured
        if server is not None:
            bank = around.enter_context(captured_mysql(server, name, create=(OF_TWO_COLUMNS, MYSQL_AUDIT)))
        elif kind == "mariadb":
            bank = around.enter_context(captured(name))
        else:
            bank = around.enter_context(captured_postgres(name, create=(ACCOUNT, AUDIT, FULL), tables=TABLES))
        second = replace(plan_of(f"{name}_second"), name="second")
        other = around.enter_context(warehouse_in_mariadb(second.namespace))
        bank.plan = replace(bank.with_tables(*TABLES), destinations=(warehouse, second))
        bank.ensure()
        bank.execute(FILLED, AUDITS)
        run = run_of(bank, TABLES)
        sized = [replace(one, table=replace(one.definition, rows_estimate=ROWS)) for one in run.plan.tables]
        second = replace(second, transforms=(("account", tenfold(run.plan.table("account").definition)),))
        run = replace(run, plan=replace(run.plan, tables=tuple(sized), destinations=(warehouse, second)))

        def query(statement: str) -> list[tuple[Any, ...]]:
            with postgres(connection) as session:
                return session.execute(statement.encode()).fetchall()

        def query_second(statement: str) -> list[tuple[Any, ...]]:
            with closing(mariadb(other)) as session, session.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())

        yield World(bank, run, folder, query, query_second)


def rows_copied(patch: pytest.MonkeyPatch) -> list[Copied]:
    """What tasks read from now on."""
    found: list[Copied] = []
    loads = SplitLoads.loads

    def seen(self: SplitLoads, destination: Any, copied: Any, tables: Any) -> Any:
        found.extend(copied)
        return loads(self, destination, copied, tables)

    patch.setattr(SplitLoads, "loads", seen)
    return found


def bringing_forward_twice(patch: pytest.MonkeyPatch) -> list[str]:
    """As an attempt that was thought dead does it beside the one that goes on. The tables that it has tried."""
    tried: list[str] = []
    bring_forward = SplitLoads._bring_forward

    def twice(self: SplitLoads, one: Any, name: str, since: Any) -> None:
        bring_forward(self, one, name, since)
        tried.append(name)
        with pytest.raises(TransientError, match="were brought forward by another attempt meanwhile"):
            bring_forward(self, one, name, since)

    patch.setattr(SplitLoads, "_bring_forward", twice)
    return tried


def test_a_load_that_is_killed_at_80_percent_goes_on_and_is_the_source_at_its_position(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world.killed()
    world.bank.execute(*MEANWHILE, *AUDITS_MEANWHILE)
    copied, brought = rows_copied(monkeypatch), bringing_forward_twice(monkeypatch)
    # The snapshot compares every staged row with the source at its position, or fails.
    records = Records()
    load_as_its_job(world.run, records, ArmedFailpoints())
    world.run.result["snapshot"] = snapshot = records.results["snapshot"]
    read = sum(one.rows for one in copied if one.table == "account" and one.destination == "warehouse")
    assert 0 < read <= ROWS // 4, f"{read} of {ROWS} rows were read again"
    assert f"table account goes on in warehouse: {DONE} of {SPLITS} splits are staged" in caplog.text
    assert "table audit goes on in second: 1 of 1 splits are staged (5 rows), 0 are read" in caplog.text
    assert sorted(brought) == ["account", "account", "audit", "audit"]
    there = {table: sorted(world.bank.rows(table), key=repr) for table in TABLES}
    held = sorted(((number, a, a * 10) for number, a, _ in there["account"] if a != 3), key=repr)
    for destination in world.run.plan.destinations:
        staged = {load["table"]: load["rows"] for load in snapshot["loads"][destination.name]}
        of_account = held if destination.name == "second" else there["account"]
        assert staged == {"account": len(of_account), "audit": len(there["audit"])}
        with closing(registry.sink(world.run.plan, destination.name)) as sink:
            publish(world.run, destination.name, sink=sink)
    live = {table: sorted(world.query(f"SELECT * FROM bank.{table}"), key=repr) for table in TABLES}
    assert live == there
    index_of = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'bank' AND tablename = '{}'"
    assert [world.query(index_of.format(table)) for table in TABLES] == [[(1,)], [(1,)]]
    second = world.run.plan.destination("second").namespace
    assert sorted(world.query_second(f"SELECT id, a, tenfold FROM {second}.account"), key=repr) == held
    assert sorted(world.query_second(f"SELECT a, memo FROM {second}.audit"), key=repr) == there["audit"]
    assert world.query("SELECT count(*) FROM bank_stage.staged_load") == [(0,)]


@pytest.fixture
def nights(stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nights]:
    """Of MariaDB, into PostgreSQL and MariaDB: a table that is read by splits, and one without a key, by date."""
    resuming = partial(RunReader, resumes=Resumes(Records(), SPLITTING))
    monkeypatch.setattr("tests.integration.nights.RunReader", resuming)
    tables, dated = ("account", "posting"), {"posting": BusinessDate("booked", "date")}
    with nights_of("mariadb", "resumed_night", monkeypatch, create=POSTING, tables=tables, dated=dated) as one:
        one.bank.execute(FILLED, POSTINGS)
        sized = [replace(table, table=replace(table.definition, rows_estimate=ROWS)) for table in one.plan.tables]
        one.plan = replace(one.plan, tables=tuple(sized))
        one.ends[DAY] = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
        one.ends[DAY + timedelta(days=1)] = datetime.now(UTC) + timedelta(days=1)
        yield one


def interrupted(nights: Nights, name: str, instead: Callable[..., Any]) -> None:
    """A night of `DAY` that ends where something else is done; the next attempt is of the same run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name, instead)
        with pytest.raises(TransientError):
            nights.take(DAY, MadeFrom.READ)
    nights.runs -= 1


def test_a_night_whose_reading_process_is_killed_goes_on_and_finds_what_the_log_did_not_bring(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(nights, "seamline.bulk.copy.copy_one", killed_behind(KILLED_BEHIND))
    nights.bank.execute(*MEANWHILE, *POSTINGS_MEANWHILE)
    copied = rows_copied(monkeypatch)
    interrupted(nights, "seamline.sync.nightly_cut.compare_tables", lost)
    read = sum(one.rows for one in copied if one.destination == "warehouse")
    assert 0 < read <= ROWS // 4, f"{read} of {ROWS} rows were read again"
    copied.clear()
    nights.bank.execute("UPDATE account SET memo = 'once more' WHERE id IN (100, 1597)")
    for cut, found in nights.take(DAY, MadeFrom.READ).values():
        assert found.verdict is Verdict.MATCH
        staged, there = nights.staged(cut), [row for row in nights.bank.rows("posting") if row[0] == DAY]
        assert sorted(staged["account"]) == sorted(nights.bank.rows("account"))
        assert sorted(staged["posting"]) == sorted(there)
        assert len(there) == 4
    assert copied == [], "all that was staged was kept"

    interrupted(nights, "seamline.bulk.copy.copy_one", killed_behind(KILLED_BEHIND))
    nights.bank.execute("UPDATE account SET memo = 'and once more' WHERE id = 100", POSTINGS_MEANWHILE[0])
    monkeypatch.setattr(SplitLoads, "_bring_forward", lambda *_: None)
    planted = nights.take(DAY, MadeFrom.READ)
    for _, found in planted.values():
        assert {one.table: one.verdict for one in found.tables} == {"account": Verdict.BREAK, "posting": Verdict.BREAK}


def lost(*_: Any, **__: Any) -> Any:
    raise TransientError("the machine was restarted")


def killed_behind(splits: int) -> Callable[..., Any]:
    """As the process that copies dies behind so many splits."""
    copied = 0

    def counted(*given: Any) -> Any:
        nonlocal copied
        if copied == splits:
            os.kill(os.getpid(), signal.SIGKILL)
        copied += 1
        return copy_one(*given)

    return counted
