"""A source and a destination that follow one log, and comparisons that leave what they find to the next one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seamline.domain.baseline import Baseline, packed, unpacked
from seamline.domain.catalogue import Table
from seamline.domain.cutover import Boundary
from seamline.domain.ledger import LedgerRow
from seamline.domain.runs import Reconciliation, RunKind, RunState
from seamline.plan.checks import ControlTotalPlan
from seamline.plan.model import Run, TablePlan
from seamline.ports.log_images import LogImages
from seamline.sync.bucket_search import Limits
from seamline.sync.comparison import compare_live
from seamline.sync.repeated import Repeated
from seamline.sync.third_witness import LogOfSync
from seamline.values.image_texts import ImageTexts
from tests.log_topic import TOPIC, TOPIC_ID, LogTopic, ManualClock, TopicReader, delete, insert, position, update
from tests.opened_sink import decoder_of
from tests.unit.memory_views import ENTRY, MemoryView, Row, entries
from tests.unit.test_barrier import STREAM, World
from tests.unit.test_comparison import PLAN

# By the hash of its key: two numbers.
PAIRED = replace(ENTRY, key=("id", "currency"))


def logged(row: Row) -> dict[str, Any]:
    return {**row, "amount": None if row["amount"] is None else f"{row['amount']:.4f}"}


@dataclass
class Bank(World):
    """The stream has applied the whole log whenever it is looked at. `rotate` 1: all is read each time."""

    table: Table = ENTRY
    source: list[Row] = field(default_factory=lambda: entries(40))
    destination: list[Row] = field(default_factory=lambda: entries(40))
    log: LogTopic = field(default_factory=lambda: LogTopic([ENTRY]))
    kept: dict[str, Baseline] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    rotate: int = 1
    is_whole: bool = False
    totals: tuple[ControlTotalPlan, ...] = ()
    read: list[TopicReader] = field(default_factory=list)
    images: LogImages = field(default_factory=lambda: ImageTexts(decoder_of(PLAN)))
    boundaries: tuple[Boundary, ...] = (Boundary("entry", position(1), ended=True),)
    log_clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.log.tables = [self.table]

    def read_ledger(self, stream: Any) -> LedgerRow:
        offset = self.log.records[-1].offset + 1 if self.log.records else 0
        return LedgerRow(STREAM, TOPIC, TOPIC_ID, offset, position(self.log.transactions), 1, 0, 1_772_000_000_000,
                         self.boundaries)  # fmt: skip

    def open_views(self, count: int) -> Any:
        return self._of(self.source, count)

    def open_destination(self, count: int) -> Any:
        return self._of(self.destination, count)

    def _of(self, rows: list[Row], count: int) -> list[MemoryView]:
        at = position(self.log.transactions)
        views = [MemoryView(self.table, [dict(row) for row in rows], position=at) for _ in range(count)]
        self.opened += views
        return views

    def write(self, *, to: str = "both", key: int = 0, **changed: Any) -> None:
        """An update that the source's log has and both sides get, or one of them."""
        row = next(row for row in self.source if row["id"] == key)
        now = {**row, **changed}
        self.log.transaction(update(self.table, logged(row), logged(now)))
        for name, rows in (("source", self.source), ("destination", self.destination)):
            if to in (name, "both"):
                self.put(rows, now)

    @staticmethod
    def put(rows: list[Row], row: Row) -> None:
        rows[:] = sorted([*(one for one in rows if one["id"] != row["id"]), dict(row)], key=lambda one: one["id"])

    def opened_reader(self) -> TopicReader:
        self.read.append(TopicReader(self.log))
        return self.read[-1]

    def keep(self, new: Sequence[Baseline], broken: Sequence[str]) -> None:
        for one in new:
            # As the platform database gives it back.
            self.kept[one.table] = unpacked(one.table, one.made_of, one.ledger, packed(one))
        self.broken = [name for name in [*self.broken, *broken] if name not in [one.table for one in new]]

    def compare(self, **rest: Any) -> Reconciliation:
        plan = replace(PLAN, tables=(TablePlan("entry", None, self.table),), reconcile=replace(PLAN.reconcile,
                       control_totals=self.totals))  # fmt: skip
        run = Run("r1", "settlement", RunKind.RECONCILE, None, plan, RunState.RUNNING)
        log = LogOfSync(self.opened_reader, self.images, self.log_clock)
        repeated = Repeated(
            "key of the sync", self.rotate, dict(self.kept), self.broken, log, self.keep, is_whole=self.is_whole
        )
        limits = Limits(rows_per_range=4, rows_per_bucket=4, leaf_rows=8)
        return compare_live(run, "warehouse", barrier=self.barrier(), views=2, limits=limits, repeated=repeated, **rest)

    def insert(self, key: int, *, to: str = "both") -> None:
        row = {**entries(1)[0], "id": key}
        self.log.transaction(insert(self.table, **logged(row)))
        for name, rows in (("source", self.source), ("destination", self.destination)):
            if to in (name, "both"):
                self.put(rows, row)

    def delete(self, key: int, *, of: str = "both") -> None:
        row = next(row for row in self.source if row["id"] == key)
        self.log.transaction(delete(self.table, **logged(row)))
        for name, rows in (("source", self.source), ("destination", self.destination)):
            if of in (name, "both"):
                rows[:] = [one for one in rows if one["id"] != key]
