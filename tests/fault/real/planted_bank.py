"""A bank whose stream's process has a bug that was planted, and what each check of T1 says of it."""

import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from seamline.adapters.connections import resolve
from seamline.adapters.failpoints import Mode
from seamline.adapters.kafka.client import client_settings
from seamline.domain.log import RecordKind
from seamline.ports import Marker, Orders
from tests.fault.real.anomalies import Stop, check_rows, check_stops
from tests.fault.real.bank_plus import typed_keys
from tests.fault.real.bank_under_fire import COMMITS_MIN, BankUnderFire
from tests.fault.real.history import Attempt, Outcome
from tests.fault.real.kinds import SESSIONS
from tests.fault.real.log_replay import differences
from tests.fault.real.plants import VARIABLE, Plant
from tests.fault.real.worker import TRANSIENT
from tests.fault.real.workers import Worker
from tests.waiting import wait_until

# Checks whose findings are no anomalies of the history checker.
STATE, SOURCE, TYPED, FINDINGS = "state", "source", "typed", "findings"
# How soon anything has to happen is what other tests say; here it only has to.
_STEP_S = 150.0
# One more, beside those of the bank; how long it holds each of its transactions open at least.
_SLOW_WRITER = 99
_HELD_S = 0.1
_READ_BEFORE = 2_000


@dataclass(frozen=True, slots=True)
class Caught:
    """By which checks, with what they said, and how much was looked at. `is_caught_up`: the stream had come to the end
    of the log, so that the history of the clients and the source itself could be asked too."""

    by: dict[str, list[str]]
    commits: int
    transfers: int
    is_caught_up: bool


@dataclass(kw_only=True)
class PlantedBank(BankUnderFire):
    """The end of a stream is noted and judged, not asserted: with a bug it may end in any way."""

    findings_before: int = 0
    # Whether the log topic is what the capture has sent, and so a model of the destination.
    is_log_true: bool = True

    # ---- what happens ---------------------------------------------------------------------------------------------

    def plant(self, plant: Plant | None) -> None:
        """Nothing is at work any more; streams that are started from here on have this bug."""
        self._at_rest()
        self.of_streams = {VARIABLE: plant.__name__} if plant else {}

    def load(self) -> None:
        """Onboard again: the destination is right again, whatever the bug before has left behind."""
        self._load_all()
        self._begin_to_judge()

    def load_with_commits_behind_the_views(self) -> None:
        """The writers commit between the opening of the read views and whatever the snapshot does next."""
        self._new_run()
        snapshot = self.start("snapshot", "snap.opened=wait@1")
        wait_until(lambda: snapshot.came_to("snap.opened"), timeout_s=_STEP_S, what="open read views")
        before = self.writers.committed
        wait_until(lambda: self.writers.committed > before + 20, timeout_s=_STEP_S, what="commits behind the views")
        snapshot.disarm()
        self.ended(snapshot, within_s=_STEP_S, wanted=(0,))
        self._done("publish")
        self._begin_to_judge()

    def load_among_open_transactions(self) -> None:
        """Whenever the snapshot opens its views, a transaction has written rows and is not committed."""
        with _slow_writer(self):
            self._load_all()
        self._begin_to_judge()

    def _begin_to_judge(self) -> None:
        self.new_commits()
        self.stops.clear()
        self.findings_before = self.warehouse.findings()

    def killed_at(self, failpoint: str, hit: int) -> None:
        self._killed(self.start("stream", f"{failpoint}=kill9@{hit}"), failpoint)
        self.start("stream")

    def commits_beside_a_new_owner(self) -> None:
        """One sleeps before its commit until another has taken the stream; it wakes before that one has committed."""
        zombie = self.start("stream", "app.fetched=stop@20")
        self._happened(zombie, "app.fetched", Mode.STOP)
        owner = self.start("stream", "app.epoch_taken=wait@1")
        wait_until(lambda: owner.came_to("app.epoch_taken"), timeout_s=_STEP_S, what="the new owner")
        before = self.warehouse.commits_seen()
        zombie.wake()
        wait_until(
            lambda: zombie.is_over or self.warehouse.commits_seen() > before + COMMITS_MIN,
            timeout_s=_STEP_S,
            what="the zombie to commit or end",
        )
        zombie.kill()
        owner.disarm()
        self.stream_on()

    def stream_on(self) -> None:
        """Until the warehouse has seen enough commits, or the stream has ended as it should not."""
        before = self.warehouse.commits_seen()
        wait_until(
            lambda: self.keep_streaming() and (self.is_over or self.warehouse.commits_seen() >= before + COMMITS_MIN),
            timeout_s=_STEP_S,
            what=f"{COMMITS_MIN} commits of the stream",
        )

    def repeat_a_transaction(self) -> None:
        """The last one that wrote rows without a key stands in the log topic once more, whole, and nothing follows."""
        # The capture sends nothing meanwhile, or a copy would stand inside of another transaction.
        with self.writers.still():
            assert self._catches_up(), f"the stream has ended: {self.stream.said()}"
            topic, producer = self.source.plan.source.log_topic, Producer(client_settings(resolve("kafka")))
            for message in _messages(topic, *self._last_with_copies()):
                producer.produce(topic, key=message.key(), value=message.value(), headers=message.headers() or [])
            assert producer.flush(20) == 0
        self.is_log_true = False

    def _last_with_copies(self) -> tuple[int, int]:
        """Where a transaction that added rows to `audit` begins and ends in the log, both inclusive."""
        first, behind = self.source.kafka.offsets(self.source.plan.source.log_topic)
        found, begin, has_copies, at = (0, 0), 0, False, 0
        with closing(self.source.open_log()) as reader:
            reader.assign(max(first, behind - _READ_BEFORE))
            while at < behind - 1:
                for record in reader.poll(1.0, _READ_BEFORE):
                    at = record.end - 1
                    if record.kind is RecordKind.BEGIN:
                        begin, has_copies = at, False
                    has_copies |= any((row.table, row.op) == ("audit", "c") for row in record.rows)
                    if record.kind is RecordKind.END and has_copies and begin:
                        found = begin, at
        assert found[1], "no transaction of late has added rows without a key"
        return found

    # ---- processes ------------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether a stream has ended as it should not: it is not started again."""
        return bool(check_stops(self.stops))

    def ended(self, worker: Worker, *, within_s: float, wanted: Sequence[int]) -> None:
        if worker.what == "stream":
            self.stops.append(Stop(worker.what, worker.ended(within_s), tuple(wanted)))
        else:
            super().ended(worker, within_s=within_s, wanted=wanted)

    def keep_streaming(self) -> bool:
        if not self.is_over and self.stream.is_over:
            self.ended(self.stream, within_s=1, wanted=(TRANSIENT,))
            if not self.is_over:
                self.start("stream")
        return True

    # ---- checks ---------------------------------------------------------------------------------------------------

    def caught(self) -> Caught:
        """What every check of T1 says, while no client is in the middle of something."""
        with self.writers.still():
            is_caught_up = self._catches_up()
            if not self.is_over:
                self.stop_stream()
            commits, said = self.new_commits()
            by = _by_name([*said, *map(str, check_stops(self.stops))])
            if self.is_log_true:
                by[STATE] = self.state_differences()
            if is_caught_up:
                self._ask_clients_and_source(by)
            count = self.warehouse.findings() - self.findings_before
            by[FINDINGS] = [f"{count} findings"] if count else []
        return Caught(
            {name: said for name, said in by.items() if said},
            len(commits),
            sum(commit.transfers_checked for commit in commits),
            is_caught_up,
        )

    def _ask_clients_and_source(self, by: dict[str, list[str]]) -> None:
        history = check_rows(self.writers.history.attempts, self.warehouse.dump())
        for name, said in _by_name(map(str, history)).items():
            by.setdefault(name, []).extend(said)
        _, rows = self.warehouse.state()
        by[SOURCE] = differences(rows, self.source_rows())
        by[TYPED] = self.typed_differences(typed_keys(self.kind))

    def _catches_up(self) -> bool:
        """With everything that the source has committed; never, where the stream has ended as it should not."""
        self.order(Orders())
        marker = Marker(id=f"planted-{uuid.uuid4().hex}", kind="barrier")
        wait_until(lambda: self._marks(marker), timeout_s=_STEP_S, what="the source to take a marker")
        wait_until(
            lambda: self.keep_streaming() and (self.is_over or self.warehouse.last_marker() == marker.id),
            timeout_s=_STEP_S,
            what="the marker of now in the ledger",
        )
        return not self.is_over


