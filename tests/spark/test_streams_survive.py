"""Real streams under kill -9: worker and whole host die in mid-commit, and the tables are equal at the end.

A bank on MariaDB with writers at work, its capture, Kafka, the stream host, PostgreSQL: nothing is a fake.
"""

import dataclasses
import os
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import Refused
from seamline.plan.model import SyncPlan, plan_to_json
from seamline.ports import Marker
from tests.conftest import RunningStack
from tests.integration.bank_writers import Writers, writing
from tests.integration.captured import Captured, captured
from tests.integration.databases import postgres, postgres_database
from tests.spark.empty_sync import publish_empty
from tests.spark.hosts import START_S, Hosts, hosts_of, is_gone, session_of, uri
from tests.waiting import wait_until

SCRIPT = Path(__file__).parents[2] / "spark_jobs" / "stream_host.py"
NAME = "streams_survive_test"
TABLES = ("account", "audit")


@dataclasses.dataclass
class Chain:
    """One sync from its source to its destination, published and wanted."""

    bank: Captured
    plan: SyncPlan
    warehouse: Connection
    hosts: Hosts
    failpoints: Path

    @property
    def sync(self) -> str:
        return self.plan.sync

    def arm(self, text: str) -> None:
        """Written beside and renamed: the worker reads the file whenever it changes."""
        new = self.failpoints.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.rename(self.failpoints)

    def fired(self) -> Counter[str]:
        record = self.failpoints.with_name(self.failpoints.name + ".fired")
        return Counter(record.read_text(encoding="utf-8").split()) if record.exists() else Counter()

    def applied_units(self) -> int:
        with postgres(self.warehouse) as session:
            row = session.execute("select applied_units from seamline.ledger").fetchone()
        return int(row[0]) if row else 0

    def destination_rows(self, table: str) -> list[tuple[Any, ...]]:
        with postgres(self.warehouse) as session:
            return session.execute(f"select * from live.{table}").fetchall()

    def last_marker(self) -> str:
        with postgres(self.warehouse) as session:
            row = session.execute("select last_marker from seamline.ledger").fetchone()
        return str(row[0]) if row else ""

    def assert_equal_in_the_end(self) -> None:
        """Everything committed before this marker is in the destination once the marker is."""
        marker = Marker(f"barrier-{uuid.uuid4().hex}", "barrier")
        self.bank.source.commit_marker(marker)
        wait_until(lambda: self.last_marker() == marker.id, timeout_s=90, what="the last marker to be applied")
        for table in TABLES:
            source, destination = self.bank.rows(table), self.destination_rows(table)
            assert Counter(source) == Counter(destination), table


@pytest.fixture(scope="module")
def chain(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("streams")
    failpoints = folder / "failpoints"
    with (
        captured(NAME) as bank,
        postgres_database(f"{NAME}_warehouse") as warehouse,
        pytest.MonkeyPatch.context() as patch,
    ):
        connection = (f"SEAMLINE_CONNECTION_{warehouse.database.upper()}", uri(warehouse))
        patch.setenv(*connection)
        bank.ensure()
        plan = publish_empty(bank, warehouse, sync=bank.plan.sync, schema="live", tables=TABLES)
        with hosts_of(
            SCRIPT,
            folder,
            name=f"{NAME}_platform",
            SEAMLINE_FAILPOINTS_FILE=str(failpoints),
            **dict([connection]),
        ) as hosts:
            hosts.director.want(plan.stream_id("warehouse"), plan_json=plan_to_json(plan))
            yield Chain(bank, plan, warehouse, hosts, failpoints)


@pytest.fixture
def writers(chain: Chain) -> Iterator[Writers]:
    highest = max((row[0] for row in chain.bank.rows("account")), default=0)
    # A transaction that was rolled back may have used more numbers than are seen.
    with writing(chain.bank.root, tables=TABLES, first_id=highest + 1_000_000) as writers:
        yield writers
        chain.arm("")


def host_is_up(chain: Chain) -> int:
    """The host's process id; it is started where it does not run."""
    living = [host for host in chain.hosts.started if host.poll() is None]
    host = living[0] if living else chain.hosts.start("--slots", "4")
    wait_until(
        lambda: chain.hosts.state(chain.sync) in ("streaming", "catching_up"),
        timeout_s=START_S,
        what="the stream to run",
    )
    return host.pid


@pytest.mark.parametrize("place", ["app.dml_half", "app.commit_sent"])
def test_workers_killed_in_mid_commit_lose_nothing_and_double_nothing(
    chain: Chain, writers: Writers, place: str
) -> None:
    host_is_up(chain)
    chain.arm(f"{place}=kill9")
    wait_until(lambda: chain.fired()[place] >= 3, timeout_s=90, what="three workers to die there")
    chain.arm("")
    before = writers.committed
    wait_until(lambda: writers.committed > before + 50, timeout_s=30, what="writers to go on")
    writers.stop()
    chain.assert_equal_in_the_end()
    assert len(chain.destination_rows("account")) > 50


@pytest.mark.parametrize("place", ["app.dml_half", "app.commit_sent"])
def test_a_host_killed_in_mid_commit_loses_nothing_and_leaves_no_process(
    chain: Chain, writers: Writers, place: str
) -> None:
    pid = host_is_up(chain)
    before = chain.fired()[place]
    chain.arm(f"{place}=wait")
    wait_until(lambda: chain.fired()[place] > before, timeout_s=60, what="a worker to stand in mid-commit")
    everything = [process.pid for process in session_of(pid)]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all(is_gone(one) for one in everything), timeout_s=20, what="every process to be gone")
    chain.arm("")
    host_is_up(chain)
    writers.stop()
    chain.assert_equal_in_the_end()
    assert len(chain.destination_rows("account")) > 50


def test_after_all_the_kills_no_change_met_a_row_that_it_should_not_have(chain: Chain) -> None:
    """A change applied twice, or not at all, meets a row that should not be there, or none where one should be."""
    host_is_up(chain)
    chain.assert_equal_in_the_end()
    with postgres(chain.warehouse) as session:
        findings = session.execute("select count(*) from seamline.finding").fetchone()
        ended = session.execute("select bool_and(ended_at is not null) from seamline.boundary").fetchone()
    assert findings == (0,)
    assert ended == (True,)


def test_a_log_topic_at_its_byte_limit_stops_the_capture_and_says_so(chain: Chain) -> None:
    """The last test here: the capture stays stopped until somebody makes room or raises the limit."""
    host_is_up(chain)
    small = dataclasses.replace(chain.plan, source=dataclasses.replace(chain.plan.source, log_max_gb=1e-6))
    chain.hosts.director.want(small.stream_id("warehouse"), plan_json=plan_to_json(small))
    wait_until(
        lambda: (status := chain.bank.connector.status()) and status.is_stopped,
        timeout_s=60,
        what="the capture to stop",
    )
    [alarm] = [alarm for alarm in chain.hosts.store.open_alarms() if alarm.kind == "log_size"]
    assert alarm.subject == chain.plan.source.name
    assert "reached its limit" in alarm.message
    with pytest.raises(Refused, match="limit"):
        chain.bank.ensure(small)
