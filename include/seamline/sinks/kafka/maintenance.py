"""Maintenance of a destination of topics: ledgers, and topics that dead runs have left."""

import time
from collections.abc import Sequence
from typing import Any

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports.maintenance import INCREMENTAL_KEPT_DAYS, LetGo
from seamline.sinks.kafka.control import StreamState, read_control
from seamline.sinks.kafka.loads import begun_at
from seamline.sinks.kafka.options import options_of
from seamline.sinks.kafka.publish import namespace_of
from seamline.sinks.kafka.topics import DestinationTopics
from seamline.sinks.kafka.transaction import Transactions

_KEPT_S = INCREMENTAL_KEPT_DAYS * 86_400


class KafkaMaintenance:
    """`ports.maintenance.DestinationMaintenance` of one destination."""

    def __init__(self, destination: DestinationPlan, settings: dict[str, Any]) -> None:
        self._destination = destination
        self._settings = settings
        self._options = options_of(destination)
        self._topics = DestinationTopics(settings, self._options)

    def ledgers(self) -> Sequence[LedgerPlace]:
        found = read_control(self._settings, self._options.control_topic).states
        return [
            LedgerPlace(str(stream), state.row.topic, state.row.topic_id, state.row.next_offset)
            for stream, state in found.items()
        ]

    def let_go(self) -> LetGo:
        ended = self._end_dead_snapshots()
        return LetGo(findings=0, incremental_snapshots=ended, staged=self._drop_staged())

    def close(self) -> None:
        return

    def _end_dead_snapshots(self) -> tuple[str, ...]:
        """Incremental snapshots into this destination's streams that have not moved for long: each would hold the log
        for ever."""
        before_ms = (time.time() - _KEPT_S) * 1000
        dead = [
            state
            for stream, state in read_control(self._settings, self._options.control_topic).states.items()
            if INCREMENTAL in stream.sync and stream.destination == self._destination.name
            if state.written_ms < before_ms
        ]
        for state in dead:
            self._end(state)
        return tuple(str(state.row.stream) for state in dead)

    def _end(self, state: StreamState) -> None:
        """A worker that comes back finds itself fenced. One that has moved again just now begins again."""
        stream = state.row.stream
        name = self._options.transactional_id(stream)
        transactions = Transactions(self._settings, name, timeout_s=self._options.transaction_timeout_s)
        transactions.begin()
        transactions.seal(self._options.control_topic, [(key, None) for key in state.keys])
        transactions.commit()
        self._topics.delete(self._topics.names(f"{namespace_of(self._destination, stream)}."))

    def _drop_staged(self) -> int:
        """What loads have staged and nobody has published for long; how many."""
        now = time.time()
        staged = self._topics.names(f"{self._destination.stage_namespace}.")
        old = [topic for topic in staged if (begun := begun_at(topic)) is not None and begun < now - _KEPT_S]
        self._topics.delete(old)
        return len(old)


def open_maintenance(destination: DestinationPlan) -> KafkaMaintenance:
    return KafkaMaintenance(destination, client_settings(resolve(destination.connection)))
