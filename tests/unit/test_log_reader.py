"""What the client shows among the messages: errors that it mends by itself, and errors that end reading."""

from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError

from seamline.adapters.kafka.log_reader import without_errors
from seamline.domain.errors import PositionLost

ENDS = PositionLost("the log is gone")


@dataclass(frozen=True)
class Taken:
    number: int
    code: int | None = None

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)


def trouble_of(error: KafkaError) -> PositionLost | None:
    return ENDS if error.code() == KafkaError.OFFSET_OUT_OF_RANGE else None


@pytest.mark.parametrize(
    ("codes", "good", "trouble"),
    [
        ((None, None), [0, 1], None),
        ((None, KafkaError._TRANSPORT, None), [0, 2], None),  # noqa: SLF001
        ((None, KafkaError.OFFSET_OUT_OF_RANGE, None), [0], ENDS),
        ((KafkaError._TRANSPORT, None, KafkaError.OFFSET_OUT_OF_RANGE, None), [1], ENDS),  # noqa: SLF001
        ((), [], None),
    ],
)
def test_messages_are_taken_up_to_the_error_that_ends_reading(
    codes: tuple[int | None, ...], good: list[int], trouble: PositionLost | None
) -> None:
    messages = [Taken(number, code) for number, code in enumerate(codes)]
    taken, found = without_errors(messages, trouble_of)  # type: ignore[arg-type]
    assert ([message.number for message in taken], found) == (good, trouble)  # type: ignore[attr-defined]
