"""A whole chain of a test's own: bank on MariaDB, capture, Kafka, a stream host's stream, PostgreSQL. No part is a
fake."""

import dataclasses
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from seamline.adapters.connections import Connection
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Marker
from tests.integration.bank_writers import Writers, writing
from tests.integration.captured import Captured, captured
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.spark.empty_sync import publish_empty
from tests.spark.hosts import START_S, Hosts, hosts_of, uri
from tests.waiting import wait_until

SCRIPT = Path(__file__).parents[2] / "spark_jobs" / "stream_host.py"
TABLES = ("account", "audit")


@dataclasses.dataclass
class Chain:
    """One sync from its source to its destination, published and wanted."""

    bank: Captured
    plan: SyncPlan
    warehouse: Connection
    hosts: Hosts

    @property
    def sync(self) -> str:
        return self.plan.sync

    def host_is_up(self, *arguments: str) -> int:
        """The host's process id; it is started, with these arguments, where it does not run."""
        living = [host for host in self.hosts.started if host.poll() is None]
        host = living[0] if living else self.hosts.start("--slots", "4", *arguments)
        wait_until(
            lambda: self.hosts.state(self.sync) in ("streaming", "catching_up"),
            timeout_s=START_S,
            what="the stream to run",
        )
        return host.pid

    def destination_rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.destination_says(f"select * from live.{table}")

    def destination_says(self, query: str) -> list[tuple[Any, ...]]:
        with postgres(self.warehouse) as session:
            return session.execute(query.encode()).fetchall()

    def applied_transactions(self) -> int:
        ((transactions,),) = self.destination_says("select applied_units from seamline.ledger")
        return int(transactions)

    def last_marker(self) -> str:
        ((marker,),) = self.destination_says("select last_marker from seamline.ledger")
        return str(marker)

    def assert_equal_in_the_end(self, tables: Sequence[str] = TABLES) -> None:
        """Everything committed before this marker is in the destination once the marker is."""
        marker = Marker(f"barrier-{uuid.uuid4().hex}", "barrier")
        self.bank.source.commit_marker(marker)
        wait_until(lambda: self.last_marker() == marker.id, timeout_s=90, what="the last marker to be applied")
        for table in tables:
            source, destination = self.bank.rows(table), self.destination_rows(table)
            assert Counter(source) == Counter(destination), table

    def assert_no_surprise(self) -> None:
        """A change applied twice, or not at all, meets a row that should not be there, or none where one should be."""
        assert self.destination_says("select count(*) from seamline.finding") == [(0,)]
        assert self.destination_says("select bool_and(ended_at is not null) from seamline.boundary") == [(True,)]

    @contextmanager
    def writing(self) -> Iterator[Writers]:
        highest = max((row[0] for row in self.bank.rows("account")), default=0)
        # A transaction that was rolled back may have used more numbers than are seen.
        with writing(self.bank.root, tables=TABLES, first_id=highest + 1_000_000) as writers:
            yield writers


@dataclasses.dataclass
class LakeChain(Chain):
    """`warehouse` is the database of a catalogue; its tables are Iceberg's."""

    def head(self, table: str) -> StaticTable:
        ((location,),) = self.destination_says(
            f"select metadata_location from public.iceberg_tables where table_name = '{table}'"
        )
        return StaticTable.from_metadata(location)

    def destination_rows(self, table: str) -> list[tuple[Any, ...]]:
        names = tuple(column.name for column in self.plan.table(table).definition.columns)
        return [tuple(row.values()) for row in self.head(table).scan(selected_fields=names).to_arrow().to_pylist()]


def lake_written_by_spark(catalogue: Connection, warehouse: Path, **options: str) -> DestinationPlan:
    """A destination of small commits; both logins of `catalogue` are known by its database's name."""
    said = {"catalog": "lake", "warehouse": str(warehouse), "write": "spark", **options}
    plan = DestinationPlan(
        "warehouse", "iceberg", catalogue.database, "bank", writer_connection=f"{catalogue.database}_writer"
    )
    return dataclasses.replace(plan, options=tuple(said.items()), commit_every_ms=200)


@contextmanager
def chain_of(name: str, folder: Path, **environment: str) -> Iterator[Chain]:
    """A chain whose databases, capture and sync are named after `name`; its host is not started yet.

    `environment` is the host's. In this process too the platform database is that of the chain.
    """
    with (
        captured(name) as bank,
        postgres_database(f"{name}_warehouse") as warehouse,
        destination_known_by_id(warehouse, warehouse.database),
        pytest.MonkeyPatch.context() as patch,
    ):
        bank.ensure()
        plan = publish_empty(bank, warehouse, sync=bank.plan.sync, schema="live", tables=TABLES)
        with hosts_of(SCRIPT, folder, name=f"{name}_platform", **environment) as hosts:
            patch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(hosts.platform))
            hosts.director.want(plan.stream_id("warehouse"), plan_json=plan_to_json(plan))
            yield Chain(bank, plan, warehouse, hosts)
