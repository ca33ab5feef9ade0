"""Commits into a Kafka cluster, with transactions and without: each record is known to have arrived before the control
record counts."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from seamline.adapters.kafka.client import translated
from seamline.adapters.kafka.topics import MESSAGE_BYTES_MAX, set_by
from seamline.domain.errors import CommitUnknown, ConfigError, Refused, TransientError

Headers = list[tuple[str, str | bytes | None]]
Record = tuple[bytes | None, bytes | None, Headers, int]
"""Key, value, headers, and the number of its partition or `BY_KEY`."""
# As the client's partitioner says.
BY_KEY = -1
Sealed = tuple[bytes, bytes | None]
"""Key and value of a control record."""
# The partition of control records: they have one order, also where somebody has given their topic more.
_SEALED_IN = 0
# How long the coordinator may take for an answer.
_ANSWER_S = 60.0
_POLL_EVERY = 1_000
# What a topic whose `max.message.bytes` was lowered says of a record, and one with small segments.
_LARGER_THAN_THE_TOPIC_TAKES = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
# Below `_ANSWER_S`: what an owner that is over has still to send is given up by then.
_DELIVERED_WITHIN_MS = 50_000
_SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "compression.type": "lz4",
    "linger.ms": 5,
    "message.max.bytes": MESSAGE_BYTES_MAX,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 * 1024,
    # As Kafka's own clients spread keys, so that another producer's topics can be joined with these.
    "partitioner": "murmur2_random",
}


class Sending(ABC):
    """What commits are sent by, each as `begin`, `send` for each row, `seal`, `commit`: one producer, and how many of
    the records that it was given have arrived. `settings`: as from `client_settings`. `sealed_at`: the offset of its
    newest control record. `markers`: how many offsets without a record a commit leaves behind its last one, in each
    partition that it has written. `is_fenced`: by the next one of its id, so that nothing of it arrives behind what
    that one writes."""

    markers: ClassVar[int]
    is_fenced: ClassVar[bool]

    def __init__(self, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        self.settings = settings
        self._count_anew()
        self.sealed_at = -1
        self._producer = self._made({**settings, **_SETTINGS, **own})

    def _made(self, settings: Mapping[str, Any]) -> Producer:
        return Producer(dict(settings))

    def _count_anew(self) -> None:
        self._sent = self._arrived = 0
        self._failed: tuple[str, KafkaError] | None = None
        self._offsets: dict[tuple[str, int], range] = {}

    def send(self, topic: str, records: Iterable[Record], *, table: str = "") -> int:
        """How many they are. Refused: no broker takes a record as large as one of them."""
        before, produce, delivered = self._sent, self._producer.produce, self._delivered
        for record in records:
            key, value, headers, partition = record
            try:
                try:
                    produce(topic, value, key, partition, headers=headers, on_delivery=delivered)
                except BufferError:
                    self._send_when_there_is_room(topic, record)
            except KafkaException as exc:
                if exc.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise _too_large(topic, len(value or b""), table) from exc
                raise translated(exc, doing=f"write into topic {topic}", settings=self.settings) from exc
            self._sent += 1
            if not self._sent % _POLL_EVERY:
                self._producer.poll(0)
        return self._sent - before

    def _send_when_there_is_room(self, topic: str, record: Record) -> None:
        key, value, headers, partition = record
        while True:
            self._producer.poll(0.1)
            with suppress(BufferError):
                self._producer.produce(topic, value, key, partition, headers=headers, on_delivery=self._delivered)
                return

    def arrived(self) -> Mapping[tuple[str, int], range]:
        """Wait until the brokers have all that was sent; (topic, partition) → the offsets from its first record to the
        last.

        TransientError: one did not arrive. Refused: nor will it, as its topic takes none so large. Then nothing of this
        commit may count.
        """
        left = self._producer.flush(_ANSWER_S)
        if self._failed is not None:
            raise _not_arrived(*self._failed)
        if left or self._arrived != self._sent:
            said = f"{self._sent - self._arrived} of {self._sent} have no answer after {_ANSWER_S:.0f} s"
            raise TransientError(f"records did not arrive in Kafka: {said}", hint="nothing was committed")
        return self._offsets

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def seal(self, topic: str, records: Sequence[Sealed]) -> None:
        """Once all rows have arrived: these records say so, in this order, and count by `commit` alone."""

    @abstractmethod
    def commit(self) -> None:
        """CommitUnknown: its answer is lost. TransientError: nothing was committed."""

    @abstractmethod
    def abort(self) -> bool:
        """Whether the next commit can begin; if not, only a new producer can."""

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed = self._failed or (message.topic() or "", error)
            return
        self._arrived += 1
        place, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
        known = self._offsets.get(place)
        self._offsets[place] = range(known.start if known else offset, offset + 1)


class Transactions(Sending):
    """The one producer of a transactional id: making it fences every older one, whose open transaction is aborted.

    TransientError of any call, also where somebody has fenced this one: who calls reads the ledger.
    """

    markers = 1
    is_fenced = True

    def __init__(self, settings: Mapping[str, Any], transactional_id: str, *, timeout_s: int) -> None:
        own = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_s * 1000}
        try:
            super().__init__(settings, own)
            self._producer.init_transactions(_ANSWER_S)
        except KafkaException as exc:
            if exc.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                raise ConfigError(
                    f"Kafka takes no transactions of {timeout_s} s",
                    hint="lower `transaction_timeout_s`, or raise the broker's transaction.max.timeout.ms",
                ) from exc
            raise translated(exc, doing=f"begin as {transactional_id}", settings=settings) from exc

    def begin(self) -> None:
        self._count_anew()
        try:
            self._producer.begin_transaction()
        except KafkaException as exc:
            raise translated(exc, doing="begin a transaction", settings=self.settings) from exc

    def seal(self, topic: str, records: Sequence[Sealed]) -> None:
        self.arrived()
        self.send(topic, [(key, value, [], _SEALED_IN) for key, value in records])
        self.sealed_at = self.arrived()[topic, _SEALED_IN][-1]

    def commit(self) -> None:
        try:
            self._producer.commit_transaction(_ANSWER_S)
        except KafkaException as exc:
            error = exc.args[0]
            if error.txn_requires_abort() or error.fatal():
                raise translated(exc, doing="commit a transaction", settings=self.settings) from exc
            raise CommitUnknown(f"a commit was sent to Kafka, its answer is lost: {error.str()}") from exc

    def abort(self) -> bool:
        # Without this the client ends in a fatal INVALID_TXN_STATE.
        self._producer.flush(_ANSWER_S)
        with suppress(KafkaException):
            self._producer.abort_transaction(_ANSWER_S)
            return True
        return False


class Deliveries(Sending):
    """Commits without transactions: readers see each row as it arrives, and the records of `seal` are sent once all
    rows have. Who ends before has rows delivered that its successor delivers again. It fences nobody."""

    markers = 0
    is_fenced = False

    def __init__(self, settings: Mapping[str, Any]) -> None:
        try:
            super().__init__(settings, {"message.timeout.ms": _DELIVERED_WITHIN_MS})
        except KafkaException as exc:
            raise translated(exc, doing="set up a producer", settings=settings) from exc
        self._sealed: tuple[str, Sequence[Sealed]] = ("", ())

    def begin(self) -> None:
        self._count_anew()
        self._sealed = ("", ())

    def seal(self, topic: str, records: Sequence[Sealed]) -> None:
        self.arrived()
        self._sealed = (topic, records)

    def commit(self) -> None:
        topic, records = self._sealed
        self.send(topic, [(key, value, [], _SEALED_IN) for key, value in records])
        try:
            self.sealed_at = self.arrived()[topic, _SEALED_IN][-1]
        except TransientError as exc:
            raise CommitUnknown(f"a control record was sent to Kafka, its answer is lost: {exc.message}") from exc

    def abort(self) -> bool:
        """What waits here is never sent. What is on its way may arrive: who goes on looks for it (`repeated.py`)."""
        self._producer.purge(in_flight=False)
        self._producer.flush(_ANSWER_S)
        return False


def _too_large(topic: str, size: int, table: str) -> Refused:
    return Refused(
        f"a row of {size:,} bytes is larger than a record of topic {topic} may be, {MESSAGE_BYTES_MAX:,}",
        hint="leave the table out of this destination",
        table=table,
    )


def _not_arrived(topic: str, error: KafkaError) -> Refused | TransientError:
    said = f"records did not arrive in Kafka: {topic}: {error.str()}"
    if error.code() in _LARGER_THAN_THE_TOPIC_TAKES:
        cure = set_by(topic, {"max.message.bytes": MESSAGE_BYTES_MAX})
        return Refused(
            said, hint=f"nothing was committed. Set it with Kafka's own tool, then restart the stream: {cure}"
        )
    return TransientError(said, hint="nothing was committed")
