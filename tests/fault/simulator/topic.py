"""The model log topic: what a capture writes for the source's transactions, what it may lose, and a reader of it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from seamline.domain.errors import PositionLost
from seamline.domain.log import LogRecord, PrecedingTransaction, RecordKind, RowChange
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.postgres.position import PostgresPosition
from tests.fault.simulator.bank_source import TABLES, WIDTH, BankSource, Log, Transaction
from tests.fault.simulator.schedule import Schedule, Violation
from tests.fault.simulator.unavailable_values import as_in_log
from tests.log_topic import MARKERS, TOPIC_ID, Change, LogTopic, TopicReader, gtid, row_record


class Loss(Enum):
    """What must stop a stream."""

    ROW = "a lost record"
    WHOLE = "a lost transaction"
    TAIL = "a lost tail"
    ORDER = "a reordered transaction"
    TWICE = "a transaction sent twice"
    TOPIC = "a topic made again"
    PURGED = "records pruned below the ledger"


@dataclass(slots=True)
class WalTopic(LogTopic):
    """As PostgreSQL's connector writes it: BEGIN and END carry LSNs, TRUNCATE lies between them and is counted, large
    values that stayed are left out."""

    committed: Transaction | None = None
    change: Change | None = None

    def _xid(self) -> int:
        assert self.committed is not None
        return self.committed.xid % WIDTH

    def begin(self, number: int | None = None) -> int:
        assert self.committed is not None
        self._number, self._seen, self._row = self.committed.number, {}, 0
        at = PostgresPosition(self.committed.row_lsn, self._xid())
        self._add(RecordKind.BEGIN, transaction_id=str(self._xid()), position=at, follows=self.before)
        return self._number

    def finish(self, counts: dict[str, int] | None = None) -> None:
        assert self.committed is not None
        self._add(
            RecordKind.END,
            transaction_id=str(self._xid()),
            position=PostgresPosition(self.committed.commit_lsn, self._xid()),
            total=sum(self._seen.values()),
            counts=dict(self._seen),
            ts_ms=self.now_ms(),
        )

    def truncate(self, table: str) -> None:
        self.begin()
        at = PostgresPosition(self._row_lsn(), self._xid())
        self._add(RecordKind.TRUNCATE, transaction_id=str(self._xid()), table=table, position=at, total=1)
        self._seen[table] = 1
        self.finish()

    def _row_lsn(self) -> int:
        assert self.committed is not None
        return self.committed.row_lsn

    def row(self, change: Change) -> None:
        self.change = change
        LogTopic.row(self, change)

    def _write_row(self, row: RowChange) -> None:
        assert self.change is not None
        at = PostgresPosition(self._row_lsn(), self._xid())
        self.records.append(row_record(as_in_log(self.change, row), str(self._xid()), at))


@dataclass(slots=True)
class Capture:
    """Carries transactions from the source into the topic. `ends[n]`: the last offset of transaction n there.

    `lost_at`: the offset from which on nothing must be applied, once a loss has happened; `disordered`: the
    transactions sent twice or out of order; `missing`: the one that is not in the topic at all.
    """

    source: BankSource
    schedule: Schedule
    dice: random.Random
    loss: Loss | None = None
    topic: LogTopic = field(init=False)
    topic_id: str = TOPIC_ID
    ends: list[int] = field(default_factory=lambda: [-1])
    lost_at: int | None = None
    disordered: tuple[int, ...] = ()
    missing: int | None = None
    pruned_below: int = 0
    may_lose: Callable[[], bool] = lambda: False
    # How often it waits between two transactions: a slow one lets boundaries stay open for long.
    waits: float = 0.5
    carried: int = 0
    last_end: int = -1

    def __post_init__(self) -> None:
        self.topic = WalTopic(TABLES) if self.source.log is Log.WAL else LogTopic(TABLES)

    @property
    def is_drained(self) -> bool:
        """Whether the last transaction is in the topic, with its END."""
        return self.carried == len(self.source.commits) == len(self.ends) - 1

    @property
    def is_another_log(self) -> bool:
        """Whether the topic as a whole was lost: what was read of it before may still be applied."""
        return self.lost_at is not None and self.loss in (Loss.TOPIC, Loss.PURGED)

    @property
    def last_offset(self) -> int:
        """Of any record; `last_end` is that of the last transaction."""
        return self.topic.records[-1].offset

    def carry_on(self, wait: Callable[[], None]) -> None:
        """The capture's life: one transaction after the other."""
        while True:
            while self.is_drained:
                wait()
            self.carry()
            while self.dice.random() < self.waits:
                wait()

    def carry(self) -> None:
        committed = self.source.commits[self.carried]
        self.carried = committed.number
        if not self._loses_now(committed):
            self._write(committed)
        elif self.loss is Loss.WHOLE:
            self._lose_whole(committed)
        elif self.loss is Loss.ORDER:
            self._swap(committed)
        elif self.loss is Loss.TWICE:
            self._write_twice(committed)
        else:
            self._lose_rows(committed)

    def lose_topic(self, ledger_offset: int) -> None:
        """What happens to a topic as a whole."""
        if self.loss is Loss.TOPIC:
            self.topic_id = "topic-2"
        else:
            # One more record is needed than the ledger has, or nothing would be missing.
            self.source.commit_nothing()
            self.carry()
            self.pruned_below = self.last_offset + 1
        self.lost_at = ledger_offset
        self._count_loss()

    def _count_loss(self) -> None:
        assert self.loss is not None
        self.schedule.tally[f"loss: {self.loss.value}"] += 1

    # ---- losses -----------------------------------------------------------------------------------------------------

    def _loses_now(self, committed: Transaction) -> bool:
        by_transaction = self.loss in (Loss.ROW, Loss.WHOLE, Loss.TAIL, Loss.ORDER, Loss.TWICE) and self.lost_at is None
        return by_transaction and committed.rows >= 1 and self.may_lose() and self.dice.random() < 0.5

    def _lose_rows(self, committed: Transaction) -> None:
        records = self.topic.records
        start, begins_at = len(records), self.topic.end
        self._write(committed, is_plain=True)
        places = [place for place in range(start, len(records)) if records[place].rows]
        if self.loss is Loss.ROW:
            del records[self.dice.choice([*places, start, len(records) - 1])]
        else:
            del records[self.dice.choice(places) :]
        self.lost_at = begins_at
        self._count_loss()

    def _lose_whole(self, committed: Transaction) -> None:
        if committed.number == len(self.source.commits):
            # The one behind it shows the loss.
            self._write(committed)
            return
        self.lost_at, self.missing = self.topic.end, committed.number
        self._ended_nowhere(committed.number)
        self._count_loss()

    def _swap(self, committed: Transaction) -> None:
        later = self.source.commits[committed.number] if committed.number < len(self.source.commits) else None
        if later is None or not later.rows:
            self._write(committed)
            return
        self.lost_at = self.topic.end
        self._write(later, is_plain=True)
        self._write(committed, is_plain=True)
        self.carried, self.disordered = later.number, (committed.number, later.number)
        self._count_loss()

    def _write_twice(self, committed: Transaction) -> None:
        self._write(committed, is_plain=True)
        first_end, self.lost_at = self.last_end, self.topic.end
        self._write(committed, is_plain=True)
        self.ends[committed.number], self.disordered = first_end, (committed.number,)
        self._count_loss()

    # ---- writing ----------------------------------------------------------------------------------------------------

    def _write(self, committed: Transaction, *, is_plain: bool = False) -> None:
        topic = self.topic
        if isinstance(topic, WalTopic):
            topic.committed = committed
        self._put_behind(committed)
        if committed.truncated:
            topic.transactions = committed.number - 1
            topic.truncate(committed.truncated)
            self._ended(committed.number)
        else:
            topic.begin(committed.number)
            self._write_rows(committed, may_restart=not is_plain)
            topic.finish()
            self._ended(committed.number)

    def _put_behind(self, committed: Transaction) -> None:
        if committed.number == 1:
            return
        before, is_wal = self.source.commits[committed.number - 2], self.source.log is Log.WAL
        lsn, xid = before.commit_lsn, before.xid % WIDTH
        at = PostgresPosition(lsn, xid) if is_wal else BinlogPosition(gtid(before.number))
        has_end = is_wal or not before.truncated
        self.topic.before, self.topic.begun = PrecedingTransaction(at, has_end, records=0 if has_end else 1), None

    def _ended_nowhere(self, number: int) -> None:
        self.ends += [-1] * (number + 1 - len(self.ends))

    def _ended(self, number: int) -> None:
        self._ended_nowhere(number)
        self.ends[number] = self.last_end = self.last_offset

    def _write_rows(self, committed: Transaction, *, may_restart: bool) -> None:
        topic, rows = self.topic, committed.changes
        if committed.marker is not None:
            row = {"id": committed.marker.id, "kind": committed.marker.kind, "payload": "{}", "at": 0}
            rows = (Change(MARKERS, after=row), *rows)
        waiting = list(rows)
        while waiting:
            topic.row(waiting.pop(0))
            if may_restart and self.dice.random() < 0.03:
                # After a restart in mid-transaction the connector sends all of it again.
                topic.begin(committed.number)
                self.schedule.tally["BEGIN repeated"] += 1
                waiting = list(rows)
            if may_restart and self.dice.random() < 0.05:
                topic.heartbeat()
                self.schedule.tally["heartbeat inside"] += 1
            if may_restart and self.dice.random() < 0.05:
                self.schedule.wait()

    def applied(self, next_offset: int, *, published: int) -> int:
        """How many transactions are in a snapshot of the first `published` ones, or lie before an offset of the topic;
        one that is missing lies where it should be."""
        is_lost_before = self.lost_at is not None and self.lost_at < next_offset
        is_missing_before = self.missing is not None and self.missing > published and is_lost_before
        return published + sum(0 <= end < next_offset for end in self.ends[published + 1 :]) + is_missing_before


class SimulatedReader(TopicReader):
    """Polls of random sizes, a network that breaks, and the losses of the topic as a whole."""

    def __init__(self, capture: Capture, dice: random.Random, pass_time: Callable[[float], None]) -> None:
        super().__init__(capture.topic)
        self.topic_id = capture.topic_id
        self._capture = capture
        self._dice = dice
        self._pass_time = pass_time

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        self._capture.schedule.step("poll", is_network=True)
        self._require_same_topic()
        self._at_most = self._dice.choice([1, 2, 5, 20, 100])
        taken = super().poll(timeout_s, records_max)
        if not taken and timeout_s:
            self._pass_time(timeout_s)
        return taken

    def _require_same_topic(self) -> None:
        if self.topic_id != self._capture.topic_id:
            raise PositionLost("the log topic was made again")
        if not self.assigned:
            raise Violation("reader", "polled before it was assigned")
        records = self._log.records
        if self._next < len(records) and records[self._next].offset < self._capture.pruned_below:
            raise PositionLost(f"the log topic begins at {self._capture.pruned_below}")
