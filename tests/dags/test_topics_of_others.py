"""A sync whose source is topics of others, by its DAGs alone: onboarded, streamed by a stream host, cut, compared. Its
drivers are real processes, its capture runs in Connect."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest

from seamline import registry, settings
from seamline.adapters.connections import Connection
from seamline.domain.runs import Scope
from seamline.domain.verdict import BreakType, Verdict
from tests.conftest import RunningStack
from tests.dags.platform_known import platform_known
from tests.dags.real_drivers import find_spark
from tests.dags.test_dag_run import dag_of
from tests.integration.captured_topics import TABLES, TopicsCaptured, captured_topics, envelope, key
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.integration.platform_database import Server
from tests.spark.hosts import session_of

NAME, SYNC = "topics_dag", "topics_night"
WAREHOUSE = f"{NAME}_warehouse"
DAY = (datetime.now(UTC) - timedelta(days=1)).date()
DESTINATION = f"""\
destination: warehouse
kind: postgres
connection: {WAREHOUSE}
writer_connection: {WAREHOUSE}_writer
schema: night
"""
DECLARED = f"""\
sync: {SYNC}
source: {NAME}
destinations: [warehouse]
tables: [{{name: account, business_date: {{column: opened, as: date}}}}, rate, note]
nightly: {{timezone: UTC, as_of_max: 26h}}
reconcile: {{control_totals: [{{table: account, sum: balance}}]}}
"""


@dataclass(frozen=True)
class Night:
    topics: TopicsCaptured
    warehouse: Connection
    checkout: Path

    def run(self, kind: str, **conf: str) -> tuple[str, dict[str, str]]:
        """How the run of this DAG ended, and its tasks."""
        dag = dag_of(self.checkout, f"{SYNC}__{kind}")
        # `dag.test()` of a DAG with a deadline fails in Airflow's own database.
        dag.deadline = None
        run = dag.test(run_conf=conf)
        return str(run.state), {task.task_id: str(task.state) for task in run.get_task_instances()}

    def write(self, first: int) -> None:
        """Accounts of which every third goes again, all of `DAY`; a rate and a note for each."""
        producer, days = self.topics.producer(), (DAY - date(1970, 1, 1)).days
        for number in range(first, first + 30):
            row = (number, number * 100 + 7, days, "户名")
            producer.produce("topics-test.account", envelope("c", None, row), key(number))
            if number % 3 == 0:
                producer.produce("topics-test.account", envelope("d", row, None), key(number))
            rate = f'{{"currency":"A{number % 7:02}","rate":{number}.5,"at":1764400000123}}'
            producer.produce("topics-test.rate", rate, f"A{number % 7:02}")
            producer.produce("topics-test.note", f'{{"number":{number},"text":"余额"}}')
        assert producer.flush(60) == 0

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(postgres(self.warehouse)) as session:
            found = session.execute(statement.encode())
            return found.fetchall() if found.description else []


@pytest.fixture(scope="module")
def night(
    stack: RunningStack,
    checkout: Path,
    airflow_home: Path,
    airflow_database: Path,
    _platform_of_drivers: tuple[Server, RunningStack],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Night]:
    folder = tmp_path_factory.mktemp("topics")
    with ExitStack() as around:
        patch = around.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SEAMLINE_DATA", str(airflow_home / "data"))
        find_spark(stack, patch)
        around.enter_context(platform_known(*_platform_of_drivers))
        topics = around.enter_context(captured_topics(NAME))
        warehouse = around.enter_context(postgres_database(WAREHOUSE))
        around.enter_context(destination_known_by_id(warehouse, WAREHOUSE))
        declare(folder / "declared")
        patch.setenv("SEAMLINE_DECLARATIONS", str(folder / "declared"))
        around.enter_context(stream_host(checkout, folder / "host.log"))
        yield Night(topics, warehouse, checkout)


def declare(folder: Path) -> None:
    for name, text in {
        f"sources/{NAME}": f"source: {NAME}\nkind: kafka\nconnection: kafka\ntables: {json.dumps(TABLES)}\n",
        "destinations/warehouse": DESTINATION,
        f"syncs/{SYNC}": DECLARED,
    }.items():
        file = folder / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@contextmanager
def stream_host(checkout: Path, log: Path) -> Iterator[None]:
    """As the local stack has one: a process with one Spark application."""
    with log.open("wb") as output:
        host = subprocess.Popen(
            [sys.executable, str(checkout / "spark_jobs" / "stream_host.py"), "--slots", "1"],
            env=settings.process_environment(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield
        finally:
            for process in session_of(host.pid):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            host.wait(timeout=20)


def test_topics_are_onboarded_and_streamed_by_their_dag(night: Night) -> None:
    night.write(1)
    stages = ("preflight", "capture", "snapshot", "publish", "start_stream", "cutover", "reconcile", "enable")
    assert night.run("onboard") == ("success", dict.fromkeys(stages, "success"))


def test_a_night_of_topics_is_proven_and_published_by_its_dag(night: Night) -> None:
    """Behind the onboarding."""
    night.write(101)
    ended, tasks = night.run("nightly", business_date=DAY.isoformat())
    assert ended == "success", tasks
    with closing(registry.platform()) as store:
        (cut,) = store.cuts(SYNC, DAY)
        found = store.reconciliation(cut.run_id, Scope.CUT, "warehouse")
    assert found is not None
    assert [(one.table, one.verdict, one.source_rows) for one in found.tables] == [
        ("account", Verdict.MATCH, 40), ("rate", Verdict.MATCH, 7), ("note", Verdict.MATCH, 60)
    ]  # fmt: skip
    assert str(found.position).startswith("offsets ")
    kept = [number for first in (1, 101) for number in range(first, first + 30) if number % 3]
    total = sum(Decimal(number * 100 + 7) / 100 for number in kept)
    assert night.ask("SELECT count(*), sum(balance) FROM night.account_proven") == [(len(kept), total)]


def test_a_row_of_topics_that_was_changed_behind_the_stream_is_named_by_the_dag_that_compares(night: Night) -> None:
    """Behind the onboarding."""
    night.ask("UPDATE night.account SET balance = balance + 1 WHERE id = 2")
    ended, tasks = night.run("reconcile")
    assert (ended, tasks["compare"]) == ("failed", "success"), tasks
    with closing(registry.platform()) as store:
        newest = store.live_reconciliations(SYNC, 1)[0]
    assert {one.table: one.verdict for one in newest.tables} == {
        "account": Verdict.BREAK, "rate": Verdict.MATCH, "note": Verdict.MATCH
    }  # fmt: skip
    breaks = [(one.type, one.key) for one in newest.tables[0].breaks]
    assert breaks == [(BreakType.VALUE, '{"id": "2"}')]
