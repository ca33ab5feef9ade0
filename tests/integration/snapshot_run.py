"""Snapshots of a captured database as an onboarding takes them, in this process, and what the log says of them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from seamline.adapters.connections import Connection
from seamline.adapters.failpoints import ArmedFailpoints
from seamline.bulk.read import RunReader
from seamline.bulk.threads import CopyingHere
from seamline.databases.postgres.canonical import quoted
from seamline.domain.cutover import is_covered
from seamline.domain.errors import GateFailed
from seamline.domain.log import LogRecord, RecordKind, RowChange
from seamline.domain.position import Position, position_from_json
from seamline.domain.runs import Receipt, RunKind, RunState
from seamline.plan.model import Run
from seamline.sources.postgres.position import PostgresPosition
from seamline.sync.onboard import publish
from seamline.sync.snapshot import SnapshotTools, take_snapshot
from tests.integration.bank_writers import Writers
from tests.integration.captured import Captured, Replayed, apply_transaction
from tests.integration.databases import postgres
from tests.opened_sink import postgres_sink
from tests.waiting import wait_until

Rows = dict[str, list[tuple[Any, ...]]]


class Records:
    """Receipts, results and holds of one test."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self.receipts: list[Receipt] = []
        self.held: list[tuple[str, int]] = []

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        self.results[key] = value

    def put_receipt(self, run_id: str, receipt: Receipt) -> None:
        self.receipts.append(receipt)

    def hold_log(self, topic: str, *, holder: str, offset: int, lease_s: float) -> str:
        self.held.append((topic, offset))
        return holder

    def release_log(self, hold_id: str) -> None: ...


def run_of(bank: Captured, tables: Sequence[str], *, number: int = 1, lock: str = "none") -> Run:
    """An onboarding of these tables, as the source's catalogue defines them now."""
    plan = bank.with_tables(*tables)
    plan = replace(plan, source=replace(plan.source, snapshot_lock=lock))
    bank.grant(plan)
    definitions = bank.source.catalogue(tables)
    shaped = tuple(replace(table, table=definition) for table, definition in zip(plan.tables, definitions, strict=True))
    plan = replace(plan, tables=shaped)
    return Run(f"snap/onboard/-/{number}", plan.sync, RunKind.ONBOARD, None, plan, RunState.RUNNING)


def tools_of(bank: Captured, run: Run, records: Records, failpoints: str = "") -> SnapshotTools:
    reader = RunReader(run, tasks=lambda _: 2, copying_of=lambda groups, _: CopyingHere(groups))
    return SnapshotTools(
        source=bank.source,
        open_log=bank.open_log,
        open_read=reader.open_read,
        open_staged=reader.open_staged,
        holds=records,
        records=records,
        failpoints=ArmedFailpoints(failpoints),
    )


class Meddler(ArmedFailpoints):
    """Somebody who changes staged rows before they are compared. `statement` has `{place}` of the table."""

    def __init__(self, warehouse: Connection, table: str, statement: str) -> None:
        super().__init__("")
        self._about = (warehouse, table, statement)

    def reach(self, name: str) -> None:
        if name == "snap.chunk_staged":
            meddle(*self._about)


def meddle(warehouse: Connection, table: str, statement: str) -> None:
    with postgres(warehouse) as session:
        names = session.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'bank_stage'").fetchall()
        (name,) = [name for (name,) in names if name.startswith(f"{table}_")]
        session.execute(statement.format(place=f'bank_stage."{name}"').encode())


# Both kinds of server read these words for 32 and 64 bits.
RATES = (
    "CREATE TABLE rate (id int PRIMARY KEY, f float4, d float8)",
    "CREATE TABLE quote (f float4, d float8)",
    "INSERT INTO rate VALUES (1, 0.125, 0.1), (2, 0.25, 0.3), (3, NULL, NULL)",
    "INSERT INTO quote VALUES (0.125, 0.1), (0.25, 0.3), (NULL, NULL)",
)
_CHANGES = ("f = 0.5 WHERE f = 0.25", "d = 0.30000001 WHERE f = 0.25", "d = NULL WHERE f = 0.25")
BY_TOLERANCE = {"rate": r'rate BREAK 1 value value \{"id": "2"\}', "quote": "quote BREAK 1 value value"}


def caught_before_publish(bank: Captured, warehouse: Connection, *, reported: Mapping[str, str]) -> None:
    """A FLOAT or DOUBLE of the tables of `RATES` that is changed while it is staged is never published. `reported`: how
    the break is reported, by table."""
    run = run_of(bank, ("rate", "quote"))
    (destination,) = run.plan.destinations
    tools = tools_of(bank, run, Records())
    for change in _CHANGES:
        for table, words in reported.items():
            meddler = Meddler(warehouse, table, f"UPDATE {{place}} SET {change}")
            with pytest.raises(GateFailed, match=words):
                take_snapshot(run, replace(tools, failpoints=meddler))
    run.result["snapshot"] = take_snapshot(run, tools)
    doubles = "UPDATE {{place}} SET d = CASE f WHEN 0.25 THEN {} ELSE {} END WHERE f IS NOT NULL"
    with closing(postgres_sink(run.plan, destination)) as sink:
        for table in reported:
            # Those of two rows are exchanged: count, least, greatest and sum stay what they were.
            meddle(warehouse, table, doubles.format(0.1, 0.3))
            with pytest.raises(GateFailed, match="now holds other values; 3 rows were compared"):
                publish(run, destination.name, sink=sink)
            assert sink.read_ledger(run.plan.stream_id(destination.name)) is None
            meddle(warehouse, table, doubles.format(0.3, 0.1))
        publish(run, destination.name, sink=sink)
    live = rows_in(warehouse, "bank", {table: table for table in reported})
    assert {table: len(rows) for table, rows in live.items()} == {"rate": 3, "quote": 3}


