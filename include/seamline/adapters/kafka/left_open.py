"""Hanging transactions: their producer is gone and will not end them, so a `read_committed` reader waits for ever.

A single broker that is killed between deciding on a commit and writing its markers may forget them when it starts
again (4.3.1: "these partitions are likely deleted already and hence can be skipped"; seen on 2026-11-23, when a whole
stack was killed at once). If its producer lives, the next transaction ends the open one. A Connect worker that was
killed with the broker never gets there: it reads its connectors' offsets first, and waits.
"""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from seamline.adapters.kafka.client import REQUEST_TIMEOUT_S, admin_client, asked, translated

_DOING = "end a transaction that was left open"


def end_left_open(settings: dict[str, Any], transactional_id: str, topics: Sequence[str]) -> tuple[str, ...]:
    """Abort what is open in the one partition of each topic, as the producer of this id; the topics where it was.

    For a producer that is to be restarted in any case: a living one is fenced. All topics of its transactions have to
    be given. Should the broker have ended one half of one after all, the stream finds a transaction that the log lost
    or that comes twice, and stops (ADR 17, 21).
    """
    admin = admin_client(settings)

    def end(topic: str, isolation: IsolationLevel) -> int:
        place = TopicPartition(topic, 0)
        wanted = {place: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        future = admin.list_offsets(wanted, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_S)[place]
        return int(asked(future.result, doing=_DOING, settings=settings).offset)

    is_open = tuple(
        topic
        for topic in topics
        if end(topic, IsolationLevel.READ_COMMITTED) < end(topic, IsolationLevel.READ_UNCOMMITTED)
    )
    if is_open:
        try:
            _abort(settings, transactional_id, is_open)
        except KafkaException as exc:
            raise translated(exc, doing=_DOING, settings=settings) from exc
    return is_open


def _abort(settings: dict[str, Any], transactional_id: str, topics: Sequence[str]) -> None:
    """The marker that ends a transaction of ours ends an older one of the same producer too."""
    producer = Producer({**settings, "transactional.id": transactional_id})
    producer.init_transactions(REQUEST_TIMEOUT_S)
    producer.begin_transaction()
    for topic in topics:
        # Compacted topics take no record without a key. Nobody ever reads this one.
        producer.produce(topic, key=b"left open", value=b"", partition=0)
    producer.flush(REQUEST_TIMEOUT_S)
    producer.abort_transaction(REQUEST_TIMEOUT_S)
