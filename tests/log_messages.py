"""A message of a log topic as a decoder is given it, without a broker."""

from collections.abc import Sequence
from dataclasses import dataclass

from seamline.adapters.debezium.envelope import Decoder
from seamline.domain.log import LogRecord


@dataclass(frozen=True, slots=True)
class Message:
    at: int
    its_key: bytes | None
    its_value: bytes | None
    its_headers: Sequence[tuple[str, bytes | None]] | None = None

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.its_key

    def value(self) -> bytes | None:
        return self.its_value

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        return self.its_headers


def decode(decoder: Decoder, *messages: Message) -> list[LogRecord]:
    records: list[LogRecord] = []
    decoder.decode(messages, records)
    return records