def snapshot_amid(writers: Writers, run: Run, tools: SnapshotTools) -> Mapping[str, Any]:
    """A snapshot that is taken while the writers are at work, and they go on behind it."""
    wait_until(lambda: writers.committed > 50, timeout_s=60, what="writers at work")
    snapshot = take_snapshot(run, tools)
    before = writers.committed
    wait_until(lambda: writers.committed > before + 10, timeout_s=60, what="writers that were let go")
    return snapshot


def staged_names(snapshot: Mapping[str, Any], destination: str = "warehouse") -> dict[str, str]:
    return {load["table"]: load["staged_as"] for load in snapshot["loads"][destination]}


def rows_in(warehouse: Connection, schema: str, names: dict[str, str]) -> Rows:
    with postgres(warehouse) as session:
        return {
            table: sorted(session.execute(f"SELECT * FROM {schema}.{quoted(name)}".encode()).fetchall(), key=repr)
            for table, name in names.items()
        }


def transactions_of(bank: Captured, through: str) -> Iterator[tuple[LogRecord, Position, list[RowChange]]]:
    """(END, position, rows) of every transaction from the first on, up to the transaction of a marker."""
    with closing(bank.open_log()) as reader:
        reader.assign(bank.kafka.offsets(bank.source_plan.log_topic)[0])
        rows: list[RowChange] = []
        begins: Position | None = None
        while records := wait_until(lambda: reader.poll(1.0, 20_000), timeout_s=60, what="more of the log"):
            for record in records:
                if record.kind is RecordKind.BEGIN:
                    rows, begins = [], None
                elif record.kind is RecordKind.ROWS:
                    rows += record.rows
                    begins = begins or record.position
                elif record.kind is RecordKind.END:
                    assert record.total == len(rows), f"transaction {record.transaction_id} is not whole"
                    position = begins or record.position
                    assert position is not None
                    yield record, position, rows
                    if any(through.encode() in (row.after or b"") for row in rows):
                        return
                    rows, begins = [], None


def state_at(bank: Captured, position: Position, next_offset: int, high_marker: str, tables: Sequence[str]) -> Replayed:
    """What the position rule says the snapshot holds; it must flip once, and not before `next_offset`.

    Of `tables` only: of one that was published later the log may hold the end of a transaction and not its begin.
    """
    state = Replayed()
    passed = False
    for end, transaction, rows in transactions_of(bank, high_marker):
        if is_covered(transaction, position):
            assert not passed, f"transaction {transaction} is covered by {position} and stands behind one that is not"
            apply_transaction(state, [row for row in rows if row.table in tables])
        else:
            passed = True
            assert end.offset >= next_offset, f"transaction {transaction} at {end.offset} would never be applied"
    assert passed, "the high marker lies beyond the snapshot"
    return state


def staged_as_the_log_says(
    bank: Captured, warehouse: Connection, snapshot: Mapping[str, Any], tables: Sequence[str]
) -> Rows:
    """The staged rows of all tables, when those of `tables` are exactly what the position rule says of the log."""
    position = position_from_json(snapshot["position"])
    state = state_at(bank, position, snapshot["next_offset"], snapshot["high_marker"], tables)
    staged = rows_in(warehouse, "bank_stage", staged_names(snapshot))
    for table in tables:
        found, logged = Counter(staged[table]), Counter(state.holds(table))
        assert found == logged, (
            f"{table} at {snapshot['position']}: staged {found - logged}, in the log {logged - found}"
        )
    return staged


def by_row_address(transaction: Position, snapshot: Position) -> bool:
    """The rule that is wrong."""
    assert isinstance(transaction, PostgresPosition)
    assert isinstance(snapshot, PostgresPosition)
    return transaction.lsn <= snapshot.lsn


def found_by(
    bank: Captured,
    through: str,
    position: Position,
    tables: Sequence[str],
    *rules: Callable[[Position, Position], bool],
) -> list[Replayed]:
    """What a snapshot at `position` holds of these tables, published from the first on, said by each rule."""
    states = [Replayed() for _ in rules]
    for _, transaction, changes in transactions_of(bank, through):
        for state, rule in zip(states, rules, strict=True):
            if rule(transaction, position):
                apply_transaction(state, [row for row in changes if row.table in tables])
    return states