def planted_bank(bank: BankUnderFire) -> PlantedBank:
    return PlantedBank(**{one.name: getattr(bank, one.name) for one in fields(BankUnderFire)})


def _by_name(said: Iterable[str]) -> dict[str, list[str]]:
    """What the history checker says begins with the anomaly's name."""
    found: dict[str, list[str]] = {}
    for one in said:
        found.setdefault(one.partition(":")[0], []).append(one)
    return found


def _messages(topic: str, begin: int, end: int) -> list[Message]:
    """As they stand in the topic at these offsets, both inclusive."""
    found: list[Message] = []
    consumer = Consumer({**client_settings(resolve("kafka")), "group.id": "t1", "enable.auto.commit": False})
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, begin)])

        def is_whole() -> bool:
            found.extend(message for message in consumer.consume(500, 1.0) if message.error() is None)
            return bool(found) and found[-1].offset() >= end

        wait_until(is_whole, timeout_s=_STEP_S, what="the messages of a transaction")
    return [message for message in found if message.offset() <= end]


@contextmanager
def _slow_writer(bank: BankUnderFire) -> Iterator[None]:
    """One more client of a PostgreSQL: before each of its transactions is committed the next has written its rows."""
    stop = threading.Event()

    def begun(session: Any, number: int) -> Attempt:
        attempt_id = _SLOW_WRITER * 10**8 + number
        audit = Counter({("slow", f"{number}"): 1})
        session.execute("INSERT INTO seq VALUES (%s, %s, %s)", (_SLOW_WRITER, number, attempt_id))
        session.execute("INSERT INTO audit VALUES (%s, %s)", ("slow", f"{number}"))
        return Attempt(attempt_id, _SLOW_WRITER, "slow", Outcome.OK, number, audit=audit)

    def write() -> None:
        with (
            closing(SESSIONS[bank.kind](bank.source.root)) as one,
            closing(SESSIONS[bank.kind](bank.source.root)) as two,
        ):
            sessions = [one, two]
            attempt = begun(sessions[1], 1)
            for number in count(2):
                following = begun(sessions[number % 2], number)
                # Long enough that a row lies before the views, and its COMMIT behind them.
                is_last = stop.wait(_HELD_S)
                sessions[(number - 1) % 2].commit()
                bank.writers.history.append(attempt)
                attempt = following
                if is_last:
                    break
            sessions[number % 2].commit()
            bank.writers.history.append(attempt)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
