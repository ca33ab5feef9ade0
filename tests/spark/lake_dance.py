"""A stream of five tables into Iceberg whose task and whose driver are killed again and again, while every transaction
of the source changes all five.

After each kill one read of the catalogue must find all tables at the ledger's position: pyiceberg reads their heads,
and the rows of each must be those of one and the same transaction, the newest in the log before the ledger's offset.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.log import RecordKind
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import ReadsBack
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import LogReader
from tests.fault.real.anomalies import value_differences
from tests.integration.captured import Captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import destination_known_by_id
from tests.lake_heads import LakeHeads
from tests.spark.chains import SCRIPT
from tests.spark.dancing_tables import SCHEMA, TABLES, WIDE_ROWS, DancingTables
from tests.spark.empty_sync import publish_empty_into
from tests.spark.hosts import START_S, Hosts, hosts_of, kill_host, tasks_of, uri
from tests.waiting import wait_until

_NAMESPACE = "dance"
_GOES_ON_S = 90.0
# What it writes has to be read again by everybody at the end; some of the values are large.
_PAUSE_S = 0.04


class Dancer:
    """One writer: its transactions have an order, so their numbers say everything."""

    def __init__(self, database: Connection) -> None:
        self._database = database
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._error: BaseException | None = None
        self.committed = 0

    def _write(self) -> None:
        tables = DancingTables()
        try:
            with closing(postgres(self._database)) as session:
                while not self._stop.wait(_PAUSE_S):
                    with session.transaction():
                        for statement in tables.step():
                            session.execute(statement.encode())
                    self.committed = tables.number
        except BaseException as exc:
            self._error = exc
            raise

    @contextmanager
    def dancing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        """Repeatable. A writer that died would make a test too easy."""
        self._stop.set()
        self._thread.join()
        if self._error is not None:
            raise self._error


class Newest:
    """The newest transaction that the log holds before an offset, which only grows."""

    def __init__(self, reader: LogReader, start: int) -> None:
        self._reader = reader
        self._reader.assign(start)
        self._ahead: list[tuple[int, int]] = []
        self._read_up_to = start
        self._number = 0

    def before(self, offset: int) -> int:
        def has_all() -> bool:
            for record in self._reader.poll(1.0, 20_000):
                self._read_up_to = record.end
                if record.kind is RecordKind.ROWS:
                    rows = [row for row in record.rows if row.table == "day" and row.after]
                    self._ahead += [(row.offset, int(json.loads(row.after or b"")["tx"])) for row in rows]
            return self._read_up_to >= offset

        if self._read_up_to < offset:
            wait_until(has_all, timeout_s=60, what=f"the log before offset {offset}")
        passed = [number for at, number in self._ahead if at < offset]
        self._ahead = self._ahead[len(passed) :]
        self._number = max([self._number, *passed])
        return self._number


@dataclass
class Dance:
    bank: Captured
    plan: SyncPlan
    catalogue: Connection
    hosts: Hosts
    dancer: Dancer
    newest: Newest
    expected: DancingTables = field(default_factory=DancingTables)
    # What was done so far.
    kills: Counter[str] = field(default_factory=Counter)
    # How long it took at most, from a kill, until another commit was seen.
    slowest_s: float = 0.0
    _killed_at: float = 0.0

    @property
    def destination(self) -> DestinationPlan:
        return self.plan.destinations[0]

    def heads(self) -> LakeHeads:
        with closing(postgres(self.catalogue)) as session:
            return LakeHeads.read(session, str(self.plan.stream_id("warehouse")), _NAMESPACE)

    def commits(self) -> int:
        return self.heads().state

    def host_is_up(self) -> None:
        if not self.hosts.started or self.hosts.started[-1].poll() is not None:
            self.hosts.start("--slots", "2")

    def goes_on(self, commits: int) -> None:
        """By so many commits from now on; a driver that was killed is started again."""
        before = self.commits()
        self.host_is_up()
        limit = START_S if before == 1 else _GOES_ON_S
        wait_until(lambda: self.commits() >= before + commits, timeout_s=limit, what=f"{commits} commits")
        if self._killed_at:
            self.slowest_s = max(self.slowest_s, time.monotonic() - self._killed_at)
            self._killed_at = 0.0

    # ---- kills ----------------------------------------------------------------------------------------------------

    def kill(self, chance: random.Random, *, driver: bool) -> None:
        """At any moment of any step: nobody says where it shall die."""
        self.goes_on(chance.randint(1, 4))
        until = time.monotonic() + chance.random() * 0.5
        wait_until(lambda: time.monotonic() > until, timeout_s=10, what="a moment")
        if driver:
            kill_host(self.hosts.started[-1])
        else:
            host = self.hosts.started[-1]
            wait_until(lambda: tasks_of(host), timeout_s=_GOES_ON_S, what="the stream's task")[-1].kill()
        self.kills["driver" if driver else "task"] += 1
        self._killed_at = time.monotonic()

    def wrong(self) -> list[str]:
        """By one read of the catalogue."""
        heads = self.heads()
        said = heads.apart()
        if {*heads.heads} != {*TABLES}:
            return [*said, f"the catalogue has {sorted(heads.heads)}"]
        found = {name: self._rows(heads, name) for name in TABLES}
        newest = self.newest.before(heads.offset)
        numbers = {name: max((row[_PLACE[name]] for row in rows), default=0) for name, rows in found.items()}
        if {*numbers.values()} != {newest}:
            return [*said, f"tables are at {numbers}, the ledger at transaction {newest}"]
        self.expected.advance(newest)
        for name, rows in self.expected.rows().items():
            if found[name] != rows:
                more, less = found[name] - rows, rows - found[name]
                shown = [*more, *less][:2]
                said.append(f"{name} at {newest}: {more.total()} too many, {less.total()} missing, as {shown}")
        return said

    def _rows(self, heads: LakeHeads, name: str) -> Counter[tuple[object, ...]]:
        found = heads.at_head(name)
        found = found.select(["id", "tx"]) if name == "wide" else found
        return Counter(tuple(row.values()) for row in found.to_pylist())

    # ---- the end --------------------------------------------------------------------------------------------------

    def _catches_up(self) -> None:
        """However much the kills have left to do, as long as commits come."""
        last = self.dancer.committed
        while self.newest.before((heads := self.heads()).offset) < last:
            before = heads.state
            wait_until(
                lambda: self.commits() > before,  # noqa: B023
                timeout_s=_GOES_ON_S,
                what=f"a commit behind {before}, on the way to transaction {last}, the last one",
            )

    def wrong_at_the_end(self) -> list[str]:
        """The writer has stopped, and everything that it has committed is there, value for value."""
        self.dancer.stop()
        self.host_is_up()
        self._catches_up()
        said = self.wrong()
        (wide,) = self.bank.source.catalogue(["wide"])
        kind = sink_kind("iceberg")
        assert isinstance(kind, ReadsBack)
        (there,) = kind.open_live(self.plan, self.destination, 1)
        (here,) = self.bank.source.open_views(1)
        keys = [str(number) for number in range(WIDE_ROWS)]
        with closing(here), closing(there):
            said += value_differences(wide, keys, here.rows("wide", keys), there.rows("wide", keys))
        with closing(postgres(self.catalogue)) as session:
            (findings,) = session.execute("SELECT count(*) FROM seamline.finding").fetchone() or (1,)
        return said + ([f"{findings} findings"] if findings else [])


# Where a row says by which transaction it was written.
_PLACE = {"account": 2, "audit": 0, "booking": 2, "day": 1, "wide": 1}


@contextmanager
def dance_of(name: str, folder: Path, *, commit_every_ms: int = 0) -> Iterator[Dance]:
    """Published empty, wanted, and under its writer; the host is not started yet."""
    with ExitStack() as opened:
        bank = opened.enter_context(captured_postgres(name, create=SCHEMA, tables=TABLES))
        catalogue = opened.enter_context(postgres_database(f"{name}_catalogue"))
        opened.enter_context(destination_known_by_id(catalogue, catalogue.database))
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        bank.ensure()
        (warehouse := folder / "warehouse").mkdir()
        options = (("catalog", "lake"), ("warehouse", str(warehouse)), ("write", "native"))
        lake = DestinationPlan(
            "warehouse",
            "iceberg",
            catalogue.database,
            _NAMESPACE,
            writer_connection=f"{catalogue.database}_writer",
            options=options,
            commit_every_ms=commit_every_ms,
        )
        plan = publish_empty_into(bank, lake, sync=bank.plan.sync, tables=TABLES)
        bank.plan = plan
        hosts = opened.enter_context(hosts_of(SCRIPT, folder, name=f"{name}_platform"))
        patch.setenv("SEAMLINE_CONNECTION_SEAMLINE_DB", uri(hosts.platform))
        hosts.director.want(plan.stream_id("warehouse"), plan_json=plan_to_json(plan))
        newest = Newest(bank.open_log(), bank.kafka.offsets(plan.source.log_topic)[0])
        dancer = Dancer(bank.root)
        with dancer.dancing():
            yield Dance(bank, plan, catalogue, hosts, dancer, newest)
