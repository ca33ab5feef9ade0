"""The rows of a topic as they stand at an offset of each partition: its records, one after another."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Message

from seamline.adapters.kafka.committed import committed
from seamline.kinds.held_rows import HeldRows
from seamline.sinks.kafka.formats import GOES, Form
from seamline.sinks.kafka.repeated import Repeated


class Fold(HeldRows):
    """`ends`: up to where the topic was read."""

    def __init__(self, *, keyed: bool, partitions: int) -> None:
        super().__init__(keyed=keyed)
        self.ends: tuple[int, ...] = (0,) * partitions
        self._passed_keys: set[bytes] = set()

    def read_on(
        self,
        settings: Mapping[str, Any],
        topic: str,
        ends: Sequence[int],
        form: Form,
        repeated: Sequence[Repeated] = (),
    ) -> "Fold":
        """Up to `ends`, from where it was read to before. `repeated`: what does not count."""
        for some in committed(settings, topic, ends, starts=self.ends):
            messages = self._counting(some, repeated) if repeated else some
            if self._keyed:
                self.put((message.key() or b"", _row_in(message, form)) for message in messages)
            else:
                self.count(_copies_in(messages, form))
        self.ends = tuple(ends)
        return self

    def held_keys(self) -> Iterator[bytes]:
        """Also those whose records do not count: who reads the topic alone has rows of them."""
        yield from super().held_keys()
        yield from (key for key in self._passed_keys if self.row(key) is None)

    def empty(self) -> None:
        super().empty()
        self._passed_keys = set()

    def _counting(self, messages: Sequence[Message], repeated: Sequence[Repeated]) -> list[Message]:
        counting = []
        for message in messages:
            if not any(one.has(message) for one in repeated):
                counting.append(message)
            elif self._keyed:
                self._passed_keys.add(message.key() or b"")
        return counting


def _row_in(message: Message, form: Form) -> bytes | None:
    value = message.value()
    return None if value is None or _goes(message) else form.row_in(value)


def _copies_in(messages: Sequence[Message], form: Form) -> Counter[bytes]:
    found = Counter[bytes]()
    for message in messages:
        found[form.row_in(message.value() or b"")] += -1 if _goes(message) else 1
    return found


def _goes(message: Message) -> bool:
    return ("op", GOES) in (message.headers() or ())
