"""docs/how-to/deliver-files.md by Airflow's DAGs alone: one sync delivers to an SFTP server, and a second one waits for
the flag, takes the files and proves what it has loaded. The declarations of both sides are those of the page."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from seamline import registry
from seamline.adapters.connections import Connection
from seamline.demo.bank import SMALL, connect, fill
from seamline.domain.calendar import last_ended
from seamline.domain.cut_state import Headline
from seamline.domain.runs import Scope
from seamline.domain.verdict import Verdict
from tests import ssh_server
from tests.conftest import RunningStack
from tests.contract.file_places import said
from tests.dags.real_drivers import find_spark
from tests.dags.test_dag_run import dag_of
from tests.documented import declarations_of
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.known import destination_known_by_id, known_by_id
from tests.integration.platform_database import Server

PAGE = "docs/how-to/deliver-files.md"
NAME, ZONE = "delivered_dag", "Asia/Shanghai"
BANK, COPY = f"{NAME}_bank", f"{NAME}_copy"
# What the page takes for granted: the bank.
SOURCE = f"source: core_bank\nkind: mariadb\nconnection: {BANK}\ndatabase: {NAME}\nlog: none\n"


@dataclass(frozen=True)
class Both:
    """The two syncs, and the place between them."""

    checkout: Path
    place: Path
    bank: Connection
    copy: Connection

    def run(self, dag_id: str, **conf: str) -> tuple[str, dict[str, str]]:
        """How the run of this DAG ended, and its tasks."""
        dag = dag_of(self.checkout, dag_id)
        # `dag.test()` of a DAG with a deadline fails in Airflow's own database.
        dag.deadline = None
        run = dag.test(run_conf=conf)
        return str(run.state), {task.task_id: str(task.state) for task in run.get_task_instances()}

    def orders(self, day: date) -> tuple[Any, Any]:
        """How many and how much of the date, at the bank and in the copy."""
        asked = "SELECT count(*), sum(amount) FROM "
        with closing(mariadb(self.bank)) as session, session.cursor() as cursor:
            cursor.execute(f"{asked} payment_order WHERE business_date = %s", (day,))
            there = cursor.fetchone()
        with closing(postgres(self.copy)) as session:
            return there, session.execute(f"{asked} copy_cut.payment_order_current".encode()).fetchone()


def declare(folder: Path, checkout: Path, place: Path, staging: Path) -> None:
    """As the page has it; only places are this machine's."""
    for name, shown in {"sources/core_bank.yaml": SOURCE, **declarations_of(checkout, PAGE)}.items():
        text = shown.replace("sftp:///srv/partner/incoming", f"sftp://{place}")
        text = text.replace("/srv/seamline/staging", str(staging))
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@pytest.fixture
def both(
    stack: RunningStack, rows_of_drivers: Server, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Both]:
    find_spark(stack, monkeypatch)
    with ExitStack() as around:
        bank = around.enter_context(mariadb_database(NAME))
        around.enter_context(known_by_id(bank, BANK, "mysql"))
        with closing(connect(bank)) as session:
            fill(session, SMALL, now=datetime.now(UTC), timezone=ZONE)
        copy = around.enter_context(postgres_database(COPY))
        # The page's own name of its connection.
        around.enter_context(destination_known_by_id(copy, "copy"))
        server = around.enter_context(ssh_server.running(stack.settings))
        monkeypatch.setenv("SEAMLINE_CONNECTION_PARTNER_SFTP", said(server.connection))
        (tmp_path / "staging").mkdir()
        declare(tmp_path / "declared", checkout, server.folder, tmp_path / "staging")
        monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path / "declared"))
        yield Both(checkout, server.folder, bank, copy)


def test_a_file_with_its_flag_is_fetched_checked_and_loaded_by_the_second_sync_whose_verdict_is_match(
    airflow_database: Path, both: Both
) -> None:
    day = last_ended(datetime.now(UTC), timezone=ZONE)
    stages = dict.fromkeys(("preflight", "enable"), "success")
    assert both.run("bank_delivery__onboard") == ("success", stages)
    ended, tasks = both.run("bank_delivery__nightly", business_date=day.isoformat())
    assert ended == "success", tasks
    assert (both.place / "bank_delivery" / str(day) / "v1" / "_SUCCESS").is_file()
    assert both.run("bank_copy__onboard") == ("success", stages)
    ended, tasks = both.run("bank_copy__nightly", business_date=day.isoformat())
    assert ended == "success", tasks
    with closing(registry.platform()) as store:
        (cut,) = store.cuts("bank_copy", day)
        found = store.reconciliation(cut.run_id, Scope.CUT, "copy")
    assert found is not None
    assert (found.verdict, found.mode) == (Verdict.MATCH, "delivered")
    assert {one.table for one in found.tables} == {"ledger_entry", "payment_order"}
    assert str(found.position).startswith(f"delivery of {day} version 1, sha256 ")
    theirs, ours = both.orders(day)
    assert theirs == ours
    assert theirs[0] > 0
    again, tasks = both.run("bank_copy__nightly", business_date=day.isoformat())
    assert (again, tasks["open"], tasks["ready"]) == ("success", "success", "success")
    assert {tasks[name] for name in tasks.keys() - {"open", "ready"}} == {"skipped"}
    with closing(registry.platform()) as store:
        assert store.cuts("bank_copy", day) == (cut,), "it failed as taken already, and made the date NOT_RUN"
        (state,) = store.cut_states("bank_copy", 5)
        assert (state.headline, state.run_id) == (Headline.MATCH, cut.run_id)
    ended, tasks = both.run("bank_copy__nightly", business_date=day.isoformat(), reason="the copy was put back")
    assert ended == "success", tasks
    with closing(registry.platform()) as store:
        versions = [(one.version, one.position, one.verdict) for one in store.cuts("bank_copy", day)]
    assert versions == [(2, cut.position, Verdict.MATCH), (1, cut.position, Verdict.MATCH)]
